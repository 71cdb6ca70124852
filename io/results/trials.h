/* trials.h — the trials of a search (`search:` of a job), as results.h5 has them. */
#ifndef TT_TRIALS_H
#define TT_TRIALS_H
#include "core/config/config.h"
#include "io/hdf5/schema.h"

/* A configuration, with members that each leave out a fold. */
typedef struct tt_trial {
  char *ensemble, *label; /* names of its ensemble and of its network; owned, as is `text` */
  char *text;             /* its options, of tt_config_network_text */
  int64_t number;         /* of the ensemble */
  int64_t first, members; /* [first, first + members) of the ensemble */
  int32_t rung;           /* at which it ended; -1: not begun */
  double score[TT_RUNGS]; /* mean over its members of the lowest validation loss until the end of a
                           * rung; NaN: not reached, or a member diverged */
  double weight;          /* in the prediction of the ensemble, 0 to 1 */
} tt_trial;
typedef struct tt_trials {
  int64_t count; /* 0: no search */
  tt_trial *at;  /* [count] */
} tt_trials;
void tt_trials_free(tt_trials *t);

/* The score at the rung at which it ended. */
double tt_trial_last_score(const tt_trial *t);
/* Indexes of all trials, [count]: ensemble by ensemble, those that came further first, then those
 * with the lower score. Local. */
void tt_trials_rank(const tt_trials *t, int64_t *order);

/* Write the variables along the dimensions trial and rung; nothing without trials. */
tt_err tt_trials_write(tt_schema *s, const tt_trials *t);
/* Those of results.h5; none if the file has none. The number of an ensemble is its order in the
 * file, `first` and `members` are 0. Local. Errors: DATA, IO, MEM. */
tt_err tt_trials_read_local(tt_h5_reader *r, tt_trials *out);
#endif
