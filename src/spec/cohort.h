/* cohort.h — the members that train as one batch: same shape, loss and batch size, whatever
 * ensemble they belong to. Floor 1. */
#ifndef TT_COHORT_H
#define TT_COHORT_H
#include "base/rng.h"
#include "spec/config.h"
#include "spec/dataset.h"
#include "spec/model.h"
#ifdef __cplusplus
extern "C" {
#endif

/* One ensemble as the engines see it: who, and which target columns. */
typedef struct tt_ensemble {
  char *name;
  int64_t first, members; /* its members are [first, first + members) of the cohort */
  int64_t targets;        /* K */
  int32_t *column;        /* [K] target columns of the data set */
  uint32_t key;           /* hash of the name: upper half of its members' streams */
} tt_ensemble;

/* What may differ from member to member. All scalars of training live here. */
typedef struct tt_hyper {
  float learning_rate, l2, weight_decay, momentum, beta1, beta2, epsilon;
  float clip_norm; /* 0 = none */
  float min_delta;
  int32_t patience; /* epochs; 0 = never stop early */
  int32_t epochs;
} tt_hyper;

typedef struct tt_member {
  int32_t ensemble, index; /* which ensemble, and its place there */
  uint64_t stream;         /* key of its random numbers: (hash of ensemble name, index) */
  tt_hyper hyper;
} tt_member;

typedef struct tt_cohort {
  tt_model model;
  tt_init init;
  tt_loss loss;
  float variance_floor;
  tt_optimizer optimizer;
  int nesterov;
  int64_t batch_size; /* B */
  tt_batches batches;
  tt_resample resample;
  double subsample;
  uint64_t seed;
  int64_t max_epochs; /* E: the largest of the members' */
  int64_t ensembles;
  tt_ensemble *ensemble; /* [ensembles] */
  int64_t members;       /* G */
  tt_member *member;     /* [G] */
} tt_cohort;

/* Make the cohort of a job.
 *   inputs, target  what the data set has: number of input columns, names of the target columns
 *   out             owned by the caller
 * Local. Errors: CONFIG (unknown target, ensembles with different numbers of targets, a name used
 * twice), MEM. That loss and output fit is checked with the configuration. */
tt_err tt_cohort_create(const tt_config *cfg, int64_t inputs, const tt_columns *target,
                        tt_cohort **out);
void tt_cohort_destroy(tt_cohort **c);

/* Rows of an epoch of `member` when `labelled` rows of its targets are in the training split. */
int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labelled);

/* The order of one epoch: for slot s of [0, rows) the position in the list of labelled rows.
 * tt_order_fix fixes (member, epoch); both run on host and device. */
typedef struct tt_order {
  tt_shuffle epoch, subset;
  uint64_t seed, stream;
  uint32_t labelled;
  int resample;
} tt_order;

/*   rows  of an epoch (tt_cohort_epoch_rows), labelled rows of the member's targets */
TT_HD tt_order tt_order_fix(uint64_t seed, uint64_t stream, tt_batches batches,
                            tt_resample resample, uint32_t labelled, uint32_t rows, uint32_t epoch)
{
  tt_order o;
  /* one order for all: the stream of no member (index 2^32 - 1 of ensemble 0) */
  uint64_t shuffler = batches == TT_BATCHES_shared ? (uint64_t)UINT32_MAX : stream;
  o.epoch = tt_shuffle_make(rows, seed, shuffler, TT_FOR_ORDER, epoch);
  o.subset = tt_shuffle_make(labelled, seed, stream, TT_FOR_RESAMPLE, 0);
  o.seed = seed;
  o.stream = stream;
  o.labelled = labelled;
  o.resample = (int)resample;
  return o;
}
tt_order tt_order_make(const tt_cohort *c, const tt_member *m, int64_t labelled, int64_t epoch);

/* Where element s of the shuffled epoch comes from: s itself, unless the member resamples. */
TT_HD uint32_t tt_order_draw(const tt_order *o, uint32_t s)
{
  if (o->resample == TT_RESAMPLE_bootstrap) {
    tt_random4 r = tt_random(o->seed, o->stream, TT_FOR_RESAMPLE, 0, s);
    return tt_below(r.v[0], r.v[1], o->labelled);
  }
  if (o->resample == TT_RESAMPLE_subsample) return tt_shuffle_at(&o->subset, s);
  return s;
}

TT_HD uint32_t tt_order_at(const tt_order *o, uint32_t slot)
{
  return tt_order_draw(o, tt_shuffle_at(&o->epoch, slot));
}
#ifdef __cplusplus
}
#endif
#endif
