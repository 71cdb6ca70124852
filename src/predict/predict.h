/* predict.h — `tutti predict`: a trained model on the rows of a file. */
#ifndef TT_PREDICT_H
#define TT_PREDICT_H
#include "io/data/data.h"
#include "mpi/comm.h"

typedef struct tt_predict_options {
  const char *model;      /* model.h5 */
  const char *data;       /* HDF5 file with the rows */
  const char *inputs;     /* dataset of the inputs, [rows][D]; NULL = "x" */
  tt_table_format format; /* of a CSV file */
  const char *group;      /* group whose ensemble predicts all rows; NULL: each row by its own */
  const char *output;     /* file to write: HDF5, or a table if its name ends in .csv */
  int force;              /* 1 = replace it if it exists */
  int members;            /* 1 = also write every member's mean and variance */
  int jacobian;           /* 1 = also write the derivatives by the inputs (row_slopes.h) */
  int64_t quantiles;
  const double *quantile; /* [quantiles] each in (0, 1) */
} tt_predict_options;

/* Collective. Predict all rows; each rank reads its slice in chunks, memory O(chunk). Write mean,
 * total, aleatoric and epistemic standard deviations in the user's units.
 * Errors: NOINPUT, DATA (not a model; another number of inputs; inputs that are not finite),
 * USAGE (a quantile outside (0, 1); quantiles of a model that predicts only classes or quantiles;
 * an output with the name of another kind of file, such as p.npy; a table with members or
 * derivatives),
 * CANTCREAT (the output exists), IO, MEM. */
tt_err tt_predict(tt_comm *c, const tt_predict_options *o);
#endif
