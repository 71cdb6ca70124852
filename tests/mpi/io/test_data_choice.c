/* test_data_choice.c — laws of reading for ensembles: the rows of `rows`, the labels of their
 * targets. */
#include "tests/mpi/io/samples.h"
#include "tests/support/check.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

#define SPLIT_HASH UINT64_C(0x18AF717F4A073642)
enum { DIFFERENT = 600 }; /* rows, if all others repeat them */

/* Local. The job with these ensembles. */
static tt_config *job(const char *ensembles)
{
  char text[1024];
  tt_config *cfg = NULL;
  int64_t bytes =
      snprintf(text, sizeof text, "data: {file: \"%s\"}\nensembles: %s\n", file, ensembles);
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  return cfg;
}

TT_TEST (ensembles_choose_rows) {
  make_values();
  put();
  tt_config *cfg = job("[{name: a, rows: z_early}, {name: b}, {name: c, rows: z_mask},"
                       " {name: d, rows: z_early}]");
  tt_dataset *d = NULL;
  int64_t before = tt_data_bytes_read_local();
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  int64_t sum = tt_data_bytes_read_local() - before;
  tt_allreduce_sum_i64(comm, &sum, 1);
  TT_CHECK(sum, ==, (int64_t)(sizeof x + sizeof y + sizeof mask + sizeof early));
  TT_CHECK(d->selections, ==, 2);
  for (int i = 0; i < N; i++) {
    TT_CHECK((int)d->selected[i], ==, (int)early[i]);
    TT_CHECK((int)d->selected[N + i], ==, (int)mask[i]);
  }
  static const int64_t wanted[] = {0, -1, 1, 0};
  for (int k = 0; k < 4; k++) TT_CHECK(cfg->ensemble[k].selection, ==, wanted[k]);
  uint64_t hash = d->hash;
  tt_dataset_destroy(&d);
  mask[0] = 1;
  put();
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  TT_CHECK(d->hash != hash, ==, 1);
  tt_dataset_destroy(&d);
  tt_config_destroy(&cfg);
}

TT_TEST (labels_are_not_normalized) {
  make_values();
  for (int i = 0; i < N; i++) y[i * T] = i % 3;
  put();
  tt_config *cfg = job("[{name: a, target: load, train: {loss: cross_entropy}},"
                       " {name: b, target: load, train: {loss: poisson}},"
                       " {name: c, target: state}]");
  tt_dataset *d = NULL;
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  TT_CHECK(d->scaler.y_mean[0], ==, 0.0);
  TT_CHECK(d->scaler.y_scale[0], ==, 1.0);
  TT_CHECK(d->scaler.y_mean[1], >, 1e5);
  for (int i = 0; i < N; i++) TT_CHECK(d->y[i * T], ==, (float)(i % 3));
  tt_dataset_destroy(&d);
  tt_config_destroy(&cfg);
}

/* Local. A job with these options of data.split and this ensemble. */
static tt_config *split_job(const char *split, const char *ensemble)
{
  char text[512];
  tt_config *cfg = NULL;
  int64_t bytes =
      snprintf(text, sizeof text, "data: {file: \"%s\", split: {%s}}\nensembles: [%s]\n", file,
               split, ensemble);
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  return cfg;
}

static int64_t count_other_parts(const tt_dataset *d)
{
  int64_t apart = 0;
  for (int i = 0; i < N; i++) apart += d->split[i] != d->split[i % DIFFERENT];
  return apart;
}

/* With any way to split but an order and the parts of a file, rows with equal inputs are in one
 * part and in one fold; validation and test rows with inputs of training rows are counted. */
TT_TEST (equal_inputs_are_in_one_part) {
  static const struct {
    const char *split, *ensemble;
    int together, folds;
  } way[] = {{"seed: 5", "{name: a}", 1, 0},
             {"train: 0.4, validation: 0.3, test: 0.3, group: w", "{name: a}", 1, 0},
             {"stratify: load", "{name: a}", 1, 0},
             {"group: load", "{name: a, train: {resample: kfold, folds: 5}}", 0, 1},
             {"seed: 3", "{name: a, train: {resample: kfold, folds: 5}}", 1, 1},
             {"train: 0.6, validation: 0.2, test: 0.2, order: load", "{name: a}", 0, 0},
             {"column: part", "{name: a}", 0, 0}};
  make_values();
  x[0] = 0.0f;
  for (int i = DIFFERENT; i < N; i++) memcpy(x + i * D, x + i % DIFFERENT * D, D * sizeof *x);
  x[DIFFERENT * D] = -0.0f;
  for (int i = 0; i < N; i++) y[i * T] = 1 + i % 7;
  put();
  for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
    tt_config *cfg = split_job(way[k].split, way[k].ensemble);
    tt_dataset *d = NULL;
    int64_t seen = 0;
    TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
    TT_CHECK(d->repeated_rows, ==, N - DIFFERENT);
    TT_CHECK(count_other_parts(d) == 0, ==, way[k].together);
    for (int i = 0; i < N; i++) {
      int trained = 0;
      for (int j = i % DIFFERENT; j < N; j += DIFFERENT) trained |= d->split[j] == TT_TRAIN;
      seen += d->split[i] > TT_TRAIN && trained;
    }
    TT_CHECK(d->seen_rows, ==, seen);
    TT_CHECK(d->unit != NULL, ==, way[k].folds);
    for (int i = 0; way[k].together && d->unit && i < N; i++)
      TT_CHECK(d->unit[i], ==, d->unit[i % DIFFERENT]);
    if (k == 0 && d->hash != SPLIT_HASH) print_error("hash 0x%016" PRIX64 "\n", d->hash);
    if (k == 0) TT_CHECK(d->hash == SPLIT_HASH, ==, 1); /* on any number of ranks */
    tt_dataset_destroy(&d);
    tt_config_destroy(&cfg);
  }
}

/* If equal inputs cannot be kept together, the rows are split one by one. */
TT_TEST (rows_that_are_all_equal_are_split_nevertheless) {
  int8_t split[N];
  tt_dataset *d = NULL;
  make_values();
  for (int i = 1; i < N; i++) memcpy(x + i * D, x, D * sizeof *x);
  put();
  tt_config *cfg = split_job("seed: 3", "{name: a, train: {resample: kfold, folds: 5}}");
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  TT_CHECK_OK(tt_split_fractions(N, (const double[]){0.8, 0.1, 0.1}, 3, split));
  assert_memory_equal(d->split, split, N);
  TT_CHECK(d->seen_rows, ==, N / 5);
  TT_CHECK(d->unit == NULL, ==, 1);
  tt_dataset_destroy(&d);
  tt_config_destroy(&cfg);
}

static void job_refused(const char *ensembles, tt_err wanted, const char *one, const char *two)
{
  tt_config *cfg = job(ensembles);
  put();
  refused(cfg, wanted, one, two);
  tt_config_destroy(&cfg);
}

TT_TEST (bad_choices_of_rows_are_named_on_all_ranks) {
  make_values();
  job_refused("[{name: a, rows: none}]", TT_E_DATA, "there is no dataset 'none'", "z_mask");
  job_refused("[{name: a, rows: w}]", TT_E_DATA, "'w' (ensembles.rows), row 0: 0.5",
              "0 for the others");
  job_refused("[{name: a, rows: feature_name}]", TT_E_DATA, "'feature_name'", file);
  mask[1000] = 2;
  job_refused("[{name: a, rows: z_mask}]", TT_E_DATA, "'z_mask' (ensembles.rows), row 1000: 2",
              "0 for the others");
  memset(mask, 0, sizeof mask);
  job_refused("[{name: a, rows: z_mask}]", TT_E_DATA, "'z_mask'", "leaves no row to train on");
}

TT_TEST (labels_that_an_output_cannot_have_are_named_on_all_ranks) {
  static const struct {
    double y;
    const char *ensembles, *why;
  } bad[] = {
      {2.5, "[{name: a, train: {loss: cross_entropy}}]", "must be a whole number"},
      {-1, "[{name: a, train: {loss: cross_entropy}}]", "must be a whole number"},
      {TT_MAX_CLASSES, "[{name: a, train: {loss: cross_entropy}}]", "must be a whole number"},
      {3, "[{name: a, model: {classes: 3}, train: {loss: cross_entropy}}]", "must be a whole"},
      {1.25, "[{name: a, train: {loss: bce}}]", "must be a number from 0 to 1"},
      {-0.5, "[{name: a, train: {loss: poisson}}]", "must be a number of at least 0"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char wanted[128];
    for (int r = 0; r < N * T; r++) y[r] = r % 2;
    y[2000 * T + 1] = bad[i].y;
    snprintf(wanted, sizeof wanted, "'y', row 2000, column 1 ('state'): %g; ", bad[i].y);
    job_refused(bad[i].ensembles, TT_E_DATA, wanted, bad[i].why);
  }
  job_refused("[{name: a}, {name: b, target: state, train: {loss: bce}}]", TT_E_CONFIG,
              "target 'state' is trained by ensemble a with model.output: mean", "b with sigmoid");
}

/* Rows are read in blocks of 1024: all ranks but one have none of these. */
TT_TEST (few_rows_of_a_table_are_read_on_any_number_of_ranks) {
  static const char job_text[] = "data: {file: \"%s/few.csv\", inputs: a, weights: w, sigma: s,"
                                 " split: {train: 1, validation: 0, test: 0}}\n"
                                 "ensembles: [{name: a, target: b, train: {loss: gaussian_nll}}]\n";
  char path[2 * SCRATCH_ROOM], text[1024];
  tt_config *cfg = NULL;
  tt_dataset *d = NULL;
  snprintf(path, sizeof path, "%s/few.csv", scratch);
  FILE *f = tt_comm_is_root(comm) ? fopen(path, "w") : NULL;
  if (f) fputs("a,b,w,s\n1,2,1,0.1\n2,4,1,0.1\n3,9,4,0.5\n", f);
  if (f) fclose(f);
  tt_barrier(comm);
  int64_t bytes = snprintf(text, sizeof text, job_text, scratch);
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  TT_CHECK_OK(tt_data_read(comm, cfg, NULL, &d));
  TT_CHECK(d->rows, ==, 3);
  TT_CHECK(d->weight[2], ==, 2.0f);
  TT_CHECK(d->label_variance[2] > 20.0f * d->label_variance[0], ==, 1);
  tt_dataset_destroy(&d);
  tt_config_destroy(&cfg);
}

TT_SUITE(name_samples, NULL)
