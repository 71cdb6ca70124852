/* picture.h — a picture of the results of a run, report.svg. Local. */
#ifndef TT_REPORT_PICTURE_H
#define TT_REPORT_PICTURE_H
#include "io/results/results.h"

/* Write an SVG file with one row of charts for each target of each ensemble, at most 24 rows:
 *   predicted against measured values of the test rows with 95 % intervals, as a density if there
 *   are more than 500 rows; for classes, frequency against predicted probability
 *   learning curves: median and quantiles 0.1 and 0.9 over the members, number of members training
 *   calibration: fraction of the test rows inside central intervals, for outputs with intervals
 * Without test rows: only the learning curves. Errors: CANTCREAT, IO, MEM. */
tt_err tt_report_picture_local(const tt_results *k, const char *file);
#endif
