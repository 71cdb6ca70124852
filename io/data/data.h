/* data.h — samples from data files, and the dataset files of `tutti import`.
 * Tables (io/table/table.h): CSV and TSV, also compressed; .npy and .npz; options name columns.
 * Any HDF5 file: float32, float64 or integers, N x D inputs, N x T or N targets, names of the
 * datasets from the configuration; feature_name, feature_units, target_name, target_units are used
 * if they exist (character arrays [n][length] or string datasets). */
#ifndef TT_DATA_H
#define TT_DATA_H
#include "core/config/config.h"
#include "core/model/dataset.h"
#include "io/table/table.h"
#include "mpi/comm.h"

/* Shape and names of a data file. `input` and `target` are owned by the caller. */
typedef struct tt_data_shape {
  int64_t rows, inputs, targets;
  int64_t
      net_inputs; /* of a network: each level of a category is one (core/columns/net_inputs.h) */
  tt_columns input, target;
} tt_data_shape;
/* Read the shape, but no data. targets NULL: inputs only (prediction); then out->targets is 0.
 * Local. Errors: NOINPUT, DATA (not HDF5, truncated, no such dataset: the message lists the
 * existing ones; wrong rank, type or row count). */
tt_err tt_data_read_shape_local(const char *file, const char *inputs, const char *targets,
                                tt_data_shape *out);
void tt_data_shape_free(tt_data_shape *s);
/* The same for the data file of a job. */
tt_err tt_data_job_shape_local(const tt_config *cfg, tt_data_shape *out);

/* Rows for training, validation and test, as data.split says, and those with equal inputs, as in
 * tt_dataset. */
typedef struct tt_row_counts {
  int64_t part[TT_SPLITS], repeated, seen;
} tt_row_counts;
/* Check every value of the data file of a job, in pieces of rows: the error has all that cannot be
 * used. Local. Errors: as tt_data_read.
 *   out  NULL: not counted */
tt_err tt_data_check_local(const tt_config *cfg, tt_row_counts *out);

/* Collective. Called when the shape is known, before memory for the samples is allocated; its error
 * ends the reading. */
typedef struct tt_data_hook {
  tt_err (*check)(tt_comm *c, const tt_data_shape *shape, void *arg);
  void *arg;
} tt_data_hook;

/* Collective. Read the whole data set of a job: every rank reads its own blocks of rows once, with
 * the serial driver; means and scales are summed in fixed blocks of rows in double (bit-identical
 * for every rank count); all ranks get all rows, normalized. Rank 0 first checks the file with
 * io/hdf5/guarded_check.h. Columns trained as labels (output softmax, sigmoid, rate) keep mean 0
 * and scale 1. Errors: NOINPUT, CONFIG (unknown target; a column trained as label and as measured
 * value), DATA (NaN or infinity in inputs: dataset, row, column, value; infinite targets; a label
 * that is invalid for its output; no rows; negative weights; a set of rows that is
 * neither 0 nor 1), MEM, of the hook.
 *   hook  may be NULL */
tt_err tt_data_read(tt_comm *c, const tt_config *cfg, const tt_data_hook *hook, tt_dataset **out);

/* Collective. The same for a job with `by`: each group is split and normalized on its own, as a
 * data set with only its rows would be. Errors: also DATA (no group has enough rows). */
tt_err tt_data_read_groups(tt_comm *c, const tt_config *cfg, const tt_data_hook *hook,
                           tt_dataset **out);

/* Bytes of inputs, targets, weights and splits that this process has read from data files so far,
 * in the types of the files. One tt_data_read adds their size exactly once, summed over the ranks.
 */
int64_t tt_data_bytes_read_local(void);

/* Read rows of inputs, and of targets if `targets` is not NULL, in pieces. Local; serial driver. */
typedef struct tt_data_reader tt_data_reader;
tt_err tt_data_reader_open_local(const char *file, const char *inputs, const char *targets,
                                 tt_data_reader **out);

/* What to read from a file. Texts are borrowed; zeros are "not given". */
typedef struct tt_data_spec {
  const char *file;
  const char *inputs;  /* a dataset; in a table a list of columns (io/table/column_choice.h) */
  const char *targets; /* the same; NULL: inputs only */
  int others;
  const char *const *other; /* [others] lists of columns that patterns do not match */
  /* In a table that has no column x, the inputs `x` are these columns, or all others if NULL; in
   * one without a column y, the targets `y` are these or those of the list. */
  const tt_columns *like_input, *like_target;
  const char *named_targets;
  const char *id;                /* data.id: a column that is no input and no target; or NULL */
  const tt_table_format *format; /* of CSV files */
  int missing_inputs;            /* 1: an input that is missing is read as NaN; 0: an error */
  /* data.categories; NULL: none. Patterns match these columns of texts too, and their levels are
   * found while the values are read, unless `net` has them. */
  const char *categories;
  const tt_net_inputs *net; /* known levels, of the columns like_input, or of the inputs; or NULL */
  int keeps_texts; /* 1: texts that are no known level are valid (tt_data_reader_text_local) */
  int names_only;  /* 1: for the names and the number of rows; no value is read */
} tt_data_spec;
/* Errors: as tt_data_read_shape_local. */
tt_err tt_data_reader_open_spec_local(const tt_data_spec *spec, tt_data_reader **out);
/* Collective. The same on all ranks: rank 0 opens the file first, and finds the rows of a CSV file
 * for all. Errors: the same; DATA (the file of a rank is not that of rank 0). */
tt_err tt_data_reader_open(tt_comm *c, const tt_data_spec *spec, tt_data_reader **out);
/* The marks of an open CSV file, for spec->format of another reader of it. */
const tt_row_marks *tt_data_reader_marks(const tt_data_reader *r);
/* data.file of a job. */
tt_err tt_data_reader_open_job_local(const tt_config *cfg, tt_data_reader **out);
/* The same from names of the command line, NULL = the default. Errors: USAGE. */
tt_err tt_data_format_parse(const char *delimiter, const char *decimal, tt_table_format *out);
/* How the CSV files of a job are written; borrows from cfg. */
tt_table_format tt_data_format(const tt_config *cfg);

/* x [count][D], y [count][T], not normalized, in double; NULL: not read. Errors: DATA, IO. */
tt_err tt_data_reader_read_local(tt_data_reader *r, int64_t first, int64_t count, double *x,
                                 double *y);
/* Text of an input of the spec's `net` that was read as `value`, with keeps_texts; NULL: there are
 * more than TT_MAX_LEVELS texts. */
const char *tt_data_reader_text_local(const tt_data_reader *r, int64_t column, double value);
/* Return the columns in the order of `input` and `target`, by their names, in all later reads; the
 * shape then has their order too. Columns are used by position if a side has no names.
 *   target  NULL = leave the targets in the order of the file
 *   owner   what has these columns, for messages: "the model"
 *   notice  1 = log if the order differs, or if a side has no names
 * Errors: DATA (another number of columns, other names: the message has both lists), MEM. */
tt_err tt_data_reader_match_local(tt_data_reader *r, const tt_columns *input,
                                  const tt_columns *target, const char *owner, int notice);
/* Place of an input or a target, for messages: "t.csv:17: column 'a'"; row from 0, column in the
 * order of reading. Returns text. */
const char *tt_data_reader_place_local(const tt_data_reader *r, int is_target, int64_t row,
                                       int64_t column, char *text, int64_t capacity);
/* Whether the file has a column, or a dataset, of this name. Errors: DATA, MEM. */
tt_err tt_data_reader_has_column_local(tt_data_reader *r, const char *name, int *out);
const tt_data_shape *tt_data_reader_shape(const tt_data_reader *r);
void tt_data_reader_close_local(tt_data_reader **r);

/* Read data.id of all rows of a file. Owner: the caller, tt_row_ids_free. Errors: DATA (missing,
 * repeated, no whole number, another number of rows, no such column: the message has file, place
 * and value), IO, MEM. */
tt_err tt_data_read_ids_local(const char *file, const tt_table_format *format, const char *column,
                              int64_t rows, tt_row_ids *out);
/* The ids of rows row[0], row[1], ... as texts, text[count] NULL before; they may be equal. Owner
 * of the texts: the caller. Errors: the same. */
tt_err tt_data_read_some_ids_local(const char *file, const tt_table_format *format,
                                   const char *column, int64_t count, const int64_t *row,
                                   char **text);

/* The names of the groups of `by`: a text or a whole number, or with several columns the list of
 * their values. */
typedef struct tt_by_values {
  int64_t rows, count;
  int32_t *number; /* [rows] which of the names the row has */
  char **name;     /* [count] different names, in the order of the first row of each */
} tt_by_values;
/* Owner of *out: the caller, tt_by_values_free. Errors: DATA (missing, no such column: the message
 * has file, place and value), IO, MEM. */
tt_err tt_by_values_read_local(const char *file, const tt_table_format *format,
                               const tt_text_list *by, int64_t rows, tt_by_values *out);
void tt_by_values_free(tt_by_values *v); /* accepts a zeroed struct */

/* Write a new dataset file (schema tutti-dataset-1.0: x, y, names, units, dimension scales),
 * written under a temporary name, verified, then renamed. x [rows][D], y [rows][T]; without targets
 * (count 0) the file has no y. Local. Errors: DATA (a name or unit is not UTF-8), CANTCREAT, IO,
 * MEM. */
tt_err tt_data_write_local(const char *file, int64_t rows, const tt_columns *input,
                           const tt_columns *target, const double *x, const double *y);
#endif
