/* prediction_table.c — see prediction_table.h. */
#include "io/results/prediction_table.h"

#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/hdf5/h5.h"
#include "io/table/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_ROWS = 1024 };

/* Variables with a value for each column, of several levels, or (by_row) one for the row. */
typedef struct table_part {
  const char *variable, *suffix, *level;
  int by_row;
} table_part;
static const table_part parts[] = {
    {"y_pred_mean", "_mean", NULL, 0},
    {"y_pred_std", "_std", NULL, 0},
    {"y_pred_std_aleatoric", "_std_aleatoric", NULL, 0},
    {"y_pred_std_epistemic", "_std_epistemic", NULL, 0},
    {"y_pred_quantile", "_q", "quantile", 0},
    {"y_pred_lower", "_lower", "conformal_level", 0},
    {"y_pred_upper", "_upper", "conformal_level", 0},
    {"extrapolation", "extrapolation", NULL, 1},
};
enum { PARTS = sizeof parts / sizeof *parts };

typedef struct prediction_table {
  tt_h5_reader *r;
  FILE *out;
  const char *id;
  int64_t rows, columns, texts; /* texts: 0, or ids that are texts */
  char **label, **ensemble, **target, **text;
  int classes, has_ids;
  int64_t levels[PARTS];                  /* 0: the file does not have the variable */
  double level[PARTS][64], *value[PARTS]; /* value [levels][CHUNK_ROWS][columns] */
  int64_t *number;                        /* [CHUNK_ROWS] ids, or rows */
  int64_t groups;                         /* of `by`; 0: none */
  char **group, *by;                      /* [groups]; its columns */
  int8_t *own;                            /* [groups] */
  int32_t *group_of;                      /* [rows] */
} prediction_table;

static tt_err open_part(prediction_table *t, int k)
{
  const table_part *p = &parts[k];
  tt_h5_info info = {.dims = {1}};
  if (!tt_h5_has_local(t->r, p->variable)) return TT_OK;
  if (p->level) TT_TRY(tt_h5_dataset_info_local(t->r, p->level, &info));
  t->levels[k] = p->level ? info.dims[0] : 1;
  if (t->levels[k] > 64) return TT_FAIL(DATA, "%s: more than 64 levels", tt_h5_file_name(t->r));
  if (p->level)
    TT_TRY(tt_h5_read_rows_local(t->r, p->level, TT_H5_F64, 0, t->levels[k], t->level[k]));
  return TT_ALLOC(t->value[k], t->levels[k] * CHUNK_ROWS * (p->by_row ? 1 : t->columns));
}

static tt_err open_groups(prediction_table *t)
{
  if (!tt_h5_has_local(t->r, "sample_group")) return TT_OK;
  TT_TRY(tt_h5_read_texts_local(t->r, "group", &t->groups, &t->group));
  TT_TRY(tt_h5_read_attr_text_local(t->r, "group", "by", &t->by));
  TT_TRY(TT_ALLOC(t->own, t->groups));
  TT_TRY(TT_ALLOC(t->group_of, t->rows));
  TT_TRY(tt_h5_read_rows_local(t->r, "group_own", TT_H5_I8, 0, t->groups, t->own));
  return tt_h5_read_rows_local(t->r, "sample_group", TT_H5_I32, 0, t->rows, t->group_of);
}

static tt_err open_predictions(const char *file, prediction_table *t)
{
  tt_h5_info info;
  int64_t n = 0;
  TT_TRY(tt_h5_open_local(file, &t->r));
  TT_TRY(tt_h5_dataset_info_local(t->r, "y_pred_mean", &info));
  t->rows = info.dims[0];
  TT_TRY(tt_h5_read_texts_local(t->r, "column_label", &t->columns, &t->label));
  TT_TRY(tt_h5_read_texts_local(t->r, "column_ensemble", &n, &t->ensemble));
  TT_TRY(tt_h5_read_texts_local(t->r, "column_target", &n, &t->target));
  t->classes = tt_h5_has_local(t->r, "y_entropy");
  t->has_ids = tt_h5_has_local(t->r, "sample_id");
  if (t->has_ids) TT_TRY(tt_h5_dataset_info_local(t->r, "sample_id", &info));
  if (t->has_ids && info.kind == TT_H5_TEXT)
    TT_TRY(tt_h5_read_texts_local(t->r, "sample_id", &t->texts, &t->text));
  TT_TRY(TT_ALLOC(t->number, CHUNK_ROWS));
  TT_TRY(open_groups(t));
  for (int k = 0; k < PARTS; k++) TT_TRY(open_part(t, k));
  return TT_OK;
}

/* The class in the label "species=setosa" of a column of probabilities, else NULL. */
static const char *class_of(const prediction_table *t, int64_t column)
{
  size_t length = strlen(t->target[column]);
  const char *label = t->label[column];
  int is_class = t->classes && !strncmp(label, t->target[column], length) && label[length] == '=';
  return is_class ? label + length + 1 : NULL;
}

static int is_same_variable(const prediction_table *t, int64_t a, int64_t b)
{
  return class_of(t, a) && class_of(t, b) && !strcmp(t->target[a], t->target[b]) &&
         !strcmp(t->ensemble[a], t->ensemble[b]);
}

/* The classes whose first one has this column; 0: none. */
static int64_t count_classes(const prediction_table *t, int64_t column)
{
  int64_t n = class_of(t, column) && !(column > 0 && is_same_variable(t, column - 1, column));
  while (n && column + n < t->columns && is_same_variable(t, column, column + n)) n++;
  return n;
}

/* "load_q0.05"; with the ensemble before it where several predict the target. The suffix of a mean
 * that is a probability is left out; without a suffix it is the target, of which the class is told.
 */
static void put_title(const prediction_table *t, const char *suffix, int64_t column)
{
  char title[512];
  int repeated = 0, is_class = t->classes && suffix && !strcmp(suffix, "_mean");
  for (int64_t c = 0; c < t->columns; c++)
    repeated |= c != column && !strcmp(t->label[c], t->label[column]);
  snprintf(title, sizeof title, "%.160s%s%.200s%s", repeated ? t->ensemble[column] : "",
           repeated ? "." : "", suffix ? t->label[column] : t->target[column],
           is_class || !suffix ? "" : suffix);
  fputc(',', t->out);
  tt_table_write_cell(title, t->out);
}

static void put_level_title(const prediction_table *t, int k, int64_t column, int64_t level)
{
  char suffix[64];
  snprintf(suffix, sizeof suffix, "%s", parts[k].suffix);
  if (parts[k].level)
    snprintf(suffix, sizeof suffix, "%s%.6g", parts[k].suffix, t->level[k][level]);
  put_title(t, suffix, column);
}

static void put_header(const prediction_table *t)
{
  tt_table_write_cell(t->has_ids && t->id ? t->id : "row", t->out);
  if (t->groups) {
    fputc(',', t->out);
    tt_table_write_cell(t->by, t->out);
    fputs(",group_own", t->out);
  }
  for (int64_t c = 0; c < t->columns; c++) {
    if (count_classes(t, c)) put_title(t, NULL, c);
    for (int k = 0; k < PARTS; k++)
      for (int64_t l = 0; l < t->levels[k] && !parts[k].by_row; l++) put_level_title(t, k, c, l);
  }
  for (int k = 0; k < PARTS; k++)
    if (parts[k].by_row && t->levels[k]) fprintf(t->out, ",%s", parts[k].suffix);
  fputc('\n', t->out);
}

static void put_value(double v, FILE *out) { fprintf(out, isnan(v) ? "," : ",%.9g", v); }

/* The most probable class. */
static void put_class(const prediction_table *t, int64_t i, int64_t first, int64_t classes)
{
  const double *mean = t->value[0] + i * t->columns + first;
  int64_t best = 0;
  for (int64_t c = 1; c < classes; c++)
    if (mean[c] > mean[best]) best = c;
  fputc(',', t->out);
  tt_table_write_cell(class_of(t, first + best), t->out);
}

/* Row i of the n rows that are in memory, number `row` of the file. */
static void put_row(const prediction_table *t, int64_t i, int64_t n, int64_t row)
{
  if (t->text)
    tt_table_write_cell(t->text[row], t->out);
  else
    fprintf(t->out, "%" PRId64, t->number[i]);
  if (t->groups) {
    fputc(',', t->out);
    tt_table_write_cell(t->group[t->group_of[row]], t->out);
    fprintf(t->out, ",%d", t->own[t->group_of[row]]);
  }
  for (int64_t c = 0; c < t->columns; c++) {
    int64_t classes = count_classes(t, c);
    if (classes) put_class(t, i, c, classes);
    for (int k = 0; k < PARTS; k++)
      for (int64_t l = 0; l < t->levels[k] && !parts[k].by_row; l++)
        put_value(t->value[k][(l * n + i) * t->columns + c], t->out);
  }
  for (int k = 0; k < PARTS; k++)
    if (parts[k].by_row && t->levels[k]) put_value(t->value[k][i], t->out);
  fputc('\n', t->out);
}

static tt_err read_rows(prediction_table *t, int64_t first, int64_t n)
{
  for (int k = 0; k < PARTS; k++) {
    const int64_t from[] = {0, first, 0}, count[] = {t->levels[k], n, t->columns};
    int skip = parts[k].level ? 0 : 1;
    if (t->levels[k])
      TT_TRY(tt_h5_read_block_local(t->r, parts[k].variable, TT_H5_F64, from + skip, count + skip,
                                    t->value[k]));
  }
  if (t->text) return TT_OK;
  return tt_h5_read_rows_local(t->r, t->has_ids ? "sample_id" : "sample", TT_H5_I64, first, n,
                               t->number);
}

static tt_err write_rows(prediction_table *t)
{
  put_header(t);
  for (int64_t first = 0; first < t->rows; first += CHUNK_ROWS) {
    int64_t n = t->rows - first < CHUNK_ROWS ? t->rows - first : CHUNK_ROWS;
    TT_TRY(read_rows(t, first, n));
    for (int64_t i = 0; i < n; i++) put_row(t, i, n, first + i);
  }
  return TT_OK;
}

static tt_err write_table(prediction_table *t, const char *table)
{
  char temporary[TT_PATH_MAX];
  TT_TRY(tt_file_temporary_name_local(table, temporary));
  TT_TRY(tt_file_reserve_local(temporary, 0));
  t->out = fopen(temporary, "w");
  tt_err e = t->out ? write_rows(t) : TT_FAIL_ERRNO(CANTCREAT, "%s", temporary);
  int failed = t->out && ferror(t->out);
  if (t->out) failed |= fclose(t->out) != 0;
  if (!e && failed) e = TT_FAIL_ERRNO(IO, "%s: cannot be written", table);
  if (!e) e = tt_file_sync_local(temporary);
  if (!e) e = tt_file_publish_local(temporary, table);
  if (e) (void)unlink(temporary);
  return e;
}

tt_err tt_prediction_table_write_local(const char *predictions, const char *table, const char *id)
{
  prediction_table t = {.id = id};
  tt_err e = open_predictions(predictions, &t);
  if (!e) e = write_table(&t, table);
  tt_h5_close_local(&t.r);
  tt_h5_texts_free(t.columns, &t.label);
  tt_h5_texts_free(t.columns, &t.ensemble);
  tt_h5_texts_free(t.columns, &t.target);
  tt_h5_texts_free(t.texts, &t.text);
  for (int k = 0; k < PARTS; k++) tt_free(t.value[k]);
  tt_h5_texts_free(t.groups, &t.group);
  tt_free_all(&t.number, &t.own, &t.group_of, &t.by);
  return e;
}
