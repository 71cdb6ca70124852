/* override.c — "section.name=value" from the command line. */
#include "core/config/hints.h"
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Target of an assignment: a field, or a swept option of an ensemble. */
typedef struct assignment_target {
  tt_option_ref slot; /* option NULL: a sweep */
  int64_t element,
      count;  /* count elements of cfg->ensemble: the networks of the ensemble, or one */
  int option; /* number in the table of ensembles */
  const char *swept;
} assignment_target;

static void report_unknown(tt_config_reader *r, const tt_source_location *location,
                           const tt_suggestion *near)
{
  char shown[TT_PRINTABLE_SIZE], path[TT_OPTION_PATH_SIZE];
  const char *dot = strrchr(near->word, '.');
  int64_t element;
  const tt_option *hint = tt_hint_option(dot ? dot + 1 : near->word, &element);
  const char *best = hint ? path : near->best;
  if (hint) tt_option_path(hint, element, path);
  tt_printable(near->word, shown);
  if (*best)
    tt_config_error(r, location, "unknown option '%s'; did you mean '%s'?", shown, best);
  else
    tt_config_error(r, location, "unknown option '%s'", shown);
}

/* "members" or "train.epochs": the option of an ensemble, or -1; adds all names to `near`. */
static int find_option(const char *rest, tt_suggestion *near)
{
  char path[TT_OPTION_PATH_SIZE];
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    const tt_option *o = &tt_ensemble_option_table[i];
    tt_option_path(o, -1, path);
    const char *relative = tt_inherited_option[i] < 0 ? o->name : path;
    if (strcmp(relative, rest) == 0) return i;
    tt_suggestion_consider(near, relative);
  }
  return -1;
}

/* "sweep.learning_rate": the option, or NULL. */
static const char *swept_option(const char *rest)
{
  return strncmp(rest, "sweep.", 6) == 0 ? rest + 6 : NULL;
}

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

/* ".heating.": the ensemble, or -1. A name may contain dots: take the longest name that is followed
 * by a known option. */
static int64_t find_ensemble_by_name(const tt_config_reader *r, const char *key, const char **rest)
{
  int64_t best = -1;
  size_t longest = 0;
  int known = 0;
  for (int64_t i = 0; i < r->cfg->ensembles; i++) {
    const char *name = r->cfg->ensemble[i].name;
    size_t n = name ? strlen(name) : 0;
    if (!n || strncmp(name, key + 1, n) != 0 || key[n + 1] != '.') continue;
    tt_suggestion near = {.word = key + n + 2};
    const char *option = near.word;
    if (r->cfg->ensemble[i].network > 0) continue;
    find_network(&option);
    int fits = swept_option(option) || find_option(option, &near) >= 0;
    if (best >= 0 && (fits < known || (fits == known && n <= longest))) continue;
    best = i, longest = n, known = fits;
    *rest = near.word;
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
  *out = network < 0 ? (assignment_target){.element = first, .count = networks}
                     : (assignment_target){.element = first + network, .count = 1};
  return 1;
}

static int find_ensemble_option(tt_config_reader *r, const tt_source_location *location,
                                const char *key, assignment_target *out)
{
  const char *rest = key;
  if (!find_elements(r, location, key, &rest, out)) return 0;
  tt_suggestion near = {.word = rest};
  out->swept = swept_option(rest);
  if (out->swept) return 1;
  int i = out->option = find_option(rest, &near);
  int one = out->count < r->cfg->ensemble[out->element].networks;
  if (i >= 0)
    out->slot = tt_option_ref_ensemble(r, out->element, i);
  else
    report_unknown(r, location, &near);
  if (i < 0 || !one || tt_inherited_option[i] >= 0 || i == TT_ENSEMBLE_OPTION_members ||
      i == TT_ENSEMBLE_OPTION_label)
    return i >= 0;
  tt_config_error(r, location, "'%s' belongs to the ensemble, not to one of its networks", rest);
  return 0;
}

static int find_job_option(tt_config_reader *r, const tt_source_location *location, const char *key,
                           assignment_target *out)
{
  char path[TT_OPTION_PATH_SIZE], without_section[TT_OPTION_PATH_SIZE] = "";
  tt_suggestion near = {.word = key};
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    *out = (assignment_target){.slot = tt_option_ref_job(r, i)};
    tt_option_path(out->slot.option, -1, path);
    if (strcmp(path, key) == 0) return 1;
    tt_suggestion_consider(&near, path);
    if (!*without_section && !strcmp(out->slot.option->name, key))
      snprintf(without_section, sizeof without_section, "%s", path);
  }
  if (*without_section) snprintf(near.best, sizeof near.best, "%s", without_section);
  report_unknown(r, location, &near);
  return 0;
}

/* Give the option, or the sweep, that g names its value in element k of cfg->ensemble. */
static tt_err assign_element(tt_config_reader *r, yaml_document_t *doc, const assignment_target *g,
                             int64_t k, const tt_source_location *location, yaml_node_t *root)
{
  int shared = g->count > 1;
  if (g->swept) {
    TT_TRY(tt_sweep_read(r, doc, k, location, g->swept, root));
    for (int h = 0; h < TT_HYPER_COUNT; h++)
      if (!strcmp(tt_hyper_name[h], g->swept)) r->swept[k][h].shared = shared;
    return TT_OK;
  }
  const tt_option_ref slot = tt_option_ref_ensemble(r, k, g->option);
  TT_TRY(tt_option_assign(r, doc, &slot, location, root));
  slot.where->shared = shared;
  return TT_OK;
}

static tt_err assign_text(tt_config_reader *r, const assignment_target *g,
                          const tt_source_location *location, const char *text)
{
  yaml_document_t doc;
  char path[TT_OPTION_PATH_SIZE] = "the sweep";
  int good = 0;
  TT_TRY(tt_yaml_load(r, text, strlen(text), &doc, &good));
  if (!good) return TT_OK;
  yaml_node_t *root = yaml_document_get_root_node(&doc);
  if (g->slot.option) tt_option_path(g->slot.option, g->slot.element, path);
  tt_err e = TT_OK;
  if (!root)
    tt_config_error(r, location, "%s has no value; write '' for an empty string", path);
  else if (g->slot.option && g->count == 0)
    e = tt_option_assign(r, &doc, &g->slot, location, root);
  for (int64_t k = g->element; !e && root && k < g->element + g->count; k++)
    e = assign_element(r, &doc, g, k, location, root);
  yaml_document_delete(&doc);
  return e;
}

tt_err tt_config_read_override(tt_config_reader *r)
{
  const char *text = r->set[r->now - 1], *equals = strchr(text, '=');
  tt_source_location location = {.line = 1, .column = 1, .set = r->now};
  char key[TT_OPTION_PATH_SIZE];
  assignment_target g;
  size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= sizeof key) {
    tt_config_error(r, &location, "expected section.option=value");
    return TT_OK;
  }
  memcpy(key, text, length);
  key[length] = '\0';
  int own = strncmp(key, "ensembles", 9) == 0 && (key[9] == '[' || key[9] == '.');
  int found = own ? find_ensemble_option(r, &location, key + 9, &g)
                  : find_job_option(r, &location, key, &g);
  return found ? assign_text(r, &g, &location, equals + 1) : TT_OK;
}
