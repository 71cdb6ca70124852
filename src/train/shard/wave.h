/* wave.h — waves: where memory has no room for engines of all members of a rank, the members train
 * one wave after the other, each to its end; with train.early_stopping: ensemble the waves take
 * turns, one epoch each. The members of a rank are one list, cohort by cohort; a wave is so many of
 * them in a row. Only a wave has engines; the states of the other members are in the shards. A wave
 * is loaded and saved by the functions that resume a run, so that its members have the same bits as
 * without waves; each is copied twice in a run, or twice in an epoch. Here: which members are in a
 * wave; shard.h: engines of a wave; wave_training.h: the next one. All functions are local. */
#ifndef TT_WAVE_H
#define TT_WAVE_H
#include "core/model/partition.h"

typedef struct tt_wave_list {
  int64_t members; /* of a wave, at most; at least 1 */
  int64_t count;   /* number of waves */
} tt_wave_list;

/* The waves of a rank.
 *   slice    [cohorts] its members
 *   members  of a wave, at most; 0: one wave */
tt_wave_list tt_wave_list_of(const tt_slice *slice, int64_t cohorts, int64_t members);

/* The members of cohort number `cohort` in wave number `wave`, numbered within the cohort; without
 * members the count is 0. */
tt_slice tt_wave_slice(const tt_wave_list *list, const tt_slice *slice, int64_t cohort,
                       int64_t wave);
#endif
