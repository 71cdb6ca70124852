/* label_variance.c — data.sigma: the known error bars of the labels; see data_internal.h. */
#include "io/data/data_internal.h"

#include <inttypes.h>
#include <math.h>

int tt_data_has_sigma(const tt_config *cfg) { return cfg->data_sigma && *cfg->data_sigma; }

tt_err tt_data_open_sigma_local(const tt_config *cfg, tt_source *s, int64_t rows, int64_t targets,
                                tt_source_matrix *out)
{
  int by_column = 0;
  if (!tt_data_has_sigma(cfg)) return TT_OK;
  TT_TRY(tt_source_is_by_column_local(s, cfg->data_sigma, &by_column));
  const tt_source_role role = {"sigma", TT_CELL_LABEL, NULL, by_column};
  TT_TRY(tt_source_matrix_open_local(s, &role, cfg->data_sigma, out));
  if (out->rows == rows && (out->columns == 1 || out->columns == targets)) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: '%s' (data.sigma) is %" PRId64 " x %" PRId64 "; it must have one value, or "
                 "one for each of the %" PRId64 " targets, in each of the %" PRId64 " rows",
                 tt_source_file_name(s), cfg->data_sigma, out->rows, out->columns, targets, rows);
}

static tt_err bad_sigma(const tt_source *s, const tt_source_matrix *m, int64_t row, int64_t column,
                        double value)
{
  char place[TT_ERR_MESSAGE_SIZE / 2];
  tt_source_place_local(s, m, row, m->columns > 1 ? column : 0, NULL, place, sizeof place);
  return TT_FAIL(DATA,
                 "%s: %g; data.sigma must be a finite number and not negative where there is a "
                 "label",
                 place, value);
}

tt_err tt_data_read_sigma_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                int64_t count, int64_t targets, const double *y, double *sigma)
{
  if (!m->path) return TT_OK;
  TT_TRY(tt_source_matrix_read_local(s, m, first, count, sigma));
  for (int64_t r = count - 1; m->columns == 1 && r >= 0; r--)
    for (int64_t k = targets - 1; k >= 0; k--) sigma[r * targets + k] = sigma[r];
  for (int64_t i = 0; i < count * targets; i++)
    if (!isnan(y[i]) && !(sigma[i] >= 0.0 && sigma[i] < INFINITY))
      return bad_sigma(s, m, first + i / targets, i % targets, sigma[i]);
  return TT_OK;
}
