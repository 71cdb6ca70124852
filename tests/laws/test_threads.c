/* test_threads.c — law: if several threads of the cpu engine train one member together, its bits are
 * those of one thread: for every optimizer, resampling, loss and option of a member,
 * and for any number of threads and members. */
#include "tests/support/settings.h"

/* Threads share even the smallest members: one member, two, and more members than threads. */
static void shared_by_threads(setting v, way variant)
{
  static const int threads[] = {2, 3, 5, 8};
  const tt_slice slices[] = {{v.number % (ENSEMBLES * EACH), 1}, {1, 2}, {0, ENSEMBLES * EACH}};
  problem p = usual(v);
  tt_state *want = problem_run(&p, variant, everyone(&p), 7);
  for (int k = 0; k < 4; k++) {
    way with = variant;
    tt_slice s = slices[(k + v.number) % 3];
    with.use.threads = threads[k];
    with.use.share_flops = 1;
    tt_state *got = problem_run(&p, with, s, k % 2 ? 1000000 : 5);
    for (int64_t i = s.first; i < s.first + s.count; i++)
      same_member(want, got, i, tell(v, variant, "threads that share a member"));
    tt_state_destroy(&got);
  }
  tt_state_destroy(&want);
  problem_free(&p);
}

TT_TEST (threads_that_share_a_member_change_nothing) {
  for (int number = 0; number < SETTINGS; number++)
    for (const way *w = every_way(); w->name; w++) {
      setting v = setting_of(number);
      v.parts = 1; /* threads share parts in another way (test_parts.c) */
      if (w->ops == &tt_engine_cpu) shared_by_threads(v, *w);
    }
}

/* Three of five rows are training rows; batches of 320. The gradient of a batch of 256 or more is
 * the sum of two halves (tt_cpu_cut). */
static problem large_batches(int64_t rows, int k)
{
  const int64_t hidden[] = {45, 45}; /* 2,341 parameters, with layer_norm 2,521 */
  problem p = problem_make(rows, 4, 1, 1, 2, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean);
  tt_model_shape shape = usual_shape(4, 1, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean);
  shape.layer_norm = k % 4 == 3;
  shape.residual = k % 4 == 1;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.optimizer = (tt_optimizer)(k % TT_OPT_COUNT);
  p.c.average = (tt_weight_average)(k % TT_AVERAGE_COUNT);
  p.c.batch_size = 320;
  p.c.max_epochs = 3;
  for (int64_t m = 0; m < p.c.members; m++) {
    tt_hyper *h = &p.c.member[m].hyper;
    h->epochs = m ? 1 : 3;
    h->average_decay = 0.7f;
    h->clip_norm = k % 3 == 1 ? 0.05f : 0.0f;
    h->dropout = k % 2 ? 0.2f : 0.0f;
    h->label_noise = k % 4 == 2 ? 0.1f : 0.0f;
  }
  return p;
}

/* Batches of 320, 320 and 200 rows; two threads, or three that train both members: where the second
 * member ends, its thread joins the others. The calls have 1000, 1 and 4 steps. */
static void halves_on_threads(int k, way variant)
{
  static const int64_t steps[] = {1000, 1, 4};
  problem p = large_batches(1400, k);
  tt_state *want = problem_run(&p, variant, everyone(&p), 1000);
  for (int threads = 2; threads < 4; threads++) {
    way with = variant;
    tt_slice s = {0, threads - 1};
    with.use.threads = threads;
    with.use.share_flops = 1;
    tt_state *got = problem_run(&p, with, s, steps[(k + threads) % 3]);
    for (int64_t m = 0; m < s.count; m++)
      same_member(want, got, m, "threads that share a large batch");
    tt_state_destroy(&got);
  }
  tt_state_destroy(&want);
  problem_free(&p);
}

/* Batches of 320 and 316 rows. */
static void halves_in_parts(int k, way variant)
{
  problem p = large_batches(1060, k);
  tt_state *want = problem_run(&p, variant, everyone(&p), 1000);
  p.c.parts = 2;
  tt_state *parts = problem_run(&p, variant, everyone(&p), 1000);
  size_t bytes = (size_t)p.c.model.params * sizeof(float);
  int equal = !memcmp(TT_FIELD(want, weights), TT_FIELD(parts, weights), bytes);
  if (k % 3 != 1) /* parts have the norm of their gradient in blocks */
    TT_CHECK(equal, ==, 1);
  tt_state_destroy(&parts);
  tt_state_destroy(&want);
  problem_free(&p);
}

/* The two halves are those of train.parts: 2. */
TT_TEST (two_threads_share_the_halves_of_a_large_batch) {
  for (int k = 0; k < 10; k++)
    for (const way *w = every_way(); w->name; w++) {
      if (w->ops != &tt_engine_cpu) continue;
      halves_on_threads(k, *w);
      halves_in_parts(k, *w);
    }
}

/* The sum of the losses after one step of an epoch. The weights of the rows have so many digits that
 * another order of the sum has other bits. */
static double loss_of_a_step(int64_t batch, way variant)
{
  const int64_t hidden[] = {6};
  tt_progress progress;
  problem p = problem_make(700, 4, 1, 1, 1, hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean);
  p.c.batch_size = batch;
  TT_CHECK_OK(TT_ALLOC(p.d->weight, p.d->rows));
  for (int64_t r = 0; r < p.d->rows; r++) p.d->weight[r] = 1.0f / (float)(3 + r % 11);
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->train(p.engine, 1, &progress));
  tt_state *s = problem_state(&p, everyone(&p));
  double sum = TT_FIELD(s, loss_sum)[0];
  tt_state_destroy(&s);
  problem_free(&p);
  return sum;
}

/* One thread adds them in two calls, threads that share a member in one. */
TT_TEST (losses_are_added_in_one_order) {
  static const int64_t batch[] = {1, 7, 16, 63, 64, 250, 256, 300};
  way variant[MAX_WAYS];
  int n = ways(variant);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 8; k++) {
      if (variant[i].ops != &tt_engine_cpu) continue;
      way shared = variant[i];
      shared.use.threads = 2;
      shared.use.share_flops = 1;
      double one = loss_of_a_step(batch[k], variant[i]), two = loss_of_a_step(batch[k], shared);
      TT_CHECK(one, >, 0.0);
      TT_CHECK(one, ==, two);
    }
}
