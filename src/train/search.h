/* search.h — a search (core/config/search.h): its trials in rungs (successive halving), and their
 * table. A trial is a cohort; the trials of an ensemble are its joined cohorts.
 *
 * The members of a trial train to the end of a rung and are finished there. When no member trains,
 * the ranks compare the trials of each ensemble: the best ones train on, the others count as
 * stopped early. All this follows from the states of the members, so a checkpoint needs nothing
 * more, and without a time limit the result depends on no clock. */
#ifndef TT_TRAIN_SEARCH_H
#define TT_TRAIN_SEARCH_H
#include "io/results/trials.h"
#include "src/train/shard/shard.h"

typedef struct tt_search {
  int active;     /* 0: the job is no search; then the functions do nothing */
  double started; /* seconds, tt_monotonic_seconds, of the training of this start */
  double end;     /* when search.time is over; 0: no limit */
  double units;   /* rung units that were done before this start */
} tt_search;

/* Collective. Begin, after the states are loaded: trials that a checkpoint has at a later rung go
 * on there; with a limit of time those that wait for their turn are held.
 *   started  of the run. Errors: of the engine, MEM. */
tt_err tt_search_begin(tt_comm *c, const tt_job *job, tt_shards *all, double started, tt_search *s);

/* Collective. When no member trains: choose the trials that go on, or those that begin. After it
 * members train again, or the search is at its end. Errors: of the engine, MEM. */
tt_err tt_search_advance(tt_comm *c, const tt_job *job, tt_shards *all, const tt_search *s);

/* Collective. Stop all members if search.time is over; rank 0's clock decides. In an ensemble
 * without any score one trial trains on until it has one. *stopped: 1 = no member trains on.
 * Errors: of the engine, MEM. */
tt_err tt_search_stop_in_time(tt_comm *c, const tt_job *job, tt_shards *all, const tt_search *s,
                              int *stopped);

/* Collective. After the end, with states saved and engines released: list the trials, and keep in
 * the job and in the shards only those that came farthest.
 *   out  owner: the caller, tt_trials_free
 * Errors: DIVERGED (of an ensemble no trial is left), MEM. */
tt_err tt_search_finish(tt_comm *c, tt_job *job, tt_shards *all, const tt_search *s,
                        tt_trials *out);
#endif
