/* test_cluster_plan.c — how a member is distributed over a cluster: the number of ranks depends on
 * batch and memory alone, slices cover all parameters once, and all arrays fit. */
#include "tests/support/check.h"
#include "tests/support/plain_model.h"

#include "core/formulas/optimizer.h"
#include "cuda/plan/cluster_plan.h"

#include <string.h>

enum { H200 = 232448 };

typedef struct shape {
  int64_t inputs, hidden[3], layers, targets;
  tt_optimizer optimizer;
} shape;

static const shape shapes[] = {
    {1, {0}, 0, 1, TT_OPT_sgd},         {3, {2}, 1, 1, TT_OPT_adam},
    {8, {32, 32}, 2, 1, TT_OPT_adam},   {7, {33, 5, 17}, 3, 3, TT_OPT_adamw},
    {8, {64, 64}, 2, 1, TT_OPT_adam},   {16, {128, 128}, 2, 1, TT_OPT_adam},
    {16, {128, 128}, 2, 4, TT_OPT_sgd}, {16, {128, 128, 128}, 3, 1, TT_OPT_adam},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const int64_t batches[] = {1, 2, 31, 64, 65, 100, 128, 129, 200, 256, 257, 4096, 100000};
enum { BATCHES = sizeof batches / sizeof *batches };

static tt_cohort cohort_of(const shape *s, int64_t batch)
{
  tt_cohort c = {.optimizer = s->optimizer, .batch_size = batch, .members = 16};
  TT_CHECK_OK(tt_model_plain(s->inputs, s->targets, s->hidden, s->layers, TT_ACT_tanh,
                             TT_OUTPUT_mean, &c.model));
  return c;
}

static void holds_together(const tt_cohort *c, const tt_cluster_plan *p)
{
  int64_t floats = p->part.bytes / 4, share = (c->batch_size + p->ranks - 1) / p->ranks;
  TT_CHECK(p->ranks == 2 || p->ranks == 4 || p->ranks == 8, ==, 1);
  TT_CHECK(p->slice % 4, ==, 0);
  TT_CHECK(p->slice * p->ranks, >=, p->part.params);
  TT_CHECK(p->slice * p->ranks, <, p->part.params + 4 * p->ranks);
  TT_CHECK(p->slots, ==, tt_optimizer_slots(c->optimizer));
  TT_CHECK(p->slot, ==, floats);
  TT_CHECK(p->note, ==, floats + p->slots * p->slice);
  TT_CHECK(p->note % 2, ==, 0); /* doubles begin there */
  TT_CHECK(p->bytes, ==, 4 * (p->note + TT_CLUSTER_EXCHANGE_FLOATS));
  TT_CHECK(p->bytes, <=, H200);
  TT_CHECK(p->part.gradient_shared, ==, 1);
  TT_CHECK(p->part.slots, ==, 0);
  TT_CHECK(p->part.params, ==, tt_block_padded_params(c));
  TT_CHECK(share <= TT_BLOCK_TILE_ROWS || p->ranks == TT_CLUSTER_MAX_RANKS, ==, 1);
}

TT_TEST (slices_and_arrays_of_a_plan_are_consistent) {
  for (int i = 0; i < SHAPES; i++)
    for (int b = 0; b < BATCHES; b++) {
      tt_cluster_plan p;
      tt_cohort c = cohort_of(&shapes[i], batches[b]);
      if (tt_cluster_plan_make(&c, H200, &p)) holds_together(&c, &p);
    }
}

/* Enough ranks that each has at most as many rows as a warp has lanes. */
TT_TEST (ranks_follow_the_batch) {
  const int want[BATCHES] = {2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8};
  for (int b = 0; b < BATCHES; b++) {
    tt_cluster_plan p;
    tt_cohort c = cohort_of(&shapes[2], batches[b]);
    TT_CHECK(tt_cluster_plan_make(&c, H200, &p), ==, 1);
    TT_CHECK(p.ranks, ==, want[b]);
  }
}

/* If the slots do not fit in two ranks, there are more ranks. */
TT_TEST (ranks_follow_the_memory) {
  tt_cluster_plan p;
  tt_cohort c = cohort_of(&shapes[5], 20);
  int64_t least = tt_cluster_min_bytes(&c);
  TT_CHECK(tt_cluster_plan_make(&c, 2 * least, &p), ==, 1);
  TT_CHECK(p.ranks, ==, 2);
  TT_CHECK(tt_cluster_plan_make(&c, least, &p), ==, 1);
  TT_CHECK(p.ranks, ==, 8);
}

/* Exact to the byte. */
TT_TEST (the_limit_is_the_smallest_plan) {
  for (int i = 0; i < SHAPES; i++) {
    tt_cluster_plan p, untouched;
    memset(&p, 7, sizeof p);
    memset(&untouched, 7, sizeof untouched);
    tt_cohort c = cohort_of(&shapes[i], 256);
    int64_t least = tt_cluster_min_bytes(&c);
    TT_CHECK(tt_cluster_plan_make(&c, least - 1, &p), ==, 0);
    TT_CHECK(memcmp(&p, &untouched, sizeof p), ==, 0);
    TT_CHECK(tt_cluster_plan_make(&c, least, &p), ==, 1);
    TT_CHECK(p.bytes, ==, least);
  }
}

TT_TEST (other_members_change_nothing) {
  for (int i = 0; i < SHAPES; i++) {
    tt_cluster_plan a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    tt_cohort c = cohort_of(&shapes[i], 100);
    int fits = tt_cluster_plan_make(&c, H200, &a);
    c.members = 1 << 20;
    c.ensembles = 9;
    c.seed = 77;
    TT_CHECK(tt_cluster_plan_make(&c, H200, &b), ==, fits);
    TT_CHECK(memcmp(&a, &b, sizeof a), ==, 0);
  }
}
