/* test_block_plan.c — laws of the block path's plans: arrays do not overlap and lie inside the
 * available memory, rows lie on different banks, the memory of a plan grows with the shape; and
 * which shapes fit on which device. */
#include "cuda/plan/block_plan.h"
#include "tests/unit/cuda_plan/plans.h"

#include <math.h>
#include <string.h>

static void check_params(const tt_model *m, const tt_block_plan *p)
{
  map q = map_of(TT_BLOCK_HEADER_FLOATS, TT_BLOCK_HEADER_FLOATS + p->params);
  TT_CHECK(p->params % 4, ==, 0);
  for (int l = 0; l < p->layers; l++) {
    const tt_block_layer *n = &p->layer[l];
    TT_CHECK(n->source, ==, m->layer[l].weight);
    TT_CHECK(n->source + n->in * n->out, ==, m->layer[l].bias);
    TT_CHECK(n->stride, >=, n->in);
    take(&q, TT_BLOCK_HEADER_FLOATS + n->weight, (int64_t)n->out * n->stride);
    take(&q, TT_BLOCK_HEADER_FLOATS + n->bias, n->out);
  }
}

static void check_plan(const tt_cohort *c, tt_precision precision, int64_t shared_bytes)
{
  static map shared;
  tt_block_plan p;
  if (!tt_block_plan_make(c, precision, shared_bytes, &p)) {
    TT_CHECK(tt_block_min_bytes(c, precision), >, shared_bytes);
    return;
  }
  shared = map_of(TT_BLOCK_HEADER_FLOATS, p.bytes / 4);
  TT_CHECK(p.bytes, <=, shared_bytes);
  TT_CHECK(p.bytes, >=, tt_block_min_bytes(c, precision));
  TT_CHECK(p.rows % TT_BLOCK_TILE_ROWS, ==, 0);
  TT_CHECK(p.rows, <=, c->batch_size + TT_BLOCK_TILE_ROWS - 1);
  TT_CHECK(p.piece, ==, TT_BLOCK_CHUNKS * p.chunk);
  TT_CHECK(p.piece, <=, p.rows);
  TT_CHECK((int64_t)p.piece * p.pieces, >=, c->batch_size);
  TT_CHECK((int64_t)p.piece * (p.pieces - 1), <, c->batch_size);
  TT_CHECK(p.slots_shared, <=, p.gradient_shared ? p.slots : 0);
  take(&shared, p.weights, p.params);
  if (p.gradient_shared) take(&shared, p.gradient, p.params);
  take(&shared, p.slot, (int64_t)p.slots_shared * p.params);
  TT_CHECK(tt_block_scratch_floats(&p), ==,
           (int64_t)p.params * (1 + p.slots - p.gradient_shared - p.slots_shared));
  take(&shared, p.x, (int64_t)p.rows * p.x_ld);
  for (int l = 0; l < p.layers; l++) {
    const tt_block_layer *n = &p.layer[l];
    take(&shared, n->output, (int64_t)p.rows * n->ld);
    if (n->slope != n->output) take(&shared, n->slope, (int64_t)p.rows * n->ld);
    TT_CHECK(n->slope != n->output, ==, p.stores_slope && l < p.layers - 1);
    TT_CHECK(n->groups, >=, 1);
    TT_CHECK(TT_BLOCK_CHUNKS % n->groups, ==, 0);
    TT_CHECK(n->groups * n->share, ==, p.piece);
    int largest_tile = n->forward > n->backward ? n->forward : n->backward;
    TT_CHECK(largest_tile > n->gradient ? largest_tile : n->gradient, <=, p.largest_tile);
  }
  take(&shared, p.y, (int64_t)p.rows * c->model.targets);
  take(&shared, p.weight, p.rows);
  take(&shared, p.row, p.rows);
  check_params(&c->model, &p);
}

TT_TEST (arrays_of_a_plan_do_not_overlap) {
  const int64_t widths[] = {1, 2, 3, 4, 5, 16, 31, 32, 50, 64, 96, 128, 130, 256, 700};
  const int64_t batches[] = {1, 20, 64, 200, 256, 1000, 1048576};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int64_t layers = 0; layers <= 4; layers += 2)
      for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int d = 0; d < 3; d++)
          for (int act = 0; act < TT_ACT_COUNT; act += 5) {
            int64_t hidden[] = {widths[w], widths[w] + 1, 7, widths[w]};
            tt_cohort c = shape(1 + widths[w] % 9, hidden, layers, 1 + widths[w] % 3,
                                (tt_activation)act, batches[b]);
            check_plan(&c, (tt_precision)(b % TT_PRECISION_COUNT), devices[d]);
          }
}

/* Eight rows that lanes read at once lie on the eight groups of four banks; tiles that read float4
 * along a row find it there. */
TT_TEST (eight_rows_lie_on_different_banks) {
  for (int64_t width = 4; width <= 300; width++) {
    tt_cohort c = wide(4, width, 2, 32);
    tt_block_plan p;
    if (!tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &p)) continue;
    TT_CHECK(p.layer[0].ld % 8, ==, 4);
    TT_CHECK(p.layer[1].stride % 8, ==, 4);
  }
  for (int64_t width = 1; width < 4; width++) {
    tt_cohort c = wide(width, width, 2, 32);
    tt_block_plan p;
    TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &p), ==, 1);
    for (int l = 0; l < 2; l++) {
      TT_CHECK(p.layer[l].gradient, ==, TT_BLOCK_TILE_1x1);
      TT_CHECK(l == 0 || p.layer[l].backward == TT_BLOCK_TILE_1x1, ==, 1);
    }
  }
}

static tt_block_plan plan_of(tt_cohort c, int64_t shared_bytes)
{
  tt_block_plan p = {0};
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, shared_bytes, &p), ==, 1);
  return p;
}

/* Small members keep all arrays in shared memory; larger ones move the slots to device memory, then
 * the gradient. */
TT_TEST (large_members_move_arrays_to_device_memory) {
  tt_block_plan p = plan_of(wide(8, 32, 2, 256), HOPPER);
  TT_CHECK(p.slots_shared, ==, 2);
  TT_CHECK(tt_block_scratch_floats(&p), ==, 0);
  p = plan_of(wide(8, 64, 2, 256), HOPPER);
  TT_CHECK(p.gradient_shared, ==, 1);
  TT_CHECK(p.threads, ==, 256);
  p = plan_of(wide(16, 128, 2, 256), HOPPER);
  TT_CHECK(p.slots_shared, ==, 0);
  TT_CHECK(p.rows, <, 256);
  p = plan_of(wide(16, 128, 3, 256), HOPPER);
  TT_CHECK(p.gradient_shared, ==, 0);
}

TT_TEST (tiny_members_take_few_threads) {
  tt_block_plan p = plan_of(wide(4, 16, 1, 64), HOPPER);
  TT_CHECK(p.threads, <=, 64);
  TT_CHECK(p.rows, ==, 64);
}

TT_TEST (shapes_that_do_not_fit_are_rejected) {
  tt_block_plan p = {.rows = -1};
  tt_cohort c = wide(32, 256, 3, 512);
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &p), ==, 0);
  TT_CHECK(p.rows, ==, -1);
  TT_CHECK(tt_block_min_bytes(&c, TT_PRECISION_fp32), >, HOPPER);
  c = wide(65536, 20000, 3, 512);
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &p), ==, 0);
  c = wide(16, 128, 3, 256);
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, ADA, &p), ==, 0);
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &p), ==, 1);
}

/* Plans depend on shape and device alone, not on the number of members. */
TT_TEST (a_plan_does_not_depend_on_the_members) {
  tt_block_plan a, b;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  tt_cohort c = wide(8, 64, 2, 200);
  c.members = 1;
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &a), ==, 1);
  c.members = 10000;
  TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &b), ==, 1);
  TT_CHECK(memcmp(&a, &b, sizeof a), ==, 0);
}

static int is_mma(int tile) { return tile >= TT_BLOCK_TILE_mma16; }

static void check_tiles(const tt_block_layer *n, int precision)
{
  const int tiles[] = {n->forward, n->backward, n->gradient};
  int suits = n->in >= TT_BLOCK_MMA_MIN_WIDTH && n->out >= TT_BLOCK_MMA_MIN_WIDTH;
  for (int k = 0; k < 3; k++) {
    if (is_mma(tiles[k])) TT_CHECK(suits && precision != TT_PRECISION_fp32, ==, 1);
    if (precision != TT_PRECISION_fp32 && !is_mma(tiles[k]))
      TT_CHECK(tiles[k], <=, TT_BLOCK_TILE_4x4);
  }
}

/* Tensor cores are used where a layer is wide enough, with tiles that their kernels support for the
 * other products. Without such a layer the plan is that of fp32. */
TT_TEST (tensor_cores_are_for_wide_layers) {
  for (int precision = 0; precision < TT_PRECISION_COUNT; precision++)
    for (int64_t width = 1; width <= 128; width++)
      for (int64_t inputs = 3; inputs <= 16; inputs += 5) {
        tt_cohort c = wide(inputs, width, 1 + width % 3, 100);
        tt_block_plan p, plain;
        memset(&p, 0, sizeof p);
        memset(&plain, 0, sizeof plain);
        if (!tt_block_plan_make(&c, (tt_precision)precision, HOPPER, &p)) continue;
        for (int l = 0; l < p.layers; l++) check_tiles(&p.layer[l], p.precision);
        int of_use = width >= 8 && (inputs >= 8 || p.layers > 2);
        TT_CHECK(p.precision, ==, of_use ? precision : TT_PRECISION_fp32);
        if (of_use && precision) TT_CHECK(p.x_ld < 4 || p.x_ld % 8 == 4, ==, 1);
        TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, HOPPER, &plain), ==, 1);
        if (!of_use) TT_CHECK(memcmp(&p, &plain, sizeof p), ==, 0);
      }
}

/* Wide layers use tensor cores, in every precision but fp32, for all three products. */
TT_TEST (wide_layers_go_to_tensor_cores) {
  tt_cohort c = wide(16, 64, 2, 256);
  for (int precision = TT_PRECISION_tf32; precision < TT_PRECISION_COUNT; precision++) {
    tt_block_plan p;
    TT_CHECK(tt_block_plan_make(&c, (tt_precision)precision, HOPPER, &p), ==, 1);
    for (int l = 0; l < 2; l++) {
      TT_CHECK(is_mma(p.layer[l].forward), ==, 1);
      TT_CHECK(is_mma(p.layer[l].backward), ==, 1);
      TT_CHECK(is_mma(p.layer[l].gradient), ==, 1);
    }
    TT_CHECK(is_mma(p.layer[2].forward), ==, 0);
  }
}

/* For activations whose slope is computed from f(z): f'(z) has the same bits with f(z) in place of
 * z. */
TT_TEST (slopes_that_are_not_kept_follow_from_the_value) {
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (float x = -20.0f; !tt_act_grad_needs_input((tt_activation)a) && x <= 20.0f;
         x += 0.0078125f) {
      float y = tt_act((tt_activation)a, x);
      TT_CHECK(tt_act_grad((tt_activation)a, y, y), ==, tt_act_grad((tt_activation)a, x, y));
    }
}
