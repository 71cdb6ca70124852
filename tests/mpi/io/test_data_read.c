/* test_data_read.c — laws of reading samples: the same bits on any number of ranks, every byte is
 * read once, and all ranks get the same error. */
#include "tests/mpi/io/samples.h"
#include "tests/support/check.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/columns/fit.h"
#include "io/data/data.h"
#include "io/hdf5/h5.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HASH UINT64_C(0x57588B58E8957962)

static tt_config config(void)
{
  static char none[] = "", inputs[] = "x", targets[] = "y", weights[] = "w",
              standard[] = "standard";
  return (tt_config){
      .data_file = file,
      .data_inputs = inputs,
      .data_targets = targets,
      .data_weights = weights,
      .data_normalize = standard,
      .data_split_train = 0.7,
      .data_split_validation = 0.2,
      .data_split_test = 0.05,
      .data_split_seed = 7,
      .data_split_column = none,
  };
}

/* the serial reference */

/* Mean and population standard deviation over the labeled training rows of column `k` of
 * v [N][columns], added block by block. */
static void golden_scale(const double *v, int columns, int k, const int8_t *split, double *mean,
                         double *scale)
{
  double sum = 0, squares = 0, n = 0;
  for (int b = 0; b < N; b += BLOCK) {
    double block = 0;
    for (int i = b; i < N && i < b + BLOCK; i++) {
      if (split[i] != TT_TRAIN || isnan(v[i * columns + k])) continue;
      block += v[i * columns + k];
      n++;
    }
    sum += block;
  }
  *mean = sum / n;
  for (int b = 0; b < N; b += BLOCK) {
    double block = 0;
    for (int i = b; i < N && i < b + BLOCK; i++) {
      double d = v[i * columns + k] - *mean;
      if (split[i] == TT_TRAIN && !isnan(d)) block += d * d;
    }
    squares += block;
  }
  *scale = sqrt(squares / n);
}

/* The same value, or both NaN. */
static void same_float(float got, double wanted)
{
  float f = (float)wanted;
  if (!isnan(f) || !isnan(got)) TT_CHECK(got, ==, f);
}

static void check_part(const double *v, int columns, const int8_t *split, const float *got,
                       const double *got_mean, const double *got_scale)
{
  for (int k = 0; k < columns; k++) {
    double mean, scale;
    golden_scale(v, columns, k, split, &mean, &scale);
    if (v[k] == v[columns + k] && v[k] == v[2 * columns + k]) mean = v[k], scale = 1;
    TT_CHECK(got_mean[k], ==, mean);
    TT_CHECK(got_scale[k], ==, scale);
    for (int i = 0; i < N; i++)
      same_float(got[i * columns + k], (v[i * columns + k] - mean) / scale);
  }
}

/* laws */

TT_TEST (bits_are_those_of_a_serial_loop) {
  static double wide[N * D];
  int8_t split[N];
  tt_dataset *d = NULL;
  tt_config cfg = config();
  double mean, scale;
  make_values();
  put();
  TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
  TT_CHECK_OK(tt_split_fractions(N, (const double[]){0.7, 0.2, 0.05}, 7, split));
  assert_memory_equal(d->split, split, N);
  for (int i = 0; i < N * D; i++) wide[i] = x[i];
  check_part(wide, D, split, d->x, d->scaler.x_mean, d->scaler.x_scale);
  check_part(y, T, split, d->y, d->scaler.y_mean, d->scaler.y_scale);
  golden_scale(w, 1, 0, split, &mean, &scale);
  for (int i = 0; i < N; i++) same_float(d->weight[i], w[i] / mean);
  TT_CHECK(d->scaler.x_scale[CONSTANT], ==, 1.0);
  TT_CHECK(d->x[CONSTANT], ==, 0.0f);
  assert_string_equal(d->input.name[1], "b");
  assert_string_equal(d->target.name[1], "state");
  /* recorded once: the same on every machine, for every rank count */
  if (d->hash != HASH) print_error("hash 0x%016" PRIX64 "\n", d->hash);
  TT_CHECK(d->hash == HASH, ==, 1);
  tt_dataset_destroy(&d);
}

TT_TEST (every_byte_is_read_once) {
  static char column[] = "part", none[] = "";
  tt_config cfg = config();
  make_values();
  put();
  for (int way = 0; way < 4; way++) {
    tt_dataset *d = NULL;
    cfg.data_split_column = way & 1 ? column : none;
    cfg.data_weights = way & 2 ? config().data_weights : none;
    int64_t wanted = (int64_t)sizeof x + (int64_t)sizeof y + (way & 1 ? (int64_t)sizeof part : 0) +
                     (way & 2 ? (int64_t)sizeof w : 0);
    int64_t before = tt_data_bytes_read_local();
    TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
    int64_t mine = tt_data_bytes_read_local() - before, sum = mine;
    tt_allreduce_sum_i64(comm, &sum, 1);
    TT_CHECK(sum, ==, wanted);
    if (tt_comm_ranks(comm) > 1) TT_CHECK(mine, <, wanted); /* no rank reads all of it */
    if (way & 1)
      for (int i = 0; i < N; i++) TT_CHECK((int)d->split[i], ==, part[i]);
    TT_CHECK(d->weight != NULL, ==, (way & 2) != 0);
    tt_dataset_destroy(&d);
  }
}

TT_TEST (without_normalization_values_stay) {
  tt_dataset *d = NULL;
  tt_config cfg = config();
  cfg.data_normalize = NULL;
  make_values();
  put();
  TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
  assert_memory_equal(d->x, x, sizeof x);
  for (int i = 0; i < N * T; i++) same_float(d->y[i], y[i]);
  TT_CHECK(d->scaler.y_mean[0], ==, 0.0);
  TT_CHECK(d->scaler.y_scale[1], ==, 1.0);
  tt_dataset_destroy(&d);
}

/* Quantiles of the training rows of input k, and the values themselves [rows] in their order. */
static int64_t training_values(int k, const int8_t *split, double *v, double quartile[3])
{
  static double sorted[N];
  int64_t n = 0;
  for (int i = 0; i < N; i++)
    if (split[i] == TT_TRAIN) v[n++] = x[i * D + k];
  memcpy(sorted, v, (size_t)n * sizeof *v);
  qsort(sorted, (size_t)n, sizeof *sorted, tt_compare_f64);
  for (int i = 0; i < 3; i++) {
    double position = 0.25 * (i + 1) * (double)(n - 1);
    int64_t below = (int64_t)position;
    quartile[i] = sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
  }
  return n;
}

/* Also the normalizations that need all values of a column have the same bits on any number of
 * ranks; tests/system/data/normalize.py compares all of them with NumPy. */
TT_TEST (columns_have_their_own_normalization) {
  static char choice[] = "robust:a,yeo_johnson:b,minmax:*";
  static double v[N];
  double quartile[3];
  tt_dataset *d = NULL;
  tt_config cfg = config();
  cfg.data_normalize = choice;
  make_values();
  put();
  TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
  const tt_scaler *s = &d->scaler;
  training_values(0, d->split, v, quartile);
  TT_CHECK(s->x_mean[0], ==, quartile[1]);
  TT_CHECK(s->x_scale[0], ==, quartile[2] - quartile[0]);
  TT_CHECK(s->x_lambda[0], ==, 1.0);
  int64_t n = training_values(1, d->split, v, quartile);
  TT_CHECK(s->x_lambda[1], ==, tt_fit_yeo_johnson(n, v));
  for (int i = 0; i < N; i++)
    TT_CHECK(
        d->x[i * D + 1], ==,
        (float)((tt_yeo_johnson(x[i * D + 1], s->x_lambda[1]) - s->x_mean[1]) / s->x_scale[1]));
  TT_CHECK((int)s->y_normalize[1], ==, (int)TT_NORMALIZE_minmax);
  for (int i = 0; i < N; i++)
    if (d->split[i] == TT_TRAIN) TT_CHECK(d->y[i * T] >= 0.0f && d->y[i * T] <= 1.0f, ==, 1);
  tt_dataset_destroy(&d);
}

TT_TEST (one_column_may_have_one_axis) {
  static char inputs[] = "w", targets[] = "part", none[] = "";
  tt_dataset *d = NULL;
  tt_config cfg = config();
  cfg.data_inputs = inputs;
  cfg.data_targets = targets;
  cfg.data_weights = none;
  make_values();
  put();
  TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
  TT_CHECK(d->inputs, ==, 1);
  TT_CHECK(d->targets, ==, 1);
  for (int i = 0; i < N; i++)
    same_float(d->y[i], (part[i] - d->scaler.y_mean[0]) / d->scaler.y_scale[0]);
  tt_dataset_destroy(&d);
}

/* The rounded sum of N times 0.1, divided by N, is not 0.1: normalization would amplify the
 * difference. */
TT_TEST (a_constant_column_becomes_zero) {
  static char inputs[] = "w", none[] = "";
  tt_dataset *d = NULL;
  tt_config cfg = config();
  cfg.data_inputs = inputs;
  cfg.data_weights = none;
  make_values();
  for (int i = 0; i < N; i++) w[i] = 0.1;
  put();
  TT_CHECK_OK(tt_data_read(comm, &cfg, NULL, &d));
  TT_CHECK(d->scaler.x_mean[0], ==, 0.1);
  TT_CHECK(d->scaler.x_scale[0], ==, 1.0);
  for (int i = 0; i < N; i++) TT_CHECK(d->x[i], ==, 0.0f);
  tt_dataset_destroy(&d);
}

static uint64_t hash_of(const tt_config *cfg)
{
  tt_dataset *d = NULL;
  put();
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  uint64_t hash = d ? d->hash : 0;
  tt_dataset_destroy(&d);
  return hash;
}

TT_TEST (the_hash_depends_on_every_value) {
  static char none[] = "";
  tt_config cfg = config();
  uint64_t hash[8];
  make_values();
  hash[0] = hash_of(&cfg);
  TT_CHECK(hash_of(&cfg) == hash[0], ==, 1);
  x[(N - 1) * D] += 0.125f;
  hash[1] = hash_of(&cfg);
  make_values();
  y[BLOCK * T + 1] = 1e6;
  hash[2] = hash_of(&cfg);
  make_values();
  w[0] = 0.75;
  hash[3] = hash_of(&cfg);
  make_values();
  cfg.data_split_seed = 8;
  hash[4] = hash_of(&cfg);
  cfg = config();
  cfg.data_weights = none;
  hash[5] = hash_of(&cfg);
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++) TT_CHECK(hash[i] == hash[j], ==, 0);
}

/* errors */

TT_TEST (bad_values_are_named_on_all_ranks) {
  static char by_log[] = "log:a", unknown[] = "log:aa";
  tt_config cfg = config();
  make_values();
  x[2100 * D + 1] = NAN; /* this row is read by the last rank */
  put();
  refused(&cfg, TT_E_DATA, "dataset 'x', row 2100, column 1 ('b'): nan", "finite");
  x[5 * D] = -INFINITY; /* the error names the first row */
  put();
  refused(&cfg, TT_E_DATA, "dataset 'x', row 5, column 0 ('a'): -inf", "finite");
  make_values();
  y[1500 * T] = INFINITY;
  put();
  refused(&cfg, TT_E_DATA, "dataset 'y', row 1500, column 0 ('load'): inf", "NaN where unlabeled");
  make_values();
  w[2499] = -1;
  put();
  refused(&cfg, TT_E_DATA, "dataset 'w', row 2499, column 0: -1", "not negative");
  memset(w, 0, sizeof w);
  put();
  refused(&cfg, TT_E_DATA, "dataset 'w' (weights) is zero on all training rows", file);
  make_values();
  for (int i = 0; i < N; i++) y[i * T] = i % 2 ? 1e200 : -1e200;
  put();
  refused(&cfg, TT_E_DATA, "dataset 'y', column 0 ('load'): mean", "use other units");
  cfg.data_normalize = NULL;
  refused(&cfg, TT_E_DATA, "dataset 'y', row 0, column 0 ('load'): -1e+200", "single precision");
  cfg.data_normalize = by_log;
  refused(&cfg, TT_E_DATA, "dataset 'x', row 0, column 0 ('a'): -40; data.normalize: log needs a",
          "value above 0");
  cfg.data_normalize = unknown;
  refused(&cfg, TT_E_DATA, "data.normalize: there is no column 'aa'; did you mean 'a'?", file);
}

TT_TEST (what_is_missing_or_does_not_fit_is_named_on_all_ranks) {
  static char nothing[] = "nothing", longer[] = "x", shorter[] = "short",
              away[] = "/tmp/no/such.h5";
  tt_config cfg = config();
  make_values();
  put();
  cfg.data_inputs = nothing;
  refused(&cfg, TT_E_DATA, "there is no dataset 'nothing'", "there are: feature_name, part, short");
  cfg = config();
  cfg.data_targets = shorter;
  refused(&cfg, TT_E_DATA, "'x' has 2500 rows", "'short' has 2499");
  cfg = config();
  cfg.data_weights = shorter;
  refused(&cfg, TT_E_DATA, "dataset 'short' (weights) is 2499 x 1", "2500 rows");
  cfg = config();
  cfg.data_weights = longer;
  refused(&cfg, TT_E_DATA, "dataset 'x' (weights) is 2500 x 3", file);
  cfg = config();
  cfg.data_split_column = shorter;
  refused(&cfg, TT_E_DATA, "'short' (data.split.column) is 2499 x 1", file);
  cfg = config();
  cfg = config();
  cfg.data_file = away;
  refused(&cfg, TT_E_NOINPUT, away, away);
}

static tt_err read_and_destroy(tt_comm *c)
{
  const tt_config cfg = config();
  tt_dataset *d = NULL;
  tt_err e = tt_data_read(c, &cfg, NULL, &d);
  tt_dataset_destroy(&d);
  return e;
}

/* If a rank fails before any collective step, all ranks get its error: no hang, no leak. */
TT_TEST (a_fault_at_any_vote_is_shared) {
  make_values();
  put();
  TT_CHECK(each_vote_may_fail(read_and_destroy), >, 10); /* they reach the votes of reading */
}

TT_SUITE(name_samples, NULL)
