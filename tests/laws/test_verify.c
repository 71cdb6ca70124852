/* test_verify.c — laws of run.verify: verified steps change no bit and find nothing on a sound
 * engine, for every setting; one flipped bit and a wrong formula are found. */
#include "tests/support/faulty_engine.h"
#include "tests/support/settings.h"

#include "src/train/verify.h"

enum { STEPS = 3, MOST_CALLS = 500 };
static const double always = 1e-9;

typedef struct cast_of_one {
  problem p;
  tt_cohort *at[1];
  tt_job job;
  tt_shards all;
} cast_of_one;

/* Returns 0, and nothing is started, if the way cannot train these members. */
static int start(cast_of_one *t, setting v, const tt_engine_ops *ops, way variant)
{
  const int64_t id[ENSEMBLES] = {0, 1};
  *t = (cast_of_one){.p = cast(v, id, ENSEMBLES, 0, EACH)};
  if (!can(variant, &t->p.c)) return problem_free(&t->p), 0;
  t->at[0] = &t->p.c;
  t->job = (tt_job){
      .cohorts = {1, t->at}, .data = t->p.d, .training = *t->p.d, .ops = ops, .use = variant.use};
  TT_CHECK_OK(tt_shards_create_local(&t->job, 1, 0, NULL, 0, &t->all));
  return 1;
}

static void stop(cast_of_one *t)
{
  tt_shards_destroy(&t->all);
  problem_free(&t->p);
}

/* Train to the end or to an error. Returns the number of members chosen, or -1. */
static int64_t train(cast_of_one *t, double every)
{
  tt_shard *shard = &t->all.at[0];
  int64_t calls = 0;
  do {
    tt_err e = tt_verify_local(&t->all, every);
    TT_CHECK(e == TT_OK || e == TT_E_DEVICE, ==, 1);
    if (e) return -1;
    TT_CHECK_OK(tt_shard_train_local(shard, STEPS));
    TT_CHECK(++calls, <, MOST_CALLS);
  } while (shard->local_progress.training > 0);
  return shard->verified;
}

TT_TEST (verified_steps_change_no_bit) {
  int checked = 0;
  for (const way *w = every_way(); w->name; w++)
    for (int number = 0; number < SETTINGS; number += DOUBLE ? 5 : 1) {
      cast_of_one plain, verified;
      if (!has_turn(*w, number) || !start(&plain, setting_of(number), w->ops, *w)) continue;
      start(&verified, setting_of(number), w->ops, *w);
      TT_CHECK(train(&plain, 0.0), ==, 0);
      TT_CHECK(train(&verified, always), >, 0);
      TT_CHECK_OK(tt_shard_save_local(plain.all.at));
      TT_CHECK_OK(tt_shard_save_local(verified.all.at));
      for (int64_t m = 0; m < plain.p.c.members; m++)
        same_member(plain.all.at[0].state, verified.all.at[0].state, m, "verified");
      checked++;
      stop(&plain);
      stop(&verified);
    }
  TT_CHECK(checked, >, 0);
}

/* Training of an engine with a fault ends with a message that has this text. */
static void is_found(const tt_engine_ops *faulty, way variant, const char *text)
{
  cast_of_one t;
  if (!start(&t, setting_of(0), faulty, variant)) return;
  TT_CHECK(train(&t, always), ==, -1);
  TT_CHECK(strstr(tt_err_last(), text) != NULL, ==, 1);
  stop(&t);
}

TT_TEST (a_flipped_bit_is_found) {
  for (const way *w = every_way(); w->name; w++)
    for (bad_save = 2; bad_save <= 3; bad_save++) {
      tt_engine_ops faulty = *w->ops;
      sound = w->ops, saves = 0;
      faulty.save = save_with_a_flip;
      is_found(&faulty, *w, "has other bits when it is computed again");
    }
}

TT_TEST (a_wrong_formula_is_found) {
  for (const way *w = every_way(); w->name; w++) {
    tt_engine_ops faulty = *w->ops;
    sound = w->ops;
    faulty.name = "wrong"; /* an engine called cpu is not compared with itself */
    faulty.create = create_wrong;
    is_found(&faulty, *w, "is not that of the CPU");
  }
}
