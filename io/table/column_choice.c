/* column_choice.c — see column_choice.h. */
#include "io/table/column_choice.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sorted_name {
  const char *name;
  int64_t column;
} sorted_name;

/* The columns chosen so far. */
typedef struct choice {
  const tt_column_names *in;
  const tt_column_request *want;
  sorted_name *sorted;        /* [in->count] by name, then by column */
  int64_t *found;             /* [in->count] of find_columns */
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
  char all[2048] = "";
  int64_t listed = 0;
  tt_suggestion near = {.word = item};
  for (int64_t i = 0; i < c->in->count; i++) {
    tt_suggestion_consider(&near, c->in->name[i]);
    tt_suggestion_consider(&near, group_of(c->in, i));
  }
  for (; listed < c->in->count; listed++) {
    if (strlen(all) + strlen(c->in->name[listed]) + 16 > sizeof all) break;
    tt_text_append(all, sizeof all, ", ", c->in->name[listed]);
  }
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

/* How an item matches columns: by their name, their array, or as a pattern. */
typedef enum match { BY_NOTHING, BY_NAME, BY_ARRAY, BY_PATTERN } match;

static int compare_names(const void *a, const void *b)
{
  const sorted_name *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->column > y->column) - (x->column < y->column);
}

static tt_err sort_names(choice *c)
{
  TT_TRY(TT_ALLOC(c->sorted, c->in->count));
  for (int64_t k = 0; k < c->in->count; k++) c->sorted[k] = (sorted_name){c->in->name[k], k};
  if (c->in->count) qsort(c->sorted, (size_t)c->in->count, sizeof *c->sorted, compare_names);
  return TT_ALLOC(c->found, c->in->count);
}

static int64_t find_by_name(const choice *c, const char *item)
{
  const sorted_name first = {.name = item, .column = -1};
  int64_t n = 0, count = c->in->count;
  int64_t offset = tt_lower_bound(&first, c->sorted, count, sizeof first, compare_names);
  for (; offset < count && !strcmp(c->sorted[offset].name, item); offset++)
    c->found[n++] = c->sorted[offset].column;
  return n;
}

/* Columns that the item matches in the strongest way, found[] ascending; returns their number. A
 * name that looks like a pattern is a name. */
static int64_t find_columns(const choice *c, const char *item, match *kind)
{
  const tt_column_names *in = c->in;
  int64_t n = find_by_name(c, item);
  *kind = BY_NAME;
  if (n) return n;
  *kind = BY_ARRAY;
  for (int64_t k = 0; k < in->count; k++)
    if (!strcmp(group_of(in, k), item)) c->found[n++] = k;
  if (n) return n;
  *kind = has_pattern(item) ? BY_PATTERN : BY_NOTHING;
  for (int64_t k = 0; *kind && k < in->count; k++)
    if (*in->name[k] && (!fnmatch(item, in->name[k], 0) ||
                         (*group_of(in, k) && !fnmatch(item, group_of(in, k), 0))))
      c->found[n++] = k;
  return n;
}

static tt_err exclude_item(choice *c, const char *item)
{
  match kind;
  int64_t n = find_columns(c, item, &kind);
  for (int64_t i = 0; i < n; i++) c->excluded[c->found[i]] = 1;
  return n ? TT_OK : no_match(c, item, 0);
}

static tt_err choose_item(choice *c, const char *item)
{
  match kind;
  int64_t n = find_columns(c, item, &kind), skipped = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t k = c->found[i];
    int skip = kind == BY_PATTERN && c->want->in_use && c->want->in_use[k];
    skipped += skip;
    if (skip || c->excluded[k] || c->chosen[k]) continue;
    c->chosen[k] = 1;
    c->column[c->count++] = k;
  }
  return n > skipped ? TT_OK : no_match(c, item, skipped);
}

/* An exclusion; NULL if the item is not one, for example because a column has this name. */
static const char *excluded_item(const choice *c, const char *item)
{
  return item[0] == '!' && item[1] && !find_by_name(c, item) ? item + 1 : NULL;
}

static tt_err check_once(const choice *c)
{
  for (int64_t i = 0; i < c->count; i++) {
    const char *name = c->in->name[c->column[i]];
    if (find_by_name(c, name) > 1)
      return TT_FAIL(DATA,
                     "%s: %s: columns %" PRId64 " and %" PRId64
                     " are both named '%s'; rename one of them",
                     c->in->file, c->want->option, c->found[0] + 1, c->found[1] + 1, name);
  }
  if (c->count) return TT_OK;
  return TT_FAIL(DATA, "%s: %s: '%s' leaves no column", c->in->file, c->want->option,
                 c->want->list);
}

static tt_err choose_all(choice *c, const tt_list *items)
{
  int64_t wanted = 0;
  for (int64_t i = 0; i < items->count; i++) {
    const char *without = excluded_item(c, items->item[i]);
    if (without) TT_TRY(exclude_item(c, without));
    wanted += !without;
  }
  for (int64_t i = 0; i < items->count; i++)
    if (!excluded_item(c, items->item[i])) TT_TRY(choose_item(c, items->item[i]));
  if (!wanted) TT_TRY(choose_item(c, "*"));
  return check_once(c);
}

tt_err tt_columns_choose(const tt_column_names *in, const tt_column_request *want, int64_t **column,
                         int64_t *count)
{
  choice c = {.in = in, .want = want};
  tt_list *items = NULL;
  tt_err e = tt_list_parse(want->option, want->list, &items);
  if (!e) e = TT_ALLOC(c.chosen, in->count);
  if (!e) e = TT_ALLOC(c.excluded, in->count);
  if (!e) e = TT_ALLOC(c.column, in->count);
  if (!e) e = sort_names(&c);
  if (!e) e = choose_all(&c, items);
  tt_list_destroy(&items);
  tt_free_all(&c.chosen, &c.excluded, &c.sorted, &c.found);
  if (e) tt_free(c.column);
  *column = c.column;
  *count = c.count;
  return e;
}

tt_err tt_columns_mark_named(const tt_column_names *in, const char *option, const char *list,
                             uint8_t *in_use)
{
  choice c = {.in = in};
  tt_list *items = NULL;
  match kind;
  if (!*list) return TT_OK;
  tt_err e = tt_list_parse(option, list, &items);
  if (!e) e = sort_names(&c);
  for (int64_t i = 0; !e && i < items->count; i++) {
    int64_t n = find_columns(&c, items->item[i], &kind);
    for (int64_t k = 0; kind != BY_PATTERN && k < n; k++) in_use[c.found[k]] = 1;
  }
  tt_list_destroy(&items);
  tt_free_all(&c.sorted, &c.found);
  return e;
}

int tt_column_list_is_pattern(const char *list)
{
  return *list == '!' || *list == '"' || strpbrk(list, ",*?[") != NULL;
}

int tt_column_list_matches(const char *list, const char *name)
{
  tt_list *items = NULL;
  int found = 0, wanted = 0;
  if (!strcmp(list, name)) return 1;
  if (tt_list_parse("", list, &items)) return 0;
  for (int64_t i = 0; i < items->count && !found; i++) {
    const char *item = items->item[i];
    if (*item == '!') continue;
    wanted = 1;
    found = !strcmp(item, name) || (has_pattern(item) && !fnmatch(item, name, 0));
  }
  tt_list_destroy(&items);
  return found || !wanted;
}
