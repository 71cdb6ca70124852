/* row_lists.c — sets of rows in a dataset, and the rows of ensembles; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>

enum { VALUES_PER_READ = 1 << 16 };

/* A dataset that contains row numbers or a mask. */
typedef struct row_source {
  tt_source *source;
  const char *file, *path, *role;
  tt_source_matrix values;
  int64_t rows; /* of the samples */
  uint8_t *bit; /* [(rows + 7) / 8] */
} row_source;

static int has_bit(const uint8_t *bit, int64_t row) { return bit[row >> 3] >> (row & 7) & 1; }

static void set_bit(uint8_t *bit, int64_t row)
{
  bit[row >> 3] = (uint8_t)(bit[row >> 3] | 1u << (row & 7));
}

/* Add `count` values of a mask, from row `first` on. */
static tt_err add_mask_rows(const row_source *c, int64_t first, int64_t count, const double *value)
{
  for (int64_t i = 0; i < count; i++) {
    if (value[i] != 0 && value[i] != 1)
      return TT_FAIL(DATA,
                     "%s: dataset '%s' (%s), row %" PRId64
                     ": %g; a mask has 1 for the rows of the set and 0 for the others; row numbers "
                     "have at least two bytes",
                     c->file, c->path, c->role, first + i, value[i]);
    if (value[i] == 1) set_bit(c->bit, first + i);
  }
  return TT_OK;
}

static tt_err add_numbered_rows(const row_source *c, int64_t first, int64_t count,
                                const double *value)
{
  for (int64_t i = 0; i < count; i++) {
    double number = value[i];
    if (!(number >= 0 && number < (double)c->rows && number == floor(number)))
      return TT_FAIL(DATA,
                     "%s: dataset '%s' (%s), entry %" PRId64
                     ": %.17g is not a row; rows go from 0 to %" PRId64,
                     c->file, c->path, c->role, first + i, number, c->rows - 1);
    if (has_bit(c->bit, (int64_t)number))
      return TT_FAIL(DATA, "%s: dataset '%s' (%s), entry %" PRId64 ": row %.0f occurs twice",
                     c->file, c->path, c->role, first + i, number);
    set_bit(c->bit, (int64_t)number);
  }
  return TT_OK;
}

static tt_err read_chunks(const row_source *c, int is_mask)
{
  double *value = NULL;
  int64_t all = c->values.rows, capacity = all < VALUES_PER_READ ? all : VALUES_PER_READ;
  TT_TRY(TT_ALLOC(value, capacity));
  tt_err e = TT_OK;
  for (int64_t first = 0; !e && first < all; first += capacity) {
    int64_t count = all - first < capacity ? all - first : capacity;
    e = tt_source_matrix_read_local(c->source, &c->values, first, count, value);
    if (!e) e = (is_mask ? add_mask_rows : add_numbered_rows)(c, first, count, value);
  }
  tt_free(value);
  return e;
}

/* Whether the values are a mask, and not row numbers. */
static tt_err check_kind(const row_source *c, int *is_mask)
{
  tt_h5_info info = {.bytes = 1, .kind = TT_H5_INTEGER};
  if (!c->values.from) TT_TRY(tt_h5_dataset_info_local(c->source->h5, c->path, &info));
  *is_mask = info.bytes == 1;
  if (c->values.columns != 1 || info.kind != TT_H5_INTEGER)
    return TT_FAIL(DATA,
                   "%s: dataset '%s' (%s) must be one column of whole numbers: row "
                   "numbers, or a mask of one byte per row",
                   c->file, c->path, c->role);
  if (*is_mask && c->values.rows != c->rows)
    return TT_FAIL(DATA,
                   "%s: dataset '%s' (%s) has %" PRId64 " values of one byte; a mask has "
                   "one for each of the %" PRId64 " rows, and row numbers have at least two bytes",
                   c->file, c->path, c->role, c->values.rows, c->rows);
  return TT_OK;
}

tt_err tt_data_read_row_mask_local(tt_source *s, const char *role, const char *path, int64_t rows,
                                   uint8_t *bit)
{
  const tt_source_role of_values = {role, TT_CELL_NUMBER, NULL, 0};
  int is_mask = 0;
  row_source c = {.source = s,
                  .file = tt_source_file_name(s),
                  .path = path,
                  .role = role,
                  .rows = rows,
                  .bit = bit};
  TT_TRY(tt_source_matrix_open_local(s, &of_values, path, &c.values));
  tt_err e = check_kind(&c, &is_mask);
  if (!e) e = read_chunks(&c, is_mask);
  tt_source_matrix_free(&c.values);
  return e;
}

static tt_err check_not_empty(tt_source *s, const char *path, int64_t rows, const int8_t *mark,
                              const int8_t *split)
{
  for (int64_t i = 0; i < rows; i++)
    if (mark[i] && split[i] == TT_TRAIN) return TT_OK;
  return TT_FAIL(DATA, "%s: dataset '%s' (ensembles.rows) leaves no row to train on",
                 tt_source_file_name(s), path);
}

static tt_err read_selection_local(tt_source *s, const char *path, int64_t rows,
                                   const int8_t *split, int8_t *mark)
{
  uint8_t *bit = NULL;
  TT_TRY(TT_ALLOC(bit, (rows + 7) / 8));
  tt_err e = tt_data_read_row_mask_local(s, "ensembles.rows", path, rows, bit);
  for (int64_t i = 0; !e && i < rows; i++) mark[i] = (int8_t)has_bit(bit, i);
  if (!e) e = check_not_empty(s, path, rows, mark, split);
  tt_free(bit);
  return e;
}

tt_err tt_data_read_selections_local(tt_source *s, const tt_config *cfg, int64_t rows,
                                     const int8_t *split, int8_t *selected)
{
  int64_t next = 0;
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    if (own->selection != next) continue;
    TT_TRY(read_selection_local(s, own->rows, rows, split, selected + next * rows));
    next++;
  }
  return TT_OK;
}
