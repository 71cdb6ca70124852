/* normalization.c — see normalization.h. */
#include "src/predict/normalization.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

tt_err tt_normalize_check_columns_local(const tt_trained_ensemble *c, const char *file,
                                        const tt_data_shape *shape)
{
  if (shape->inputs != c->model.inputs)
    return TT_FAIL(DATA, "%s has %" PRId64 " input columns; the model was trained on %" PRId64,
                   file, shape->inputs, c->model.inputs);
  for (int64_t i = 0; i < shape->inputs; i++) {
    const char *here = shape->input.name[i], *there = c->input.name[i];
    if (here[0] && there[0] && strcmp(here, there) != 0)
      return TT_FAIL(DATA,
                     "%s: input column %" PRId64
                     " is '%s'; the model was trained on '%s' there: put "
                     "the columns in the order of `tutti info`",
                     file, i, here, there);
  }
  return TT_OK;
}

tt_err tt_normalize_checked_local(const tt_trained_ensemble *c, const char *file,
                                  const char *dataset, int64_t first, int64_t rows,
                                  const double *raw, float *x)
{
  int64_t columns = c->model.inputs;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i++) {
      double v = raw[r * columns + i];
      if (!isfinite(v))
        return TT_FAIL(DATA,
                       "%s: dataset %s, row %" PRId64 ", column %" PRId64
                       " (%s) is %g; inputs must be finite",
                       file, dataset, first + r, i, c->input.name[i], v);
    }
  tt_scaler_normalize_inputs(&c->scaler, rows, raw, x);
  return TT_OK;
}
