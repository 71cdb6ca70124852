/* target_charts.c — see target_charts.h. */
#include "src/report/target_charts_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BINS = TT_TARGET_BINS };           /* intervals of the predicted probability */
static const double normal_95 = 1.959964; /* standard deviations of a central 95 % interval */

int64_t tt_target_end(const tt_results *k, int64_t first)
{
  int64_t end = first;
  while (end < k->columns && !strcmp(k->target[end], k->target[first]) &&
         !strcmp(k->ensemble[end], k->ensemble[first]))
    end++;
  return end;
}

int tt_target_is_class(const tt_results *k, int64_t column) { return isfinite(k->brier[column]); }

/* Predicted against measured */

static double determination(const double *y, const double *mean, int64_t n)
{
  double sum = 0, residual = 0, total = 0;
  for (int64_t i = 0; i < n; i++) sum += y[i];
  for (int64_t i = 0; i < n; i++) {
    residual += (y[i] - mean[i]) * (y[i] - mean[i]);
    total += (y[i] - sum / (double)n) * (y[i] - sum / (double)n);
  }
  return 1 - residual / total;
}

static void describe_errors(tt_target_charts *t, double determined)
{
  char r2[32] = "", rmse[TT_TARGET_TEXT / 2] = "";
  double error = t->k->rmse[t->first + t->count / 2];
  const char *units = t->k->units[t->first];
  if (isfinite(determined)) snprintf(r2, sizeof r2, "R^2 %.4f, ", determined);
  if (isfinite(error))
    snprintf(rmse, sizeof rmse, "rmse %.3g%s%.64s, ", error, *units ? " " : "", units);
  snprintf(t->note[TT_TARGET_PREDICTED], TT_TARGET_TEXT, "%s%s%" PRId64 " test rows", r2, rmse,
           t->rows);
}

static void say_row(const void *data, int64_t i, char *text, size_t size)
{
  const tt_target_charts *t = data;
  snprintf(text, size, "row %.0f: measured %.4g, predicted %.4g (%.4g to %.4g)", t->row[i],
           t->measured[i], t->predicted[i], t->low[i], t->high[i]);
}

/* Keep the rows with a label and a prediction, of the middle column of the target. Ends of the
 * interval: 95 %, or the outer quantiles. */
static void collect_rows(tt_target_charts *t, double **scratch)
{
  const tt_results *k = t->k;
  const tt_test_predictions *p = &k->test;
  double **const dst[] = {&t->row, &t->measured, &t->predicted, &t->low, &t->high};
  for (int i = 0; i < 5; i++) *dst[i] = tt_target_take(scratch, k->rows);
  int64_t last = t->first + t->count - 1;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t row = r * k->columns, cell = row + t->first + t->count / 2, n = t->rows;
    if (!isfinite(p->y[cell]) || !isfinite(p->mean[cell])) continue;
    t->row[n] = (double)p->row[r];
    t->measured[n] = p->y[cell];
    t->predicted[n] = p->mean[cell];
    double half = normal_95 * p->total[cell];
    t->low[n] = t->count > 1 ? p->mean[row + t->first] : p->mean[cell] - half;
    t->high[n] = t->count > 1 ? p->mean[row + last] : p->mean[cell] + half;
    t->rows++;
  }
}

static void add_parity(tt_target_charts *t, double **scratch)
{
  double least = INFINITY, most = -INFINITY;
  int dense = t->rows > TT_TARGET_POINTS;
  for (int64_t i = 0; i < t->rows; i++) {
    least = fmin(least, fmin(t->measured[i], fmin(t->predicted[i], t->low[i])));
    most = fmax(most, fmax(t->measured[i], fmax(t->predicted[i], t->high[i])));
  }
  tt_target_add_series(t, TT_TARGET_PREDICTED,
                       (tt_chart_series){.name = dense          ? "test rows"
                                                 : t->count > 1 ? "median, quantiles"
                                                                : "mean, 95 % range",
                                         .points = t->rows,
                                         .x = t->measured,
                                         .y = t->predicted,
                                         .low = dense ? NULL : t->low,
                                         .high = dense ? NULL : t->high,
                                         .mark = dense ? TT_CHART_DENSITY : TT_CHART_POINTS,
                                         .hover = say_row,
                                         .of = t});
  tt_target_add_diagonal(t, TT_TARGET_PREDICTED, least, most, scratch);
  t->determination = determination(t->measured, t->predicted, t->rows);
  describe_errors(t, t->determination);
  tt_target_name_units("measured", t, t->x_label);
  tt_target_name_units("predicted", t, t->y_label);
}

/* Classes: predicted probability against frequency */

static void say_frequency(const void *data, int64_t i, char *text, size_t size)
{
  const tt_chart_series *s = data;
  snprintf(text, size, "predicted %.3g %%, true in %.3g %% of the rows", s->x[i], s->y[i]);
}

static void add_reliability(tt_target_charts *t, double **scratch)
{
  const tt_results *k = t->k;
  double *x = tt_target_take(scratch, BINS), *y = tt_target_take(scratch, BINS),
         *low = tt_target_take(scratch, BINS);
  double *high = tt_target_take(scratch, BINS), n[BINS] = {0};
  for (int b = 0; b < BINS; b++) x[b] = y[b] = 0;
  for (int64_t i = 0; i < k->rows * t->count; i++) {
    int64_t cell = i / t->count * k->columns + t->first + i % t->count;
    double p = k->test.mean[cell], is_so = k->test.y[cell];
    if (!isfinite(p) || !isfinite(is_so)) continue;
    int b = p >= 1 ? BINS - 1 : p > 0 ? (int)(p * BINS) : 0;
    x[b] += 100 * p;
    y[b] += 100 * is_so;
    n[b]++;
    t->rows += t->first == cell % k->columns;
  }
  for (int b = 0; b < BINS; b++) {
    x[b] /= n[b];
    y[b] /= n[b];
    double bar = normal_95 * sqrt(y[b] * (100 - y[b]) / n[b]);
    low[b] = fmax(y[b] - bar, 0);
    high[b] = fmin(y[b] + bar, 100);
  }
  tt_target_add_series(t, TT_TARGET_PREDICTED,
                       (tt_chart_series){.name = "frequency, 95 %",
                                         .points = BINS,
                                         .x = x,
                                         .y = y,
                                         .low = low,
                                         .high = high,
                                         .mark = TT_CHART_POINTS,
                                         .hover = say_frequency,
                                         .of = &t->series[TT_TARGET_PREDICTED][0]});
  tt_target_add_diagonal(t, TT_TARGET_PREDICTED, 0, 100, scratch);
  snprintf(t->note[TT_TARGET_PREDICTED], TT_TARGET_TEXT,
           "rmse of the probabilities %.3g, %" PRId64 " test rows", k->rmse[t->first], t->rows);
  snprintf(t->x_label, TT_TARGET_TEXT, "predicted probability (%%)");
  snprintf(t->y_label, TT_TARGET_TEXT, "frequency in the test rows (%%)");
}

/* Learning curves and calibration */

/* Over how many members the medians are: those that train, from the first to the last epoch. */
static void describe_members(tt_target_charts *t, int64_t epochs)
{
  const double *members = t->history.members;
  int64_t first = epochs ? (int64_t)members[0] : 0,
          last = epochs ? (int64_t)members[epochs - 1] : 0;
  char range[48];
  snprintf(range, sizeof range, first == last ? "%" PRId64 : "%" PRId64 " to %" PRId64, first,
           last);
  snprintf(t->note[TT_TARGET_HISTORY], TT_TARGET_TEXT, "median, 10-90 %% of %s member%s", range,
           tt_plural(first));
}

static void say_epoch(const void *data, int64_t i, char *text, size_t size)
{
  const tt_target_charts *t = data;
  const tt_loss_history *h = &t->history;
  snprintf(text, size,
           "epoch %lld, %.0f training: training loss %.4g (%.4g to %.4g), validation %.4g "
           "(%.4g to %.4g)",
           (long long)i + 1, h->members[i], h->quantile[0][1][i], h->quantile[0][0][i],
           h->quantile[0][2][i], h->quantile[1][1][i], h->quantile[1][0][i], h->quantile[1][2][i]);
}

static void add_history(tt_target_charts *t, double **scratch)
{
  static const char *const name[TT_LOSS_KINDS] = {"training", "validation"};
  const tt_loss_history *h = &t->history;
  tt_chart *c = &t->chart[TT_TARGET_HISTORY];
  int64_t n = t->k->epochs;
  double *epoch = tt_target_take(scratch, n);
  while (n > 0 && h->members[n - 1] == 0) n--;
  for (int64_t i = 0; i < n; i++) epoch[i] = (double)(i + 1);
  tt_chart_series s = {.points = n, .x = epoch, .of = t};
  for (s.style = 0; s.style < TT_LOSS_KINDS; s.style++) {
    s.name = name[s.style];
    s.y = h->quantile[s.style][1];
    s.mark = TT_CHART_LINE;
    s.hover = s.style == 0 ? say_epoch : NULL;
    tt_target_add_series(t, TT_TARGET_HISTORY, s);
  }
  s = (tt_chart_series){.points = n, .x = epoch, .mark = TT_CHART_BAND};
  for (s.style = 0; s.style < TT_LOSS_KINDS; s.style++) {
    s.low = h->quantile[s.style][0];
    s.high = h->quantile[s.style][2];
    tt_target_add_series(t, TT_TARGET_HISTORY, s);
  }
  tt_target_add_series(t, TT_TARGET_HISTORY,
                       (tt_chart_series){.name = "members training",
                                         .points = n,
                                         .x = epoch,
                                         .y = h->members,
                                         .mark = TT_CHART_COUNT,
                                         .style = TT_CHART_REFERENCE});
  describe_members(t, n);
  c->title = "Learning curves";
  c->x_label = "epoch";
  c->y_label = "loss";
  c->least_x_step = 1;
}

static void say_level(const void *data, int64_t i, char *text, size_t size)
{
  const tt_chart_series *s = data;
  snprintf(text, size, "%.0f %% interval: %.3g %% of the rows inside", s->x[i], s->y[i]);
}

/* Band: 95 % sampling range of a calibrated model with this number of test rows. */
static void add_calibration(tt_target_charts *t, double **scratch)
{
  const tt_results *k = t->k;
  tt_chart *c = &t->chart[TT_TARGET_INTERVALS];
  int64_t n = k->levels;
  double *x = tt_target_take(scratch, n), *y = tt_target_take(scratch, n);
  double *low = tt_target_take(scratch, n), *high = tt_target_take(scratch, n);
  for (int64_t i = 0; i < n; i++) {
    x[i] = 100 * k->level[i];
    y[i] = 100 * k->calibration[i * k->columns + t->first + t->count / 2];
    double bar = normal_95 * sqrt(x[i] * (100 - x[i]) / fmax((double)t->rows, 1));
    low[i] = fmax(x[i] - bar, 0);
    high[i] = fmin(x[i] + bar, 100);
  }
  tt_target_add_series(t, TT_TARGET_INTERVALS,
                       (tt_chart_series){.name = "predictions",
                                         .points = n,
                                         .x = x,
                                         .y = y,
                                         .mark = TT_CHART_LINE,
                                         .hover = say_level,
                                         .of = &t->series[TT_TARGET_INTERVALS][0]});
  tt_target_add_diagonal(t, TT_TARGET_INTERVALS, 0, 100, scratch);
  tt_target_add_series(t, TT_TARGET_INTERVALS,
                       (tt_chart_series){.points = n,
                                         .x = x,
                                         .low = low,
                                         .high = high,
                                         .mark = TT_CHART_BAND,
                                         .style = TT_CHART_REFERENCE});
  snprintf(t->note[TT_TARGET_INTERVALS], TT_TARGET_TEXT,
           "gray: 95 %% sampling range of %" PRId64 " rows", t->rows);
  c->title = "Calibration";
  c->x_label = "central interval (%)";
  c->y_label = "test rows inside (%)";
}

/* The losses of an ensemble are sorted once for all of its targets. */
static tt_err find_history(tt_target_charts *t, const tt_target_charts *before)
{
  const tt_results *k = t->k;
  int64_t member = 0;
  t->shares_history = before && !strcmp(k->ensemble[before->first], k->ensemble[t->first]);
  if (t->shares_history) {
    t->history = before->history;
    return TT_OK;
  }
  while (member < k->members && strcmp(k->owner[member], k->ensemble[t->first]) != 0) member++;
  return tt_loss_history_create(k, member, &t->history);
}

tt_err tt_target_charts_create(const tt_results *k, int64_t first, const tt_target_charts *before,
                               tt_target_charts *t)
{
  *t = (tt_target_charts){
      .k = k, .first = first, .count = tt_target_end(k, first) - first, .determination = NAN};
  tt_err e = find_history(t, before);
  if (!e)
    e = TT_ALLOC(t->scratch,
                 6 * k->rows + k->epochs + 4 * k->levels + 10 * BINS + 2 * TT_TARGET_CHARTS);
  if (e) {
    tt_target_charts_free(t);
    return e;
  }
  double *scratch = t->scratch;
  tt_chart *c = t->chart;
  snprintf(t->title, TT_TARGET_TEXT, "%s: %s", k->ensemble[first], k->target[first]);
  for (int i = 0; i < TT_TARGET_CHARTS; i++) {
    c[i].note = t->note[i];
    c[i].is_square = i == TT_TARGET_PREDICTED || i == TT_TARGET_INTERVALS || i == TT_TARGET_SPREAD;
  }
  int is_class = tt_target_is_class(k, first);
  if (is_class)
    add_reliability(t, &scratch);
  else {
    collect_rows(t, &scratch);
    add_parity(t, &scratch);
    tt_target_add_residuals(t, &scratch);
    e = tt_target_add_spread(t, &scratch);
  }
  c[TT_TARGET_PREDICTED].title = t->title;
  c[TT_TARGET_PREDICTED].x_label = t->x_label;
  c[TT_TARGET_PREDICTED].y_label = t->y_label;
  add_history(t, &scratch);
  add_calibration(t, &scratch);
  if (e) tt_target_charts_free(t);
  return e;
}

void tt_target_charts_free(tt_target_charts *t)
{
  if (!t->shares_history) tt_loss_history_free(&t->history);
  tt_free(t->scratch);
}
