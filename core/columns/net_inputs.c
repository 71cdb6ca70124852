/* net_inputs.c — see net_inputs.h. */
#include "core/columns/net_inputs.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tt_net_column amount = {TT_CATEGORIES_none, 0, 0, NULL, NULL};

static int64_t count_inputs(const tt_net_column *c)
{
  return (c->categories ? c->levels : 1) + (c->indicator != 0);
}

/*   text  NULL: the name is the number, in the fewest digits that give it back */
static tt_err set_name(tt_net_input *i, const char *text)
{
  char number[32];
  i->is_text = text != NULL;
  snprintf(number, sizeof number, "%.15g", i->level);
  if (strtod(number, NULL) != i->level) snprintf(number, sizeof number, "%.17g", i->level);
  return tt_text_set(&i->name, text ? text : number);
}

static tt_err add_column(const tt_net_column *c, int64_t column, tt_net_inputs *n)
{
  int64_t offset = n->first[column], levels = c->categories ? c->levels : 0;
  n->categories[column] = (int8_t)c->categories;
  if (!c->categories)
    n->at[offset++] = (tt_net_input){(int32_t)column, TT_NET_INPUT_amount, 0, 0, NULL};
  for (int64_t k = 0; k < levels; k++) {
    n->at[offset] = (tt_net_input){(int32_t)column, TT_NET_INPUT_level, c->level[k], 0, NULL};
    TT_TRY(set_name(&n->at[offset++], c->text ? c->text[k] : NULL));
  }
  if (c->indicator)
    n->at[offset] = (tt_net_input){(int32_t)column, TT_NET_INPUT_missing, 0, 0, NULL};
  return TT_OK;
}

tt_err tt_net_inputs_create(int64_t columns, const tt_net_column *column, tt_net_inputs *out)
{
  tt_net_inputs n = {.columns = columns};
  tt_err e = TT_ALLOC(n.first, columns + 1);
  if (!e) e = TT_ALLOC(n.categories, columns);
  for (int64_t d = 0; !e && d < columns; d++)
    n.first[d + 1] = n.first[d] + count_inputs(column ? &column[d] : &amount);
  if (!e) e = TT_ALLOC(n.at, n.first[columns]);
  if (!e) n.count = n.first[columns];
  for (int64_t d = 0; !e && d < columns; d++) e = add_column(column ? &column[d] : &amount, d, &n);
  if (e) tt_net_inputs_free(&n);
  *out = n;
  return e;
}

void tt_net_inputs_free(tt_net_inputs *n)
{
  for (int64_t i = 0; n->at && i < n->count; i++) tt_free(n->at[i].name);
  tt_free_all(&n->at, &n->first, &n->categories);
  n->columns = n->count = 0;
}

/* Copy `bytes` bytes to dst + *used, and add their number to *used. With dst NULL nothing is
 * copied: the sum is the size that will be needed. */
static void append(char *dst, int64_t *used, const void *src, size_t bytes)
{
  if (dst) memcpy(dst + *used, src, bytes);
  *used += (int64_t)bytes;
}

int64_t tt_net_inputs_pack(const tt_net_inputs *n, char *bytes)
{
  const int64_t size[2] = {n->columns, n->count};
  int64_t offset = 0;
  append(bytes, &offset, size, sizeof size);
  append(bytes, &offset, n->first, (size_t)(n->columns + 1) * sizeof *n->first);
  append(bytes, &offset, n->categories, (size_t)n->columns);
  for (int64_t i = 0; i < n->count; i++) {
    const tt_net_input *in = &n->at[i];
    const int32_t part[3] = {in->column, in->kind, in->is_text};
    append(bytes, &offset, part, sizeof part);
    append(bytes, &offset, &in->level, sizeof in->level);
    if (in->name) append(bytes, &offset, in->name, strlen(in->name) + 1);
  }
  return offset;
}

static void take(const char *src, int64_t *used, void *dst, size_t bytes)
{
  memcpy(dst, src + *used, bytes);
  *used += (int64_t)bytes;
}

static tt_err take_input(const char *src, int64_t *used, tt_net_input *in)
{
  int32_t part[3];
  take(src, used, part, sizeof part);
  take(src, used, &in->level, sizeof in->level);
  in->column = part[0];
  in->kind = part[1];
  in->is_text = part[2];
  if (in->kind != TT_NET_INPUT_level) return TT_OK;
  TT_TRY(tt_text_set(&in->name, src + *used));
  *used += (int64_t)strlen(in->name) + 1;
  return TT_OK;
}

tt_err tt_net_inputs_unpack(const char *bytes, tt_net_inputs *out, int64_t *used)
{
  int64_t size[2], filled = 0;
  take(bytes, &filled, size, sizeof size);
  tt_net_inputs n = {.columns = size[0]};
  tt_err e = TT_ALLOC(n.first, n.columns + 1);
  if (!e) e = TT_ALLOC(n.categories, n.columns);
  if (!e) e = TT_ALLOC(n.at, size[1]);
  if (!e) {
    n.count = size[1];
    take(bytes, &filled, n.first, (size_t)(n.columns + 1) * sizeof *n.first);
    take(bytes, &filled, n.categories, (size_t)n.columns);
  }
  for (int64_t i = 0; !e && i < n.count; i++) e = take_input(bytes, &filled, &n.at[i]);
  if (e)
    tt_net_inputs_free(&n);
  else
    *out = n;
  *used = filled;
  return e;
}

tt_err tt_net_inputs_copy(const tt_net_inputs *src, tt_net_inputs *out)
{
  char *bytes = NULL;
  int64_t used;
  TT_TRY(tt_alloc_bytes(&bytes, tt_net_inputs_pack(src, NULL), 1, "the inputs of a network"));
  tt_net_inputs_pack(src, bytes);
  tt_err e = tt_net_inputs_unpack(bytes, out, &used);
  tt_free(bytes);
  return e;
}

int tt_net_inputs_are_amounts(const tt_net_inputs *n)
{
  for (int64_t i = 0; i < n->count; i++)
    if (n->at[i].kind != TT_NET_INPUT_amount) return 0;
  return 1;
}

int tt_net_inputs_are_same(const tt_net_inputs *a, const tt_net_inputs *b)
{
  if (a->columns != b->columns || a->count != b->count) return 0;
  for (int64_t i = 0; i < a->count; i++) {
    const tt_net_input *x = &a->at[i], *y = &b->at[i];
    if (x->column != y->column || x->kind != y->kind || x->level != y->level) return 0;
    if (x->is_text != y->is_text || (x->name && strcmp(x->name, y->name) != 0)) return 0;
  }
  return 1;
}

int tt_net_inputs_is_category(const tt_net_inputs *n, int64_t column)
{
  return n->categories[column] != TT_CATEGORIES_none;
}

int64_t tt_net_inputs_levels(const tt_net_inputs *n, int64_t column)
{
  int64_t all = n->first[column + 1] - n->first[column];
  if (!tt_net_inputs_is_category(n, column)) return 0;
  return all - tt_net_inputs_has_indicator(n, column);
}

int tt_net_inputs_levels_are_texts(const tt_net_inputs *n, int64_t column)
{
  return tt_net_inputs_levels(n, column) > 0 && n->at[n->first[column]].is_text;
}

int tt_net_inputs_has_indicator(const tt_net_inputs *n, int64_t column)
{
  int64_t last = n->first[column + 1] - 1;
  return last >= n->first[column] && n->at[last].kind == TT_NET_INPUT_missing;
}

int tt_net_inputs_has_level(const tt_net_inputs *n, int64_t column, double value)
{
  for (int64_t i = n->first[column]; i < n->first[column + 1]; i++)
    if (n->at[i].kind == TT_NET_INPUT_level && n->at[i].level == value) return 1;
  return 0;
}

const char *tt_net_inputs_text(const tt_net_inputs *n, int64_t column, double value)
{
  for (int64_t i = n->first[column]; i < n->first[column + 1]; i++)
    if (n->at[i].is_text && n->at[i].level == value) return n->at[i].name;
  return NULL;
}

const char *tt_net_input_name(const tt_net_input *i, const char *name, char *text, size_t capacity)
{
  if (i->kind == TT_NET_INPUT_level)
    snprintf(text, capacity, "%s=%s", name, i->name);
  else
    snprintf(text, capacity, "%s%s", name, i->kind == TT_NET_INPUT_missing ? " is missing" : "");
  return text;
}

const char *tt_net_inputs_list_levels(const tt_net_inputs *n, int64_t column, char *text,
                                      size_t capacity)
{
  int64_t first = n->first[column], levels = tt_net_inputs_levels(n, column);
  text[0] = '\0';
  for (int64_t k = 0; k < levels; k++) {
    const char *name = n->at[first + k].name;
    int fits = strlen(text) + strlen(name) + 8 <= capacity;
    tt_text_append(text, capacity, ", ", fits ? name : "...");
    if (!fits) break;
  }
  return text;
}
