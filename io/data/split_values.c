/* split_values.c — the split by the values of a column: groups, strata, an order; see
 * data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"
#include "core/model/row_split.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

enum { CHUNK_ROWS = 4096 };

/* The option that is given, and the name of its column; NULL: none. */
static const char *given_option(const tt_config *cfg, const char **column)
{
  const char *const value[] = {cfg->data_split_group, cfg->data_split_stratify,
                               cfg->data_split_order};
  static const char *const name[] = {"data.split.group", "data.split.stratify", "data.split.order"};
  for (int i = 0; i < 3; i++)
    if (value[i] && *value[i]) return *column = value[i], name[i];
  return NULL;
}

tt_split_by tt_data_split_by(const tt_config *cfg)
{
  const char *file = cfg->data_split_column;
  const char *column = NULL;
  if (given_option(cfg, &column))
    return column == cfg->data_split_group      ? TT_SPLIT_BY_group
           : column == cfg->data_split_stratify ? TT_SPLIT_BY_stratify
                                                : TT_SPLIT_BY_order;
  return file && *file ? TT_SPLIT_BY_file : TT_SPLIT_BY_fractions;
}

/* The same texts have the same bits. */
static tt_err read_text_keys(tt_h5_reader *r, const char *option, const char *path, int64_t rows,
                             double *value)
{
  int64_t n = 0;
  char **text = NULL;
  TT_TRY(tt_h5_read_texts_local(r, path, &n, &text));
  tt_err e = TT_OK;
  if (n != rows)
    e = TT_FAIL(DATA,
                "%s: dataset '%s' (%s) has %" PRId64 " texts, the inputs have %" PRId64 " rows",
                tt_h5_file_name(r), path, option, n, rows);
  for (int64_t i = 0; !e && i < n; i++) {
    uint64_t hash = XXH3_64bits(text[i], strlen(text[i]));
    memcpy(&value[i], &hash, sizeof hash);
  }
  tt_h5_texts_free(n, &text);
  return e;
}

/* Number of the column of this name, -1: none. */
static int64_t find_name(const tt_columns *c, const char *name)
{
  for (int64_t k = 0; k < c->count; k++)
    if (!strcmp(c->name[k], name)) return k;
  return -1;
}

/* Column k of the inputs, or of the targets. */
static tt_err read_own_column(tt_data_reader *r, int is_target, int64_t k, double *value)
{
  const tt_data_shape *s = tt_data_reader_shape(r);
  int64_t columns = is_target ? s->targets : s->inputs;
  double *chunk = NULL;
  TT_TRY(TT_ALLOC(chunk, CHUNK_ROWS * columns));
  tt_err e = TT_OK;
  for (int64_t first = 0; !e && first < s->rows; first += CHUNK_ROWS) {
    int64_t count = s->rows - first < CHUNK_ROWS ? s->rows - first : CHUNK_ROWS;
    e = tt_data_reader_read_local(r, first, count, is_target ? NULL : chunk,
                                  is_target ? chunk : NULL);
    for (int64_t i = 0; i < count; i++) value[first + i] = chunk[i * columns + k];
  }
  tt_free(chunk);
  return e;
}

/* A dataset or column of the file of this name, else a target or an input of this name. */
static tt_err read_values(tt_data_reader *r, const char *option, tt_cell_kind kind,
                          const char *path, double *value)
{
  tt_source *s = tt_data_reader_file_local(r);
  const tt_data_shape *shape = tt_data_reader_shape(r);
  int64_t y = find_name(&shape->target, path), x = find_name(&shape->input, path);
  tt_h5_info info;
  if (s->h5 && !tt_h5_has_local(s->h5, path) && (y >= 0 || x >= 0))
    return read_own_column(r, y >= 0, y >= 0 ? y : x, value);
  if (s->h5 && kind == TT_CELL_KEY && tt_h5_has_local(s->h5, path)) {
    TT_TRY(tt_h5_dataset_info_local(s->h5, path, &info));
    if (info.kind == TT_H5_TEXT) return read_text_keys(s->h5, option, path, shape->rows, value);
  }
  return tt_source_column_read_local(s, option, kind, path, shape->rows, value);
}

tt_err tt_split_values_read_local(tt_data_reader *r, const tt_config *cfg, tt_split_values *out)
{
  const char *path = "", *option = given_option(cfg, &path);
  *out = (tt_split_values){.by = tt_data_split_by(cfg), .rows = tt_data_reader_shape(r)->rows};
  if (!option) return TT_OK;
  int by_group = out->by == TT_SPLIT_BY_group;
  TT_TRY(TT_ALLOC(out->value, out->rows));
  if (by_group) TT_TRY(TT_ALLOC(out->group, out->rows));
  TT_TRY(read_values(r, option, by_group ? TT_CELL_KEY : TT_CELL_LABEL, path, out->value));
  if (by_group) memcpy(out->group, out->value, (size_t)out->rows * sizeof *out->group);
  return TT_OK;
}

void tt_split_values_free(tt_split_values *v) { tt_free_all(&v->value, &v->group); }

tt_err tt_split_values_apply(const tt_split_values *v, const tt_config *cfg, const uint64_t *unit,
                             int8_t *split)
{
  const double fraction[TT_SPLITS] = {cfg->data_split_train, cfg->data_split_validation,
                                      cfg->data_split_test};
  uint64_t seed = (uint64_t)cfg->data_split_seed;
  if (v->by == TT_SPLIT_BY_order) return tt_split_order(v->rows, v->value, fraction, split);
  if (v->by == TT_SPLIT_BY_stratify)
    return tt_split_strata(v->rows, v->value, unit, fraction, seed, split);
  if (!unit) unit = v->group;
  return unit ? tt_split_groups(v->rows, unit, fraction, seed, split)
              : tt_split_fractions(v->rows, fraction, seed, split);
}
