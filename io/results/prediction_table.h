/* prediction_table.h — predictions as a CSV file. Local. */
#ifndef TT_PREDICTION_TABLE_H
#define TT_PREDICTION_TABLE_H
#include "core/base/err.h"

/* Write the file of `tutti predict` as a CSV file, complete or not at all: a row for each sample,
 * with its id or number; for each predicted column TARGET_mean and the standard deviations (of
 * classes TARGET=CLASS, the probability), then TARGET_q0.05, TARGET_lower0.9, ... where the file
 * has them, and the distance beyond the training rows. An empty cell: no value.
 *   id  name of the column of ids; NULL: row
 * Memory does not depend on the number of samples, but for ids that are texts. Errors: DATA, IO,
 * CANTCREAT, MEM. */
tt_err tt_prediction_table_write_local(const char *predictions, const char *table, const char *id);
#endif
