/* test_pipeline.c — laws of stages: contiguous layers of about equal cost, an order that ends and
 * keeps few parts in memory. */
#include "tests/support/check.h"

#include "core/base/rng.h"
#include "core/engine/pipeline.h"
#include "tests/support/residual_front.h"

enum { MOST_LAYERS = 7, MOST_STAGES = 8 };

/* A network of 1 to MOST_LAYERS layers with widths that follow from `which`. */
static tt_model network(int which)
{
  int64_t hidden[MOST_LAYERS], layers = which % MOST_LAYERS;
  tt_model m;
  for (int64_t l = 0; l < layers; l++)
    hidden[l] = 1 + tt_random(3, 4, TT_PURPOSE_INIT, (uint32_t)which, (uint32_t)l).v[0] % 90;
  tt_model_shape shape = {.inputs = 20 + which,
                          .targets = 2,
                          .hidden = hidden,
                          .layers = layers,
                          .layer_norm = which % 2,
                          .output = TT_OUTPUT_mean};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  return m;
}

static double cost(const tt_model *m, int first, int end)
{
  double sum = 0.0;
  for (int l = first; l < end; l++)
    sum += (l ? 3.0 : 2.0) * (double)(m->layer[l].in * m->layer[l].out);
  return sum;
}

/* Largest cost of a stage in the best of all cuts of the layers from `first` on. */
static double best_cut(const tt_model *m, int first, int stages)
{
  double best = HUGE_VAL;
  if (stages == 1) return cost(m, first, m->layers);
  for (int end = first + 1; end <= m->layers - stages + 1; end++) {
    double rest = best_cut(m, end, stages - 1), own = cost(m, first, end);
    best = fmin(best, fmax(own, rest));
  }
  return best;
}

TT_TEST (stages_are_contiguous_layers_of_the_least_largest_cost) {
  for (int which = 0; which < 60; which++) {
    const tt_model m = network(which);
    for (int stages = 1; stages <= MOST_STAGES; stages++) {
      tt_pipeline_stage cut[MOST_STAGES];
      int used = tt_pipeline_used(&m, stages), layer = 0;
      int64_t param = 0;
      double largest = 0.0;
      tt_pipeline_cut(&m, stages, cut);
      TT_CHECK(used, ==, stages < m.layers ? stages : m.layers);
      for (int s = 0; s < stages; s++) {
        TT_CHECK(cut[s].first, ==, layer);
        TT_CHECK(cut[s].count > 0, ==, s < used);
        TT_CHECK(cut[s].params.first, ==, param);
        layer += cut[s].count;
        param += cut[s].params.count;
        largest = fmax(largest, cost(&m, cut[s].first, layer));
      }
      TT_CHECK(layer, ==, m.layers);
      TT_CHECK(param, ==, m.params);
      TT_CHECK(largest, ==, best_cut(&m, 0, used));
      double speedup = cost(&m, 0, m.layers) / largest * (1.0 - tt_pipeline_bubble(used, 8));
      TT_CHECK(fabs(tt_pipeline_speedup(&m, (tt_pipeline_grid){used, 1}, 8) - speedup), <, 1e-9);
    }
  }
}

/* Layers before the first one that trains cost a forward pass only; that one has no gradient of its
 * input. */
TT_TEST (stages_know_layers_that_keep_their_weights) {
  const int64_t hidden[] = {40, 40, 40};
  tt_pipeline_stage cut[2];
  tt_model m;
  tt_model_shape shape = {
      .inputs = 40, .targets = 40, .hidden = hidden, .layers = 3, .output = TT_OUTPUT_mean};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  for (int frozen = 0; frozen < 3; frozen++) {
    TT_CHECK_OK(tt_model_set_rates(frozen, NULL, 0, &m));
    for (int l = 0; l <= 4; l++) TT_CHECK(tt_pipeline_has_gradient(&m, l), ==, l > frozen);
    tt_pipeline_cut(&m, 2, cut); /* costs 2 3 3 3, 1 2 3 3, 1 1 2 3 */
    TT_CHECK(cut[0].count, ==, frozen == 0 ? 2 : 3);
  }
}

/* Each part of each layer has one rank, each parameter too, and neighbors in a column have the same
 * parts. */
TT_TEST (ranks_in_a_grid_divide_layers_parts_and_parameters) {
  enum { PARTS = 5, MOST_RANKS = 11 };
  for (int which = 0; which < 60; which++) {
    const tt_model m = network(which);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
      const tt_pipeline_grid grid = tt_pipeline_grid_of(&m, 3, ranks);
      int64_t param = 0, passes = 0;
      TT_CHECK(grid.stages, ==, tt_pipeline_used(&m, ranks < 3 ? ranks : 3));
      TT_CHECK(grid.stages * grid.columns, <=, ranks);
      TT_CHECK(grid.stages * (grid.columns + 1), >, ranks);
      for (int r = 0; r < ranks; r++) {
        const tt_pipeline_place place = tt_pipeline_place_of(&m, grid, PARTS, r);
        TT_CHECK(place.segment.first, ==, param);
        param += place.segment.count;
        passes += place.layers.count * place.parts.count;
        if (r >= grid.stages * grid.columns)
          TT_CHECK(place.layers.count + place.segment.count, ==, 0);
        if (place.stage < 1) continue;
        const tt_pipeline_place before = tt_pipeline_place_of(&m, grid, PARTS, r - grid.columns);
        TT_CHECK(before.stage, ==, place.stage - 1);
        TT_CHECK(before.parts.first, ==, place.parts.first);
        TT_CHECK(before.parts.count, ==, place.parts.count);
      }
      TT_CHECK(param, ==, m.params);
      TT_CHECK(passes, ==, m.layers * PARTS);
    }
  }
}

/* Layers inside a residual are in one stage; stages follow each other, in layers and parameters. */
TT_TEST (stages_do_not_divide_a_residual) {
  enum { FRONT = 38 };
  tt_model m;
  tt_front front = residual_front(TT_ACT_relu);
  const int64_t hidden[] = {8, 8};
  const tt_model_shape shape = {.inputs = RESIDUAL_INPUTS,
                                .targets = 3,
                                .hidden = hidden,
                                .layers = 2,
                                .output = TT_OUTPUT_mean,
                                .front = &front};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  TT_CHECK(tt_pipeline_layers(&m), ==, FRONT + 3);
  TT_CHECK(tt_pipeline_used(&m, 64), ==, 1 + 5 + 1 + 5 + 1 + 1 + 1 + 3); /* of 41 layers */
  for (int stages = 1; stages <= 20; stages++) {
    tt_pipeline_stage cut[20];
    int layer = 0;
    int64_t param = 0, values = RESIDUAL_INPUTS;
    tt_pipeline_cut(&m, stages, cut);
    for (int s = 0; s < stages; s++) {
      TT_CHECK(cut[s].first, ==, layer);
      TT_CHECK(cut[s].params.first, ==, param);
      if (cut[s].count > 0) TT_CHECK(tt_pipeline_values(&m, layer), ==, values);
      for (int l = layer; l < layer + cut[s].count && l < FRONT; l++)
        TT_CHECK(m.front.layer[l].from >= layer - 1 && (m.front.layer[l].skip == TT_FRONT_NO_SKIP ||
                                                        m.front.layer[l].skip >= layer - 1),
                 ==, 1);
      layer += cut[s].count;
      param += cut[s].params.count;
      values = layer < FRONT ? 64 : layer == FRONT ? 32 : layer < FRONT + 3 ? 8 : 3;
    }
    TT_CHECK(layer, ==, FRONT + 3);
    TT_CHECK(param, ==, m.params);
    TT_CHECK(tt_pipeline_values(&m, FRONT + 3), ==, 3);
  }
  tt_front_destroy(&front);
}

/* Stages of equal cost, each in its own order: the parts that it has passed on. */
typedef struct running {
  int64_t forward, backward, window;
  int64_t free_at; /* time at which its present pass ends */
} running;

/* Stage s begins its next pass at `time` if its message is there. Returns 1 if it did. */
static int begin_pass(running *at, int stages, int s, int64_t parts, int64_t time)
{
  running *x = &at[s];
  if (x->free_at > time || x->backward == parts) return 0;
  if (tt_pipeline_is_forward(parts, x->window, x->forward, x->backward)) {
    if (s > 0 && (at[s - 1].forward <= x->forward ||
                  (at[s - 1].forward == x->forward + 1 && at[s - 1].free_at > time)))
      return 0;
    x->forward++;
  } else {
    if (s < stages - 1 && (at[s + 1].backward <= x->backward ||
                           (at[s + 1].backward == x->backward + 1 && at[s + 1].free_at > time)))
      return 0;
    x->backward++;
  }
  x->free_at = time + 1;
  TT_CHECK(x->forward - x->backward, <=, x->window);
  return 1;
}

/* Steps of time until all stages have done all parts. Every pass takes one; a message arrives when
 * the pass of its sender ends. Its two last passes of a kind end at free_at at the latest. */
static int64_t run(int stages, int64_t parts)
{
  running at[MOST_STAGES] = {{0}};
  int64_t time = 0, passes = 0;
  for (int s = 0; s < stages; s++) at[s].window = tt_pipeline_window(stages, s, parts);
  for (; passes < 2 * stages * parts; time++) {
    running before[MOST_STAGES];
    memcpy(before, at, sizeof at);
    for (int s = 0; s < stages; s++) {
      running now[MOST_STAGES];
      memcpy(now, before, sizeof now);
      passes += begin_pass(now, stages, s, parts, time);
      at[s] = now[s];
    }
    TT_CHECK(time, <, 4 * (parts + stages)); /* otherwise a stage waits without end */
  }
  return time;
}

TT_TEST (every_order_ends_and_waits_as_the_formula_says) {
  for (int stages = 1; stages <= MOST_STAGES; stages++)
    for (int64_t parts = 1; parts < 20; parts++) {
      int64_t time = run(stages, parts);
      TT_CHECK(time, ==, 2 * (parts + stages - 1));
      double waits = 1.0 - (double)(2 * parts) / (double)time;
      TT_CHECK(fabs(waits - tt_pipeline_bubble(stages, parts)), <, 1e-12);
      TT_CHECK(tt_pipeline_window(stages, stages - 1, parts), ==, 1);
    }
}
