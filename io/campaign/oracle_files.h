/* oracle_files.h — input and output files of an oracle. All functions are local.
 *
 * A file whose name ends in .csv is a table with names in its first line; any other file is HDF5:
 *   input   HDF5: id int64 [n], x double [n][D], feature_name, feature_units; if inputs have texts,
 *           x_text characters [n][D][length], "" where an input is a number; x has the number of
 *           the text among the levels, -1 for other texts
 *           CSV:  id,<names of the inputs>; numbers have 17 digits, which read back the same bits;
 *           texts as they are
 *   output  HDF5: y [n][T], or [n] for one target; id [n]; target_name [T] if the targets are in
 *           another order than in data.file
 *           CSV:  the names of the targets (or y0, y1, ...), and id; other columns are ignored.
 *           If the targets have error bars (tt_columns): y and, if the file has it, sd [n][T] in
 *           the same order; in CSV columns sd_NAME.
 *           The file must end in a newline, or it is incomplete. Cells are as in io/table/table.h;
 *           a label may be infinite.
 * id is needed if rows are missing or in another order. Without id, row i belongs to input i and
 * all rows are required. */
#ifndef TT_ORACLE_FILES_H
#define TT_ORACLE_FILES_H
#include "core/model/dataset.h"
#include "io/hdf5/h5.h"
#include "io/table/table.h"

/* Does the name end in .csv? */
int tt_is_csv(const char *file);

/* The numbers in column k of a table: id [count]. Errors: DATA (file:line), IO, MEM. */
tt_err tt_oracle_ids_read_local(tt_table *t, int64_t k, int64_t count, int64_t *id);
/* The labels in all rows of a table: y [rows][T]; NaN where there is none, and for error bars that
 * have no column. Errors: DATA, IO, MEM. */
tt_err tt_oracle_labels_read_local(tt_table *t, const tt_columns *target, int64_t rows, double *y);

/* Candidates to label. */
typedef struct tt_oracle_input {
  int64_t count, inputs;
  int64_t *id; /* [count] */
  double *x;   /* [count][D] in the user's units; texts as the numbers of levels */
} tt_oracle_input;

/* Write a new file; it is complete or does not exist.
 *   text  [count][D] texts of the inputs, NULL where an input is a number; or NULL: there are none
 *   ids   [count] of the user, written to HDF5; zeroed: none
 * Errors: CANTCREAT, IO (disk full), MEM. */
tt_err tt_oracle_input_write_local(const char *file, int64_t count, const int64_t *id,
                                   const double *x, const char *const *text,
                                   const tt_columns *input, const tt_row_ids *ids);
/* Read a file of tt_oracle_input_write_local.
 *   net  levels of the inputs; NULL: all are numbers. x is 0 if the file has another number of
 *        inputs
 * Owner: the caller. Errors: NOINPUT, DATA, MEM. */
tt_err tt_oracle_input_read_local(const char *file, const tt_net_inputs *net,
                                  tt_oracle_input **out);
/* The same without x, which is NULL. */
tt_err tt_oracle_input_read_ids_local(const char *file, tt_oracle_input **out);
void tt_oracle_input_destroy(tt_oracle_input **a);

/* A file with the first line that a CSV output must have, "id,<names of the targets>", for the
 * person or program that labels. Owner of *target: the caller. Errors: CANTCREAT, IO, MEM; NOINPUT,
 * DATA. */
tt_err tt_output_header_write_local(const char *file, const tt_columns *target);
tt_err tt_output_header_read_local(const char *file, tt_columns *target);

/* Rows of an output, in the order of the file. */
typedef struct tt_oracle_output {
  char *file; /* for messages */
  int64_t count, targets;
  int64_t errors; /* the last columns of y that are error bars (tt_columns); NaN: not given */
  int64_t *id;    /* [count] or NULL: the file has no id */
  double *y;      /* [count][T] in the order of the targets; NaN = unlabeled */
} tt_oracle_output;

/* Read an output. An HDF5 file is first checked by io/hdf5/guarded_check.h, because tutti did not
 * write it.
 *   requested  number of rows that were requested: a file with more rows is refused before memory
 *              is allocated for them; 0 = any number
 * Owner: the caller. Errors: NOINPUT (no file), DATA (incomplete, damaged, too many rows, wrong
 * number or names of targets, an id that occurs twice; the message has file, line or row, and
 * value), IO, MEM. */
tt_err tt_oracle_output_read_local(const char *file, const tt_columns *target, int64_t requested,
                                   tt_oracle_output **out);
void tt_oracle_output_destroy(tt_oracle_output **l);

/* The labels of the requested rows, in the order of the request.
 *   y [count][T]  all targets of a row are NaN if the row is missing or has an infinite value
 *   given         number of requested rows that are in the output
 * Errors: DATA (an id that was not requested; without ids: the wrong number of rows), MEM. */
tt_err tt_oracle_output_align(const tt_oracle_output *l, int64_t count, const int64_t *id,
                              double *y, int64_t *given);

/* Write a new HDF5 file; it is complete or does not exist: id, y, target_name, target_units, and
 * the reason `why` rows have no labels ("" = not written). Errors: CANTCREAT, IO, MEM. */
tt_err tt_accepted_labels_write_local(const char *file, int64_t count, const int64_t *id,
                                      const double *y, const tt_columns *target, const char *why);
/* Read a file of tt_accepted_labels_write_local, without io/hdf5/guarded_check.h.
 *   why  [capacity] or NULL */
tt_err tt_accepted_labels_read_local(const char *file, const tt_columns *target,
                                     tt_oracle_output **out, char *why, int capacity);
#endif
