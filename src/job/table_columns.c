/* table_columns.c — see table_columns.h. */
#include "src/job/table_columns.h"

#include "core/base/mem.h"
#include "core/model/dataset.h"
#include "io/table/column_choice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char left_out[] = "left out: ";

static void leave_out(tt_table_column *c, const char *why)
{
  char what[TT_WHY];
  snprintf(what, sizeof what, "%s", c->why);
  c->use = TT_USE_LEFT_OUT;
  snprintf(c->why, TT_WHY, "%s%.120s%s%.100s", left_out, what, *what ? ", " : "", why);
}

/* Names rather than categories or classes. */
static int are_too_many(const tt_table_columns *t, const tt_column_facts *f)
{
  int64_t given = t->facts.rows - f->missing, levels = f->values.count;
  return (levels > 20 && 2 * levels > given) || levels == TT_MAX_LEVELS;
}

static void judge_texts(tt_table_columns *t, const tt_column_facts *f, tt_table_column *c,
                        const char *name)
{
  int64_t levels = f->values.count;
  snprintf(c->why, TT_WHY, "texts, %s%" PRId64 " different: '%.40s', ...",
           levels == TT_MAX_LEVELS ? "at least " : "", levels,
           f->values.count ? f->values.text[0] : "");
  c->categories = "zeros";
  c->missing = f->missing ? "indicator" : NULL;
  if (levels == t->facts.rows && !t->id) {
    t->id = name;
    c->use = TT_USE_OTHER;
    snprintf(c->why, TT_WHY, "names the rows: all texts are different");
  } else if (are_too_many(t, f)) {
    leave_out(c, "too many for categories");
  }
}

static void judge_numbers(tt_table_columns *t, const tt_column_facts *f, tt_table_column *c,
                          const char *name)
{
  snprintf(c->why, TT_WHY, "number, %.5g to %.5g", f->low, f->high);
  c->missing = f->missing ? "mean" : NULL;
  if (f->counts_rows && !t->id) {
    t->id = name;
    c->use = TT_USE_OTHER;
    snprintf(c->why, TT_WHY, "numbers the rows");
  } else if (f->counts_rows) {
    leave_out(c, "numbers the rows");
  }
}

/* Missing cells, and those that will be refused. */
static void add_details(const tt_table_columns *t, const tt_column_facts *f, tt_table_column *c)
{
  int64_t wrong =
      c->categories || c->is_date || c->use == TT_USE_LEFT_OUT ? 0 : f->texts + f->dates;
  char place[80] = "";
  size_t used = strlen(c->why);
  if (f->missing)
    snprintf(c->why + used, TT_WHY - used, "; %.3g %% missing",
             100.0 * (double)f->missing / (double)t->facts.rows);
  if (!wrong) return;
  used = strlen(c->why);
  if (f->text_line)
    snprintf(place, sizeof place, ", first in line %" PRId64 ": '%s'", f->text_line, f->text);
  snprintf(c->why + used, TT_WHY - used, "; WRONG: %" PRId64 " cell%s no number%s", wrong,
           wrong == 1 ? " is" : "s are", place);
}

static void judge(tt_table_columns *t, int64_t k)
{
  const tt_column_facts *f = &t->facts.of[k];
  tt_table_column *c = &t->of[k];
  int64_t given = t->facts.rows - f->missing;
  if (given && f->iso_dates == given) {
    snprintf(c->why, TT_WHY, "dates such as %.40s", f->values.text[0]);
    c->is_date = 1;
    c->missing = f->missing ? "mean" : NULL;
  } else if (2 * f->dates > given) {
    snprintf(c->why, TT_WHY, "dates such as %.40s", f->values.text[0]);
    leave_out(c, "which are no numbers");
  } else if (2 * (f->texts + f->dates) >= given && f->other_mark <= f->numbers && given) {
    judge_texts(t, f, c, t->facts.name[k]);
  } else if (given) {
    judge_numbers(t, f, c, t->facts.name[k]);
  } else {
    leave_out(c, "no values");
  }
  add_details(t, f, c);
  if (given && f->values.count == 1 && c->use == TT_USE_INPUT) leave_out(c, "one value");
}

static void judge_classes(tt_table_columns *t, int64_t k)
{
  const tt_levels *l = &t->facts.of[k].values;
  tt_table_column *c = &t->of[k];
  if (t->id == t->facts.name[k]) t->id = NULL;
  c->has_classes = l->count > 1 && !are_too_many(t, &t->facts.of[k]);
  if (c->has_classes)
    snprintf(c->why, TT_WHY, "%" PRId64 " classes", l->count);
  else
    snprintf(c->why, TT_WHY, "WRONG: texts, %s",
             l->count > 1 ? "too many different for classes" : "all equal");
  add_details(t, &t->facts.of[k], c);
}

static tt_err choose(const tt_table_columns *t, const char *option, const char *list,
                     const uint8_t *in_use, int64_t **column, int64_t *count)
{
  const tt_column_names names = {t->table, t->facts.columns, t->facts.name, NULL};
  const tt_column_request want = {option, list, in_use};
  return tt_columns_choose(&names, &want, column, count);
}

/* Mark the columns of a list; `judged`: columns of other lists keep their use. */
static tt_err mark(tt_table_columns *t, const char *option, const char *list, tt_column_use use)
{
  int64_t *column = NULL, count = 0;
  if (!list) return TT_OK;
  TT_TRY(choose(t, option, list, NULL, &column, &count));
  for (int64_t i = 0; i < count; i++) t->of[column[i]].use = use;
  tt_free(column);
  return TT_OK;
}

/* Of inputs that are asked for, none is left out. */
static tt_err use_inputs(tt_table_columns *t)
{
  int64_t *column = NULL, count = 0;
  uint8_t *in_use = NULL;
  if (!t->inputs) return TT_OK;
  TT_TRY(TT_ALLOC(in_use, t->facts.columns));
  for (int64_t k = 0; k < t->facts.columns; k++)
    in_use[k] = t->of[k].use == TT_USE_TARGET || t->of[k].use == TT_USE_OTHER;
  tt_err e = choose(t, "--inputs", t->inputs, in_use, &column, &count);
  for (int64_t k = 0; !e && k < t->facts.columns; k++)
    if (!in_use[k]) t->of[k].use = TT_USE_LEFT_OUT;
  for (int64_t i = 0; i < count; i++) {
    tt_table_column *c = &t->of[column[i]];
    c->use = TT_USE_INPUT;
    if (!strncmp(c->why, left_out, strlen(left_out)))
      memmove(c->why, c->why + strlen(left_out), strlen(c->why) - strlen(left_out) + 1);
  }
  tt_free_all(&column, &in_use);
  return e;
}

tt_err tt_table_columns_use(tt_table_columns *t)
{
  TT_TRY(TT_ALLOC(t->of, t->facts.columns));
  for (int64_t k = 0; k < t->facts.columns; k++) judge(t, k);
  if (t->inputs) t->id = NULL;
  TT_TRY(mark(t, "--group", t->group, TT_USE_OTHER));
  TT_TRY(mark(t, "--by", t->by, TT_USE_OTHER));
  TT_TRY(mark(t, "--targets", t->targets, TT_USE_TARGET));
  for (int64_t k = 0; k < t->facts.columns; k++)
    if (t->of[k].use == TT_USE_TARGET && t->of[k].categories) judge_classes(t, k);
  TT_TRY(use_inputs(t));
  for (int64_t k = 0; k < t->facts.columns; k++)
    if (t->of[k].use == TT_USE_INPUT) return TT_OK;
  return TT_FAIL(DATA, "%s: no column is left that can be an input; name them with --inputs",
                 t->table);
}
