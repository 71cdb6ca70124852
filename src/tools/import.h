/* import.h — `tutti import`: convert a CSV or TSV table to a dataset file. */
#ifndef TT_IMPORT_H
#define TT_IMPORT_H
#include "io/data/data.h"

/* Lists of columns are as in io/table/column_choice.h: names, patterns, exclusions. */
typedef struct tt_import_options {
  const char *table;      /* file to read */
  const char *output;     /* dataset file to write */
  const char *inputs;     /* columns of x */
  const char *targets;    /* columns of y; NULL or "": none, for a table to predict */
  const char *units;      /* "column=unit,..."; NULL or "": none */
  tt_table_format format; /* of a CSV file */
  int force;              /* replace an output that exists */
} tt_import_options;

/* An empty cell, or another missing value, in a target column is an unlabeled value; every input
 * must be a finite number. A table whose name does not say its kind is a CSV file. Logs one line
 * about the output. Needs no MPI. Local. Errors: USAGE (no input column; a column that is input and
 * target; a unit for a column that is not selected), NOINPUT, DATA (no such column: the message has
 * the nearest name and all names; file, line, column and reason of a cell), CANTCREAT (the output
 * exists without force, or cannot be written), IO, MEM. */
tt_err tt_import_local(const tt_import_options *o);
#endif
