/* csv_cells.c — the cells of a CSV file as numbers, and messages about bad ones; see
 * csv_internal.h. */
#include "io/table/csv_internal.h"

#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { NAME_SHOWN = 100 /* bytes of the name of a column in a hint */ };

static int is_missing(const tt_csv_table *c, const char *text)
{
  if (tt_levels_text_is_missing(text)) return 1;
  for (int64_t i = 0; i < c->nas; i++)
    if (!strcmp(text, c->na[i])) return 1;
  return 0;
}

tt_err tt_csv_bad_cell(const tt_csv_table *c, int64_t line, int64_t column, const char *text,
                       const tt_problem *how)
{
  char place[512];
  tt_problem p = *how;
  if (!c->problems) return TT_FAIL(DATA, "%s:%" PRId64 ": a bad cell", c->table->file, line);
  p.place = place;
  p.number = line;
  p.column = column < 0 ? NULL : c->table->name[column];
  snprintf(place, sizeof place, p.column ? "%s:%" PRId64 ": column '%s'" : "%s:%" PRId64,
           c->table->file, line, p.column);
  p.text = text;
  tt_problems_add(c->problems, &p);
  return TT_OK;
}

static tt_err missing_cell(const tt_csv_table *c, int64_t line, int64_t column, const char *text)
{
  char cure[NAME_SHOWN + 160];
  snprintf(cure, sizeof cure,
           "every input must be given: correct the cell or remove the row; or train with "
           "data.missing: {'%.*s': mean}",
           NAME_SHOWN, c->table->name[column]);
  return tt_csv_bad_cell(
      c, line, column, text,
      &(tt_problem){
          .what = "is a missing value", .cure = cure, .option = "missing", .value = "mean"});
}

static tt_err not_a_number(const tt_csv_table *c, int64_t line, int64_t column, const char *text)
{
  const char *name = c->table->name[column];
  char cure[3 * NAME_SHOWN + 320];
  tt_problem p = {.what = "is not a number", .cure = cure};
  int is_input = c->kind[column] == TT_CELL_NUMBER;
  if (c->kind[column] == TT_CELL_RESULT) {
    p.cure = "write numbers with a decimal point, and nothing where there is no value";
  } else if (c->decimal == '.' && strchr(text, ',') &&
             strspn(text, "+-0123456789,eE") == strlen(text)) {
    p.cure = "write numbers with a decimal point and without commas; or, if commas are decimal "
             "marks, set data.decimal: comma";
    p.option = "decimal";
    p.value = "comma";
  } else if (is_input && tt_date_parse(text, (double[3]){0})) {
    snprintf(cure, sizeof cure,
             "dates such as this one are read with data.dates: ['%.*s']; or leave the column out: "
             "data.inputs: ['*', '!%.*s']",
             NAME_SHOWN, name, NAME_SHOWN, name);
    p.option = "dates";
    p.value = name;
  } else if (tt_text_is_date(text)) {
    snprintf(cure, sizeof cure,
             "write a date or a time as a number: days or seconds since a first one, sine and "
             "cosine of the day of the year; or leave the column out: data.inputs: ['*', '!%.*s']",
             NAME_SHOWN, name);
    p.option = is_input ? "inputs" : NULL;
    p.value = name;
  } else {
    int used = is_input ? snprintf(cure, sizeof cure,
                                   "correct the cell; or leave the column out: data.inputs: ['*', "
                                   "'!%.*s']; or, if its values",
                                   NAME_SHOWN, name)
                        : snprintf(cure, sizeof cure,
                                   "leave the cell empty where there is no value, or add its text "
                                   "to data.na; or, if it is the class of a target: data.classes: "
                                   "{%.*s: [...]} (tutti init writes it); or, if the values of an "
                                   "input",
                                   NAME_SHOWN, name);
    snprintf(cure + used, sizeof cure - (size_t)used, " are levels: data.categories: {%.*s: error}",
             NAME_SHOWN, name);
    p.option = is_input ? "categories" : NULL;
    p.value = "zeros";
  }
  return tt_csv_bad_cell(c, line, column, text, &p);
}

static tt_err parse_level(const tt_csv_table *c, int64_t line, int64_t column, char *text,
                          double *out)
{
  tt_levels *l = c->table->levels[column];
  int64_t number;
  *out = NAN;
  if (is_missing(c, text)) return TT_OK;
  if (!tt_text_is_utf8(text))
    return tt_csv_bad_cell(c, line, column, text,
                           &(tt_problem){.what = "is not UTF-8", .cure = TT_TO_UTF8});
  TT_TRY(tt_levels_find(l, text, &number));
  *out = (double)number;
  if (number >= 0 || l->zeros) return TT_OK;
  tt_err e = tt_levels_unknown_error(l, "", text);
  if (!c->problems) return e;
  return tt_csv_bad_cell(c, line, column, NULL,
                         &(tt_problem){.what = tt_err_last() + 2, .cure = ""});
}

/* A cell that is no plain number: quoted, missing, a truth value, a key, or wrong. */
static tt_err parse_text(const tt_csv_table *c, int64_t line, int64_t column, char *text,
                         double *out)
{
  if (c->kind[column] == TT_CELL_KEY) {
    uint64_t hash = XXH3_64bits(text, strlen(text));
    memcpy(out, &hash, sizeof *out);
    return TT_OK;
  }
  if (c->kind[column] == TT_CELL_LEVEL) return parse_level(c, line, column, text, out);
  const char *after = tt_number_parse(text, c->decimal, out);
  int is_na = is_missing(c, text), is_result = c->kind[column] == TT_CELL_RESULT;
  if (is_na && (is_result || c->kind[column] == TT_CELL_LABEL)) return *out = NAN, TT_OK;
  if (is_result && ((after && !*after) || tt_infinity_parse(text, out))) return TT_OK;
  if (!is_na && after && !*after && isfinite(*out)) return TT_OK;
  if (after && !*after && !is_na)
    return tt_csv_bad_cell(c, line, column, text,
                           &(tt_problem){.what = "is too large", .cure = "use other units"});
  if (is_na) return missing_cell(c, line, column, text);
  if (tt_truth_parse(text, out)) return TT_OK;
  return not_a_number(c, line, column, text);
}

/* The cell [p, end) of a column in use. */
static tt_err parse_cell(const tt_csv_table *c, int64_t line, int64_t column, char *p, char *end,
                         double *out)
{
  if (c->kind[column] == TT_CELL_SEEN) {
    char *text = tt_csv_cell_text(&c->lines, p, end);
    return c->table->see(c->table, line, column, is_missing(c, text), text);
  }
  int is_text = c->kind[column] == TT_CELL_KEY || c->kind[column] == TT_CELL_LEVEL;
  const char *after = c->nas || is_text ? NULL : tt_number_parse(p + (*p == ' '), c->decimal, out);
  if (after == end && isfinite(*out)) return TT_OK;
  return parse_text(c, line, column, tt_csv_cell_text(&c->lines, p, end), out);
}

/* A cell of a column of dates: a value for each of its three columns that is in use. The sine and
 * cosine of a missing date are 0. */
static tt_err parse_date_cell(const tt_csv_table *c, int64_t line, int64_t k, char *p, char *end,
                              double *value)
{
  int is_number = c->kind[k] <= TT_CELL_RESULT;
  double date[3] = {NAN, 0.0, 0.0};
  const int64_t slot[3] = {c->slot[k], c->slot[c->season[k]], c->slot[c->season[k] + 1]};
  if (slot[0] < 0 && slot[1] < 0 && slot[2] < 0) return TT_OK;
  char *text = tt_csv_cell_text(&c->lines, p, end);
  int missing = is_missing(c, text);
  if (!missing && !tt_date_parse(text, date))
    return tt_csv_bad_cell(
        c, line, k, text,
        &(tt_problem){.what = "is not a date",
                      .cure = "write 2024-03-01 or 2024-03-01 12:30, and nothing else, "
                              "in a column of data.dates"});
  for (int i = 0; i < 3; i++)
    if (slot[i] >= 0) value[slot[i]] = date[i];
  if (slot[0] < 0 || (is_number && !missing)) return TT_OK;
  return parse_text(c, line, k, text, &value[slot[0]]);
}

tt_err tt_csv_parse_column(const tt_csv_table *c, int64_t line, int64_t k, char *p, char *end,
                           double *value)
{
  if (c->season[k]) return parse_date_cell(c, line, k, p, end, value);
  return c->slot[k] < 0 ? TT_OK : parse_cell(c, line, k, p, end, &value[c->slot[k]]);
}
