/* test_methods.c — laws of training methods with more than one attempt: retries. On any number of ranks the bits are those of a plain loop over one engine
 * that holds all members. */
#include "tests/support/problem.h"
#include "tests/support/ranks.h"

#include "core/base/log.h"
#include "src/train/shard/retry.h"

enum { ROWS = 150, EPOCHS = 6, EACH = 3, BAD = 1, MOST_CALLS = 200 };

static const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};

static way plain(void) { return (way){.name = "cpu", .ops = &tt_engine_cpu, .use = use}; }

/* Two ensembles of three members, with one target each. */
static problem make(tt_output output)
{
  const int64_t hidden[] = {5};
  problem p = problem_make(ROWS, 3, 2, 2, EACH, hidden, 1, TT_ACT_tanh, output);
  p.c.retry_lr_scale = 1e-6f;
  p.c.retry_reseed = 1;
  return p;
}

static tt_shard shard_start(problem *p, tt_slice slice)
{
  tt_shard w = {.cohort = &p->c, .ops = &tt_engine_cpu, .use = &use, .data = p->d, .slice = slice};
  TT_CHECK_OK(tt_state_create(slice, tt_cohort_state_shape(&p->c), &w.state));
  if (slice.count == 0) return w;
  TT_CHECK_OK(w.ops->create(&p->c, slice, &use, &w.engine));
  TT_CHECK_OK(w.ops->set_data(w.engine, p->d, NULL));
  TT_CHECK_OK(w.ops->init(w.engine));
  return w;
}

static void shard_stop(tt_shard *w)
{
  w->ops->destroy(&w->engine);
  tt_state_destroy(&w->state);
}

/* Killed and started again from the saved state. */
static void shard_restart(problem *p, tt_shard *w)
{
  TT_CHECK_OK(tt_shard_save_local(w));
  tt_shard again = shard_start(p, w->slice);
  tt_state *fresh = again.state;
  again.state = w->state;
  w->state = fresh;
  TT_CHECK_OK(tt_shard_load_local(&again));
  again.local_progress = w->local_progress;
  shard_stop(w);
  *w = again;
}

static tt_slice my_slice(const problem *p)
{
  tt_slice s;
  TT_CHECK_OK(tt_partition_even(p->c.members, tt_comm_ranks(comm), tt_comm_rank(comm), &s));
  return s;
}

/* retries */

static void poison(problem *p)
{
  p->c.optimizer = TT_OPT_sgd;
  p->c.member[BAD].hyper.learning_rate = 1e4f; /* diverges; 1e-6 of it does not */
}

static void finish_apart(problem *p, tt_shard *w, int64_t steps, int restart)
{
  int calls = 0;
  do {
    TT_CHECK_OK(tt_shard_train_local(w, steps));
    TT_CHECK_OK(tt_retry_diverged_local(w));
    if (restart) shard_restart(p, w);
  } while (w->local_progress.training > 0 && ++calls < MOST_CALLS);
  TT_CHECK(calls, <, MOST_CALLS);
  TT_CHECK_OK(tt_shard_save_local(w));
}

/* All members, with member BAD in its first retry from the start. */
static tt_state *with_first_retry(problem *p)
{
  problem_start(p, plain(), everyone(p));
  tt_state *s = problem_state(p, everyone(p));
  TT_FIELD(s, attempt)[BAD] = 1;
  TT_FIELD(s, lr_factor)[BAD] = p->c.retry_lr_scale;
  tt_member_init_weights(&p->c, &p->c.member[BAD], 1, TT_FIELD(s, weights) + BAD * s->params);
  TT_CHECK_OK(p->by.ops->load(p->engine, everyone(p), s));
  tt_state_destroy(&s);
  problem_finish(p, 3);
  s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

/* The retried member equals one that starts with the retry, and the others do not change; for any
 * lengths of calls and any number of kills. */
TT_TEST (a_retry_is_a_new_start) {
  for (int reseed = 0; reseed < 2; reseed++) {
    problem p = make(TT_OUTPUT_mean);
    p.c.retries = 2;
    p.c.retry_reseed = reseed;
    poison(&p);
    tt_state *wanted = with_first_retry(&p);
    TT_CHECK(TT_FIELD(wanted, status)[BAD], ==, TT_STATUS_finished);
    const int64_t steps[] = {1, 7, 1000};
    for (int i = 0; i < 6; i++) {
      tt_shard w = shard_start(&p, my_slice(&p));
      if (w.engine) finish_apart(&p, &w, steps[i % 3], i / 3);
      for (int64_t m = w.slice.first; m < w.slice.first + w.slice.count; m++)
        same_member(wanted, w.state, m, "retried");
      TT_CHECK(w.local_progress.diverged, ==, 0);
      shard_stop(&w);
    }
    tt_state_destroy(&wanted);
    problem_free(&p);
  }
}

TT_TEST (a_member_without_retries_left_is_diverged) {
  for (int retries = 0; retries < 3; retries++) {
    problem p = make(TT_OUTPUT_mean);
    p.c.retries = retries;
    p.c.retry_lr_scale = 1.0f;
    poison(&p);
    tt_shard w = shard_start(&p, everyone(&p));
    finish_apart(&p, &w, 5, 1);
    TT_CHECK(w.local_progress.diverged, ==, 1);
    TT_CHECK(TT_FIELD(w.state, attempt)[BAD], ==, retries);
    TT_CHECK(TT_FIELD(w.state, status)[BAD], ==, TT_STATUS_diverged);
    shard_stop(&w);
    problem_free(&p);
  }
}

TT_SUITE(errors_only, NULL)
