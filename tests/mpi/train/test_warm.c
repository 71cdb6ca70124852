/* test_warm.c — laws of warm starts (initial weights from an earlier run): complete trainings with
 * files, on 1, 2 and 3 ranks, stopped and resumed. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/checkpoint/checkpoint.h"
#include "io/data/data.h"
#include "io/files/files.h"
#include "io/model/model_file.h"
#include "src/train/trainer.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include <string.h>

enum { ROWS = 40, INPUTS = 2, TARGETS = 2, MOST_SETS = 8 };

static const tt_warm_start cold; /* none */

static const char job_text[] =
    "data: {file: d.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}\n"
    "model: {hidden: [5], activation: tanh}\n"
    "train: {epochs: 3, batch_size: 8, learning_rate: 0.01, schedule: constant, max_diverged: 1}\n"
    "run: {seed: 3, device: cpu, threads: 1, directory: out}\n"
    "checkpoint: {every: 1h}\n"
    "ensembles: [{name: a, target: u, members: 3}, {name: b, target: v, members: 2,\n"
    "             model: {hidden: [4]}}]\n";

static void write_data(void)
{
  char *in[] = {"p", "q"}, *out[] = {"u", "v"}, *none[] = {"", ""};
  tt_columns input = {INPUTS, in, none, 1, NULL}, target = {TARGETS, out, none, 1, NULL};
  double x[ROWS * INPUTS], y[ROWS * TARGETS];
  for (int i = 0; i < ROWS; i++) {
    x[2 * i] = (double)(i * 7 % 11);
    x[2 * i + 1] = (double)(i * 5 % 13);
    y[2 * i] = x[2 * i] - 0.1 * x[2 * i + 1];
    y[2 * i + 1] = x[2 * i] * x[2 * i + 1];
  }
  if (tt_comm_is_root(comm))
    TT_CHECK_OK(tt_data_write_local(at("d.h5"), ROWS, &input, &target, x, y));
  if (tt_comm_is_root(comm)) TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), job_text));
  tt_barrier(comm);
}

/* Train the job with these --set, in a directory of this name. */
static tt_err train(const char *dst, tt_warm_start warm, const char *const *set, int nset)
{
  char out[SCRATCH_ROOM];
  const char *all[MOST_SETS] = {out};
  snprintf(out, sizeof out, "run.directory=%s", dst);
  for (int i = 0; i < nset; i++) all[1 + i] = set[i];
  tt_train_options o = {
      .job = {.file = at("job.yaml"), .set = all, .nset = 1 + nset}, .quiet = 1, .warm = warm};
  return tt_train(comm, &o);
}
#define TRAIN(to_, warm_, ...)                                                                     \
  train(to_, warm_, (const char *const[]){__VA_ARGS__},                                            \
        (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static tt_warm_start from(tt_warm how, const char *directory)
{
  return (tt_warm_start){
      .how = how, .directory = at(directory), .shrink = 0.5, .perturb = 0.25, .round = 2};
}

static tt_trained_ensembles model(const char *directory)
{
  char name[SCRATCH_ROOM];
  tt_trained_ensembles m = {0};
  snprintf(name, sizeof name, "%.900s/model.h5", directory);
  TT_CHECK_OK(tt_model_read(comm, at(name), &m));
  return m;
}

static const float *weights(const tt_trained_ensembles *m, int64_t committee, int64_t row)
{
  return m->at[committee]->w + row * m->at[committee]->model.params;
}

static int same(const tt_trained_ensembles *a, int64_t row, const tt_trained_ensembles *b,
                int64_t other, int64_t committee)
{
  size_t bytes = (size_t)a->at[committee]->model.params * sizeof(float);
  return !memcmp(weights(a, committee, row), weights(b, committee, other), bytes);
}

static void same_models(const char *one, const char *other)
{
  tt_trained_ensembles a = model(one), b = model(other);
  TT_CHECK(a.count, ==, b.count);
  for (int64_t k = 0; k < a.count; k++)
    for (int64_t i = 0; i < a.at[k]->members; i++) TT_CHECK(same(&a, i, &b, i, k), ==, 1);
  tt_trained_ensembles_destroy(&a);
  tt_trained_ensembles_destroy(&b);
}

/* params */

/* With a learning rate of 0 the weights stay those with which the earlier run predicts; a longer
 * training with warm start equals one from these weights. */
TT_TEST (params_are_the_weights_that_predict) {
  TT_CHECK_OK(TRAIN("source", cold, "title=s"));
  TT_CHECK_OK(TRAIN("still", from(TT_WARM_START_params, "source"), "train.learning_rate=0"));
  same_models("source", "still");
  TT_CHECK_OK(TRAIN("moved", from(TT_WARM_START_params, "source"), "run.seed=9"));
  tt_trained_ensembles a = model("source"), b = model("moved");
  TT_CHECK(same(&a, 0, &b, 0, 0), ==, 0);
  tt_trained_ensembles_destroy(&a);
  tt_trained_ensembles_destroy(&b);
}

TT_TEST (shrink_perturb_is_its_formula) {
  tt_warm_start w = from(TT_WARM_START_shrink_perturb, "source"), only = w;
  TT_CHECK_OK(TRAIN("blend", w, "train.learning_rate=0"));
  only.shrink = 0.0;
  only.perturb = 1.0;
  TT_CHECK_OK(TRAIN("noise", only, "train.learning_rate=0"));
  only.round = 3;
  TT_CHECK_OK(TRAIN("other", only, "train.learning_rate=0"));
  tt_trained_ensembles s = model("source"), b = model("blend"), n = model("noise"),
                       o = model("other");
  for (int64_t k = 0; k < s.count; k++)
    for (int64_t p = 0; p < s.at[k]->members * s.at[k]->model.params; p++) {
      double wanted = 0.5 * (double)s.at[k]->w[p] + 0.25 * (double)n.at[k]->w[p];
      TT_CHECK(b.at[k]->w[p], ==, (float)wanted);
    }
  TT_CHECK(same(&n, 0, &o, 0, 0), ==, 0);
  tt_trained_ensembles_destroy(&s);
  tt_trained_ensembles_destroy(&b);
  tt_trained_ensembles_destroy(&n);
  tt_trained_ensembles_destroy(&o);
}

/* The means and variances of batch_norm are no weights: nothing makes them smaller. */
TT_TEST (running_values_are_those_of_the_earlier_run) {
  static const char *const set[] = {"model.profile=[1, 2]", "model.front=[conv 2 1, batch_norm]"};
  TT_CHECK_OK(TRAIN("normed", cold, set[0], set[1]));
  TT_CHECK_OK(TRAIN("smaller", from(TT_WARM_START_shrink_perturb, "normed"), set[0], set[1],
                    "train.freeze=2", "train.learning_rate=0"));
  tt_trained_ensembles a = model("normed"), b = model("smaller");
  for (int64_t k = 0; k < a.count; k++) {
    const tt_front_layer *norm = &a.at[k]->model.front.layer[1];
    for (int64_t i = 0; i < a.at[k]->members; i++) {
      const float *was = weights(&a, k, i), *now = weights(&b, k, i);
      TT_CHECK(now[norm->weight], ==, (float)(0.5 * (double)was[norm->weight] + 0.25));
      for (int64_t p = norm->running; p < norm->running + tt_front_running(norm); p++)
        TT_CHECK(now[p], ==, was[p]);
      TT_CHECK(was[norm->running] != 0.0f, ==, 1);
    }
  }
  tt_trained_ensembles_destroy(&a);
  tt_trained_ensembles_destroy(&b);
}

/* members that the earlier run does not have */

TT_TEST (new_members_and_diverged_ones_have_new_weights) {
  static const tt_warm ways[] = {TT_WARM_START_params, TT_WARM_START_optimizer};
  TT_CHECK_OK(TRAIN("bad", cold, "ensembles.a.sweep.learning_rate={list: [0.01, 1e30, 0.01]}",
                    "ensembles.a.train.optimizer=sgd"));
  TT_CHECK_OK(TRAIN("anew", cold, "ensembles.a.members=5", "ensembles.a.train.optimizer=sgd"));
  for (int i = 0; i < 2; i++) {
    char directory[] = "grown0";
    directory[5] = (char)('0' + i);
    TT_CHECK_OK(TRAIN(directory, from(ways[i], "bad"), "ensembles.a.members=5",
                      "ensembles.a.train.optimizer=sgd"));
    tt_trained_ensembles bad = model("bad"), anew = model("anew"), got = model(directory);
    TT_CHECK(bad.at[0]->status[1], ==, TT_STATUS_diverged);
    for (int64_t m = 0; m < 5; m++) /* of ensemble a: 0 and 2 continue */
      TT_CHECK(same(&anew, m, &got, m, 0), ==, m % 2 || m > 2);
    tt_trained_ensembles_destroy(&bad);
    tt_trained_ensembles_destroy(&anew);
    tt_trained_ensembles_destroy(&got);
  }
}

/* optimizer */

TT_TEST (runs_with_the_optimizer_state_equal_one_run) {
  static const char *const set[] = {"data.split.validation=0", "train.average=ema"};
  TT_CHECK_OK(TRAIN("one", cold, set[0], set[1]));
  TT_CHECK_OK(TRAIN("two", from(TT_WARM_START_optimizer, "one"), set[0], set[1]));
  TT_CHECK_OK(TRAIN("three", from(TT_WARM_START_optimizer, "two"), set[0], set[1]));
  TT_CHECK_OK(TRAIN("whole", cold, set[0], set[1], "train.epochs=9"));
  same_models("whole", "three");
}

/* stopped runs */

static void ask(const char *directory, int stop)
{
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s", at(directory));
  if (tt_comm_is_root(comm)) {
    if (stop && mkdir(path, 0700) == 0) TT_CHECK(touch(path, "STOP"), ==, 0);
    snprintf(path + strlen(path), 8, "/STOP");
    if (!stop) unlink(path);
  }
  tt_barrier(comm);
}

TT_TEST (a_stop_changes_nothing) {
  static const tt_warm ways[] = {TT_WARM_START_optimizer, TT_WARM_START_shrink_perturb};
  for (int i = 0; i < 2; i++) {
    char through[] = "through0", stopped[] = "stopped0";
    through[7] = stopped[7] = (char)('0' + i);
    TT_CHECK_OK(TRAIN(through, from(ways[i], "source"), "title=t"));
    ask(stopped, 1);
    tt_err e = TRAIN(stopped, from(ways[i], "source"), "title=t");
    TT_CHECK((int)e, ==, (int)TT_E_STOPPED);
    ask(stopped, 0);
    TT_CHECK_OK(TRAIN(stopped, from(ways[i], "source"), "title=t"));
    same_models(through, stopped);
  }
}

/* errors */

static void refused(tt_err e, tt_err wanted, const char *one, const char *two)
{
  TT_CHECK((int)e, ==, (int)wanted);
  TT_CHECK_HAS(tt_err_last(), one);
  TT_CHECK_HAS(tt_err_last(), two);
}

TT_TEST (other_initial_weights_are_another_run) {
  uint64_t hash[4];
  tt_warm_start w = from(TT_WARM_START_params, "source"),
                o = from(TT_WARM_START_optimizer, "source");
  TT_CHECK_OK(tt_warm_hash(comm, &cold, &hash[0]));
  TT_CHECK_OK(tt_warm_hash(comm, &w, &hash[1]));
  TT_CHECK_OK(tt_warm_hash(comm, &o, &hash[2]));
  TT_CHECK_OK(TRAIN("again", cold, "title=s")); /* other files, the same weights */
  w = from(TT_WARM_START_params, "again");
  TT_CHECK_OK(tt_warm_hash(comm, &w, &hash[3]));
  TT_CHECK(hash[0] == 0, ==, 1);
  TT_CHECK(hash[1] != 0 && hash[2] != 0 && hash[1] != hash[2], ==, 1);
  TT_CHECK(hash[3] == hash[1], ==, 1);
  refused(TRAIN("moved", from(TT_WARM_START_params, "still"), "run.seed=8"), TT_E_DATA, "moved",
          "belongs to another run");
}

TT_TEST (what_does_not_fit_is_an_error) {
  refused(TRAIN("x", from(TT_WARM_START_params, "nowhere"), "title=x"), TT_E_NOINPUT,
          "nowhere/model.h5", "");
  refused(TRAIN("x", from(TT_WARM_START_params, "source"), "ensembles.a.model.hidden=[6]"),
          TT_E_DATA,
          "ensemble a has network 2-5-1 (mean, 21 parameters) in the earlier run, 2-6-1 (mean, 25",
          "campaign.warm_start: none");
  refused(TRAIN("x", from(TT_WARM_START_params, "source"), "data.normalize={q: log1p}"), TT_E_DATA,
          "input 'q' is normalized by standard in the earlier run, by log1p in this job",
          "use campaign.warm_start: none");
  refused(TRAIN("x", from(TT_WARM_START_params, "source"), "data.normalize={v: minmax}"), TT_E_DATA,
          "target 'v' is normalized by standard in the earlier run, by minmax in this job",
          "data.normalize");
  refused(TRAIN("x", from(TT_WARM_START_params, "source"), "ensembles.a.target=v"), TT_E_DATA,
          "ensemble a predicts target u in the earlier run, v in this job",
          "campaign.warm_start: none");
  refused(TRAIN("x", from(TT_WARM_START_optimizer, "source"), "train.optimizer=sgd"), TT_E_DATA,
          "another train.optimizer or train.average", "campaign.warm_start: params");
  TT_CHECK_OK(tt_ckpt_remove_all(comm, at("again")));
  refused(TRAIN("x", from(TT_WARM_START_optimizer, "again"), "title=x"), TT_E_NOINPUT, "again",
          "no checkpoint to continue from");
}

static int begin(void **unused)
{
  write_data();
  return errors_only(unused);
}

TT_SUITE(begin, NULL)
