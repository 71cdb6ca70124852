/* data_select.c — the rows that ensembles choose; see data_matrix.h. */
#include "io/data_matrix.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* One dataset of `ensembles[].rows`. */
typedef struct chosen {
  const char *file, *path;
  int64_t rows;   /* of the samples */
  int64_t values; /* of the dataset */
  double *value;  /* [values] */
  int8_t *mark;   /* [rows] */
} chosen;

static tt_err from_mask(const chosen *c)
{
  if (c->values != c->rows)
    return TT_FAIL(DATA,
                   "%s: dataset '%s' (ensembles.rows) has %" PRId64
                   " values of one byte; a mask has "
                   "one for each of the %" PRId64 " rows, and row numbers have at least two bytes",
                   c->file, c->path, c->values, c->rows);
  for (int64_t i = 0; i < c->rows; i++) {
    if (c->value[i] != 0 && c->value[i] != 1)
      return TT_FAIL(DATA,
                     "%s: dataset '%s' (ensembles.rows), row %" PRId64 ": %g; a mask has 1 for the "
                     "rows to take and 0 for the others; row numbers have at least two bytes",
                     c->file, c->path, i, c->value[i]);
    c->mark[i] = c->value[i] == 1;
  }
  return TT_OK;
}

static tt_err from_numbers(const chosen *c)
{
  for (int64_t i = 0; i < c->values; i++) {
    double at = c->value[i];
    if (!(at >= 0 && at < (double)c->rows && at == floor(at)))
      return TT_FAIL(DATA,
                     "%s: dataset '%s' (ensembles.rows), entry %" PRId64
                     ": %.17g is not a row; rows go from 0 to %" PRId64,
                     c->file, c->path, i, at, c->rows - 1);
    if (c->mark[(int64_t)at])
      return TT_FAIL(DATA, "%s: dataset '%s' (ensembles.rows), entry %" PRId64 ": row %.0f again",
                     c->file, c->path, i, at);
    c->mark[(int64_t)at] = 1;
  }
  return TT_OK;
}

static tt_err check_not_empty(const chosen *c, const int8_t *split)
{
  for (int64_t i = 0; i < c->rows; i++)
    if (c->mark[i] && split[i] == TT_TRAIN) return TT_OK;
  return TT_FAIL(DATA, "%s: dataset '%s' (ensembles.rows) leaves no row to train on", c->file,
                 c->path);
}

static tt_err select_local(tt_h5_reader *r, const char *path, int64_t rows, const int8_t *split,
                           int8_t *mark)
{
  chosen c = {.file = tt_h5_file_name(r), .path = path, .rows = rows, .mark = mark};
  tt_h5_info info;
  tt_matrix m;
  TT_TRY(tt_matrix_open_local(r, "ensembles.rows", path, &m));
  TT_TRY(tt_h5_info_local(r, path, &info));
  c.values = m.rows;
  if (m.columns != 1 || info.kind != TT_H5_INTEGER)
    return TT_FAIL(DATA,
                   "%s: dataset '%s' (ensembles.rows) must be one column of whole numbers: row "
                   "numbers, or a mask of one byte a row",
                   c.file, path);
  TT_TRY(TT_ALLOC(c.value, m.rows));
  tt_err e = tt_matrix_read_local(r, &m, 0, m.rows, c.value);
  if (!e) e = info.bytes == 1 ? from_mask(&c) : from_numbers(&c);
  if (!e) e = check_not_empty(&c, split);
  tt_free(c.value);
  return e;
}

tt_err tt_data_select_local(tt_h5_reader *r, const tt_config *cfg, int64_t rows,
                            const int8_t *split, int8_t *selected)
{
  int64_t next = 0;
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    if (own->selection != next) continue;
    TT_TRY(select_local(r, own->rows, rows, split, selected + next * rows));
    next++;
  }
  return TT_OK;
}
