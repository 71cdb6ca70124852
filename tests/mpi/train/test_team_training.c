/* test_team_training.c — laws of members that several ranks train together, each some parts of the
 * batches, some layers, or both: the bits are those of one engine with all parts, for any teams,
 * lengths of calls and restarts; an error or a signal on one rank ends the call on all ranks of its
 * team. On four ranks: two stages of two ranks. */
#include "tests/support/problem.h"
#include "tests/support/ranks.h"
#include "tests/support/residual_front.h"

#include "core/model/load_balance.h"
#include "src/host/stop_request.h"
#include "src/train/shard/retry.h"
#include "src/train/shard/team_training.h"

#include <signal.h>

enum { ROWS = DOUBLE ? 120 : 190, INPUTS = 5, EPOCHS = DOUBLE ? 2 : 3, MEMBERS = 2, PARTS = 8 };
enum { LAYERS = 4, MOST_CALLS = 400, WAYS = 3 };

/* The engine, on the double that of CUDA, and bytes: copied to a device so far, held there now. */
#ifdef TT_CUDA_DOUBLE
#define ENGINE tt_engine_cuda
#define UPLOADED tt_double_count().uploaded
#define HELD tt_double_count().bytes
static const tt_resources use = {.threads = 1, .path = TT_GPU_PATH_layered};
#else
#define ENGINE tt_engine_cpu
#define UPLOADED (int64_t)0
#define HELD (int64_t)0
static const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};
#endif
/* 1: teams exchange memory of the device, with the engine of CUDA. */
static int on_device;
static way plain(void) { return (way){.name = "one rank", .ops = &ENGINE, .use = use}; }

/* Case i has row i of the tables of losses, optimizers and averages. Two blocks of the norm.
 *   convolutions  1: the networks are residual networks of convolutions */
static problem make_network(int i, int convolutions)
{
  const int64_t hidden[LAYERS - 1] = {63, 63, 16}, inputs = convolutions ? RESIDUAL_INPUTS : INPUTS;
  tt_loss loss = (tt_loss)(i % TT_LOSS_COUNT);
  problem p = problem_make(ROWS, inputs, 1, 1, MEMBERS, hidden, LAYERS - 1, TT_ACT_silu,
                           tt_loss_output_head(loss));
  tt_model_shape shape =
      usual_shape(inputs, 1, hidden, LAYERS - 1, TT_ACT_silu, tt_loss_output_head(loss));
  tt_front front = {0};
  if (convolutions) front = residual_front(TT_ACT_silu);
  shape.front = &front;
  shape.layer_norm = i % 2;
  shape.residual = i % 3 == 1;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  if (i % 4 == 2) set_rates(&p.c.model, i / 4);
  p.c.loss = loss;
  p.c.optimizer = (tt_optimizer)(i % TT_OPT_COUNT);
  p.c.average = (tt_weight_average)(i % TT_AVERAGE_COUNT);
  p.c.batch_size = i % 3 ? 100 : 57; /* the last parts of 57 rows are empty */
  p.c.parts = i % 4 == 3 ? 5 : PARTS;
  p.c.max_epochs = EPOCHS;
  for (int64_t m = 0; m < MEMBERS; m++) {
    tt_hyper *h = &p.c.member[m].hyper;
    h->epochs = EPOCHS - (int32_t)m;
    h->clip_norm = i % 2 ? 0.0f : 0.05f;
    h->dropout = i % 4 == 1 ? 0.2f : 0.0f;
    h->anchor = i % 5 == 2 ? 0.1f : 0.0f;
    h->adversarial_epsilon = i % 5 == 3 ? 0.02f : 0.0f;
    h->feature_fraction = i % 3 == 2 && !convolutions ? 0.5f : 1.0f;
    h->label_noise = i % 4 == 2 && loss != TT_LOSS_cross_entropy ? 0.1f : 0.0f;
    h->average_decay = 0.7f;
  }
  return p;
}

static problem make(int i) { return make_network(i, 0); }

/* Stages of way 0, 1, ... to train case i: the ranks share the parts; each has a stage; both. */
static int stages_of(int i, int number)
{
  int both = tt_comm_ranks(comm) < 4 ? 1 + i % 2 : 2;
  return number == 0 ? 0 : number == 1 ? LAYERS : both;
}

/* The members of a problem on the ranks, in teams. */
typedef struct cast {
  problem *p;
  tt_cohort *cohort[1];
  tt_job job;
  int stages; /* as in tt_shard_team */
  tt_team *team;
  tt_shards shards;
  tt_shard *shard;
} cast;

static void start(problem *p, int teams, int stages, const tt_engine_ops *ops, cast *to)
{
  int team = tt_load_balance_place(tt_comm_ranks(comm), teams, tt_comm_rank(comm)).team;
  *to = (cast){.p = p, .cohort = {&p->c}, .stages = stages};
  to->job = (tt_job){.cohorts = {1, to->cohort},
                      .data = p->d,
                      .training = tt_dataset_for_training(p->d),
                      .ops = ops,
                      .use = use};
  to->job.use.device_exchange = on_device;
  if (tt_comm_ranks(comm) < 3) to->job.use.threads = 1 + teams % 2; /* they share parts */
  TT_CHECK_OK(tt_team_create(comm, team, &to->team));
  TT_CHECK_OK(tt_shards_create_local(&to->job, teams, team, to->team, to->stages, 0, &to->shards));
  to->shard = &to->shards.at[0];
}

static void end(cast *c)
{
  tt_shards_destroy(&c->shards);
  tt_team_destroy(&c->team);
}

static int64_t still_training(const tt_shard *s)
{
  int64_t n = s->local_progress.training;
  tt_allreduce_sum_i64(comm, &n, 1);
  return n;
}

/* Give all members, saved from `from`, to the shards of `to`. */
static void hand_over(cast *from, cast *to)
{
  const tt_state *s = from->shard->state;
  tt_state *all = NULL;
  TT_CHECK_OK(tt_team_collect(from->shard, TT_OK));
  TT_CHECK_OK(tt_shard_save_local(from->shard));
  TT_CHECK_OK(tt_state_create(everyone(from->p), tt_cohort_state_shape(&from->p->c), &all));
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field of = tt_state_get(s, f);
    tt_allgatherv(comm, of.data, s->count * of.length * of.bytes, tt_state_get(all, f).data, NULL);
  }
  tt_shard *shard = to->shard;
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

/* Adversarial training is not possible in stages. On the double some of the teams without stages,
 * and all with stages, exchange device memory. */
static void every_team(problem *p, int i, int in_stages)
{
  tt_state *want = problem_run(p, plain(), everyone(p), 7);
  int ranks = tt_comm_ranks(comm), most = ranks < 4 ? ranks : 1;
  for (int teams = 1; teams <= most; teams++)
    for (int k = 0; k < (in_stages && (!DOUBLE || (i < 3 && teams == 1)) ? WAYS : 1); k++) {
      on_device = DOUBLE && (k > 0 || teams % 2 == i / 2 % 2);
      train_in_teams(p, teams, stages_of(i, k), i % 2 ? 1000 : 2,
                     in_stages && i % 3 == 0 && !DOUBLE, want);
    }
  on_device = 0;
  tt_state_destroy(&want);
}

TT_TEST (teams_give_the_bits_of_one_rank) {
  int cases = (int)TT_LOSS_COUNT > (int)TT_OPT_COUNT ? (int)TT_LOSS_COUNT : (int)TT_OPT_COUNT;
  if (DOUBLE && tt_comm_ranks(comm) > 3) cases = 3; /* the law of stages has the others */
  for (int i = 0; i < cases; i++) {
    problem p = make(i);
    every_team(&p, i, p.c.member[0].hyper.adversarial_epsilon <= 0.0f);
    problem_free(&p);
  }
}

TT_TEST (teams_train_a_residual_network_to_the_bits_of_one_rank) {
  for (int i = 0; i < 3 && !DOUBLE; i += 2) {
    problem p = make_network(i, 1);
    every_team(&p, i, 1);
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
  tt_job job = {.cohorts = {1, cohort}, .data = p.d, .training = tt_dataset_for_training(p.d),
                .ops = &ENGINE, .use = use};
  tt_shards alone;
  TT_CHECK_OK(tt_shards_create_local(&job, 1, 0, NULL, 0, 0, &alone));
  do {
    TT_CHECK_OK(tt_shard_train_local(&alone.at[0], 2));
    TT_CHECK_OK(tt_retry_diverged_local(&alone.at[0]));
  } while (alone.at[0].local_progress.training > 0);
  TT_CHECK_OK(tt_shard_save_local(&alone.at[0]));
  TT_CHECK(TT_FIELD(alone.at[0].state, attempt)[1], ==, 1);
  TT_CHECK(TT_FIELD(alone.at[0].state, status)[1], ==, TT_STATUS_finished);
  for (int k = 0; k < WAYS; k++)
    train_in_teams(&p, 1, stages_of(0, k), 3, 0, alone.at[0].state);
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
  return ENGINE.partial(e, m, parts, training, sum, loss);
}

static tt_err bad_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient,
                          double squares, float *w)
{
  TT_TRY(count_call());
  return ENGINE.advance(e, m, segment, gradient, squares, w);
}

static tt_err bad_add(tt_engine *e, int64_t m, float *to, const float *from, int64_t count)
{
  TT_TRY(count_call());
  return ENGINE.device_add(e, m, to, from, count);
}

static tt_err bad_copy(tt_engine *e, float *to, const float *from, int64_t count)
{
  TT_TRY(count_call());
  return ENGINE.device_copy(e, to, from, count);
}

static tt_err bad_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                        int64_t window, tt_pipeline_step *out)
{
  TT_TRY(count_call());
  return ENGINE.stage_begin(e, m, stage, parts, window, out);
}

static tt_err bad_forward(tt_engine *e, int64_t part, const float *in, float *out)
{
  TT_TRY(count_call());
  return ENGINE.stage_forward(e, part, in, out);
}

static tt_err bad_backward(tt_engine *e, int64_t part, const float *in, float *out)
{
  TT_TRY(count_call());
  return ENGINE.stage_backward(e, part, in, out);
}

static tt_err bad_accept(tt_engine *e, int64_t m, tt_slice of, const float *w, double loss,
                         const tt_epoch_sharing *share, int *epoch_ended)
{
  int ended = 0;
  tt_err err = count_call(), real = ENGINE.accept(e, m, of, w, loss, share, &ended);
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
static void fail_in_a_call(tt_engine_ops bad, int stages)
{
  static const struct {
    int64_t steps;
    tt_early_stopping stop;
  } length[] = {{1, TT_EARLY_STOPPING_member}, {2, TT_EARLY_STOPPING_member},
                {1000, TT_EARLY_STOPPING_member}, {1000, TT_EARLY_STOPPING_ensemble}};
  for (int k = 0; k < 4; k += DOUBLE ? 3 : 1)
    for (fails_at = 1; fails_at < (DOUBLE ? 4 : 6); fails_at++) {
      problem p = make(2);
      cast c;
      p.c.stop = length[k].stop;
      start(&p, 1, stages, &bad, &c);
      TT_CHECK(fail_once(&c, length[k].steps), ==, 1);
      end(&c);
      problem_free(&p);
    }
}

TT_TEST (an_error_on_one_rank_ends_the_call_on_all) {
  int in_stages = stages_of(0, tt_comm_ranks(comm) < 4 ? 1 : 2);
  tt_engine_ops bad = ENGINE;
  on_device = DOUBLE;
  bad.partial = bad_partial;
  fail_in_a_call(bad, 0);
  bad = ENGINE;
  bad.device_add = bad_add;
  if (on_device && tt_comm_ranks(comm) > 1) fail_in_a_call(bad, 0);
  for (int k = 0; k < WAYS; k++) {
    bad = ENGINE;
    bad.advance = bad_advance;
    fail_in_a_call(bad, stages_of(0, k));
    bad = ENGINE;
    bad.accept = bad_accept;
    fail_in_a_call(bad, stages_of(0, k));
  }
  bad = ENGINE;
  bad.stage_forward = bad_forward;
  fail_in_a_call(bad, in_stages);
  bad = ENGINE;
  bad.stage_backward = bad_backward;
  if (!DOUBLE) fail_in_a_call(bad, in_stages);
  bad = ENGINE;
  bad.stage_begin = bad_begin;
  if (!DOUBLE) fail_in_a_call(bad, in_stages);
  bad = ENGINE;
  bad.device_copy = bad_copy;
  if (on_device) fail_in_a_call(bad, in_stages);
  on_device = 0;
}

/* The memory of the device for an exchange, which the engine allocates, is that of the plan. */
static int64_t planned_room;
static tt_err checked_room(tt_engine *e, int64_t count, float **out)
{
  int64_t before = HELD;
  TT_CHECK_OK(ENGINE.device_room(e, count, out));
  TT_CHECK(HELD - before, ==, planned_room);
  planned_room = 0;
  return TT_OK;
}

TT_TEST (an_exchange_takes_the_planned_memory) {
  tt_engine_ops checked = ENGINE;
  checked.device_room = checked_room;
  for (int k = 0; k < WAYS && DOUBLE; k++) {
    problem p = make(1);
    cast c;
    planned_room = tt_team_device_bytes_local(&p.c, stages_of(1, k), tt_comm_ranks(comm),
                                              tt_comm_rank(comm));
    TT_CHECK(planned_room, >=, 4 * p.c.model.params);
    on_device = 1;
    start(&p, 1, stages_of(1, k), &checked, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1));
    TT_CHECK(planned_room, ==, 0); /* it was allocated */
    end(&c);
    problem_free(&p);
  }
  on_device = 0;
}

/* Bytes and messages of a step: a word to each other rank; the sums of the parts of each rank for
 * the segments of the others; the new weights of its own segment to each other rank. After the last
 * step of a call one more word. The same from memory of a device, to which nothing is copied then. */
static void step_sends(problem *p)
{
  cast c;
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  int64_t params = p->c.model.params, own = tt_part_segment(params, ranks, rank).count;
  start(p, 1, 0, &ENGINE, &c);
  TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* allocates */
  tt_team_traffic before = tt_team_traffic_local(c.team);
  int64_t uploaded = UPLOADED;
  TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* one step of each member */
  tt_team_traffic after = tt_team_traffic_local(c.team);
  int sums = tt_part_sums_of(p->c.parts, tt_part_slice(p->c.parts, ranks, rank), NULL).count;
  int64_t word = 3 * 8 + TT_MAX_PART_SUMS * 8, full = own > 0, messages = 0;
  for (int r = 0; r < ranks; r++)
    messages += r != rank && tt_part_segment(params, ranks, r).count > 0;
  int64_t bytes = (ranks - 1) * word + 4 * sums * (params - own) + 4 * (ranks - 1) * own;
  TT_CHECK(after.bytes - before.bytes, ==, MEMBERS * (bytes + (ranks - 1) * word));
  TT_CHECK(after.messages - before.messages, ==,
           MEMBERS * (2 * (ranks - 1) + sums * messages + (ranks - 1) * full));
  if (DOUBLE && !on_device) TT_CHECK(UPLOADED - uploaded, >=, 4 * MEMBERS * params);
  if (on_device) TT_CHECK(UPLOADED - uploaded, <, 256);
  end(&c);
}

TT_TEST (a_step_sends_what_the_model_says) {
  problem p = make(1); /* not clipped */
  p.c.batch_size = 20; /* the second step does not end an epoch */
  for (on_device = 0; on_device <= DOUBLE; on_device++) step_sends(&p);
  on_device = 0;
  problem_free(&p);
}

/* Of a rank in the grid: outputs of a stage go to the next one, and as many gradients come back if
 * a layer before them trains; the ranks of a stage exchange the sums of their parts and the weights of their segments. */
static tt_team_traffic traffic_in_stages(const problem *p, tt_pipeline_grid grid, int rank)
{
  const tt_pipeline_place at = tt_pipeline_place_of(&p->c.model, grid, p->c.parts, rank);
  int sums = tt_part_sums_of(p->c.parts, at.parts, NULL).count;
  tt_team_traffic all = {0, 0};
  for (int64_t i = at.parts.first; i < at.parts.first + at.parts.count; i++) {
    int64_t rows = (tt_part_rows(p->c.batch_size, p->c.parts, i).count + 15) / 16 * 16;
    int64_t before = at.stage > 0 && at.layers.first > tt_model_frozen(&p->c.model);
    int64_t behind = at.stage < grid.stages - 1;
    const tt_layer *first = &p->c.model.layer[at.layers.first];
    all.messages += (before + behind) * (rows > 0);
    if (before) all.bytes += 4 * rows * first->in;
    if (behind) all.bytes += 4 * rows * first[at.layers.count - 1].out;
  }
  for (int column = 0; at.stage >= 0 && column < grid.columns; column++) {
    int64_t to = tt_part_segment_of(at.layers.params, grid.columns, column).count;
    if (column == at.column) continue;
    all.bytes += 4 * (sums * to + at.segment.count);
    all.messages += sums * (to > 0) + (at.segment.count > 0);
  }
  return all;
}

TT_TEST (a_step_in_stages_sends_what_the_model_says) {
  int ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  for (int stages = 1; stages <= LAYERS && !DOUBLE; stages++) {
    problem p = make(1); /* not clipped */
    cast c;
    p.c.batch_size = 50; /* the second step does not end an epoch */
    TT_CHECK_OK(tt_model_set_rates(stages / 2, NULL, 0, &p.c.model));
    const tt_pipeline_grid grid = tt_pipeline_grid_of(&p.c.model, stages, ranks);
    start(&p, 1, stages, &ENGINE, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1));
    tt_team_traffic before = tt_team_traffic_local(c.team);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1)); /* one step of each member */
    tt_team_traffic after = tt_team_traffic_local(c.team);
    tt_team_traffic want = traffic_in_stages(&p, grid, rank);
    int64_t word = 3 * 8 + TT_MAX_PART_SUMS * 8; /* three words to each other rank */
    TT_CHECK(after.bytes - before.bytes, ==, MEMBERS * (3 * (ranks - 1) * word + want.bytes));
    TT_CHECK(after.messages - before.messages, ==, MEMBERS * (3 * (ranks - 1) + want.messages));
    end(&c);
    problem_free(&p);
  }
}

/* After a signal: members of an ensemble that stops early together end their epoch. */
static void end_the_epoch(problem *p)
{
  p->c.stop = TT_EARLY_STOPPING_ensemble;
  for (int k = 0; k < WAYS; k++) {
    cast c;
    start(p, 1, stages_of(0, k), &ENGINE, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, INT64_MAX));
    TT_CHECK_OK(tt_team_collect(c.shard, TT_OK));
    TT_CHECK_OK(tt_shard_save_local(c.shard));
    for (int64_t i = 0; i < c.shard->slice.count; i++)
      TT_CHECK(TT_FIELD(c.shard->state, epoch)[i], ==, 1);
    end(&c);
  }
}

/* The last test: this process remembers the signal. */
TT_TEST (signal_to_one_rank_ends_the_call_after_a_step) {
  problem p = make(0);
  tt_progress at;
  problem_start(&p, plain(), everyone(&p));
  TT_CHECK_OK(p.by.ops->train(p.engine, 1, &at));
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
  end_the_epoch(&p);
  problem_free(&p);
}
