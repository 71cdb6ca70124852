/* test_block_and_cluster.c — law: a member has the same bits in one thread block and in clusters
 * of 1, 2, 4 and 8 blocks, in every field of its state, so that the number of members may decide
 * among them, and a run may be resumed with others. */
#include "tests/support/problem.h"

/* Members that train: one with clipped gradients, one that stops early, one that diverges. More
 * members, which end after their first epoch, leave room for smaller clusters only. */
enum { MEMBERS = 3, STEPS = 3, MOST = 34, MULTIPROCESSORS = 132 };

/* A number of training rows that is no multiple of the batch ends the epoch with a short batch. */
typedef struct shape {
  int64_t inputs, targets, hidden[3], layers, batch, rows;
  tt_optimizer optimizer;
  tt_loss loss;
  tt_activation activation;
  tt_resample resample;
  int validates, weighted, epochs;
} shape;

#define NLL TT_LOSS_gaussian_nll
#define NONE TT_RESAMPLE_none
#define BOOTSTRAP TT_RESAMPLE_bootstrap
static const shape shapes[] = {
    {4, 1, {16}, 1, 512, 1400, TT_OPT_adam, TT_LOSS_mse, TT_ACT_relu, NONE, 1, 0, 1},
    {3, 2, {9}, 1, 512, 500, TT_OPT_sgd, TT_LOSS_mae, TT_ACT_tanh, BOOTSTRAP, 1, 1, 2},
    {7, 3, {33, 5, 17}, 3, 130, 400, TT_OPT_adamw, TT_LOSS_mse, TT_ACT_silu, NONE, 1, 1, 2},
    {8, 1, {32, 32}, 2, 256, 600, TT_OPT_adam, NLL, TT_ACT_tanh, NONE, 0, 0, 2},
    {5, 1, {12}, 1, 1000, 1500, TT_OPT_rmsprop, TT_LOSS_mse, TT_ACT_gelu, BOOTSTRAP, 1, 0, 2},
    {6, 1, {70}, 1, 250, 2700, TT_OPT_adam, TT_LOSS_mse, TT_ACT_elu, NONE, 1, 1, 1},
    {3, 1, {17}, 1, 20, 70, TT_OPT_adam, TT_LOSS_huber, TT_ACT_relu, BOOTSTRAP, 1, 1, 2},
    {16, 1, {96, 96}, 2, 256, 300, TT_OPT_adam, TT_LOSS_mse, TT_ACT_relu, NONE, 0, 0, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void set_targets(problem *p, int64_t targets)
{
  tt_ensemble *e = &p->c.ensemble[0];
  tt_free(e->column);
  TT_CHECK_OK(TT_ALLOC(e->column, targets));
  for (int64_t k = 0; k < targets; k++) e->column[k] = (int32_t)k;
  e->targets = (int32_t)targets;
}

static problem make(const shape *s)
{
  tt_output output = tt_loss_output_head(s->loss);
  problem p = problem_make(s->rows, s->inputs, s->targets, 1, MOST, s->hidden, s->layers,
                           s->activation, output);
  tt_model_shape network =
      usual_shape(s->inputs, s->targets, s->hidden, s->layers, s->activation, output);
  TT_CHECK_OK(tt_model_lay_out(&network, &p.c.model));
  set_targets(&p, s->targets);
  p.c.loss = s->loss;
  p.c.optimizer = s->optimizer;
  p.c.resample = s->resample;
  p.c.batch_size = s->batch;
  p.c.max_epochs = s->epochs;
  for (int64_t i = 0; i < MOST; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->momentum = 0.5f;
    h->epochs = i < MEMBERS ? s->epochs : 1;
    h->clip_norm = i == 0 ? 0.02f : 0.0f;
    h->patience = i == 1 ? 1 : 0;
    h->learning_rate = i == 2 || i >= MEMBERS ? 1e30f : 0.05f; /* the others diverge soon */
  }
  for (int64_t r = 0; r < s->rows && !s->validates; r++)
    if (p.d->split[r] == TT_VALIDATION) p.d->split[r] = TT_TEST;
  if (!s->weighted) return p;
  TT_CHECK_OK(TT_ALLOC(p.d->weight, s->rows));
  for (int64_t r = 0; r < s->rows; r++) p.d->weight[r] = 0.5f + (float)(r % 5) / 7.0f;
  return p;
}

/* A way of that path, on the double in the order of threads number `order`; 0 without a GPU that
 * has it. */
static int way_of(tt_gpu_path path, int order, way *out)
{
  way all[MAX_WAYS];
  for (int i = 0, n = ways(all); i < n; i++) {
    if (all[i].ops == &tt_engine_cpu || all[i].use.path != path) continue;
    if (all[i].schedule != order % ORDERS) continue;
    *out = all[i];
    return 1;
  }
  return 0;
}

/* The members' states after all steps; the first step with `from`, the others with `to`. Returns
 * the number of blocks that a member had with `to`: as the engine says, or 1. */
static int train(problem *p, way from, way to, int64_t members, tt_state **out)
{
  tt_progress progress;
  tt_engine_info info;
  tt_slice some = {0, members};
  problem_start(p, from, some);
  TT_CHECK_OK(from.ops->train(p->engine, 1, &progress));
  if (from.use.path != to.use.path) {
    tt_state *saved = problem_state(p, some);
    problem_stop(p);
    problem_start(p, to, some);
    TT_CHECK_OK(to.ops->load(p->engine, some, saved));
    tt_state_destroy(&saved);
  }
  problem_finish(p, STEPS);
  *out = problem_state(p, some);
  TT_CHECK_OK(to.ops->info(p->engine, &info));
  problem_stop(p);
  const char *blocks = strstr(info.device, " for each member");
  return blocks ? atoi(blocks - strlen("8 blocks")) : 1;
}

/* The law is not trivial: members train, with and without clipping in their own way, and
 * diverge. */
static void learned(const tt_state *s, int64_t params)
{
  const float *w = TT_FIELD(s, weights);
  TT_CHECK(TT_FIELD(s, step)[0], >, 0);
  TT_CHECK(TT_FIELD(s, status)[0], !=, TT_STATUS_diverged);
  TT_CHECK(isfinite(TT_FIELD(s, loss_train)[0]) && TT_FIELD(s, loss_train)[0] != 0.0f, !=, 0);
  TT_CHECK(memcmp(w, w + params, (size_t)params * sizeof(float)), !=, 0);
}

static void same(const tt_state *want, tt_state *got, const char *what)
{
  for (int64_t i = 0; i < MEMBERS; i++) same_member(want, got, i, what);
  tt_state_destroy(&got);
}

/* Compare clusters with `want`, of all sizes for small networks, and note the sizes. */
static void compare(problem *p, int number, way block, const tt_state *want, int *seen)
{
  const int64_t members[] = {MEMBERS, MULTIPROCESSORS / 8 + 1, MOST};
  for (int k = 0; k < (p->c.model.params < 1000 ? 3 : 1); k++) {
    char text[64];
    way cluster;
    tt_state *got;
    if (!way_of(TT_GPU_PATH_cluster, number + k, &cluster)) return;
    if (!can(cluster, &p->c)) return;
    int resumes = (number + k) % 3;
    int blocks =
        train(p, resumes == 1 ? block : cluster, resumes == 2 ? block : cluster, members[k], &got);
    snprintf(text, sizeof text, "shape %d, %d blocks, %s", number, blocks,
             resumes ? "resumed" : "not resumed");
    fprintf(stderr, "  %s\n", text);
    if (resumes != 2) seen[blocks] = 1;
    same(want, got, text);
  }
}

TT_TEST (one_block_and_clusters_give_the_same_bits) {
  int seen[TT_CLUSTER_MAX_RANKS + 1] = {0}, tried = 0;
  way block;
  for (int i = 0; i < SHAPES; i++) {
    tt_state *want;
    if (!way_of(TT_GPU_PATH_block, i, &block)) continue;
    problem p = make(&shapes[i]);
    TT_CHECK(train(&p, block, block, MEMBERS, &want), ==, 1);
    learned(want, p.c.model.params);
    compare(&p, i, block, want, seen);
    tried += way_of(TT_GPU_PATH_cluster, i, &block);
    tt_state_destroy(&want);
    problem_free(&p);
  }
  TT_CHECK(!tried || (seen[1] && seen[2] && seen[4] && seen[8]), ==, 1);
}

/* The text decides whether a checkpoint may be resumed. */
TT_TEST (one_block_and_a_cluster_have_one_arithmetic) {
  way variant[2];
  tt_engine_info info[2];
  for (int i = 0; i < SHAPES; i++) {
    if (!way_of(TT_GPU_PATH_block, 0, &variant[0]) || !way_of(TT_GPU_PATH_cluster, 0, &variant[1]))
      continue;
    problem p = make(&shapes[i]);
    for (int k = 0; k < 2 && can(variant[1], &p.c); k++) {
      problem_start(&p, variant[k], everyone(&p));
      TT_CHECK_OK(variant[k].ops->info(p.engine, &info[k]));
      problem_stop(&p);
    }
    if (can(variant[1], &p.c)) {
      TT_CHECK(strcmp(info[0].arithmetic, info[1].arithmetic), ==, 0);
      TT_CHECK_HAS(info[1].arithmetic, "cuda fp32 block c");
      TT_CHECK_HAS(info[1].device, "cluster path");
    }
    problem_free(&p);
  }
}

/* On the double, auto takes a cluster for few members and a block for many, with the same bits. */
TT_TEST (members_of_auto_keep_their_bits) {
  const shape *s = &shapes[3];
  way block, automatic;
  if (!DOUBLE || !way_of(TT_GPU_PATH_block, 0, &block)) return;
  automatic = block;
  automatic.use.path = TT_GPU_PATH_auto;
  problem p = make(s);
  tt_state *want, *got;
  TT_CHECK(train(&p, block, block, MEMBERS, &want), ==, 1);
  TT_CHECK(train(&p, automatic, automatic, MEMBERS, &got), ==, 4);
  same(want, got, "auto, few members");
  TT_CHECK(train(&p, automatic, automatic, MOST, &got), ==, 2);
  same(want, got, "auto, more members");
  tt_state_destroy(&want);
  problem_free(&p);
}
