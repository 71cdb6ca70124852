/* evaluate.h — `tutti evaluate`: the scores of a trained model on the labeled rows of a file. */
#ifndef TT_EVALUATE_H
#define TT_EVALUATE_H
#include "src/score/score_file.h"

typedef struct tt_evaluate_options {
  const char *model;
  tt_score_file_options rows; /* labeled rows */
  const char *output;         /* file for the scores; NULL = none */
  int force;                  /* replace it if it exists */
  int json;                   /* 1 = print one JSON object instead of tables */
} tt_evaluate_options;

/* Collective. Score the model on all labeled rows of a file, print the table, and write the scores
 * if `output` is set. Target columns are matched by name, or by position if the file has no names.
 * Errors: as tt_predict; CANTCREAT (the output exists); DATA (no column for a target; weights that
 * are negative or not one for each row). */
tt_err tt_evaluate(tt_comm *c, const tt_evaluate_options *o);
#endif
