/* test_outputs.c — laws of the end of a training: each rank has the weights of its own members, and
 * predictions of all members have the same bits on any number of ranks. */
#include "core/base/mem.h"
#include "core/model/partition.h"
#include "io/data/data.h"
#include "io/files/files.h"
#include "src/predict/row_predictor.h"
#include "src/train/check_outputs.h"
#include "src/train/trainer.h"
#include "tests/mpi/ranks/received.h"
#include "tests/support/plain_model.h"
#include "tests/support/problem.h"
#include "tests/support/ranks.h"

#include <string.h>

enum { MEMBERS = 7, INPUTS = 3, TARGETS = 2, MOST_NETWORKS = 2 };

static const tt_resources use = {.threads = 1, .simd = TT_SIMD_generic};

/* `networks` networks. */
static tt_trained_ensemble *trained(int64_t networks)
{
  static const int64_t hidden[MOST_NETWORKS][1] = {{9}, {5}};
  tt_network network[MOST_NETWORKS] = {{.members = 4}, {.members = MEMBERS - 4}};
  tt_trained_ensemble *c = NULL;
  for (int k = 0; k < networks; k++) {
    const tt_model_shape shape =
        usual_shape(INPUTS, TARGETS, hidden[k], 1, TT_ACT_tanh, TT_OUTPUT_mean_variance);
    TT_CHECK_OK(tt_model_lay_out(&shape, &network[k].model));
  }
  if (networks == 1) network[0].members = MEMBERS;
  TT_CHECK_OK(tt_trained_ensemble_create_mixed(networks, network, 1, &c));
  c->variance_floor = 1e-3f;
  c->ensemble[0] = (tt_ensemble){.members = MEMBERS, .targets = TARGETS};
  TT_CHECK_OK(TT_ALLOC(c->ensemble[0].column, TARGETS));
  for (int64_t i = 0; i < MEMBERS; i++) {
    int64_t k;
    float *w = (float *)tt_trained_ensemble_weights(c, i, &k);
    tt_model_init_weights(tt_trained_ensemble_model(c, k), TT_INIT_glorot_uniform, 3, (uint64_t)i,
                          w);
    c->weight[i] = i == 1 ? 0.0 : 0.5 + (double)i;
  }
  return c;
}

/* What is compared of the rows of this rank. */
typedef struct copy {
  const tt_trained_ensemble *c;
  tt_slice mine;
  int64_t next;   /* rows come in order */
  double *mean;   /* [rows][columns] */
  float *members; /* [rows][G][2][K q] */
} copy;

static tt_err read_local(void *context, int64_t first, int64_t count, float *x)
{
  (void)context;
  for (int64_t i = 0; i < count * INPUTS; i++) x[i] = sinf((float)(first * INPUTS + i));
  return TT_OK;
}

static void keep(copy *dst, const tt_row_chunk *chunk)
{
  const tt_ensemble_prediction *prediction = chunk->of;
  int64_t each = MEMBERS * 2 * TARGETS, at = chunk->first - dst->mine.first;
  TT_CHECK(at, ==, dst->next);
  dst->next += chunk->rows;
  memcpy(dst->mean + at * TARGETS, prediction->moments->mean,
         (size_t)(chunk->rows * TARGETS) * sizeof *dst->mean);
  for (int64_t i = 0; i < each; i++)
    for (int64_t r = 0; r < chunk->rows; r++)
      dst->members[(at + r) * each + i] = prediction->members[i * chunk->rows + r];
}

static copy predict(tt_trained_ensemble *c, const tt_model_shard *shard, int64_t rows,
                    int64_t block)
{
  copy to = {.c = c,
             .mine = tt_row_predictor_slice(rows, block, tt_comm_ranks(comm), tt_comm_rank(comm))};
  TT_CHECK_OK(TT_ALLOC(to.mean, to.mine.count * TARGETS));
  TT_CHECK_OK(TT_ALLOC(to.members, to.mine.count * MEMBERS * 2 * TARGETS));
  const tt_trained_ensembles all = {.count = 1, .at = &c};
  const tt_row_options o = {.c = comm,
                            .all = &all,
                            .shard = shard,
                            .ops = &tt_engine_cpu,
                            .use = &use,
                            .rows = rows,
                            .block = block,
                            .read_local = read_local,
                            .with = &to,
                            .phase = "test"};
  tt_row_predictor *p = NULL;
  const tt_row_chunk *chunk;
  TT_CHECK_OK(tt_row_predictor_open(&o, &p));
  while (!tt_row_predictor_next(p, TT_OK, &chunk) && chunk) keep(&to, chunk);
  tt_row_predictor_close(&p);
  TT_CHECK(to.next, ==, to.mine.count);
  return to;
}

static void compare(tt_trained_ensemble *c, const tt_model_shard *shard, int64_t rows,
                    int64_t block)
{
  copy whole = predict(c, NULL, rows, block);
  float *w = c->w;
  c->w = NULL; /* nothing reads the weights of others */
  received before = test_received;
  copy spread = predict(c, shard, rows, block);
  int64_t bytes = received_since(before).bytes;
  c->w = w;
  int64_t values = whole.mine.count * MEMBERS * 2 * TARGETS;
  TT_CHECK(memcmp(whole.members, spread.members, (size_t)values * sizeof *whole.members), ==, 0);
  TT_CHECK(
      memcmp(whole.mean, spread.mean, (size_t)(whole.mine.count * TARGETS) * sizeof *whole.mean),
      ==, 0);
  TT_CHECK(bytes, <=, values * (int64_t)sizeof(float) + 512 + rows);
  tt_free_all(&whole.mean, &whole.members, &spread.mean, &spread.members);
}

/* Members on all ranks predict the bits of members that every rank has, and a rank receives the
 * predictions for its rows. */
TT_TEST (spread_members_predict_the_same_bits) {
  static const int64_t rows[] = {0, 1, 255, 700, 2600}, block[] = {256, 512};
  for (int64_t networks = 1; networks <= MOST_NETWORKS; networks++) {
    tt_trained_ensemble *c = trained(networks);
    tt_model_shard shard[MOST_NETWORKS];
    for (int64_t k = 0; k < networks; k++) {
      int64_t members = networks == 1 ? MEMBERS : c->network[k].members;
      const float *w = networks == 1 ? c->w : c->network[k].w;
      TT_CHECK_OK(
          tt_partition_even(members, tt_comm_ranks(comm), tt_comm_rank(comm), &shard[k].slice));
      shard[k].w = w + shard[k].slice.first * tt_trained_ensemble_model(c, k)->params;
    }
    for (int i = 0; i < 10; i++) compare(c, shard, rows[i % 5], block[i / 5]);
    tt_trained_ensemble_destroy(&c);
  }
}

/* training */

static const char job_text[] =
    "data: {file: d.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}\n"
    "model: {hidden: [400, 400]}\n"
    "train: {epochs: 1, batch_size: 8}\n"
    "combine: {method: greedy}\n"
    "calibration: {recalibrate: all}\n"
    "run: {seed: 3, device: cpu, threads: 1, directory: out}\n"
    "ensembles: [{name: a, members: 5}]\n";

static void write_files(void)
{
  enum { ROWS = 40 };
  char *in[] = {"p", "q"}, *out[] = {"y"}, *none[] = {"", ""};
  tt_columns input = {2, in, none, 1, NULL, NULL, 0}, target = {1, out, none, 1, NULL, NULL, 0};
  double x[ROWS * 2], y[ROWS];
  for (int i = 0; i < ROWS * 2; i++) x[i] = (double)(i * 7 % 11);
  for (int i = 0; i < ROWS; i++) y[i] = x[2 * i] - x[2 * i + 1];
  TT_CHECK_OK(tt_data_write_local(at("d.h5"), ROWS, &input, &target, x, y));
  TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), job_text));
}

/* A whole run gives no rank the weights of a member of another rank: it receives fewer bytes than
 * one member has. */
TT_TEST (no_rank_receives_weights) {
  const received before = test_received;
  if (tt_comm_is_root(comm)) write_files();
  tt_barrier(comm);
  tt_train_options o = {.job = {.file = at("job.yaml")}, .quiet = 1};
  TT_CHECK_OK(tt_train(comm, &o));
  TT_CHECK(received_since(before).bytes, <, 4 * (400 * 400 + 400));
}

TT_SUITE(errors_only, NULL)

/* Jobs whose files have other variables: many layers, several networks, folds, components. */
TT_TEST (outputs_are_checked_before_the_training) {
#define ONE "ensembles: [{name: a, target: y0}]\n"
  static const char columns[] = "data: {file: d.h5, inputs: x, targets: y";
  static const char *const more[] = {
      "}\nmodel: {profile: [1, 4], front: [conv 2 1, conv 2 1, group_norm 2]}\n" ONE,
      "}\nensembles: [{name: a, target: y0, model: {hidden: [3]}}, {name: b, target: y1}]\n",
      "}\ntrain: {resample: kfold}\nmodel: {heads: 2}\n" ONE,
      ", targets_pca: 1}\nensembles: [{name: a}]\n"};
#undef ONE
  tt_data_shape shape = {.rows = 40, .inputs = 4, .targets = 2, .net_inputs = 4};
  TT_CHECK_OK(tt_columns_create(4, &shape.input));
  TT_CHECK_OK(tt_columns_create(2, &shape.target));
  TT_CHECK_OK(tt_text_set(&shape.target.name[0], "y0"));
  TT_CHECK_OK(tt_text_set(&shape.target.name[1], "y1"));
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char text[512];
    tt_config *cfg = NULL;
    tt_cohorts all = {0};
    int n = snprintf(text, sizeof text, "%s%s", columns, more[i]);
    TT_CHECK_OK(tt_config_parse("job.yaml", text, n, NULL, 0, &cfg));
    TT_CHECK_OK(tt_cohorts_create(cfg, shape.net_inputs, &shape.target, NULL, &all));
    TT_CHECK_OK(tt_check_outputs_local(&all, cfg->data_targets_pca, &shape));
    all.at[0]->max_epochs = INT64_MAX; /* no file can have this size */
    TT_CHECK((int)tt_check_outputs_local(&all, cfg->data_targets_pca, &shape), !=, TT_OK);
    tt_cohorts_destroy(&all);
    tt_config_destroy(&cfg);
  }
  tt_data_shape_free(&shape);
}
