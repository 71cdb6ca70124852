/* report.h — `tutti report`: the results of a run as a picture and as text tables. */
#ifndef TT_REPORT_H
#define TT_REPORT_H
#include "core/base/err.h"

/* Write into `directory`; creates it if needed. Columns of the tables are separated by tabs, the
 * first line has their names, NaN means no value.
 *   predictions.tsv  row, then for each predicted column true, mean, std, std_aleatoric and
 *                    std_epistemic; only if the job had test rows
 *   history.tsv      epoch, then for each ensemble the number of members still training and the
 *                    quantiles 0.1, 0.5, 0.9 over them of training and validation loss
 *   report.svg       one row of charts for each target (picture.h)
 *   force  1 = also replace files that tutti report did not write
 * Local. Errors: NOINPUT, DATA (not a results file), CANTCREAT, IO, MEM. */
tt_err tt_report_local(const char *results, const char *directory, int force);
#endif
