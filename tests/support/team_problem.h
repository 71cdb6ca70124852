/* team_problem.h — for the tests of members that several ranks train together: small problems, and
 * the ranks in teams. */
#ifndef TT_TEAM_PROBLEM_H
#define TT_TEAM_PROBLEM_H
#include "tests/support/problem.h"
#include "tests/support/ranks.h"
#include "tests/support/residual_front.h"

#include "core/model/load_balance.h"
#include "src/train/shard/team_training.h"

enum { ROWS = DOUBLE ? 120 : 190, INPUTS = 5, EPOCHS = DOUBLE ? 2 : 3, MEMBERS = 2, PARTS = 8 };
enum { LAYERS = 4, WAYS = 3 };

/* The engine under test: that of the CPU, or in the programs on the double that of CUDA. UPLOADED:
 * bytes copied to the device so far; HELD: bytes allocated there now. */
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
static inline way plain(void) { return (way){.name = "one rank", .ops = &ENGINE, .use = use}; }

/* Problem number i: row i of each table of losses, optimizers and averages, counted again from the
 * first row after the last. The network has so many parameters that the norm of the gradient is a
 * sum of two blocks.
 *   convolutions  1: the networks are residual networks of convolutions */
static inline problem make_network(int i, int convolutions)
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
    h->label_noise = i % 4 == 2 && loss != TT_LOSS_cross_entropy ? 0.1f : 0.0f;
    h->average_decay = 0.7f;
  }
  return p;
}

static inline problem make(int i) { return make_network(i, 0); }

/* Number of stages for problem i. Way 0: none, the ranks share the parts of a batch; way 1: each rank
 * has a stage; way 2: both. */
static inline int stages_of(int i, int number)
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

static inline void start(problem *p, int teams, int stages, const tt_engine_ops *ops, cast *dst)
{
  int team = tt_load_balance_place(tt_comm_ranks(comm), teams, tt_comm_rank(comm)).team;
  *dst = (cast){.p = p, .cohort = {&p->c}, .stages = stages};
  dst->job = (tt_job){.cohorts = {1, dst->cohort},
                      .data = p->d,
                      .training = tt_dataset_for_training(p->d),
                      .ops = ops,
                      .use = use};
  dst->job.use.device_exchange = on_device;
  if (tt_comm_ranks(comm) < 3) dst->job.use.threads = 1 + teams % 2; /* they share parts */
  TT_CHECK_OK(tt_team_create(comm, team, &dst->team));
  TT_CHECK_OK(tt_shards_create_local(&dst->job, teams, team, dst->team, dst->stages, &dst->shards));
  dst->shard = &dst->shards.at[0];
}

static inline void end(cast *c)
{
  tt_shards_destroy(&c->shards);
  tt_team_destroy(&c->team);
}
#endif
