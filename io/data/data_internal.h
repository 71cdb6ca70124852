/* data_internal.h — the split and the selection of a dataset's rows, the labels in its columns.
 * For the files of io/data only. All functions are local. */
#ifndef TT_DATA_INTERNAL_H
#define TT_DATA_INTERNAL_H
#include "core/model/row_split.h"
#include "io/columns/fit.h"
#include "io/data/raw_data.h"
#include "io/data/source.h"
#include "io/table/problems.h"

/* data.split of the rows of a file. */
typedef struct tt_row_parts {
  int8_t *split;          /* [rows] */
  uint64_t *unit;         /* [rows] as in tt_dataset, or NULL */
  int64_t repeated, seen; /* rows, as in tt_dataset */
} tt_row_parts;
void tt_row_parts_free(tt_row_parts *p); /* accepts a zeroed struct */

/* Levels of the inputs of a reader. */
typedef struct tt_input_levels {
  int64_t columns;    /* D; 0: no categories */
  int8_t *categories; /* [D] tt_categories */
  tt_levels *of;      /* [D] */
} tt_input_levels;

/* As spec->categories or spec->net say, for inputs of these names; *out is zeroed. Owner: the
 * caller, tt_input_levels_free, also after an error. Errors: DATA, MEM. */
tt_err tt_input_levels_create(const tt_data_spec *spec, const tt_columns *input,
                              tt_input_levels *out);
void tt_input_levels_free(tt_input_levels *l);
/* Announce the inputs to their table: columns of levels, others as `kind`. */
tt_err tt_input_levels_use_local(tt_input_levels *l, const tt_source *s, const tt_source_matrix *m,
                                 tt_cell_kind kind);

/* The classes of the columns of data.classes. */
typedef struct tt_class_levels {
  int64_t columns;
  tt_levels *of; /* [columns] */
} tt_class_levels;
/* Announce the columns of `classes` that a file has, before anything else is: their values are then
 * the numbers of the classes. classes: of a tt_table_format, or NULL. *out is zeroed. Owner: the
 * caller, tt_class_levels_free, also after an error. Errors: DATA, MEM. */
tt_err tt_class_levels_use_local(const char *classes, tt_source *s, tt_class_levels *out);
void tt_class_levels_free(tt_class_levels *l); /* accepts a zeroed struct */
/* Fill in columns->classes. Errors: MEM. */
tt_err tt_class_names_set(const char *classes, tt_columns *columns);

/* The levels of the inputs of an open file. */
tt_input_levels *tt_data_reader_levels_local(tt_data_reader *r);

/* Collective. The marks of a CSV file on all ranks: those of rank 0. m->mark is NULL on the others;
 * owner: the caller, tt_free(m->mark). Errors: MEM. */
tt_err tt_data_share_marks(tt_comm *c, tt_row_marks *m);

/* Collective. data.file of a job, as tt_data_reader_open.
 *   c      NULL: local
 *   net    levels of the D inputs; NULL: with data.categories they are found while reading
 *   marks  on rank 0 those of the file, if they are known */
tt_err tt_data_reader_open_job(tt_comm *c, const tt_config *cfg, const tt_net_inputs *net,
                               const tt_row_marks *marks, tt_data_reader **out);

int tt_data_has_categories(const tt_config *cfg);
/* out[input->count]: tt_categories of each input. Errors: DATA, MEM. */
tt_err tt_data_resolve_categories(const char *categories, const char *file, const tt_columns *input,
                                  int8_t *out);
/* Whether a mapping data.categories names this column, without a pattern. */
int tt_data_names_category(const char *categories, const char *column);
/* How the inputs of a job are used: missing[D] receives the tt_missing of amounts, and
 * indicator[D] 1 where an input of the networks says that the value is missing. Errors: CONFIG (a
 * mean of levels), DATA, MEM. */
tt_err tt_data_missing_local(const tt_config *cfg, const char *file, const tt_columns *input,
                             const int8_t *categories, int8_t *missing, int8_t *indicator);
/* Find the inputs of the networks; with data.categories the data file of the job is read once, for
 * the levels in its training rows.
 *   r      opened with net NULL
 *   parts  receives data.split, with data.categories; owner: the caller, tt_row_parts_free
 *   out    owner: the caller, tt_net_inputs_free
 * Errors: DATA (no level, too many), CONFIG, IO, MEM. */
tt_err tt_data_find_net_inputs_local(const tt_config *cfg, tt_data_reader *r, tt_row_parts *parts,
                                     tt_net_inputs *out);
/* Collective. The same on all ranks, from the file of the job.
 *   parts  on rank 0 data.split; owner: the caller, tt_row_parts_free; on other ranks unchanged
 *   marks  on rank 0 those of the file; owner: the caller; on other ranks unchanged */
tt_err tt_data_find_levels(tt_comm *c, const tt_config *cfg, tt_row_parts *parts,
                           tt_row_marks *marks, tt_net_inputs *out);
/* Why a value of an input is not valid; NULL: it is.
 *   may_miss  1: the value may be missing (NaN) */
const char *tt_data_input_fault(const tt_net_inputs *net, int64_t column, int may_miss, double v);
/* data.id of a job, if it is given. `marks` are those of its file. */
tt_err tt_data_job_ids_local(const tt_config *cfg, const tt_row_marks *marks, int64_t rows,
                             tt_row_ids *out);
/* Collective. Set the ids of a data set on rank 0, from its file. Errors: as
 * tt_data_read_ids_local. */
tt_err tt_data_add_ids(tt_comm *c, const tt_config *cfg, const tt_row_marks *marks, tt_dataset *d);
/* Collective. The hash of a data set, from those of the blocks of its values. Names of targets are
 * hashed too: the configuration chooses targets by name; and the inputs of the networks, if they
 * are not the columns. Errors: MEM.
 *   part  [parts] inputs, targets, weights, error bars */
tt_err tt_data_gather_hash(tt_comm *c, const tt_fit_rows *part, int64_t parts, tt_dataset *d);
/* key[count] of the inputs x [count][inputs] of some rows. -0 is 0; missing values are equal.
 * Errors: MEM. */
tt_err tt_data_row_keys_local(int64_t count, int64_t inputs, const double *x, tt_row_key *key);
/* Collective. The keys of all rows, on all ranks. Owner of *key [rows]: the caller. Errors: MEM. */
tt_err tt_data_gather_row_keys(tt_comm *c, const tt_fit_rows *x, int64_t rows, tt_row_key **key);
/* Log how many rows each part has: with groups, strata or blocks these are not exactly the
 * fractions of data.split; and which rows have equal inputs. */
void tt_data_log_split(const char *file, const tt_dataset *d);
/* Fill split, unit and selected of a data set by data.split and `rows` of the ensembles.
 *   key    [rows] keys of the rows
 *   known  the parts, if they have been found, or zeroed; owner: the caller, tt_row_parts_free
 * Errors: as the functions below. */
tt_err tt_data_read_rows_local(tt_data_reader *r, const tt_config *cfg, const tt_row_key *key,
                               tt_row_parts *known, tt_dataset *d);
/* Find the parts of data.split. Rows with equal inputs are in one part, except with
 * data.split.order, where the file gives the part of each row, and where some part would get no
 * row.
 *   key  [rows] keys of the rows; NULL: the inputs are read for them
 *   out  owner: the caller, tt_row_parts_free, also after an error
 * Errors: as the functions below. */
tt_err tt_data_find_parts_local(tt_data_reader *r, const tt_config *cfg, const tt_row_key *key,
                                tt_row_parts *out);

/* Close the reader and keep its shape; owner: the caller, tt_data_shape_free. */
void tt_data_reader_take_shape(tt_data_reader **r, tt_data_shape *out);

/* The open file of `r`, which still owns it. */
tt_source *tt_data_reader_file_local(tt_data_reader *r);

/* Fill split[rows] by data.split of the configuration: fractions or a column. Errors: CONFIG,
 * DATA. */
tt_err tt_data_read_split_local(tt_source *s, const tt_config *cfg, int64_t rows, int8_t *split);

/* How data.split chooses the parts. */
typedef enum tt_split_by {
  TT_SPLIT_BY_group,
  TT_SPLIT_BY_stratify,
  TT_SPLIT_BY_order,
  TT_SPLIT_BY_fractions,
  TT_SPLIT_BY_file
} tt_split_by;
tt_split_by tt_data_split_by(const tt_config *cfg);
typedef struct tt_split_values {
  tt_split_by by;
  int64_t rows;
  double *value;   /* [rows] of the column of data.split.group, stratify or order; NULL: none */
  uint64_t *group; /* [rows] with groups, or NULL */
} tt_split_values;
/* Read the column of data.split.group, stratify or order: values of a column, of a target or of an
 * input. Owner of *out: the caller, tt_split_values_free, also after an error. Errors: DATA, IO,
 * MEM. */
tt_err tt_split_values_read_local(tt_data_reader *r, const tt_config *cfg, tt_split_values *out);
void tt_split_values_free(tt_split_values *v);
/* Fill split[rows], not with TT_SPLIT_BY_file.
 *   unit  [rows] of tt_split_first_rows: rows of a unit are in one part; NULL: each row for itself,
 *         or with those of its group
 * Errors: DATA, CONFIG, MEM. */
tt_err tt_split_values_apply(const tt_split_values *v, const tt_config *cfg, const uint64_t *unit,
                             int8_t *split);

/* Find the parts of these rows as tt_data_find_parts_local does.
 *   key  [v->rows] keys of the rows
 *   out  the caller allocates `split`, and fills it with TT_SPLIT_BY_file; owner: the caller
 * Errors: DATA, CONFIG, MEM. */
tt_err tt_data_split_rows_local(const tt_split_values *v, const tt_config *cfg,
                                const tt_row_key *key, tt_row_parts *out);

/* Read a set of rows in pieces: a column of 0 and 1.
 *   role  option that gives the column, for messages
 *   bit   [(rows + 7) / 8], 0 before; bit row % 8 of byte row / 8 is set
 * Errors: DATA (neither 0 nor 1, another type or length), IO, MEM. */
tt_err tt_data_read_row_mask_local(tt_source *s, const char *role, const char *path, int64_t rows,
                                   uint8_t *bit);

/* Fill selected[selections][rows] by `rows` of the ensembles.
 *   split  [rows]: every selection must have a row to train on
 * Errors: DATA (neither 0 nor 1, empty, another type or length). */
tt_err tt_data_read_selections_local(tt_source *s, const tt_config *cfg, int64_t rows,
                                     const int8_t *split, int8_t *selected);

/* Rank 0: check the file of a job with guarded_check.h, if it is HDF5. */
tt_err tt_data_check_job_local(const tt_config *cfg);

/* What the ensembles that are trained on a target column require of it. */
typedef struct tt_label_rule {
  unsigned types;  /* set of bits 1 << tt_label_type (output.h); 0: no ensemble uses the column */
  int32_t classes; /* smallest number of classes of these ensembles */
  int64_t by;      /* index of the first of these ensembles */
} tt_label_rule;

/* Whether data.missing accepts missing inputs. */
int tt_data_may_miss(const tt_config *cfg);

int tt_data_has_sigma(const tt_config *cfg);
/* The matrix of data.sigma; not opened if the option is not given. Free it also after an error.
 * Errors: DATA. */
tt_err tt_data_open_sigma_local(const tt_config *cfg, tt_source *s, int64_t rows, int64_t targets,
                                tt_source_matrix *out);
/* sigma[count][targets] of rows [first, first + count), if the matrix is open. Errors: DATA (a
 * value that is negative or not finite where there is a label), IO. */
tt_err tt_data_read_sigma_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                int64_t count, int64_t targets, const double *y, double *sigma);
/* Whether labels are used unchanged, not normalized. */
int tt_label_rule_is_raw(const tt_label_rule *l);

/* A column that a mapping of data.normalize does not name, until the labels are known. */
enum { TT_BY_DEFAULT = -1 };

/* Fill in label[target->count], and complete the normalizations of s: TT_BY_DEFAULT becomes
 * standard; labels that are used unchanged, and categories, have none. Errors: CONFIG (unknown
 * target; a column with both kinds that is normalized; a mapping of data.normalize that names
 * labels), MEM. */
tt_err tt_data_label_rules_local(const tt_config *cfg, const char *file, const tt_columns *target,
                                 tt_scaler *s, tt_label_rule *label);

/* Why the label y is invalid, as text for a message; NULL: it is valid. NaN (unlabeled) is valid.
 */
const char *tt_label_invalid_reason(const tt_label_rule *l, double y);

/* Samples while they are read (read.c) and checked (check.c). */

/* One of the arrays of samples: inputs, targets, weights or error bars. */
typedef struct tt_sample_array {
  const char *path;
  int64_t columns;
  double *own;       /* [count][columns] as in the file */
  int64_t inputs;    /* columns of normalized: of x those of the networks */
  float *normalized; /* [count][inputs] normalized */
} tt_sample_array;

typedef struct tt_loader {
  tt_comm *comm;
  const tt_config *cfg;
  const char *file;
  tt_data_reader *rows;
  tt_source_matrix weights, sigma_matrix;
  int64_t blocks;
  tt_slice block;       /* this rank's blocks */
  int64_t first, count; /* this rank's rows */
  tt_sample_array x, y, w, sigma;
  tt_label_rule *label;        /* [T] */
  tt_net_inputs net;           /* inputs of the networks, until the data set has them */
  tt_row_marks marks;          /* of the file, if rank 0 has read it for `net` */
  tt_row_parts parts;          /* on rank 0: data.split */
  int8_t *missing, *indicator; /* [D] tt_missing of amounts; 1 = a missing value is an input */
  tt_dataset *d;
  tt_problems *problems; /* not NULL while all problems of the file are listed */
} tt_loader;

/* Collective. Read everything except the scales. All ranks get the values of all rows in the user's
 * units; owner: the caller, tt_free. Also after an error, the caller ends the loader with
 * tt_loader_finish. Errors: as tt_data_read.
 *   x, y   [rows][D], [rows][T]
 *   sigma  [rows][T], NULL without data.sigma; the argument may be NULL */
tt_err tt_loader_read_values(tt_loader *l, const tt_data_hook *hook, double **x, double **y,
                             double **sigma);
/* Return the data set in *out, or destroy it after the error e; free all else. */
tt_err tt_loader_finish(tt_loader *l, tt_err e, tt_dataset **out);

/* Local. Whether the values in the arrays are what the job needs; `problems` receives those that
 * are not, or the first one is an error. Errors: DATA. */
tt_err tt_loader_check_local(const tt_loader *l);
/* A value of one of the arrays, i = row of this rank * columns + column, that cannot be used.
 *   names   of the columns, or NULL
 *   option  of section data that accepts it, with its value; NULL: none */
tt_err tt_loader_bad_value(const tt_loader *l, const tt_sample_array *p, const tt_columns *names,
                           int64_t i, const char *cure, const char *const option[2]);
#endif
