/* test_chunks.c — weight gradients in chunks of rows on the layered path: a member has the same bits
 * beside any other members, whoever computes its chunks and its last layer. */
#include "cuda/plan/layered_sizes.h"
#include "tests/support/problem.h"

enum {
  CHUNK_MEMBERS = SANITIZED ? 6 : 257,
  CHUNK_ROWS = 400,
  CHUNK_BATCH = 200,
  CHUNKS = 2,
  CHUNK_STEPS = 3
};

/* Members with two batches an epoch, a whole one and a short one. */
static problem make_chunks(int64_t members)
{
  static const int64_t width[2] = {7, 5};
  problem p =
      problem_make(CHUNK_ROWS, 3, 1, 1, members, width, 2, TT_ACT_tanh, TT_OUTPUT_mean_variance);
  p.c.loss = TT_LOSS_gaussian_nll;
  p.c.batch_size = CHUNK_BATCH;
  p.c.max_epochs = 2;
  for (int64_t i = 0; i < members; i++) p.c.member[i].hyper.epochs = 2;
  return p;
}

static tt_layered_sizes sizes_of(const problem *p)
{
  return tt_layered_sizes_of(&p->c, everyone(p), p->d->rows, 0, 0);
}

/* The state inside an epoch: it has the sum of its losses. */
static tt_state *trained(problem *p, way variant)
{
  tt_progress progress;
  problem_start(p, variant, everyone(p));
  TT_CHECK_OK(variant.ops->train(p->engine, CHUNK_STEPS, &progress));
  tt_state *s = problem_state(p, everyone(p));
  problem_stop(p);
  for (int64_t i = 0; i < s->count; i++) TT_CHECK(TT_FIELD(s, batch)[i], ==, 1);
  return s;
}

/* Neither the number of members, nor whether chunks have blocks of their own, nor whether the first
 * layer is a kernel of its own changes a bit: many members have no blocks for chunks, a member with
 * dropout excludes the first layer with its rows. */
TT_TEST (chunks_of_rows_do_not_depend_on_the_members) {
  static const int64_t counts[] = {5, 1, 17, CHUNK_MEMBERS, 5};
  way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0, 1};
  tt_state *first = NULL;
  for (int k = 0; k < 5; k++) {
    problem p = make_chunks(counts[k]);
    if (k == 4) p.c.member[4].hyper.dropout = 0.3f;
    tt_layered_sizes s = sizes_of(&p);
    TT_CHECK(s.chunk, ==, TT_CHUNK_ROWS);
    TT_CHECK(s.copies, ==, counts[k] > 256 ? 1 : CHUNKS);
    TT_CHECK(s.entry, ==, k != 4);
    layered.schedule = k % SCHEDULES;
    tt_state *got = trained(&p, layered);
    for (int64_t i = 0; first && i < (k < 4 ? 5 : 4) && i < counts[k]; i++)
      same_member(first, got, i, "chunks");
    if (first) tt_state_destroy(&got);
    if (!first) first = got;
    problem_free(&p);
  }
  tt_state_destroy(&first);
}

static tt_layered_sizes sizes_of_shape(int64_t members, int64_t inputs, const int64_t *width,
                                       int layers, int64_t parts)
{
  problem p = problem_make(512, inputs, 1, 1, members, width, layers, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.batch_size = 512;
  p.c.parts = parts;
  tt_layered_sizes s = sizes_of(&p);
  problem_free(&p);
  return s;
}

/* The shape decides on the chunks, the number of members on their blocks. */
TT_TEST (networks_with_few_weights_have_chunks) {
  static const int64_t narrow[] = {192, 192}, wide[] = {256, 256, 256};
  tt_layered_sizes few = sizes_of_shape(5, 16, narrow, 2, 1),
                   many = sizes_of_shape(100, 16, narrow, 2, 1),
                   parts = sizes_of_shape(5, 16, narrow, 2, 2),
                   large = sizes_of_shape(5, 32, wide, 3, 1);
  TT_CHECK(few.chunk, ==, TT_CHUNK_ROWS);
  TT_CHECK(few.copies, ==, 4);
  TT_CHECK(many.chunk, ==, TT_CHUNK_ROWS);
  TT_CHECK(many.copies, ==, 1);
  TT_CHECK(parts.chunk, ==, TT_CHUNK_ROWS);
  TT_CHECK(parts.copies, ==, 1);
  TT_CHECK(large.chunk, ==, 512);
  TT_CHECK(large.small + large.head, ==, 0);
}

/* Members of a network whose first layer has too many weights for chunks, with a moving average and
 * all that an update reads. */
static problem make_wide(tt_optimizer optimizer, float clip_norm)
{
  static const int64_t width[2] = {833, 6};
  problem p = problem_make(60, 3, 1, 1, 3, width, 2, TT_ACT_tanh, TT_OUTPUT_mean);
  p.c.batch_size = 20;
  p.c.max_epochs = 2;
  p.c.optimizer = optimizer;
  p.c.average = TT_AVERAGE_ema;
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = 2;
    h->weight_decay = i == 2 ? 0.01f : 0.0f;
    h->average_start = (int32_t)(i % 2);
    h->average_decay = 0.9f;
    h->clip_norm = clip_norm;
  }
  return p;
}

/* A gradient that is to be clipped is stored, however large it may become; else the optimizer step
 * of a layer follows its gradient at once. */
TT_TEST (a_step_at_once_has_the_bits_of_a_later_one) {
  for (int optimizer = 0; optimizer < TT_OPT_COUNT; optimizer++) {
    tt_state *state[2];
    for (int k = 0; k < 2; k++) {
      problem p = make_wide((tt_optimizer)optimizer, k ? 1e30f : 0.0f);
      way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, k, 0,
                     1};
      TT_CHECK(sizes_of(&p).small, ==, 0);
      problem_start(&p, layered, everyone(&p));
      TT_CHECK_OK(layered.ops->train(p.engine, 4, &(tt_progress){0}));
      state[k] = problem_state(&p, everyone(&p));
      problem_stop(&p);
      problem_free(&p);
    }
    for (int64_t i = 0; i < state[0]->count; i++) {
      TT_CHECK(TT_FIELD(state[0], step)[i], ==, 4);
      same_member(state[0], state[1], i, "a step at once");
    }
    for (int k = 0; k < 2; k++) tt_state_destroy(&state[k]);
  }
}
