/* oracle_input.c — see oracle_files.h: writing inputs and accepted labels. */
#include "io/campaign/oracle_files.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/files/files.h"
#include "io/hdf5/schema.h"
#include "io/table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TT_SCHEMA_ORACLE_INPUT "tutti-oracle-input-1.0"

/* HDF5 */

static const tt_variable inputs =
    TT_VARIABLE("x", F64, NULL, "inputs", "feature_name feature_units", "id", "feature");
static const tt_variable labels = TT_VARIABLE("y", F64, NULL, "labels, missing where unlabeled",
                                              "target_name target_units", "id", "target");

/* Reserve space for the metadata too: HDF5 cannot recover when the disk is full while it writes
 * them. */
enum { METADATA_BYTES = 32768 };

/* Write one variable over candidates and named columns. The file keeps its first error.
 *   more  bytes of what will be written besides */
static tt_err create_oracle_file(tt_schema *s, const char *file, int64_t count, const int64_t *id,
                                 const tt_variable *v, const tt_columns *c, const double *value,
                                 int64_t more)
{
  char name[TT_SCHEMA_NAME_MAX], units[TT_SCHEMA_NAME_MAX];
  snprintf(name, sizeof name, "%s_name", v->dim[1]);
  snprintf(units, sizeof units, "%s_units", v->dim[1]);
  int64_t length = tt_schema_max_column_text(c),
          bytes = 8 * count * (c->count + 1) + 2 * length * c->count + more;
  TT_TRY(tt_h5_create(NULL, file, bytes + METADATA_BYTES, &s->file));
  tt_schema_write_header(s, NULL, s->file, TT_SCHEMA_ORACLE_INPUT, NULL);
  TT_SCHEMA_COORDINATE(s, count, id, "id", I64, NULL, "number of the candidate");
  tt_schema_create_dimension(s, "name_strlen", length);
  tt_schema_create_dimension(s, v->dim[1], c->count);
  tt_schema_write_texts(s, name, v->dim[1], "name_strlen", (const char *const *)c->name, NULL);
  tt_schema_write_texts(s, units, v->dim[1], "name_strlen", (const char *const *)c->units, NULL);
  tt_schema_write_given(s, name, c);
  tt_schema_write_from_root(s, v, value);
  return TT_OK;
}

tt_err tt_accepted_labels_write_local(const char *file, int64_t count, const int64_t *id,
                                      const double *y, const tt_columns *target, const char *why)
{
  tt_schema s = {0};
  TT_TRY(create_oracle_file(&s, file, count, id, &labels, target, y, 0));
  if (*why) (void)tt_h5_write_attr_text(s.file, "/", "failed", why);
  return tt_h5_commit(&s.file);
}

/* CSV */

typedef struct csv_rows {
  int64_t count;
  const int64_t *id;
  const double *x;
  const char *const *level; /* [count][D] texts, NULL where an input is a number; or NULL */
  const tt_columns *input;
} csv_rows;

static tt_err write_csv(FILE *out, void *rows)
{
  const csv_rows *r = rows;
  fputs("id", out);
  for (int64_t k = 0; k < r->input->count; k++) {
    fputc(',', out);
    tt_table_write_cell(r->input->name[k], out);
  }
  for (int64_t i = 0; i < r->count; i++) {
    fprintf(out, "\n%" PRId64, r->id[i]);
    for (int64_t cell = i * r->input->count; cell < (i + 1) * r->input->count; cell++) {
      fputc(',', out);
      if (r->level && r->level[cell])
        tt_table_write_cell(r->level[cell], out);
      else
        fprintf(out, "%.17g", r->x[cell]);
    }
  }
  fputc('\n', out);
  return TT_OK;
}

int tt_is_csv(const char *file)
{
  size_t n = strlen(file);
  return n > 4 && !strcmp(file + n - 4, ".csv");
}

tt_err tt_output_header_write_local(const char *file, const tt_columns *target)
{
  return tt_file_print_local(file, write_csv, &(csv_rows){.input = target});
}

static tt_err parse_header(const char *file, const char *line, tt_columns *target)
{
  tt_list *l = NULL;
  char made[32]; /* a name of the program */
  TT_TRY(tt_list_parse(file, line, &l));
  tt_err e = TT_OK;
  if (l->count < 2 || strcmp(l->item[0], "id") != 0)
    e = TT_FAIL(DATA, "%s: the first line is not 'id' and the names of the targets", file);
  if (!e) e = tt_columns_create(l->count - 1, target);
  for (int64_t k = 0; !e && k < target->count; k++) {
    snprintf(made, sizeof made, "y%" PRId64, k);
    e = tt_text_set(&target->name[k], l->item[k + 1]);
    target->given |= strcmp(made, l->item[k + 1]) != 0;
  }
  int64_t T = e ? 0 : target->count / 2;
  while (target->errors < T && !strncmp(target->name[T + target->errors], "sd_", 3) &&
         !strcmp(target->name[T + target->errors] + 3, target->name[target->errors]))
    target->errors++;
  if (!e && (target->errors < T || target->count % 2)) target->errors = 0;
  tt_list_destroy(&l);
  return e;
}

tt_err tt_output_header_read_local(const char *file, tt_columns *target)
{
  char *text = NULL;
  struct stat is;
  if (stat(file, &is)) return TT_FAIL_ERRNO(NOINPUT, "%s", file);
  TT_TRY(tt_alloc_bytes(&text, is.st_size + 1, 1, file));
  tt_err e = tt_file_read_text(file, text, is.st_size + 1);
  if (!e && is.st_size && text[is.st_size - 1] == '\n') text[is.st_size - 1] = '\0';
  if (!e) e = parse_header(file, text, target);
  tt_free(text);
  return e;
}

/* *padded [n][*length]: n texts, padded with NUL to the longest one. */
static tt_err pad_texts(int64_t n, const char *const *text, int64_t *length, char **padded)
{
  *length = 1;
  for (int64_t i = 0; i < n; i++)
    if (text[i] && (int64_t)strlen(text[i]) > *length) *length = (int64_t)strlen(text[i]);
  TT_TRY(tt_alloc_bytes(padded, n * *length, 1, "texts"));
  for (int64_t i = 0; i < n; i++)
    if (text[i]) memcpy(*padded + i * *length, text[i], strlen(text[i]));
  return TT_OK;
}

/* The file keeps its first error. */
static void write_texts(tt_schema *s, int64_t length, const char *padded)
{
  tt_schema_create_dimension(s, "text_strlen", length);
  TT_SCHEMA_WRITE(s, padded, "x_text", CHAR, NULL, "texts of inputs, empty where they are numbers",
                  "feature_name", "id", "feature", "text_strlen");
  (void)tt_h5_write_attr_text(s->file, "x_text", "_Encoding", "utf-8");
}

tt_err tt_oracle_input_write_local(const char *file, int64_t count, const int64_t *id,
                                   const double *x, const char *const *text,
                                   const tt_columns *input, const tt_row_ids *ids)
{
  tt_schema s = {0};
  char *padded = NULL;
  int64_t length = 0, n = count * input->count;
  csv_rows rows = {count, id, x, text, input};
  if (tt_is_csv(file)) return tt_file_print_local(file, write_csv, &rows);
  if (text) TT_TRY(pad_texts(n, text, &length, &padded));
  tt_err e = create_oracle_file(&s, file, count, id, &inputs, input, x, n * length);
  if (!e && text) write_texts(&s, length, padded);
  if (!e) e = tt_schema_write_ids(&s, NULL, "id", ids, NULL);
  if (!e) e = tt_h5_commit(&s.file);
  tt_h5_discard(&s.file);
  tt_free(padded);
  return e;
}
