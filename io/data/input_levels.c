/* input_levels.c — columns of levels and of classes while a file is read; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "io/columns/by_column.h"

#include <math.h>
#include <string.h>

int tt_data_has_categories(const tt_config *cfg)
{
  return cfg->data_categories && *cfg->data_categories &&
         strcmp(cfg->data_categories, tt_choice_categories[TT_CATEGORIES_none]) != 0;
}

int tt_data_names_category(const char *categories, const char *column)
{
  tt_list *pairs = NULL;
  int found = 0;
  if (!categories || !tt_by_column_is_mapping(categories)) return 0;
  if (tt_list_parse("data.categories", categories, &pairs)) return 0;
  for (int64_t i = 0; i < pairs->count && !found; i++)
    found = !strcmp(pairs->item[i] + strcspn(pairs->item[i], ":") + 1, column);
  tt_list_destroy(&pairs);
  return found;
}

/* Column of `net` for the input of this name; -1: none. */
static int64_t find_column(const tt_data_spec *spec, const char *name, int64_t input)
{
  if (!spec->like_input) return input;
  for (int64_t d = 0; d < spec->net->columns; d++)
    if (!strcmp(spec->like_input->name[d], name)) return d;
  return -1;
}

tt_err tt_net_inputs_copy_levels(const tt_net_inputs *net, int64_t column, tt_levels *dst)
{
  int64_t levels = tt_net_inputs_levels(net, column);
  dst->zeros = net->categories[column] == TT_CATEGORIES_zeros;
  dst->are_numbers = !tt_net_inputs_levels_are_texts(net, column);
  for (int64_t k = 0; k < levels && !dst->are_numbers; k++)
    TT_TRY(tt_levels_add(dst, net->at[net->first[column] + k].name));
  return TT_OK;
}

tt_err tt_data_resolve_categories(const char *categories, const char *file, const tt_columns *input,
                                  int8_t *out)
{
  const tt_by_column o = {"data.categories", categories, tt_choice_categories, TT_CATEGORIES_none};
  return tt_by_column_resolve(&o, file, input, NULL, out, NULL);
}

tt_err tt_input_levels_create(const tt_data_spec *spec, const tt_columns *input,
                              tt_input_levels *out)
{
  if (!spec->categories && !spec->net) return TT_OK;
  TT_TRY(TT_ALLOC(out->categories, input->count));
  TT_TRY(TT_ALLOC(out->of, input->count));
  out->columns = input->count;
  if (!spec->net) {
    TT_TRY(tt_data_resolve_categories(spec->categories, spec->file, input, out->categories));
    for (int64_t d = 0; d < input->count; d++) out->of[d].learns = 1;
    return TT_OK;
  }
  for (int64_t i = 0; i < input->count; i++) {
    int64_t d = find_column(spec, input->name[i], i);
    if (d < 0 || !tt_net_inputs_is_category(spec->net, d)) continue;
    out->categories[i] = spec->net->categories[d];
    TT_TRY(tt_net_inputs_copy_levels(spec->net, d, &out->of[i]));
    out->of[i].learns = spec->keeps_texts;
  }
  return TT_OK;
}

void tt_input_levels_free(tt_input_levels *l)
{
  for (int64_t d = 0; l->of && d < l->columns; d++) tt_levels_free(&l->of[d]);
  tt_free_all(&l->categories, &l->of);
  l->columns = 0;
}

tt_err tt_input_levels_use_local(tt_input_levels *l, const tt_source *s, const tt_source_matrix *m,
                                 tt_cell_kind kind)
{
  for (int64_t k = 0; m->from && k < m->columns; k++)
    TT_TRY(l->columns && l->categories[k]
               ? tt_table_use_levels_local(s->table, m->from[k], &l->of[k])
               : tt_table_use_local(s->table, m->from[k], kind));
  return TT_OK;
}

tt_err tt_data_missing_local(const tt_config *cfg, const char *file, const tt_columns *input,
                             const int8_t *categories, int8_t *missing, int8_t *indicator)
{
  const tt_by_column option = {"data.missing", cfg->data_missing, tt_choice_missing,
                               TT_MISSING_error};
  TT_TRY(tt_by_column_resolve(&option, file, input, NULL, missing, NULL));
  for (int64_t d = 0; d < input->count; d++) {
    indicator[d] = missing[d] == TT_MISSING_indicator;
    if (!categories || !categories[d]) continue;
    if (missing[d] != TT_MISSING_error && !indicator[d])
      return TT_FAIL(
          CONFIG,
          "data.missing: %s for the input '%s': its values are levels, which have no %s; "
          "choose by column: data.missing: {%s: indicator, '*': %s}",
          tt_choice_missing[missing[d]], input->name[d], tt_choice_missing[missing[d]],
          input->name[d], tt_choice_missing[missing[d]]);
    missing[d] = TT_MISSING_error;
  }
  return TT_OK;
}

const char *tt_data_input_fault(const tt_net_inputs *net, int64_t column, int may_miss, double v)
{
  int is_category = tt_net_inputs_is_category(net, column);
  if (isnan(v) && may_miss) return NULL;
  if (isnan(v) && is_category) return "the level is missing; data.missing: indicator accepts this";
  if (isnan(v))
    return "every input must be a finite number; data.missing: mean accepts missing ones";
  if (!isfinite(v)) return "every input must be a finite number";
  if (net->categories[column] != TT_CATEGORIES_error || tt_net_inputs_has_level(net, column, v))
    return NULL;
  return "no training row has this level; data.categories: zeros accepts other levels";
}

/* Classes */

static tt_err use_classes(const char *column, const tt_list *names, tt_source *s, tt_levels *l)
{
  tt_table *t;
  int64_t k = -1;
  if (!tt_source_has_local(s, column)) return TT_OK;
  TT_TRY(tt_source_table_local(s, &t));
  TT_TRY(tt_table_find(t, column, &k));
  if (k < 0) return TT_OK;
  l->are_classes = 1;
  for (int64_t i = 1; i < names->count; i++) TT_TRY(tt_levels_add(l, names->item[i]));
  return tt_table_use_levels_local(t, k, l);
}

tt_err tt_class_levels_use_local(const char *classes, tt_source *s, tt_class_levels *out)
{
  tt_list *columns = NULL, *names = NULL;
  if (!classes || !*classes) return TT_OK;
  TT_TRY(tt_list_parse("data.classes", classes, &columns));
  tt_err e = TT_ALLOC(out->of, columns->count);
  if (!e) out->columns = columns->count;
  for (int64_t k = 0; !e && k < columns->count; k++) {
    e = tt_list_parse("data.classes", columns->item[k], &names);
    if (!e) e = use_classes(names->item[0], names, s, &out->of[k]);
    tt_list_destroy(&names);
  }
  tt_list_destroy(&columns);
  return e;
}

void tt_class_levels_free(tt_class_levels *l)
{
  for (int64_t k = 0; k < l->columns; k++) tt_levels_free(&l->of[k]);
  tt_free(l->of);
  l->columns = 0;
}

tt_err tt_class_names_set(const char *classes, tt_columns *columns)
{
  tt_list *all = NULL, *names = NULL;
  if (!classes || !*classes) return TT_OK;
  TT_TRY(tt_list_parse("data.classes", classes, &all));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < all->count; i++) {
    e = tt_list_parse("data.classes", all->item[i], &names);
    for (int64_t k = 0; !e && k < columns->count; k++) {
      if (strcmp(columns->name[k], names->item[0])) continue;
      tt_free(columns->classes[k]);
      for (int64_t c = 1; !e && c < names->count; c++)
        e = tt_list_add(&columns->classes[k], names->item[c]);
    }
    tt_list_destroy(&names);
  }
  tt_list_destroy(&all);
  return e;
}
