/* table_job.c — see table_job.h. */
#include "src/job/table_job.h"

#include "core/base/directory.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "io/data/data.h"
#include "io/table/column_choice.h"
#include "io/table/facts.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WHY = 256, MOST_LISTED = 1000, CHUNK_ROWS = 4096 };

typedef enum column_use { USE_INPUT, USE_LEFT_OUT, USE_TARGET, USE_OTHER } column_use;
typedef struct table_column {
  column_use use;
  const char *categories, *missing; /* values of these options, or NULL */
  char why[WHY];
} table_column;

typedef struct table_job {
  const tt_table_job_options *o;
  FILE *out;
  tt_table_facts facts;
  table_column *of;  /* [facts.columns] */
  const char *id;    /* column of names of rows, or NULL */
  tt_columns target; /* names */
} table_job;

/* How a column is used */

static const char left_out[] = "left out: ";

static void leave_out(table_column *c, const char *why)
{
  char what[WHY];
  snprintf(what, sizeof what, "%s", c->why);
  c->use = USE_LEFT_OUT;
  snprintf(c->why, WHY, "%s%.120s%s%.100s", left_out, what, *what ? ", " : "", why);
}

static void judge_texts(table_job *j, const tt_column_facts *f, table_column *c, const char *name)
{
  int64_t given = j->facts.rows - f->missing, levels = f->values.count;
  snprintf(c->why, WHY, "texts, %s%" PRId64 " different: '%.40s', ...",
           levels == TT_MAX_LEVELS ? "at least " : "", levels,
           f->values.count ? f->values.text[0] : "");
  c->categories = "zeros";
  c->missing = f->missing ? "indicator" : NULL;
  if (levels == j->facts.rows && !j->id) {
    j->id = name;
    c->use = USE_OTHER;
    snprintf(c->why, WHY, "names the rows: all texts are different");
  } else if ((levels > 20 && 2 * levels > given) || levels == TT_MAX_LEVELS) {
    leave_out(c, "too many for categories");
  }
}

static void judge_numbers(table_job *j, const tt_column_facts *f, table_column *c, const char *name)
{
  snprintf(c->why, WHY, "number, %.5g to %.5g", f->low, f->high);
  c->missing = f->missing ? "mean" : NULL;
  if (f->counts_rows && !j->id) {
    j->id = name;
    c->use = USE_OTHER;
    snprintf(c->why, WHY, "numbers the rows");
  } else if (f->counts_rows) {
    leave_out(c, "numbers the rows");
  }
}

/* Missing cells, and those that will be refused. */
static void add_details(const table_job *j, const tt_column_facts *f, table_column *c)
{
  int64_t wrong = c->categories || c->use == USE_LEFT_OUT ? 0 : f->texts + f->dates;
  char place[80] = "";
  size_t used = strlen(c->why);
  if (f->missing)
    snprintf(c->why + used, WHY - used, "; %.3g %% missing",
             100.0 * (double)f->missing / (double)j->facts.rows);
  if (!wrong) return;
  used = strlen(c->why);
  if (f->text_line)
    snprintf(place, sizeof place, ", first in line %" PRId64 ": '%s'", f->text_line, f->text);
  snprintf(c->why + used, WHY - used, "; WRONG: %" PRId64 " cell%s no number%s", wrong,
           wrong == 1 ? " is" : "s are", place);
}

static void judge(table_job *j, int64_t k)
{
  const tt_column_facts *f = &j->facts.of[k];
  table_column *c = &j->of[k];
  int64_t given = j->facts.rows - f->missing;
  if (2 * f->dates > given) {
    snprintf(c->why, WHY, "dates such as %.40s", f->values.text[0]);
    leave_out(c, "which are no numbers");
  } else if (2 * (f->texts + f->dates) >= given && f->other_mark <= f->numbers && given) {
    judge_texts(j, f, c, j->facts.name[k]);
  } else if (given) {
    judge_numbers(j, f, c, j->facts.name[k]);
  } else {
    leave_out(c, "no values");
  }
  add_details(j, f, c);
  if (given && f->values.count == 1 && c->use == USE_INPUT) leave_out(c, "one value");
}

static tt_err choose(const table_job *j, const char *option, const char *list,
                     const uint8_t *in_use, int64_t **column, int64_t *count)
{
  const tt_column_names names = {j->o->table, j->facts.columns, j->facts.name, NULL};
  const tt_column_request want = {option, list, in_use};
  return tt_columns_choose(&names, &want, column, count);
}

/* Mark the columns of a list; `judged`: columns of other lists keep their use. */
static tt_err mark(table_job *j, const char *option, const char *list, column_use use)
{
  int64_t *column = NULL, count = 0;
  if (!list) return TT_OK;
  TT_TRY(choose(j, option, list, NULL, &column, &count));
  for (int64_t i = 0; i < count; i++) j->of[column[i]].use = use;
  tt_free(column);
  return TT_OK;
}

/* Of inputs that are asked for, none is left out. */
static tt_err use_inputs(table_job *j)
{
  int64_t *column = NULL, count = 0;
  uint8_t *in_use = NULL;
  if (!j->o->inputs) return TT_OK;
  TT_TRY(TT_ALLOC(in_use, j->facts.columns));
  for (int64_t k = 0; k < j->facts.columns; k++)
    in_use[k] = j->of[k].use == USE_TARGET || j->of[k].use == USE_OTHER;
  tt_err e = choose(j, "--inputs", j->o->inputs, in_use, &column, &count);
  for (int64_t k = 0; !e && k < j->facts.columns; k++)
    if (!in_use[k]) j->of[k].use = USE_LEFT_OUT;
  for (int64_t i = 0; i < count; i++) {
    table_column *c = &j->of[column[i]];
    c->use = USE_INPUT;
    if (!strncmp(c->why, left_out, strlen(left_out)))
      memmove(c->why, c->why + strlen(left_out), strlen(c->why) - strlen(left_out) + 1);
  }
  tt_free_all(&column, &in_use);
  return e;
}

static tt_err use_columns(table_job *j)
{
  TT_TRY(TT_ALLOC(j->of, j->facts.columns));
  for (int64_t k = 0; k < j->facts.columns; k++) judge(j, k);
  if (j->o->inputs) j->id = NULL;
  TT_TRY(mark(j, "--group", j->o->group, USE_OTHER));
  TT_TRY(mark(j, "--targets", j->o->targets, USE_TARGET));
  for (int64_t k = 0; k < j->facts.columns; k++)
    if (j->of[k].use == USE_TARGET && j->of[k].categories)
      snprintf(j->of[k].why, WHY, "WRONG: texts; write numbers, of classes 0, 1, ...");
  TT_TRY(use_inputs(j));
  for (int64_t k = 0; k < j->facts.columns; k++)
    if (j->of[k].use == USE_INPUT) return TT_OK;
  return TT_FAIL(DATA, "%s: no column is left that can be an input; name them with --inputs",
                 j->o->table);
}

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
  fputs(j->of[k].use == USE_LEFT_OUT ? "  # - " : "    - ", j->out);
  put_name(j->facts.name[k], j->out);
  int space = width + 6 - (int)(ftell(j->out) - begin);
  fprintf(j->out, "%*s  # %s\n", space > 0 ? space : 0, "", j->of[k].why);
}

/* "  categories: {zone: zeros}" for the columns of this use. */
static void put_mapping(const table_job *j, const char *option, int is_missing)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->facts.columns; k++) {
    const table_column *c = &j->of[k];
    const char *value = is_missing ? c->missing : c->categories;
    if (!value || c->use != USE_INPUT) continue;
    if (n++)
      fputs(", ", j->out);
    else
      fprintf(j->out, "  %s: {", option);
    put_name(j->facts.name[k], j->out);
    fprintf(j->out, ": %s", value);
  }
  if (n) fputs("}\n", j->out);
}

static void put_columns(const table_job *j)
{
  int64_t omitted = 0;
  int width = 0;
  for (int64_t k = 0; k < j->facts.columns; k++) {
    int length = (int)strlen(j->facts.name[k]);
    if (length > width && length <= 32) width = length;
  }
  fputs("  inputs:\n", j->out);
  for (int64_t k = 0; k < j->facts.columns; k++) {
    omitted += j->of[k].use == USE_LEFT_OUT;
    if (j->of[k].use == USE_INPUT || (j->of[k].use == USE_LEFT_OUT && omitted <= MOST_LISTED))
      put_column(j, k, width);
  }
  fputs("  targets:\n", j->out);
  for (int64_t k = 0; k < j->facts.columns; k++)
    if (j->of[k].use == USE_TARGET) put_column(j, k, width);
  put_mapping(j, "categories", 0);
  put_mapping(j, "missing", 1);
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
  const char delimiter[] = {j->facts.delimiter, '\0'};
  put_file(j);
  if (j->facts.delimiter && j->facts.delimiter != ',')
    fprintf(j->out, "  delimiter: %s\n", tt_choice_of_character(delimiter));
  if (j->facts.decimal == ',') fprintf(j->out, "  decimal: comma  # '%s'\n", j->facts.comma_number);
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

/* One ensemble for each target; all targets in one if there are many. */
static void put_ensembles(const table_job *j)
{
  enum { MOST_ENSEMBLES = 16 };
  int64_t count = j->target.count > MOST_ENSEMBLES && !j->o->classes ? 1 : j->target.count;
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
    if (j->o->classes && tt_column_list_matches(j->o->classes, target))
      fputs(", train: {loss: cross_entropy}", j->out);
    fputs("}\n", j->out);
  }
}

static void put_rest(const table_job *j)
{
  if (j->id) {
    fputs("  id: ", j->out);
    put_name(j->id, j->out);
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
  char missing[256] = "", delimiter[] = {j->facts.delimiter, '\0'};
  const tt_levels *l = &j->facts.missing;
  for (int64_t k = 0; k < l->count && strlen(missing) < sizeof missing / 2; k++) {
    tt_text_append(missing, sizeof missing, ", ", *l->text[k] ? "'" : "empty cells");
    if (*l->text[k]) tt_text_append(missing, sizeof missing, "", l->text[k]);
    if (*l->text[k]) tt_text_append(missing, sizeof missing, "", "'");
  }
  int comma = j->facts.decimal == ',';
  tt_log_root(TT_LOG_INFO,
              "%s: %" PRId64 " rows, %" PRId64 " columns; delimiter %s, decimal %s%s; missing "
              "values: %s",
              j->o->table, j->facts.rows, j->facts.columns, tt_choice_of_character(delimiter),
              comma ? "comma: " : "point", comma ? j->facts.comma_number : "",
              *missing ? missing : "none");
}

static tt_err name_targets(table_job *j)
{
  int64_t n = 0;
  for (int64_t k = 0; k < j->facts.columns; k++) n += j->of[k].use == USE_TARGET;
  TT_TRY(tt_columns_create(n, &j->target));
  n = 0;
  for (int64_t k = 0; k < j->facts.columns; k++)
    if (j->of[k].use == USE_TARGET) TT_TRY(tt_text_set(&j->target.name[n++], j->facts.name[k]));
  return check_classes(j);
}

static tt_err no_targets(const table_job *j)
{
  const tt_columns all = {.count = j->facts.columns, .name = j->facts.name};
  char names[1024];
  return TT_FAIL(USAGE, "%s: which columns are the targets? Give --targets with some of: %s",
                 j->o->table, tt_columns_list(&all, names, sizeof names));
}

static tt_err write_csv(table_job *j)
{
  TT_TRY(tt_table_facts_read_local(j->o->table, &j->o->format, &j->facts));
  if (!j->o->targets) return no_targets(j);
  TT_TRY(use_columns(j));
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
  table_job j = {.o = o};
  char *bytes = NULL;
  size_t size = 0;
  j.out = open_memstream(&bytes, &size);
  if (!j.out) return TT_FAIL(MEM, "out of memory for a job");
  tt_err e = write_all(&j);
  if (fclose(j.out) && !e) e = TT_FAIL(MEM, "out of memory for a job");
  if (!e) e = tt_text_set(text, bytes);
  free(bytes);
  tt_table_facts_free(&j.facts);
  tt_columns_free(&j.target);
  tt_free(j.of);
  return e;
}
