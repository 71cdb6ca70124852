/* test_groups.c — law C1 for groups of members: the layered path multiplies the matrices of a group
 * of members in one call, and a member has the same bits at every position of a group, in full and
 * in incomplete groups, beside any number of other groups. Wide layers run on a GPU only: there the
 * library chooses the algorithm by the size of the matrices. */
#include "tests/support/problem.h"

enum { INPUTS = 7, MOST = 100, COUNTS = 5, POSITIONS = 3 };

static const int64_t counts[COUNTS] = {1, 5, 16, 17, MOST}; /* members of an engine */

typedef struct width {
  int64_t hidden[2], rows, batch;
  int gpu_only;
} width;

static const width widths[] = {{{20, 17}, 60, 40, 0},
                               {{128, 128}, 300, 128, 1},
                               {{256, 256}, 300, 128, 1},
                               {{128, 256}, 300, 100, 1}};
enum { WIDTHS = sizeof widths / sizeof *widths };

static problem make(const width *w)
{
  problem p = problem_make(w->rows, INPUTS, 1, 1, MOST, w->hidden, 2, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.batch_size = w->batch;
  p.c.max_epochs = 1;
  for (int64_t i = 0; i < MOST; i++) {
    p.c.member[i].hyper.epochs = 1;
    p.c.member[i].hyper.learning_rate = 1e-3f * (float)(1 + i % 7);
  }
  return p;
}

/* The first and the last `count` members, and those from an odd place of a group on. */
static void every_position(problem *p, way variant, const tt_state *want, int64_t count)
{
  const int64_t firsts[POSITIONS] = {0, (MOST - count) / 2 | 1, MOST - count};
  for (int k = 0; k < (count < MOST ? POSITIONS : 1); k++) {
    tt_slice slice = {firsts[k], count};
    tt_state *got = problem_run(p, variant, slice, 1000);
    for (int64_t i = slice.first; i < slice.first + count; i++)
      same_member(want, got, i, variant.name);
    tt_state_destroy(&got);
  }
}

static void law(way variant, const width *w)
{
  problem p = make(w);
  tt_state *want = problem_run(&p, variant, everyone(&p), 1000);
  for (int64_t i = 0; i < MOST; i++) {
    TT_CHECK(TT_FIELD(want, status)[i], !=, TT_STATUS_diverged);
    TT_CHECK(TT_FIELD(want, step)[i], >, 0);
  }
  for (int k = 0; k < COUNTS; k++) every_position(&p, variant, want, counts[k]);
  tt_state_destroy(&want);
  problem_free(&p);
}

static int is_gpu(way variant) { return !DOUBLE && variant.ops != &tt_engine_cpu; }

/* One instruction set of the CPU, and the layered path in one order of threads. */
static int takes_part(way variant)
{
  if (variant.ops == &tt_engine_cpu) return variant.turn == 0;
  return variant.use.path == TT_GPU_PATH_layered && variant.schedule == 0;
}

static void all_widths(const way *by, int n)
{
  int skipped = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < WIDTHS && takes_part(by[i]); k++) {
      int skip = widths[k].gpu_only && !is_gpu(by[i]);
      if (!skip) law(by[i], &widths[k]);
      skipped += skip;
    }
  if (skipped) printf("%d wide cases are skipped: they need a GPU\n", skipped);
}

TT_TEST (a_member_has_the_same_bits_at_every_position_of_a_group) {
  way variant[MAX_WAYS];
  all_widths(variant, ways(variant));
}

TT_TEST (and_so_it_has_on_tensor_cores) {
  way variant[MAX_WAYS];
  int n = tensor_ways(variant);
  for (int i = 0; i < n; i++) variant[i].schedule = 0; /* each has one order of threads */
  all_widths(variant, n);
}
