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

/* Whether a list or mapping may have so many elements; else an error. */
static int check_count(tt_config_reader *r, const tt_option_ref *s, const char *path, int64_t count,
                       int64_t least)
{
  s->where->bad = count < least || count > TT_MAX_LIST_ITEMS;
  if (s->where->bad)
    tt_config_error(r, s->where, "%s: %" PRId64 " elements; 1 to %d are allowed", path, count,
                    TT_MAX_LIST_ITEMS);
  return !s->where->bad;
}

static tt_err assign_list(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                          const char *path, yaml_node_t *node)
{
  yaml_node_item_t *item = node->data.sequence.items.start;
  int64_t count = node->data.sequence.items.top - item;
  const tt_option *o = s->option;
  tt_value *value = NULL;
  int may_be_empty = o->kind != TT_KIND_TEXTLIST || (o->default_value && *o->default_value);
  if (!check_count(r, s, path, count, !may_be_empty)) return TT_OK;
  TT_TRY(TT_ALLOC(value, count));
  for (int64_t i = 0; i < count; i++)
    s->where->bad |=
        !tt_element_parse(r, o, path, yaml_document_get_node(doc, item[i]), i, &value[i]);
  tt_err e = s->where->bad ? TT_OK : tt_value_store(o, s->record, value, count);
  tt_free(value);
  return e;
}

/* Append the elements of a list of names to a list in one text. */
static tt_err add_names(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                        const char *path, const yaml_node_t *node, char **list)
{
  const yaml_node_item_t *item = node->data.sequence.items.start;
  for (int64_t i = 0; i < node->data.sequence.items.top - item; i++) {
    tt_value one = {.text = ""};
    int good = tt_element_parse(r, s->option, path, yaml_document_get_node(doc, item[i]), i, &one);
    s->where->bad |= !good;
    if (good) TT_TRY(tt_list_add(list, one.text));
  }
  return TT_OK;
}

/* Why the name of a column cannot stand in the mapping; NULL: it can.
 *   first  entry of the mapping */
static const char *name_fault(yaml_document_t *doc, const yaml_node_pair_t *first,
                              const yaml_node_pair_t *pair, const char *name)
{
  for (const yaml_node_pair_t *at = first; at < pair; at++) {
    const yaml_node_t *other = yaml_document_get_node(doc, at->key);
    if (other->type == YAML_SCALAR_NODE && !strcmp(tt_scalar_text(other), name))
      return "is given twice";
  }
  return *name ? NULL : "the name is empty";
}

/* Append an entry of a mapping: "column: choice" as "choice:column"; "column: [name, ...]" as a
 * list of the column and its names. */
static tt_err add_entry(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                        const char *path, const yaml_node_pair_t *first,
                        const yaml_node_pair_t *pair, char **list)
{
  const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
  const yaml_node_t *node = yaml_document_get_node(doc, pair->value);
  char why[TT_REASON_SIZE] = "", shown[TT_PRINTABLE_SIZE], *entry = NULL;
  tt_source_location location = tt_node_location(r, node);
  tt_value choice = {.text = ""};
  int classes = s->option->kind == TT_KIND_CLASSES, scalar = node->type == YAML_SCALAR_NODE;
  if (!tt_key_check(r, key)) return s->where->bad = 1, TT_OK;
  const char *column = tt_scalar_text(key), *fault = name_fault(doc, first, pair, column);
  const tt_yaml_scalar source = scalar ? tt_yaml_scalar_of(node) : (tt_yaml_scalar){0};
  int64_t names = node->type == YAML_SEQUENCE_NODE
                      ? node->data.sequence.items.top - node->data.sequence.items.start
                      : 0;
  if (fault)
    snprintf(why, sizeof why, "%s", fault);
  else if (classes && (names < 2 || names > TT_MAX_CLASSES))
    snprintf(why, sizeof why, "expected 2 to %d names of classes like [no, yes]", TT_MAX_CLASSES);
  else if (!classes && !scalar)
    snprintf(why, sizeof why, "expected a name, found %s", tt_node_kind_text(node));
  else if (!classes && tt_value_parse(s->option, &source, &choice, why))
    *why = '\0';
  tt_printable(column, shown);
  if (*why) tt_config_error(r, &location, "%s: column '%s': %s", path, shown, why);
  if (*why) return s->where->bad = 1, TT_OK;
  tt_err e =
      classes ? tt_list_add(&entry, column) : tt_text_format(&entry, "%s:%s", choice.text, column);
  if (!e && classes) e = add_names(r, doc, s, path, node, &entry);
  if (!e) e = tt_list_add(list, entry);
  tt_free(entry);
  return e;
}

/* A list of names, or a mapping from columns, is stored as one text, as if it were written in one
 * line. */
static tt_err assign_text(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                          const char *path, yaml_node_t *node)
{
  int is_list = node->type == YAML_SEQUENCE_NODE;
  const yaml_node_pair_t *pair = is_list ? NULL : node->data.mapping.pairs.start;
  int64_t pairs = is_list ? 0 : node->data.mapping.pairs.top - pair;
  int64_t items = is_list ? node->data.sequence.items.top - node->data.sequence.items.start : 0;
  char *list = NULL;
  if (!check_count(r, s, path, items + pairs, 1)) return TT_OK;
  tt_err e = is_list ? add_names(r, doc, s, path, node, &list) : TT_OK;
  for (int64_t i = 0; !e && i < pairs; i++) e = add_entry(r, doc, s, path, pair, pair + i, &list);
  const tt_value all = {.text = list};
  if (!e && !s->where->bad) e = tt_value_store(s->option, s->record, &all, 1);
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
  tt_option_kind is = s->option->kind;
  int numbers = kind->is_list && kind->type != TT_VALUE_STRING, classes = is == TT_KIND_CLASSES;
  int list = node->type == YAML_SEQUENCE_NODE, mapping = node->type == YAML_MAPPING_NODE;
  if (list && kind->is_list) return assign_list(r, doc, s, path, node);
  if ((list && is == TT_KIND_COLUMNS) || (mapping && (classes || is == TT_KIND_BYCOLUMN)))
    return assign_text(r, doc, s, path, node);
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
