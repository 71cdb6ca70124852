/* picture.c — see picture.h. */
#include "src/report/picture.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/report/chart.h"
#include "src/report/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  MAX_TARGETS = 24,
  MAX_POINTS = 500, /* with more rows the chart is a density */
  BINS = 10,        /* intervals of the predicted probability */
  CHARTS = 3,       /* largest number for one target */
  SERIES = 5,       /* largest number in one chart */
  TEXT = 256
};
static const double normal_95 = 1.959964; /* standard deviations of a central 95 % interval */

/* Columns [first, first + count) of one target of one ensemble, and their charts. */
typedef struct target {
  const tt_results *k;
  int64_t first, count, rows; /* rows: test rows with a label */
  tt_loss_history history;
  double *room; /* values of all series */
  tt_chart chart[CHARTS];
  tt_chart_series series[CHARTS][SERIES];
  char title[TEXT], note[CHARTS][TEXT], x_label[TEXT], y_label[TEXT];
} target;

static int64_t target_end(const tt_results *k, int64_t first)
{
  int64_t end = first;
  while (end < k->columns && !strcmp(k->target[end], k->target[first]) &&
         !strcmp(k->ensemble[end], k->ensemble[first]))
    end++;
  return end;
}

static int is_class(const tt_results *k, int64_t column) { return isfinite(k->brier[column]); }

static tt_chart_series *add_series(target *t, int chart, tt_chart_series s)
{
  tt_chart *c = &t->chart[chart];
  c->series = t->series[chart];
  t->series[chart][c->count] = s;
  return &t->series[chart][c->count++];
}

static double *take(double **room, int64_t n)
{
  double *from = *room;
  *room += n;
  return from;
}

static void name_units(const char *what, const target *t, char text[TEXT])
{
  const char *units = t->k->units[t->first];
  int known = *units && strcmp(units, "1") != 0;
  snprintf(text, TEXT, "%s %s%s%s%s", what, t->k->target[t->first], known ? " (" : "",
           known ? units : "", known ? ")" : "");
}

/* A straight line from (low, low) to (high, high). */
static void add_diagonal(target *t, int chart, double low, double high, double **room)
{
  double *at = take(room, 2);
  at[0] = low;
  at[1] = high;
  add_series(t, chart,
             (tt_chart_series){"ideal", 2, at, at, NULL, NULL, TT_CHART_LINE, TT_CHART_REFERENCE});
}

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

static void describe_errors(target *t, double determined)
{
  char r2[32] = "", rmse[TEXT / 2] = "";
  double error = t->k->rmse[t->first + t->count / 2];
  const char *units = t->k->units[t->first];
  if (isfinite(determined)) snprintf(r2, sizeof r2, "R^2 %.4f, ", determined);
  if (isfinite(error))
    snprintf(rmse, sizeof rmse, "rmse %.3g%s%.64s, ", error, *units ? " " : "", units);
  snprintf(t->note[0], TEXT, "%s%s%" PRId64 " test rows", r2, rmse, t->rows);
}

/* Shows the middle column of the target. Bars: 95 % interval, or the outer quantiles. */
static void add_parity(target *t, double **room)
{
  const tt_results *k = t->k;
  const tt_test_predictions *p = &k->test;
  double *x = take(room, k->rows), *y = take(room, k->rows), least = INFINITY, most = -INFINITY;
  double *low = take(room, k->rows), *high = take(room, k->rows);
  int64_t n = 0, last = t->first + t->count - 1;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t row = r * k->columns, cell = row + t->first + t->count / 2;
    if (!isfinite(p->y[cell]) || !isfinite(p->mean[cell])) continue;
    x[n] = p->y[cell];
    y[n] = p->mean[cell];
    low[n] = t->count > 1 ? p->mean[row + t->first] : y[n] - normal_95 * p->total[cell];
    high[n] = t->count > 1 ? p->mean[row + last] : y[n] + normal_95 * p->total[cell];
    least = fmin(least, fmin(x[n], fmin(y[n], low[n])));
    most = fmax(most, fmax(x[n], fmax(y[n], high[n])));
    n++;
  }
  t->rows = n;
  const char *const bars = t->count > 1 ? "median, outer quantiles" : "mean, 95 % range";
  if (n > MAX_POINTS)
    add_series(t, 0, (tt_chart_series){"test rows", n, x, y, NULL, NULL, TT_CHART_DENSITY, 0});
  else
    add_series(t, 0, (tt_chart_series){bars, n, x, y, low, high, TT_CHART_POINTS, 0});
  add_diagonal(t, 0, least, most, room);
  describe_errors(t, determination(x, y, n));
  name_units("measured", t, t->x_label);
  name_units("predicted", t, t->y_label);
}

/* Classes: predicted probability against frequency */

static void add_reliability(target *t, double **room)
{
  const tt_results *k = t->k;
  double *x = take(room, BINS), *y = take(room, BINS), *low = take(room, BINS);
  double *high = take(room, BINS), n[BINS] = {0};
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
  add_series(t, 0, (tt_chart_series){"frequency, 95 %", BINS, x, y, low, high, TT_CHART_POINTS, 0});
  add_diagonal(t, 0, 0, 100, room);
  snprintf(t->note[0], TEXT, "rmse of the probabilities %.3g, %" PRId64 " test rows",
           k->rmse[t->first], t->rows);
  snprintf(t->x_label, TEXT, "predicted probability (%%)");
  snprintf(t->y_label, TEXT, "frequency in the test rows (%%)");
}

/* Learning curves and calibration */

/* Over how many members the medians are: those that train, from the first to the last epoch. */
static void describe_members(target *t, int64_t epochs)
{
  const double *members = t->history.members;
  int64_t first = epochs ? (int64_t)members[0] : 0,
          last = epochs ? (int64_t)members[epochs - 1] : 0;
  char range[48];
  snprintf(range, sizeof range, first == last ? "%" PRId64 : "%" PRId64 " to %" PRId64, first,
           last);
  snprintf(t->note[1], TEXT, "median, 10-90 %% of %s member%s", range, tt_plural(first));
}

static void add_history(target *t, double **room)
{
  static const char *const name[TT_LOSS_KINDS] = {"training", "validation"};
  const tt_loss_history *h = &t->history;
  int64_t n = t->k->epochs;
  double *epoch = take(room, n);
  while (n > 0 && h->members[n - 1] == 0) n--;
  for (int64_t i = 0; i < n; i++) epoch[i] = (double)(i + 1);
  for (int i = 0; i < TT_LOSS_KINDS; i++)
    add_series(
        t, 1,
        (tt_chart_series){name[i], n, epoch, h->quantile[i][1], NULL, NULL, TT_CHART_LINE, i});
  for (int i = 0; i < TT_LOSS_KINDS; i++)
    add_series(t, 1,
               (tt_chart_series){NULL, n, epoch, NULL, h->quantile[i][0], h->quantile[i][2],
                                 TT_CHART_BAND, i});
  add_series(t, 1,
             (tt_chart_series){"members training", n, epoch, h->members, NULL, NULL, TT_CHART_COUNT,
                               TT_CHART_REFERENCE});
  describe_members(t, n);
  t->chart[1].title = "Learning curves";
  t->chart[1].x_label = "epoch";
  t->chart[1].y_label = "loss";
  t->chart[1].least_x_step = 1;
}

/* Band: 95 % sampling range of a calibrated model with this number of test rows. */
static void add_calibration(target *t, double **room)
{
  const tt_results *k = t->k;
  int64_t n = k->levels;
  double *x = take(room, n), *y = take(room, n), *low = take(room, n), *high = take(room, n);
  for (int64_t i = 0; i < n; i++) {
    x[i] = 100 * k->level[i];
    y[i] = 100 * k->calibration[i * k->columns + t->first + t->count / 2];
    double bar = normal_95 * sqrt(x[i] * (100 - x[i]) / fmax((double)t->rows, 1));
    low[i] = fmax(x[i] - bar, 0);
    high[i] = fmin(x[i] + bar, 100);
  }
  add_series(t, 2, (tt_chart_series){"predictions", n, x, y, NULL, NULL, TT_CHART_LINE, 0});
  add_diagonal(t, 2, 0, 100, room);
  add_series(t, 2,
             (tt_chart_series){NULL, n, x, NULL, low, high, TT_CHART_BAND, TT_CHART_REFERENCE});
  snprintf(t->note[2], TEXT, "grey: 95 %% sampling range of %" PRId64 " rows", t->rows);
  t->chart[2].title = "Calibration";
  t->chart[2].x_label = "central interval (%)";
  t->chart[2].y_label = "test rows inside (%)";
}

static tt_err make_charts(const tt_results *k, int64_t first, target *t)
{
  *t = (target){.k = k, .first = first, .count = target_end(k, first) - first};
  int64_t member = 0;
  while (member < k->members && strcmp(k->owner[member], k->ensemble[first]) != 0) member++;
  TT_TRY(tt_loss_history_create(k, member, &t->history));
  TT_TRY(TT_ALLOC(t->room, 4 * k->rows + k->epochs + 4 * (k->levels + BINS) + 2 * CHARTS));
  double *room = t->room;
  snprintf(t->title, TEXT, "%s: %s", k->ensemble[first], k->target[first]);
  for (int i = 0; i < CHARTS; i++) {
    t->chart[i].note = t->note[i];
    t->chart[i].is_square = i != 1;
  }
  if (is_class(k, first))
    add_reliability(t, &room);
  else
    add_parity(t, &room);
  t->chart[0].title = t->title;
  t->chart[0].x_label = t->x_label;
  t->chart[0].y_label = t->y_label;
  add_history(t, &room);
  add_calibration(t, &room);
  return TT_OK;
}

/* Charts to draw for each target, set[0], set[1], ...; returns their number. */
static int choose_charts(const tt_results *k, int set[CHARTS])
{
  int n = 0, has_calibration = 0;
  for (int64_t i = 0; i < k->levels * k->columns; i++)
    has_calibration |= isfinite(k->calibration[i]);
  if (k->rows > 0) set[n++] = 0;
  set[n++] = 1;
  if (k->rows > 0 && has_calibration) set[n++] = 2;
  return n;
}

static tt_err write_picture(const tt_results *k, const char *file, int64_t targets, target *t,
                            tt_chart *chart)
{
  char title[2 * TEXT];
  int set[CHARTS], each = choose_charts(k, set);
  int64_t n = 0, first = 0, all = 0;
  for (int64_t c = 0; c < k->columns; c = target_end(k, c)) all++;
  for (int64_t i = 0; i < targets; i++, first = target_end(k, first)) {
    TT_TRY(make_charts(k, first, &t[i]));
    for (int j = 0; j < each; j++) chart[n++] = t[i].chart[set[j]];
    if (k->rows == 0) chart[n - 1].title = t[i].title;
  }
  snprintf(title, sizeof title, "%.*s", TEXT, k->title ? k->title : "Results");
  if (all > targets) {
    size_t used = strlen(title);
    snprintf(title + used, sizeof title - used, " (%" PRId64 " of %" PRId64 " targets)", targets,
             all);
  }
  return tt_charts_write_local(file, title, each, n, chart);
}

tt_err tt_report_picture_local(const tt_results *k, const char *file)
{
  int64_t targets = 0;
  target *t = NULL;
  tt_chart *chart = NULL;
  for (int64_t c = 0; c < k->columns && targets < MAX_TARGETS; c = target_end(k, c)) targets++;
  tt_err e = TT_ALLOC(t, targets);
  if (!e) e = TT_ALLOC(chart, targets * CHARTS);
  if (!e) e = write_picture(k, file, targets, t, chart);
  for (int64_t i = 0; t && i < targets; i++) {
    tt_loss_history_free(&t[i].history);
    tt_free(t[i].room);
  }
  tt_free(t);
  tt_free(chart);
  return e;
}
