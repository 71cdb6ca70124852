/* trainer_batch.h — a trainer of tutti.h: its parts, the rows that it gets, and its options.
 * Floor 5. */
#ifndef TT_TRAINER_BATCH_H
#define TT_TRAINER_BATCH_H
#include "core/engine/engine.h"
#include "mpi/comm.h"
#include "src/api/tutti.h"

#include <sys/types.h>

/* Values of an array that grows. */
typedef struct tt_trainer_floats {
  float *value;
  int64_t values;
} tt_trainer_floats;

/* Rows that a rank gives, and whether they have weights. */
typedef struct tt_trainer_rank {
  int64_t rows, weighted;
} tt_trainer_rank;

struct tutti_trainer {
  tt_config *cfg;
  char *resolved;     /* YAML with the value of every option */
  tt_dataset *data;   /* names and scales; no rows */
  tt_cohorts cohorts; /* one */
  tt_cohort *cohort;  /* that one */
  const tt_engine_ops *ops;
  tt_resources use;
  tt_engine *engine; /* NULL: this rank has no members */
  tt_comm *comm;     /* alone, or the ranks that train together */
  tt_slice slice;    /* members of this rank */
  int64_t epoch_rows;
  pid_t process;   /* the process that created the trainer */
  int is_scaled;   /* 1: x and y are in the user's units */
  tt_batch batch;  /* of the last call that had one */
  double *loss;    /* [M] of a step: first those of this rank, then all */
  int32_t *number; /* [numbers] 0, 1, 2, ... */
  int64_t numbers;
  tt_trainer_floats x, y; /* as the networks get them, if is_scaled */
  /* With several ranks: x, y, weight of all of them; what the members of this rank compute. */
  tt_trainer_floats gathered[3], own;
  tt_trainer_rank *ranks; /* [ranks] */
  int may_go_back;        /* 1: the last call with a batch was forward */
  int has_gradient;       /* 1: backward was called after the last step */
  tt_state *state;        /* copy of that of the engine; NULL until it is wanted */
};

/* Give a batch of the caller, which has been copied to *b, to the engine; the arrays grow to its
 * size, and no call of this size allocates again.
 *   labels  1: y is needed
 * Errors: USAGE (the message names what is wrong), DATA (a value), MEM. */
tt_err tt_trainer_give_batch(tutti_trainer *t, const tutti_batch *b, int labels);

/* The same for rows [first, first + count) of x, to predict. */
tt_err tt_trainer_give_rows(tutti_trainer *t, const float *x, int64_t count);

/* Memory for this many values; what it held is lost if it grows. Errors: MEM. */
tt_err tt_trainer_reserve(tt_trainer_floats *array, int64_t values);

/* Rows that an engine predicts at a time. */
int64_t tt_trainer_chunk(const tutti_trainer *t);

/* Errors: USAGE (NULL), UNAVAILABLE (a process was forked after it was created on a GPU, or with
 * several threads). */
tt_err tt_trainer_check(const tutti_trainer *t);

/* Which options a trainer refuses: check the cohorts and epoch_rows of one that is being created.
 * Errors: CONFIG (the message names the option, and what to use). */
tt_err tt_trainer_check_options(const tutti_trainer *t);
#endif
