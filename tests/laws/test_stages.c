/* test_stages.c — law of stages (engine.h): engines that share the layers of a member train it to
 * the bits of one engine, through memory of the host or of the device. Here one process plays all
 * ranks; those of MPI: tests/mpi. */
#include "tests/support/problem.h"
#include "tests/support/residual_front.h"

#include "core/engine/pipeline.h"
#include "cuda/plan/layered_sizes.h"
#include "tests/support/memory_hook.h"

enum { ROWS = 150, INPUTS = 5, EPOCHS = 2, PARTS = 4, MOST_STAGES = 4 };

/* Case i has row i of the tables of losses, optimizers and averages.
 *   convolutions  1: the network is a residual network of convolutions */
static problem make_network(int i, int convolutions)
{
  const int64_t hidden[] = {70, 70, 20}, inputs = convolutions ? RESIDUAL_INPUTS : INPUTS;
  tt_loss loss = (tt_loss)(i % TT_LOSS_COUNT);
  tt_output output = tt_loss_output_head(loss);
  tt_activation activation = (tt_activation)(i % TT_ACT_COUNT);
  problem p = problem_make(ROWS, inputs, 1, 1, 1, hidden, 3, TT_ACT_silu, output);
  tt_model_shape shape = usual_shape(inputs, 1, hidden, 3, activation, output);
  tt_front front = {0};
  if (convolutions) front = residual_front(activation);
  shape.front = &front;
  shape.layer_norm = i % 2;
  shape.residual = i % 3 != 2;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  if (i % 3 == 1) set_rates(&p.c.model, i);
  p.c.loss = loss;
  p.c.optimizer = (tt_optimizer)(i % TT_OPT_COUNT);
  p.c.average = (tt_weight_average)(i % TT_AVERAGE_COUNT);
  p.c.batch_size = i % 4 == 1 ? 37 : 70; /* the last part of 37 rows is empty */
  p.c.parts = PARTS - i % 2;
  p.c.max_epochs = EPOCHS - (DOUBLE && convolutions); /* convolutions take longest on the double */
  tt_hyper *h = &p.c.member[0].hyper;
  h->epochs = (int32_t)p.c.max_epochs;
  h->clip_norm = i % 2 ? 0.05f : 0.0f;
  h->dropout = i % 3 ? 0.2f : 0.0f;
  h->label_noise = i % 4 == 2 && loss != TT_LOSS_cross_entropy ? 0.1f : 0.0f;
  h->average_decay = 0.7f;
  return p;
}

static problem make(int i) { return make_network(i, 0); }

/* An engine for each stage, and what a stage sends: all parts at once. */
typedef struct stages {
  problem *p;
  const tt_engine_ops *ops;
  int count;
  tt_pipeline_stage at[MOST_STAGES];
  tt_engine *engine[MOST_STAGES];
  tt_pipeline_step step[MOST_STAGES];
  float *forward[MOST_STAGES], *backward[MOST_STAGES]; /* [parts][values of a part] */
  float *gradient, *weights[MOST_STAGES];              /* [P] of all stages */
  int64_t values, passed[MOST_STAGES][2];
  int on_device; /* these arrays are memory of the device */
} stages;

static int64_t params_of(const stages *x) { return x->p->c.model.params; }

/* The arrays of stage s, in one block. */
static void reserve(stages *x, int s)
{
  int64_t arrays = x->p->c.parts * x->values;
  float *place = NULL;
  if (x->on_device)
    TT_CHECK_OK(x->ops->team->device_scratch(x->engine[s], 2 * arrays + 2 * params_of(x), &place));
  else
    TT_CHECK_OK(TT_ALLOC(place, 2 * arrays + 2 * params_of(x)));
  x->forward[s] = place;
  x->backward[s] = place + arrays;
  x->weights[s] = place + 2 * arrays;
  if (s == 0) x->gradient = place + 2 * arrays + params_of(x);
}

static void copy(const stages *x, float *dst, const float *src, int64_t count)
{
  if (x->on_device)
    TT_CHECK_OK(x->ops->team->device_copy(x->engine[0], dst, src, count));
  else
    memcpy(dst, src, (size_t)count * sizeof *dst);
}

static void start(problem *p, way variant, int count, stages *dst)
{
  *dst = (stages){.p = p,
                  .ops = variant.ops,
                  .count = count,
                  .values = 70 * 80,
                  .on_device = variant.use.device_exchange};
  tt_pipeline_cut(&p->c.model, count, dst->at);
  for (int s = 0; s < count; s++) {
    problem_start(p, variant, everyone(p));
    dst->engine[s] = p->engine;
    p->engine = NULL;
    reserve(dst, s);
  }
}

static void end(stages *x)
{
  for (int s = 0; s < x->count; s++) {
    x->ops->destroy(&x->engine[s]);
    if (!x->on_device) tt_free(x->forward[s]);
  }
}

/* The next pass of a stage, if its input is there; 1 if it was. */
static int pass(stages *x, int s)
{
  int64_t parts = x->p->c.parts, window = tt_pipeline_window(x->count, s, parts);
  int64_t *done = x->passed[s];
  if (done[1] == parts) return 0;
  int is_forward = tt_pipeline_is_forward(parts, window, done[0], done[1]), which = !is_forward;
  int neighbor = is_forward ? s - 1 : s + 1;
  int64_t i = done[which];
  if (neighbor >= 0 && neighbor < x->count && x->passed[neighbor][which] <= i) return 0;
  float **arrays = is_forward ? x->forward : x->backward;
  const float *in = neighbor >= 0 && neighbor < x->count ? arrays[neighbor] + i * x->values : NULL;
  float *out = arrays[s] + i * x->values;
  TT_CHECK_OK((is_forward ? x->ops->team->stage_forward
                          : x->ops->team->stage_backward)(x->engine[s], i, in, out));
  if (!is_forward) TT_CHECK_OK(x->ops->team->stage_gradient(x->engine[s], i));
  done[which]++;
  return 1;
}

/* Norm of the gradient: the gradients of all stages make one. */
static double norm_of(stages *x)
{
  double sum = 0.0;
  const tt_slice all = {0, params_of(x)};
  double block[16] = {0.0};
  for (int s = 0; s < x->count; s++)
    copy(x, x->gradient + x->at[s].params.first, x->step[s].sum[0] + x->at[s].params.first,
         x->at[s].params.count);
  TT_CHECK(tt_norm_blocks(all.count), <, 16);
  TT_CHECK_OK(x->ops->team->squares(x->engine[0], 0, all, x->gradient, block));
  for (int64_t b = 0; b < tt_norm_blocks(all.count); b++) sum += block[b];
  return sum;
}

/* All engines get the weights, averages and slots of all stages. */
static void share(stages *x)
{
  tt_state *s = NULL, *all = NULL;
  for (int k = 0; k < x->count; k++)
    for (int source = 0; source < x->count; source++) {
      tt_slice slice = x->at[source].params;
      if (k != source)
        copy(x, x->weights[k] + slice.first, x->weights[source] + slice.first, slice.count);
    }
  tt_state_shape shape = tt_cohort_state_shape(&x->p->c);
  TT_CHECK_OK(tt_state_create(everyone(x->p), shape, &s));
  TT_CHECK_OK(tt_state_create(everyone(x->p), shape, &all));
  for (int k = 0; k < x->count; k++) {
    tt_slice own = x->at[k].params;
    size_t bytes = (size_t)own.count * sizeof(float);
    TT_CHECK_OK(x->ops->save(x->engine[k], everyone(x->p), s));
    if (s->averages)
      memcpy(TT_FIELD(all, average) + own.first, TT_FIELD(s, average) + own.first, bytes);
    for (int64_t j = 0; j < s->slots; j++)
      memcpy(TT_FIELD(all, slots) + j * s->params + own.first,
             TT_FIELD(s, slots) + j * s->params + own.first, bytes);
  }
  for (int k = 0; k < x->count; k++) {
    TT_CHECK_OK(x->ops->save(x->engine[k], everyone(x->p), s));
    memcpy(TT_FIELD(s, slots), TT_FIELD(all, slots),
           (size_t)(s->slots * s->params) * sizeof(float));
    if (s->averages)
      memcpy(TT_FIELD(s, average), TT_FIELD(all, average), (size_t)s->params * sizeof(float));
    TT_CHECK_OK(x->ops->load(x->engine[k], everyone(x->p), s));
  }
  tt_state_destroy(&s);
  tt_state_destroy(&all);
}

/* One step; 0 if the member does not train. */
static int step(stages *x)
{
  int64_t parts = x->p->c.parts;
  int last = x->count - 1, moved = 1, ended = 0;
  memset(x->passed, 0, sizeof x->passed);
  for (int s = 0; s < x->count; s++)
    TT_CHECK_OK(x->ops->team->stage_begin(x->engine[s], 0, &x->at[s], (tt_slice){0, parts},
                                          tt_pipeline_window(x->count, s, parts), &x->step[s]));
  if (!x->step[0].training) return 0;
  while (moved) {
    moved = 0;
    for (int s = 0; s < x->count; s++) moved |= pass(x, s);
  }
  for (int s = 0; s < x->count; s++) TT_CHECK(x->passed[s][1], ==, parts);
  double squares = norm_of(x), loss = *x->step[last].loss;
  tt_slice given = {0, x->step[0].ends_epoch ? params_of(x) : 0};
  for (int s = 0; s < x->count; s++)
    TT_CHECK_OK(x->ops->team->advance(x->engine[s], 0, x->at[s].params,
                                      x->gradient + x->at[s].params.first, squares,
                                      given.count ? x->weights[s] + x->at[s].params.first : NULL));
  if (given.count) share(x);
  for (int s = 0; s < x->count; s++) {
    TT_CHECK_OK(x->ops->team->accept(x->engine[s], 0, given, x->weights[s], loss, NULL, &ended));
    TT_CHECK(ended, ==, x->step[s].ends_epoch);
  }
  return 1;
}

static void same_as_one_engine(way variant, int i, int convolutions, int count)
{
  problem p = make_network(i, convolutions);
  stages x;
  tt_state *want = problem_run(&p, variant, everyone(&p), 4), *got = NULL;
  TT_CHECK_OK(tt_state_create(everyone(&p), tt_cohort_state_shape(&p.c), &got));
  variant.use.threads = 1 + i % 2; /* they share rows and outputs */
  start(&p, variant, count, &x);
  while (step(&x)) {}
  for (int s = 0; s < count; s++) {
    TT_CHECK_OK(variant.ops->save(x.engine[s], everyone(&p), got));
    same_member(want, got, 0, "a stage");
  }
  end(&x);
  tt_state_destroy(&want);
  tt_state_destroy(&got);
  problem_free(&p);
}

/* On GPUs by the layered path. */
static int has_stages(way variant)
{
  if (variant.ops == &tt_engine_cpu) return 1;
  return variant.ops->team && variant.use.path == TT_GPU_PATH_layered;
}

/* Every row of the tables is in one case with memory of the host and in one with memory of the
 * device. */
static way through(way variant, int is_device)
{
  variant.use.device_exchange = is_device && variant.ops->team->device_scratch;
  return variant;
}

TT_TEST (stages_give_the_bits_of_one_engine) {
  int cases = (int)TT_LOSS_COUNT;
  if ((int)TT_OPT_COUNT > cases) cases = (int)TT_OPT_COUNT;
  if ((int)TT_ACT_COUNT > cases) cases = (int)TT_ACT_COUNT;
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < 2 * cases && has_stages(*w); i++)
      if (has_turn(*w, i)) same_as_one_engine(through(*w, i < cases), i, 0, 1 + i % MOST_STAGES);
}

/* Stages end inside of the front, at its end and behind it. */
TT_TEST (stages_of_a_residual_network_give_the_bits_of_one_engine) {
  for (const way *w = every_way(); w->name; w++)
    for (int i = DOUBLE ? MOST_STAGES - 1 : 0; i < 2 * MOST_STAGES && has_stages(*w);
         i += DOUBLE ? 2 * MOST_STAGES : 1)
      if (has_turn(*w, i))
        same_as_one_engine(through(*w, i < MOST_STAGES), i, 1, 1 + i % MOST_STAGES);
}

TT_TEST (a_loss_that_is_not_finite_is_reported_by_the_last_stage) {
  for (const way *w = every_way(); w->name; w++) {
    if (!has_stages(*w)) continue;
    problem p = make(0);
    stages x;
    for (int64_t r = 0; r < p.d->rows; r++) p.d->y[r] = (float)INFINITY;
    start(&p, *w, 2, &x);
    for (int s = 0; s < 2; s++)
      TT_CHECK_OK(x.ops->team->stage_begin(x.engine[s], 0, &x.at[s], (tt_slice){0, p.c.parts},
                                           tt_pipeline_window(2, s, p.c.parts), &x.step[s]));
    for (int moved = 1; moved;) moved = pass(&x, 0) | pass(&x, 1);
    TT_CHECK(isfinite(*x.step[1].loss) != 0, ==, 0);
    end(&x);
    problem_free(&p);
  }
}

/* Bytes of a stage, besides those of its engine: held now, and as planned. */
static int64_t held_bytes(way variant)
{
#ifdef TT_CUDA_DOUBLE
  if (!variant.ops->host_bytes) return tt_double_count().bytes + tt_double_count().pinned_bytes;
#endif
  (void)variant;
  return tt_hook_held();
}

static int64_t planned_bytes(way variant, const problem *p, const tt_pipeline_stage *stage,
                             tt_slice parts, int64_t window)
{
  const tt_slice all = {0, p->c.members};
  const tt_engine_share share = {parts, stage, window};
  if (variant.ops->host_bytes)
    return variant.ops->host_bytes(&p->c, all, ROWS, &share, &variant.use) -
           variant.ops->host_bytes(&p->c, all, ROWS, NULL, &variant.use);
  const tt_layered_sizes s = tt_layered_sizes_of(&p->c, all, ROWS, 0, 0);
  return tt_layered_share_bytes(&s, &p->c, &share) + tt_layered_exchanged_bytes(&p->c, &share);
}

/* On GPUs only the double counts the bytes. */
TT_TEST (stages_hold_the_planned_bytes) {
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int k = 0; k < n; k++)
    for (int i = 0; i < 9 && has_stages(variant[k]) && (variant[k].ops->host_bytes || DOUBLE);
         i++) {
      if (!variant[k].ops->host_bytes && !has_turn(variant[k], i)) continue;
      problem p = make_network(i, i >= 6);
      stages x;
      variant[k].use.threads = 1 + i % 3;
      start(&p, variant[k], 3, &x);
      for (int s = 0; s < 3; s++) {
        const tt_slice parts = {i % 2, p.c.parts - i % 2 - i % 3 / 2};
        int64_t window = tt_pipeline_window(3, s, parts.count), before = held_bytes(variant[k]);
        TT_CHECK_OK(x.ops->team->stage_begin(x.engine[s], 0, &x.at[s], parts, window, &x.step[s]));
        TT_CHECK(held_bytes(variant[k]) - before, ==,
                 planned_bytes(variant[k], &p, &x.at[s], parts, window));
      }
      end(&x);
      problem_free(&p);
    }
}
