/* target_charts.c — see run_page_internal.h: the charts of one target. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256, BINS = 10 };
static const double normal_95 = 1.959964; /* standard deviations of a central 95 % interval */

/* "measured load (kW)" */
static void name_units(const char *what, const tt_run_page *p, const tt_target *t, char text[TEXT])
{
  const char *units = p->k->units[t->first];
  int known = *units && strcmp(units, "1") != 0;
  snprintf(text, TEXT, "%s %s%s%s%s", what, p->k->target[t->first], known ? " (" : "",
           known ? units : "", known ? ")" : "");
}

/* A point with an error bar. */
typedef struct marks {
  int64_t n;
  double *x, *y, *low, *high; /* [n]; x owns the memory of all */
} marks;

static tt_err marks_create(int64_t n, marks *m)
{
  TT_TRY(TT_ALLOC(m->x, 4 * n));
  *m = (marks){n, m->x, m->x + n, m->x + 2 * n, m->x + 3 * n};
  return TT_OK;
}

/* Points that should be on the line from (low, low) to (high, high). */
static void put_ideal(const tt_run_page *p, const marks *m, double low, double high,
                      const char *legend, tt_chart c)
{
  const double end[] = {low, high};
  const tt_chart_series s[] = {
      {legend, m->n, m->x, m->y, m->low, m->high, TT_CHART_POINTS, 0},
      {"ideal", 2, end, end, NULL, NULL, TT_CHART_LINE, TT_CHART_REFERENCE}};
  c.count = 2;
  c.series = s;
  tt_page_chart(p->f, &c);
}

/* Numbers: predicted against measured values, with 95 % intervals or the outer quantiles. */
static tt_err put_parity(const tt_run_page *p, const tt_target *t)
{
  const tt_results *k = p->k;
  char note[TEXT], x_label[TEXT], y_label[TEXT];
  double least = INFINITY, most = -INFINITY;
  marks m;
  TT_TRY(marks_create(k->rows, &m));
  m.n = 0;
  for (int64_t r = 0; r < k->rows; r++) {
    const double *mean = k->test.mean + r * k->columns;
    int64_t cell = r * k->columns + t->column, n = m.n;
    if (!isfinite(k->test.y[cell]) || !isfinite(mean[t->column])) continue;
    double half = normal_95 * k->test.total[cell];
    m.x[n] = k->test.y[cell];
    m.y[n] = mean[t->column];
    m.low[n] = t->count > 1 ? mean[t->first] : m.y[n] - half;
    m.high[n] = t->count > 1 ? mean[t->first + t->count - 1] : m.y[n] + half;
    least = fmin(least, fmin(m.x[n], m.low[n]));
    most = fmax(most, fmax(m.x[n], m.high[n]));
    m.n++;
  }
  snprintf(note, sizeof note, "R^2 %.4f, rmse %.3g%s%.64s, %" PRId64 " test rows", t->determination,
           k->rmse[t->column], *k->units[t->first] ? " " : "", k->units[t->first], t->rows);
  name_units("measured", p, t, x_label);
  name_units("predicted", p, t, y_label);
  put_ideal(p, &m, least, most, t->count > 1 ? "median, quantiles" : "mean, 95 % range",
            (tt_chart){"Predicted and measured", note, x_label, y_label, .is_square = 1});
  tt_free(m.x);
  return TT_OK;
}

/* Point i: a percentage of n rows with its 95 % range. */
static void set_mark(marks *m, int64_t i, double x, double percent, double n)
{
  double bar = normal_95 * sqrt(percent * (100 - percent) / n);
  m->x[i] = x;
  m->y[i] = percent;
  m->low[i] = fmax(percent - bar, 0);
  m->high[i] = fmin(percent + bar, 100);
}

/* Classes: predicted probability against frequency, in bins. */
static tt_err put_reliability(const tt_run_page *p, const tt_target *t)
{
  const tt_results *k = p->k;
  double x[BINS] = {0}, y[BINS] = {0}, n[BINS] = {0};
  char note[TEXT];
  marks m;
  TT_TRY(marks_create(BINS, &m));
  for (int64_t i = 0; i < k->rows * t->count; i++) {
    int64_t cell = i / t->count * k->columns + t->first + i % t->count;
    double probability = k->test.mean[cell], is_so = k->test.y[cell];
    if (!isfinite(probability) || !isfinite(is_so)) continue;
    int b = probability >= 1 ? BINS - 1 : probability > 0 ? (int)(probability * BINS) : 0;
    x[b] += 100 * probability;
    y[b] += 100 * is_so;
    n[b]++;
  }
  for (int b = 0; b < BINS; b++) set_mark(&m, b, x[b] / n[b], y[b] / n[b], n[b]);
  snprintf(note, sizeof note, "rmse of the probabilities %.3g, %" PRId64 " test rows",
           k->rmse[t->first], t->rows);
  put_ideal(p, &m, 0, 100, "frequency, 95 %",
            (tt_chart){"Reliability", note, "predicted probability (%)",
                       "frequency in the test rows (%)", .is_square = 1});
  tt_free(m.x);
  return TT_OK;
}

static tt_err put_calibration(const tt_run_page *p, const tt_target *t)
{
  const tt_results *k = p->k;
  char note[TEXT];
  marks m;
  TT_TRY(marks_create(k->levels, &m));
  for (int64_t i = 0; i < k->levels; i++)
    set_mark(&m, i, 100 * k->level[i], 100 * k->calibration[i * k->columns + t->column],
             (double)t->rows);
  snprintf(note, sizeof note, "%" PRId64 " test rows", t->rows);
  put_ideal(p, &m, 0, 100, "rows inside, 95 %",
            (tt_chart){"Calibration", note, "central interval (%)", "test rows inside (%)",
                       .is_square = 1});
  tt_free(m.x);
  return TT_OK;
}

/* Learning curves */

enum { LOSSES = 2, QUANTILES = 3 }; /* training, validation; 0.1, 0.5, 0.9 */

/* Quantiles of the finite losses of the members of a target in an epoch. */
static void set_quantiles(const tt_run_page *p, const tt_target *t, const float *loss,
                          int64_t epoch, double *scratch, double *dst)
{
  static const double probability[QUANTILES] = {0.1, 0.5, 0.9};
  int64_t n = 0, epochs = p->k->epochs;
  for (int64_t m = t->member; m < t->end_member; m++)
    if (isfinite(loss[m * epochs + epoch])) scratch[n++] = (double)loss[m * epochs + epoch];
  qsort(scratch, (size_t)n, sizeof *scratch, tt_compare_f64);
  for (int i = 0; i < QUANTILES; i++)
    dst[i * epochs + epoch] = tt_sorted_quantile(n, scratch, probability[i]);
}

static tt_err put_history(const tt_run_page *p, const tt_target *t)
{
  static const char *const name[LOSSES] = {"training", "validation"};
  const float *loss[LOSSES] = {p->k->loss_train, p->k->loss_validation};
  int64_t epochs = p->k->epochs, members = t->end_member - t->member;
  double *epoch = NULL;
  tt_chart_series s[2 * LOSSES];
  char note[TEXT];
  TT_TRY(TT_ALLOC(epoch, (1 + LOSSES * QUANTILES) * epochs + members));
  double *scratch = epoch + (1 + LOSSES * QUANTILES) * epochs;
  for (int64_t e = 0; e < epochs; e++) epoch[e] = (double)(e + 1);
  for (int i = 0; i < LOSSES; i++) {
    double *q = epoch + (1 + i * QUANTILES) * epochs;
    for (int64_t e = 0; e < epochs; e++) set_quantiles(p, t, loss[i], e, scratch, q);
    s[i] = (tt_chart_series){name[i], epochs, epoch, q + epochs, NULL, NULL, TT_CHART_LINE, i};
    s[LOSSES + i] =
        (tt_chart_series){NULL, epochs, epoch, NULL, q, q + 2 * epochs, TT_CHART_BAND, i};
  }
  snprintf(note, sizeof note, "median, 10-90 %% of up to %" PRId64 " member%s", members,
           tt_plural(members));
  tt_page_chart(p->f, &(tt_chart){"Learning curves", note, "epoch", "loss", 2 * LOSSES, s,
                                  .least_x_step = 1});
  tt_free(epoch);
  return TT_OK;
}

tt_err tt_target_put_charts(const tt_run_page *p, const tt_target *t, int is_sure)
{
  int is_first = t == p->t || t[-1].member != t->member;
  if (p->k->rows > 0)
    TT_TRY(tt_target_is_class(p->k, t->first) ? put_reliability(p, t) : put_parity(p, t));
  if (p->k->rows > 0 && is_sure) TT_TRY(put_calibration(p, t));
  return is_first ? put_history(p, t) : TT_OK;
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
  t.column = tt_target_is_class(k, first) ? first : first + t.count / 2;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t cell = r * k->columns + t.column;
    t.rows += isfinite(k->test.y[cell]) && isfinite(k->test.mean[cell]);
  }
  if (!tt_target_is_class(k, first)) t.determination = determination(k, t.column, t.rows);
  return t;
}
