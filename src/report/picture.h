/* picture.h — results.h5 as one picture. Floor 5; local. */
#ifndef TT_REPORT_PICTURE_H
#define TT_REPORT_PICTURE_H
#include "io/results/results.h"

/* Write an SVG with a row of charts for each target of each ensemble, the first 24 of them:
 *   predicted against measured values of the test rows with their 95 % intervals, or the density of
 *   many rows; of classes, how often they occur against the predicted probability
 *   learning curves: median and the quantiles 0.1 and 0.9 over the members, and how many train
 *   calibration: the share of test rows inside central intervals, of outputs that have intervals
 * Without test rows: the learning curves alone. Errors: CANTCREAT, IO, MEM. */
tt_err tt_report_picture_local(const tt_results *k, const char *file);
#endif
