/* config.h — a job file: read, checked against options.def, resolved. Floor 1: no MPI, no HDF5.
 *
 * Strict: unknown, duplicate or misspelt keys, wrong types and values out of range are errors with
 * file:line:col, the value, and the nearest valid key; all of them are reported at once. */
#ifndef TT_CONFIG_H
#define TT_CONFIG_H
#include "core/base/err.h"
#include "core/config/choices.h"
#include "core/config/sweep.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* C type of each kind of option. TEXT and PATH are owned by the configuration. */
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

/* One element of `ensembles`: members that learn the same targets. Options of model and train have
 * the ensemble's own value, or the job's: own->train_epochs. model_output is resolved: what
 * train.loss needs where it is auto. */
typedef struct tt_ensemble_config {
#define TT_OPTION(section, name, kind, ...)
#define TT_MEMBER_OPTION(section, name, kind, ...) TT_CTYPE_##kind section##_##name;
#define TT_ENSEMBLE_OPTION(name, kind, ...) TT_CTYPE_##kind name;
#include "core/config/options.def"
#undef TT_OPTION
#undef TT_MEMBER_OPTION
#undef TT_ENSEMBLE_OPTION
  int64_t sweeps;
  tt_sweep *sweep;   /* [sweeps] what differs from member to member, in the order of the file */
  int64_t selection; /* number of its `rows` among the different ones of the job; -1: all rows */
} tt_ensemble_config;

/* The whole job, every field set: cfg->data_split_seed, cfg->top_title. PATH fields are absolute;
 * an "auto" number is -1; a TEXT or PATH not given is "". */
typedef struct tt_config {
#define TT_OPTION(section, name, kind, ...) TT_CTYPE_##kind section##_##name;
#define TT_MEMBER_OPTION(section, name, kind, ...)
#define TT_ENSEMBLE_OPTION(name, kind, ...)
#include "core/config/options.def"
#undef TT_OPTION
#undef TT_MEMBER_OPTION
#undef TT_ENSEMBLE_OPTION
  tt_ensemble_config defaults;  /* model and train of the job: what an ensemble has where it says
                                   nothing. Only the ensembles' values decide results. */
  int64_t ensembles;            /* at least 1 */
  tt_ensemble_config *ensemble; /* [ensembles] */
  int64_t selections;           /* different `rows` of the ensembles */
  char *directory;              /* of the file, absolute: where commands of the job are run */
  int campaign;                 /* a section of a campaign is given: campaign, pool, score ... */
} tt_config;

/* A threshold of section select: "0.05", a score; "q0.9", a quantile; "" = not given. */
typedef struct tt_threshold {
  int given, is_quantile;
  double value;
} tt_threshold;
/* 1 and *out, or 0: not such a text. */
int tt_threshold_parse(const char *text, tt_threshold *out);

/* Whether the candidates of a campaign are rows of data.file, whatever the two names of the file:
 * then those that data.split uses are no candidates. Local. */
int tt_config_pool_is_data(const tt_config *cfg);

/* Read a job: one YAML document (JSON is a subset) of at most 1 MiB, without anchors and tags.
 *   file   path for messages; relative paths start from its directory, which need not exist
 *   text   bytes of the file (rank 0 reads and broadcasts them); need not end in NUL
 *   set    `nset` strings applied after the file in order, values parsed as YAML:
 *          "section.name=value", "ensembles[0].name=value", "ensembles.NAME.option=value",
 *          "ensembles.NAME.train.option=value", "ensembles.NAME.sweep.option={...}"; messages place
 * them at "--set:n: 'text'" out    owned by the caller, tt_config_destroy; written only on TT_OK
 * Local. Errors: CONFIG (the message lists every error, one per line, and ends with
 * "N errors; nothing was run"), MEM. */
tt_err tt_config_parse(const char *file, const char *text, int64_t bytes, const char *const *set,
                       int nset, tt_config **out);
void tt_config_destroy(tt_config **cfg);

/* Read a whole small file into *text (owned by the caller, tt_free), at most 1 MiB.
 * Local. Errors: NOINPUT, MEM. */
tt_err tt_config_read_file(const char *file, char **text, int64_t *bytes);

/* The resolved configuration as YAML that tt_config_parse reads back to the same values, one option
 * per line in table order; the sections of a campaign only in one; of an ensemble what is given and
 * what differs from the job. *text is owned by the caller, tt_free. Local. Errors: MEM. */
tt_err tt_config_to_yaml(const tt_config *cfg, char **text);

/* Hash (XXH3, 64 bits) of what decides the members' results: data, run.seed, and the ensembles with
 * their values of model and train. Not the directory, threads, device, checkpoint, max_failed or
 * limits: those may change between a run and its resumption. Not data.file either: the samples have
 * a hash of their own. */
uint64_t tt_config_result_hash(const tt_config *cfg);

/* Hash of all options of one section ("score"): what a stage of a campaign depends on. */
uint64_t tt_config_section_hash(const tt_config *cfg, const char *section);

/* Hash of an ensemble's values of model and train less those of TT_HYPERS, which are per member,
 * and less model.classes, which the labels may decide: ensembles with equal ones may share a
 * cohort. */
uint64_t tt_config_cohort_hash(const tt_ensemble_config *own);

/* The option table as text: for people (`tutti options`) or as a Markdown page
 * (docs/options.md). *text is owned by the caller, tt_free. Local. Errors: MEM. */
tt_err tt_config_options_text(int markdown, char **text);
#ifdef __cplusplus
}
#endif
#endif
