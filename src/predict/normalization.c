/* normalization.c — see normalization.h. */
#include "src/predict/normalization.h"

#include <inttypes.h>
#include <math.h>

/* Levels that are not those of the training rows. */
static tt_err check_level(const tt_trained_ensemble *c, const char *file, const char *dataset,
                          int64_t row, int64_t column, double v)
{
  const tt_net_inputs *net = &c->scaler.net;
  char levels[512];
  if (net->categories[column] == TT_CATEGORIES_zeros || tt_net_inputs_has_level(net, column, v))
    return TT_OK;
  return TT_FAIL(DATA,
                 "%s: dataset %s, row %" PRId64 ", column %" PRId64
                 " (%s) is %g, which is no level of the training rows (%s); train with "
                 "data.categories: zeros to accept other levels",
                 file, dataset, row, column, c->input.name[column], v,
                 tt_net_inputs_list_levels(net, column, levels, sizeof levels));
}

tt_err tt_check_inputs_local(const tt_trained_ensemble *c, const char *file, const char *dataset,
                             int64_t first, int64_t rows, const double *raw)
{
  int64_t columns = c->scaler.inputs;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i++) {
      double v = raw[r * columns + i];
      if (isnan(v) && tt_scaler_may_miss(&c->scaler, i)) continue;
      if (!isfinite(v))
        return TT_FAIL(DATA,
                       "%s: dataset %s, row %" PRId64 ", column %" PRId64
                       " (%s) is %g; inputs must be finite",
                       file, dataset, first + r, i, c->input.name[i], v);
      if (tt_net_inputs_is_category(&c->scaler.net, i)) {
        TT_TRY(check_level(c, file, dataset, first + r, i, v));
        continue;
      }
      tt_normalize normalize = (tt_normalize)c->scaler.x_normalize[i];
      if (!tt_transform_accepts(tt_normalize_transform(normalize), v))
        return TT_FAIL(DATA,
                       "%s: dataset %s, row %" PRId64 ", column %" PRId64
                       " (%s) is %g; the model normalizes it by %s, which needs a value %s",
                       file, dataset, first + r, i, c->input.name[i], v,
                       tt_choice_normalize[normalize],
                       tt_transform_wants(tt_normalize_transform(normalize)));
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
