/* config_internal.h — shared by the files of core/config: the option tables, values of options, the
 * list of errors. Private to core/config; the manual is config.h. */
#ifndef TT_CONFIG_INTERNAL_H
#define TT_CONFIG_INTERNAL_H
#include "core/base/text.h"
#include "core/config/config.h"

#include <stddef.h>
#include <stdio.h>

/* How one value is stored: int64_t, double, int, char *. */
typedef enum tt_value_type {
  TT_VALUE_WHOLE,
  TT_VALUE_REAL,
  TT_VALUE_WORD,
  TT_VALUE_STRING
} tt_value_type;

/* name, the expected value and the expected element of a list in messages, type, is a list */
#define TT_OPTION_KINDS(X)                                                                         \
  X(I64, "a whole number", "a whole number", WHOLE, 0)                                             \
  X(F64, "a number", "a number", REAL, 0)                                                          \
  X(BOOL, "true or false", "true or false", WORD, 0)                                               \
  X(TEXT, "a string", "a string", STRING, 0)                                                       \
  X(PATH, "a path", "a path", STRING, 0)                                                           \
  X(NAME, "a name", "a name", WORD, 0)                                                             \
  X(LIST, "a list of whole numbers", "a whole number", WHOLE, 1)                                   \
  X(REALS, "a list of numbers", "a number", REAL, 1)                                               \
  X(TEXTLIST, "a list of strings", "a string", STRING, 1)                                          \
  X(SECONDS, "a duration", "a duration", REAL, 0)                                                  \
  X(BYTES, "a size", "a size", REAL, 0)                                                            \
  X(COLUMNS, "a name or a list of names", "a string", STRING, 0)                                   \
  X(BYCOLUMN, "a name, or a mapping from columns to names", "a name", STRING, 0)                   \
  X(CLASSES, "a mapping from columns to lists of names", "a string", STRING, 0)

typedef enum tt_option_kind {
#define X(name, ...) TT_KIND_##name,
  TT_OPTION_KINDS(X)
#undef X
} tt_option_kind;
typedef struct tt_option_kind_row {
  const char *text, *element;
  tt_value_type type;
  int is_list;
} tt_option_kind_row;
extern const tt_option_kind_row tt_option_kind_table[];

/* A row of options.def. */
typedef struct tt_option {
  const char *section, *name; /* "data_split", "seed"; "ensembles" for options of ensembles only */
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
  TT_OPTION_COUNT
};
enum {
#define TT_OPTION(section, name, ...)
#define TT_MEMBER_OPTION(section, name, ...) TT_ENSEMBLE_OPTION_##section##_##name,
#define TT_ENSEMBLE_OPTION(name, ...) TT_ENSEMBLE_OPTION_##name,
#include "core/config/options.def"
  TT_ENSEMBLE_OPTION_COUNT
};
extern const tt_option tt_option_table[TT_OPTION_COUNT];
extern const tt_option tt_ensemble_option_table[TT_ENSEMBLE_OPTION_COUNT];
/* Row in the table of the ensembles for each row of TT_HYPERS. */
extern const int tt_hyper_option[TT_HYPER_COUNT];
/* Row in the table of the job with the same option; -1 for options of ensembles only. */
extern const int tt_inherited_option[TT_ENSEMBLE_OPTION_COUNT];

enum {
  TT_MAX_JOB_FILE_BYTES = 1048576, /* largest job file */
  TT_MAX_LIST_ITEMS = 10000,       /* most elements of a list */
  TT_MAX_OPTION_TEXT = 4096,       /* longest TEXT or PATH, bytes */
  TT_OPTION_PATH_SIZE = 128,       /* bytes of the path of an option: "data.split.seed" */
  TT_MAX_CONFIG_ERRORS = 10000,    /* after so many errors no more keys are read */
  TT_PRINTABLE_SIZE = 80,          /* bytes of a value in a message */
  TT_REASON_SIZE = 512             /* bytes of the reason why a value is wrong */
};

/* Values: value.c, fields.c. */

/* A scalar as written in the file. */
typedef struct tt_yaml_scalar {
  const char *text; /* ends in NUL, may contain more of them */
  size_t length;
  int quoted;
} tt_yaml_scalar;
typedef union tt_value {
  int64_t whole;
  double real;
  int word; /* BOOL, NAME */
  const char *text;
} tt_value;

/* Offset of the last part of the name of a subsection: 5 for "data_split" ("split"); 0 for a
 * section at the top level. */
size_t tt_section_leaf(const char *section);
/* "data.split", "train.on_diverged"; returns the number of enclosing sections. */
int tt_section_path(const char *section, char path[TT_OPTION_PATH_SIZE]);
/* "train.epochs", "data.split.seed", "title"; with element >= 0 "ensembles[3].name",
 * "ensembles[3].train.epochs". */
void tt_option_path(const tt_option *o, int64_t element, char path[TT_OPTION_PATH_SIZE]);
/* "1 to 1048576 rows", "at least 0"; "" for kinds without a range. */
void tt_option_range(const tt_option *o, char range[TT_OPTION_PATH_SIZE]);
/* Parse one scalar, or one element of a list. Returns 1 and *out (text borrowed from `src`), or 0
 * and the reason in `why`. */
int tt_value_parse(const tt_option *o, const tt_yaml_scalar *src, tt_value *out,
                   char why[TT_REASON_SIZE]);
/* Replace the field of `record` by `count` values (1 unless a list), texts copied. Errors: MEM. */
tt_err tt_value_store(const tt_option *o, void *record, const tt_value *value, int64_t count);
void tt_value_free(const tt_option *o, void *record);
/* The stored values: of a list its elements, else the field itself. */
typedef struct tt_stored_values {
  int64_t count;
  size_t size;    /* bytes of one value */
  const void *at; /* [count] int64_t, double, int or char *, by the kind of the option */
} tt_stored_values;
tt_stored_values tt_values_of(const tt_option *o, const void *record);
/* Copy the option from one record to another. Errors: MEM. */
tt_err tt_value_copy(const tt_option *o, const void *src, void *dst);
int tt_value_equal(const tt_option *o, const void *one, const void *other);
/* Write the shortest decimal number that reads back to the same double. */
void tt_double_write(double x, FILE *out);
/* Write `sweep:` as YAML with this indentation; nothing if there is no sweep. */
void tt_sweeps_write(const tt_ensemble_config *own, int indent, FILE *out);
void tt_sweeps_free(tt_ensemble_config *own);
/* Remove the sweep of one option, if there is one. */
void tt_sweep_remove(tt_ensemble_config *own, int hyper);
/* Write the value as YAML in one line. */
void tt_value_write(const tt_option *o, const void *record, FILE *out);
/* True for a TEXT, PATH, COLUMNS or TEXTLIST that was not given. */
int tt_value_is_empty(const tt_option *o, const void *record);

/* The output of an ensemble: model.output, or the one that its loss needs if that is auto. */
static inline tt_output tt_ensemble_output(const tt_ensemble_config *own)
{
  return own->model_output < 0 ? tt_loss_output_head((tt_loss)own->train_loss)
                               : (tt_output)own->model_output;
}

/* The option that other programs call by this name, or NULL; *element: of an ensemble, else -1. */
const tt_option *tt_hint_option(const char *word, int64_t *element);

/* Errors: errors.c. */

/* Where a value was written. set = 0: line and column of the job file; set = n: the n-th --set.
 * given: the option was written; bad: its value was refused; shared: another value may replace
 * it: it was written for an ensemble with `networks`, or is that of a recipe; recipe: it is that of
 * a recipe of `model: auto`, which is also its place. */
typedef struct tt_source_location {
  int64_t line, column;
  int set;
  int given, bad, shared, recipe;
} tt_source_location;
typedef struct tt_config_reader tt_config_reader;

/* Add one error to the list; reading continues. The same message at the same place counts once. */
void tt_config_error(tt_config_reader *r, const tt_source_location *location, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* OK if the list is empty, else CONFIG with the whole list as message. */
tt_err tt_config_error_result(const tt_config_reader *r);
/* "line 5", "--set:1" or "the default": where the value of the other option of a rule was set. */
const char *tt_location_text(const tt_source_location *location, char text[TT_OPTION_PATH_SIZE]);
/* The characters of names of ensembles and of labels of networks. */
#define TT_NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
/* A value made safe for one line of a message: shortened, control characters replaced. */
void tt_printable(const char *text, char out[TT_PRINTABLE_SIZE]);

/* The reader: yaml_parse.c, override.c and *_rules.c, called by config.c. */

/* How an option of trials is drawn; count 0: it is not. */
typedef struct tt_search_axis {
  tt_sweep_kind kind;
  int64_t count;
  double *value; /* [count] of numbers */
  char **text;   /* [count] as YAML */
} tt_search_axis;

struct tt_config_reader {
  const char *file;
  const char *const *set;
  int nset;
  int now;          /* 0 while the file is read, n during the n-th --set */
  int without_data; /* 1: data.file may be missing */
  tt_config *cfg;
  tt_source_location job[TT_OPTION_COUNT]; /* location of each option */
  tt_source_location
      section[TT_OPTION_COUNT]; /* of each section, at the index of its first option */
  tt_source_location ensembles; /* of the list `ensembles` */
  tt_source_location automatic; /* of the first `model: auto` or `search` of an ensemble */
  tt_source_location space;     /* of search.space */
  tt_search_axis axis[TT_ENSEMBLE_OPTION_COUNT];
  tt_source_location *element;                         /* [ensembles] of its elements, as in cfg */
  tt_source_location *networks;                        /* [ensembles] of their lists `networks` */
  tt_source_location (*own)[TT_ENSEMBLE_OPTION_COUNT]; /* [ensembles] of their options */
  tt_source_location (*own_section)[TT_ENSEMBLE_OPTION_COUNT];
  tt_source_location (*swept)[TT_HYPER_COUNT]; /* [ensembles] of their sweeps */
  int usable;                         /* 1 if the file is a mapping: only then check the rules */
  int64_t error_count, errors_listed; /* all errors, and those that fit into messages */
  size_t used;
  char messages[TT_ERR_MESSAGE_SIZE - 512];
};

/* Read the file; read the --set number r->now. Wrong input is added to the errors of `r`. Errors:
 * MEM. */
tt_err tt_config_read_yaml(tt_config_reader *r, const char *text, size_t bytes);
tt_err tt_config_read_override(tt_config_reader *r);
void tt_search_space_free(tt_config_reader *r);
/* Set every field of `record` to its default. Errors: MEM, INTERNAL (a default does not parse). */
tt_err tt_config_defaults(const tt_option *table, int64_t count, void *record);
/* Check that required options are given, and the rules between options. */
void tt_config_check(tt_config_reader *r);
/* Rules between the options of ensemble k.
 *   has_validation  there are validation rows
 *   fix             text that tells the user how to get validation rows */
void tt_config_check_ensemble(tt_config_reader *r, int64_t k, int has_validation, const char *fix);
/* Members to which the sweep of an option of element k applies: those of its network, or of the
 * whole ensemble. */
int64_t tt_swept_members(const tt_config_reader *r, int64_t k, int hyper);
/* Rules between the networks of one ensemble: element k and the first one. */
void tt_config_check_networks(tt_config_reader *r, int64_t k);
/* Rules between combine, calibration and the ensembles; the same arguments. */
void tt_config_check_combine(tt_config_reader *r, int has_validation, const char *fix);
/* 1 for campaign, pool, score, select, label and stop. */
int tt_is_campaign_section(const char *name);
/* 1 if such a section is given. */
int tt_config_is_campaign(const tt_config_reader *r);
/* Rules of campaigns.
 *   has_test, has_validation  the initial data have such rows, as far as the configuration shows */
void tt_config_check_campaign(tt_config_reader *r, int has_test, int has_validation);
/* Options of a campaign that have no effect because of the value of another option. check: an error
 * if the file sets such an option, unless --set changed the other option. reset: give such options
 * their default, so that the resolved configuration has only values with effect. Errors: MEM. */
void tt_config_check_unused(tt_config_reader *r);
tt_err tt_config_reset_unused(tt_config_reader *r);
#endif
