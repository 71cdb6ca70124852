/* trainer_batch.h — a trainer of tutti.h, and the rows that it gets. Floor 5. */
#ifndef TT_TRAINER_BATCH_H
#define TT_TRAINER_BATCH_H
#include "core/engine/engine.h"
#include "src/api/tutti.h"

struct tutti_trainer {
  tt_config *cfg;
  char *resolved;     /* YAML with the value of every option */
  tt_dataset *data;   /* names and scales; no rows */
  tt_cohorts cohorts; /* one */
  tt_cohort *cohort;  /* that one */
  const tt_engine_ops *ops;
  tt_resources use;
  tt_engine *engine;
  int64_t epoch_rows;
  int is_scaled;   /* 1: x and y are in the user's units */
  tt_batch batch;  /* of the last call that had one */
  double *loss;    /* [M] of a step */
  int32_t *number; /* [numbers] 0, 1, 2, ... */
  int64_t numbers;
  float *x, *y; /* as the networks get them, if is_scaled; [x_values], [y_values] */
  int64_t x_values, y_values;
  int may_go_back;  /* 1: the last call with a batch was forward */
  int has_gradient; /* 1: backward was called after the last step */
  tt_state *state;  /* copy of that of the engine; NULL until it is wanted */
};

/* Give a batch of the caller, which has been copied to *b, to the engine; the arrays grow to its
 * size, and no call of this size allocates again.
 *   labels  1: y is needed
 * Errors: USAGE (the message names what is wrong), DATA (a value), MEM. */
tt_err tt_trainer_give_batch(tutti_trainer *t, const tutti_batch *b, int labels);

/* The same for rows [first, first + count) of x, to predict. */
tt_err tt_trainer_give_rows(tutti_trainer *t, const float *x, int64_t count);

/* Rows that an engine predicts at a time. */
int64_t tt_trainer_chunk(const tutti_trainer *t);

/* Errors: USAGE (NULL; a process was forked after it was created with several threads). */
tt_err tt_trainer_check(const tutti_trainer *t);
#endif
