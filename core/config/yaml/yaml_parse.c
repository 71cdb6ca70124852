/* yaml_parse.c — reads YAML nodes into fields: sections, options, ensembles. */
#include "core/base/mem.h"
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Path of the option with the nearest name in any section; "" if none is near. */
static void find_option_anywhere(const char *name, char path[TT_OPTION_PATH_SIZE])
{
  tt_suggestion near = {.word = name};
  *path = '\0';
  for (int i = TT_OPTION_COUNT - 1; i >= 0; i--) {
    tt_suggestion_consider(&near, tt_option_table[i].name);
    if (strcmp(near.best, tt_option_table[i].name) == 0)
      tt_option_path(&tt_option_table[i], -1, path);
  }
}

static void report_unknown(tt_config_reader *r, const tt_source_location *location,
                           const tt_suggestion *near, const char *place)
{
  char shown[TT_PRINTABLE_SIZE], path[TT_OPTION_PATH_SIZE];
  int64_t element;
  const tt_option *hint = tt_hint_option(near->word, &element);
  const char *best = hint || !*near->best ? path : near->best;
  if (hint)
    tt_option_path(hint, element, path);
  else
    find_option_anywhere(near->word, path);
  tt_printable(near->word, shown);
  if (*best)
    tt_config_error(r, location, "unknown key '%s' %s; did you mean '%s'?", shown, place, best);
  else
    tt_config_error(r, location, "unknown key '%s' %s", shown, place);
}

/* Where the reader is in the file: in a section of the job, of an ensemble, or of a network in the
 * list `networks` of an ensemble. */
typedef struct level {
  int64_t element; /* of cfg->ensemble, -1 for the job */
  int network;     /* 1: the section is part of an element of the list `networks` */
  const tt_option *table;
  int count;
  const char *section; /* "top", "data_split"; "ensembles" for an ensemble itself */
} level;

static level level_of(int64_t element, int network, const char *section)
{
  if (element < 0) return (level){-1, 0, tt_option_table, TT_OPTION_COUNT, section};
  return (level){element, network, tt_ensemble_option_table, TT_ENSEMBLE_OPTION_COUNT, section};
}

static int is_root(const level *at)
{
  return strcmp(at->section, at->element < 0 ? "top" : "ensembles") == 0;
}

/* 1 if `section` is a direct subsection of `parent`. */
static int is_inside(const level *parent, const char *section)
{
  size_t last = tt_section_leaf(section), outer = strlen(parent->section);
  if (is_root(parent)) return last == 0 && strcmp(section, parent->section) != 0;
  return last == outer + 1 && strncmp(section, parent->section, outer) == 0;
}

/* Number of the first option of the subsection near->word, or -1; adds their names to `near`. */
static int find_section(const level *parent, tt_suggestion *near)
{
  int found = -1;
  for (int i = parent->count - 1; i >= 0; i--) {
    const char *section = parent->table[i].section;
    if (!is_inside(parent, section)) continue;
    const char *last = section + tt_section_leaf(section);
    if (strcmp(last, near->word) == 0)
      found = i;
    else
      tt_suggestion_consider(near, last);
  }
  return found;
}

static int find_option(const level *at, tt_suggestion *near)
{
  for (int i = 0; i < at->count; i++) {
    if (strcmp(at->table[i].section, at->section) != 0) continue;
    if (strcmp(at->table[i].name, near->word) == 0) return i;
    tt_suggestion_consider(near, at->table[i].name);
  }
  return -1;
}

static tt_err walk_section(tt_config_reader *r, yaml_document_t *doc, const level *at,
                           yaml_node_t *node);

static tt_err walk_subsection(tt_config_reader *r, yaml_document_t *doc, const level *outer,
                              int first, const yaml_node_t *key, yaml_node_t *node)
{
  const tt_option *o = &outer->table[first];
  tt_source_location location = tt_node_location(r, key);
  tt_source_location *seen =
      outer->element < 0 ? &r->section[first] : &r->own_section[outer->element][first];
  if (tt_reject_repeated(r, seen, &location, tt_scalar_text(key))) return TT_OK;
  *seen = location;
  seen->given = 1;
  if (tt_node_is_empty(node)) return TT_OK; /* every option of the section is commented out */
  if (is_root(outer) && !outer->network && !r->now && tt_node_is_auto(o->section, node))
    return TT_OK;
  level inner = level_of(outer->element, outer->network, o->section);
  if (node->type == YAML_MAPPING_NODE) return walk_section(r, doc, &inner, node);
  location = tt_node_location(r, node);
  tt_config_error(r, &location, "%s: expected a mapping of options like {%s: %s}, found %s",
                  tt_scalar_text(key), o->name, o->default_value ? o->default_value : "...",
                  tt_node_kind_text(node));
  return TT_OK;
}

static tt_err walk_ensembles(tt_config_reader *r, yaml_document_t *doc, const yaml_node_t *key,
                             yaml_node_t *node);

static void report_unknown_key(tt_config_reader *r, const level *outer,
                               const tt_source_location *location, const tt_suggestion *near)
{
  char place[2 * TT_OPTION_PATH_SIZE], section[TT_OPTION_PATH_SIZE];
  const char *whose = outer->element < 0 ? ""
                      : outer->network   ? " of a network"
                                         : " of an ensemble";
  tt_section_path(outer->section, section);
  if (is_root(outer))
    snprintf(place, sizeof place, "%s",
             outer->element < 0 ? "at the top level"
             : outer->network   ? "in a network of an ensemble"
                                : "in an ensemble");
  else
    snprintf(place, sizeof place, "in %s%s", section, whose);
  report_unknown(r, location, near, place);
}

/* Check `networks:` of an ensemble; walk_networks reads it. */
static tt_err check_networks(tt_config_reader *r, int64_t element, const yaml_node_t *key,
                             const yaml_node_t *node)
{
  tt_source_location location = tt_node_location(r, key);
  if (tt_reject_repeated(r, &r->networks[element], &location, "networks")) return TT_OK;
  r->networks[element] = location;
  r->networks[element].given = 1;
  if (node->type == YAML_SEQUENCE_NODE &&
      node->data.sequence.items.top > node->data.sequence.items.start)
    return TT_OK;
  r->networks[element].bad = 1;
  tt_config_error(r, &location,
                  "ensembles[%" PRId64 "].networks: expected a list of mappings like "
                  "[{members: 4, model: {hidden: [64]}}, {members: 4, model: {hidden: [32, 32]}}], "
                  "found %s",
                  r->cfg->ensemble[element].number,
                  node->type == YAML_SEQUENCE_NODE ? "an empty one" : tt_node_kind_text(node));
  return TT_OK;
}

/* 1 and an error for an option that is the same for all networks of an ensemble. */
static int reject_shared(tt_config_reader *r, const level *outer,
                         const tt_source_location *location, int i)
{
  if (!outer->network || tt_inherited_option[i] >= 0 || i == TT_ENSEMBLE_OPTION_members ||
      i == TT_ENSEMBLE_OPTION_label)
    return 0;
  tt_config_error(r, location,
                  "ensembles[%" PRId64
                  "].networks: '%s' belongs to the ensemble, not to one of its networks; write it "
                  "beside `networks`",
                  r->cfg->ensemble[outer->element].number, outer->table[i].name);
  return 1;
}

static tt_err walk_pair(tt_config_reader *r, yaml_document_t *doc, const level *outer,
                        const yaml_node_t *key, yaml_node_t *node)
{
  tt_suggestion near = {.word = tt_scalar_text(key)};
  tt_source_location location = tt_node_location(r, key);
  int top = outer->element < 0 && is_root(outer), i = find_option(outer, &near);
  if (i >= 0) {
    if (reject_shared(r, outer, &location, i)) return TT_OK;
    tt_option_ref s =
        outer->element < 0 ? tt_option_ref_job(r, i) : tt_option_ref_ensemble(r, outer->element, i);
    return tt_option_assign(r, doc, &s, &location, node);
  }
  if (top && !r->now && strcmp(near.word, "ensembles") == 0)
    return walk_ensembles(r, doc, key, node);
  if (strcmp(outer->section, "search") == 0 && strcmp(near.word, "space") == 0)
    return tt_search_space_read(r, doc, node);
  if (outer->element >= 0 && is_root(outer)) {
    if (strcmp(near.word, "sweep") == 0) return tt_sweeps_read(r, doc, outer->element, node);
    tt_suggestion_consider(&near, "sweep");
    if (!outer->network && !r->now && strcmp(near.word, "networks") == 0)
      return check_networks(r, outer->element, key, node);
    if (!outer->network && !r->now) tt_suggestion_consider(&near, "networks");
  }
  if (top && !r->now) tt_suggestion_consider(&near, "ensembles");
  i = find_section(outer, &near);
  if (i >= 0) return walk_subsection(r, doc, outer, i, key, node);
  report_unknown_key(r, outer, &location, &near);
  return TT_OK;
}

tt_err tt_pair_read(tt_config_reader *r, yaml_document_t *doc, int64_t element, int network,
                    const yaml_node_t *key, yaml_node_t *node)
{
  const level at = level_of(element, network, element < 0 ? "top" : "ensembles");
  return walk_pair(r, doc, &at, key, node);
}

static tt_err walk_section(tt_config_reader *r, yaml_document_t *doc, const level *at,
                           yaml_node_t *node)
{
  yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
  for (; p < end && r->error_count < TT_MAX_CONFIG_ERRORS; p++) {
    yaml_node_t *key = yaml_document_get_node(doc, p->key);
    if (!tt_key_check(r, key)) continue;
    TT_TRY(walk_pair(r, doc, at, key, yaml_document_get_node(doc, p->value)));
  }
  return TT_OK;
}

static tt_err walk_ensemble(tt_config_reader *r, yaml_document_t *doc, yaml_node_t *node,
                            int64_t element)
{
  tt_source_location location = r->element[element] = tt_node_location(r, node);
  level own = level_of(element, 0, "ensembles");
  if (node->type == YAML_MAPPING_NODE) return walk_section(r, doc, &own, node);
  r->element[element].bad = 1;
  tt_config_error(r, &location,
                  "ensembles[%" PRId64 "]: expected a mapping like {name: a}, found %s",
                  r->cfg->ensemble[element].number, tt_node_kind_text(node));
  return TT_OK;
}

/* The list of the networks of an ensemble: its own `networks`, the recipes of `model: auto`, or the
 * trials of `search`. */
typedef struct network_list {
  yaml_document_t *doc;
  yaml_node_t *list;        /* NULL: the ensemble has one network */
  int64_t shared;           /* number of first elements, whose options all networks get */
  int recipe;               /* 1: `where` makes the networks; the job replaces their values */
  tt_source_location where; /* for messages: place of `auto`, or of the ensemble */
} network_list;

static network_list find_networks(const tt_config_reader *r, tt_portfolio *recipes,
                                  yaml_document_t *doc, yaml_node_t *node)
{
  yaml_node_t *own = tt_mapping_value(doc, node, "networks");
  yaml_node_t *model = tt_mapping_value(doc, node, "model"),
              *all = tt_mapping_value(doc, yaml_document_get_root_node(doc), "model");
  const yaml_node_t *key = model ? model : own ? NULL : all;
  int is_auto = key && tt_node_is_auto("model", key);
  if (is_auto || (recipes->trials && !own))
    return (network_list){&recipes->doc, yaml_document_get_root_node(&recipes->doc),
                          recipes->trials ? 2 : 0, 1, tt_node_location(r, is_auto ? key : node)};
  int some = own && own->type == YAML_SEQUENCE_NODE &&
             own->data.sequence.items.top > own->data.sequence.items.start;
  return (network_list){doc, some ? own : NULL, 0, 0, {0}};
}

static yaml_node_t *network_node(const network_list *n, int64_t i)
{
  return yaml_document_get_node(n->doc, n->list->data.sequence.items.start[i]);
}

static int64_t count_networks(const network_list *n)
{
  if (!n->list) return 1;
  return n->list->data.sequence.items.top - n->list->data.sequence.items.start - n->shared;
}

/* Read an element of `networks` into an element of cfg->ensemble that has the values of its
 * ensemble: the values of the network replace them. */
static tt_err walk_network(tt_config_reader *r, yaml_document_t *doc, yaml_node_t *node, int64_t k)
{
  tt_source_location location = tt_node_location(r, node);
  level own = level_of(k, 1, "ensembles");
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    r->own[k][i].shared = r->own[k][i].given;
    r->own_section[k][i].given = 0;
  }
  for (int h = 0; h < TT_HYPER_COUNT; h++) r->swept[k][h].shared = r->swept[k][h].given;
  if (node->type != YAML_MAPPING_NODE) {
    tt_config_error(r, &location,
                    "ensembles[%" PRId64 "].networks[%" PRId64
                    "]: expected a mapping like {members: 4, model: {hidden: [64]}}, found %s",
                    r->cfg->ensemble[k].number, r->cfg->ensemble[k].network,
                    tt_node_kind_text(node));
    return TT_OK;
  }
  TT_TRY(walk_section(r, doc, &own, node));
  for (int h = 0; h < TT_HYPER_COUNT; h++) {
    const tt_source_location *value = &r->own[k][tt_hyper_option[h]];
    if (!value->given || value->shared || !r->swept[k][h].shared) continue;
    tt_sweep_remove(&r->cfg->ensemble[k], h);
    r->swept[k][h] = (tt_source_location){0};
  }
  return TT_OK;
}

/* Read a recipe into element k: what the ensemble or the job says itself replaces its values. */
static tt_err walk_recipe(tt_config_reader *r, const network_list *n, int64_t k)
{
  tt_source_location *own = r->own[k];
  for (int64_t i = 0; i < n->shared; i++) TT_TRY(walk_network(r, n->doc, network_node(n, i), k));
  TT_TRY(walk_network(r, n->doc, network_node(n, n->shared + r->cfg->ensemble[k].network), k));
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    r->own_section[k][i].given = 0;
    if (!own[i].given) continue;
    own[i] = n->where;
    own[i].given = own[i].shared = own[i].recipe = 1;
  }
  if (!r->automatic.given) r->automatic = own[TT_ENSEMBLE_OPTION_label];
  return TT_OK;
}

/* Read element `number` of `ensembles` into elements of cfg->ensemble from *next on. */
static tt_err walk_networks(tt_config_reader *r, const network_list *n, yaml_document_t *doc,
                            yaml_node_t *node, int64_t number, int64_t *next)
{
  int64_t networks = count_networks(n);
  for (int64_t j = 0; j < networks; j++, ++*next) {
    tt_ensemble_config *own = &r->cfg->ensemble[*next];
    TT_TRY(tt_config_defaults(tt_ensemble_option_table, TT_ENSEMBLE_OPTION_COUNT, own));
    own->number = number;
    own->network = j;
    own->networks = networks;
    if (n->recipe) TT_TRY(walk_recipe(r, n, *next));
    TT_TRY(walk_ensemble(r, doc, node, *next));
    if (n->list && !n->recipe) TT_TRY(walk_network(r, n->doc, network_node(n, j), *next));
  }
  if (n->recipe && r->networks[*next - 1].given)
    tt_config_error(r, &r->networks[*next - 1],
                    "ensembles[%" PRId64
                    "]: `model: auto` is a list of networks itself; remove it, or `networks`",
                    number);
  return TT_OK;
}

/* Read the elements of the list `ensembles`. */
static tt_err walk_list(tt_config_reader *r, tt_portfolio *recipes, yaml_document_t *doc,
                        const tt_source_location *key, yaml_node_t *node)
{
  yaml_node_item_t *item = node->data.sequence.items.start;
  int64_t count = node->data.sequence.items.top - item, elements = 0, next = 0;
  for (int64_t i = 0; i < count; i++) {
    network_list n = find_networks(r, recipes, doc, yaml_document_get_node(doc, item[i]));
    elements += count_networks(&n);
  }
  if (elements > TT_MAX_LIST_ITEMS) {
    tt_config_error(r, key, "ensembles: %" PRId64 " networks; at most %d are possible", elements,
                    TT_MAX_LIST_ITEMS);
    return TT_OK;
  }
  TT_TRY(TT_ALLOC(r->cfg->ensemble, elements));
  r->cfg->ensembles = elements;
  TT_TRY(TT_ALLOC(r->element, elements));
  TT_TRY(TT_ALLOC(r->networks, elements));
  TT_TRY(TT_ALLOC(r->own, elements));
  TT_TRY(TT_ALLOC(r->own_section, elements));
  TT_TRY(TT_ALLOC(r->swept, elements));
  for (int64_t i = 0; i < count; i++) {
    yaml_node_t *one = yaml_document_get_node(doc, item[i]);
    network_list n = find_networks(r, recipes, doc, one);
    TT_TRY(walk_networks(r, &n, doc, one, i, &next));
  }
  return TT_OK;
}

static tt_err walk_ensembles(tt_config_reader *r, yaml_document_t *doc, const yaml_node_t *key,
                             yaml_node_t *node)
{
  tt_source_location location = tt_node_location(r, key);
  if (tt_reject_repeated(r, &r->ensembles, &location, "ensembles")) return TT_OK;
  r->ensembles = location;
  r->ensembles.given = 1;
  int list = node->type == YAML_SEQUENCE_NODE;
  yaml_node_item_t *item = list ? node->data.sequence.items.start : NULL;
  int64_t count = list ? node->data.sequence.items.top - item : 0;
  if (count < 1 || count > TT_MAX_LIST_ITEMS) {
    const char *found = !list ? tt_node_kind_text(node) : count ? "a longer one" : "an empty one";
    tt_config_error(r, &location,
                    "ensembles: expected a list of 1 to %d mappings like "
                    "[{name: all, members: 5}], found %s",
                    TT_MAX_LIST_ITEMS, found);
    return TT_OK;
  }
  tt_portfolio recipes = {0};
  TT_TRY(tt_config_searches(r->cfg) ? tt_search_load(r, &recipes) : tt_portfolio_load(r, &recipes));
  tt_err e = walk_list(r, &recipes, doc, &location, node);
  yaml_document_delete(&recipes.doc);
  return e;
}
