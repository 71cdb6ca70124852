/* normalization.h — normalized inputs of a model from the rows of a file. All local. */
#ifndef TT_NORMALIZATION_H
#define TT_NORMALIZATION_H
#include "core/model/trained_ensemble.h"
#include "io/data/data.h"

/* Check that all inputs are finite, or missing where the model allows it, and that their
 * transforms accept them or they are known levels. The parameters and errors are those of the next
 * function. */
tt_err tt_check_inputs_local(const tt_trained_ensemble *c, const char *file, const char *dataset,
                             int64_t first, int64_t rows, const double *raw);

/* x = (f(raw) - mean) / scale of amounts, and 0 or 1, in double, rounded to float.
 *   raw, x  [rows][D], [rows][F]
 *   first   number of the first row, for the message
 * Errors: DATA (a value that is not finite, that its logarithm does not accept, or that is no level
 * of its column; the message names dataset, row, column). */
tt_err tt_normalize_checked_local(const tt_trained_ensemble *c, const char *file,
                                  const char *dataset, int64_t first, int64_t rows,
                                  const double *raw, float *x);
#endif
