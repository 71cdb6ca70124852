/* fold_scales.c — see model_internal.h. */
#include "core/base/mem.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tt_err allocate(int64_t networks, int64_t inputs, int64_t targets, tt_fold_tables *t)
{
  *t = (tt_fold_tables){.networks = networks, .inputs = inputs, .targets = targets};
#define X(field, path, axis, none, ...)                                                            \
  TT_TRY(TT_ALLOC(t->field, networks *axis));                                                      \
  for (int64_t i = 0; i < networks * axis; i++) t->field[i] = none;
  TT_FOLD_TABLES(X)
#undef X
  return TT_OK;
}

void tt_fold_tables_free(tt_fold_tables *t)
{
#define X(field, ...) tt_free(t->field);
  TT_FOLD_TABLES(X)
#undef X
}

static void copy_from(const tt_network *n, int64_t k, tt_fold_tables *t)
{
  const int64_t inputs = n->model.inputs, targets = n->model.targets;
#define X(field, path, axis, ...)                                                                  \
  memcpy(t->field + k * t->axis, n->scales.field, (size_t)axis * sizeof *t->field);
  TT_FOLD_TABLES(X)
#undef X
}

tt_err tt_fold_tables_create(const tt_trained_ensembles *all, int64_t targets, tt_fold_tables *out)
{
  int64_t k = 0;
  int some = 0;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t n = 0; n < all->at[i]->networks; n++) some |= all->at[i]->network[n].folded;
  if (!some) return TT_OK;
  TT_TRY(allocate(tt_trained_ensembles_networks(all), all->at[0]->model.inputs, targets, out));
  for (int64_t i = 0; i < all->count; k += tt_trained_ensemble_networks(all->at[i++]))
    for (int64_t n = 0; n < all->at[i]->networks; n++)
      if (all->at[i]->network[n].folded) copy_from(&all->at[i]->network[n], k + n, out);
  return TT_OK;
}

void tt_fold_tables_write(tt_schema *s, const char *input, const tt_fold_tables *t)
{
  const char *const inputs = input, *const targets = "ensemble_target";
  if (!t->networks) return;
#define X(field, path, axis, none, meaning)                                                        \
  TT_SCHEMA_WRITE(s, t->field, path, F64, "1", meaning, NULL, "net/network", axis);
  TT_FOLD_TABLES(X)
#undef X
}

static tt_err read_table(tt_h5_reader *r, const char *path, int64_t networks, int64_t count,
                         int positive, double *dst)
{
  int64_t shape[2] = {networks, count};
  TT_TRY(tt_schema_read_local(r, path, TT_H5_F64, 2, shape, dst));
  for (int64_t i = 0; i < networks * count; i++)
    if (!isfinite(dst[i]) || (positive && dst[i] <= 0.0))
      return TT_FAIL(DATA, "%s: '%s' of network %" PRId64 " is %g" TT_DAMAGED, tt_h5_file_name(r),
                     path, i / count, dst[i]);
  return TT_OK;
}

tt_err tt_fold_tables_read_local(tt_h5_reader *r, int64_t networks, int64_t inputs, int64_t targets,
                                 tt_fold_tables *out)
{
  if (!tt_h5_has_local(r, "net/input_factor")) return TT_OK;
  TT_TRY(allocate(networks, inputs, targets, out));
#define X(field, path, axis, none, ...)                                                            \
  TT_TRY(read_table(r, path, networks, axis, (none) > 0.0, out->field));
  TT_FOLD_TABLES(X)
#undef X
  return TT_OK;
}

int tt_fold_tables_has(const tt_fold_tables *t, int64_t k)
{
  int has = 0;
  if (!t->networks) return 0;
#define X(field, path, axis, none, ...)                                                            \
  for (int64_t i = 0; i < t->axis; i++)                                                            \
    has |= t->field[k * t->axis + i] < (none) || t->field[k * t->axis + i] > (none);
  TT_FOLD_TABLES(X)
#undef X
  return has;
}

void tt_fold_tables_copy(const tt_fold_tables *t, int64_t k, tt_network *dst)
{
  const int64_t inputs = dst->model.inputs, targets = dst->model.targets;
#define X(field, path, axis, ...)                                                                  \
  memcpy(dst->scales.field, t->field + k * t->axis, (size_t)axis * sizeof *t->field);
  TT_FOLD_TABLES(X)
#undef X
}
