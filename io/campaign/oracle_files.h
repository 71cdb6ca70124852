/* oracle_files.h — what an oracle is given and what it gives back. Floor 3; all functions are
 * local.
 *
 * A file whose name ends in .csv is a table with names in its first line, any other one HDF5:
 *   input   HDF5: id int64 [n], x double [n][D], feature_name, feature_units
 *           CSV:  id,<names of the inputs>; numbers have 17 digits, which read back the same bits
 *   output  HDF5: y [n][T], or [n] for one target; id [n], if there are other rows or another order
 *           CSV:  the names of the targets (or y0, y1, ...), and id; other columns are passed over.
 *           Its last line ends: one that does not is still being written.
 * Without id, row i is that of input i and all rows must be there. */
#ifndef TT_ORACLE_FILES_H
#define TT_ORACLE_FILES_H
#include "core/model/dataset.h"
#include "io/hdf5/h5.h"

/* Does the name end in .csv? */
int tt_is_csv(const char *file);

/* Candidates that are asked for. */
typedef struct tt_oracle_input {
  int64_t count, inputs;
  int64_t *id; /* [count] */
  double *x;   /* [count][D] in the user's units */
} tt_oracle_input;

/* A new file, whole or not there. Errors: CANTCREAT, IO (disk full), MEM. */
tt_err tt_oracle_input_write_local(const char *file, int64_t count, const int64_t *id,
                                   const double *x, const tt_columns *input);
/* Read what tt_oracle_input_write_local has written. Owner: the caller. Errors: NOINPUT, DATA, MEM.
 */
tt_err tt_oracle_input_read_local(const char *file, tt_oracle_input **out);
void tt_oracle_input_destroy(tt_oracle_input **a);

/* The line an output in CSV begins with, "id,<names of the targets>": what whoever labels has to
 * know, in a file of its own. Owner of *target: the caller. Errors: CANTCREAT, IO, MEM; NOINPUT,
 * DATA. */
tt_err tt_output_header_write_local(const char *file, const tt_columns *target);
tt_err tt_output_header_read_local(const char *file, tt_columns *target);

/* Rows of an output as they stand in it. */
typedef struct tt_oracle_output {
  char *file; /* for messages */
  int64_t count, targets;
  int64_t *id; /* [count] or NULL: the rows are not numbered */
  double *y;   /* [count][T] in the order of the targets; NaN = unlabelled */
} tt_oracle_output;

/* Read an output. HDF5 of others is first looked at by io/data/guarded_check.h.
 * Owner: the caller. Errors: NOINPUT (there is none), DATA (not complete, damaged, not so many
 * targets, other names, an id twice: file, line or row, value), IO, MEM. */
tt_err tt_oracle_output_read_local(const char *file, const tt_columns *target,
                                   tt_oracle_output **out);
void tt_oracle_output_destroy(tt_oracle_output **l);

/* The labels of the rows that were asked for, in their order.
 *   y [count][T]  a row that is missing, or has an infinite value, is NaN in all targets
 *   given         rows asked for that are in the output
 * Errors: DATA (an id that nobody asked for; without ids: another number of rows), MEM. */
tt_err tt_oracle_output_align(const tt_oracle_output *l, int64_t count, const int64_t *id,
                              double *y, int64_t *given);

/* A new HDF5 file, whole or not there: id, y, target_name, target_units; and a text, why rows have
 * no labels, which "" leaves out. Errors: CANTCREAT, IO, MEM. */
tt_err tt_accepted_labels_write_local(const char *file, int64_t count, const int64_t *id,
                                      const double *y, const tt_columns *target, const char *why);
/* Read what tt_accepted_labels_write_local has written, without a child.
 *   why  [room] may be NULL */
tt_err tt_accepted_labels_read_local(const char *file, const tt_columns *target,
                                     tt_oracle_output **out, char *why, int room);
#endif
