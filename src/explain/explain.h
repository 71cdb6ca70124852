/* explain.h — `tutti explain`: how much each input matters for the predictions of a model. */
#ifndef TT_EXPLAIN_H
#define TT_EXPLAIN_H
#include "src/score/score_file.h"

typedef struct tt_explain_options {
  const char *model;          /* model.h5 */
  tt_score_file_options rows; /* labeled rows */
  const char *output;         /* file to write */
  int force;                  /* 1 = replace it if it exists */
  int json;                   /* 1 = print one JSON object instead of tables */
  int64_t repeats;            /* permutations of each input */
  int64_t most_rows;          /* at most so many rows of the file are used */
  uint64_t seed;              /* of the rows and the permutations */
} tt_explain_options;

/* Collective. Increase of the error by permutations of each input (Breiman 2001; Fisher, Rudin &
 * Dominici 2019): print it and write the file (io/results/importance.h). The error of numbers and
 * counts is rmse, that of classes nll. Every rank has the used rows in memory; the result does not
 * depend on the number of ranks. Errors: as tt_evaluate; USAGE (the file has fewer than two rows of
 * a weight above 0), CANTCREAT (the output exists), IO, MEM. */
tt_err tt_explain(tt_comm *c, const tt_explain_options *o);
#endif
