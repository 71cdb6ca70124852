/* test_results_io.c — results.h5 and prediction files: every value is at the place that
 * docs/files.md names, for any number of ranks and any order of the pieces. With
 * TUTTI_TEST_KEEP=DIR the files stay in DIR for other programs. */
#include "core/base/mem.h"
#include "io/hdf5/h5.h"
#include "io/model/model_file.h"
#include "io/results/results_read.h"
#include "tests/mpi/io/places.h"
#include "tests/support/check.h"
#include "tests/support/made_up.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { G = 5, E = 4, ROWS = 6, Q = 3, C = 2 * MADE_UP_K };
static tt_trained_ensemble *all;
static tt_trained_ensembles only; /* of this ensemble alone */

/* results.h5 */

static tt_state *made_up_state(tt_slice slice)
{
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create(slice, (tt_state_shape){all->model.params, 2, E, 0}, &s));
  for (int64_t i = 0; i < slice.count; i++) {
    int64_t m = slice.first + i;
    TT_FIELD(s, status)[i] = all->status[m];
    TT_FIELD(s, best_epoch)[i] = (int32_t)m - 1;
    TT_FIELD(s, best_loss)[i] = value_at(8, m, 0, 0);
    TT_FIELD(s, epoch)[i] = (int32_t)(m % E + 1);
    TT_FIELD(s, step)[i] = 10 * m;
    TT_FIELD(s, attempt)[i] = (int32_t)m % 3;
    for (int64_t k = 0; k < m % E + 1; k++) {
      TT_FIELD(s, loss_train)[i * E + k] = (float)value_at(1, m, k, 0);
      TT_FIELD(s, loss_validation)[i * E + k] = (float)value_at(2, m, k, 0);
    }
  }
  return s;
}

static tt_scores *made_up_scores(void)
{
  tt_scores *s = NULL;
  TT_CHECK_OK(tt_scores_create(G, MADE_UP_K, C, &s));
  s->forecasts = 1u << tt_output_forecast(all->model.output);
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    fill(s->member[v], 40 + v, G, MADE_UP_K);
    fill(s->ensemble[v], 60 + v, 1, C);
  }
  fill(s->calibration_curve, 13, TT_INTERVALS, C);
  for (int i = 0; i < TT_COVERAGE_LEVELS; i++)
    memcpy(s->interval_coverage + i * C, s->calibration_curve + tt_coverage_level[i] * C,
           C * sizeof(double));
  fill(s->diversity, 14, 1, C);
  for (int i = 0; i < C; i++) s->rows[i] = ROWS - i;
  return s;
}

static void write_results(const char *file, int tested)
{
  static int64_t row[ROWS] = {3, 5, 8, 13, 21, 34};
  static double table[TT_TEST_VARIABLE_COUNT][ROWS * C];
  tt_member member[G];
  tt_cohort cohort = {.members = G,
                      .max_epochs = E,
                      .member = member,
                      .model = all->model,
                      .retry_lr_scale = 0.25f};
  tt_provenance origin = made_up_provenance(comm);
  tt_scores *scores = made_up_scores();
  tt_slice slice;
  double **array[TT_TEST_VARIABLE_COUNT];
  for (int i = 0; i < G; i++)
    member[i].hyper =
        (tt_hyper){.learning_rate = 0.5f * (float)i, .beta1 = 0.9f, .epochs = E - i % 2};
  tt_test_predictions test = {.rows = ROWS, .row = row};
  tt_test_predictions_arrays(&test, array);
  for (int i = 0; tt_comm_is_root(comm) && i < TT_TEST_VARIABLE_COUNT; i++) {
    fill(table[i], 20 + i, ROWS, C);
    *array[i] = table[i];
  }
  TT_CHECK_OK(tt_partition_even(G, tt_comm_ranks(comm), tt_comm_rank(comm), &slice));
  tt_state *mine = made_up_state(slice);
  const tt_result_shard part = {&cohort, mine, {0, G}, {mine->first, mine->count}};
  TT_CHECK_OK(tt_results_write(comm, file, &part, &only, tested ? scores : NULL, scores,
                               tested ? &test : NULL, NULL, &origin));
  tt_state_destroy(&mine);
  tt_scores_destroy(&scores);
}

/* Two axes of a dataset in doubles. */
static void check_table(tt_h5_reader *r, const char *path, int64_t table, int64_t rows,
                        int64_t columns)
{
  double got[G * ROWS * C];
  TT_CHECK_OK(tt_h5_read_rows_local(r, path, TT_H5_F64, 0, rows, got));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      TT_CHECK(got[i * columns + j], ==, value_at(table, i, j, 0));
}

static void check_losses(const tt_results *k)
{
  for (int64_t m = 0; m < G; m++)
    for (int64_t e = 0; e < E; e++) {
      float train = k->loss_train[m * E + e], validation = k->loss_validation[m * E + e];
      if (e > m % E) {
        TT_CHECK(isnan(train) && isnan(validation), ==, 1);
      } else {
        TT_CHECK(train, ==, (float)value_at(1, m, e, 0));
        TT_CHECK(validation, ==, (float)value_at(2, m, e, 0));
      }
    }
}

static void check_members(tt_h5_reader *r)
{
  int64_t epochs[G], status[G], best[G], steps[G];
  double rate[G];
  TT_CHECK_OK(tt_h5_read_rows_local(r, "epochs_done", TT_H5_I64, 0, G, epochs));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "status", TT_H5_I64, 0, G, status));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "best_epoch", TT_H5_I64, 0, G, best));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "steps_done", TT_H5_I64, 0, G, steps));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "learning_rate", TT_H5_F64, 0, G, rate));
  for (int64_t m = 0; m < G; m++) {
    TT_CHECK(epochs[m], ==, m % E + 1);
    TT_CHECK(status[m], ==, (int64_t)all->status[m]);
    TT_CHECK(best[m], ==, m - 1);
    TT_CHECK(steps[m], ==, 10 * m);
    TT_CHECK(rate[m], ==, 0.5 * (double)m * pow(0.25, (double)(m % 3))); /* of the last attempt */
  }
}

/* The same made-up scores once more, as those of the training rows; every metric of the output. */
static void check_out_of_bag(tt_h5_reader *r)
{
  double coverage[3 * C], score[C];
  const int at[3] = {9, 17, 18};
  char name[64];
  TT_CHECK_OK(tt_h5_read_rows_local(r, "oob_coverage", TT_H5_F64, 0, 3, coverage));
  for (int64_t i = 0; i < 3 * C; i++) TT_CHECK(coverage[i], ==, value_at(13, at[i / C], i % C, 0));
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    snprintf(name, sizeof name, "oob_%s", tt_metric_table[v].name);
    TT_CHECK(tt_h5_has_local(r, name), ==, tt_metric_fits((tt_metric)v, all->model.output));
    if (!tt_h5_has_local(r, name)) continue;
    TT_CHECK_OK(tt_h5_read_rows_local(r, name, TT_H5_F64, 0, C, score));
    for (int64_t k = 0; k < C; k++) TT_CHECK(score[k], ==, value_at(60 + v, 0, k, 0));
  }
}

static void check_coverage(tt_h5_reader *r)
{
  double coverage[3 * C], level[3], curve[TT_INTERVALS * C];
  TT_CHECK_OK(tt_h5_read_rows_local(r, "coverage", TT_H5_F64, 0, 3, coverage));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "coverage_level", TT_H5_F64, 0, 3, level));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "calibration_curve", TT_H5_F64, 0, TT_INTERVALS, curve));
  const int at[3] = {9, 17, 18};
  for (int64_t i = 0; i < 3 * C; i++) TT_CHECK(coverage[i], ==, value_at(13, at[i / C], i % C, 0));
  for (int64_t i = 0; i < TT_INTERVALS * C; i++)
    TT_CHECK(curve[i], ==, value_at(13, i / C, i % C, 0));
  TT_CHECK(level[2], ==, 0.95);
  check_out_of_bag(r);
}

/* A member has scores of the targets of its own ensemble, NaN for the others. */
static void check_member_scores(tt_h5_reader *r, const char *path, int64_t table)
{
  double got[G][MADE_UP_TARGETS];
  TT_CHECK_OK(tt_h5_read_rows_local(r, path, TT_H5_F64, 0, G, got));
  for (int64_t i = 0; i < G * MADE_UP_TARGETS; i++) {
    int64_t m = i / MADE_UP_TARGETS, t = i % MADE_UP_TARGETS, k = made_up_place(all, m, t);
    TT_CHECK(isnan(got[m][t]), ==, k < 0);
    if (k >= 0) TT_CHECK(got[m][t], ==, value_at(table, m, k, 0));
  }
}

TT_TEST (results_are_at_their_places) {
  write_results(at("results.h5"), 1);
  tt_h5_reader *r = NULL;
  tt_results *k = NULL;
  TT_CHECK_OK(tt_h5_open_local(at("results.h5"), &r));
  check_members(r);
  check_coverage(r);
  check_member_scores(r, "test_rmse", 40);
  check_member_scores(r, "test_nll", 42);
  check_table(r, "ensemble_rmse", 60, 1, 0);
  tt_h5_close_local(&r);

  TT_CHECK_OK(tt_results_read_local(at("results.h5"), &k));
  TT_CHECK(k->members, ==, G);
  TT_CHECK(k->epochs, ==, E);
  TT_CHECK(k->columns, ==, C);
  TT_CHECK(k->rows, ==, ROWS);
  TT_CHECK(k->test.row[5], ==, 34);
  assert_string_equal(k->owner[1], "heating-1");
  assert_string_equal(k->owner[2], "cooling");
  assert_string_equal(k->ensemble[3], "cooling");
  assert_string_equal(k->target[1], all->target.name[2]);
  check_losses(k);
  double **table[TT_TEST_VARIABLE_COUNT];
  tt_test_predictions_arrays(&k->test, table);
  for (int64_t t = 0; t < TT_TEST_VARIABLE_COUNT; t++)
    for (int64_t i = 0; i < ROWS * C; i++)
      TT_CHECK((*table[t])[i], ==, value_at(20 + t, i / C, i % C, 0));
  TT_CHECK(k->levels, ==, TT_INTERVALS);
  for (int64_t i = 0; i < k->levels * C; i++)
    TT_CHECK(k->calibration[i], ==, value_at(13, i / C, i % C, 0));
  tt_results_destroy(&k);
  tt_barrier(comm);
}

TT_TEST (results_without_test_rows_have_the_history) {
  tt_results *k = NULL;
  write_results(at("untested.h5"), 0);
  TT_CHECK_OK(tt_results_read_local(at("untested.h5"), &k));
  TT_CHECK(k->rows, ==, 0);
  TT_CHECK(k->test.y == NULL, ==, 1);
  check_losses(k);
  tt_results_destroy(&k);
  TT_CHECK((int)tt_results_read_local(TUTTI_SOURCE "/README.md", &k), !=, (int)TT_OK);
  TT_CHECK(k == NULL, ==, 1);
  tt_barrier(comm);
}

/* Two cohorts of different histories, targets and quantities in one file: members and columns of
 * the cohorts one after another, padded with NaN. */
enum { G2 = 3, E2 = 2, C2 = 2 };

static tt_state *other_state(tt_slice slice)
{
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create(slice, (tt_state_shape){.params = 4, .epochs = E2}, &s));
  for (int64_t i = 0; i < slice.count; i++) {
    TT_FIELD(s, step)[i] = 1000 + slice.first + i;
    for (int64_t k = 0; k < E2; k++)
      TT_FIELD(s, loss_train)[i * E2 + k] = (float)value_at(3, slice.first + i, k, 0);
  }
  return s;
}

static void write_two(const char *file, tt_trained_ensemble *other)
{
  tt_trained_ensemble *both[] = {all, other};
  const tt_trained_ensembles two = {.count = 2, .at = both};
  tt_member member[G] = {0};
  tt_cohort one = {.members = G, .max_epochs = E, .member = member, .model = all->model};
  for (int64_t i = 0; i < G2; i++) other->cohort[i] = 1;
  tt_cohort second = {.members = G2, .max_epochs = E2, .member = member, .model = other->model};
  tt_provenance origin = made_up_provenance(comm);
  tt_scores *part[2] = {made_up_scores(), NULL}, *scores = NULL;
  tt_slice line;
  TT_CHECK_OK(tt_partition_even(G + G2, tt_comm_ranks(comm), tt_comm_rank(comm), &line));
  tt_state *a = made_up_state(tt_slice_intersect(line, 0, G));
  tt_state *b = other_state(tt_slice_intersect(line, G, G2));
  TT_CHECK_OK(tt_scores_create(G2, 1, C2, &part[1]));
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    fill(part[1]->member[v], 70 + v, G2, 1);
    fill(part[1]->ensemble[v], 80 + v, 1, C2);
  }
  fill(part[1]->calibration_curve, 15, TT_INTERVALS, C2);
  for (int i = 0; i < TT_COVERAGE_LEVELS; i++)
    memcpy(part[1]->interval_coverage + i * C2,
           part[1]->calibration_curve + tt_coverage_level[i] * C2, C2 * sizeof(double));
  part[1]->rows[1] = 77;
  TT_CHECK_OK(tt_scores_concat(&two, (const tt_scores *const *)part, &scores));
  const tt_result_shard parts[] = {{&one, a, {0, G}, {a->first, a->count}},
                                   {&second, b, {0, G2}, {b->first, b->count}}};
  TT_CHECK_OK(tt_results_write(comm, file, parts, &two, scores, NULL, NULL, NULL, &origin));
  for (int i = 0; i < 2; i++) tt_scores_destroy(&part[i]);
  tt_scores_destroy(&scores);
  tt_state_destroy(&a);
  tt_state_destroy(&b);
}

static void check_two(tt_h5_reader *r)
{
  double loss[(G + G2) * E], rmse[(G + G2) * MADE_UP_TARGETS], of[C + C2], inside[3 * (C + C2)];
  int64_t cohort[G + G2], steps[G + G2], rows[C + C2];
  TT_CHECK_OK(tt_h5_read_rows_local(r, "cohort", TT_H5_I64, 0, G + G2, cohort));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "steps_done", TT_H5_I64, 0, G + G2, steps));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "loss_train", TT_H5_F64, 0, G + G2, loss));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "test_rmse", TT_H5_F64, 0, G + G2, rmse));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "ensemble_rmse", TT_H5_F64, 0, C + C2, of));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "coverage", TT_H5_F64, 0, 3, inside));
  TT_CHECK_OK(tt_h5_read_rows_local(r, "test_rows", TT_H5_I64, 0, C + C2, rows));
  for (int64_t i = 0; i < G + G2; i++) {
    TT_CHECK(cohort[i], ==, i >= G);
    TT_CHECK(steps[i], ==, i < G ? 10 * i : 1000 + i - G);
  }
  for (int64_t i = 0; i < G2; i++) {
    TT_CHECK(loss[(G + i) * E], ==, (double)(float)value_at(3, i, 0, 0));
    for (int64_t e = E2; e < E; e++) TT_CHECK(isnan(loss[(G + i) * E + e]), ==, 1);
    for (int64_t t = 0; t < MADE_UP_TARGETS; t++)
      TT_CHECK(isnan(rmse[(G + i) * MADE_UP_TARGETS + t]), ==, t != (i > 1));
    TT_CHECK(rmse[(G + i) * MADE_UP_TARGETS + (i > 1)], ==, value_at(70, i, 0, 0));
  }
  for (int64_t k = 0; k < C2; k++) TT_CHECK(of[C + k], ==, value_at(80, 0, k, 0));
  TT_CHECK(of[C - 1], ==, value_at(60, 0, C - 1, 0));
  TT_CHECK(inside[C + C2 + C], ==, value_at(15, 17, 0, 0)); /* 90 % is the 18th interval */
  TT_CHECK(rows[C + 1], ==, 77);
}

TT_TEST (cohorts_share_the_axes) {
  tt_h5_reader *r = NULL;
  tt_trained_ensemble *other = made_up_shape(G2, (tt_model_shape){.targets = 1});
  write_two(at("two.h5"), other);
  TT_CHECK_OK(tt_h5_open_local(at("two.h5"), &r));
  check_two(r);
  tt_h5_close_local(&r);
  tt_trained_ensemble_destroy(&other);
  tt_barrier(comm);
}

/* Tables of test rows side by side. */
TT_TEST (test_tables_are_joined) {
  tt_trained_ensemble *other = made_up_shape(G2, (tt_model_shape){.targets = 1});
  tt_trained_ensemble *both[] = {all, other};
  const tt_trained_ensembles two = {.count = 2, .at = both};
  double one[ROWS * C], second[ROWS * C2];
  fill(one, 1, ROWS, C);
  fill(second, 2, ROWS, C2);
  tt_test_predictions part[2] = {{.rows = ROWS}, {.rows = ROWS}};
  double **dst[2][TT_TEST_VARIABLE_COUNT];
  for (int i = 0; i < 2; i++) tt_test_predictions_arrays(&part[i], dst[i]);
  for (int v = 0; v < TT_TEST_VARIABLE_COUNT; v++) *dst[0][v] = one, *dst[1][v] = second;
  tt_test_predictions whole = {0}, none = {0};
  TT_CHECK_OK(tt_test_predictions_concat(&two, part, &whole));
  for (int64_t i = 0; i < ROWS; i++) {
    for (int64_t k = 0; k < C; k++)
      TT_CHECK(whole.mean[i * (C + C2) + k], ==, value_at(1, i, k, 0));
    for (int64_t k = 0; k < C2; k++)
      TT_CHECK(whole.total[i * (C + C2) + C + k], ==, value_at(2, i, k, 0));
  }
  tt_test_predictions_free(&whole);
  const tt_test_predictions elsewhere[2] = {{.rows = ROWS}, {.rows = ROWS}};
  TT_CHECK_OK(tt_test_predictions_concat(&two, elsewhere, &none));
  TT_CHECK(none.y == NULL && none.rows == ROWS, ==, 1);
  tt_trained_ensemble_destroy(&other);
}

/* Predictions */

static const double levels[Q] = {0.05, 0.5, 0.95};

enum { SLOPES = C * MADE_UP_INPUTS }; /* numbers of a row of a Jacobian */

/* The piece [first, first + count) of all arrays, of a tt_prediction_block.
 */
typedef struct chunk {
  double *column[4], *slope[4], *quantile;
  double *members[2];
} chunk;

static chunk make_chunk(int64_t first, int64_t count)
{
  chunk p = {0};
  for (int t = 0; t < 4; t++) {
    TT_CHECK_OK(tt_alloc_bytes(&p.column[t], count * C, sizeof(double), "piece"));
    for (int64_t i = 0; i < count * C; i++)
      p.column[t][i] = value_at(30 + t, first + i / C, i % C, 0);
    TT_CHECK_OK(tt_alloc_bytes(&p.slope[t], count * SLOPES, sizeof(double), "piece"));
    for (int64_t i = 0; i < count * SLOPES; i++)
      p.slope[t][i] = value_at(60 + t, first + i / SLOPES, i % SLOPES, 0);
  }
  TT_CHECK_OK(tt_alloc_bytes(&p.quantile, Q * count * C, sizeof(double), "piece"));
  for (int64_t q = 0; q < Q; q++)
    for (int64_t i = 0; i < count * C; i++)
      p.quantile[q * count * C + i] = value_at(40, first + i / C, i % C, q);
  for (int t = 0; t < 2; t++) {
    TT_CHECK_OK(tt_alloc_bytes(&p.members[t], G * count * MADE_UP_K, sizeof(double), "piece"));
    for (int64_t m = 0; m < G; m++)
      for (int64_t i = 0; i < count * MADE_UP_K; i++)
        p.members[t][m * count * MADE_UP_K + i] =
            value_at(50 + t, first + i / MADE_UP_K, i % MADE_UP_K, m);
  }
  return p;
}

static void free_chunk(chunk *p)
{
  for (int t = 0; t < 4; t++) tt_free_all(&p->column[t], &p->slope[t]);
  tt_free_all(&p->quantile, &p->members[0], &p->members[1]);
}

/* Two rows per round, given to the ranks from the last row on; in the last rounds some ranks have
 * none. */
static tt_err write_prediction(const char *file, int64_t rows, int everything, int close)
{
  tt_prediction_file *f = NULL;
  tt_provenance origin = made_up_provenance(comm);
  tt_prediction_shape shape = {.rows = rows,
                               .columns = C,
                               .quantiles = everything ? Q : 0,
                               .quantile = levels,
                               .members = everything,
                               .jacobian = everything};
  static const int64_t number[7] = {0, 1, 2, 3, 4, 5, 6};
  int64_t ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm);
  tt_err e = tt_prediction_file_create(comm, file, &only, &shape, &origin, &f);
  for (int64_t done = 0; !e && done < rows; done += 2 * ranks) {
    int64_t last = rows - done - 2 * rank, first = last > 2 ? last - 2 : 0;
    int64_t count = last > 0 ? last - first : 0;
    chunk p = make_chunk(first, count);
    tt_prediction_block b = {.first = first,
                             .row = number + first,
                             .rows = count,
                             .columns = C,
                             .mean = p.column[0],
                             .total = p.column[1],
                             .aleatoric = p.column[2],
                             .epistemic = p.column[3],
                             .quantile = everything ? p.quantile : NULL,
                             .jacobian = {p.slope[0], p.slope[1], p.slope[2], p.slope[3]},
                             .member_mean = everything ? p.members[0] : NULL,
                             .member_variance = everything ? p.members[1] : NULL};
    e = tt_prediction_file_write(f, &b);
    free_chunk(&p);
  }
  if (!e && close) return tt_prediction_file_close(&f);
  tt_prediction_file_destroy(&f);
  return e;
}

TT_TEST (predictions_are_at_their_places) {
  const char *const column[] = {"y_pred_mean", "y_pred_std", "y_pred_std_aleatoric",
                                "y_pred_std_epistemic"};
  char slopes[64];
  static double got[G * 7 * C];
  tt_h5_reader *r = NULL;
  TT_CHECK_OK(write_prediction(at("predicted.h5"), 7, 1, 1));
  TT_CHECK_OK(tt_h5_open_local(at("predicted.h5"), &r));
  for (int t = 0; t < 4; t++) {
    check_table(r, column[t], 30 + t, 7, C);
    snprintf(slopes, sizeof slopes, "%s_jacobian", column[t]);
    check_table(r, slopes, 60 + t, 7, SLOPES);
  }
  TT_CHECK_OK(tt_h5_read_rows_local(r, "y_pred_quantile", TT_H5_F64, 0, Q, got));
  for (int64_t i = 0; i < Q * 7 * C; i++)
    TT_CHECK(got[i], ==, value_at(40, i / C % 7, i % C, i / C / 7));
  for (int t = 0; t < 2; t++) {
    const int64_t k = MADE_UP_K;
    TT_CHECK_OK(
        tt_h5_read_rows_local(r, t ? "y_member_variance" : "y_member_mean", TT_H5_F64, 0, G, got));
    for (int64_t i = 0; i < G * 7 * k; i++)
      TT_CHECK(got[i], ==, value_at(50 + t, i / k % 7, i % k, i / k / 7));
  }
  tt_h5_close_local(&r);
  tt_barrier(comm);
}

TT_TEST (predictions_hold_only_what_was_requested) {
  tt_h5_reader *r = NULL;
  TT_CHECK_OK(write_prediction(at("few.h5"), 1, 0, 1));
  TT_CHECK_OK(tt_h5_open_local(at("few.h5"), &r));
  check_table(r, "y_pred_mean", 30, 1, C);
  TT_CHECK(tt_h5_has_local(r, "y_pred_quantile"), ==, 0);
  TT_CHECK(tt_h5_has_local(r, "y_member_mean"), ==, 0);
  TT_CHECK(tt_h5_has_local(r, "y_pred_mean_jacobian"), ==, 0);
  tt_h5_close_local(&r);
  tt_barrier(comm);
}

TT_TEST (aborted_predictions_leave_no_file) {
  int before = scratch_count(scratch, "");
  tt_barrier(comm);
  TT_CHECK_OK(write_prediction(at("given_up.h5"), 7, 1, 0));
  tt_barrier(comm);
  TT_CHECK(scratch_count(scratch, ""), ==, before);
  TT_CHECK((int)write_prediction(at("no/such/directory.h5"), 7, 1, 1), ==, (int)TT_E_CANTCREAT);
  tt_barrier(comm);
}

/* For other programs: all three kinds of file. */
static void write_model(void)
{
  tt_provenance origin = made_up_provenance(comm);
  int root = tt_comm_is_root(comm);
  tt_slice slice = {root ? 0 : G, root ? G : 0};
  const tt_model_shard part = {slice, all->w};
  TT_CHECK_OK(tt_model_write(comm, at("model.h5"), &only, &part, &origin));
}

static int begin(void **unused)
{
  (void)unused;
  all = made_up_committee(G, (int64_t[]){4, 3}, 2, TT_OUTPUT_mean_variance);
  only = (tt_trained_ensembles){.count = 1, .at = &all};
  return 0;
}

static int end(void **unused)
{
  (void)unused;
  write_model();
  tt_trained_ensemble_destroy(&all);
  return 0;
}

TT_SUITE(begin, end)
