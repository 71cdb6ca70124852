/* target_charts.h — the charts of one target of one ensemble. Local. */
#ifndef TT_TARGET_CHARTS_H
#define TT_TARGET_CHARTS_H
#include "io/results/results.h"
#include "src/report/chart.h"
#include "src/report/history.h"

typedef enum tt_target_chart {
  TT_TARGET_PREDICTED, /* predicted against measured; for classes frequency against probability */
  TT_TARGET_HISTORY,   /* learning curves: median and quantiles 0.1 and 0.9 over the members */
  TT_TARGET_INTERVALS, /* fraction of the test rows inside central intervals */
  TT_TARGET_RESIDUALS, /* measured - predicted, against predicted */
  TT_TARGET_SPREAD, /* error of rows of about the same predicted standard deviation, against it */
  TT_TARGET_CHARTS
} tt_target_chart;

enum {
  TT_TARGET_SERIES = 5, /* largest number in one chart */
  TT_TARGET_TEXT = 256,
  TT_TARGET_POINTS = 500 /* with more rows a chart is a density */
};

/* Columns [first, first + count) of the results, and their charts. A chart without data has
 * `chart[..].count` 0. */
typedef struct tt_target_charts {
  const tt_results *k; /* borrowed */
  int64_t first, count;
  int64_t rows; /* test rows with a label */
  tt_loss_history history;
  int shares_history; /* it belongs to another target of the ensemble */
  double *scratch;    /* values of all series */
  /* [rows] of numbers: number, label, prediction of each row; ends of its interval */
  double *row, *measured, *predicted, *low, *high;
  double determination; /* R2 of the middle column; NaN for classes */
  tt_chart chart[TT_TARGET_CHARTS];
  tt_chart_series series[TT_TARGET_CHARTS][TT_TARGET_SERIES];
  char title[TT_TARGET_TEXT], note[TT_TARGET_CHARTS][TT_TARGET_TEXT];
  char x_label[TT_TARGET_TEXT], y_label[TT_TARGET_TEXT], residual_label[TT_TARGET_TEXT];
  char spread_label[TT_TARGET_TEXT], error_label[TT_TARGET_TEXT];
} tt_target_charts;

/* The column after the last one of the target of column `first`. */
int64_t tt_target_end(const tt_results *k, int64_t first);
/* Whether the target of a column is a class. */
int tt_target_is_class(const tt_results *k, int64_t column);

/* Charts of the target whose first column is `first`. *out must not move.
 *   before  the target before it, whose history *out shares if it has the same ensemble, or NULL
 * Owner: the caller, tt_target_charts_free (accepts a zeroed struct). Errors: MEM. */
tt_err tt_target_charts_create(const tt_results *k, int64_t first, const tt_target_charts *before,
                               tt_target_charts *out);
void tt_target_charts_free(tt_target_charts *t);
#endif
