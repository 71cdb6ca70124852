/* predict.h — `tutti predict` and `tutti evaluate`: a trained model on rows of a file. Floor 4. */
#ifndef TT_PREDICT_H
#define TT_PREDICT_H
#include "mpi/comm.h"

typedef struct tt_predict_options {
  const char *model;  /* model.h5 */
  const char *data;   /* HDF5 file with the rows */
  const char *inputs; /* dataset of inputs, rows x features; NULL = "x" */
  const char *output; /* file to write */
  int members;        /* also every member's mean and variance */
  int64_t quantiles;
  const double *quantile; /* [quantiles] each in (0, 1) */
  const char *command;
} tt_predict_options;

/* Collective. Stream all rows through the ensemble, each rank its own, memory O(chunk); write mean,
 * total, aleatoric and epistemic standard deviations in the user's units.
 * Errors: NOINPUT, DATA (not a model; another number of inputs; inputs not finite: row and column),
 * USAGE (a quantile outside (0, 1)), CANTCREAT, IO, MEM. */
tt_err tt_predict(tt_comm *c, const tt_predict_options *o);

typedef struct tt_evaluate_options {
  const char *model, *data;
  const char *inputs, *targets; /* datasets; NULL = "x", "y" */
  const char *output;           /* file for the scores; NULL = none */
  const char *command;
} tt_evaluate_options;

/* Collective. Score the model on all labelled rows of a file, print the table and write it if asked
 * to. Target columns are matched by name, or by position where the file has no names. Errors: as
 * tt_predict; DATA (no column for a target). */
tt_err tt_evaluate(tt_comm *c, const tt_evaluate_options *o);
#endif
