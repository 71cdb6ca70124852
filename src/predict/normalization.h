/* normalization.h — rows of a file as a model sees them. Floor 4; local. */
#ifndef TT_NORMALIZATION_H
#define TT_NORMALIZATION_H
#include "core/model/trained_ensemble.h"
#include "io/data/data.h"

/* The file must have as many input columns as the model, and their names, where both have some,
 * must be the same in the same order. Errors: DATA. */
tt_err tt_normalize_check_columns_local(const tt_trained_ensemble *c, const char *file,
                                        const tt_data_shape *shape);

/* x = (raw - mean) / scale for `rows` rows [rows][D], rounded to float after the arithmetic in
 * double. Errors: DATA (a value that is not finite: dataset, row, column).
 *   first  number of the first row, for the message */
tt_err tt_normalize_checked_local(const tt_trained_ensemble *c, const char *file,
                                  const char *dataset, int64_t first, int64_t rows,
                                  const double *raw, float *x);
#endif
