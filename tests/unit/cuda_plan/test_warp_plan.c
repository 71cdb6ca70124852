/* test_warp_plan.c — laws of the warp path's plans: arrays do not overlap and lie inside the memory
 * of one warp, eight features lie on different banks, every row and weight belongs to one lane; and
 * which shapes fit. */
#include "cuda/plan/warp_plan.h"
#include "tests/unit/cuda_plan/plans.h"

#include <string.h>

static char why[128];

static tt_warp_plan plan_of(tt_cohort c, int64_t shared_bytes)
{
  tt_warp_plan p = {0};
  TT_CHECK(tt_warp_plan_make(&c, shared_bytes, &p, why, sizeof why), ==, 1);
  return p;
}

static void check_params(const tt_model *m, const tt_warp_plan *p)
{
  map q = map_of(TT_WARP_HEADER_FLOATS, TT_WARP_HEADER_FLOATS + p->params);
  TT_CHECK(p->params % 4, ==, 0);
  for (int l = 0; l < p->layers; l++) {
    const tt_warp_layer *n = &p->layer[l];
    TT_CHECK(n->source, ==, m->layer[l].weight);
    TT_CHECK(n->source + n->in * n->out, ==, m->layer[l].bias);
    TT_CHECK(n->stride, >=, n->in);
    TT_CHECK(n->in < 4 || n->stride % 4 == 0, ==, 1);
    take(&q, TT_WARP_HEADER_FLOATS + n->weight, (int64_t)n->out * n->stride);
    take(&q, TT_WARP_HEADER_FLOATS + n->bias, n->out);
  }
}

/* The number of lanes per row group is a power of two; each group has a multiple of four rows
 * (float4). */
static void check_shares(const tt_warp_plan *p)
{
  for (int l = 0; l < p->layers; l++) {
    int32_t across = p->layer[l].across, groups = TT_WARP_LANES / across;
    TT_CHECK(across & (across - 1), ==, 0);
    TT_CHECK(groups * across, ==, TT_WARP_LANES);
    TT_CHECK(p->rows % (4 * groups), ==, 0);
    TT_CHECK(p->layer[l].by_output, ==, p->layer[l].out >= p->layer[l].in);
  }
}

static void check_plan(const tt_cohort *c, int64_t shared_bytes)
{
  static map shared;
  tt_warp_plan p;
  if (!tt_warp_plan_make(c, shared_bytes, &p, why, sizeof why)) return;
  shared = map_of(TT_WARP_HEADER_FLOATS, p.bytes / 4);
  TT_CHECK(p.bytes % 16, ==, 0);
  TT_CHECK(p.warps, >=, 1);
  TT_CHECK(p.bytes * p.warps, <=, shared_bytes);
  TT_CHECK(p.rows == 32 || p.rows == 64, ==, 1);
  TT_CHECK(p.rows == 64 && c->batch_size <= 32, ==, 0);
  TT_CHECK(p.ld, ==, p.rows + TT_WARP_PADDING);
  TT_CHECK(p.ld % 8, ==, 4); /* eight features on different banks */
  take(&shared, p.weights, p.params);
  take(&shared, p.gradient, p.params);
  take(&shared, p.slot, (int64_t)p.slots * p.params);
  take(&shared, p.row, TT_WARP_PREFETCH_ROWS);
  take(&shared, p.step, 2 * TT_WARP_LANES);
  take(&shared, p.x, c->model.inputs * p.ld);
  take(&shared, p.y, c->model.targets * p.ld);
  for (int l = 0; l < p.layers; l++) {
    const tt_warp_layer *n = &p.layer[l];
    take(&shared, n->output, (int64_t)n->out * p.ld);
    TT_CHECK(n->input, ==, l ? p.layer[l - 1].output : p.x);
    if (n->slope != n->output) take(&shared, n->slope, (int64_t)n->out * p.ld);
    TT_CHECK(n->slope != n->output, ==, p.stores_slope && l < p.layers - 1);
  }
  check_params(&c->model, &p);
  check_shares(&p);
}

TT_TEST (arrays_of_a_plan_do_not_overlap) {
  const int64_t widths[] = {1, 2, 3, 4, 5, 16, 20, 31, 32, 33, 50, 63};
  const int64_t batches[] = {1, 32, 33, 64, 200, 1048576};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int64_t layers = 0; layers <= 4; layers++)
      for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int d = 0; d < 3; d++)
          for (int act = 0; act < TT_ACT_COUNT; act += 5) {
            int64_t hidden[] = {widths[w], widths[w] + 1, 7, 3};
            tt_cohort c = shape(1 + widths[w] % 9, hidden, layers, 1 + widths[w] % 3,
                                (tt_activation)act, batches[b]);
            check_plan(&c, devices[d]);
          }
}

/* Two rows per lane if the batch has enough rows and a multiprocessor still holds many warps. */
TT_TEST (rows_follow_batch_and_size) {
  TT_CHECK(plan_of(wide(4, 16, 1, 64), HOPPER).rows, ==, 64);
  TT_CHECK(plan_of(wide(4, 16, 1, 32), HOPPER).rows, ==, 32);
  TT_CHECK(plan_of(wide(4, 16, 1, 33), HOPPER).rows, ==, 64);
  TT_CHECK(plan_of(wide(4, 16, 1, 64), ADA).rows, ==, 32);
  TT_CHECK(plan_of(wide(20, 20, 2, 64), HOPPER).rows, ==, 32);
  TT_CHECK(plan_of(wide(20, 20, 2, 64), HOPPER).warps, ==, TT_WARPS_PER_BLOCK);
}

static void refused(tt_cohort c, int64_t shared_bytes, const char *reason)
{
  tt_warp_plan p = {.rows = -1};
  TT_CHECK(tt_warp_plan_make(&c, shared_bytes, &p, why, sizeof why), ==, 0);
  TT_CHECK(p.rows, ==, -1);
  TT_CHECK_HAS(why, reason);
}

TT_TEST (shapes_that_do_not_fit_are_rejected_with_a_reason) {
  refused(wide(8, 65, 1, 64), HOPPER, "a layer is 65 wide, a warp takes 64");
  refused(wide(65, 8, 1, 64), HOPPER, "a layer is 65 wide");
  refused(wide(8, 32, 2, 64), HOPPER, "1377 parameters, a warp takes 1024");
  refused(wide(2, 2, 5, 64), HOPPER, "6 layers, a warp takes 5");
  refused(wide(4, 16, 1, 64), 4096, "bytes of shared memory, a block has 4096");
  TT_CHECK(plan_of(wide(20, 20, 2, 64), 24 * 1024).warps, <, TT_WARPS_PER_BLOCK);
}

TT_TEST (a_plan_does_not_depend_on_the_members) {
  static tt_member some[10000];
  tt_warp_plan a, b;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  tt_cohort c = wide(8, 16, 2, 200);
  c.member = some;
  c.members = 1;
  TT_CHECK(tt_warp_plan_make(&c, HOPPER, &a, why, sizeof why), ==, 1);
  c.members = 10000;
  TT_CHECK(tt_warp_plan_make(&c, HOPPER, &b, why, sizeof why), ==, 1);
  TT_CHECK(memcmp(&a, &b, sizeof a), ==, 0);
}
