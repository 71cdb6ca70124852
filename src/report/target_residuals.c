/* target_residuals.c — see target_charts_internal.h: errors of the test rows of a target. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "src/report/target_charts_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS_OF_GROUP = 12 }; /* at least, of the spread */

static void say_residual(const void *data, int64_t i, char *text, size_t size)
{
  const tt_target_charts *t = data;
  snprintf(text, size, "row %.0f: measured %.4g, predicted %.4g, residual %.3g", t->row[i],
           t->measured[i], t->predicted[i], t->measured[i] - t->predicted[i]);
}

void tt_target_add_residuals(tt_target_charts *t, double **scratch)
{
  double *residual = tt_target_take(scratch, t->k->rows), *line = tt_target_take(scratch, 4);
  tt_chart *c = &t->chart[TT_TARGET_RESIDUALS];
  double least = INFINITY, most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < t->rows; i++) {
    residual[i] = t->measured[i] - t->predicted[i];
    least = fmin(least, t->predicted[i]);
    most = fmax(most, t->predicted[i]);
    sum += residual[i];
  }
  line[0] = least;
  line[1] = most;
  tt_target_add_series(
      t, TT_TARGET_RESIDUALS,
      (tt_chart_series){.points = t->rows,
                        .x = t->predicted,
                        .y = residual,
                        .mark = t->rows > TT_TARGET_POINTS ? TT_CHART_DENSITY : TT_CHART_POINTS,
                        .hover = say_residual,
                        .of = t});
  tt_target_add_series(t, TT_TARGET_RESIDUALS,
                       (tt_chart_series){.points = 2,
                                         .x = line,
                                         .y = line + 2,
                                         .mark = TT_CHART_LINE,
                                         .style = TT_CHART_REFERENCE});
  snprintf(t->note[TT_TARGET_RESIDUALS], TT_TARGET_TEXT, "mean %.3g", sum / (double)t->rows);
  tt_target_name_units("measured - predicted", t, t->residual_label);
  c->title = "Residuals";
  c->x_label = t->y_label;
  c->y_label = t->residual_label;
}

/* A test row in the order of its predicted standard deviation. */
typedef struct spread_row {
  double std, error;
} spread_row;

static void say_group(const void *data, int64_t i, char *text, size_t size)
{
  const tt_chart_series *s = data;
  snprintf(text, size, "predicted standard deviation %.3g: error %.3g (%.3g to %.3g)", s->x[i],
           s->y[i], s->low[i], s->high[i]);
}

/* Root mean squares of groups of the same size; bars: 95 % range of the error, from the standard
 * deviation 1 / sqrt(2 n) of the logarithm of the root mean square of n normal numbers. */
static int64_t group_rows(const spread_row *row, int64_t rows, double *const dst[4])
{
  int64_t groups = rows / ROWS_OF_GROUP;
  groups = groups > TT_TARGET_BINS ? TT_TARGET_BINS : groups == 0 && rows > 2 ? 1 : groups;
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

static int64_t collect_spread(const tt_target_charts *t, spread_row *row)
{
  const tt_results *k = t->k;
  int64_t n = 0;
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t cell = r * k->columns + t->first;
    double error = k->test.y[cell] - k->test.mean[cell], std = k->test.total[cell];
    if (isfinite(error) && isfinite(std) && std > 0) row[n++] = (spread_row){std, error};
  }
  qsort(row, (size_t)n, sizeof *row, tt_compare_f64);
  return n;
}

tt_err tt_target_add_spread(tt_target_charts *t, double **scratch)
{
  double *const dst[] = {
      tt_target_take(scratch, TT_TARGET_BINS), tt_target_take(scratch, TT_TARGET_BINS),
      tt_target_take(scratch, TT_TARGET_BINS), tt_target_take(scratch, TT_TARGET_BINS)};
  spread_row *row = NULL;
  tt_chart *c = &t->chart[TT_TARGET_SPREAD];
  double most = 0, least = INFINITY;
  if (t->count > 1) return TT_OK;
  TT_TRY(TT_ALLOC(row, t->k->rows));
  int64_t rows = collect_spread(t, row), n = group_rows(row, rows, dst);
  tt_free(row);
  if (n == 0) return TT_OK;
  for (int64_t i = 0; i < n; i++) {
    most = fmax(most, fmax(dst[0][i], dst[3][i]));
    least = fmin(least, fmin(dst[0][i], dst[2][i]));
  }
  tt_target_add_series(t, TT_TARGET_SPREAD,
                       (tt_chart_series){.points = n,
                                         .name = "rows, 95 % range",
                                         .x = dst[0],
                                         .y = dst[1],
                                         .low = dst[2],
                                         .high = dst[3],
                                         .mark = TT_CHART_POINTS,
                                         .hover = say_group,
                                         .of = &t->series[TT_TARGET_SPREAD][0]});
  tt_target_add_diagonal(t, TT_TARGET_SPREAD, least, most, scratch);
  snprintf(t->note[TT_TARGET_SPREAD], TT_TARGET_TEXT, "groups of about %" PRId64 " rows", rows / n);
  tt_target_name_units("predicted std of", t, t->spread_label);
  tt_target_name_units("rms error of", t, t->error_label);
  c->title = "Spread and error";
  c->x_label = t->spread_label;
  c->y_label = t->error_label;
  return TT_OK;
}
