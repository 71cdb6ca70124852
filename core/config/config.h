/* config.h — a job file: read, checked against options.def, resolved. No MPI, no HDF5.
 *
 * Strict: unknown, duplicate or misspelt keys, wrong types and values out of range are errors with
 * file:line:col, the value, and the nearest valid key; all errors are reported at once. */
#ifndef TT_CONFIG_H
#define TT_CONFIG_H
#include "core/base/err.h"
#include "core/config/choices.h"
#include "core/config/sweep.h"
#include "core/front/front.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
TT_BEGIN_C

/* C type of each kind of option. TEXT, PATH and COLUMNS are owned by the configuration; COLUMNS is
 * a list of tt_list_parse. BYCOLUMN is one of the choices, or for a mapping such a list of
 * "choice:column" in the order of the file (io/columns/by_column.h reads both). CLASSES is a list
 * of such lists: a column, then the names of its classes (io/data/data.h). */
typedef struct tt_int_list {
  int64_t count;
  int64_t *value;
} tt_int_list;
typedef struct tt_real_list {
  int64_t count;
  double *value;
} tt_real_list;
typedef struct tt_text_list {
  int64_t count;
  char **value;
} tt_text_list;
#define TT_CTYPE_I64 int64_t
#define TT_CTYPE_F64 double
#define TT_CTYPE_BOOL int
#define TT_CTYPE_TEXT char *
#define TT_CTYPE_PATH char *
#define TT_CTYPE_NAME int
#define TT_CTYPE_LIST tt_int_list
#define TT_CTYPE_REALS tt_real_list
#define TT_CTYPE_TEXTLIST tt_text_list
#define TT_CTYPE_SECONDS double
#define TT_CTYPE_BYTES double
#define TT_CTYPE_COLUMNS char *
#define TT_CTYPE_BYCOLUMN char *
#define TT_CTYPE_CLASSES char *

enum { TT_LABEL_SIZE = 33 }; /* bytes of the label of a network, with the 0 at its end */

/* The members of one network of an ensemble, which learn the same targets; most ensembles have one
 * network. Options of model and train have the network's own value, the ensemble's, or the job's:
 * own->train_epochs. model_output is resolved: auto becomes
 * the output that train.loss needs. */
typedef struct tt_ensemble_config {
#define TT_OPTION(section, name, kind, ...)
#define TT_MEMBER_OPTION(section, name, kind, ...) TT_CTYPE_##kind section##_##name;
#define TT_ENSEMBLE_OPTION(name, kind, ...) TT_CTYPE_##kind name;
#include "core/config/options.def"
  int64_t sweeps;
  tt_sweep *sweep;   /* [sweeps] in the order of the file */
  int64_t selection; /* number of its selection (`rows`); equal `rows` share one; -1: all rows */
  int64_t number;    /* of its ensemble in the job file */
  int64_t network, networks; /* its number in the ensemble, and how many these are: 0 of 1 */
} tt_ensemble_config;

/* The whole job, every field set: cfg->data_split_seed, cfg->top_title. PATH fields are absolute;
 * an "auto" number is -1; a TEXT or PATH not given is "". */
typedef struct tt_config {
#define TT_OPTION(section, name, kind, ...) TT_CTYPE_##kind section##_##name;
#define TT_MEMBER_OPTION(section, name, kind, ...)
#define TT_ENSEMBLE_OPTION(name, kind, ...)
#include "core/config/options.def"
  tt_ensemble_config defaults;  /* model and train of the job, inherited by ensembles. Results
                                   depend on the values of the ensembles only. */
  int64_t ensembles;            /* at least 1 */
  tt_ensemble_config *ensemble; /* [ensembles] in the order of the file. An ensemble of several
                                   networks has one element for each of its networks;
                                   tt_config_ensembles counts the ensembles of the file. */
  int64_t selections;           /* number of different `rows` of the ensembles */
  int simd, gpu_path;           /* tt_simd, tt_gpu_path; from the environment of this process */
  char *directory;              /* of the file, absolute; working directory of the job's commands */
  int campaign;                 /* 1 if a campaign section is given: campaign, pool, score ... */
} tt_config;

/* Whether the job is a search: then the networks of an ensemble are its trials. */
static inline int tt_config_searches(const tt_config *cfg)
{
  return cfg->search_preset != TT_SEARCH_none || cfg->search_budget > 0 || cfg->search_time > 0.0;
}

/* What a network of an ensemble has in other values than the other networks, as text: "model.hidden
 * [64, 64], train.learning_rate 0.003". *text is owned by the caller, tt_free. Local. Errors: MEM.
 */
tt_err tt_config_network_text(const tt_config *cfg, int64_t element, char **text);

/* Whether the networks of an ensemble are weighted on the rows that their members left out (kfold),
 * not on validation rows. */
static inline int tt_config_weighs_folds(const tt_config *cfg, const tt_ensemble_config *own)
{
  return cfg->combine_method != TT_COMBINE_mean && cfg->combine_unit == TT_COMBINE_UNIT_network &&
         own->networks > 1 && own->train_resample == TT_RESAMPLE_kfold;
}

/* What speaks against the plain mean of members that a sweep makes different, with the line that
 * replaces it, as a sentence; "" if nothing does. Local. Returns text [capacity]. */
const char *tt_config_mean_advice(const tt_config *cfg, char *text, int64_t capacity);

/* The front of the networks of an ensemble; out->layers is 0 if it has none. Returns 1, or 0 and
 * the first fault, of those of row `first` and later. Owner: the caller, tt_front_destroy.
 *   inputs  number of inputs, for a front that takes columns; 1 if it is not known
 * Local. */
static inline int tt_config_front_from(const tt_ensemble_config *own, int64_t inputs, int64_t first,
                                       tt_front *out, tt_front_fault *fault)
{
  const tt_int_list *size = own->model_image.count ? &own->model_image : &own->model_profile;
  const int64_t columns[2] = {inputs, 1};
  tt_front_shape shape;
  shape.dims = size->count ? (int)size->count - 1 : 1;
  shape.size = size->count ? size->value : columns;
  shape.rows = own->model_front.count;
  shape.row = (const char *const *)own->model_front.value;
  shape.activation = (tt_activation)own->model_activation;
  shape.first = first;
  memset(out, 0, sizeof *out);
  return !shape.rows || tt_front_lay_out(&shape, out, fault);
}

static inline int tt_config_front(const tt_ensemble_config *own, int64_t inputs, tt_front *out,
                                  tt_front_fault *fault)
{
  return tt_config_front_from(own, inputs, 0, out, fault);
}

/* 1 if the job gives the shape of the inputs, or the front needs none. */
static inline int tt_config_has_front_shape(const tt_ensemble_config *own)
{
  return own->model_image.count == 3 || own->model_profile.count == 2 ||
         tt_front_takes_columns(own->model_front.count,
                                (const char *const *)own->model_front.value);
}

/* Number of ensembles of the job file. */
static inline int64_t tt_config_ensembles(const tt_config *cfg)
{
  return cfg->ensembles ? cfg->ensemble[cfg->ensembles - 1].number + 1 : 0;
}

/* A threshold of section select: "0.05", a score; "q0.9", a quantile; "" = not given. */
typedef struct tt_threshold {
  int given, is_quantile;
  double value;
} tt_threshold;
/* Returns 1 and *out, or 0 if the text is not a threshold. */
int tt_threshold_parse(const char *text, tt_threshold *out);

/* *same = 1 if pool.file and data.file are the same file (also by different paths) and the same
 * dataset: then rows that data.split uses are not candidates. Local. Errors: IO. */
tt_err tt_config_pool_is_data(const tt_config *cfg, int *same);

/* Read a job: one YAML document (JSON is a subset) of at most 1 MiB, without anchors and tags.
 *   file   path for messages; relative paths start from its directory, which need not exist
 *   text   bytes of the file (rank 0 reads and broadcasts them); need not end in NUL
 *   set    `nset` strings applied after the file in order, values parsed as YAML:
 *          "section.name=value", "ensembles[0].name=value", "ensembles.NAME.option=value",
 *          "ensembles.NAME.train.option=value", "ensembles.NAME.sweep.option={...}"; the
 *          place in messages is "--set:n: 'text'"
 *   out    owned by the caller, tt_config_destroy; NULL after an error
 * Local. Errors: CONFIG (the message lists every error, one per line, and ends with
 * "N errors; nothing was run"), MEM. */
tt_err tt_config_parse(const char *file, const char *text, int64_t bytes, const char *const *set,
                       int nset, tt_config **out);
/* The same for members that get their rows from a program: data.file may be missing. */
tt_err tt_config_parse_without_data(const char *file, const char *text, int64_t bytes,
                                    const char *const *set, int nset, tt_config **out);
void tt_config_destroy(tt_config **cfg);

/* Read and parse a job file. Local. Errors: NOINPUT, CONFIG, MEM. */
tt_err tt_config_load(const char *file, const char *const *set, int nset, tt_config **out);

/* Read a whole job file, at most 1 MiB, into *text (owned by the caller, tt_free).
 * Local. Errors: NOINPUT, MEM. */
tt_err tt_config_read_file(const char *file, char **text, int64_t *bytes);

/* A duration of the command line, "90s" or "2h", as in a job file. Errors: USAGE. */
tt_err tt_config_parse_duration(const char *option, const char *text, double *seconds);

/* The resolved configuration as YAML that tt_config_parse reads back to the same values, one option
 * per line in table order; campaign sections only for a campaign; for an ensemble, its own options
 * and the values that differ from the job. *text is owned by the caller, tt_free. Local. Errors:
 * MEM. */
tt_err tt_config_to_yaml(const tt_config *cfg, char **text);

/* Result hash (XXH3, 64 bits): all options that decide the members' results, which are data,
 * run.seed and the ensembles with their values of model and train. Not the directory, threads,
 * device, checkpoint, max_diverged or limits: those may change when a run is resumed. Not
 * data.file: the data set has a separate hash. */
uint64_t tt_config_result_hash(const tt_config *cfg);

/* The options that decide results and whose values differ, as text: "train.epochs is 10 there and
 * 12 here; ..."; cut at `size`. "" if there are none. */
void tt_config_difference(const tt_config *there, const tt_config *here, char *text, int64_t size);

/* Hash of all options of one section ("score"), to detect changes that a stage depends on. */
uint64_t tt_config_section_hash(const tt_config *cfg, const char *section);

/* Hash of an ensemble's values of model and train without those of TT_HYPERS, which are per member,
 * and without model.classes, which may be found from the labels. Ensembles with equal hashes may
 * share a cohort. */
uint64_t tt_config_cohort_hash(const tt_ensemble_config *own);

/* The option table as plain text (`tutti options`) or as a Markdown page (docs/options.md). *text
 * is owned by the caller, tt_free. Local. Errors: MEM. */
tt_err tt_config_options_text(int markdown, char **text);

/* The rows of one option or section: "train.loss", "loss", "data.split". *text is owned by the
 * caller, tt_free. Local. Errors: MEM; USAGE if there is none of this name. */
tt_err tt_config_options_asked(const char *asked, char **text);

/* Write a text as double-quoted YAML that is also JSON; characters that YAML would fold or refuse
 * are escaped. */
void tt_yaml_write_text(const char *text, FILE *out);
TT_END_C
#endif
