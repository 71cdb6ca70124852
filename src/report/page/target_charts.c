/* target_charts.c — see run_page_internal.h: the charts of one target. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"
#include "src/report/history.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  TEXT = 256,
  MOST_POINTS = 500,    /* with more rows a chart is a density */
  BINS = 10,            /* most groups of rows in a chart */
  ROWS_OF_GROUP = 12,   /* at least, of the spread */
  TRACES = 100,         /* most members with a line of their own */
  TRACE_POINTS = 16000, /* of all lines of the page */
  BASE = 4              /* series of learning curves without the members */
};
static const double normal_95 = 1.959964; /* standard deviations of a central 95 % interval */

/* A straight line from (end[0], end[0]) to (end[1], end[1]). */
static tt_chart_series ideal(const double end[2])
{
  return tt_chart_points(TT_CHART_LINE, TT_CHART_REFERENCE, "ideal", 2, end, end);
}

/* "measured load (kW)" */
static void name_units(const char *what, const tt_run_page *p, const tt_target *t, char text[TEXT])
{
  const char *units = p->k->units[t->first];
  int known = *units && strcmp(units, "1") != 0;
  snprintf(text, TEXT, "%s %s%s%s%s", what, p->k->target[t->first], known ? " (" : "",
           known ? units : "", known ? ")" : "");
}

/* Leave out a chart whose first series has no values. */
static void put_chart(const tt_run_page *p, const tt_chart *c)
{
  const tt_chart_series *s = c->series;
  for (int64_t i = 0; i < s->points; i++)
    if (isfinite(s->x[i]) && isfinite(s->y[i])) {
      tt_page_chart(p->f, c);
      return;
    }
}

/* Numbers: predicted against measured, and residuals */

/* The test rows with a label and a prediction, of the middle column of a target. */
typedef struct labeled_rows {
  int64_t n;
  double *measured, *predicted, *residual; /* [n]; measured owns the memory of all */
  double *low, *high; /* [n] ends of the interval: 95 %, or the outer quantiles */
} labeled_rows;

static tt_err collect_rows(const tt_results *k, const tt_target *t, labeled_rows *out)
{
  double **const array[] = {&out->predicted, &out->residual, &out->low, &out->high};
  int64_t last = t->first + t->count - 1;
  TT_TRY(TT_ALLOC(out->measured, 5 * k->rows));
  for (int i = 0; i < 4; i++) *array[i] = out->measured + (i + 1) * k->rows;
  for (int64_t r = 0; r < k->rows; r++) {
    const double *mean = k->test.mean + r * k->columns;
    int64_t column = t->first + t->count / 2, cell = r * k->columns + column, n = out->n;
    if (!isfinite(k->test.y[cell]) || !isfinite(mean[column])) continue;
    double half = normal_95 * k->test.total[cell];
    out->measured[n] = k->test.y[cell];
    out->predicted[n] = mean[column];
    out->residual[n] = out->measured[n] - out->predicted[n];
    out->low[n] = t->count > 1 ? mean[t->first] : mean[column] - half;
    out->high[n] = t->count > 1 ? mean[last] : mean[column] + half;
    out->n++;
  }
  return TT_OK;
}

static void describe_errors(const tt_run_page *p, const tt_target *t, char note[TEXT])
{
  char r2[32] = "", rmse[TEXT / 2] = "";
  double error = p->k->rmse[t->first + t->count / 2];
  const char *units = p->k->units[t->first];
  if (isfinite(t->determination)) snprintf(r2, sizeof r2, "R^2 %.4f, ", t->determination);
  if (isfinite(error))
    snprintf(rmse, sizeof rmse, "rmse %.3g%s%.64s, ", error, *units ? " " : "", units);
  snprintf(note, TEXT, "%s%s%" PRId64 " test rows", r2, rmse, t->rows);
}

static void put_parity(const tt_run_page *p, const tt_target *t, const labeled_rows *l)
{
  char note[TEXT], x_label[TEXT], y_label[TEXT];
  double end[] = {INFINITY, -INFINITY};
  int dense = l->n > MOST_POINTS;
  const char *name = dense ? "test rows" : t->count > 1 ? "median, quantiles" : "mean, 95 % range";
  for (int64_t i = 0; i < l->n; i++) {
    end[0] = fmin(end[0], fmin(l->measured[i], fmin(l->predicted[i], l->low[i])));
    end[1] = fmax(end[1], fmax(l->measured[i], fmax(l->predicted[i], l->high[i])));
  }
  tt_chart_series s[] = {
      dense ? tt_chart_points(TT_CHART_DENSITY, 0, name, l->n, l->measured, l->predicted)
            : tt_chart_ranges(TT_CHART_POINTS, 0, name, l->n, l->measured, l->predicted, l->low,
                              l->high),
      ideal(end)};
  describe_errors(p, t, note);
  name_units("measured", p, t, x_label);
  name_units("predicted", p, t, y_label);
  put_chart(p, &(tt_chart){"Predicted and measured", note, x_label, y_label, 2, s, .is_square = 1});
}

static void put_residuals(const tt_run_page *p, const tt_target *t, const labeled_rows *l)
{
  char note[TEXT], x_label[TEXT], y_label[TEXT];
  double end[] = {INFINITY, -INFINITY}, zero[] = {0, 0}, sum = 0;
  tt_chart_mark mark = l->n > MOST_POINTS ? TT_CHART_DENSITY : TT_CHART_POINTS;
  for (int64_t i = 0; i < l->n; i++) {
    end[0] = fmin(end[0], l->predicted[i]);
    end[1] = fmax(end[1], l->predicted[i]);
    sum += l->residual[i];
  }
  tt_chart_series s[] = {tt_chart_points(mark, 0, NULL, l->n, l->predicted, l->residual),
                         tt_chart_points(TT_CHART_LINE, TT_CHART_REFERENCE, NULL, 2, end, zero)};
  snprintf(note, TEXT, "mean %.3g", sum / (double)l->n);
  name_units("predicted", p, t, x_label);
  name_units("measured - predicted", p, t, y_label);
  put_chart(p, &(tt_chart){"Residuals", note, x_label, y_label, 2, s, .is_square = 0});
}

/* Numbers: predicted standard deviation against error */

/* A test row in the order of its predicted standard deviation. */
typedef struct spread_row {
  double std, error;
} spread_row;

/* Root mean squares of groups of the same size: of the predictions, of the errors, and the ends of
 * a 95 % range of the error, from the standard deviation 1 / sqrt(2 n) of the logarithm of the root
 * mean square of n normal numbers. */
static int64_t group_rows(const spread_row *row, int64_t rows, double dst[4][BINS])
{
  int64_t groups = rows / ROWS_OF_GROUP;
  groups = groups > BINS ? BINS : groups == 0 && rows > 2 ? 1 : groups;
  for (int64_t g = 0; g < groups; g++) {
    int64_t begin = g * rows / groups, end = (g + 1) * rows / groups, n = end - begin;
    double std = 0, error = 0, factor = exp(1.96 / sqrt(2.0 * (double)n));
    for (int64_t i = begin; i < end; i++) {
      std += row[i].std * row[i].std / (double)n;
      error += row[i].error * row[i].error / (double)n;
    }
    dst[0][g] = sqrt(std);
    dst[1][g] = sqrt(error);
    dst[2][g] = dst[1][g] / factor;
    dst[3][g] = dst[1][g] * factor;
  }
  return groups;
}

static int64_t collect_spread(const tt_results *k, int64_t column, spread_row *row)
{
  int64_t n = 0;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t cell = r * k->columns + column;
    double error = k->test.y[cell] - k->test.mean[cell], std = k->test.total[cell];
    if (isfinite(error) && isfinite(std) && std > 0) row[n++] = (spread_row){std, error};
  }
  qsort(row, (size_t)n, sizeof *row, tt_compare_f64);
  return n;
}

static tt_err put_spread(const tt_run_page *p, const tt_target *t)
{
  char note[TEXT], x_label[TEXT], y_label[TEXT];
  double dst[4][BINS], end[] = {INFINITY, 0};
  spread_row *row = NULL;
  TT_TRY(TT_ALLOC(row, p->k->rows));
  int64_t rows = collect_spread(p->k, t->first, row), n = group_rows(row, rows, dst);
  tt_free(row);
  if (n == 0 || t->count > 1) return TT_OK;
  for (int64_t i = 0; i < n; i++) {
    end[0] = fmin(end[0], fmin(dst[0][i], dst[2][i]));
    end[1] = fmax(end[1], fmax(dst[0][i], dst[3][i]));
  }
  tt_chart_series s[] = {
      tt_chart_ranges(TT_CHART_POINTS, 0, "rows, 95 % range", n, dst[0], dst[1], dst[2], dst[3]),
      ideal(end)};
  snprintf(note, TEXT, "groups of about %" PRId64 " rows", rows / n);
  name_units("predicted std of", p, t, x_label);
  name_units("rms error of", p, t, y_label);
  put_chart(p, &(tt_chart){"Spread and error", note, x_label, y_label, 2, s, .is_square = 1});
  return TT_OK;
}

/* Classes: predicted probability against frequency */

/* Ends of the 95 % range of a percentage of n rows. */
static void set_range(double percent, double n, double *low, double *high)
{
  double bar = normal_95 * sqrt(percent * (100 - percent) / n);
  *low = fmax(percent - bar, 0);
  *high = fmin(percent + bar, 100);
}

static void put_reliability(const tt_run_page *p, const tt_target *t)
{
  static const double end[] = {0, 100};
  const tt_results *k = p->k;
  double x[BINS] = {0}, y[BINS] = {0}, low[BINS], high[BINS], n[BINS] = {0};
  char note[TEXT];
  for (int64_t i = 0; i < k->rows * t->count; i++) {
    int64_t cell = i / t->count * k->columns + t->first + i % t->count;
    double probability = k->test.mean[cell], is_so = k->test.y[cell];
    if (!isfinite(probability) || !isfinite(is_so)) continue;
    int b = probability >= 1 ? BINS - 1 : probability > 0 ? (int)(probability * BINS) : 0;
    x[b] += 100 * probability;
    y[b] += 100 * is_so;
    n[b]++;
  }
  for (int b = 0; b < BINS; b++) {
    x[b] /= n[b];
    y[b] /= n[b];
    set_range(y[b], n[b], &low[b], &high[b]);
  }
  tt_chart_series s[] = {
      tt_chart_ranges(TT_CHART_POINTS, 0, "frequency, 95 %", BINS, x, y, low, high), ideal(end)};
  snprintf(note, TEXT, "rmse of the probabilities %.3g, %" PRId64 " test rows", k->rmse[t->first],
           t->rows);
  put_chart(p, &(tt_chart){"Reliability", note, "predicted probability (%)",
                           "frequency in the test rows (%)", 2, s, .is_square = 1});
}

/* Calibration */

/* Band: 95 % sampling range of a calibrated model with this number of test rows. */
static tt_err put_calibration(const tt_run_page *p, const tt_target *t)
{
  static const double end[] = {0, 100};
  const tt_results *k = p->k;
  int64_t n = k->levels;
  double *x = NULL;
  char note[TEXT];
  TT_TRY(TT_ALLOC(x, 4 * n));
  double *y = x + n, *low = y + n, *high = low + n;
  for (int64_t i = 0; i < n; i++) {
    x[i] = 100 * k->level[i];
    y[i] = 100 * k->calibration[i * k->columns + t->first + t->count / 2];
    set_range(x[i], fmax((double)t->rows, 1), &low[i], &high[i]);
  }
  tt_chart_series s[] = {
      tt_chart_points(TT_CHART_LINE, 0, "predictions", n, x, y), ideal(end),
      tt_chart_ranges(TT_CHART_BAND, TT_CHART_REFERENCE, NULL, n, x, NULL, low, high)};
  snprintf(note, TEXT, "gray: 95 %% sampling range of %" PRId64 " rows", t->rows);
  put_chart(p, &(tt_chart){"Calibration", note, "central interval (%)", "test rows inside (%)", 3,
                           s, .is_square = 1});
  tt_free(x);
  return TT_OK;
}

/* Learning curves */

/* Over how many members the medians are: those that train, from the first to the last epoch. */
static void describe_members(const tt_loss_history *h, int64_t epochs, char note[TEXT])
{
  int64_t first = epochs ? (int64_t)h->members[0] : 0,
          last = epochs ? (int64_t)h->members[epochs - 1] : 0;
  char range[48];
  snprintf(range, sizeof range, first == last ? "%" PRId64 : "%" PRId64 " to %" PRId64, first,
           last);
  snprintf(note, TEXT, "median, 10-90 %% of %s member%s", range, tt_plural(first));
}

/* Medians and bands of both losses. */
static void set_base(const tt_loss_history *h, int64_t epochs, double *epoch, tt_chart_series *s)
{
  static const char *const name[TT_LOSS_KINDS] = {"training", "validation"};
  while (epochs > 0 && h->members[epochs - 1] == 0) epochs--;
  for (int64_t i = 0; i < epochs; i++) epoch[i] = (double)(i + 1);
  for (int i = 0; i < TT_LOSS_KINDS; i++) {
    double *const *q = h->quantile[i];
    s[i] = tt_chart_points(TT_CHART_LINE, i, name[i], epochs, epoch, q[1]);
    s[TT_LOSS_KINDS + i] = tt_chart_ranges(TT_CHART_BAND, i, NULL, epochs, epoch, NULL, q[0], q[2]);
  }
}

static void fill_trace(const tt_run_page *p, int64_t m, int64_t points, double *x, double *y)
{
  int64_t epochs = p->k->epochs;
  const float *loss = &p->k->loss_validation[m * epochs];
  int is_known = 0;
  for (int64_t e = 0; e < epochs; e++) is_known |= isfinite(loss[e]);
  if (!is_known) loss = &p->k->loss_train[m * epochs];
  for (int64_t j = 0; j < points; j++) {
    int64_t e = points > 1 ? j * (epochs - 1) / (points - 1) : 0;
    x[j] = (double)(e + 1);
    y[j] = loss[e];
  }
}

/* Thin lines of n members: all, or n of them at equal distances.
 *   values  [n][2][points] */
static void set_traces(const tt_run_page *p, const tt_loss_history *h, int64_t n, int64_t points,
                       double *values, tt_chart_series *s)
{
  for (int64_t i = 0; i < n; i++) {
    double *x = values + 2 * i * points, *y = x + points;
    fill_trace(p, h->first + i * (h->end - h->first) / n, points, x, y);
    s[i] = tt_chart_points(TT_CHART_TRACE, 1, NULL, points, x, y);
  }
}

/* The learning curves: median and quantiles 0.1 and 0.9 over the members, with a thin line for each
 * member behind them. */
static tt_err put_history(const tt_run_page *p, const tt_target *t)
{
  int64_t n = t->end_member - t->member < TRACES ? t->end_member - t->member : TRACES;
  int64_t epochs = p->k->epochs, points = n > 0 ? TRACE_POINTS / (n * p->shown) : 0;
  points = points > epochs ? epochs : points < 12 ? 12 : points;
  tt_chart_series *s = NULL;
  double *values = NULL;
  char note[TEXT];
  tt_loss_history h = {0};
  tt_err e = tt_loss_history_create(p->k, t->member, &h);
  if (!e) e = TT_ALLOC(s, BASE + n);
  if (!e) e = TT_ALLOC(values, epochs + 2 * n * points);
  if (!e) {
    set_base(&h, epochs, values, s);
    set_traces(p, &h, n, points, values + epochs, s + BASE);
    describe_members(&h, s->points, note);
    tt_page_chart(p->f, &(tt_chart){"Learning curves", note, "epoch", "loss", BASE + n, s,
                                    .least_x_step = 1});
  }
  tt_free_all(&s, &values);
  tt_loss_history_free(&h);
  return e;
}

/* All charts of a target */

static tt_err put_numbers(const tt_run_page *p, const tt_target *t, int is_sure)
{
  labeled_rows l = {0};
  TT_TRY(collect_rows(p->k, t, &l));
  put_parity(p, t, &l);
  put_residuals(p, t, &l);
  tt_free(l.measured);
  if (is_sure) TT_TRY(put_calibration(p, t));
  return put_spread(p, t);
}

tt_err tt_target_put_charts(const tt_run_page *p, const tt_target *t, int is_sure)
{
  tt_err e = TT_OK;
  if (p->k->rows > 0 && tt_target_is_class(p->k, t->first)) {
    put_reliability(p, t);
    if (is_sure) e = put_calibration(p, t);
  } else if (p->k->rows > 0)
    e = put_numbers(p, t, is_sure);
  int is_first = t == p->t || t[-1].member != t->member;
  return e || !is_first ? e : put_history(p, t);
}

/* R2 of a column: mean squared error / variance of the labels, of `rows` rows. */
static double determination(const tt_results *k, int64_t column, int64_t rows)
{
  double sum = 0, residual = 0, total = 0;
  int64_t cells = k->rows * k->columns;
  for (int64_t i = column; i < cells; i += k->columns)
    if (isfinite(k->test.y[i]) && isfinite(k->test.mean[i])) sum += k->test.y[i];
  for (int64_t i = column; i < cells; i += k->columns) {
    double y = k->test.y[i], error = y - k->test.mean[i], off = y - sum / (double)rows;
    if (!isfinite(error)) continue;
    residual += error * error;
    total += off * off;
  }
  return 1 - residual / total;
}

int tt_target_is_class(const tt_results *k, int64_t column)
{
  return isfinite(k->score[TT_METRIC_brier][column]);
}

tt_target tt_target_of(const tt_results *k, int64_t first)
{
  tt_target t = {.first = first, .determination = NAN};
  int64_t c = first;
  for (; c < k->columns && !strcmp(k->target[c], k->target[first]); c++)
    if (strcmp(k->ensemble[c], k->ensemble[first]) != 0) break;
  t.count = c - first;
  while (t.member < k->members && strcmp(k->owner[t.member], k->ensemble[first]) != 0) t.member++;
  t.end_member = tt_results_ensemble_end(k, t.member);
  snprintf(t.title, sizeof t.title, "%s: %s", k->ensemble[first], k->target[first]);
  int64_t column = tt_target_is_class(k, first) ? first : first + t.count / 2;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t cell = r * k->columns + column;
    t.rows += isfinite(k->test.y[cell]) && isfinite(k->test.mean[cell]);
  }
  if (!tt_target_is_class(k, first)) t.determination = determination(k, column, t.rows);
  return t;
}
