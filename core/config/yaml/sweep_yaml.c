/* sweep_yaml.c — `sweep:` of an ensemble: read, checked with the table rows of the swept options,
 * written. */
#include "core/base/mem.h"
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <string.h>

/* The sweep that is read. */
typedef struct sweep_reader {
  tt_config_reader *r;
  yaml_document_t *doc;
  char path[TT_OPTION_PATH_SIZE]; /* "ensembles[0].sweep.learning_rate" */
  const tt_option *option;        /* kind and range of the values */
  tt_source_location *where;
  tt_sweep out;
} sweep_reader;

void tt_sweeps_free(tt_ensemble_config *own)
{
  for (int64_t i = 0; i < own->sweeps; i++) tt_free(own->sweep[i].value);
  tt_free(own->sweep);
  own->sweeps = 0;
}

void tt_sweep_remove(tt_ensemble_config *own, int hyper)
{
  int64_t kept = 0;
  for (int64_t i = 0; i < own->sweeps; i++) {
    if (own->sweep[i].hyper == hyper)
      tt_free(own->sweep[i].value);
    else
      own->sweep[kept++] = own->sweep[i];
  }
  own->sweeps = kept;
}

static void report_unknown_hyper(tt_config_reader *r, const tt_source_location *location,
                                 int64_t element, const tt_suggestion *near)
{
  char shown[TT_PRINTABLE_SIZE], names[TT_REASON_SIZE] = "";
  for (int i = 0; i < TT_HYPER_COUNT; i++)
    tt_text_append(names, sizeof names, ", ", tt_hyper_name[i]);
  tt_printable(near->word, shown);
  tt_config_error(r, location,
                  "ensembles[%" PRId64
                  "].sweep: '%s' cannot be swept; %s%s%soptions that can be swept: %s",
                  element, shown, *near->best ? "did you mean '" : "", near->best,
                  *near->best ? "'? " : "", names);
}

static double number_of(const tt_option *o, const tt_value *value)
{
  return o->kind == TT_KIND_I64 ? (double)value->whole : value->real;
}

static void read_element(sweep_reader *s, const yaml_node_t *node, int64_t i)
{
  tt_value value = {0};
  char path[2 * TT_OPTION_PATH_SIZE];
  snprintf(path, sizeof path, "%s: %s", s->path, tt_choice_sweep[s->out.kind]);
  if (tt_element_parse(s->r, s->option, path, node, i, &value))
    s->out.value[i] = number_of(s->option, &value);
  else
    s->where->bad = 1;
}

/* uniform and log_uniform need two ascending numbers. */
static void check_bounds(sweep_reader *s, const tt_source_location *location)
{
  const tt_sweep_range range = {.kind = s->out.kind, .count = s->out.count, .value = s->out.value};
  const char *why = tt_sweep_range_fault(&range, 0);
  if (!why) return;
  s->where->bad = 1;
  tt_config_error(s->r, location, "%s: %s %s", s->path, tt_choice_sweep[s->out.kind], why);
}

static tt_err read_values(sweep_reader *s, yaml_node_t *node)
{
  tt_source_location location = tt_node_location(s->r, node);
  int list = node->type == YAML_SEQUENCE_NODE;
  yaml_node_item_t *item = list ? node->data.sequence.items.start : NULL;
  int64_t count = list ? node->data.sequence.items.top - item : 0;
  if (count < 1 || count > TT_MAX_LIST_ITEMS) {
    s->where->bad = 1;
    tt_config_error(s->r, &location,
                    "%s: %s: expected a list of 1 to %d values in brackets, found %s", s->path,
                    tt_choice_sweep[s->out.kind], TT_MAX_LIST_ITEMS,
                    list ? count ? "a longer one" : "an empty one" : tt_node_kind_text(node));
    return TT_OK;
  }
  TT_TRY(TT_ALLOC(s->out.value, count));
  s->out.count = count;
  for (int64_t i = 0; i < count; i++) read_element(s, yaml_document_get_node(s->doc, item[i]), i);
  if (!s->where->bad) check_bounds(s, &location);
  return TT_OK;
}

/* {log_uniform: [1e-4, 1e-2]}: a mapping of one pair. */
static tt_err read_kind(sweep_reader *s, yaml_node_t *node)
{
  tt_source_location location = tt_node_location(s->r, node);
  yaml_node_pair_t *pair = node->type == YAML_MAPPING_NODE ? node->data.mapping.pairs.start : NULL;
  if (pair && node->data.mapping.pairs.top - pair == 1) {
    yaml_node_t *key = yaml_document_get_node(s->doc, pair->key);
    tt_yaml_scalar word =
        key->type == YAML_SCALAR_NODE ? tt_yaml_scalar_of(key) : (tt_yaml_scalar){.text = ""};
    for (int i = 0; tt_choice_sweep[i]; i++) {
      if (strcmp(tt_choice_sweep[i], word.text) != 0) continue;
      s->out.kind = (tt_sweep_kind)i;
      return read_values(s, yaml_document_get_node(s->doc, pair->value));
    }
  }
  s->where->bad = 1;
  tt_config_error(s->r, &location,
                  "%s: expected one of {list: [..]}, {grid: [..]}, {uniform: [a, b]}, "
                  "{log_uniform: [a, b]}, {choice: [..]}",
                  s->path);
  return TT_OK;
}

/* Replace an earlier sweep of the same option (--set), or append. */
static tt_err store_sweep(tt_ensemble_config *own, const tt_sweep *s)
{
  int64_t capacity = own->sweeps;
  for (int64_t i = 0; i < own->sweeps; i++) {
    if (own->sweep[i].hyper != s->hyper) continue;
    tt_free(own->sweep[i].value);
    own->sweep[i] = *s;
    return TT_OK;
  }
  TT_TRY(TT_GROW(own->sweep, own->sweeps, 1, capacity));
  own->sweep[own->sweeps++] = *s;
  return TT_OK;
}

static tt_err read_sweep(tt_config_reader *r, yaml_document_t *doc, int64_t element,
                         const tt_source_location *key, const char *name, yaml_node_t *node)
{
  tt_suggestion near = {.word = name};
  int h = 0;
  while (h < TT_HYPER_COUNT && strcmp(tt_hyper_name[h], name) != 0)
    tt_suggestion_consider(&near, tt_hyper_name[h++]);
  if (h == TT_HYPER_COUNT) {
    report_unknown_hyper(r, key, r->cfg->ensemble[element].number, &near);
    return TT_OK;
  }
  sweep_reader s = {.r = r, .doc = doc, .option = &tt_ensemble_option_table[tt_hyper_option[h]]};
  s.where = &r->swept[element][h];
  s.out.hyper = h;
  snprintf(s.path, sizeof s.path, "ensembles[%" PRId64 "].sweep.%s",
           r->cfg->ensemble[element].number, name);
  if (tt_reject_repeated(r, s.where, key, s.path)) return TT_OK;
  *s.where = *key;
  s.where->given = 1;
  tt_err e = read_kind(&s, node);
  if (!e && !s.where->bad) {
    e = store_sweep(&r->cfg->ensemble[element], &s.out);
    if (!e) return TT_OK;
  }
  tt_free(s.out.value);
  return e;
}

tt_err tt_sweeps_read(tt_config_reader *r, yaml_document_t *doc, int64_t element, yaml_node_t *node)
{
  tt_source_location location = tt_node_location(r, node);
  if (tt_node_is_empty(node)) return TT_OK;
  if (node->type != YAML_MAPPING_NODE) {
    tt_config_error(r, &location,
                    "ensembles[%" PRId64 "].sweep: expected a mapping like "
                    "{learning_rate: {log_uniform: [1e-4, 1e-2]}}, found %s",
                    r->cfg->ensemble[element].number, tt_node_kind_text(node));
    return TT_OK;
  }
  yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
  for (; p < end; p++) {
    yaml_node_t *key = yaml_document_get_node(doc, p->key);
    if (!tt_key_check(r, key)) continue;
    location = tt_node_location(r, key);
    TT_TRY(read_sweep(r, doc, element, &location, tt_yaml_scalar_of(key).text,
                      yaml_document_get_node(doc, p->value)));
  }
  return TT_OK;
}

static void write_sweep(const tt_sweep *s, int indent, FILE *out)
{
  fprintf(out, "%*s%s: {%s: [", indent + 2, "", tt_hyper_name[s->hyper], tt_choice_sweep[s->kind]);
  for (int64_t i = 0; i < s->count; i++) {
    if (i) fputs(", ", out);
    tt_double_write(s->value[i], out);
  }
  fputs("]}\n", out);
}

void tt_sweeps_write(const tt_ensemble_config *own, int indent, FILE *out)
{
  if (own->sweeps) fprintf(out, "%*ssweep:\n", indent, "");
  for (int64_t i = 0; i < own->sweeps; i++) write_sweep(&own->sweep[i], indent, out);
}
