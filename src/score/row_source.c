/* row_source.c — see row_source.h. */
#include "src/score/row_source.h"

#include "core/base/mem.h"

#include <string.h>

tt_err tt_split_rows_list(const tt_dataset *d, tt_split which, tt_split_rows *out)
{
  *out = (tt_split_rows){.d = d};
  TT_TRY(TT_ALLOC(out->row, d->rows));
  for (int64_t r = 0; r < d->rows; r++)
    if (d->split[r] == (int8_t)which) out->row[out->count++] = r;
  return TT_OK;
}

tt_err tt_split_rows_read_local(void *src, int64_t first, int64_t count, float *x, double *y,
                                double *weight)
{
  const tt_split_rows *s = src;
  const tt_dataset *d = s->d;
  for (int64_t i = 0; i < count; i++) {
    int64_t r = s->row[first + i];
    memcpy(x + i * d->inputs, d->x + r * d->inputs, (size_t)d->inputs * sizeof *x);
    weight[i] = d->weight ? (double)d->weight[r] : 1.0;
    for (int64_t t = 0; t < d->targets; t++)
      y[i * d->targets + t] =
          tt_scaler_denormalize_target(&d->scaler, t, (double)d->y[r * d->targets + t]);
  }
  return TT_OK;
}

static void read_variance(void *src, int64_t first, int64_t count, double *variance)
{
  const tt_split_rows *s = src;
  int64_t targets = s->d->targets;
  for (int64_t i = 0; i < count * targets; i++)
    variance[i] = (double)s->d->label_variance[s->row[first + i / targets] * targets + i % targets];
}

tt_read_variance *tt_split_rows_variance(const tt_split_rows *s)
{
  return s->d->label_variance ? read_variance : NULL;
}
