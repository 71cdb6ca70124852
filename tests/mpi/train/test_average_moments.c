/* test_average_moments.c — with averaged weights, the running values of batch_norm are the mean and
 * variance of the training rows under these weights, on 1, 2 and 3 ranks. */
#include "io/data/data.h"
#include "io/files/files.h"
#include "io/model/model_file.h"
#include "src/train/trainer.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include <math.h>

enum { ROWS = 24, ALL = 1024, INPUTS = 2, VALUES = ROWS * INPUTS };

static double x[ALL * INPUTS], y[ALL];

/* All labeled rows are in one batch, so that its moments are those of these rows. The other rows
 * train nothing. */
static const char job_text[] =
    "data: {file: d.h5, normalize: none, split: {train: 1, validation: 0, test: 0}}\n"
    "model: {profile: [1, 2], front: [conv 2 1, batch_norm], hidden: []}\n"
    "train: {loss: mse, optimizer: sgd, epochs: 6, batch_size: 24, learning_rate: 0.2,\n"
    "        schedule: constant}\n"
    "run: {seed: 3, device: cpu, threads: 1, directory: out}\n"
    "ensembles: [{name: a, members: 3}]\n";

static void write_data(void)
{
  char *in[] = {"p", "q"}, *out[] = {"u"}, *none[] = {"", ""};
  tt_columns input = {INPUTS, in, none, 1, NULL, NULL, 0},
             target = {1, out, none, 1, NULL, NULL, 0};
  for (int i = 0; i < ROWS; i++) {
    x[2 * i] = 0.1 * (i * 7 % 11);
    x[2 * i + 1] = 1.0 + 0.1 * (i * 5 % 13);
    y[i] = 3.0 * x[2 * i] - x[2 * i + 1];
  }
  for (int i = ROWS; i < ALL; i++) {
    x[2 * i] = x[2 * i + 1] = 0.5;
    y[i] = NAN;
  }
  if (tt_comm_is_root(comm))
    TT_CHECK_OK(tt_data_write_local(at("d.h5"), ALL, &input, &target, x, y));
  if (tt_comm_is_root(comm)) TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), job_text));
  tt_barrier(comm);
}

static tt_trained_ensembles train(const char *average)
{
  const char *const set[] = {average};
  tt_train_options o = {.job = {.file = at("job.yaml"), .set = set, .nset = 1},
                        .quiet = 1,
                        .resume = TT_RESUME_never};
  tt_trained_ensembles m = {0};
  TT_CHECK_OK(tt_train(comm, &o));
  TT_CHECK_OK(tt_model_read(comm, at("out/model.h5"), &m));
  return m;
}

/* How far the running values of a member are from the moments of w x + b over all rows and places,
 * of all channels the farthest, as a fraction of the moment. */
static double apart(const tt_trained_ensemble *e, const float *w)
{
  const tt_front_layer *conv = &e->model.front.layer[0], *norm = &e->model.front.layer[1];
  double most = 0.0;
  for (int64_t c = 0; c < norm->channels; c++) {
    double mean = 0.0, square = 0.0;
    for (int i = 0; i < VALUES; i++) {
      double z = (double)w[conv->weight + c] * x[i];
      mean += z / VALUES;
      square += z * z / VALUES;
    }
    double variance = (square - mean * mean) * VALUES / (VALUES - 1);
    double off = fabs((double)w[norm->running + c] / mean - 1.0);
    double off_variance = fabs((double)w[norm->running + norm->channels + c] / variance - 1.0);
    most = fmax(most, fmax(off, off_variance));
  }
  return most;
}

TT_TEST (running_values_are_those_of_the_average) {
  static const char *const average[] = {"train.average=swa", "train.average=ema"};
  for (int a = 0; a < 2; a++) {
    tt_trained_ensembles m = train(average[a]);
    for (int64_t i = 0; i < m.at[0]->members; i++)
      TT_CHECK(apart(m.at[0], m.at[0]->w + i * m.at[0]->model.params), <, 1e-3);
    tt_trained_ensembles_destroy(&m);
  }
}

/* Without an average they are not computed again: some of their initial values is left. */
TT_TEST (running_values_of_a_short_training_are_not) {
  tt_trained_ensembles m = train("train.average=none");
  TT_CHECK(apart(m.at[0], m.at[0]->w), >, 0.1);
  tt_trained_ensembles_destroy(&m);
}

static int begin(void **unused)
{
  write_data();
  return errors_only(unused);
}

TT_SUITE(begin, NULL)
