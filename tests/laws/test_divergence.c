/* test_divergence.c — law C5: a diverged member is data. It is detected, frozen and reported; every
 * other member keeps its bits. For every activation, loss and optimizer. */
#include "tests/support/reference.h"

enum { MEMBERS = 4, BAD = 2, ROWS = 70, TRAIN = ROWS / 5 * 3 };

typedef struct setting {
  tt_activation activation;
  tt_optimizer optimizer;
  tt_loss loss;
  int64_t batch; /* 20: several batches per epoch, 1000: one */
} setting;

static problem make(setting v)
{
  const int64_t hidden[] = {9, 4};
  problem p =
      problem_make(ROWS, 3, 1, 1, MEMBERS, hidden, 2, v.activation, tt_loss_output_head(v.loss));
  p.c.loss = v.loss;
  p.c.optimizer = v.optimizer;
  p.c.batch_size = v.batch;
  p.c.max_epochs = 3;
  for (int i = 0; i < MEMBERS; i++) {
    p.c.member[i].hyper.learning_rate = 1e-3f;
    p.c.member[i].hyper.epochs = 3;
  }
  return p;
}

/* Setting n: the settings cover all pairs of activation and optimizer, and every loss. */
enum { SETTINGS = (int)TT_ACT_COUNT * (int)TT_OPT_COUNT };
static setting setting_of(int n)
{
  setting v = {.activation = (tt_activation)(n % TT_ACT_COUNT),
               .optimizer = (tt_optimizer)((n + n / TT_ACT_COUNT) % TT_OPT_COUNT),
               .loss = (tt_loss)((n + n / TT_LOSS_COUNT) % TT_LOSS_COUNT),
               .batch = n % 2 ? 20 : 1000};
  return v;
}

/* On the double each path runs EACH settings, which use every row; each path runs others. */
enum { EACH = 15 };
static int is_dealt(tt_gpu_path path, int n)
{
  return !DOUBLE || (n + EACH * (int)path) % SETTINGS < EACH;
}

static int meets(way variant, int n)
{
  return has_turn(variant, n / 2) && is_dealt(variant.use.path, n);
}

static void one_setting(void (*law)(way variant, setting v, const tt_state *sound), way variant,
                        setting v)
{
  problem p = make(v);
  tt_state *sound = can(variant, &p.c) ? problem_run(&p, variant, everyone(&p), 3) : NULL;
  for (int m = 0; sound && m < MEMBERS; m++)
    TT_CHECK(TT_FIELD(sound, status)[m], ==, TT_STATUS_finished);
  problem_free(&p);
  if (!sound) return;
  law(variant, v, sound);
  tt_state_destroy(&sound);
}

static void all_settings(void (*law)(way variant, setting v, const tt_state *sound))
{
  for (const way *w = every_way(); w->name; w++)
    for (int k = 0; k < SETTINGS; k++)
      if (meets(*w, k)) one_setting(law, *w, setting_of(k));
}

static void uses_every_row(tt_gpu_path path)
{
  int activation[TT_ACT_COUNT] = {0}, optimizer[TT_OPT_COUNT] = {0}, loss[TT_LOSS_COUNT] = {0};
  for (int k = 0; k < SETTINGS; k++) {
    setting v = setting_of(k);
    if (is_dealt(path, k)) activation[v.activation] = optimizer[v.optimizer] = loss[v.loss] = 1;
  }
  for (int i = 0; i < TT_ACT_COUNT; i++) TT_CHECK(activation[i], ==, 1);
  for (int i = 0; i < TT_OPT_COUNT; i++) TT_CHECK(optimizer[i], ==, 1);
  for (int i = 0; i < TT_LOSS_COUNT; i++) TT_CHECK(loss[i], ==, 1);
}

TT_TEST (the_settings_use_every_row) {
  for (int path = 0; path < TT_GPU_PATH_COUNT; path++) uses_every_row((tt_gpu_path)path);
}

static const char *tell(way variant, setting v)
{
  static char text[128];
  snprintf(text, sizeof text, "%s, %s, %s, %s", variant.name, tt_choice_activation[v.activation],
           tt_choice_optimizer[v.optimizer], tt_choice_loss[v.loss]);
  return text;
}

static void others_keep_their_bits(const tt_state *sound, const tt_state *got, const char *what)
{
  for (int m = 0; m < MEMBERS; m++)
    if (m != BAD) same_member(sound, got, m, what);
  if (TT_FIELD(got, status)[BAD] == TT_STATUS_diverged) return;
  fprintf(stderr, "%s: the bad member is not noticed\n", what);
  fail();
}

/* Nothing changes a diverged member, not even a restart. */
static void stays_frozen(problem *p, const tt_state *then, const char *what)
{
  tt_progress progress;
  TT_CHECK_OK(p->by.ops->train(p->engine, 10, &progress));
  TT_CHECK(progress.member_steps, ==, 0);
  tt_state *now = problem_state(p, everyone(p));
  same_member(then, now, BAD, what);
  tt_state_destroy(&now);
  way variant = p->by;
  problem_stop(p);
  problem_start(p, variant, everyone(p));
  TT_CHECK_OK(variant.ops->load(p->engine, everyone(p), then));
  TT_CHECK_OK(variant.ops->train(p->engine, 10, &progress));
  TT_CHECK(progress.diverged, ==, 1);
  now = problem_state(p, everyone(p));
  same_member(then, now, BAD, what);
  tt_state_destroy(&now);
}

static void large_rate(way variant, setting v, const tt_state *sound)
{
  problem p = make(v);
  const char *what = tell(variant, v);
  /* losses that grow only linearly with the outputs stay finite for many steps */
  int steep = v.loss == TT_LOSS_mse || v.loss == TT_LOSS_gaussian_nll;
  p.c.member[BAD].hyper.learning_rate = steep ? 1e30f : INFINITY;
  way with = variant;
  with.use.threads = 1 + (int)v.loss % 2 * 6; /* more threads than members share them */
  with.use.share_flops = 1;
  problem_start(&p, with, everyone(&p));
  tt_progress progress = problem_finish(&p, 3);
  tt_state *got = problem_state(&p, everyone(&p));
  others_keep_their_bits(sound, got, what);
  TT_CHECK(progress.diverged, ==, 1);
  TT_CHECK(progress.finished, ==, MEMBERS - 1);
  TT_CHECK(progress.training + progress.early_stopped, ==, 0);
  for (int q = 0; q < 3; q++)
    TT_CHECK(isfinite(progress.loss[q]), !=, 0); /* of the other members */
  stays_frozen(&p, got, what);
  tt_state_destroy(&got);
  problem_free(&p);
}

/* A non-finite number in one weight of one member is detected within `steps` steps. */
static void bad_number(way variant, setting v, const tt_state *sound, float bad, int64_t place,
                       int64_t steps)
{
  tt_progress progress;
  problem p = make(v);
  problem_start(&p, variant, everyone(&p));
  tt_state *s = problem_state(&p, everyone(&p));
  TT_FIELD(s, weights)[BAD * s->params + place] = bad;
  TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), s));
  TT_CHECK_OK(variant.ops->train(p.engine, steps, &progress));
  TT_CHECK(progress.diverged, ==, 1);
  problem_finish(&p, 3);
  TT_CHECK_OK(variant.ops->save(p.engine, everyone(&p), s));
  others_keep_their_bits(sound, s, tell(variant, v));
  tt_state_destroy(&s);
  problem_free(&p);
}

static void bad_weights(way variant, setting v, const tt_state *sound)
{
  int64_t last = sound->params - 1, epoch = v.batch < TRAIN ? (TRAIN + v.batch - 1) / v.batch : 1;
  bad_number(variant, v, sound, NAN, 0,
             1); /* no activation hides it: the first loss is not finite */
  bad_number(variant, v, sound, NAN, last, 1);
  bad_number(variant, v, sound, INFINITY, 1, epoch); /* a saturated unit may hide it */
  bad_number(variant, v, sound, -INFINITY, last, epoch);
}

/* Weights that overflow in the last step, after which no loss is computed. */
static void last_step(way variant, setting v, const tt_state *sound)
{
  (void)sound;
  problem p = make(v);
  for (int64_t r = 0; r < p.d->rows; r++)
    if (p.d->split[r] == TT_VALIDATION) p.d->split[r] = TT_UNUSED_ROW;
  p.c.batch_size = 1000;
  for (int m = 0; m < MEMBERS; m++) p.c.member[m].hyper.epochs = 1;
  p.c.member[BAD].hyper.learning_rate = INFINITY;
  problem_start(&p, variant, everyone(&p));
  tt_progress progress = problem_finish(&p, 1);
  TT_CHECK(progress.diverged, ==, 1);
  TT_CHECK(progress.finished, ==, MEMBERS - 1);
  problem_free(&p);
}

/* The status alone freezes a member, even if its values are finite. */
static void frozen_by_status(way variant, setting v, const tt_state *sound)
{
  tt_progress progress;
  problem p = make(v);
  problem_start(&p, variant, everyone(&p));
  tt_state *then = problem_state(&p, everyone(&p));
  TT_FIELD(then, status)[BAD] = TT_STATUS_diverged;
  TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), then));
  progress = problem_finish(&p, 3);
  TT_CHECK(progress.diverged, ==, 1);
  tt_state *got = problem_state(&p, everyone(&p));
  same_member(then, got, BAD, tell(variant, v));
  others_keep_their_bits(sound, got, tell(variant, v));
  tt_state_destroy(&then);
  tt_state_destroy(&got);
  problem_free(&p);
}

TT_TEST (a_large_learning_rate_affects_one_member_alone) {
  all_settings(large_rate);
}
TT_TEST (bad_weights_are_detected_within_the_epoch) {
  all_settings(bad_weights);
}
TT_TEST (an_overflow_in_the_last_step_is_detected) {
  all_settings(last_step);
}
TT_TEST (the_status_freezes_a_member) {
  all_settings(frozen_by_status);
}

/* The outputs of a network that overflowed must not give a finite loss. */
TT_TEST (a_loss_of_infinite_outputs_is_not_finite) {
  const float bad[] = {INFINITY, -INFINITY, NAN}, level[] = {0.1f, 0.5f, 0.9f};
  const tt_loss_args args = {
      .variance_floor = 1e-6f, .inverse_targets = 1.0f, .huber_delta = 1.0f, .nll_beta = 0.5f};
  for (int l = 0; l < TT_LOSS_COUNT; l++)
    for (int i = 0; i < 3; i++)
      for (int which = 1; which < 8; which++) {
        float o[3];
        int32_t n = tt_outputs_per_target(tt_loss_output_head((tt_loss)l), 3);
        tt_loss_sample sample = {n, level, o, NULL, 1, 1.0f, 1.0f};
        if (which >= 1 << n) continue;
        for (int j = 0; j < 3; j++) o[j] = which & 1 << j ? bad[i] : 0.5f;
        TT_CHECK(isfinite(tt_loss_target((tt_loss)l, &sample, args)), ==, 0);
      }
}

/* All of them: training ends, and there is no loss to report. */
TT_TEST (all_members_may_diverge) {
  for (const way *w = every_way(); w->name; w++) {
    problem p = make((setting){TT_ACT_relu, TT_OPT_adam, TT_LOSS_mse, 1000});
    for (int m = 0; m < MEMBERS; m++) p.c.member[m].hyper.learning_rate = 1e30f;
    if (can(*w, &p.c)) {
      problem_start(&p, *w, everyone(&p));
      tt_progress progress = problem_finish(&p, 3);
      TT_CHECK(progress.diverged, ==, MEMBERS);
      for (int q = 0; q < 3; q++) TT_CHECK(isnan(progress.loss[q]), !=, 0);
    }
    problem_free(&p);
  }
}
