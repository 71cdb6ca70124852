/* facts.c — see facts.h. */
#include "io/table/facts.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/formulas/categories.h"
#include "io/table/table_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers of a column that are read with a decimal mark of one kind. */
enum { POINT, COMMA, MARKS };
static const char mark[MARKS] = {'.', ','};
typedef struct mark_facts {
  int64_t numbers;
  double low, high;
} mark_facts;

typedef struct facts_scan {
  tt_table_facts *f;
  mark_facts (*of)[MARKS]; /* [columns] */
  int64_t only[MARKS];     /* numbers that only this mark can read */
} facts_scan;

static void add_number(mark_facts *m, double v)
{
  m->low = m->numbers ? fmin(m->low, v) : v;
  m->high = m->numbers ? fmax(m->high, v) : v;
  m->numbers++;
}

/* Whether the number is the next one of 0, 1, 2, ... or 1, 2, 3, ... */
static int counts(const mark_facts *m, double v)
{
  return m->numbers ? v == m->high + 1 : v == 0 || v == 1;
}

static int add_if_number(facts_scan *s, int64_t column, const char *text)
{
  double v[MARKS];
  int is[MARKS];
  tt_column_facts *c = &s->f->of[column];
  for (int k = 0; k < MARKS; k++) {
    const char *after = tt_number_parse(text, mark[k], &v[k]);
    is[k] = (after && !*after && isfinite(v[k])) || tt_truth_parse(text, &v[k]);
    if (!is[k]) continue;
    c->counts_rows &= counts(&s->of[column][k], v[k]);
    add_number(&s->of[column][k], v[k]);
  }
  for (int k = 0; k < MARKS; k++) s->only[k] += is[k] && !is[!k];
  if (is[COMMA] && !is[POINT] && !*s->f->comma_number)
    snprintf(s->f->comma_number, sizeof s->f->comma_number, "%s", text);
  return is[POINT] || is[COMMA];
}

static tt_err see(tt_table *t, int64_t line, int64_t column, int is_missing, char *text)
{
  facts_scan *s = t->seen;
  int64_t number;
  tt_column_facts *c = &s->f->of[column];
  c->texts++;
  if (is_missing) {
    c->missing++;
    return tt_levels_find(&s->f->missing, text, &number);
  }
  int is_number = add_if_number(s, column, text);
  if (!is_number) {
    int is_date = tt_text_is_date(text);
    c->counts_rows = 0;
    c->dates += is_date;
    c->iso_dates += tt_date_parse(text, (double[3]){0});
    if (!is_date && !c->text_line) {
      c->text_line = line;
      snprintf(c->text, sizeof c->text, "%s", text);
      tt_text_make_printable(c->text, "");
    }
  }
  if (c->values.count >= (is_number ? 2 : TT_MAX_LEVELS)) return TT_OK;
  return tt_levels_find(&c->values, text, &number);
}

static tt_err read_cells(tt_table *t, facts_scan *s)
{
  int64_t *column = NULL;
  double *value = NULL;
  TT_TRY(TT_ALLOC(column, t->columns));
  t->see = see;
  t->seen = s;
  tt_err e = TT_OK;
  for (int64_t k = 0; !e && k < t->columns; k++)
    column[k] = k, e = tt_table_use_local(t, k, TT_CELL_SEEN);
  if (!e) e = TT_ALLOC(value, t->rows_at_once * t->columns);
  for (int64_t first = 0; !e && first < s->f->rows; first += t->rows_at_once) {
    int64_t n = s->f->rows - first < t->rows_at_once ? s->f->rows - first : t->rows_at_once;
    e = tt_table_read_local(t, first, n, t->columns, column, value);
  }
  tt_free_all(&column, &value);
  return e;
}

static void decide(const facts_scan *s, char decimal)
{
  tt_table_facts *f = s->f;
  int comma = decimal ? decimal == ',' : f->delimiter != ',' && s->only[COMMA] > s->only[POINT];
  f->decimal = comma ? ',' : '.';
  for (int64_t k = 0; k < f->columns; k++) {
    tt_column_facts *c = &f->of[k];
    const mark_facts *m = &s->of[k][comma ? COMMA : POINT];
    c->numbers = m->numbers;
    c->other_mark = s->of[k][comma ? POINT : COMMA].numbers;
    c->low = m->low;
    c->high = m->high;
    c->texts -= c->missing + c->numbers + c->dates; /* of all cells */
    c->counts_rows &= c->numbers == f->rows;
  }
}

static tt_err read_all(tt_table *t, facts_scan *s, char decimal)
{
  tt_table_facts *f = s->f;
  f->columns = t->columns;
  f->rows = t->marks.rows;
  f->delimiter = t->delimiter;
  f->missing.learns = 1;
  TT_TRY(TT_ALLOC(f->of, t->columns));
  TT_TRY(TT_ALLOC(f->name, t->columns));
  TT_TRY(TT_ALLOC(s->of, t->columns));
  for (int64_t k = 0; k < t->columns; k++) {
    f->of[k].values.learns = f->of[k].counts_rows = 1;
    TT_TRY(tt_text_set(&f->name[k], t->name[k]));
  }
  TT_TRY(read_cells(t, s));
  decide(s, decimal);
  return TT_OK;
}

tt_err tt_table_facts_read_local(const char *file, const tt_table_format *format,
                                 tt_table_facts *out)
{
  tt_table *t = NULL;
  facts_scan s = {.f = out};
  *out = (tt_table_facts){0};
  TT_TRY(tt_table_open_local(file, format, &t));
  tt_err e = read_all(t, &s, format->decimal);
  tt_free(s.of);
  tt_table_close_local(&t);
  return e;
}

void tt_table_facts_free(tt_table_facts *f)
{
  for (int64_t k = 0; k < f->columns; k++) {
    if (f->name) tt_free(f->name[k]);
    if (f->of) tt_levels_free(&f->of[k].values);
  }
  tt_levels_free(&f->missing);
  tt_free_all(&f->name, &f->of);
}
