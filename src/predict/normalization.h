/* normalization.h — normalised inputs of a model from the rows of a file. All local. */
#ifndef TT_NORMALIZATION_H
#define TT_NORMALIZATION_H
#include "core/model/trained_ensemble.h"
#include "io/data/data.h"

/* Check that all inputs are finite, or missing where the model fills them, and that their
 * transforms accept them. The parameters and errors are those of the next function. */
tt_err tt_check_inputs_local(const tt_trained_ensemble *c, const char *file, const char *dataset,
                             int64_t first, int64_t rows, const double *raw);

/* x = (f(raw) - mean) / scale in double, rounded to float.
 *   raw, x  [rows][D]
 *   first   number of the first row, for the message
 * Errors: DATA (a value that is not finite, or that its logarithm does not accept; the message
 * names dataset, row, column). */
tt_err tt_normalize_checked_local(const tt_trained_ensemble *c, const char *file,
                                  const char *dataset, int64_t first, int64_t rows,
                                  const double *raw, float *x);
#endif
