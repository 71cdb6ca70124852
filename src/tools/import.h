/* import.h — `tutti import`: a CSV or TSV table becomes a dataset file. Floor 4. */
#ifndef TT_IMPORT_H
#define TT_IMPORT_H
#include "core/base/err.h"

/* Lists are names of columns separated by commas; a name that holds a comma is quoted. */
typedef struct tt_import_options {
  const char *table;   /* file to read */
  const char *output;  /* dataset file to write */
  const char *inputs;  /* columns of x */
  const char *targets; /* columns of y; NULL or "": none, a table to predict from */
  const char *units;   /* "column=unit,..."; NULL or "": none */
  int force;           /* replace an output that exists */
} tt_import_options;

/* Numbers are those of C in decimal; an empty target, or nan, is an unlabelled one. Every input
 * must be a finite number. Says on one line what was written. Needs no MPI. Local. Errors: USAGE
 * (no input column, unknown or repeated column: the nearest name and all names are given; a unit
 * for a column that is not taken), NOINPUT, DATA (file:line: column: what is wrong), CANTCREAT (the
 * output exists and not force, or cannot be written), IO, MEM. */
tt_err tt_import_local(const tt_import_options *o);
#endif
