/* test_ensemble_waves.c — laws of waves with train.early_stopping: ensemble: the waves of a rank
 * take turns, one epoch each, and every member has the bits of members that train at once, for any
 * waves, ranks and restarts, beside members that stop on their own. */
#include "tests/support/problem.h"
#include "tests/support/ranks.h"
#include "tests/support/restart.h"

#include "src/train/shard/shard_train.h"

enum { ROWS = DOUBLE ? 90 : 150, EPOCHS = 4, EACH = 3, COHORTS = 3, MOST_CALLS = 400 };

#ifdef TT_CUDA_DOUBLE
#define ENGINE tt_engine_cuda
static const tt_resources use = {.threads = 1, .path = TT_GPU_PATH_auto};
#else
#define ENGINE tt_engine_cpu
static const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};
#endif

/* Members that stop on their own, ensembles that stop as a whole, and these or one ensemble of two
 * networks. */
typedef struct cast {
  problem p[COHORTS];
  tt_cohort *at[COHORTS];
  tt_job job;
  tt_state *want[COHORTS]; /* of this rank's members */
} cast;

static void start(int two_networks, cast *t)
{
  *t = (cast){.job = {.ops = &ENGINE, .use = use}};
  if (tt_comm_ranks(comm) == 1) t->job.use.threads = 2; /* which share parts */
  for (int k = 0; k < COHORTS; k++) {
    const int64_t hidden[] = {4 + 3 * k};
    int64_t ensembles = two_networks && k > 0 ? 1 : 2;
    problem *p = &t->p[k];
    *p = problem_make(ROWS, 3, 2, ensembles, EACH, hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean_variance);
    p->c.max_epochs = EPOCHS;
    p->c.nll_beta = 0.0f; /* with which ensemble 0 does not converge */
    p->c.parts = 1 + k % 2;
    p->c.stop = k ? TT_EARLY_STOPPING_ensemble : TT_EARLY_STOPPING_member;
    p->c.joined = two_networks && k == 2;
    p->c.average = k == 2 ? TT_AVERAGE_ema : TT_AVERAGE_none;
    for (int64_t m = 0; m < p->c.members; m++) {
      tt_hyper *h = &p->c.member[m].hyper;
      h->epochs = EPOCHS - (int32_t)(m % 2);
      h->learning_rate = m < EACH ? 0.3f : 0.02f; /* ensemble 0 stops early */
      h->patience = m < EACH ? 1 : 2;
      h->min_delta = m < EACH ? 0.05f : 0.0f;
      h->average_decay = 0.7f;
      h->dropout = 0.1f;
    }
    t->at[k] = &p->c;
  }
  t->p[1].c.member[1].hyper.learning_rate = 1e30f; /* diverges */
  t->job.cohorts = (tt_cohorts){COHORTS, t->at};
  t->job.data = t->p[0].d;
  t->job.training = *t->p[0].d;
}

static void stop(cast *t)
{
  for (int k = 0; k < COHORTS; k++) {
    tt_state_destroy(&t->want[k]);
    problem_free(&t->p[k]);
  }
}

static void create(const cast *t, int64_t wave, tt_shards *all)
{
  TT_CHECK_OK(
      tt_shards_create_local(&t->job, tt_comm_ranks(comm), tt_comm_rank(comm), NULL, 0, wave, all));
  TT_CHECK_OK(tt_shards_update_progress(comm, all));
}

/* Killed and started again from the saved states, with other waves. */
static void restart(const cast *t, int64_t wave, tt_shards *all)
{
  tt_shards again;
  create(t, wave, &again);
  move_states(all, &again);
  TT_CHECK_OK(tt_shards_update_progress(comm, &again));
  tt_shards_destroy(all);
  *all = again;
}

static int64_t training(const tt_shards *all)
{
  int64_t epochs, members = 0;
  tt_progress p = tt_shards_total_progress(all, &epochs);
  for (int64_t k = 0; k < all->count; k++) members += all->at[k].cohort->members;
  TT_CHECK(p.training + p.finished + p.early_stopped + p.diverged, ==, members);
  TT_CHECK(p.waiting, <=, all->at[0].progress.training); /* the others take turns */
  return p.training;
}

static void compare(const cast *t, const tt_shards *all)
{
  for (int k = 0; k < COHORTS; k++)
    for (int64_t m = 0; m < all->at[k].slice.count; m++)
      same_member(t->want[k], all->at[k].state, all->at[k].slice.first + m, "in waves");
}

/* Train to the end, in calls of tt_shards_train.
 *   then  size of the waves after a restart; 0: no restart
 * Returns the steps of all members. */
static int64_t train(const cast *t, int64_t wave, int64_t then, tt_shards *all)
{
  int64_t calls = 0, steps = 0;
  create(t, wave, all);
  while (training(all) > 0) {
    TT_CHECK_OK(tt_shards_train(comm, all, 0.0));
    for (int k = 0; k < COHORTS; k++) steps += all->at[k].progress.member_steps;
    TT_CHECK(++calls, <, MOST_CALLS);
    if (then && calls % 3 == 2) restart(t, calls % 2 ? then : wave, all);
  }
  save_shards(all);
  return steps;
}

static void check(cast *t)
{
  static const int64_t wave[] = {1, 2, EACH, 2 * EACH + 1};
  tt_shards all;
  int64_t steps = train(t, 0, 0, &all), early = 0;
  for (int k = 1; k < COHORTS; k++) early += all.at[k].progress.early_stopped;
  TT_CHECK(early, >, 0);
  TT_CHECK(all.at[1].progress.diverged, ==, 1);
  for (int k = 0; k < COHORTS; k++) {
    t->want[k] = all.at[k].state;
    all.at[k].state = NULL;
  }
  tt_shards_destroy(&all);
  for (int i = DOUBLE; i < 4; i += 1 + DOUBLE) {
    TT_CHECK(train(t, wave[i], i % 2 ? wave[3 - i] : 0, &all), ==, steps);
    compare(t, &all);
    tt_shards_destroy(&all);
  }
}

TT_TEST (waves_of_ensembles_that_stop_together_change_no_bit) {
  for (int two_networks = 0; two_networks < 2; two_networks++) {
    cast t;
    start(two_networks, &t);
    check(&t);
    stop(&t);
  }
}
