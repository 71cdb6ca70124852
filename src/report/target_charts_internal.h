/* target_charts_internal.h — for the files that make the charts of a target. Local. */
#ifndef TT_TARGET_CHARTS_INTERNAL_H
#define TT_TARGET_CHARTS_INTERNAL_H
#include "src/report/target_charts.h"

/* Append a series; take `n` values of t->scratch from *scratch; "measured
 * load (kW)". */
tt_chart_series *tt_target_add_series(tt_target_charts *t, tt_target_chart chart,
                                      tt_chart_series s);
double *tt_target_take(double **scratch, int64_t n);
void tt_target_name_units(const char *what, const tt_target_charts *t, char text[TT_TARGET_TEXT]);
void tt_target_add_diagonal(tt_target_charts *t, tt_target_chart chart, double low, double high,
                            double **scratch);

/* Residuals and spread of a target of numbers, after its prediction chart. */
enum { TT_TARGET_BINS = 10 };
void tt_target_add_residuals(tt_target_charts *t, double **scratch);
tt_err tt_target_add_spread(tt_target_charts *t, double **scratch);
#endif
