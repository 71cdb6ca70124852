/* config.c — see config.h. The option tables; creating and destroying a configuration in the
 * order defaults, file, --set, rules, resolution. */
#include "core/config/config.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/config/config_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(section_, name_, record_, field_, kind_, default_, low_, high_, choices_, unit_,       \
            help_)                                                                                 \
  {.section = #section_,                                                                           \
   .name = #name_,                                                                                 \
   .kind = TT_KIND_##kind_,                                                                        \
   .default_value = default_,                                                                      \
   .low = (long double)(low_),                                                                     \
   .high = (long double)(high_),                                                                   \
   .choices = choices_,                                                                            \
   .unit = unit_,                                                                                  \
   .help = help_,                                                                                  \
   .offset = offsetof(record_, field_)},
const tt_option tt_option_table[TT_OPTION_COUNT] = {
#define TT_OPTION(section, name, ...) ROW(section, name, tt_config, section##_##name, __VA_ARGS__)
#define TT_MEMBER_OPTION(section, name, ...)                                                       \
  ROW(section, name, tt_config, defaults.section##_##name, __VA_ARGS__)
#define TT_ENSEMBLE_OPTION(name, ...)
#include "core/config/options.def"
};

const tt_option tt_ensemble_option_table[TT_ENSEMBLE_OPTION_COUNT] = {
#define TT_OPTION(section, name, ...)
#define TT_MEMBER_OPTION(section, name, ...)                                                       \
  ROW(section, name, tt_ensemble_config, section##_##name, __VA_ARGS__)
#define TT_ENSEMBLE_OPTION(name, ...) ROW(ensembles, name, tt_ensemble_config, name, __VA_ARGS__)
#include "core/config/options.def"
};

const int tt_inherited_option[TT_ENSEMBLE_OPTION_COUNT] = {
#define TT_OPTION(section, name, ...)
#define TT_MEMBER_OPTION(section, name, ...) TT_OPTION_##section##_##name,
#define TT_ENSEMBLE_OPTION(name, ...) -1,
#include "core/config/options.def"
};

const int tt_hyper_option[TT_HYPER_COUNT] = {
#define X(name, ...) TT_ENSEMBLE_OPTION_train_##name,
    TT_HYPERS(X)
#undef X
};

void tt_config_destroy(tt_config **cfg)
{
  if (!cfg || !*cfg) return;
  for (int64_t k = 0; k < (*cfg)->ensembles; k++)
    for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
      tt_value_free(&tt_ensemble_option_table[i], &(*cfg)->ensemble[k]);
  for (int64_t k = 0; k < (*cfg)->ensembles; k++) tt_sweeps_free(&(*cfg)->ensemble[k]);
  tt_free_all(&(*cfg)->ensemble, &(*cfg)->directory);
  for (int i = 0; i < TT_OPTION_COUNT; i++) tt_value_free(&tt_option_table[i], *cfg);
  tt_free(*cfg);
}

/* The absolute directory of the job file, ending in '/'; it need not exist. 0 if the path is too
 * long. */
static int base_directory(const char *file, char base[PATH_MAX])
{
  char directory[PATH_MAX], here[PATH_MAX] = "";
  const char *slash = strrchr(file, '/');
  if (!strncmp(file, TT_MEMORY_ROOT, strlen(TT_MEMORY_ROOT)))
    return snprintf(base, PATH_MAX, "%s", TT_MEMORY_ROOT) > 0;
  int n = snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - file) + 1 : 0, file);
  if (n < 0 || (size_t)n >= sizeof directory) return 0;
  if (!realpath(*directory ? directory : ".", base)) {
    if (*directory != '/' && !getcwd(here, sizeof here)) return 0;
    n = snprintf(base, PATH_MAX, "%s%s%s", here, *directory == '/' ? "" : "/", directory);
    if (n < 0 || n >= PATH_MAX) return 0;
  }
  size_t length = strlen(base);
  if (base[length - 1] == '/') return 1;
  if (length + 2 > PATH_MAX) return 0;
  memcpy(base + length, "/", 2);
  return 1;
}

/* Remove "./" and "../" from the start of a path. Each "../" also removes the last folder of the
 * base, which ends in a slash and has no links. Of the path "." only the base is left, without its
 * last slash. */
static const char *climb(char base[PATH_MAX], const char *path)
{
  int fixed = !strncmp(base, TT_MEMORY_ROOT, strlen(TT_MEMORY_ROOT)) || strlen(base) < 2;
  while (!strncmp(path, "./", 2)) path += 2;
  for (; !fixed && strlen(base) > 1 && !strncmp(path, "../", 3); path += 3) {
    base[strlen(base) - 1] = '\0';
    strrchr(base, '/')[1] = '\0';
  }
  if (fixed || strlen(base) < 2 || strcmp(path, ".") != 0) return path;
  base[strlen(base) - 1] = '\0';
  return "";
}

static tt_err resolve_path(tt_config_reader *r, int i)
{
  const tt_option *o = &tt_option_table[i];
  const char *path = *(char **)((char *)r->cfg + o->offset);
  char base[PATH_MAX], absolute[PATH_MAX + TT_MAX_OPTION_TEXT + 1], name[TT_OPTION_PATH_SIZE];
  tt_source_location location = r->job[i];
  if (!location.given) location = (tt_source_location){.line = 1, .column = 1};
  if (!*path || *path == '/') return TT_OK;
  tt_option_path(o, -1, name);
  if (!base_directory(r->file, base) || !tt_text_is_utf8(base)) {
    tt_config_error(r, &location,
                    "%s: the directory of the job file cannot be named in UTF-8; "
                    "write an absolute path",
                    name);
    return TT_OK;
  }
  path = climb(base, path);
  snprintf(absolute, sizeof absolute, "%s%s", base, path);
  return tt_value_store(o, r->cfg, &(tt_value){.text = absolute}, 1);
}

static tt_err resolve_paths(tt_config_reader *r)
{
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (tt_option_table[i].kind == TT_KIND_PATH) TT_TRY(resolve_path(r, i));
  char base[PATH_MAX] = ".";
  (void)base_directory(r->file, base); /* on failure: the current directory */
  return tt_text_set(&r->cfg->directory, base);
}

/* Copy the job's values of the options that an ensemble does not set. */
static tt_err inherit_job_options(tt_config_reader *r)
{
  for (int64_t k = 0; k < r->cfg->ensembles; k++)
    for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++) {
      int row = tt_inherited_option[i];
      if (r->own[k][i].recipe && row >= 0 && r->job[row].given)
        r->own[k][i] = (tt_source_location){0}; /* the job itself decides, not the recipe */
      if (row < 0 || r->own[k][i].given) continue;
      TT_TRY(tt_value_copy(&tt_ensemble_option_table[i], &r->cfg->defaults, &r->cfg->ensemble[k]));
    }
  return TT_OK;
}

/* `model: auto` and `search` weight their networks by greedy selection, if the job names no
 * combine.method. */
static void weigh_recipes(tt_config_reader *r)
{
  tt_source_location *combine = &r->job[TT_OPTION_combine_method];
  if ((!r->automatic.given && !tt_config_searches(r->cfg)) || combine->given) return;
  r->cfg->combine_method = TT_COMBINE_greedy;
  if (!r->job[TT_OPTION_combine_unit].given) r->cfg->combine_unit = TT_COMBINE_UNIT_network;
  *combine = r->automatic;
}

/* The members of an ensemble are numbered one network after the other. */
static void complete_ensembles(tt_config *cfg)
{
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    tt_ensemble_config *own = &cfg->ensemble[k];
    if (own->network > 0) own->first_member = own[-1].first_member + own[-1].members;
  }
}

/* A list for all members of an ensemble becomes the part of it that belongs to the network. */
static void resolve_lists(const tt_config_reader *r, int64_t k)
{
  tt_ensemble_config *own = &r->cfg->ensemble[k];
  int64_t before = own->first_member - own[-own->network].first_member;
  for (int64_t i = 0; i < own->sweeps; i++) {
    tt_sweep *s = &own->sweep[i];
    if (s->kind != TT_SWEEP_list || !r->swept[k][s->hyper].shared) continue;
    if (before + own->members > s->count) continue; /* an error has been reported */
    memmove(s->value, s->value + before, (size_t)own->members * sizeof *s->value);
    s->count = own->members;
  }
}

/* The default schedule needs to know when training ends. A trainer of a program does not know it:
 * there the default is constant. */
static void resolve_schedule(const tt_config_reader *r, int64_t k)
{
  tt_ensemble_config *own = &r->cfg->ensemble[k];
  if (r->own[k][TT_ENSEMBLE_OPTION_train_schedule].given || r->job[TT_OPTION_train_schedule].given)
    return;
  if (r->without_data) own->train_schedule = TT_SCHEDULE_constant;
}

/* Ensembles with the same `rows` have the same selection number. */
static void resolve_rows(tt_config *cfg, int64_t k)
{
  tt_ensemble_config *own = &cfg->ensemble[k];
  own->selection = -1;
  if (!own->rows || !*own->rows) return;
  for (int64_t j = 0; j < k && own->selection < 0; j++)
    if (cfg->ensemble[j].selection >= 0 && strcmp(cfg->ensemble[j].rows, own->rows) == 0)
      own->selection = cfg->ensemble[j].selection;
  if (own->selection < 0) own->selection = cfg->selections++;
}

static void resolve(tt_config_reader *r)
{
  tt_ensemble_config *job = &r->cfg->defaults, *own;
  job->model_output = (int)tt_ensemble_output(job);
  for (int64_t k = 0; k < r->cfg->ensembles; k++) {
    own = &r->cfg->ensemble[k];
    own->model_output = (int)tt_ensemble_output(own);
    resolve_schedule(r, k);
    resolve_rows(r->cfg, k);
    resolve_lists(r, k);
  }
}

static tt_err read_job(tt_config_reader *r, const char *text, int64_t bytes)
{
  TT_TRY(tt_config_defaults(tt_option_table, TT_OPTION_COUNT, r->cfg));
  if (bytes < 0 || bytes > TT_MAX_JOB_FILE_BYTES) {
    tt_source_location start = {.line = 1, .column = 1};
    tt_config_error(r, &start, "%lld bytes; a job file has at most 1 MiB", (long long)bytes);
    return tt_config_error_result(r);
  }
  TT_TRY(tt_config_read_yaml(r, text, (size_t)bytes));
  for (int n = 1; r->usable && n <= r->nset; n++) {
    r->now = n;
    TT_TRY(tt_config_read_override(r));
  }
  TT_TRY(inherit_job_options(r));
  weigh_recipes(r);
  complete_ensembles(r->cfg);
  if (r->usable) tt_config_check(r);
  resolve(r);
  TT_TRY(tt_config_reset_unused(r));
  TT_TRY(resolve_paths(r));
  return tt_config_error_result(r);
}

static tt_err parse(const char *file, const char *text, int64_t bytes, const char *const *set,
                    int nset, int without_data, tt_config **out)
{
  tt_config_reader *r = NULL;
  tt_config *cfg = NULL;
  TT_TRY(TT_ALLOC(r, 1));
  tt_err e = TT_ALLOC(cfg, 1);
  if (!e) {
    r->file = file;
    r->set = set;
    r->cfg = cfg;
    r->nset = nset;
    r->without_data = without_data;
    e = read_job(r, text, bytes);
    tt_search_space_free(r);
    tt_free_all(&r->element, &r->networks, &r->own, &r->own_section, &r->swept);
  }
  tt_free(r);
  if (e) tt_config_destroy(&cfg);
  *out = cfg;
  return e;
}

tt_err tt_config_parse(const char *file, const char *text, int64_t bytes, const char *const *set,
                       int nset, tt_config **out)
{
  return parse(file, text, bytes, set, nset, 0, out);
}

tt_err tt_config_parse_without_data(const char *file, const char *text, int64_t bytes,
                                    const char *const *set, int nset, tt_config **out)
{
  return parse(file, text, bytes, set, nset, 1, out);
}

/* Up to TT_MAX_JOB_FILE_BYTES + 1 bytes: one more than allowed, to detect a longer file. */
static tt_err read_stream(FILE *f, const char *file, char *text, int64_t *bytes)
{
  size_t n = fread(text, 1, TT_MAX_JOB_FILE_BYTES + 1, f);
  if (ferror(f)) return TT_FAIL_ERRNO(NOINPUT, "%s: cannot be read", file);
  if (n > TT_MAX_JOB_FILE_BYTES)
    return TT_FAIL(NOINPUT, "%s: longer than 1 MiB; this is not a job file", file);
  *bytes = (int64_t)n;
  return TT_OK;
}

tt_err tt_config_read_file(const char *file, char **text, int64_t *bytes)
{
  char *block = NULL;
  TT_TRY(TT_ALLOC(block, TT_MAX_JOB_FILE_BYTES + 1));
  FILE *f = NULL;
  tt_err e = tt_file_open_stream(file, &f);
  if (!e) e = read_stream(f, file, block, bytes);
  if (f) fclose(f);
  if (e)
    tt_free(block);
  else
    *text = block;
  return e;
}

tt_err tt_config_load(const char *file, const char *const *set, int nset, tt_config **out)
{
  char *text = NULL;
  int64_t bytes = 0;
  TT_TRY(tt_config_read_file(file, &text, &bytes));
  tt_err e = tt_config_parse(file, text, bytes, set, nset, out);
  tt_free(text);
  return e;
}
