/* report.h — results.h5 as a picture and as tables of text. Floor 5. */
#ifndef TT_REPORT_H
#define TT_REPORT_H
#include "core/base/err.h"

/* Write into `directory`, which is made if it is not there. Columns of the tables are separated by
 * tabs, the first line names them, NaN stands for nothing.
 *   predictions.tsv  row, then for each predicted column true, mean, std, std_aleatoric and
 *                    std_epistemic; only if the job had test rows
 *   history.tsv      epoch, then for each ensemble the number of members still training and the
 *                    quantiles 0.1, 0.5, 0.9 over them of training and validation loss
 *   report.svg       for each target a row of charts (picture.h)
 * Local. Errors: NOINPUT, DATA (not a results file), CANTCREAT, IO, MEM. */
tt_err tt_report_local(const char *results, const char *directory);
#endif
