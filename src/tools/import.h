/* import.h — `tutti import`: convert a CSV or TSV table to a dataset file. */
#ifndef TT_IMPORT_H
#define TT_IMPORT_H
#include "core/base/err.h"

/* Lists are column names separated by commas; quote a name that contains a comma. */
typedef struct tt_import_options {
  const char *table;   /* file to read */
  const char *output;  /* dataset file to write */
  const char *inputs;  /* columns of x */
  const char *targets; /* columns of y; NULL or "": none, for a table to predict */
  const char *units;   /* "column=unit,..."; NULL or "": none */
  int force;           /* replace an output that exists */
} tt_import_options;

/* Numbers are decimal, in the syntax of C. An empty cell or nan in a target column is an unlabelled
 * value; every input must be a finite number. Logs one line about the output. Needs no MPI. Local.
 * Errors: USAGE (no input column; unknown or repeated column: the message has the nearest name and
 * all names; a unit for a column that is not selected), NOINPUT, DATA (file, line, column and
 * reason), CANTCREAT (the output exists without force, or cannot be written), IO, MEM. */
tt_err tt_import_local(const tt_import_options *o);
#endif
