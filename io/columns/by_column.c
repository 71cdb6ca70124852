/* by_column.c — see by_column.h. */
#include "io/columns/by_column.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "io/table/column_choice.h"

#include <string.h>

int tt_by_column_is_mapping(const char *text) { return text && strchr(text, ':') != NULL; }

static int find_choice(const tt_by_column *o, const char *word, size_t length)
{
  for (int i = 0; o->choices[i]; i++)
    if (strlen(o->choices[i]) == length && !strncmp(o->choices[i], word, length)) return i;
  return o->otherwise;
}

static int is_name(const tt_column_names *in, const char *item)
{
  for (int64_t k = 0; k < in->count; k++)
    if (!strcmp(in->name[k], item)) return 1;
  return 0;
}

/* Set the columns that the pair "choice:column" names. */
static tt_err apply_pair(const tt_by_column *o, const tt_column_names *in, const char *pair,
                         int8_t *dst)
{
  size_t length = strcspn(pair, ":");
  char *list = NULL;
  int64_t *column = NULL, count = 0;
  TT_TRY(tt_list_add(&list, pair + length + 1));
  const tt_column_request want = {.option = o->option, .list = list};
  tt_err e = tt_columns_choose(in, &want, &column, &count);
  for (int64_t i = 0; !e && i < count; i++) dst[column[i]] = (int8_t)find_choice(o, pair, length);
  tt_free(column);
  tt_free(list);
  return e;
}

/* Patterns from the last to the first, then names: what has priority is set last. */
static tt_err apply_mapping(const tt_by_column *o, const tt_column_names *in, const tt_list *pairs,
                            int8_t *dst)
{
  for (int names = 0; names <= 1; names++)
    for (int64_t i = pairs->count - 1; i >= 0; i--) {
      const char *pair = pairs->item[i];
      if (is_name(in, pair + strcspn(pair, ":") + 1) == names) TT_TRY(apply_pair(o, in, pair, dst));
    }
  return TT_OK;
}

static tt_err resolve(const tt_by_column *o, const tt_column_names *in, int8_t *dst)
{
  tt_list *pairs = NULL;
  int mapping = tt_by_column_is_mapping(o->text), given = o->text && *o->text;
  int all = given && !mapping ? find_choice(o, o->text, strlen(o->text)) : o->otherwise;
  for (int64_t k = 0; k < in->count; k++) dst[k] = (int8_t)all;
  if (!mapping) return TT_OK;
  TT_TRY(tt_list_parse(o->option, o->text, &pairs));
  tt_err e = apply_mapping(o, in, pairs, dst);
  tt_list_destroy(&pairs);
  return e;
}

tt_err tt_by_column_resolve(const tt_by_column *o, const char *file, const tt_columns *a,
                            const tt_columns *b, int8_t *to_a, int8_t *to_b)
{
  int64_t more = b ? b->count : 0;
  char **name = NULL;
  int8_t *dst = NULL;
  tt_err e = TT_ALLOC(name, a->count + more);
  if (!e) e = TT_ALLOC(dst, a->count + more);
  if (!e) {
    for (int64_t k = 0; k < a->count; k++) name[k] = a->name[k];
    for (int64_t k = 0; k < more; k++) name[a->count + k] = b->name[k];
    const tt_column_names in = {.file = file, .count = a->count + more, .name = name};
    e = resolve(o, &in, dst);
  }
  if (!e) memcpy(to_a, dst, (size_t)a->count);
  if (!e && more) memcpy(to_b, dst + a->count, (size_t)more);
  tt_free(name);
  tt_free(dst);
  return e;
}
