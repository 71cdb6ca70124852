/* test_cluster_plan.c — how a member is distributed over a cluster: the ranks have all groups of
 * rows of the block plan and nothing else, slices cover all parameters once, and all arrays fit. */
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
    {8, {64, 64}, 2, 1, TT_OPT_adam},   {16, {96, 96}, 2, 1, TT_OPT_adam},
    {16, {128, 128}, 2, 4, TT_OPT_sgd}, {16, {128, 128, 128}, 3, 1, TT_OPT_adam},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const int64_t batches[] = {1,   2,   31,  64,  65,  100, 128,  129,
                                  200, 256, 257, 512, 600, 700, 1024, 100000};
enum { BATCHES = sizeof batches / sizeof *batches };

static tt_cohort cohort_of(const shape *s, int64_t batch)
{
  tt_cohort c = {.optimizer = s->optimizer, .batch_size = batch, .members = 16};
  TT_CHECK_OK(tt_model_plain(s->inputs, s->targets, s->hidden, s->layers, TT_ACT_tanh,
                             TT_OUTPUT_mean, &c.model));
  return c;
}

/* The groups of the ranks are those of the block. */
static void has_the_groups(const tt_block_plan *alone, const tt_block_plan *part)
{
  TT_CHECK(part->chunk, ==, alone->chunk);
  TT_CHECK(part->pieces, ==, alone->pieces);
  TT_CHECK(part->piece % part->chunk, ==, 0);
  TT_CHECK(part->piece * part->ranks, ==, alone->piece * alone->pieces);
  TT_CHECK(part->rows, >=, part->piece);
  TT_CHECK(part->rows, <=, TT_BLOCK_MAX_ROWS);
  for (int l = 0; l < alone->layers; l++) {
    TT_CHECK(part->layer[l].share, ==, alone->layer[l].share);
    TT_CHECK(part->layer[l].groups * part->ranks, ==, alone->layer[l].groups * alone->pieces);
    TT_CHECK(part->layer[l].groups, <=, part->copies);
  }
}

static void holds_together(const tt_cohort *c, const tt_cluster_plan *p, int ranks)
{
  int64_t floats = p->part.bytes / 4;
  tt_block_plan alone;
  TT_CHECK(tt_block_plan_make(c, TT_PRECISION_fp32, H200, &alone), ==, 1);
  has_the_groups(&alone, &p->part);
  TT_CHECK(p->ranks, ==, ranks);
  TT_CHECK(p->part.ranks, ==, ranks);
  TT_CHECK(p->slice % 4, ==, 0);
  TT_CHECK(p->slice * ranks, ==, TT_BLOCK_CHUNKS * tt_block_slice_floats(alone.params));
  TT_CHECK(p->slice * ranks, >=, p->part.params);
  TT_CHECK(p->slots, ==, tt_optimizer_slots(c->optimizer));
  TT_CHECK(p->slot, ==, floats);
  TT_CHECK(p->exchange, ==, floats + p->slots * p->slice);
  TT_CHECK(p->exchange % 2, ==, 0); /* doubles begin there */
  TT_CHECK(p->bytes, ==, 4 * (p->exchange + TT_CLUSTER_EXCHANGE_FLOATS));
  TT_CHECK(p->bytes, <=, H200);
  TT_CHECK(p->part.gradient_shared, ==, 1);
  TT_CHECK(p->part.slots, ==, 0);
}

TT_TEST (ranks_have_the_groups_of_the_block) {
  int seen[TT_CLUSTER_MAX_RANKS + 1] = {0};
  for (int i = 0; i < SHAPES; i++)
    for (int b = 0; b < BATCHES; b++)
      for (int ranks = TT_CLUSTER_MIN_RANKS; ranks <= TT_CLUSTER_MAX_RANKS; ranks *= 2) {
        tt_cluster_plan p;
        tt_cohort c = cohort_of(&shapes[i], batches[b]);
        if (!tt_cluster_plan_make(&c, H200, ranks, &p)) continue;
        holds_together(&c, &p, ranks);
        seen[ranks]++;
      }
  TT_CHECK(seen[2] > 3 && seen[4] > 3 && seen[8] > 3, ==, 1);
}

/* From 128 rows on, a batch of a network whose gradient is in shared memory has enough groups for
 * four ranks, also where its block has tiles enough for all warps. */
TT_TEST (common_shapes_have_clusters) {
  const int wide[] = {2, 4, 5};
  for (int i = 0; i < 3; i++)
    for (int64_t batch = 128; batch <= (i < 2 ? 512 : 256); batch *= 2) {
      tt_cluster_plan p;
      tt_cohort c = cohort_of(&shapes[wide[i]], batch);
      TT_CHECK(tt_cluster_plan_make(&c, H200, 4, &p), ==, 1);
    }
}

/* Exact to the byte, with the block plan of the whole memory. */
TT_TEST (a_rank_needs_the_bytes_of_its_plan) {
  for (int i = 0; i < SHAPES; i++) {
    tt_block_plan alone, p, untouched;
    memset(&p, 7, sizeof p);
    memset(&untouched, 7, sizeof untouched);
    tt_cohort c = cohort_of(&shapes[i], 256);
    TT_CHECK(tt_block_plan_make(&c, TT_PRECISION_fp32, H200, &alone), ==, 1);
    if (!tt_block_plan_make_rank(&c, &alone, 2, INT32_MAX, &p)) continue;
    int64_t least = p.bytes;
    memset(&p, 7, sizeof p);
    TT_CHECK(tt_block_plan_make_rank(&c, &alone, 2, least - 1, &p), ==, 0);
    TT_CHECK(memcmp(&p, &untouched, sizeof p), ==, 0);
    TT_CHECK(tt_block_plan_make_rank(&c, &alone, 2, least, &p), ==, 1);
    TT_CHECK(p.bytes, ==, least);
  }
}

/* Members and seeds do not change a plan; the number of members may change its number of ranks. */
TT_TEST (other_members_change_nothing) {
  for (int i = 0; i < SHAPES; i++) {
    tt_cluster_plan a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    tt_cohort c = cohort_of(&shapes[i], 256);
    int fits = tt_cluster_plan_make(&c, H200, 4, &a);
    c.members = 1 << 20;
    c.ensembles = 9;
    c.seed = 77;
    TT_CHECK(tt_cluster_plan_make(&c, H200, 4, &b), ==, fits);
    TT_CHECK(memcmp(&a, &b, sizeof a), ==, 0);
  }
}
