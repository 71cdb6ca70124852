/* slots.c — stores a YAML node in the field of an option; see yaml_nodes.h. */
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

tt_option_ref tt_option_ref_job(tt_config_reader *r, int i)
{
  return (tt_option_ref){&tt_option_table[i], r->cfg, &r->job[i], -1};
}

tt_option_ref tt_option_ref_ensemble(tt_config_reader *r, int64_t element, int i)
{
  return (tt_option_ref){&tt_ensemble_option_table[i], &r->cfg->ensemble[element],
                         &r->own[element][i], r->cfg->ensemble[element].number};
}

const char *tt_scalar_text(const yaml_node_t *node)
{
  return (const char *)node->data.scalar.value;
}

tt_yaml_scalar tt_yaml_scalar_of(const yaml_node_t *node)
{
  return (tt_yaml_scalar){tt_scalar_text(node), node->data.scalar.length,
                          node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE};
}

int tt_node_is_empty(const yaml_node_t *node)
{
  return node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
         node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

const char *tt_node_kind_text(const yaml_node_t *node)
{
  return node->type == YAML_SEQUENCE_NODE  ? "a list"
         : node->type == YAML_MAPPING_NODE ? "a mapping"
                                           : "a single value";
}

static tt_err assign_scalar(tt_config_reader *r, const tt_option_ref *s, const yaml_node_t *node)
{
  tt_value value;
  char why[TT_REASON_SIZE], path[TT_OPTION_PATH_SIZE];
  tt_yaml_scalar scalar = tt_yaml_scalar_of(node);
  s->where->bad = !tt_value_parse(s->option, &scalar, &value, why);
  if (!s->where->bad) return tt_value_store(s->option, s->record, &value, 1);
  tt_option_path(s->option, s->element, path);
  tt_config_error(r, s->where, "%s: %s", path, why);
  return TT_OK;
}

int tt_element_parse(tt_config_reader *r, const tt_option *o, const char *path,
                     const yaml_node_t *node, int64_t i, tt_value *value)
{
  char why[TT_REASON_SIZE];
  tt_source_location location = tt_node_location(r, node);
  int scalar = node->type == YAML_SCALAR_NODE;
  tt_yaml_scalar source = scalar ? tt_yaml_scalar_of(node) : (tt_yaml_scalar){0};
  if (scalar && tt_value_parse(o, &source, value, why)) return 1;
  if (scalar)
    tt_config_error(r, &location, "%s[%" PRId64 "]: %s", path, i, why);
  else
    tt_config_error(r, &location, "%s[%" PRId64 "]: expected one value, found %s", path, i,
                    tt_node_kind_text(node));
  return 0;
}

static int needs_elements(const tt_option *o)
{
  return o->kind == TT_KIND_TEXTLIST && !(o->default_value && *o->default_value);
}

static tt_err assign_list(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                          yaml_node_t *node)
{
  yaml_node_item_t *item = node->data.sequence.items.start;
  int64_t count = node->data.sequence.items.top - item;
  tt_value *value = NULL;
  char path[TT_OPTION_PATH_SIZE];
  tt_option_path(s->option, s->element, path);
  s->where->bad = count > TT_MAX_LIST_ITEMS || (count == 0 && needs_elements(s->option));
  if (s->where->bad) {
    tt_config_error(r, s->where, "%s: %" PRId64 " elements; 1 to %d are allowed", path, count,
                    TT_MAX_LIST_ITEMS);
    return TT_OK;
  }
  TT_TRY(TT_ALLOC(value, count));
  for (int64_t i = 0; i < count; i++)
    s->where->bad |=
        !tt_element_parse(r, s->option, path, yaml_document_get_node(doc, item[i]), i, &value[i]);
  tt_err e = s->where->bad ? TT_OK : tt_value_store(s->option, s->record, value, count);
  tt_free(value);
  return e;
}

/* A list of names is stored as one text, as if it were written in one line. */
static tt_err assign_columns(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                             yaml_node_t *node)
{
  yaml_node_item_t *item = node->data.sequence.items.start;
  int64_t count = node->data.sequence.items.top - item;
  char path[TT_OPTION_PATH_SIZE], *list = NULL;
  tt_option_path(s->option, s->element, path);
  s->where->bad = count < 1 || count > TT_MAX_LIST_ITEMS;
  if (s->where->bad)
    tt_config_error(r, s->where, "%s: %" PRId64 " elements; 1 to %d are allowed", path, count,
                    TT_MAX_LIST_ITEMS);
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count && !s->where->bad; i++) {
    tt_value one = {.text = ""};
    yaml_node_t *name = yaml_document_get_node(doc, item[i]);
    s->where->bad |= !tt_element_parse(r, s->option, path, name, i, &one);
    if (!s->where->bad) e = tt_list_add(&list, one.text);
  }
  const tt_value all = {.text = list};
  if (!e && !s->where->bad) e = tt_value_store(s->option, s->record, &all, 1);
  tt_free(list);
  return e;
}

/* Append "choice:column". */
static tt_err add_pair(char **list, const char *choice, const char *column)
{
  char *pair = NULL;
  int64_t size = (int64_t)(strlen(choice) + strlen(column)) + 2;
  TT_TRY(TT_ALLOC(pair, size));
  snprintf(pair, (size_t)size, "%s:%s", choice, column);
  tt_err e = tt_list_add(list, pair);
  tt_free(pair);
  return e;
}

/* Whether the key of this entry stands in the mapping before. */
static int is_repeated(yaml_document_t *doc, const yaml_node_pair_t *first,
                       const yaml_node_pair_t *pair)
{
  const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
  for (const yaml_node_pair_t *at = first; at < pair; at++) {
    const yaml_node_t *other = yaml_document_get_node(doc, at->key);
    if (other->type == YAML_SCALAR_NODE && key->type == YAML_SCALAR_NODE &&
        !strcmp(tt_scalar_text(other), tt_scalar_text(key)))
      return 1;
  }
  return 0;
}

/* Read one entry of a mapping, "column: choice". */
static tt_err assign_pair(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                          const char *path, const yaml_node_pair_t *first,
                          const yaml_node_pair_t *pair, char **list)
{
  const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
  const yaml_node_t *node = yaml_document_get_node(doc, pair->value);
  char why[TT_REASON_SIZE], shown[TT_PRINTABLE_SIZE];
  tt_source_location location = tt_node_location(r, node);
  tt_value choice = {.text = ""};
  int good = 0, scalar = node->type == YAML_SCALAR_NODE;
  s->where->bad |= !tt_key_check(r, key);
  if (s->where->bad) return TT_OK;
  tt_printable(tt_scalar_text(key), shown);
  tt_yaml_scalar source = scalar ? tt_yaml_scalar_of(node) : (tt_yaml_scalar){0};
  if (is_repeated(doc, first, pair))
    snprintf(why, sizeof why, "is given twice");
  else if (!*tt_scalar_text(key))
    snprintf(why, sizeof why, "the name is empty");
  else if (!scalar)
    snprintf(why, sizeof why, "expected a name, found %s", tt_node_kind_text(node));
  else
    good = tt_value_parse(s->option, &source, &choice, why);
  if (good) return add_pair(list, choice.text, tt_scalar_text(key));
  tt_config_error(r, &location, "%s: column '%s': %s", path, shown, why);
  s->where->bad = 1;
  return TT_OK;
}

/* A mapping from columns to choices is stored as one text. */
static tt_err assign_by_column(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                               yaml_node_t *node)
{
  yaml_node_pair_t *pair = node->data.mapping.pairs.start;
  int64_t count = node->data.mapping.pairs.top - pair;
  char path[TT_OPTION_PATH_SIZE], *list = NULL;
  tt_option_path(s->option, s->element, path);
  s->where->bad = count < 1 || count > TT_MAX_LIST_ITEMS;
  if (s->where->bad)
    tt_config_error(r, s->where, "%s: %" PRId64 " columns; 1 to %d are allowed", path, count,
                    TT_MAX_LIST_ITEMS);
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count && count <= TT_MAX_LIST_ITEMS; i++)
    e = assign_pair(r, doc, s, path, pair, pair + i, &list);
  const tt_value all = {.text = list};
  if (!e && !s->where->bad) e = tt_value_store(s->option, s->record, &all, 1);
  tt_free(list);
  return e;
}

/* Append one entry, "column: [name, ...]", as a list of the column and its names. */
static tt_err add_classes(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                          const yaml_node_pair_t *pair, char **list)
{
  const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
  yaml_node_t *node = yaml_document_get_node(doc, pair->value);
  tt_source_location location = tt_node_location(r, node);
  int64_t count = node->type == YAML_SEQUENCE_NODE
                      ? node->data.sequence.items.top - node->data.sequence.items.start
                      : 0;
  char path[TT_OPTION_PATH_SIZE], *names = NULL;
  tt_option_path(s->option, s->element, path);
  s->where->bad |= !tt_key_check(r, key) || count < 2 || count > TT_MAX_CLASSES;
  if (s->where->bad) {
    tt_config_error(r, &location, "%s: expected 2 to %d names of classes like [no, yes]", path,
                    TT_MAX_CLASSES);
    return TT_OK;
  }
  tt_err e = tt_list_add(&names, tt_scalar_text(key));
  for (int64_t i = 0; !e && i < count; i++) {
    tt_value one = {.text = ""};
    yaml_node_t *item = yaml_document_get_node(doc, node->data.sequence.items.start[i]);
    s->where->bad |= !tt_element_parse(r, s->option, path, item, i, &one);
    if (!s->where->bad) e = tt_list_add(&names, one.text);
  }
  if (!e && !s->where->bad) e = tt_list_add(list, names);
  tt_free(names);
  return e;
}

static tt_err assign_classes(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                             yaml_node_t *node)
{
  char *list = NULL;
  tt_err e = TT_OK;
  s->where->bad = node->data.mapping.pairs.start == node->data.mapping.pairs.top;
  if (s->where->bad)
    tt_config_error(r, s->where, "data.classes: the mapping is empty; remove the option");
  for (yaml_node_pair_t *p = node->data.mapping.pairs.start; !e && p < node->data.mapping.pairs.top;
       p++)
    e = add_classes(r, doc, s, p, &list);
  const tt_value all = {.text = list};
  if (!e && list && !s->where->bad) e = tt_value_store(s->option, s->record, &all, 1);
  tt_free(list);
  return e;
}

/* A repeated key is an error in the file; --set replaces the value. */
int tt_reject_repeated(tt_config_reader *r, const tt_source_location *before,
                       const tt_source_location *now, const char *path)
{
  if (!before->given || before->shared || r->now) return 0;
  tt_config_error(r, now, "%s is given twice; first in line %" PRId64, path, before->line);
  return 1;
}

tt_err tt_option_assign(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                        const tt_source_location *key, yaml_node_t *node)
{
  char path[TT_OPTION_PATH_SIZE];
  const tt_option_kind_row *kind = &tt_option_kind_table[s->option->kind];
  tt_option_path(s->option, s->element, path);
  if (tt_reject_repeated(r, s->where, key, path)) return TT_OK;
  *s->where = tt_node_location(r, node);
  s->where->given = 1;
  int numbers = kind->is_list && kind->type != TT_VALUE_STRING;
  if (kind->is_list && node->type == YAML_SEQUENCE_NODE) return assign_list(r, doc, s, node);
  if (s->option->kind == TT_KIND_COLUMNS && node->type == YAML_SEQUENCE_NODE)
    return assign_columns(r, doc, s, node);
  if (s->option->kind == TT_KIND_BYCOLUMN && node->type == YAML_MAPPING_NODE)
    return assign_by_column(r, doc, s, node);
  int classes = s->option->kind == TT_KIND_CLASSES;
  if (classes && node->type == YAML_MAPPING_NODE) return assign_classes(r, doc, s, node);
  if (!numbers && !classes && node->type == YAML_SCALAR_NODE) return assign_scalar(r, s, node);
  s->where->bad = 1;
  if (node->type == YAML_SCALAR_NODE && !classes)
    tt_config_error(r, s->where, "%s: expected a list; write it in brackets, e.g. [64, 64]", path);
  else
    tt_config_error(r, s->where, "%s: expected %s, found %s", path, kind->text,
                    tt_node_kind_text(node));
  return TT_OK;
}

int tt_key_check(tt_config_reader *r, const yaml_node_t *key)
{
  tt_source_location location = tt_node_location(r, key);
  int fine =
      key->type == YAML_SCALAR_NODE && strlen(tt_scalar_text(key)) == key->data.scalar.length;
  if (!fine)
    tt_config_error(r, &location, "a key must be a word, found %s", tt_node_kind_text(key));
  return fine;
}
