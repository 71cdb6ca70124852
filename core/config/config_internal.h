/* config_internal.h — what the config*.c files share: the option table as data, values of options,
 * the collector of errors. Private to core/config; config.h is the
 * manual. */
#ifndef TT_CONFIG_INTERNAL_H
#define TT_CONFIG_INTERNAL_H
#include "core/base/text.h"
#include "core/config/config.h"

#include <stddef.h>
#include <stdio.h>

typedef enum tt_option_kind {
  TT_KIND_I64,
  TT_KIND_F64,
  TT_KIND_BOOL,
  TT_KIND_TEXT,
  TT_KIND_PATH,
  TT_KIND_NAME,
  TT_KIND_LIST,
  TT_KIND_REALS,
  TT_KIND_TEXTLIST,
  TT_KIND_SECONDS
} tt_option_kind;

/* A row of options.def. */
typedef struct tt_option {
  const char *section, *name; /* "data_split", "seed"; "ensembles" for what only those have */
  tt_option_kind kind;
  const char *default_value; /* NULL = must be given */
  long double low, high;     /* holds every int64_t and every double */
  const char *const *choices;
  const char *unit, *help;
  size_t offset; /* of the field in tt_config or tt_ensemble_config */
} tt_option;

/* Row numbers: TT_OPTION_train_epochs; TT_ENSEMBLE_OPTION_members, TT_ENSEMBLE_OPTION_train_epochs.
 */
enum {
#define TT_OPTION(section, name, ...) TT_OPTION_##section##_##name,
#define TT_MEMBER_OPTION(section, name, ...) TT_OPTION_##section##_##name,
#define TT_ENSEMBLE_OPTION(name, ...)
#include "core/config/options.def"
#undef TT_OPTION
#undef TT_MEMBER_OPTION
#undef TT_ENSEMBLE_OPTION
  TT_OPTION_COUNT
};
enum {
#define TT_OPTION(section, name, ...)
#define TT_MEMBER_OPTION(section, name, ...) TT_ENSEMBLE_OPTION_##section##_##name,
#define TT_ENSEMBLE_OPTION(name, ...) TT_ENSEMBLE_OPTION_##name,
#include "core/config/options.def"
#undef TT_OPTION
#undef TT_MEMBER_OPTION
#undef TT_ENSEMBLE_OPTION
  TT_ENSEMBLE_OPTION_COUNT
};
extern const tt_option tt_option_table[TT_OPTION_COUNT];
extern const tt_option tt_ensemble_option_table[TT_ENSEMBLE_OPTION_COUNT];
/* Row of the ensembles' table of each row of TT_HYPERS. */
extern const int tt_hyper_option[TT_HYPER_COUNT];
/* Row of the job's table with the same option, or -1: the ensemble's alone. */
extern const int tt_inherited_option[TT_ENSEMBLE_OPTION_COUNT];

enum {
  TT_MAX_JOB_FILE_BYTES = 1048576, /* largest job file */
  TT_MAX_LIST_ITEMS = 10000,       /* most elements of a list */
  TT_MAX_OPTION_TEXT = 4096,       /* longest TEXT or PATH, bytes */
  TT_OPTION_PATH_SIZE = 128,       /* room for the name of an option: "data.split.seed" */
  TT_PRINTABLE_SIZE = 80,          /* room for a value in a message */
  TT_REASON_SIZE = 512             /* room for what is wrong with a value */
};

/* ---- values: value.c ---- */

/* A scalar as it stands in the file. */
typedef struct tt_yaml_scalar {
  const char *text; /* ends in NUL, may hold others */
  size_t length;
  int quoted;
} tt_yaml_scalar;
typedef union tt_value {
  int64_t whole;
  double real;
  int word; /* BOOL, NAME */
  const char *text;
} tt_value;

/* What a person must write: "a whole number". */
const char *tt_option_kind_text(tt_option_kind kind);
/* Where the last word of a section's name begins; 0 unless it lies in another section: "split" of
 * "data_split", but all of "data". */
size_t tt_section_leaf(const char *section);
/* "data.split", "train.on_diverged"; returns how many sections it lies in. */
int tt_section_path(const char *section, char path[TT_OPTION_PATH_SIZE]);
/* "train.epochs", "data.split.seed", "title"; with element >= 0 "ensembles[3].name",
 * "ensembles[3].train.epochs". */
void tt_option_path(const tt_option *o, int64_t element, char path[TT_OPTION_PATH_SIZE]);
/* "1 to 1048576 rows", "at least 0"; "" for kinds without a range. */
void tt_option_range(const tt_option *o, char range[TT_OPTION_PATH_SIZE]);
/* One scalar, or one element of a list: 1 and *out (text borrowed from `from`), or 0 and why. */
int tt_value_parse(const tt_option *o, const tt_yaml_scalar *from, tt_value *out,
                   char why[TT_REASON_SIZE]);
/* Replace the field of `record` by `count` values (1 unless a list), texts copied. Errors: MEM. */
tt_err tt_value_store(const tt_option *o, void *record, const tt_value *value, int64_t count);
void tt_value_free(const tt_option *o, void *record);
/* The same option of two records. Errors: MEM. */
tt_err tt_value_copy(const tt_option *o, const void *from, void *to);
int tt_value_equal(const tt_option *o, const void *one, const void *other);
/* The shortest decimal that reads back to the same double. */
void tt_double_write(double x, FILE *out);
/* `sweep:` of an ensemble as YAML, if it has one, at the depth of its options. */
void tt_sweeps_write(const tt_ensemble_config *own, FILE *out);
void tt_sweeps_free(tt_ensemble_config *own);
/* The value as YAML in one line. */
void tt_value_write(const tt_option *o, const void *record, FILE *out);
/* True for a TEXT, PATH or TEXTLIST that was not given. */
int tt_value_is_empty(const tt_option *o, const void *record);

/* What an ensemble predicts: model.output, or what its loss needs where that is auto. */
static inline tt_output tt_ensemble_output(const tt_ensemble_config *own)
{
  return own->model_output < 0 ? tt_loss_output_head((tt_loss)own->train_loss)
                               : (tt_output)own->model_output;
}

/* ---- errors: errors.c ---- */

/* Where a value was written. set = 0: line and column of the job file; n: the n-th --set. */
typedef struct tt_source_location {
  int64_t line, column;
  int set;
  int given, bad;
} tt_source_location;
typedef struct tt_config_reader tt_config_reader;

/* Note one error; the reading goes on. The same words at the same place count once. */
void tt_config_error(tt_config_reader *r, const tt_source_location *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* OK if nothing was noted, else CONFIG with the whole list. */
tt_err tt_config_error_result(const tt_config_reader *r);
/* "line 5" or "the default": where the other side of a rule was decided. */
const char *tt_location_text(const tt_source_location *at, char text[TT_OPTION_PATH_SIZE]);
/* A value made safe for one line of a message: shortened, control characters replaced. */
void tt_printable(const char *text, char out[TT_PRINTABLE_SIZE]);

/* ---- the reader: yaml_parse.c and job_rules.c, driven by config.c ---- */

struct tt_config_reader {
  const char *file;
  const char *const *set;
  int now; /* 0 while the file is read, n during the n-th --set */
  tt_config *cfg;
  tt_source_location job[TT_OPTION_COUNT]; /* each option */
  tt_source_location
      section[TT_OPTION_COUNT]; /* each section, under the number of its first option */
  tt_source_location ensembles; /* the list */
  tt_source_location *element;  /* [ensembles] its elements */
  tt_source_location (*own)[TT_ENSEMBLE_OPTION_COUNT]; /* [ensembles] and their options */
  tt_source_location (*own_section)[TT_ENSEMBLE_OPTION_COUNT];
  tt_source_location (*swept)[TT_HYPER_COUNT]; /* [ensembles] and what they sweep */
  int usable;                         /* the file is a mapping: worth looking for what is missing */
  int64_t error_count, errors_listed; /* noted, and those that found room */
  size_t used;
  char messages[TT_ERR_MESSAGE_SIZE - 512];
};

/* Each notes what is wrong in `r`. Errors: MEM. */
tt_err tt_config_read_yaml(tt_config_reader *r, const char *text, size_t bytes);
tt_err tt_config_read_override(tt_config_reader *r);
/* Defaults of every field of `record`. Errors: MEM, INTERNAL (a default does not parse). */
tt_err tt_config_defaults(const tt_option *table, int64_t count, void *record);
/* Options that must be given, rules between options. */
void tt_config_check(tt_config_reader *r);
/* Rules between the options of ensemble k. validated: there are rows to validate on; else `cure`
 * says how to get some. */
void tt_config_check_ensemble(tt_config_reader *r, int64_t k, int has_validation, const char *fix);
/* Rules between combine, calibration and the ensembles; the same arguments. */
void tt_config_check_combine(tt_config_reader *r, int has_validation, const char *fix);
/* campaign, pool, score, select, label or stop. */
int tt_is_campaign_section(const char *name);
/* Whether such a section is given; and the rules of campaigns, only for those.
 *   tested, validated  there are such rows among the first data, as far as one can tell */
int tt_config_is_campaign(const tt_config_reader *r);
void tt_config_check_campaign(tt_config_reader *r, int has_test, int has_validation);
/* Options of a campaign that another one leaves without effect: an error where the file says so;
 * where --set switched the other one, what the file says of its first choice is put back to the
 * default, so that the resolved configuration holds what counts. Errors: MEM. */
void tt_config_check_unused(tt_config_reader *r);
tt_err tt_config_reset_unused(tt_config_reader *r);
#endif
