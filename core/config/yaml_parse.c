/* yaml_parse.c — the walk from YAML nodes to fields: sections, options, ensembles. */
#include "core/base/mem.h"
#include "core/config/yaml_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

tt_slot tt_slot_job(tt_reader *r, int i)
{
  return (tt_slot){&tt_option_table[i], r->cfg, &r->job[i], -1};
}

tt_slot tt_slot_own(tt_reader *r, int64_t element, int i)
{
  return (tt_slot){&tt_ensemble_option_table[i], &r->cfg->ensemble[element], &r->own[element][i],
                   element};
}

static const char *text_of(const yaml_node_t *node)
{
  return (const char *)node->data.scalar.value;
}

tt_literal tt_literal_of(const yaml_node_t *node)
{
  return (tt_literal){text_of(node), node->data.scalar.length,
                      node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE};
}

int tt_is_nothing(const yaml_node_t *node)
{
  return node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
         node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

const char *tt_node_text(const yaml_node_t *node)
{
  return node->type == YAML_SEQUENCE_NODE  ? "a list"
         : node->type == YAML_MAPPING_NODE ? "a mapping"
                                           : "a single value";
}

/* ---- one option ---- */

static tt_err assign_scalar(tt_reader *r, const tt_slot *s, const yaml_node_t *node)
{
  tt_value value;
  char why[TT_WHY_TEXT], path[TT_PATH_TEXT];
  tt_literal from = tt_literal_of(node);
  s->where->bad = !tt_value_parse(s->option, &from, &value, why);
  if (!s->where->bad) return tt_value_store(s->option, s->record, &value, 1);
  tt_option_path(s->option, s->element, path);
  tt_fault(r, s->where, "%s: %s", path, why);
  return TT_OK;
}

static void parse_item(tt_reader *r, const tt_slot *s, const yaml_node_t *node, int64_t i,
                       tt_value *value)
{
  char why[TT_WHY_TEXT], path[TT_PATH_TEXT];
  tt_where at = tt_place(r, node);
  int scalar = node->type == YAML_SCALAR_NODE;
  tt_literal from = scalar ? tt_literal_of(node) : (tt_literal){0};
  if (scalar && tt_value_parse(s->option, &from, value, why)) return;
  s->where->bad = 1;
  tt_option_path(s->option, s->element, path);
  if (scalar)
    tt_fault(r, &at, "%s[%" PRId64 "]: %s", path, i, why);
  else
    tt_fault(r, &at, "%s[%" PRId64 "]: expected one value, found %s", path, i, tt_node_text(node));
}

static tt_err assign_list(tt_reader *r, yaml_document_t *doc, const tt_slot *s, yaml_node_t *node)
{
  yaml_node_item_t *item = node->data.sequence.items.start;
  int64_t count = node->data.sequence.items.top - item;
  tt_value *value = NULL;
  char path[TT_PATH_TEXT];
  tt_option_path(s->option, s->element, path);
  s->where->bad = count > TT_CONFIG_ITEMS || (count == 0 && s->option->kind == TT_KIND_TEXTLIST);
  if (s->where->bad) {
    tt_fault(r, s->where, "%s: %" PRId64 " elements; 1 to %d are allowed", path, count,
             TT_CONFIG_ITEMS);
    return TT_OK;
  }
  TT_TRY(TT_ALLOC(value, count));
  for (int64_t i = 0; i < count; i++)
    parse_item(r, s, yaml_document_get_node(doc, item[i]), i, &value[i]);
  tt_err e = s->where->bad ? TT_OK : tt_value_store(s->option, s->record, value, count);
  tt_free(value);
  return e;
}

/* A key that comes twice is an error in the file; --set replaces. */
int tt_is_repeated(tt_reader *r, const tt_where *before, const tt_where *now, const char *path)
{
  if (!before->given || r->now) return 0;
  tt_fault(r, now, "%s is given twice; first in line %" PRId64, path, before->line);
  return 1;
}

tt_err tt_slot_assign(tt_reader *r, yaml_document_t *doc, const tt_slot *s, const tt_where *key,
                      yaml_node_t *node)
{
  char path[TT_PATH_TEXT];
  tt_kind kind = s->option->kind;
  tt_option_path(s->option, s->element, path);
  if (tt_is_repeated(r, s->where, key, path)) return TT_OK;
  *s->where = tt_place(r, node);
  s->where->given = 1;
  int numbers = kind == TT_KIND_LIST || kind == TT_KIND_REALS;
  int list = numbers || kind == TT_KIND_TEXTLIST;
  if (list && node->type == YAML_SEQUENCE_NODE) return assign_list(r, doc, s, node);
  if (!numbers && node->type == YAML_SCALAR_NODE) return assign_scalar(r, s, node);
  s->where->bad = 1;
  if (node->type == YAML_SCALAR_NODE)
    tt_fault(r, s->where, "%s: expected a list; write it in brackets, e.g. [64, 64]", path);
  else
    tt_fault(r, s->where, "%s: expected %s, found %s", path, tt_kind_text(kind),
             tt_node_text(node));
  return TT_OK;
}

/* ---- unknown keys ---- */

/* The section that has an option of this name, or NULL. */
static const tt_option *option_elsewhere(const char *name)
{
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (strcmp(tt_option_table[i].name, name) == 0) return &tt_option_table[i];
  return NULL;
}

static void unknown(tt_reader *r, const tt_where *at, const tt_nearest *near, const char *place)
{
  char shown[TT_SHOW_TEXT], path[TT_PATH_TEXT];
  const tt_option *other = option_elsewhere(near->word);
  tt_show(near->word, shown);
  if (*near->best) {
    tt_fault(r, at, "unknown key '%s' %s; did you mean '%s'?", shown, place, near->best);
  } else if (other) {
    tt_option_path(other, -1, path);
    tt_fault(r, at, "unknown key '%s' %s; did you mean '%s'?", shown, place, path);
  } else {
    tt_fault(r, at, "unknown key '%s' %s", shown, place);
  }
}

int tt_key_is_text(tt_reader *r, const yaml_node_t *key)
{
  tt_where at = tt_place(r, key);
  int fine = key->type == YAML_SCALAR_NODE && strlen(text_of(key)) == key->data.scalar.length;
  if (!fine) tt_fault(r, &at, "a key must be a word, found %s", tt_node_text(key));
  return fine;
}

/* ---- sections ---- */

/* Where the walk is: a section of the job, or of one of its ensembles. */
typedef struct level {
  int64_t element; /* of `ensembles`, -1 for the job */
  const tt_option *table;
  int count;
  const char *section; /* "top", "data_split"; "ensembles" for an ensemble itself */
} level;

static level level_of(int64_t element, const char *section)
{
  if (element < 0) return (level){-1, tt_option_table, TT_OPTION_COUNT, section};
  return (level){element, tt_ensemble_option_table, TT_ENSEMBLE_OPTION_COUNT, section};
}

static int is_root(const level *at)
{
  return strcmp(at->section, at->element < 0 ? "top" : "ensembles") == 0;
}

/* Whether options of `section` are written one level inside. */
static int is_inside(const level *at, const char *section)
{
  size_t last = tt_section_last(section), outer = strlen(at->section);
  if (is_root(at)) return last == 0 && strcmp(section, at->section) != 0;
  return last == outer + 1 && strncmp(section, at->section, outer) == 0;
}

/* Number of the first option of the section that `near` names, or -1; offers their names. */
static int find_section(const level *at, tt_nearest *near)
{
  int found = -1;
  for (int i = at->count - 1; i >= 0; i--) {
    const char *section = at->table[i].section, *last = section + tt_section_last(section);
    if (!is_inside(at, section)) continue;
    if (strcmp(last, near->word) == 0)
      found = i;
    else
      tt_nearest_offer(near, last);
  }
  return found;
}

static int find_option(const level *at, tt_nearest *near)
{
  for (int i = 0; i < at->count; i++) {
    if (strcmp(at->table[i].section, at->section) != 0) continue;
    if (strcmp(at->table[i].name, near->word) == 0) return i;
    tt_nearest_offer(near, at->table[i].name);
  }
  return -1;
}

static tt_err walk_section(tt_reader *r, yaml_document_t *doc, const level *at, yaml_node_t *node);

static tt_err walk_subsection(tt_reader *r, yaml_document_t *doc, const level *outer, int first,
                              const yaml_node_t *key, yaml_node_t *node)
{
  const tt_option *o = &outer->table[first];
  tt_where at = tt_place(r, key);
  tt_where *seen = outer->element < 0 ? &r->section[first] : &r->own_section[outer->element][first];
  if (tt_is_repeated(r, seen, &at, text_of(key))) return TT_OK;
  *seen = at;
  seen->given = 1;
  if (tt_is_nothing(node)) return TT_OK; /* every option of the section is commented out */
  level inner = level_of(outer->element, o->section);
  if (node->type == YAML_MAPPING_NODE) return walk_section(r, doc, &inner, node);
  at = tt_place(r, node);
  tt_fault(r, &at, "%s: expected a mapping of options like {%s: %s}, found %s", text_of(key),
           o->name, o->preset ? o->preset : "...", tt_node_text(node));
  return TT_OK;
}

static tt_err walk_ensembles(tt_reader *r, yaml_document_t *doc, const yaml_node_t *key,
                             yaml_node_t *node);

static void unknown_key(tt_reader *r, const level *outer, const tt_where *at,
                        const tt_nearest *near)
{
  char place[2 * TT_PATH_TEXT], section[TT_PATH_TEXT];
  const char *whose = outer->element < 0 ? "" : " of an ensemble";
  tt_section_path(outer->section, section);
  if (is_root(outer))
    snprintf(place, sizeof place, outer->element < 0 ? "at the top level" : "in an ensemble");
  else
    snprintf(place, sizeof place, "in %s%s", section, whose);
  unknown(r, at, near, place);
}

static tt_err walk_pair(tt_reader *r, yaml_document_t *doc, const level *outer,
                        const yaml_node_t *key, yaml_node_t *node)
{
  tt_nearest near = {.word = text_of(key)};
  tt_where at = tt_place(r, key);
  int top = outer->element < 0 && is_root(outer), i = find_option(outer, &near);
  if (i >= 0) {
    tt_slot s = outer->element < 0 ? tt_slot_job(r, i) : tt_slot_own(r, outer->element, i);
    return tt_slot_assign(r, doc, &s, &at, node);
  }
  if (top && strcmp(near.word, "ensembles") == 0) return walk_ensembles(r, doc, key, node);
  if (outer->element >= 0 && is_root(outer)) {
    if (strcmp(near.word, "sweep") == 0) return tt_sweeps_read(r, doc, outer->element, node);
    tt_nearest_offer(&near, "sweep");
  }
  if (top) tt_nearest_offer(&near, "ensembles");
  i = find_section(outer, &near);
  if (i >= 0) return walk_subsection(r, doc, outer, i, key, node);
  unknown_key(r, outer, &at, &near);
  return TT_OK;
}

static tt_err walk_section(tt_reader *r, yaml_document_t *doc, const level *at, yaml_node_t *node)
{
  yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
  for (; p < end; p++) {
    yaml_node_t *key = yaml_document_get_node(doc, p->key);
    if (!tt_key_is_text(r, key)) continue;
    TT_TRY(walk_pair(r, doc, at, key, yaml_document_get_node(doc, p->value)));
  }
  return TT_OK;
}

/* ---- ensembles ---- */

static tt_err walk_ensemble(tt_reader *r, yaml_document_t *doc, yaml_node_t *node, int64_t element)
{
  tt_where at = r->element[element] = tt_place(r, node);
  level own = level_of(element, "ensembles");
  if (node->type == YAML_MAPPING_NODE) return walk_section(r, doc, &own, node);
  r->element[element].bad = 1;
  tt_fault(r, &at, "ensembles[%" PRId64 "]: expected a mapping like {name: a}, found %s", element,
           tt_node_text(node));
  return TT_OK;
}

static tt_err walk_ensembles(tt_reader *r, yaml_document_t *doc, const yaml_node_t *key,
                             yaml_node_t *node)
{
  tt_where at = tt_place(r, key);
  if (tt_is_repeated(r, &r->ensembles, &at, "ensembles")) return TT_OK;
  r->ensembles = at;
  r->ensembles.given = 1;
  int list = node->type == YAML_SEQUENCE_NODE;
  yaml_node_item_t *item = list ? node->data.sequence.items.start : NULL;
  int64_t count = list ? node->data.sequence.items.top - item : 0;
  if (count < 1 || count > TT_CONFIG_ITEMS) {
    const char *found = !list ? tt_node_text(node) : count ? "a longer one" : "an empty one";
    tt_fault(r, &at,
             "ensembles: expected a list of 1 to %d mappings like "
             "[{name: all, members: 5}], found %s",
             TT_CONFIG_ITEMS, found);
    return TT_OK;
  }
  TT_TRY(TT_ALLOC(r->cfg->ensemble, count));
  r->cfg->ensembles = count;
  TT_TRY(TT_ALLOC(r->element, count));
  TT_TRY(TT_ALLOC(r->own, count));
  TT_TRY(TT_ALLOC(r->own_section, count));
  TT_TRY(TT_ALLOC(r->swept, count));
  for (int64_t i = 0; i < count; i++) {
    TT_TRY(tt_config_defaults(tt_ensemble_option_table, TT_ENSEMBLE_OPTION_COUNT,
                              &r->cfg->ensemble[i]));
    TT_TRY(walk_ensemble(r, doc, yaml_document_get_node(doc, item[i]), i));
  }
  return TT_OK;
}

tt_err tt_config_read_text(tt_reader *r, const char *text, size_t bytes)
{
  yaml_document_t doc;
  int good = 0;
  TT_TRY(tt_config_load(r, text, bytes, &doc, &good));
  if (!good) return TT_OK;
  yaml_node_t *root = yaml_document_get_root_node(&doc);
  tt_where at = {.line = 1, .column = 1};
  tt_err e = TT_OK;
  r->usable = root && root->type == YAML_MAPPING_NODE;
  if (r->usable) {
    level top = level_of(-1, "top");
    e = walk_section(r, &doc, &top, root);
  } else if (!root || tt_is_nothing(root)) {
    tt_fault(r, &at, "the file is empty; a job needs at least data and ensembles");
  } else {
    at = tt_place(r, root);
    tt_fault(r, &at, "expected sections like data and ensembles, found %s", tt_node_text(root));
  }
  yaml_document_delete(&doc);
  return e;
}
