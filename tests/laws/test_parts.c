/* test_parts.c — laws of the parts of a batch (train.parts): the order of the sums does not depend
 * on who adds, and training in parts is training. */
#include "tests/support/problem.h"

#include "core/model/parts.h"

enum { ROWS = DOUBLE ? 130 : 260, BATCH = DOUBLE ? 72 : 150, PARTS = 8, INPUTS = 5 };

TT_TEST (parts_are_blocks_of_rows_dealt_evenly) {
  for (int64_t parts = 1; parts < 20; parts++)
    for (int64_t rows = 1; rows < 400; rows += 3) {
      int64_t next = 0, least = INT64_MAX, most = 0;
      for (int64_t i = 0; i < parts; i++) {
        tt_slice s = tt_part_rows(rows, parts, i);
        int64_t blocks = (s.count + 15) / 16;
        if (s.count) TT_CHECK(s.first, ==, next);
        TT_CHECK(s.first % 16 == 0 || s.count == 0, ==, 1);
        TT_CHECK(s.count, <=, tt_part_max_rows(rows, parts));
        next += s.count;
        if (blocks < least) least = blocks;
        if (blocks > most) most = blocks;
      }
      TT_CHECK(next, ==, rows);
      TT_CHECK(most - least, <=, 1);
    }
}

/* A sum that shows the order of its terms. */
static uint64_t sum_of(uint64_t left, uint64_t right) { return 31u * left + 1009u * right + 7u; }
static uint64_t part_value(int64_t part) { return 3u * (uint64_t)part + 5u; }

/* The definition: the sum over parts [first, first + size), cut at the last part. */
static uint64_t by_definition(int64_t parts, int64_t first, int64_t size)
{
  if (size == 1) return part_value(first);
  uint64_t left = by_definition(parts, first, size / 2);
  if (first + size / 2 >= parts) return left;
  return sum_of(left, by_definition(parts, first + size / 2, size / 2));
}

/* Add sums to those that are pending. */
static void append(tt_part_sums *s, uint64_t *value, int64_t index, int level, uint64_t sum)
{
  value[s->count] = sum;
  tt_part_sums_push(s, index, level);
  while (tt_part_sums_merge(s)) value[s->count - 1] = sum_of(value[s->count - 1], value[s->count]);
}

/* Each rank adds its parts, and one adds the sums of all ranks. */
static uint64_t by_ranks(int64_t parts, int ranks)
{
  tt_part_sums all = {.parts = parts};
  uint64_t value[TT_MAX_PART_SUMS];
  for (int r = 0; r < ranks; r++) {
    tt_part_sums own = {.parts = parts};
    uint64_t mine[TT_MAX_PART_SUMS];
    tt_slice slice = tt_part_slice(parts, ranks, r);
    for (int64_t i = 0; i < slice.count; i++)
      append(&own, mine, slice.first + i, 0, part_value(slice.first + i));
    tt_part_sums expected = tt_part_sums_of(parts, slice, NULL);
    TT_CHECK(own.count, ==, expected.count);
    for (int k = 0; k < own.count; k++) {
      TT_CHECK(own.node[k].index, ==, expected.node[k].index);
      TT_CHECK(own.node[k].level, ==, expected.node[k].level);
      append(&all, value, own.node[k].index, own.node[k].level, mine[k]);
    }
  }
  TT_CHECK(all.count, ==, 1);
  return value[0];
}

TT_TEST (the_tree_does_not_depend_on_the_ranks) {
  for (int64_t parts = 1; parts <= 33; parts++) {
    uint64_t want = by_definition(parts, 0, 64);
    for (int ranks = 1; ranks <= parts; ranks++) TT_CHECK(by_ranks(parts, ranks), ==, want);
  }
  TT_CHECK(by_ranks(TT_MAX_PARTS, 7), ==, by_definition(TT_MAX_PARTS, 0, TT_MAX_PARTS));
  for (int64_t first = 0; first < TT_MAX_PARTS; first += 5) {
    int most;
    (void)tt_part_sums_of(TT_MAX_PARTS, (tt_slice){first, TT_MAX_PARTS - first}, &most);
    TT_CHECK(most, <=, TT_MAX_PART_SUMS);
  }
}

TT_TEST (segments_are_whole_blocks_and_cover_the_parameters) {
  const int64_t params[] = {1, 4095, 4096, 4097, 100000};
  for (int i = 0; i < 5; i++)
    for (int ranks = 1; ranks < 9; ranks++) {
      int64_t next = 0;
      for (int r = 0; r < ranks; r++) {
        tt_slice s = tt_part_segment(params[i], ranks, r);
        TT_CHECK(s.first, ==, next);
        if (s.count) TT_CHECK(s.first % TT_NORM_BLOCK, ==, 0);
        next += s.count;
      }
      TT_CHECK(next, ==, params[i]);
      const tt_slice some = {params[i] / 3, params[i] - params[i] / 3}; /* begins inside a block */
      next = some.first;
      for (int r = 0; r < ranks; r++) {
        tt_slice s = tt_part_segment_of(some, ranks, r);
        TT_CHECK(s.first, ==, next);
        if (s.count && s.first > some.first) TT_CHECK(s.first % TT_NORM_BLOCK, ==, 0);
        next += s.count;
      }
      TT_CHECK(next, ==, params[i]);
    }
}

/* A problem with this loss and optimizer, in parts. More parameters than a block of the norm. */
static problem make(int loss, int optimizer, int64_t parts)
{
  const int64_t hidden[] = {70, 70};
  problem p = problem_make(ROWS, INPUTS, 1, 1, 1, hidden, 2, TT_ACT_silu,
                           tt_loss_output_head((tt_loss)loss));
  tt_hyper *h = &p.c.member[0].hyper;
  p.c.loss = (tt_loss)loss;
  p.c.optimizer = (tt_optimizer)optimizer;
  p.c.batch_size = BATCH;
  p.c.parts = parts;
  p.c.max_epochs = h->epochs = 3;
  h->learning_rate = optimizer == TT_OPT_sgd ? 0.1f : 1e-3f;
  h->epsilon = 1e-3f;
  h->clip_norm = loss % 2 ? 0.1f : 0.0f;
  h->dropout = loss % 3 ? 0.0f : 0.2f;
  h->label_noise = loss % 4 == 1 && loss != TT_LOSS_cross_entropy ? 0.1f : 0.0f;
  return p;
}

/* Returns 1 if the bits differ: where an optimizer moves the weights by very little, they may not. */
static int close_to_the_whole(way variant, int loss, int optimizer)
{
  problem whole = make(loss, optimizer, 1), cut = make(loss, optimizer, PARTS);
  tt_state *want = problem_run(&whole, variant, everyone(&whole), 4);
  tt_state *got = problem_run(&cut, variant, everyone(&cut), 4);
  const float *a = TT_FIELD(want, weights), *b = TT_FIELD(got, weights);
  size_t bytes = (size_t)whole.c.model.params * sizeof *a;
  TT_CHECK(TT_FIELD(got, step)[0], ==, 6);
  int differ = memcmp(a, b, bytes) != 0;
  for (int64_t p = 0; p < whole.c.model.params; p++)
    TT_CHECK(fabsf(a[p] - b[p]), <=, 1e-5f * fmaxf(1.0f, fabsf(a[p])));
  for (int i = 0; i < 3; i++)
    TT_CHECK(fabsf(TT_FIELD(want, loss_train)[i] / TT_FIELD(got, loss_train)[i] - 1.0f), <=, 1e-5f);
  tt_state_destroy(&want);
  tt_state_destroy(&got);
  problem_free(&whole);
  problem_free(&cut);
  return differ;
}

static int trains_in_parts(way variant)
{
  return variant.ops == &tt_engine_cpu || variant.use.path == TT_GPU_PATH_layered;
}

TT_TEST (training_in_parts_is_training) {
  int differ = 0, runs = 0;
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < (int)TT_LOSS_COUNT || i < (int)TT_OPT_COUNT; i++)
      if (trains_in_parts(*w) && (w->ops == &tt_engine_cpu || takes(*w, i))) {
        differ += close_to_the_whole(*w, i % (int)TT_LOSS_COUNT, i % (int)TT_OPT_COUNT);
        runs++;
      }
  TT_CHECK(4 * differ, >=, 3 * runs); /* the parts are really computed apart */
}

/* With fewer members than threads, the threads share the parts of a batch. */
TT_TEST (threads_share_the_parts_and_give_the_same_bits) {
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < 5 && w->ops == &tt_engine_cpu; i++) {
      problem p = make(i, i, i == 4 ? 5 : PARTS);
      way several = *w;
      several.use.threads = 2 + i % 2;
      tt_state *want = problem_run(&p, *w, everyone(&p), 4);
      tt_state *got = problem_run(&p, several, everyone(&p), 3);
      same_member(want, got, 0, "threads that share parts");
      tt_state_destroy(&want);
      tt_state_destroy(&got);
      problem_free(&p);
    }
}

TT_TEST (parts_need_less_memory) {
  const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};
  problem p = make(0, 0, 1);
  p.c.batch_size = 1 << 16;
  int64_t whole = tt_engine_cpu.host_bytes(&p.c, everyone(&p), ROWS, NULL, &use), activations;
  p.c.parts = 64;
  int64_t cut = tt_engine_cpu.host_bytes(&p.c, everyone(&p), ROWS, NULL, &use);
  activations = p.c.batch_size * 4 * 2 * 140; /* of the hidden layers alone */
  TT_CHECK(whole - cut, >, activations * 9 / 10);
  problem_free(&p);
}
