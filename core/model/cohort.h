/* cohort.h — the members that train as one batch: same shape, loss and batch size, whatever
 * ensemble they belong to. Floor 1. */
#ifndef TT_COHORT_H
#define TT_COHORT_H
#include "core/base/rng.h"
#include "core/config/config.h"
#include "core/formulas/hyper.h"
#include "core/model/dataset.h"
#include "core/model/model.h"
#include "core/model/state.h"
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
  int32_t selection;      /* row selection of the data set it trains and validates on; -1: all */
} tt_ensemble;

typedef struct tt_member {
  int32_t ensemble,
      index;        /* which ensemble, and its number there: from ensembles[].first_member on */
  uint64_t stream;  /* key of its random numbers: (hash of ensemble name, index) */
  int32_t snapshot; /* 1, 2, ...: of snapshots made members (snapshot.h); else 0 */
  tt_hyper hyper;
} tt_member;

typedef struct tt_cohort {
  tt_model model;
  tt_init init;
  tt_loss loss;
#define X(name, meaning) float name;
  TT_LOSS_PARAMETERS(X)
#undef X
  tt_optimizer optimizer;
  int nesterov;
  tt_schedule schedule;
  tt_schedule_options schedule_options;
  int64_t batch_size; /* B */
  tt_resample resample;
  double subsample;
  int64_t folds; /* of resample: kfold */
  tt_train_method method;
  int64_t snapshots; /* of a member, with method: snapshot; else 0 */
  tt_weight_average average;
  tt_early_stopping stop;
  int32_t retries;      /* of a diverged member */
  float retry_lr_scale; /* factor on its learning rate at each */
  int retry_reseed;     /* other initial weights and orders each time */
  uint64_t seed;
  int64_t max_epochs; /* E: the largest of the members' */
  int64_t ensembles;
  tt_ensemble *ensemble; /* [ensembles] */
  int64_t members;       /* G */
  tt_member *member;     /* [G] */
} tt_cohort;

/* The cohorts of a job. Its members lie one cohort after the other. */
typedef struct tt_cohorts {
  int64_t count;
  tt_cohort **at; /* [count] */
} tt_cohorts;

/* Make the cohorts of a job: ensembles that are alike in all that is not per member share one.
 * Cohorts come in the order of their first ensembles, the ensembles of one in that of the file.
 *   inputs, target  what the data set has: number of input columns, names of the target columns
 *   data            the samples, for what only they tell (classes: auto, rows); NULL: not read,
 *                   then auto counts as 2 classes
 *   out             owned by the caller; written only on TT_OK
 * Local. Errors: CONFIG (unknown target, one named twice, more folds than rows to train on, no
 * validation row for what needs some), MEM. Rules between options: with the configuration. */
tt_err tt_cohorts_create(const tt_config *cfg, int64_t inputs, const tt_columns *target,
                         const tt_dataset *data, tt_cohorts *out);
void tt_cohorts_destroy(tt_cohorts *c); /* accepts a zeroed one */

/* Members of all cohorts together. */
int64_t tt_cohorts_members(const tt_cohorts *all);

/* The target columns that an ensemble learns, K = *count of them. *column is owned by the caller,
 * tt_free. Local. Errors: CONFIG (unknown target, a target named twice), MEM. */
tt_err tt_cohort_target_columns(const tt_ensemble_config *own, const tt_columns *target,
                                int64_t *count, int32_t **column);

void tt_cohort_destroy(tt_cohort **c);

/* Lengths of the fields of its members' state. */
tt_state_shape tt_cohort_state_shape(const tt_cohort *c);

/* What its losses need beside outputs and labels. */
tt_loss_args tt_cohort_loss_args(const tt_cohort *c);

/* Slots of the optimizers that keep them in shared memory: all paths of the cuda engine but one. */
enum { TT_MAX_FUSED_SLOTS = 2 };

/* Why only the layered path of the cuda engine trains such a cohort, for people: a feature beyond
 * dense layers, losses of one or two outputs and optimizers of TT_MAX_FUSED_SLOTS. NULL: any path
 * may. Looks at all members, so the answer does not depend on the slice. */
const char *tt_cohort_needs_layered(const tt_cohort *c);

/* Seed of the random numbers of a member's training after `attempt` retries. */
TT_HD uint64_t tt_attempt_seed(uint64_t seed, int reseed, int32_t attempt)
{
  return reseed ? seed + (uint64_t)(uint32_t)attempt * 0xD1B54A32D192ED03ull : seed;
}

/* Step size of a member's next step: its learning_rate times the rate of its state times the
 * schedule.
 *   epoch, step  whole epochs done, optimiser steps taken;  steps  of an epoch */
TT_HD float tt_member_learning_rate(const tt_hyper *h, tt_schedule kind,
                                    const tt_schedule_options *shape, float rate, int32_t epoch,
                                    int64_t step, int64_t steps)
{
  tt_schedule_args at;
  at.gamma = (double)h->schedule_gamma;
  at.min = (double)h->schedule_min;
  at.every = h->schedule_step;
  at.epoch = epoch;
  at.epochs = h->epochs;
  at.step = step;
  at.steps = steps;
  return (float)((double)h->learning_rate * (double)rate *
                 tt_schedule_factor(kind, &at, shape, (double)h->warmup));
}

/* Arguments of the optimizer for a member, without the corrections of a step
 * (tt_optimizer_bias_correction). */
TT_HD tt_optimizer_args tt_member_optimizer_args(const tt_hyper *h, int nesterov,
                                                 float learning_rate)
{
  tt_optimizer_args a;
  a.learning_rate = learning_rate;
  a.l2 = h->l2;
  a.decay = h->weight_decay;
  a.momentum = h->momentum;
  a.nesterov = nesterov ? 1.0f : 0.0f;
  a.beta1 = h->beta1;
  a.beta2 = h->beta2;
  a.epsilon = h->epsilon;
  a.step_size = a.root_scale = 0.0f;
  return a;
}

/* Whether the learning rate of a member follows a schedule or a warm-up. Looks at all members. */
int tt_cohort_lr_varies(const tt_cohort *c);

/* Whether dropout leaves a unit in: tt_uniform of word r % 4 >= p. Unit u of all hidden units, row
 * r of the batch, optimiser step t; four rows share one draw. */
TT_HD tt_random4 tt_dropout_draw(uint64_t seed, uint64_t stream, int64_t t, uint32_t u, uint32_t r,
                                 uint32_t batch_size)
{
  return tt_random(seed, stream, TT_PURPOSE_DROPOUT, (uint32_t)t,
                   u * ((batch_size + 3u) / 4u) + r / 4u);
}
TT_HD int tt_dropout_keeps(uint64_t seed, uint64_t stream, int64_t t, uint32_t u, uint32_t r,
                           uint32_t batch_size, float p)
{
  return tt_uniform(tt_dropout_draw(seed, stream, t, u, r, batch_size).v[r % 4u]) >= p;
}

/* The noise on the normalised label of (target column, row): of standard deviation 1, the same in
 * every epoch. Osband, Aslanides & Cassirer 2018 randomise labels so. */
TT_HD float tt_label_noise(uint64_t seed, uint64_t stream, uint32_t column, uint32_t row)
{
  tt_random4 x = tt_random(seed, stream, TT_PURPOSE_LABEL_NOISE, column, row);
  return tt_box_muller(x.v[0], x.v[1], 0);
}

/* Members of one view train on the same list of rows and validate on the same: those of one
 * ensemble, with kfold those of one ensemble and fold. Views are numbered ensemble by ensemble. */
int64_t tt_cohort_row_sets(const tt_cohort *c);
int64_t tt_member_row_set(const tt_cohort *c, const tt_member *m);

/* The rows of a view in a split, ascending: labelled in all its targets and chosen by the
 * ensemble's `rows`. With kfold the training rows are dealt into folds by (seed, row) alone; a view
 * trains on all folds but its own and validates on that one.
 *   row    owned by the caller, tt_free; [*count]
 * Local. Errors: MEM. */
tt_err tt_cohort_rows(const tt_cohort *c, const tt_dataset *d, int64_t row_set, tt_split which,
                      int32_t **row, int64_t *count);

/* Initial weights w[P] of a member after `attempt` retries: scaled by init_scale, and 0 from inputs
 * it does not see. The same bits on every engine. */
void tt_member_init_weights(const tt_cohort *c, const tt_member *m, int32_t attempt, float *w);

/* seen[D]: 1 for the inputs a member sees, round(features * D) of them, at least one. Its weights
 * from the others are 0 and their gradients count as 0. */
void tt_member_input_mask(const tt_cohort *c, const tt_member *m, int8_t *seen);

/* Rows of an epoch of `member` when `labelled` rows of its targets are in the training split. */
int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labelled);

/* The order of one epoch: for slot s of [0, rows) the position in the list of labelled rows.
 * tt_sampler_init fixes (member, epoch); both run on host and device. */
typedef struct tt_sampler {
  tt_shuffle epoch, subset;
  uint64_t seed, stream;
  uint32_t labelled;
  int resample;
} tt_sampler;

/*   rows  of an epoch (tt_cohort_epoch_rows), labelled rows of the member's targets */
TT_HD tt_sampler tt_sampler_init(uint64_t seed, uint64_t stream, tt_batch_order batches,
                                 tt_resample resample, uint32_t labelled, uint32_t rows,
                                 uint32_t epoch)
{
  tt_sampler o;
  /* one order for all: the stream of no member (index 2^32 - 1 of ensemble 0) */
  uint64_t shuffler = batches == TT_BATCH_ORDER_shared ? (uint64_t)UINT32_MAX : stream;
  o.epoch = tt_shuffle_make(rows, seed, shuffler, TT_PURPOSE_SHUFFLE, epoch);
  o.subset = tt_shuffle_make(labelled, seed, stream, TT_PURPOSE_RESAMPLE, 0);
  o.seed = seed;
  o.stream = stream;
  o.labelled = labelled;
  o.resample = (int)resample;
  return o;
}
/* On the host: of a member after `attempt` retries. */
tt_sampler tt_member_sampler(const tt_cohort *c, const tt_member *m, int32_t attempt,
                             int64_t labelled, int64_t epoch);

/* Which of the `labelled` rows in the list of its view a member trains on, after `attempt` retries:
 * seen[labelled] is 1 or 0. */
void tt_member_row_mask(const tt_cohort *c, const tt_member *m, int32_t attempt, int64_t labelled,
                        int8_t *seen);

/* Where element s of the shuffled epoch comes from: s itself, unless the member resamples. */
TT_HD uint32_t tt_sampler_resample(const tt_sampler *o, uint32_t s)
{
  if (o->resample == TT_RESAMPLE_bootstrap) {
    tt_random4 r = tt_random(o->seed, o->stream, TT_PURPOSE_RESAMPLE, 0, s);
    return tt_uniform_below(r.v[0], r.v[1], o->labelled);
  }
  if (o->resample == TT_RESAMPLE_subsample) return tt_shuffle_at(&o->subset, s);
  return s;
}

TT_HD uint32_t tt_sampler_at(const tt_sampler *o, uint32_t slot)
{
  return tt_sampler_resample(o, tt_shuffle_at(&o->epoch, slot));
}
#ifdef __cplusplus
}
#endif
#endif
