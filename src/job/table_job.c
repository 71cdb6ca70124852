/* tt_table_job.c — see table_job.h. */
#include "src/job/table_job.h"

#include "core/base/directory.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "io/data/data.h"
#include "io/table/column_choice.h"
#include "src/job/table_columns.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_LISTED = 1000, CHUNK_ROWS = 4096 };

typedef struct table_job {
  const tt_table_job_options *o;
  FILE *out;
  tt_table_columns columns;
  tt_columns target; /* names */
} table_job;

/* The text */

static void put_name(const char *name, FILE *out)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./";
  static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-/";
  int plain = *name && strchr(letters, *name) && strspn(name, others) == strlen(name);
  if (plain && strcasecmp(name, "null"))
    fputs(name, out);
  else
    tt_yaml_write_text(name, out);
}

static void put_column(const table_job *j, int64_t k, int width)
{
  long begin = ftell(j->out);
  fputs(j->columns.of[k].use == TT_USE_LEFT_OUT ? "  # - " : "    - ", j->out);
  put_name(j->columns.facts.name[k], j->out);
  int space = width + 6 - (int)(ftell(j->out) - begin);
  fprintf(j->out, "%*s  # %s\n", space > 0 ? space : 0, "", j->columns.of[k].why);
  if (!j->columns.of[k].is_date || j->columns.of[k].use != TT_USE_INPUT) return;
  for (int i = 0; i < 2; i++) {
    char name[1024];
    snprintf(name, sizeof name, "%.1000s.%s", j->columns.facts.name[k], i ? "cos" : "sin");
    fputs("    - ", j->out);
    put_name(name, j->out);
    fputs("  # of the time of the year\n", j->out);
  }
}

/* "  dates: [since]" for the inputs that are dates. */
static void put_dates(const table_job *j)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++) {
    if (!j->columns.of[k].is_date || j->columns.of[k].use != TT_USE_INPUT) continue;
    fputs(n++ ? ", " : "  dates: [", j->out);
    put_name(j->columns.facts.name[k], j->out);
  }
  if (n) fputs("]\n", j->out);
}

/* "  categories: {zone: zeros}" for the columns of this use. */
static void put_mapping(const table_job *j, const char *option, int is_missing)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++) {
    const tt_table_column *c = &j->columns.of[k];
    const char *value = is_missing ? c->missing : c->categories;
    if (!value || c->use != TT_USE_INPUT) continue;
    if (n++)
      fputs(", ", j->out);
    else
      fprintf(j->out, "  %s: {", option);
    put_name(j->columns.facts.name[k], j->out);
    fprintf(j->out, ": %s", value);
  }
  if (n) fputs("}\n", j->out);
}

/* "  classes: {species: [setosa, virginica]}", in the order of the texts. */
static void put_classes(const table_job *j)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++) {
    const tt_levels *l = &j->columns.facts.of[k].values;
    if (j->columns.of[k].use != TT_USE_TARGET || !j->columns.of[k].has_classes) continue;
    fputs(n++ ? ", " : "  classes: {", j->out);
    put_name(j->columns.facts.name[k], j->out);
    for (int64_t i = 0; i < l->count; i++) {
      fputs(i ? ", " : ": [", j->out);
      tt_yaml_write_text(l->text[l->sorted[i]], j->out);
    }
    fputc(']', j->out);
  }
  if (n) fputs("}\n", j->out);
}

static void put_columns(const table_job *j)
{
  int64_t omitted = 0;
  int width = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++) {
    int length = (int)strlen(j->columns.facts.name[k]);
    if (length > width && length <= 32) width = length;
  }
  fputs("  inputs:\n", j->out);
  for (int64_t k = 0; k < j->columns.facts.columns; k++) {
    omitted += j->columns.of[k].use == TT_USE_LEFT_OUT;
    if (j->columns.of[k].use == TT_USE_INPUT ||
        (j->columns.of[k].use == TT_USE_LEFT_OUT && omitted <= MOST_LISTED))
      put_column(j, k, width);
  }
  fputs("  targets:\n", j->out);
  for (int64_t k = 0; k < j->columns.facts.columns; k++)
    if (j->columns.of[k].use == TT_USE_TARGET) put_column(j, k, width);
  put_dates(j);
  put_mapping(j, "categories", 0);
  put_mapping(j, "missing", 1);
  put_classes(j);
}

/* The path of the table in the job: "../t.csv" where the run has a directory beside the table. */
static void put_file(const table_job *j)
{
  char path[PATH_MAX];
  const char *slash = j->o->file ? strrchr(j->o->file, '/') : NULL, *table = j->o->table;
  int is_below =
      slash && slash > j->o->file && !memchr(j->o->file, '/', (size_t)(slash - j->o->file));
  if (is_below && !strchr(table, '/') && *j->o->file != '.')
    snprintf(path, sizeof path, "../%s", table);
  else if (!j->o->file || !realpath(table, path))
    snprintf(path, sizeof path, "%s", table);
  fputs("  file: ", j->out);
  put_name(path, j->out);
  fputc('\n', j->out);
}

static void put_format(const table_job *j)
{
  const char delimiter[] = {j->columns.facts.delimiter, '\0'};
  put_file(j);
  if (j->columns.facts.delimiter && j->columns.facts.delimiter != ',')
    fprintf(j->out, "  delimiter: %s\n", tt_choice_of_character(delimiter));
  if (j->columns.facts.decimal == ',')
    fprintf(j->out, "  decimal: comma  # '%s'\n", j->columns.facts.comma_number);
  for (int64_t i = 0; i < j->o->format.nas; i++) {
    fputs(i ? ", " : "  na: [", j->out);
    tt_yaml_write_text(j->o->format.na[i], j->out);
    if (i + 1 == j->o->format.nas) fputs("]\n", j->out);
  }
}

/* A name of an ensemble, from that of its target. */
static void make_name(const char *target, int64_t number, char name[64])
{
  snprintf(name, 56, "%s", target);
  for (char *c = name; *c; c++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-.", *c)) *c = '_';
  if (strcmp(name, target)) {
    size_t used = strlen(name);
    snprintf(name + used, 64 - used, "_%" PRId64, number);
  }
}

static int is_class(const table_job *j, const char *target)
{
  for (int64_t k = 0; j->columns.of && k < j->columns.facts.columns; k++)
    if (j->columns.of[k].has_classes && !strcmp(j->columns.facts.name[k], target)) return 1;
  return j->o->classes && tt_column_list_matches(j->o->classes, target);
}

/* One ensemble for each target; all targets in one if there are many. */
static void put_ensembles(const table_job *j)
{
  enum { MOST_ENSEMBLES = 16 };
  int64_t count = j->target.count > MOST_ENSEMBLES ? 1 : j->target.count;
  for (int64_t k = 0; k < j->target.count; k++)
    if (is_class(j, j->target.name[k])) count = j->target.count;
  if (j->o->by) count = 1; /* of each group */
  fputs("ensembles:\n", j->out);
  for (int64_t k = 0; k < count; k++) {
    const char *target = j->target.name[k];
    char name[64] = "all";
    if (count == j->target.count) make_name(target, k, name);
    fprintf(j->out, "  - {name: %s", name);
    if (count == j->target.count) {
      fputs(", target: ", j->out);
      put_name(target, j->out);
    }
    if (j->o->members) fprintf(j->out, ", members: %d", j->o->members);
    if (is_class(j, target)) fputs(", train: {loss: cross_entropy}", j->out);
    fputs("}\n", j->out);
  }
}

static void put_by(const table_job *j)
{
  tt_list *columns = NULL;
  if (!j->o->by || tt_list_parse("--by", j->o->by, &columns)) return;
  for (int64_t i = 0; i < columns->count; i++) {
    fputs(i ? ", " : "by: [", j->out);
    put_name(columns->item[i], j->out);
  }
  fputs("]\n", j->out);
  tt_list_destroy(&columns);
}

static void put_rest(const table_job *j)
{
  if (j->columns.id) {
    fputs("  id: ", j->out);
    put_name(j->columns.id, j->out);
    fputc('\n', j->out);
  }
  int folded = j->o->search && j->o->folds != 1; /* all rows but those of the test have a fold */
  if (j->o->group || folded) fputs("  split: {", j->out);
  if (folded) fputs("train: 0.9, validation: 0, test: 0.1", j->out);
  if (j->o->group) {
    fputs(folded ? ", group: " : "group: ", j->out);
    put_name(j->o->group, j->out);
  }
  if (j->o->group || folded) fputs("}\n", j->out);
  put_by(j);
  put_ensembles(j);
  if (j->o->search) fprintf(j->out, "search: %s\n", j->o->search);
  if (j->o->epochs) fprintf(j->out, "train: {epochs: %d}\n", j->o->epochs);
  fputs("run: {directory: ", j->out);
  put_name(j->o->directory, j->out);
  fputs("}\n", j->out);
}

static tt_err check_classes(const table_job *j)
{
  tt_list *list = NULL;
  if (!j->o->classes) return TT_OK;
  TT_TRY(tt_list_parse("--classes", j->o->classes, &list));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < list->count; i++) {
    int found = 0;
    for (int64_t k = 0; k < j->target.count; k++)
      found |= tt_column_list_matches(list->item[i], j->target.name[k]);
    if (!found) e = TT_FAIL(USAGE, "--classes: '%s' is none of the targets", list->item[i]);
  }
  tt_list_destroy(&list);
  return e;
}

/* CSV files */

static void log_table(const table_job *j)
{
  char missing[256] = "", delimiter[] = {j->columns.facts.delimiter, '\0'};
  const tt_levels *l = &j->columns.facts.missing;
  for (int64_t k = 0; k < l->count && strlen(missing) < sizeof missing / 2; k++) {
    tt_text_append(missing, sizeof missing, ", ", *l->text[k] ? "'" : "empty cells");
    if (*l->text[k]) tt_text_append(missing, sizeof missing, "", l->text[k]);
    if (*l->text[k]) tt_text_append(missing, sizeof missing, "", "'");
  }
  int comma = j->columns.facts.decimal == ',';
  tt_log_root(TT_LOG_INFO,
              "%s: %" PRId64 " rows, %" PRId64 " columns; delimiter %s, decimal %s%s; missing "
              "values: %s",
              j->o->table, j->columns.facts.rows, j->columns.facts.columns,
              tt_choice_of_character(delimiter), comma ? "comma: " : "point",
              comma ? j->columns.facts.comma_number : "", *missing ? missing : "none");
}

static tt_err name_targets(table_job *j)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++) n += j->columns.of[k].use == TT_USE_TARGET;
  TT_TRY(tt_columns_create(n, &j->target));
  n = 0;
  for (int64_t k = 0; k < j->columns.facts.columns; k++)
    if (j->columns.of[k].use == TT_USE_TARGET)
      TT_TRY(tt_text_set(&j->target.name[n++], j->columns.facts.name[k]));
  return check_classes(j);
}

static tt_err no_targets(const table_job *j)
{
  const tt_columns all = {.count = j->columns.facts.columns, .name = j->columns.facts.name};
  char names[1024];
  return TT_FAIL(USAGE, "%s: which columns are the targets? Give --targets with some of: %s",
                 j->o->table, tt_columns_list(&all, names, sizeof names));
}

static tt_err write_csv(table_job *j)
{
  TT_TRY(tt_table_facts_read_local(j->o->table, &j->o->format, &j->columns.facts));
  if (!j->o->targets) return no_targets(j);
  TT_TRY(tt_table_columns_use(&j->columns));
  TT_TRY(name_targets(j));
  log_table(j);
  put_format(j);
  put_columns(j);
  put_rest(j);
  return TT_OK;
}

/* Other files */

typedef struct number_facts {
  int64_t missing;
  double low, high;
} number_facts;

static tt_err read_numbers(tt_data_reader *r, int64_t columns, number_facts *of)
{
  const tt_data_shape *s = tt_data_reader_shape(r);
  double *x = NULL;
  tt_err e = TT_ALLOC(x, CHUNK_ROWS * columns);
  for (int64_t first = 0; !e && first < s->rows; first += CHUNK_ROWS) {
    int64_t count = s->rows - first < CHUNK_ROWS ? s->rows - first : CHUNK_ROWS;
    e = tt_data_reader_read_local(r, first, count, x, NULL);
    for (int64_t i = 0; !e && i < count * columns; i++) {
      number_facts *f = &of[i % columns];
      f->missing += isnan(x[i]) != 0;
      f->low = fmin(f->low, x[i]);
      f->high = fmax(f->high, x[i]);
    }
  }
  tt_free(x);
  return e;
}

static tt_err describe_numbers(table_job *j, tt_data_reader *r)
{
  const tt_data_shape *s = tt_data_reader_shape(r);
  number_facts *of = NULL;
  int64_t missing = 0;
  TT_TRY(TT_ALLOC(of, s->inputs));
  for (int64_t k = 0; k < s->inputs; k++) of[k] = (number_facts){0, INFINITY, -INFINITY};
  tt_err e = read_numbers(r, s->inputs, of);
  for (int64_t k = 0; !e && k < s->inputs; k++) {
    missing += of[k].missing;
    if (k < MOST_LISTED)
      fprintf(j->out, "  # input %s: %.5g to %.5g, %.3g %% missing\n", s->input.name[k], of[k].low,
              of[k].high, 100.0 * (double)of[k].missing / (double)s->rows);
  }
  if (missing) fputs("  missing: mean\n", j->out);
  tt_free(of);
  return e;
}

static tt_err write_numbers(table_job *j)
{
  tt_data_reader *r = NULL;
  const char *targets = j->o->targets ? j->o->targets : "y";
  const tt_data_spec spec = {.file = j->o->table,
                             .inputs = j->o->inputs ? j->o->inputs : "x",
                             .targets = targets,
                             .missing_inputs = 1};
  TT_TRY(tt_data_reader_open_spec_local(&spec, &r));
  put_file(j);
  if (j->o->inputs) {
    fputs("  inputs: ", j->out);
    tt_yaml_write_text(j->o->inputs, j->out);
    fputc('\n', j->out);
  }
  fputs("  targets: ", j->out);
  tt_yaml_write_text(targets, j->out);
  fputc('\n', j->out);
  tt_err e = describe_numbers(j, r);
  if (!e) e = tt_columns_copy(&tt_data_reader_shape(r)->target, &j->target);
  if (!e) e = check_classes(j);
  if (!e) put_rest(j);
  tt_data_reader_close_local(&r);
  return e;
}

int tt_table_job_is_table(const char *file)
{
  char head[8] = "";
  if (tt_table_is_table(file) || tt_text_ends_in(file, ".h5") || tt_text_ends_in(file, ".nc"))
    return 1;
  if (tt_text_ends_in(file, ".yaml") || tt_text_ends_in(file, ".yml") ||
      tt_text_ends_in(file, ".json"))
    return 0;
  FILE *f = fopen(file, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return n == sizeof head && !memcmp(head, "\x89HDF\r\n\x1a\n", sizeof head);
}

static tt_err write_all(table_job *j)
{
  int is_array = tt_text_ends_in(j->o->table, ".npy") || tt_text_ends_in(j->o->table, ".npz");
  fprintf(j->out, "# Made by: %s\n# Every line can be changed; tutti options explains them.\n",
          j->o->command);
  fputs("data:\n", j->out);
  return tt_table_is_table(j->o->table) && !is_array ? write_csv(j) : write_numbers(j);
}

tt_err tt_table_job_write_local(const tt_table_job_options *o, char **text)
{
  table_job j = {.o = o,
                 .columns = {.table = o->table,
                             .inputs = o->inputs,
                             .targets = o->targets,
                             .group = o->group,
                             .by = o->by}};
  char *bytes = NULL;
  size_t size = 0;
  j.out = open_memstream(&bytes, &size);
  if (!j.out) return TT_FAIL(MEM, "out of memory for a job");
  tt_err e = write_all(&j);
  if (fclose(j.out) && !e) e = TT_FAIL(MEM, "out of memory for a job");
  if (!e) e = tt_text_set(text, bytes);
  free(bytes);
  tt_table_facts_free(&j.columns.facts);
  tt_columns_free(&j.target);
  tt_free(j.columns.of);
  return e;
}
