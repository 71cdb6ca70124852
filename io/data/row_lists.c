/* row_lists.c — sets of rows in a dataset, and the rows of ensembles; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>

enum { VALUES_PER_READ = 1 << 16 };

/* Add `count` values of the column to the set, from row `first` on. */
static tt_err add_rows(const tt_source *s, const char *role, const char *path, int64_t first,
                       int64_t count, const double *value, uint8_t *bit)
{
  for (int64_t i = 0; i < count; i++) {
    int64_t row = first + i;
    if (value[i] != 0 && value[i] != 1)
      return TT_FAIL(DATA,
                     "%s: dataset '%s' (%s), row %" PRId64
                     ": %g; write 1 for the rows of the set and 0 for the others",
                     tt_source_file_name(s), path, role, row, value[i]);
    if (value[i] == 1) bit[row >> 3] = (uint8_t)(bit[row >> 3] | 1u << (row & 7));
  }
  return TT_OK;
}

tt_err tt_data_read_row_mask_local(tt_source *s, const char *role, const char *path, int64_t rows,
                                   uint8_t *bit)
{
  tt_source_matrix m = {0};
  double *value = NULL;
  int64_t capacity = rows < VALUES_PER_READ ? rows : VALUES_PER_READ;
  tt_err e = tt_source_column_open_local(s, role, TT_CELL_NUMBER, path, rows, &m);
  if (!e) e = TT_ALLOC(value, capacity);
  for (int64_t first = 0; !e && first < rows; first += capacity) {
    int64_t count = rows - first < capacity ? rows - first : capacity;
    e = tt_source_matrix_read_local(s, &m, first, count, value);
    if (!e) e = add_rows(s, role, path, first, count, value, bit);
  }
  tt_free(value);
  tt_source_matrix_free(&m);
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
  for (int64_t i = 0; !e && i < rows; i++) mark[i] = bit[i >> 3] >> (i & 7) & 1;
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
