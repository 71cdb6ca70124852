/* column_choice.c — see column_choice.h. */
#include "io/table/column_choice.h"

#include "core/base/csv.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The columns chosen so far. */
typedef struct choice {
  const tt_column_names *in;
  const tt_column_request *want;
  uint8_t *chosen, *excluded; /* [in->count] */
  int64_t *column;            /* [in->count] in the order of choice */
  int64_t count;
} choice;

static int has_pattern(const char *item) { return strpbrk(item, "*?[") != NULL; }

static const char *group_of(const tt_column_names *in, int64_t k)
{
  return in->group && in->group[k] ? in->group[k] : "";
}

/* Error: "t.csv: data.inputs: there is no column 'heigth'; did you mean 'height'? columns: a, b" */
static tt_err no_match(const choice *c, const char *item, int64_t skipped)
{
  char all[2048];
  size_t used = 0;
  int64_t listed = 0;
  tt_suggestion near = {.word = item};
  for (int64_t i = 0; i < c->in->count; i++) {
    tt_suggestion_consider(&near, c->in->name[i]);
    tt_suggestion_consider(&near, group_of(c->in, i));
  }
  for (; listed < c->in->count; listed++) {
    if (used + strlen(c->in->name[listed]) + 16 > sizeof all) break;
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", listed ? ", " : "",
                             c->in->name[listed]);
  }
  if (!used) all[0] = '\0';
  tt_text_make_printable(all, "");
  const char *hint = c->in->count == 1 && strpbrk(all, " |:")
                         ? "; columns are separated by commas, semicolons or tabs, or as "
                           "data.delimiter says"
                         : "";
  return TT_FAIL(DATA, "%s: %s: %s '%s'; %s%s%scolumns: %s%s%s", c->in->file, c->want->option,
                 skipped             ? "no column that holds numbers and has no other use matches"
                 : has_pattern(item) ? "no column matches"
                                     : "there is no column",
                 item, *near.best ? "did you mean '" : "", near.best, *near.best ? "'? " : "", all,
                 listed < c->in->count ? ", ..." : "", hint);
}

/* How an item matches column k: by its name, its array, or as a pattern. */
typedef enum match { BY_NOTHING, BY_NAME, BY_ARRAY, BY_PATTERN } match;

/* The strongest way in which the item matches any column: a name that looks like a pattern is a
 * name. */
static match kind_of_item(const tt_column_names *in, const char *item)
{
  match kind = BY_NOTHING;
  for (int64_t k = 0; k < in->count; k++) {
    if (!strcmp(in->name[k], item)) return BY_NAME;
    if (!strcmp(group_of(in, k), item)) kind = BY_ARRAY;
  }
  return kind ? kind : has_pattern(item) ? BY_PATTERN : BY_NOTHING;
}

static int matches(const tt_column_names *in, int64_t k, const char *item, match kind)
{
  if (kind == BY_NAME) return !strcmp(in->name[k], item);
  if (kind == BY_ARRAY) return !strcmp(group_of(in, k), item);
  if (kind == BY_NOTHING || !*in->name[k]) return 0;
  return !fnmatch(item, in->name[k], 0) || (*group_of(in, k) && !fnmatch(item, group_of(in, k), 0));
}

static tt_err exclude_item(choice *c, const char *item)
{
  match kind = kind_of_item(c->in, item);
  int64_t found = 0;
  for (int64_t k = 0; k < c->in->count; k++)
    if (matches(c->in, k, item, kind)) c->excluded[k] = 1, found++;
  return found ? TT_OK : no_match(c, item, 0);
}

static tt_err choose_item(choice *c, const char *item)
{
  match kind = kind_of_item(c->in, item);
  int64_t found = 0, skipped = 0;
  for (int64_t k = 0; k < c->in->count; k++) {
    if (!matches(c->in, k, item, kind)) continue;
    if (kind == BY_PATTERN && c->want->in_use && c->want->in_use[k]) {
      skipped++;
      continue;
    }
    found++;
    if (c->excluded[k] || c->chosen[k]) continue;
    c->chosen[k] = 1;
    c->column[c->count++] = k;
  }
  return found ? TT_OK : no_match(c, item, skipped);
}

/* An exclusion; NULL if the item is not one, for example because a column has this name. */
static const char *excluded_item(const tt_column_names *in, const char *item)
{
  return item[0] == '!' && item[1] && kind_of_item(in, item) != BY_NAME ? item + 1 : NULL;
}

static tt_err check_once(const choice *c)
{
  for (int64_t i = 0; i < c->count; i++)
    for (int64_t k = 0; k < c->in->count; k++) {
      int64_t at = c->column[i];
      if (k == at || strcmp(c->in->name[k], c->in->name[at])) continue;
      return TT_FAIL(DATA,
                     "%s: %s: columns %" PRId64 " and %" PRId64
                     " are both named '%s'; rename one of them",
                     c->in->file, c->want->option, (k < at ? k : at) + 1, (k < at ? at : k) + 1,
                     c->in->name[at]);
    }
  if (c->count) return TT_OK;
  return TT_FAIL(DATA, "%s: %s: '%s' leaves no column", c->in->file, c->want->option,
                 c->want->list);
}

static tt_err choose_all(choice *c, const tt_csv *items)
{
  int64_t wanted = 0;
  for (int64_t i = 0; i < items->columns; i++) {
    const char *without = excluded_item(c->in, items->name[i]);
    if (without) TT_TRY(exclude_item(c, without));
    wanted += !without;
  }
  for (int64_t i = 0; i < items->columns; i++)
    if (!excluded_item(c->in, items->name[i])) TT_TRY(choose_item(c, items->name[i]));
  if (!wanted) TT_TRY(choose_item(c, "*"));
  return check_once(c);
}

tt_err tt_columns_choose(const tt_column_names *in, const tt_column_request *want, int64_t **column,
                         int64_t *count)
{
  choice c = {.in = in, .want = want};
  tt_csv *items = NULL;
  tt_err e = tt_csv_parse_list(want->option, want->list, &items);
  if (!e) e = TT_ALLOC(c.chosen, in->count);
  if (!e) e = TT_ALLOC(c.excluded, in->count);
  if (!e) e = TT_ALLOC(c.column, in->count);
  if (!e) e = choose_all(&c, items);
  tt_csv_destroy(&items);
  tt_free_all(&c.chosen, &c.excluded);
  if (e) tt_free(c.column);
  *column = c.column;
  *count = c.count;
  return e;
}

tt_err tt_columns_mark_named(const tt_column_names *in, const char *option, const char *list,
                             uint8_t *in_use)
{
  tt_csv *items = NULL;
  if (!*list) return TT_OK;
  TT_TRY(tt_csv_parse_list(option, list, &items));
  for (int64_t i = 0; i < items->columns; i++) {
    match kind = kind_of_item(in, items->name[i]);
    for (int64_t k = 0; k < in->count; k++)
      if (kind != BY_PATTERN && matches(in, k, items->name[i], kind)) in_use[k] = 1;
  }
  tt_csv_destroy(&items);
  return TT_OK;
}

int tt_column_list_is_pattern(const char *list)
{
  return *list == '!' || *list == '"' || strpbrk(list, ",*?[") != NULL;
}

int tt_column_list_matches(const char *list, const char *name)
{
  tt_csv *items = NULL;
  int found = 0, wanted = 0;
  if (!strcmp(list, name)) return 1;
  if (tt_csv_parse_list("", list, &items)) return 0;
  for (int64_t i = 0; i < items->columns && !found; i++) {
    const char *item = items->name[i];
    if (*item == '!') continue;
    wanted = 1;
    found = !strcmp(item, name) || (has_pattern(item) && !fnmatch(item, name, 0));
  }
  tt_csv_destroy(&items);
  return found || !wanted;
}
