/* split.c — which rows are for training, validation and test; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/model/row_split.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tt_err read_split_column(tt_source *s, const char *path, int64_t rows, int8_t *split)
{
  double *value = NULL;
  TT_TRY(TT_ALLOC(value, rows));
  tt_err e = tt_source_column_read_local(s, "data.split.column", TT_CELL_NUMBER, path, rows, value);
  for (int64_t i = 0; !e && i < rows; i++) {
    if (value[i] == 0 || value[i] == 1 || value[i] == 2 || value[i] == TT_UNUSED_ROW)
      split[i] = (int8_t)value[i];
    else
      e = TT_FAIL(DATA,
                  "%s: dataset '%s', row %" PRId64 ": %g; 0 is train, 1 validation, 2 test, -1 "
                  "unused",
                  tt_source_file_name(s), path, i, value[i]);
  }
  tt_free(value);
  return e;
}

tt_err tt_data_read_split_local(tt_source *s, const tt_config *cfg, int64_t rows, int8_t *split)
{
  const char *column = cfg->data_split_column;
  const double fraction[TT_SPLITS] = {cfg->data_split_train, cfg->data_split_validation,
                                      cfg->data_split_test};
  if (!*column) return tt_split_fractions(rows, fraction, (uint64_t)cfg->data_split_seed, split);
  TT_TRY(read_split_column(s, column, rows, split));
  for (int64_t i = 0; i < rows; i++)
    if (split[i] == TT_TRAIN) return TT_OK;
  return TT_FAIL(DATA, "%s: dataset '%s' leaves no row to train on", tt_source_file_name(s),
                 column);
}

/* The keys of all rows of a file. */
static tt_err read_keys(tt_data_reader *r, tt_row_key *key)
{
  enum { CHUNK_ROWS = 4096 };
  const tt_data_shape *s = tt_data_reader_shape(r);
  double *x = NULL;
  tt_err e = TT_ALLOC(x, CHUNK_ROWS * s->inputs);
  for (int64_t first = 0; !e && first < s->rows; first += CHUNK_ROWS) {
    int64_t count = s->rows - first < CHUNK_ROWS ? s->rows - first : CHUNK_ROWS;
    e = tt_data_reader_read_local(r, first, count, x, NULL);
    if (!e) e = tt_data_row_keys_local(count, s->inputs, x, key + first);
  }
  tt_free(x);
  return e;
}

/* Validation and test rows with the inputs of a training row. */
static tt_err count_seen(int64_t rows, const uint64_t *first, tt_row_parts *p)
{
  int8_t *trained = NULL;
  TT_TRY(TT_ALLOC(trained, rows));
  for (int64_t i = 0; i < rows; i++) trained[first[i]] |= p->split[i] == TT_TRAIN;
  for (int64_t i = 0; i < rows; i++) p->seen += p->split[i] > TT_TRAIN && trained[first[i]];
  tt_free(trained);
  return TT_OK;
}

/* Split again, so that the rows of a unit are in one part. If some part has no row then, nothing
 * changes: *done 0. */
static tt_err split_units(const tt_split_values *v, const tt_config *cfg, const uint64_t *unit,
                          tt_row_parts *p, int *done)
{
  int8_t *split = NULL;
  tt_err e = TT_ALLOC(split, v->rows);
  if (!e) e = tt_split_values_apply(v, cfg, unit, split);
  *done = !e;
  if (*done) memcpy(p->split, split, (size_t)v->rows);
  tt_free(split);
  return e == TT_E_DATA ? TT_OK : e;
}

/* The most folds of an ensemble; 0: none has folds. */
static int64_t most_folds(const tt_config *cfg)
{
  int64_t most = 0;
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    if (own->train_resample == TT_RESAMPLE_kfold && own->train_folds > most)
      most = own->train_folds;
  }
  return most;
}

/* The units of the folds. Rows with equal inputs are in one fold, unless there are more folds than
 * units to train on.
 *   unit  [rows] of the split; NULL: each row for itself, or with those of its group */
static tt_err set_units(const tt_split_values *v, int64_t folds, const uint64_t *unit,
                        tt_row_parts *p)
{
  int64_t units = 0;
  for (int64_t i = 0; unit && i < v->rows; i++)
    units += unit[i] == (uint64_t)i && p->split[i] == TT_TRAIN;
  if (!unit || units < folds) unit = v->group;
  if (!folds || (!unit && v->by != TT_SPLIT_BY_order)) return TT_OK;
  TT_TRY(TT_ALLOC(p->unit, v->rows));
  for (int64_t i = 0; i < v->rows; i++)
    p->unit[i] = unit ? unit[i] : tt_split_order_key(v->value[i]);
  return TT_OK;
}

static tt_err join_equal_rows(const tt_split_values *v, const tt_config *cfg, const tt_row_key *key,
                              tt_row_parts *p)
{
  uint64_t *first = NULL, *unit = NULL;
  int joined = 0;
  tt_err e = TT_ALLOC(first, v->rows);
  if (!e) e = tt_split_first_rows(v->rows, key, first, &p->repeated);
  if (!e && p->repeated && v->by != TT_SPLIT_BY_order && v->by != TT_SPLIT_BY_file) {
    e = TT_ALLOC(unit, v->rows);
    if (!e) memcpy(unit, first, (size_t)v->rows * sizeof *unit);
    if (!e && v->group) e = tt_split_join_groups(v->rows, v->group, unit);
    if (!e) e = split_units(v, cfg, unit, p, &joined);
  }
  if (!e && p->repeated) e = count_seen(v->rows, first, p);
  if (!e) e = set_units(v, most_folds(cfg), joined ? unit : NULL, p);
  tt_free_all(&first, &unit);
  return e;
}

tt_err tt_data_split_rows_local(const tt_split_values *v, const tt_config *cfg,
                                const tt_row_key *key, tt_row_parts *out)
{
  if (v->by != TT_SPLIT_BY_file) TT_TRY(tt_split_values_apply(v, cfg, NULL, out->split));
  return join_equal_rows(v, cfg, key, out);
}

tt_err tt_data_find_parts_local(tt_data_reader *r, const tt_config *cfg, const tt_row_key *key,
                                tt_row_parts *out)
{
  int64_t rows = tt_data_reader_shape(r)->rows;
  tt_split_values v = {0};
  tt_row_key *own = NULL;
  *out = (tt_row_parts){0};
  tt_err e = TT_ALLOC(out->split, rows);
  if (!e) e = tt_split_values_read_local(r, cfg, &v);
  if (!e && v.by == TT_SPLIT_BY_file)
    e = tt_data_read_split_local(tt_data_reader_file_local(r), cfg, rows, out->split);
  if (!e && !key) e = TT_ALLOC(own, rows);
  if (!e && !key) e = read_keys(r, own);
  if (!e) e = tt_data_split_rows_local(&v, cfg, key ? key : own, out);
  tt_split_values_free(&v);
  tt_free(own);
  return e;
}

void tt_row_parts_free(tt_row_parts *p) { tt_free_all(&p->split, &p->unit); }

tt_err tt_data_read_rows_local(tt_data_reader *r, const tt_config *cfg, const tt_row_key *key,
                               tt_row_parts *known, tt_dataset *d)
{
  if (!known->split) TT_TRY(tt_data_find_parts_local(r, cfg, key, known));
  memcpy(d->split, known->split, (size_t)d->rows);
  d->unit = known->unit;
  known->unit = NULL;
  d->repeated_rows = known->repeated;
  d->seen_rows = known->seen;
  return tt_data_read_selections_local(tt_data_reader_file_local(r), cfg, d->rows, d->split,
                                       d->selected);
}

static void count_parts(int64_t rows, const int8_t *split, int64_t part[TT_SPLITS])
{
  memset(part, 0, TT_SPLITS * sizeof *part);
  for (int64_t i = 0; i < rows; i++)
    if (split[i] >= 0) part[split[i]]++;
}

void tt_data_log_split(const char *file, const tt_dataset *d)
{
  int64_t count[TT_SPLITS];
  char text[TT_REPEATED_TEXT];
  count_parts(d->rows, d->split, count);
  tt_log_root(TT_LOG_INFO,
              "%s: %" PRId64 " rows for training, %" PRId64 " for validation, %" PRId64 " for test",
              file, count[TT_TRAIN], count[TT_VALIDATION], count[TT_TEST]);
  if (d->repeated_rows)
    tt_log_root(TT_LOG_INFO, "%s: %s", file,
                tt_repeated_rows_text(d->repeated_rows, d->seen_rows, "; ", text));
}
