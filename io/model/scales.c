/* scales.c — scales and ranges of the columns in model.h5, of all rows or of each group of `by`,
 * and names of groups; see model_internal.h. */
#include "core/base/int.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/groups/by_groups.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Which numbers are valid. */
typedef enum scale_kind { ANY, POSITIVE, LAMBDA, FILL, LOW, HIGH } scale_kind;

/* name in /scaler, kind, meaning; x_... of inputs, y_... of targets */
#define SCALES(X)                                                                                  \
  X(x_mean, ANY, "f(x) = normalized * x_scale + x_mean; f by x_normalize")                         \
  X(x_scale, POSITIVE, "f(x) = normalized * x_scale + x_mean; f by x_normalize")                   \
  X(y_mean, ANY, "f(y) = normalized * y_scale + y_mean; f by y_normalize")                         \
  X(y_scale, POSITIVE, "f(y) = normalized * y_scale + y_mean; f by y_normalize")                   \
  X(x_lambda, LAMBDA, "parameter of yeo_johnson")                                                  \
  X(y_lambda, LAMBDA, "parameter of yeo_johnson")                                                  \
  X(x_fill, FILL, "value where x is missing")                                                      \
  X(x_low, LOW, "smallest normalized value in the training rows")                                  \
  X(x_high, HIGH, "largest normalized value in the training rows")

typedef struct scale_row {
  const char *name, *meaning;
  scale_kind kind;
} scale_row;
static const scale_row table[] = {
#define X(name, kind, meaning) {"scaler/" #name, meaning, kind},
    SCALES(X)
#undef X
};
enum {
#define X(name, ...) AT_##name,
  SCALES(X)
#undef X
      SCALE_COUNT
};

static int is_range(int k) { return table[k].kind == LOW || table[k].kind == HIGH; }
static int is_target(int k) { return table[k].name[strlen("scaler/")] == 'y'; }

/* The numbers of entry k; without `by`, group is 0. */
static double *values_of(const tt_trained_ensemble *m, int k, int64_t group)
{
  const tt_scaler *s = m->groups ? &m->groups->scaler[group] : &m->scaler;
  int64_t offset = m->groups ? group * m->model.inputs : 0;
  double *low = m->groups ? m->groups->x_low + offset : m->x_low;
  double *high = m->groups ? m->groups->x_high + offset : m->x_high;
  double *const array[SCALE_COUNT] = {[AT_x_mean] = s->x_mean,     [AT_x_scale] = s->x_scale,
                                      [AT_y_mean] = s->y_mean,     [AT_y_scale] = s->y_scale,
                                      [AT_x_lambda] = s->x_lambda, [AT_y_lambda] = s->y_lambda,
                                      [AT_x_fill] = s->x_fill,     [AT_x_low] = low,
                                      [AT_x_high] = high};
  return array[k];
}

static int64_t size_of(const tt_trained_ensemble *m, int k)
{
  return is_range(k) ? m->model.inputs : is_target(k) ? m->scaler.targets : m->scaler.inputs;
}

static int64_t groups_of(const tt_trained_ensemble *m) { return m->groups ? m->groups->count : 1; }

int64_t tt_model_scale_values(const tt_trained_ensemble *m)
{
  int64_t most = 0;
  for (int k = 0; k < SCALE_COUNT; k++) most = tt_max_i64(most, size_of(m, k));
  return groups_of(m) * most;
}

/* Whether the file has entry k. */
static int has_values(const tt_trained_ensemble *m, int k)
{
  int fills = !m->groups && tt_scaler_fills(&m->scaler);
  for (int64_t g = 0; m->groups && g < m->groups->count; g++)
    fills |= tt_scaler_fills(&m->groups->scaler[g]);
  return table[k].kind == FILL ? fills : !is_range(k) || !isnan(values_of(m, k, 0)[0]);
}

/* Write the group /by. The names of the groups are the names of the ensembles. */
static void write_groups(tt_schema *s, const tt_by_groups *g)
{
  const char *const ensemble[] = {g->ensemble}, *const columns[] = {g->columns};
  tt_h5_create_group(s->file, "by");
  tt_schema_create_dimension(s, "by/one", 1);
  tt_schema_create_dimension(s, "by/columns_strlen", tt_h5_max_text_length(1, columns));
  tt_schema_write_texts(s, "by/columns", "by/one", "by/columns_strlen", columns,
                        "list of the columns whose values are the names of the ensembles; the "
                        "ensemble " TT_BY_POOLED " is that of all rows");
  tt_schema_create_dimension(s, "by/ensemble_strlen", tt_h5_max_text_length(1, ensemble));
  tt_schema_write_texts(s, "by/ensemble", "by/one", "by/ensemble_strlen", ensemble,
                        "name of the ensemble in the job");
  if (!g->small) return;
  tt_schema_create_dimension(s, "by/small", g->small);
  tt_schema_write_texts(s, "by/small_name", "by/small", "name_strlen",
                        (const char *const *)g->small_name,
                        "values of groups with too few rows for an ensemble");
  TT_SCHEMA_WRITE(s, g->small_rows, "by/small_rows", I64, "1", "their rows", NULL, "by/small");
}

void tt_model_write_scales(tt_schema *s, const tt_trained_ensemble *m, double *scratch)
{
  if (m->groups) write_groups(s, m->groups);
  for (int k = 0; k < SCALE_COUNT; k++) {
    int64_t n = size_of(m, k);
    const char *axis = is_range(k)    ? tt_net_inputs_dimension(&m->scaler.net)
                       : is_target(k) ? "target"
                                      : "feature";
    tt_variable v = TT_VARIABLE(table[k].name, F64, NULL, table[k].meaning, NULL, axis);
    if (!has_values(m, k)) continue;
    for (int64_t g = 0; g < groups_of(m); g++)
      memcpy(scratch + g * n, values_of(m, k, g), (size_t)n * sizeof *scratch);
    if (m->groups) v.dim[0] = "ensemble", v.dim[1] = axis;
    tt_schema_write_from_root(s, &v, scratch);
  }
}

/* Read */

static tt_err check_value(tt_h5_reader *r, const tt_trained_ensemble *m, int k, int64_t column,
                          double value)
{
  const char *file = tt_h5_file_name(r), *name = table[k].name;
  scale_kind kind = table[k].kind;
  if (kind == LAMBDA && !(value >= 0.0 && value <= 2.0))
    return TT_FAIL(DATA, "%s: '%s' of column %" PRId64 " is %g, expected 0 to 2" TT_DAMAGED, file,
                   name, column, value);
  int fits = isfinite(value) && (kind != POSITIVE || value > 0.0);
  if (kind == FILL)
    fits = isnan(value) ||
           (isfinite(value) &&
            tt_transform_accepts(
                tt_normalize_transform((tt_normalize)m->scaler.x_normalize[column]), value));
  if (fits) return TT_OK;
  return TT_FAIL(DATA, "%s: '%s' of column %" PRId64 " is %g" TT_DAMAGED, file, name, column,
                 value);
}

static tt_err read_values(tt_h5_reader *r, const tt_trained_ensemble *m, int k, double *scratch)
{
  int64_t n = size_of(m, k), shape[2] = {groups_of(m), n};
  TT_TRY(tt_schema_read_local(r, table[k].name, TT_H5_F64, m->groups ? 2 : 1,
                              m->groups ? shape : &n, scratch));
  for (int64_t g = 0; g < groups_of(m); g++) {
    for (int64_t i = 0; i < n && !is_range(k); i++)
      TT_TRY(check_value(r, m, k, i, scratch[g * n + i]));
    memcpy(values_of(m, k, g), scratch + g * n, (size_t)n * sizeof *scratch);
  }
  return TT_OK;
}

static tt_err check_ranges(tt_h5_reader *r, const tt_trained_ensemble *m)
{
  for (int64_t g = 0; g < groups_of(m); g++) {
    const double *low = values_of(m, AT_x_low, g), *high = values_of(m, AT_x_high, g);
    for (int64_t i = 0; i < m->model.inputs; i++)
      if (!(high[i] - low[i] >= 0.0 && high[i] - low[i] < INFINITY))
        return TT_FAIL(
            DATA, "%s: 'scaler/x_low' of column %" PRId64 " is %g, 'scaler/x_high' %g" TT_DAMAGED,
            tt_h5_file_name(r), i, low[i], high[i]);
  }
  return TT_OK;
}

/* The only text of a dataset. */
static tt_err read_text(tt_h5_reader *r, const char *path, char **out)
{
  char **text = NULL;
  TT_TRY(tt_schema_read_texts_local(r, path, 1, &text));
  *out = text[0];
  text[0] = NULL;
  tt_h5_texts_free(1, &text);
  return TT_OK;
}

static tt_err check_names(tt_h5_reader *r, const tt_by_groups *g)
{
  tt_list *columns = NULL;
  tt_err e = tt_list_parse("by/columns", g->columns, &columns);
  tt_list_destroy(&columns);
  if (e) return TT_FAIL(DATA, "%s: %s" TT_DAMAGED, tt_h5_file_name(r), tt_err_last());
  for (int64_t i = g->pooled + 1; i < g->count; i++)
    if (tt_by_compare(g->name[i - 1], g->name[i]) >= 0)
      return TT_FAIL(DATA, "%s: 'ensemble_name' %" PRId64 " is not in ascending order" TT_DAMAGED,
                     tt_h5_file_name(r), i);
  return TT_OK;
}

/* Each group begins with a copy of m->scaler, which has all that is the same in all groups. */
static tt_err read_groups(tt_h5_reader *r, tt_trained_ensemble *m)
{
  int64_t small = -1;
  if (!tt_h5_has_local(r, "by/columns")) return TT_OK;
  if (tt_h5_has_local(r, "by/small_rows"))
    TT_TRY(tt_schema_check_shape_local(r, "by/small_rows", 1, &small));
  TT_TRY(tt_by_groups_create(m->ensembles, small < 0 ? 0 : small, m->model.inputs, &m->groups));
  tt_by_groups *g = m->groups;
  TT_TRY(read_text(r, "by/columns", &g->columns));
  TT_TRY(read_text(r, "by/ensemble", &g->ensemble));
  for (int64_t i = 0; i < g->count; i++) {
    TT_TRY(tt_text_set(&g->name[i], m->ensemble[i].name));
    TT_TRY(tt_scaler_copy(&m->scaler, &g->scaler[i]));
  }
  g->pooled = g->count > 0 && !strcmp(g->name[0], TT_BY_POOLED);
  TT_TRY(check_names(r, g));
  if (small < 0) return TT_OK;
  tt_free(g->small_name);
  TT_TRY(tt_schema_read_texts_local(r, "by/small_name", small, &g->small_name));
  return tt_schema_read_local(r, "by/small_rows", TT_H5_I64, 1, &small, g->small_rows);
}

tt_err tt_model_read_scales_local(tt_h5_reader *r, tt_trained_ensemble *m)
{
  double *scratch = NULL;
  TT_TRY(read_groups(r, m));
  TT_TRY(TT_ALLOC(scratch, tt_model_scale_values(m)));
  tt_err e = TT_OK;
  for (int k = 0; !e && k < SCALE_COUNT; k++) {
    int optional = is_range(k) || table[k].kind == FILL;
    if (!optional || tt_h5_has_local(r, is_range(k) ? table[AT_x_low].name : table[k].name))
      e = read_values(r, m, k, scratch);
  }
  tt_free(scratch);
  if (!e && tt_h5_has_local(r, table[AT_x_low].name)) e = check_ranges(r, m);
  if (e || !m->groups) return e;
  tt_scaler_free(&m->scaler);
  return tt_scaler_copy(&m->groups->scaler[0], &m->scaler);
}
