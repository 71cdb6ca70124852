/* normalization.c — see normalization.h. */
#include "src/predict/normalization.h"

#include <inttypes.h>
#include <math.h>

tt_err tt_check_inputs_local(const tt_trained_ensemble *c, const char *file, const char *dataset,
                             int64_t first, int64_t rows, const double *raw)
{
  int64_t columns = c->model.inputs;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i++) {
      double v = raw[r * columns + i];
      if (isnan(v) && !isnan(c->scaler.x_fill[i])) continue;
      if (!isfinite(v))
        return TT_FAIL(DATA,
                       "%s: dataset %s, row %" PRId64 ", column %" PRId64
                       " (%s) is %g; inputs must be finite",
                       file, dataset, first + r, i, c->input.name[i], v);
      tt_normalize by = (tt_normalize)c->scaler.x_normalize[i];
      if (!tt_transform_accepts(tt_normalize_transform(by), v))
        return TT_FAIL(DATA,
                       "%s: dataset %s, row %" PRId64 ", column %" PRId64
                       " (%s) is %g; the model normalizes it by %s, which needs a value %s",
                       file, dataset, first + r, i, c->input.name[i], v, tt_choice_normalize[by],
                       tt_transform_wants(tt_normalize_transform(by)));
    }
  return TT_OK;
}

tt_err tt_normalize_checked_local(const tt_trained_ensemble *c, const char *file,
                                  const char *dataset, int64_t first, int64_t rows,
                                  const double *raw, float *x)
{
  TT_TRY(tt_check_inputs_local(c, file, dataset, first, rows, raw));
  tt_scaler_normalize_inputs(&c->scaler, rows, raw, x);
  return TT_OK;
}
