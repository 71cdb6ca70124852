/* test_team_training.c — laws of members that several ranks train together, each some parts of the
 * batches, some layers, or both: the bits are those of one engine with all parts, for any teams,
 * lengths of calls and restarts; an error or a signal on one rank ends the call on all ranks of its
 * team. On four ranks: two stages of two ranks. */
#include "src/host/stop_request.h"
#include "src/train/shard/retry.h"
#include "tests/support/team_problem.h"

#include <signal.h>

enum { MOST_CALLS = 400 };

static int64_t still_training(const tt_shard *s)
{
  int64_t n = s->local_progress.training;
  tt_allreduce_sum_i64(comm, &n, 1);
  return n;
}

/* Give all members, saved from `src`, to the shards of `dst`. */
static void hand_over(cast *src, cast *dst)
{
  const tt_state *s = src->shard->state;
  tt_state *all = NULL;
  TT_CHECK_OK(tt_team_collect(src->shard, TT_OK));
  TT_CHECK_OK(tt_shard_save_local(src->shard));
  TT_CHECK_OK(tt_state_create(everyone(src->p), tt_cohort_state_shape(&src->p->c), &all));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(s, f);
    tt_allgatherv(comm, field.data, s->count * field.length * field.bytes,
                  tt_state_get(all, f).data, NULL);
  }
  tt_shard *shard = dst->shard;
  for (int64_t i = 0; i < shard->slice.count; i++)
    tt_state_copy_member(all, shard->slice.first + i, shard->state, i);
  TT_CHECK_OK(tt_shard_load_local(shard));
  tt_state_destroy(&all);
}

static void same_as(const tt_state *want, const cast *c, const char *what)
{
  for (int64_t m = 0; m < c->shard->slice.count; m++)
    same_member(want, c->shard->state, c->shard->slice.first + m, what);
}

/* Train to the end in calls of `steps` steps; `again` > 0: with other teams after each call, in
 * parts, in stages and in both by turns. */
static void train_in_teams(problem *p, int teams, int stages, int64_t steps, int again,
                           const tt_state *want)
{
  cast two[2], *c = &two[0]; /* a cast keeps its place: its shards point into it */
  int calls = 0, ranks = tt_comm_ranks(comm), turn = 0;
  start(p, teams, stages, &ENGINE, c);
  do {
    TT_CHECK_OK(tt_team_train(c->shard, TT_OK, steps));
    TT_CHECK_OK(tt_retry_diverged_local(c->shard));
    if (!again) continue;
    cast *other = c == two ? &two[1] : &two[0];
    teams = teams % ranks + 1;
    start(p, teams, stages_of(1, ++turn % WAYS), &ENGINE, other);
    hand_over(c, other);
    other->shard->local_progress = c->shard->local_progress;
    end(c);
    c = other;
  } while (still_training(c->shard) > 0 && ++calls < MOST_CALLS);
  TT_CHECK(calls, <, MOST_CALLS);
  TT_CHECK_OK(tt_team_collect(c->shard, TT_OK));
  TT_CHECK_OK(tt_shard_save_local(c->shard));
  same_as(want, c, "in teams");
  end(c);
}

/* On the double some of the teams without stages, and all with stages, exchange device memory. */
static void every_team(problem *p, int i)
{
  tt_state *want = problem_run(p, plain(), everyone(p), 7);
  int ranks = tt_comm_ranks(comm), most = ranks < 4 ? ranks : 1;
  for (int teams = 1; teams <= most; teams++)
    for (int k = 0; k < (!DOUBLE || (i < 3 && teams == 1) ? WAYS : 1); k++) {
      on_device = DOUBLE && (k > 0 || teams % 2 == i / 2 % 2);
      train_in_teams(p, teams, stages_of(i, k), i % 2 ? 1000 : 2, i % 3 == 0 && !DOUBLE, want);
    }
  on_device = 0;
  tt_state_destroy(&want);
}

TT_TEST (teams_give_the_bits_of_one_rank) {
  int cases = (int)TT_LOSS_COUNT > (int)TT_OPT_COUNT ? (int)TT_LOSS_COUNT : (int)TT_OPT_COUNT;
  if (DOUBLE && tt_comm_ranks(comm) > 3) cases = 3; /* the law of stages has the others */
  for (int i = 0; i < cases; i++) {
    problem p = make(i);
    every_team(&p, i);
    problem_free(&p);
  }
}

TT_TEST (teams_train_a_residual_network_to_the_bits_of_one_rank) {
  for (int i = 0; i < 3 && !DOUBLE; i += 2) {
    problem p = make_network(i, 1);
    every_team(&p, i);
    problem_free(&p);
  }
}

/* A diverged member is restarted by all ranks of its team. */
TT_TEST (retries_in_teams_give_the_bits_of_one_rank) {
  problem p = make(0);
  p.c.optimizer = TT_OPT_sgd;
  p.c.retries = 1;
  p.c.retry_lr_scale = 1e-6f;
  p.c.member[1].hyper.learning_rate = 1e4f; /* diverges; 1e-6 of it does not */
  p.c.member[1].hyper.clip_norm = 0.0f;
  tt_cohort *cohort[] = {&p.c};
  tt_job job = {.cohorts = {1, cohort},
                .data = p.d,
                .training = tt_dataset_for_training(p.d),
                .ops = &ENGINE,
                .use = use};
  tt_shards alone;
  TT_CHECK_OK(tt_shards_create_local(&job, 1, 0, NULL, 0, &alone));
  do {
    TT_CHECK_OK(tt_shard_train_local(&alone.at[0], 2));
    TT_CHECK_OK(tt_retry_diverged_local(&alone.at[0]));
  } while (alone.at[0].local_progress.training > 0);
  TT_CHECK_OK(tt_shard_save_local(&alone.at[0]));
  TT_CHECK(TT_FIELD(alone.at[0].state, attempt)[1], ==, 1);
  TT_CHECK(TT_FIELD(alone.at[0].state, status)[1], ==, TT_STATUS_finished);
  for (int k = 0; k < WAYS; k++) train_in_teams(&p, 1, stages_of(0, k), 3, 0, alone.at[0].state);
  tt_shards_destroy(&alone);
  problem_free(&p);
}

/* An engine whose call number `fails_at` of one function fails on one rank: the last one that has
 * layers in stages. */
static int calls, fails_at;
static int is_bad(void)
{
  int last = tt_comm_ranks(comm) < LAYERS ? tt_comm_ranks(comm) - 1 : LAYERS - 1;
  return tt_comm_rank(comm) == last;
}

static tt_err count_call(void)
{
  return is_bad() && ++calls == fails_at ? TT_FAIL(IO, "call %d fails", calls) : TT_OK;
}

static tt_err bad_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                          float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS])
{
  TT_TRY(count_call());
  return ENGINE.team->partial(e, m, parts, training, sum, loss);
}

static tt_err bad_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient,
                          double squares, float *w)
{
  TT_TRY(count_call());
  return ENGINE.team->advance(e, m, segment, gradient, squares, w);
}

static tt_err bad_add(tt_engine *e, int64_t m, float *dst, const float *src, int64_t count)
{
  TT_TRY(count_call());
  return ENGINE.team->device_add(e, m, dst, src, count);
}

static tt_err bad_copy(tt_engine *e, float *dst, const float *src, int64_t count)
{
  TT_TRY(count_call());
  return ENGINE.team->device_copy(e, dst, src, count);
}

static tt_err bad_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                        int64_t window, tt_pipeline_step *out)
{
  TT_TRY(count_call());
  return ENGINE.team->stage_begin(e, m, stage, parts, window, out);
}

static tt_err bad_forward(tt_engine *e, int64_t part, const float *in, float *out)
{
  TT_TRY(count_call());
  return ENGINE.team->stage_forward(e, part, in, out);
}

static tt_err bad_backward(tt_engine *e, int64_t part, const float *in, float *out)
{
  TT_TRY(count_call());
  return ENGINE.team->stage_backward(e, part, in, out);
}

static tt_err bad_gradient(tt_engine *e, int64_t part)
{
  TT_TRY(count_call());
  return ENGINE.team->stage_gradient(e, part);
}

static tt_err bad_accept(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                         const tt_epoch_sharing *share, int *epoch_ended)
{
  int ended = 0;
  tt_err err = count_call(), real = ENGINE.team->accept(e, m, slice, w, loss, share, &ended);
  if (!err) *epoch_ended = ended; /* after an error the others know more than this rank */
  return err ? err : real;
}

/* Train in calls of `steps` steps until one fails. Returns 0 if the training ended before. */
static int fail_once(cast *c, int64_t steps)
{
  tt_err e = TT_OK;
  int failed = 0;
  calls = 0;
  do {
    e = tt_team_train(c->shard, TT_OK, steps);
    failed = tt_agree(comm, e) != TT_OK;
  } while (!failed && still_training(c->shard) > 0);
  if (!failed) return 0;
  TT_CHECK((int)e, ==, is_bad() ? (int)TT_E_IO : (int)TT_OK);
  TT_CHECK_HAS(tt_err_last(), "fails");
  /* rank 0 can save what was trained, and the error stays the first one */
  TT_CHECK((int)tt_team_collect(c->shard, e), ==, (int)e);
  TT_CHECK_OK(tt_shard_save_local(c->shard));
  /* later calls of this rank do not train either */
  TT_CHECK((int)tt_team_train(c->shard, e, steps), ==, (int)e);
  return 1;
}

/* An error in each of the first calls, also in the last one before the ranks go on to the next
 * member or end: of a call of 1 or 2 steps, or of an epoch. */
static void fail_in_a_call(tt_team_ops team, int stages)
{
  tt_engine_ops bad = ENGINE;
  bad.team = &team;
  static const int64_t length[] = {1, 2, 1000};
  for (int k = 0; k < 3; k += DOUBLE ? 2 : 1)
    for (fails_at = 1; fails_at < (DOUBLE ? 4 : 6); fails_at++) {
      problem p = make(2);
      cast c;
      start(&p, 1, stages, &bad, &c);
      TT_CHECK(fail_once(&c, length[k]), ==, 1);
      end(&c);
      problem_free(&p);
    }
}

TT_TEST (an_error_on_one_rank_ends_the_call_on_all) {
  int in_stages = stages_of(0, tt_comm_ranks(comm) < 4 ? 1 : 2);
  tt_team_ops bad = *ENGINE.team;
  on_device = DOUBLE;
  bad.partial = bad_partial;
  fail_in_a_call(bad, 0);
  bad = *ENGINE.team;
  bad.device_add = bad_add;
  if (on_device && tt_comm_ranks(comm) > 1) fail_in_a_call(bad, 0);
  for (int k = 0; k < WAYS; k++) {
    bad = *ENGINE.team;
    bad.advance = bad_advance;
    fail_in_a_call(bad, stages_of(0, k));
    bad = *ENGINE.team;
    bad.accept = bad_accept;
    fail_in_a_call(bad, stages_of(0, k));
  }
  bad = *ENGINE.team;
  bad.stage_forward = bad_forward;
  fail_in_a_call(bad, in_stages);
  bad = *ENGINE.team;
  bad.stage_backward = bad_backward;
  if (!DOUBLE) fail_in_a_call(bad, in_stages);
  bad = *ENGINE.team;
  bad.stage_gradient = bad_gradient;
  if (!DOUBLE) fail_in_a_call(bad, in_stages);
  bad = *ENGINE.team;
  bad.stage_begin = bad_begin;
  if (!DOUBLE) fail_in_a_call(bad, in_stages);
  bad = *ENGINE.team;
  bad.device_copy = bad_copy;
  if (on_device) fail_in_a_call(bad, in_stages);
  on_device = 0;
}

/* The last test: this process remembers the signal. */
TT_TEST (signal_to_one_rank_ends_the_call_after_a_step) {
  problem p = make(0);
  tt_progress progress;
  problem_start(&p, plain(), everyone(&p));
  TT_CHECK_OK(p.by.ops->train(p.engine, 1, &progress));
  tt_state *want = problem_state(&p, everyone(&p));
  problem_stop(&p);
  tt_stop_install_handlers_local();
  if (tt_comm_rank(comm) == tt_comm_ranks(comm) - 1) raise(SIGUSR1);
  for (int k = 0; k < WAYS; k++) {
    cast c;
    start(&p, 1, stages_of(0, k), &ENGINE, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1000));
    TT_CHECK_OK(tt_team_collect(c.shard, TT_OK));
    TT_CHECK_OK(tt_shard_save_local(c.shard));
    if (c.shard->engine) {
      TT_CHECK(c.shard->local_progress.member_steps, ==, 1);
      same_member(want, c.shard->state, 0, "after one step");
    }
    end(&c);
  }
  tt_state_destroy(&want);
  problem_free(&p);
}
