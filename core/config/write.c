/* write.c — the resolved configuration as YAML, its hashes, the page of options. */
#include "core/base/mem.h"
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* Text of growing length, written through a FILE. */
typedef struct text_buffer {
  FILE *out;
  char *text;
  size_t bytes;
} text_buffer;

static tt_err buffer_open(text_buffer *p)
{
  *p = (text_buffer){0};
  p->out = open_memstream(&p->text, &p->bytes);
  return p->out ? TT_OK : TT_FAIL(MEM, "out of host memory for a text");
}

static tt_err buffer_close(text_buffer *p, char **text)
{
  char *copy = NULL;
  int failed = ferror(p->out);
  failed |= fclose(p->out) != 0;
  tt_err e = failed ? TT_FAIL(MEM, "out of host memory for a text")
                    : TT_ALLOC(copy, (int64_t)p->bytes + 1);
  if (!e) memcpy(copy, p->text, p->bytes);
  free(p->text);
  if (!e) *text = copy;
  return e;
}

/* Write `split:`, indented below its enclosing section. Returns the depth of its options. */
static int write_heading(const char *section, int indent, FILE *out)
{
  char path[TT_OPTION_PATH_SIZE];
  if (strcmp(section, "top") == 0) return 0;
  int depth = tt_section_path(section, path);
  fprintf(out, "%*s%s:\n", indent + 2 * depth, "", section + tt_section_leaf(section));
  return depth + 1;
}

/* Write the options of an ensemble alone. */
static void write_ensemble_options(const tt_ensemble_config *own, FILE *out)
{
  const char *mark = "- ";
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    const tt_option *o = &tt_ensemble_option_table[i];
    if (tt_inherited_option[i] >= 0 || tt_value_is_empty(o, own)) continue;
    if (own->networks > 1 && (i == TT_ENSEMBLE_OPTION_members || i == TT_ENSEMBLE_OPTION_label))
      continue;
    fprintf(out, "  %s%s: ", mark, o->name);
    tt_value_write(o, own, out);
    fputc('\n', out);
    mark = "  ";
  }
}

/* Write the missing headings down to `section`; `open` is the section written last. */
static int open_section(const char *section, int indent, char open[TT_OPTION_PATH_SIZE], FILE *out)
{
  char parent[TT_OPTION_PATH_SIZE], path[TT_OPTION_PATH_SIZE];
  size_t last = tt_section_leaf(section);
  if (strcmp(section, open) == 0) return tt_section_path(section, path) + 1;
  snprintf(parent, sizeof parent, "%.*s", last ? (int)last - 1 : 0, section);
  if (last && strncmp(open, parent, last - 1) != 0) open_section(parent, indent, open, out);
  snprintf(open, TT_OPTION_PATH_SIZE, "%s", section);
  return write_heading(section, indent, out);
}

/* Write the values of the ensemble that differ from the job. */
static void write_overrides(const tt_config *cfg, const tt_ensemble_config *own, int indent,
                            FILE *out)
{
  char open[TT_OPTION_PATH_SIZE] = "";
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    const tt_option *o = &tt_ensemble_option_table[i];
    if (tt_inherited_option[i] < 0) continue;
    if (tt_value_equal(o, own, &cfg->defaults)) continue;
    int depth = open_section(o->section, indent, open, out);
    fprintf(out, "%*s%s: ", indent + 2 * depth, "", o->name);
    tt_value_write(o, own, out);
    fputc('\n', out);
  }
}

tt_err tt_config_to_yaml(const tt_config *cfg, char **text)
{
  text_buffer p;
  int depth = 0;
  TT_TRY(buffer_open(&p));
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    const tt_option *o = &tt_option_table[i];
    if (!cfg->campaign && tt_is_campaign_section(o->section)) continue;
    if (!tt_config_searches(cfg) && !strcmp(o->section, "search")) continue;
    if (i == 0 || strcmp(o->section, tt_option_table[i - 1].section) != 0)
      depth = write_heading(o->section, 0, p.out);
    int lists = o->kind == TT_KIND_TEXTLIST || o->kind == TT_KIND_CLASSES;
    if (lists && !*o->default_value && tt_value_is_empty(o, cfg))
      continue; /* [] and {} are errors */
    fprintf(p.out, "%*s%s: ", 2 * depth, "", o->name);
    tt_value_write(o, cfg, p.out);
    fputc('\n', p.out);
  }
  fputs("ensembles:\n", p.out);
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    int indent = own->networks > 1 ? 8 : 4;
    if (own->network == 0) write_ensemble_options(own, p.out);
    if (own->networks > 1)
      fprintf(p.out, "%s      - members: %" PRId64 "\n", own->network == 0 ? "    networks:\n" : "",
              own->members);
    if (own->networks > 1 && *own->label) {
      fprintf(p.out, "%*slabel: ", indent, "");
      tt_value_write(&tt_ensemble_option_table[TT_ENSEMBLE_OPTION_label], own, p.out);
      fputc('\n', p.out);
    }
    write_overrides(cfg, own, indent, p.out);
    tt_sweeps_write(own, indent, p.out);
  }
  return buffer_close(&p, text);
}

/* 1 if a network of the ensemble has another value of option i than the first one. */
static int differs(const tt_ensemble_config *first, int i)
{
  for (int64_t k = 1; k < first->networks; k++)
    if (!tt_value_equal(&tt_ensemble_option_table[i], &first[k], first)) return 1;
  return 0;
}

tt_err tt_config_network_text(const tt_config *cfg, int64_t element, char **text)
{
  text_buffer p;
  char path[TT_OPTION_PATH_SIZE];
  const char *mark = "";
  const tt_ensemble_config *own = &cfg->ensemble[element];
  TT_TRY(buffer_open(&p));
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
    if (tt_inherited_option[i] < 0 || !differs(own - own->network, i)) continue;
    tt_option_path(&tt_option_table[tt_inherited_option[i]], -1, path);
    fprintf(p.out, "%s%s ", mark, path);
    tt_value_write(&tt_ensemble_option_table[i], own, p.out);
    mark = ", ";
  }
  return buffer_close(&p, text);
}

/* 1 for the options of the job that decide results. Not data.file: the data set has a separate
 * hash. */
static int affects_results(int i)
{
  const char *section = tt_option_table[i].section;
  if (!strcmp(section, "top")) return i != TT_OPTION_top_title;
  if (i == TT_OPTION_run_seed) return 1;
  return i != TT_OPTION_data_file && (!strcmp(section, "data") || !strcmp(section, "data_split"));
}

static uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed)
{
  return XXH3_64bits_withSeed(bytes, n, seed);
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
  return hash_bytes(text, strlen(text), seed);
}

/* Hash of name and value, chained with `seed`; a NAME is hashed as text, so that new choices do not
 * change the hash. */
static uint64_t hash_value(const tt_option *o, const void *record, uint64_t seed)
{
  tt_stored_values v = tt_values_of(o, record);
  uint64_t h = hash_text(o->name, seed);
  if (o->kind == TT_KIND_NAME) {
    int choice = *(const int *)v.at;
    return hash_text(choice < 0 ? "" : o->choices[choice], h);
  }
  if (tt_option_kind_table[o->kind].type != TT_VALUE_STRING)
    return hash_bytes(v.at, (size_t)v.count * v.size, h);
  for (int64_t i = 0; i < v.count; i++) h = hash_text(((char *const *)v.at)[i], h);
  return h;
}

static uint64_t hash_sweep(const tt_sweep *s, uint64_t seed)
{
  uint64_t h = hash_text(tt_choice_sweep[s->kind], hash_text(tt_hyper_name[s->hyper], seed));
  return hash_bytes(s->value, (size_t)s->count * sizeof *s->value, h);
}

static uint64_t hash_ensembles(const tt_config *cfg, uint64_t h)
{
  for (int64_t k = 0; k < cfg->ensembles; k++)
    for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
      if (i != TT_ENSEMBLE_OPTION_label)
        h = hash_value(&tt_ensemble_option_table[i], &cfg->ensemble[k], h);
  for (int64_t k = 0; k < cfg->ensembles; k++)
    for (int64_t i = 0; i < cfg->ensemble[k].sweeps; i++)
      h = hash_sweep(&cfg->ensemble[k].sweep[i], h);
  return h;
}

uint64_t tt_config_result_hash(const tt_config *cfg)
{
  uint64_t h = 0;
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (affects_results(i)) h = hash_value(&tt_option_table[i], cfg, h);
  return hash_ensembles(cfg, tt_config_searches(cfg) ? h + 1 : h); /* its trials are ensembles */
}

/* Write "; name is VALUE there and VALUE here" if the values of an option differ.
 *   path  name of the option, or NULL: its own, of ensemble `element` */
static void write_difference(const tt_option *o, const char *path, int64_t element,
                             const void *there, const void *here, FILE *out)
{
  char own[TT_OPTION_PATH_SIZE];
  if (tt_value_equal(o, there, here)) return;
  tt_option_path(o, element, own);
  fprintf(out, "; %s is ", path ? path : own);
  tt_value_write(o, there, out);
  fputs(" there and ", out);
  tt_value_write(o, here, out);
  fputs(" here", out);
}

/* An option of ensembles: a value of the job once, and the own values of ensembles. */
static void write_ensemble_difference(int i, const tt_config *there, const tt_config *here,
                                      FILE *out)
{
  const tt_option *o = &tt_ensemble_option_table[i];
  int row = tt_inherited_option[i];
  char path[TT_OPTION_PATH_SIZE];
  if (row >= 0) {
    tt_option_path(&tt_option_table[row], -1, path);
    write_difference(o, path, -1, &there->defaults, &here->defaults, out);
  }
  for (int64_t k = 0; k < here->ensembles && k < there->ensembles; k++) {
    const tt_ensemble_config *a = &there->ensemble[k], *b = &here->ensemble[k];
    int inherited =
        row >= 0 && tt_value_equal(o, a, &there->defaults) && tt_value_equal(o, b, &here->defaults);
    if (!inherited) write_difference(o, NULL, b->number, a, b, out);
  }
}

static void write_sweep_difference(const tt_ensemble_config *there, const tt_ensemble_config *here,
                                   FILE *out)
{
  int same = there->sweeps == here->sweeps;
  for (int64_t i = 0; same && i < here->sweeps; i++)
    same = hash_sweep(&there->sweep[i], 0) == hash_sweep(&here->sweep[i], 0);
  if (!same) fprintf(out, "; the sweep of ensemble %s differs", here->name);
}

void tt_config_difference(const tt_config *there, const tt_config *here, char *text, int64_t size)
{
  text_buffer p;
  char *all = NULL;
  *text = '\0';
  if (buffer_open(&p)) return;
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (affects_results(i)) write_difference(&tt_option_table[i], NULL, -1, there, here, p.out);
  if (there->ensembles != here->ensembles)
    fprintf(p.out,
            "; there are %" PRId64 " ensembles with %" PRId64 " networks there, %" PRId64
            " with %" PRId64 " here",
            tt_config_ensembles(there), there->ensembles, tt_config_ensembles(here),
            here->ensembles);
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
    write_ensemble_difference(i, there, here, p.out);
  for (int64_t k = 0; k < here->ensembles && k < there->ensembles; k++)
    write_sweep_difference(&there->ensemble[k], &here->ensemble[k], p.out);
  if (!buffer_close(&p, &all)) snprintf(text, (size_t)size, "%s", *all ? all + 2 : "");
  tt_free(all);
}

uint64_t tt_config_section_hash(const tt_config *cfg, const char *section)
{
  uint64_t h = 0;
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (!strcmp(tt_option_table[i].section, section)) h = hash_value(&tt_option_table[i], cfg, h);
  return h;
}

static int is_per_member(int row)
{
  for (int i = 0; i < TT_HYPER_COUNT; i++)
    if (tt_hyper_option[i] == row) return 1;
  return 0;
}

uint64_t tt_config_cohort_hash(const tt_ensemble_config *own)
{
  uint64_t h = 0;
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
    if (tt_inherited_option[i] >= 0 && !is_per_member(i) && i != TT_ENSEMBLE_OPTION_model_classes)
      h = hash_value(&tt_ensemble_option_table[i], own, h);
  return h;
}

static int is_choice(const tt_option *o, const char *word)
{
  for (int i = 0; o->choices && o->choices[i]; i++)
    if (strcmp(o->choices[i], word) == 0) return 1;
  return 0;
}

/* The allowed values: "a whole number, 1 to 4096, or auto", "one of mean, mean_variance". */
static void write_values(const tt_option *o, FILE *out)
{
  char range[TT_OPTION_PATH_SIZE];
  tt_option_range(o, range);
  fputs(o->choices ? "one of" : tt_option_kind_table[o->kind].text, out);
  for (int i = 0; o->choices && o->choices[i]; i++)
    fprintf(out, "%s %s", i ? "," : "", o->choices[i]);
  if (o->kind == TT_KIND_BYCOLUMN) fputs("; or a mapping from columns to them", out);
  if (*range) fprintf(out, ", %s", range);
  if (o->default_value && !strcmp(o->default_value, "auto") && !is_choice(o, "auto"))
    fputs(", or auto", out);
}

static const char *default_text(const tt_option *o)
{
  return !o->default_value ? "must be given" : *o->default_value ? o->default_value : "not given";
}

static void write_row(const tt_option *o, int element, int markdown, FILE *out)
{
  char path[TT_OPTION_PATH_SIZE];
  tt_option_path(o, -1, path);
  if (markdown) {
    fprintf(out, "| `%s` | ", element ? o->name : path);
    write_values(o, out);
    fprintf(out, " | %s%s%s | %s |\n", o->default_value && *o->default_value ? "`" : "",
            default_text(o), o->default_value && *o->default_value ? "`" : "", o->help);
    return;
  }
  fprintf(out, "  %s%s\n      %s\n      ", element ? "- " : "", element ? o->name : path, o->help);
  write_values(o, out);
  fprintf(out, " (%s%s)\n", o->default_value && *o->default_value ? "default " : "",
          default_text(o));
}

static void write_title(const char *section, int markdown, FILE *out)
{
  char name[TT_OPTION_PATH_SIZE];
  tt_section_path(section, name);
  if (strcmp(section, "top") == 0) snprintf(name, sizeof name, "top level");
  if (!markdown)
    fprintf(out, "\n%s\n", name);
  else
    fprintf(out, "\n## %s\n\n| option | value | default | meaning |\n|---|---|---|---|\n", name);
}

static void write_ensemble_notes(int markdown, FILE *out)
{
  const char *tick = markdown ? "`" : "", *indent = markdown ? "" : "  ";
  const char *mark = markdown ? "- " : "    ";
  fprintf(out,
          "\n%sAn ensemble may set its own value of any option of model and train except "
          "train.max_diverged:\n"
          "%s%s{name: a, model: {hidden: [50]}, train: {learning_rate: 1e-2}}%s\n",
          indent, indent, tick, tick);
  fprintf(out,
          "\n%sAn ensemble may have members of several networks, which it lists with their own "
          "members, model, train and sweep:\n"
          "%s%s{name: a, networks: [{members: 4, model: {hidden: [50]}}, {members: 4, model: "
          "{hidden: [20, 20]}}]}%s\n",
          indent, indent, tick, tick);
  fprintf(out, "\n%s%ssweep%s gives each member its own value of one or more of the options\n%s",
          indent, tick, tick, indent);
  for (int i = 0; i < TT_HYPER_COUNT; i++)
    fprintf(out, "%s%s%s%s%s",
            i == 0  ? ""
            : i % 8 ? ", "
                    : ",\n",
            i && i % 8 == 0 ? indent : "", tick, tt_hyper_name[i], tick);
  fputs(markdown ? ":\n\n" : ":\n", out);
#define X(name, meaning) fprintf(out, "%s%s" #name "%s: " meaning "\n", mark, tick, tick);
  TT_SWEEPS(X)
#undef X
}

/* Whether `asked` is the path of an option, a section that has it, or its last word. */
static int is_asked(const char *path, const char *asked)
{
  size_t n = strlen(asked);
  const char *last = strrchr(path, '.');
  return (!strncmp(path, asked, n) && (path[n] == '.' || !path[n])) ||
         !strcmp(last ? last + 1 : path, asked);
}

static void write_rows(const tt_option *table, int count, const char *asked, FILE *out)
{
  for (int i = 0; i < count; i++) {
    char path[TT_OPTION_PATH_SIZE];
    tt_option_path(&table[i], -1, path);
    int of_ensemble = table == tt_ensemble_option_table;
    if (of_ensemble && tt_inherited_option[i] >= 0) continue;
    if (is_asked(path, asked)) write_row(&table[i], of_ensemble, 0, out);
  }
}

static tt_err fail_unknown(const char *asked)
{
  tt_suggestion near = {.word = asked};
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    char path[TT_OPTION_PATH_SIZE];
    tt_option_path(&tt_option_table[i], -1, path);
    tt_suggestion_consider(&near, path);
    tt_suggestion_consider(&near, tt_option_table[i].name);
  }
  return TT_FAIL(USAGE,
                 "'%s' is no option or section of a job file%s%s%s; `tutti options` lists "
                 "them",
                 asked, *near.best ? "; did you mean '" : "", near.best, *near.best ? "'?" : "");
}

tt_err tt_config_options_asked(const char *asked, char **text)
{
  text_buffer p;
  TT_TRY(buffer_open(&p));
  write_rows(tt_option_table, TT_OPTION_COUNT, asked, p.out);
  write_rows(tt_ensemble_option_table, TT_ENSEMBLE_OPTION_COUNT, asked, p.out);
  TT_TRY(buffer_close(&p, text));
  if (**text) return TT_OK;
  tt_free(*text);
  *text = NULL;
  return fail_unknown(asked);
}

tt_err tt_config_options_text(int markdown, char **text)
{
  text_buffer p;
  TT_TRY(buffer_open(&p));
  fputs(markdown ? "# Options of a job file\n\n"
                   "Generated from the table in `core/config/options.def`. On the command line an "
                   "option is set with\n`--set section.name=value`, of an ensemble with "
                   "`--set ensembles[0].name=value`,\n`--set ensembles.NAME.option=value` or "
                   "`--set ensembles.NAME.train.option=value`, of one of its networks with\n"
                   "`--set ensembles.NAME.networks[0].train.option=value`.\n"
                 : "Options of a job file; on the command line: --set section.name=value\n",
        p.out);
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    if (i == 0 || strcmp(tt_option_table[i].section, tt_option_table[i - 1].section) != 0)
      write_title(tt_option_table[i].section, markdown, p.out);
    write_row(&tt_option_table[i], 0, markdown, p.out);
  }
  write_title("ensembles", markdown, p.out);
  for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
    if (tt_inherited_option[i] < 0) write_row(&tt_ensemble_option_table[i], 1, markdown, p.out);
  write_ensemble_notes(markdown, p.out);
  return buffer_close(&p, text);
}
