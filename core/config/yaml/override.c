/* override.c — reads a job file, and "section.name=value" from the command line as if it stood in
 * the file. */
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The elements of cfg->ensemble that an assignment changes: the networks of an ensemble, or one of
 * them. */
typedef struct assignment_target {
  int64_t element, count; /* element -1, count 1: the job itself */
  int network;            /* 1: one of several networks */
} assignment_target;

/* "networks[1].": the number, with *rest behind it; or -1. */
static int64_t find_network(const char **rest)
{
  char *end = NULL;
  if (strncmp(*rest, "networks[", 9) != 0 || !strchr("0123456789", (*rest)[9])) return -1;
  int64_t i = strtoll(*rest + 9, &end, 10);
  if (end[0] != ']' || end[1] != '.') return -1;
  *rest = end + 2;
  return i;
}

/* ".heating.": the first element of the ensemble with the longest such name, which may contain
 * dots; or -1. */
static int64_t find_ensemble_by_name(const tt_config_reader *r, const char *key, const char **rest)
{
  int64_t best = -1;
  size_t longest = 0;
  for (int64_t i = 0; i < r->cfg->ensembles; i++) {
    const char *name = r->cfg->ensemble[i].name;
    size_t n = name ? strlen(name) : 0;
    if (n <= longest || strncmp(name, key + 1, n) != 0 || key[n + 1] != '.') continue;
    best = i, longest = n;
    *rest = key + n + 2;
  }
  return best;
}

/* "[3]." or ".heating.": the first element of the ensemble, with *rest behind it; or -1. */
static int64_t find_ensemble(const tt_config_reader *r, const char *key, const char **rest)
{
  char *end = NULL;
  int64_t k = 0;
  if (*key != '[') return find_ensemble_by_name(r, key, rest);
  int64_t i = strtoll(key + 1, &end, 10);
  if (!strchr("0123456789", key[1]) || end[0] != ']' || end[1] != '.') return -1;
  *rest = end + 2;
  while (k < r->cfg->ensembles && r->cfg->ensemble[k].number < i) k++;
  return k < r->cfg->ensembles ? k : -1;
}

/* The elements that the key names; 0 and an error if there are none. */
static int find_elements(tt_config_reader *r, const tt_source_location *location, const char *key,
                         const char **rest, assignment_target *out)
{
  int64_t first = find_ensemble(r, key, rest);
  if (first < 0) {
    tt_config_error(r, location,
                    "no such ensemble; write ensembles[i].option=value with i below %" PRId64
                    ", or ensembles.NAME.option=value",
                    tt_config_ensembles(r->cfg));
    return 0;
  }
  int64_t networks = r->cfg->ensemble[first].networks, network = find_network(rest);
  if (network >= networks) {
    tt_config_error(r, location, "no such network; write networks[i] with i below %" PRId64,
                    networks);
    return 0;
  }
  *out = network < 0 ? (assignment_target){first, networks, 0}
                     : (assignment_target){first + network, 1, networks > 1};
  return 1;
}

/* A node for the first name of a path; 0: it is no text, or out of memory. */
static int add_name(yaml_document_t *doc, const char *path)
{
  return yaml_document_add_scalar(doc, NULL, (const yaml_char_t *)path, (int)strcspn(path, "."),
                                  YAML_PLAIN_SCALAR_STYLE);
}

/* The value of the first name of a path: mappings of the others around the root of the document. */
static int nest(yaml_document_t *doc, const char *path)
{
  const char *dot = strchr(path, '.');
  if (!dot) return 1;
  int inner = nest(doc, dot + 1), name = add_name(doc, dot + 1);
  int mapping = yaml_document_add_mapping(doc, NULL, YAML_BLOCK_MAPPING_STYLE);
  int good =
      inner && name && mapping && yaml_document_append_mapping_pair(doc, mapping, name, inner);
  return good ? mapping : 0;
}

/* A later value for one network replaces what was given for all. */
static void mark_shared(tt_config_reader *r, int64_t k, int shared)
{
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
    if (r->own[k][i].set == r->now) r->own[k][i].shared = shared;
  for (int h = 0; h < TT_HYPER_COUNT; h++)
    if (r->swept[k][h].set == r->now) r->swept[k][h].shared = shared;
}

static tt_err assign(tt_config_reader *r, const assignment_target *g,
                     const tt_source_location *location, const char *path, const char *text)
{
  yaml_document_t doc;
  int good = 0;
  TT_TRY(tt_yaml_load(r, text, strlen(text), &doc, &good));
  if (!good) return TT_OK;
  int empty = !yaml_document_get_root_node(&doc);
  int key = add_name(&doc, path), value = empty ? 0 : nest(&doc, path);
  tt_err e = TT_OK;
  if (empty)
    tt_config_error(r, location, "%s has no value; write '' for an empty string", path);
  else if (!key || !value)
    tt_config_error(r, location, "expected section.option=value");
  for (int64_t k = g->element; !e && key && value && k < g->element + g->count; k++) {
    e = tt_pair_read(r, &doc, k, g->network, yaml_document_get_node(&doc, key),
                     yaml_document_get_node(&doc, value));
    if (k >= 0) mark_shared(r, k, g->count > 1);
  }
  yaml_document_delete(&doc);
  return e;
}

tt_err tt_config_read_override(tt_config_reader *r)
{
  const char *text = r->set[r->now - 1], *equals = strchr(text, '=');
  tt_source_location location = {.line = 1, .column = 1, .set = r->now};
  char key[TT_OPTION_PATH_SIZE];
  const char *rest = key;
  assignment_target g = {-1, 1, 0};
  size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= sizeof key) {
    tt_config_error(r, &location, "expected section.option=value");
    return TT_OK;
  }
  memcpy(key, text, length);
  key[length] = '\0';
  int own = strncmp(key, "ensembles", 9) == 0 && (key[9] == '[' || key[9] == '.');
  if (own && !find_elements(r, &location, key + 9, &rest, &g)) return TT_OK;
  return assign(r, &g, &location, rest, equals + 1);
}

/* Read the pairs of the top level with the key `search`, or the others. */
static tt_err read_pairs(tt_config_reader *r, yaml_document_t *doc, const yaml_node_t *root,
                         int search)
{
  const yaml_node_pair_t *p = root->data.mapping.pairs.start, *end = root->data.mapping.pairs.top;
  for (; p < end && r->error_count < TT_MAX_CONFIG_ERRORS; p++) {
    const yaml_node_t *key = yaml_document_get_node(doc, p->key);
    int is_search = key->type == YAML_SCALAR_NODE && !strcmp(tt_scalar_text(key), "search");
    if (is_search != search || !tt_key_check(r, key)) continue;
    TT_TRY(tt_pair_read(r, doc, -1, 0, key, yaml_document_get_node(doc, p->value)));
  }
  return TT_OK;
}

/* Read `search` of the job, and of --set, before the other sections: it decides which networks the
 * ensembles have. */
static tt_err read_search(tt_config_reader *r, yaml_document_t *doc, const yaml_node_t *root)
{
  TT_TRY(read_pairs(r, doc, root, 1));
  for (int n = 1; n <= r->nset; n++) {
    r->now = n;
    if (!strncmp(r->set[n - 1], "search.", 7)) TT_TRY(tt_config_read_override(r));
  }
  r->now = 0;
  tt_search_resolve(r->cfg);
  return TT_OK;
}

tt_err tt_config_read_yaml(tt_config_reader *r, const char *text, size_t bytes)
{
  yaml_document_t doc;
  int good = 0;
  TT_TRY(tt_yaml_load(r, text, bytes, &doc, &good));
  if (!good) return TT_OK;
  yaml_node_t *root = yaml_document_get_root_node(&doc);
  tt_source_location location = {.line = 1, .column = 1};
  tt_err e = TT_OK;
  r->usable = root && root->type == YAML_MAPPING_NODE;
  if (r->usable) {
    e = read_search(r, &doc, root);
    if (!e) e = read_pairs(r, &doc, root, 0);
  } else if (!root || tt_node_is_empty(root)) {
    tt_config_error(r, &location, "the file is empty; a job needs at least data and ensembles");
  } else {
    location = tt_node_location(r, root);
    tt_config_error(r, &location, "expected sections like data and ensembles, found %s",
                    tt_node_kind_text(root));
  }
  yaml_document_delete(&doc);
  return e;
}
