/* search_yaml.c — `search:`: its space, and its trials as nodes of a list `networks`. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/config/portfolio.h"
#include "core/config/search.h"
#include "core/config/yaml/yaml_nodes.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

void tt_search_space_free(tt_config_reader *r)
{
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    tt_search_axis *a = &r->axis[i];
    for (int64_t k = 0; a->text && k < a->count; k++) tt_free(a->text[k]);
    tt_free_all(&a->text, &a->value);
    *a = (tt_search_axis){0};
  }
}

/* A value of the axis: checked as if it stood in the job; *text gets it as YAML.
 *   number  NULL: it is none */
static tt_err read_value(tt_config_reader *r, yaml_document_t *doc, const tt_option *o,
                         yaml_node_t *node, int *bad, char **text, double *number)
{
  tt_ensemble_config record = {0};
  tt_source_location where = {0}, location = tt_node_location(r, node);
  const tt_option_ref ref = {o, &record, &where, -1};
  char *bytes = NULL;
  size_t size = 0;
  tt_err e = tt_config_defaults(o, 1, &record);
  if (!e) e = tt_option_assign(r, doc, &ref, &location, node);
  *bad |= where.bad;
  FILE *out = e || where.bad ? NULL : open_memstream(&bytes, &size);
  if (out) {
    tt_value_write(o, &record, out);
    fclose(out);
    e = tt_text_set(text, bytes);
    const void *field = (const char *)&record + o->offset;
    *number = o->kind == TT_KIND_I64   ? (double)*(const int64_t *)field
              : o->kind == TT_KIND_F64 ? *(const double *)field
                                       : 0.0;
  }
  free(bytes);
  tt_value_free(o, &record);
  return e;
}

static tt_err read_values(tt_config_reader *r, yaml_document_t *doc, const tt_option *o,
                          yaml_node_t *node, tt_search_axis *a)
{
  char path[TT_OPTION_PATH_SIZE];
  tt_source_location location = tt_node_location(r, node);
  const yaml_node_item_t *item = node->data.sequence.items.start;
  int bad = 0, numbers = o->kind == TT_KIND_I64 || o->kind == TT_KIND_F64;
  tt_option_path(o, -1, path);
  a->count = node->data.sequence.items.top - item;
  TT_TRY(TT_ALLOC(a->value, a->count));
  TT_TRY(TT_ALLOC(a->text, a->count));
  for (int64_t i = 0; i < a->count; i++)
    TT_TRY(read_value(r, doc, o, yaml_document_get_node(doc, item[i]), &bad, &a->text[i],
                      &a->value[i]));
  const tt_sweep_range range = {a->kind, 0, a->count, a->value};
  const char *why = bad ? NULL : tt_sweep_range_fault(&range, !numbers);
  if (why)
    tt_config_error(r, &location, "search.space: %s: %s %s", path, tt_choice_sweep[a->kind], why);
  return TT_OK;
}

/* {log_uniform: [1e-4, 1e-2]} */
static tt_err read_axis(tt_config_reader *r, yaml_document_t *doc, int row, yaml_node_t *node)
{
  static const tt_sweep_kind kinds[] = {TT_SWEEP_choice, TT_SWEEP_uniform, TT_SWEEP_log_uniform};
  const tt_option *o = &tt_ensemble_option_table[row];
  char path[TT_OPTION_PATH_SIZE];
  tt_source_location location = tt_node_location(r, node);
  tt_search_axis a = {0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    yaml_node_t *list = tt_mapping_value(doc, node, tt_choice_sweep[kinds[i]]);
    if (!list || list->type != YAML_SEQUENCE_NODE ||
        list->data.sequence.items.top == list->data.sequence.items.start)
      continue;
    a.kind = kinds[i];
    for (int64_t k = 0; k < r->axis[row].count; k++) tt_free(r->axis[row].text[k]);
    tt_free_all(&r->axis[row].text, &r->axis[row].value);
    tt_err e = read_values(r, doc, o, list, &a);
    r->axis[row] = a; /* owner, also after an error */
    return e;
  }
  tt_option_path(o, -1, path);
  tt_config_error(r, &location,
                  "search.space: %s: expected one of {choice: [..]}, {uniform: [a, b]}, "
                  "{log_uniform: [a, b]}",
                  path);
  return TT_OK;
}

/* An option of model or train that a trial can have. */
static int find_row(const char *section, tt_suggestion *near)
{
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    const tt_option *o = &tt_ensemble_option_table[i];
    if (tt_inherited_option[i] < 0 || strcmp(o->section, section) != 0) continue;
    if (strcmp(o->name, near->word) == 0) return i;
    tt_suggestion_consider(near, o->name);
  }
  return -1;
}

static tt_err read_section(tt_config_reader *r, yaml_document_t *doc, const char *section,
                           yaml_node_t *node)
{
  const yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
  for (; node->type == YAML_MAPPING_NODE && p < end; p++) {
    yaml_node_t *key = yaml_document_get_node(doc, p->key);
    if (!tt_key_check(r, key)) continue;
    tt_source_location location = tt_node_location(r, key);
    tt_suggestion near = {.word = tt_scalar_text(key)};
    char shown[TT_PRINTABLE_SIZE];
    int row = find_row(section, &near);
    tt_printable(near.word, shown);
    if (row >= 0)
      TT_TRY(read_axis(r, doc, row, yaml_document_get_node(doc, p->value)));
    else
      tt_config_error(r, &location,
                      "search.space.%s: '%s' is no option of %s that can be searched%s%s%s",
                      section, shown, section, *near.best ? "; did you mean '" : "", near.best,
                      *near.best ? "'?" : "");
  }
  return TT_OK;
}

tt_err tt_search_space_read(tt_config_reader *r, yaml_document_t *doc, yaml_node_t *node)
{
  static const char *const sections[] = {"model", "train"};
  tt_source_location location = tt_node_location(r, node);
  int64_t found = 0;
  r->space = location;
  r->space.given = 1;
  for (int i = 0; i < 2; i++) {
    yaml_node_t *section = tt_mapping_value(doc, node, sections[i]);
    if (section) TT_TRY(read_section(r, doc, sections[i], section));
    found += section != NULL;
  }
  int64_t keys = node->type == YAML_MAPPING_NODE
                     ? node->data.mapping.pairs.top - node->data.mapping.pairs.start
                     : 0;
  if (!found || found < keys)
    tt_config_error(r, &location,
                    "search.space: expected sections model and train, like "
                    "{train: {learning_rate: {log_uniform: [1e-4, 1e-2]}}}");
  return TT_OK;
}

/* The rows of TT_SEARCH_SPACE that `space` does not replace. */
static tt_err add_default_space(tt_config_reader *r)
{
  static const struct {
    const char *section, *name, *axis;
  } rows[] = {
#define X(section, name, axis) {#section, #name, axis},
      TT_SEARCH_SPACE(X)
#undef X
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tt_suggestion near = {.word = rows[i].name};
    int row = find_row(rows[i].section, &near), good = 0;
    yaml_document_t doc;
    if (row < 0 || r->axis[row].count) continue;
    TT_TRY(tt_yaml_load(r, rows[i].axis, strlen(rows[i].axis), &doc, &good));
    if (!good) return TT_FAIL(INTERNAL, "the space of search cannot be read");
    tt_err e = read_axis(r, &doc, row, yaml_document_get_root_node(&doc));
    yaml_document_delete(&doc);
    if (e) return e;
  }
  return TT_OK;
}

static void write_drawn(const tt_config_reader *r, int row, int64_t trial, FILE *out)
{
  const tt_option *o = &tt_ensemble_option_table[row];
  const tt_search_axis *a = &r->axis[row];
  uint32_t which = (uint32_t)XXH3_64bits(o->name, strlen(o->name));
  tt_random4 words =
      tt_random((uint64_t)r->cfg->search_seed, (uint64_t)trial, TT_PURPOSE_SEARCH, which, 0);
  tt_sweep_range range = {a->kind, o->kind == TT_KIND_I64, a->count, a->value};
  fprintf(out, "%s: ", o->name);
  if (a->kind == TT_SWEEP_choice)
    fputs(a->text[tt_uniform_below(words.v[0], words.v[1], (uint32_t)a->count)], out);
  else if (range.is_whole)
    fprintf(out, "%.0f", tt_sweep_draw(&range, words));
  else
    fprintf(out, "%.3g", tt_sweep_draw(&range, words)); /* digits that a person can copy */
}

static void write_drawn_trial(const tt_config_reader *r, int64_t trial, FILE *out)
{
  const char *open = "";
  fprintf(out, "{label: t%" PRId64, trial);
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    const char *section = tt_ensemble_option_table[i].section;
    if (!r->axis[i].count) continue;
    if (strcmp(section, open) != 0)
      fprintf(out, "%s, %s: {", *open ? "}" : "", section);
    else
      fputs(", ", out);
    open = section;
    write_drawn(r, i, trial, out);
  }
  fputs("}}, ", out);
}

/* What all trials have in common, then the trials. */
static void write_trials(const tt_config_reader *r, FILE *out)
{
  static const char *const recipe[] = {
#define X(label, options) "{label: " #label ", " options "}, ",
      TT_RECIPES(X)
#undef X
  };
  const int64_t recipes = sizeof recipe / sizeof *recipe, folds = r->cfg->search_folds;
  fprintf(out, "[{members: %" PRId64 ", " TT_SEARCH_COMMON "}, ", folds);
  if (folds > 1)
    fprintf(out, "{train: {resample: kfold, folds: %" PRId64 "}}, ", folds);
  else
    fputs("{}, ", out);
  for (int64_t i = 0; i < r->cfg->search_budget; i++) {
    if (i < recipes)
      fputs(recipe[i], out);
    else
      write_drawn_trial(r, i, out);
  }
  fputs("]", out);
}

tt_err tt_search_load(tt_config_reader *r, tt_portfolio *out)
{
  char *text = NULL;
  size_t bytes = 0;
  int good = 0;
  TT_TRY(add_default_space(r));
  FILE *f = r->error_count ? NULL : open_memstream(&text, &bytes);
  if (f) write_trials(r, f), fclose(f);
  tt_err e = f ? tt_yaml_load(r, text, bytes, &out->doc, &good) : tt_portfolio_load(r, out);
  if (!e && f && !good) e = TT_FAIL(INTERNAL, "the trials of search cannot be read");
  out->trials = f != NULL;
  r->space.bad = !f; /* its errors are reported */
  free(text);
  return e;
}

void tt_search_resolve(tt_config *c)
{
  static const struct {
    int64_t trials, folds;
  } preset[] = {
#define X(name, trials, folds) {trials, folds},
      TT_SEARCHES(X)
#undef X
  };
  if (!tt_config_searches(c)) return;
  if (c->search_preset == TT_SEARCH_none) c->search_preset = TT_SEARCH_good;
  if (c->search_budget < 0) c->search_budget = preset[c->search_preset].trials;
  if (c->search_folds < 0) c->search_folds = preset[c->search_preset].folds;
}
