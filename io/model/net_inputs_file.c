/* net_inputs_file.c — see model_internal.h. */
#include "core/base/mem.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char dimension[] = "network_input";
static const char *const category[] = {TT_CATEGORIES(TT_ROW_NAME)};

const char *tt_net_inputs_dimension(const tt_net_inputs *n)
{
  return tt_net_inputs_are_amounts(n) ? "feature" : dimension;
}

static int64_t longer_of(const char *text, int64_t so_far)
{
  int64_t length = (int64_t)strlen(text);
  return length > so_far ? length : so_far;
}

tt_err tt_net_inputs_table_create(const tt_net_inputs *n, tt_net_inputs_table *out)
{
  *out = (tt_net_inputs_table){.longest = 1};
  if (tt_net_inputs_are_amounts(n)) return TT_OK;
  TT_TRY(TT_ALLOC(out->column, n->count));
  TT_TRY(TT_ALLOC(out->kind, n->count));
  TT_TRY(TT_ALLOC(out->level, n->count));
  TT_TRY(TT_ALLOC(out->level_name, n->count));
  TT_TRY(TT_ALLOC(out->categories, n->columns));
  out->count = n->count;
  for (int64_t i = 0; i < n->count; i++) {
    out->column[i] = n->at[i].column;
    out->kind[i] = (int8_t)n->at[i].kind;
    out->level[i] = n->at[i].kind == TT_NET_INPUT_level ? n->at[i].level : (double)NAN;
    out->level_name[i] = n->at[i].is_text ? n->at[i].name : "";
    out->longest = longer_of(out->level_name[i], out->longest);
  }
  for (int64_t d = 0; d < n->columns; d++) {
    out->categories[d] = category[n->categories[d]];
    out->longest = longer_of(out->categories[d], out->longest);
  }
  return TT_OK;
}

void tt_net_inputs_table_free(tt_net_inputs_table *t)
{
  tt_free_all(&t->column, &t->kind, &t->level, &t->level_name, &t->categories);
}

void tt_net_inputs_write(tt_schema *s, const tt_net_inputs_table *t)
{
  if (!t->count) return;
  tt_schema_create_dimension(s, dimension, t->count);
  TT_SCHEMA_WRITE(s, t->column, "network_input_column", I32, NULL,
                  "input column of each input of the networks, from 0", NULL, "network_input");
  TT_SCHEMA_WRITE(s, t->kind, "network_input_kind", I8, NULL,
                  "what the input of the networks is: the value, 1 at one level, 1 where the value "
                  "is missing",
                  NULL, "network_input");
  tt_schema_write_flags(s, "network_input_kind", TT_NET_INPUT_KINDS, "amount level missing");
  TT_SCHEMA_WRITE(s, t->level, "network_input_level", F64, NULL,
                  "the level; of texts their number; NaN: none", NULL, "network_input");
  tt_schema_write_texts(s, "network_input_level_name", "network_input", "name_strlen",
                        t->level_name, "name of the level, if levels are texts");
  tt_schema_write_texts(s, "scaler/x_categories", "feature", "name_strlen", t->categories,
                        "what happens to a level that no training row has; none: amounts");
}

/* Reading */

/* Arrays of the file as they are read. */
typedef struct net_arrays {
  int64_t columns, count;
  int32_t *column;
  int8_t *kind;
  double *level;
  char **level_name, **categories;
  tt_net_column *of; /* [columns] */
} net_arrays;

static tt_err damaged(tt_h5_reader *r, int64_t column)
{
  return TT_FAIL(DATA, "%s: 'network_input_column' of column %" PRId64 " is not valid" TT_DAMAGED,
                 tt_h5_file_name(r), column);
}

static tt_err read_arrays(tt_h5_reader *r, net_arrays *a)
{
  TT_TRY(TT_ALLOC(a->of, a->columns));
  TT_TRY(
      tt_schema_read_array_local(r, "network_input_column", TT_H5_I32, 1, &a->count, &a->column));
  TT_TRY(tt_schema_read_array_local(r, "network_input_kind", TT_H5_I8, 1, &a->count, &a->kind));
  TT_TRY(tt_schema_read_array_local(r, "network_input_level", TT_H5_F64, 1, &a->count, &a->level));
  TT_TRY(tt_schema_read_texts_local(r, "network_input_level_name", a->count, &a->level_name));
  return tt_schema_read_texts_local(r, "scaler/x_categories", a->columns, &a->categories);
}

static int find_category(const char *name)
{
  for (int k = 0; k < TT_CATEGORIES_COUNT; k++)
    if (!strcmp(name, category[k])) return k;
  return -1;
}

/* Levels from input i on; they ascend, and all or none of them have names. */
static tt_err read_levels(tt_h5_reader *r, const net_arrays *a, int64_t d, int64_t *i)
{
  tt_net_column *c = &a->of[d];
  int64_t first = *i, names = 0;
  c->level = a->level + first;
  for (; *i < a->count && a->column[*i] == d && a->kind[*i] == TT_NET_INPUT_level; ++*i) {
    if (!isfinite(a->level[*i]) || (*i > first && !(a->level[*i] > a->level[*i - 1])))
      return damaged(r, d);
    names += *a->level_name[*i] != '\0';
  }
  c->levels = *i - first;
  if (c->levels < 1 || (names && names != c->levels)) return damaged(r, d);
  if (names) c->text = a->level_name + first;
  return TT_OK;
}

static tt_err read_column(tt_h5_reader *r, const net_arrays *a, int64_t d, int64_t *i)
{
  tt_net_column *c = &a->of[d];
  int categories = find_category(a->categories[d]);
  if (categories < 0)
    return TT_FAIL(DATA,
                   "%s: 'scaler/x_categories' of column %" PRId64
                   " is '%s', which this program does not know",
                   tt_h5_file_name(r), d, a->categories[d]);
  c->categories = (tt_categories)categories;
  if (categories) {
    TT_TRY(read_levels(r, a, d, i));
  } else {
    if (*i >= a->count || a->column[*i] != d || a->kind[*i] != TT_NET_INPUT_amount)
      return damaged(r, d);
    ++*i;
  }
  c->indicator = *i < a->count && a->column[*i] == d && a->kind[*i] == TT_NET_INPUT_missing;
  *i += c->indicator;
  return TT_OK;
}

static tt_err read_all(tt_h5_reader *r, net_arrays *a, tt_net_inputs *out)
{
  int64_t i = 0;
  TT_TRY(read_arrays(r, a));
  for (int64_t d = 0; d < a->columns; d++) TT_TRY(read_column(r, a, d, &i));
  if (i != a->count) return damaged(r, a->columns);
  tt_net_inputs_free(out);
  return tt_net_inputs_create(a->columns, a->of, out);
}

tt_err tt_net_inputs_read_local(tt_h5_reader *r, int64_t columns, int64_t count, tt_net_inputs *out)
{
  net_arrays a = {.columns = columns, .count = count};
  if (!tt_h5_has_local(r, "network_input_column")) {
    if (columns == count) return TT_OK;
    return TT_FAIL(DATA,
                   "%s: the networks have %" PRId64 " inputs, but there are %" PRId64
                   " columns" TT_DAMAGED,
                   tt_h5_file_name(r), count, columns);
  }
  tt_err e = read_all(r, &a, out);
  if (a.level_name) tt_h5_texts_free(count, &a.level_name);
  if (a.categories) tt_h5_texts_free(columns, &a.categories);
  tt_free_all(&a.column, &a.kind, &a.level, &a.of);
  return e;
}
