/* cohort.h — members that one engine call trains together: same network shape, loss, optimizer and
 * batch size, of any ensemble. */
#ifndef TT_COHORT_H
#define TT_COHORT_H
#include "core/base/rng.h"
#include "core/config/config.h"
#include "core/formulas/hyper.h"
#include "core/model/dataset.h"
#include "core/model/model.h"
#include "core/model/partition.h"
#include "core/model/state.h"
TT_BEGIN_C

/* One ensemble for the engines: its members and target columns. */
typedef struct tt_ensemble {
  char *name;
  int64_t first, members; /* its members here are [first, first + members) of the cohort */
  int64_t targets;        /* K */
  int32_t *column;        /* [K] target columns of the data set */
  uint32_t key;           /* hash of the name: upper half of its members' streams */
  int32_t selection;      /* row selection of the data set for training and validation; -1: all */
  tt_slice rows;          /* with `by`: the rows of its group in the data set; count 0: all rows */
  int64_t number;         /* in the job file */
} tt_ensemble;

typedef struct tt_member {
  int32_t ensemble; /* index in tt_cohort.ensemble */
  int32_t index;    /* number in its ensemble: ensembles[].first_member, ... */
  uint64_t stream;  /* key of its random numbers: (hash of ensemble name, index) */
  int32_t head;     /* 1, 2, ...: number of the head that became this member (heads.h); else 0 */
  tt_hyper hyper;
} tt_member;

typedef struct tt_cohort {
  int joined; /* 1: same ensemble as the previous cohort, other network; such cohorts contain no
               * other ensemble */
  char label[TT_LABEL_SIZE]; /* of its network; "": none */
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
  int64_t parts;      /* of a batch, see parts.h; 1: the whole batch at once */
  int partial_labels; /* 1: rows of the data set have some labels of an ensemble, but not all, and
                       * train it (data.partial_labels) */
  int label_variance; /* 1: the errors of the labels are known (data.sigma) */
  tt_resample resample;
  double subsample;
  int64_t folds; /* with resample: kfold, at most TT_MAX_FOLDS */
  tt_weight_average average;
  int32_t retries;      /* largest number of retries of a diverged member */
  float retry_lr_scale; /* factor on the learning rate at each retry */
  int retry_reseed;     /* new initial weights and row orders at each retry */
  uint64_t seed;
  int64_t max_epochs; /* E: the largest `epochs` of the members */
  int64_t ensembles;
  tt_ensemble *ensemble;  /* [ensembles] */
  int64_t members;        /* G */
  tt_member *member;      /* [G] */
  const float **initial;  /* [G] or NULL: weights of trained members, borrowed */
  int64_t initial_params; /* so many first parameters begin with them, the others randomly */
  float *encoding;        /* initial parameters of the layer that encodes, with `by` for each group;
                           * owned, or NULL */
} tt_cohort;

/* The cohorts of a job. Members are numbered one cohort after the other. */
typedef struct tt_cohorts {
  int64_t count;
  tt_cohort **at; /* [count] */
} tt_cohorts;

/* Create the cohorts of a job: ensembles share a cohort if they differ only in options that may
 * differ between its ensembles or members (hyper.h, name, rows, ...). Cohorts are in the
 * order of their first ensembles; within a cohort, ensembles are in the order of the job file. An
 * ensemble of several networks has a cohort for each, one after the other.
 *   inputs, target  number of input columns and names of the target columns of the data set; with
 *                   data.targets_pca the first ones stand for the components
 *   data            the samples, for classes: auto, epochs: auto and for checks of the rows; NULL:
 *                   not read, then auto counts as 2 classes and as most epochs. Of rows whose split
 *                   is not known, epochs: auto takes the part data.split.train
 *   out             owned by the caller; empty after an error
 * Local. Errors: CONFIG (unknown target, a target named twice, more folds than rows to train on, no
 * validation row for an option that needs one), MEM. Rules between options are checked with the
 * configuration. */
tt_err tt_cohorts_create(const tt_config *cfg, int64_t inputs, const tt_columns *target,
                         const tt_dataset *data, tt_cohorts *out);
void tt_cohorts_destroy(tt_cohorts *c); /* accepts a zeroed one */

/* Set c->encoding from the training rows of `d`, if a layer encodes and the rows were read.
 * Errors: MEM. */
tt_err tt_cohort_set_encoding(const tt_dataset *d, tt_cohort *c);

/* Members of all cohorts together. */
int64_t tt_cohorts_members(const tt_cohorts *all);

/* How many consecutive cohorts from `first` on hold the networks of one ensemble; 1: an ordinary
 * cohort. */
int64_t tt_cohorts_joined(const tt_cohorts *all, int64_t first);

/* The K = *count target columns that an ensemble learns. *column is owned by the caller,
 * tt_free. Local. Errors: CONFIG (unknown target, a target named twice), MEM. */
tt_err tt_cohort_target_columns(const tt_ensemble_config *own, const tt_columns *target,
                                int64_t *count, int32_t **column);

void tt_cohort_destroy(tt_cohort **c);

/* Copy with the name and the columns, which the caller of `dst` owns. Errors: MEM. */
tt_err tt_ensemble_copy(const tt_ensemble *src, tt_ensemble *dst);

/* Members of model.h5 for each trained member: its heads, or 1. */
int64_t tt_cohort_expansion(const tt_cohort *c);

/* Sizes of the state of its members. */
tt_state_shape tt_cohort_state_shape(const tt_cohort *c);

/* Options that some of the members have; 0 or 1. An engine has arrays for them. */
typedef struct tt_used_options {
  int dropout, label_noise, clipping;
} tt_used_options;
tt_used_options tt_cohort_used_options(const tt_cohort *c, tt_slice members);

/* Some ensembles of a cohort, [ensemble, ensemble + ensembles). */
typedef struct tt_cohort_part {
  const tt_cohort *cohort;
  int32_t number; /* of the cohort in the job */
  int64_t ensemble, ensembles;
  tt_slice members; /* of the cohort */
  int joined;       /* 1: they belong to the ensemble of the part before */
} tt_cohort_part;

/* All ensembles in the order of the job file: each part has those that follow each other in the job
 * and have one cohort; an ensemble of several networks has a part for each.
 *   part  [*count], owner: the caller. Errors: MEM. */
tt_err tt_cohorts_parts(const tt_cohorts *all, int64_t *count, tt_cohort_part **part);

/* A member of a trial begins with the first rung of its search; cycles of its learning rate end
 * with the rungs. */
void tt_cohort_set_rungs(tt_cohort *c, tt_hyper *h);

tt_loss_args tt_cohort_loss_args(const tt_cohort *c);

/* Factor on the learning rate in attempt 0, 1, ... of a member: retry_lr_scale^attempt. */
float tt_cohort_lr_factor(const tt_cohort *c, int32_t attempt);

/* Largest number of optimizer slots on the paths of the cuda engine that keep slots in shared
 * memory: all but the layered path. */
enum { TT_MAX_FUSED_SLOTS = 2, TT_MAX_FOLDS = 1000 };

/* Message why the cuda engine can train this cohort on the layered path only: it uses more than
 * dense layers, losses of one or two outputs and optimizers of TT_MAX_FUSED_SLOTS slots. NULL: any
 * path is possible. Checks all members, so the result does not depend on the slice. */
const char *tt_cohort_needs_layered(const tt_cohort *c);

/* Seed of the random numbers of a member after `attempt` retries. */
TT_HD uint64_t tt_attempt_seed(uint64_t seed, int reseed, int32_t attempt)
{
  return reseed ? seed + (uint64_t)(uint32_t)attempt * 0xD1B54A32D192ED03ull : seed;
}

/* Learning rate of the next step of a member: learning_rate * rate * factor of the schedule.
 *   rate         lr_factor of the state
 *   epoch, step  epochs completed, optimizer steps taken;  steps  per epoch */
TT_HD float tt_member_learning_rate(const tt_hyper *h, tt_schedule kind,
                                    const tt_schedule_options *shape, float rate, int32_t epoch,
                                    int64_t step, int64_t steps)
{
  tt_schedule_args args;
  args.gamma = (double)h->schedule_gamma;
  args.min = (double)h->schedule_min;
  args.every = h->schedule_step;
  args.epoch = epoch;
  args.epochs = h->epochs;
  args.step = step;
  args.steps = steps;
  return (float)((double)h->learning_rate * (double)rate *
                 tt_schedule_factor(kind, &args, shape, (double)h->warmup));
}

/* Arguments of the optimizer for a member; tt_optimizer_bias_correction sets the rest for each
 * step.
 */
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

/* The same for a layer with this factor on the learning rate. */
TT_HD tt_optimizer_args tt_layer_optimizer_args(tt_optimizer_args a, float rate)
{
  a.learning_rate *= rate;
  a.step_size *= rate;
  return a;
}

/* Whether any member of the cohort has a schedule or a warm-up. */
int tt_cohort_lr_varies(const tt_cohort *c);

/* Dropout keeps a unit if tt_uniform of word r % 4 of the draw is >= p. Unit u of all hidden units,
 * row r of the batch, optimizer step t; four rows share one draw. */
TT_HD tt_random4 tt_dropout_draw(uint64_t seed, uint64_t stream, int64_t t, uint32_t u, uint32_t r,
                                 uint32_t batch_size)
{
  return tt_random(seed, stream, TT_PURPOSE_DROPOUT, (uint32_t)t,
                   u * ((batch_size + 3u) / 4u) + r / 4u);
}

/* Noise for the normalized label of (target column, row): standard deviation 1, the same in every
 * epoch. Source: Osband, Aslanides & Cassirer 2018. */
TT_HD float tt_label_noise(uint64_t seed, uint64_t stream, uint32_t column, uint32_t row)
{
  tt_random4 x = tt_random(seed, stream, TT_PURPOSE_LABEL_NOISE, column, row);
  return tt_box_muller(x.v[0], x.v[1], 0);
}

/* Number of row sets, and the row set of a member. Members of one row set train on the same rows
 * and validate on the same rows: the members of one ensemble, with kfold those of one ensemble and
 * fold. Row sets are numbered ensemble by ensemble. */
int64_t tt_cohort_row_sets(const tt_cohort *c);
int64_t tt_member_row_set(const tt_cohort *c, const tt_member *m);
/* Number of folds: 1 without kfold. */
int64_t tt_cohort_fold_count(const tt_cohort *c);

/* Folds of kfold for the training rows of an ensemble: fold[count] of row[count]. Rows of one unit
 * of the data set are in one fold; without units the sizes of two folds differ by at most one.
 * Local. Errors: MEM. */
tt_err tt_cohort_folds(const tt_cohort *c, const tt_dataset *d, int64_t count, const int32_t *row,
                       int16_t *fold);

/* The rows of a row set in a split, ascending: labeled in the targets of the ensemble, as
 * tt_dataset_rows says, and selected by its `rows`. With kfold the fold of a training row depends
 * on the seed and its position in the list of the training rows, and the sizes of the folds differ
 * by at most one; a row set trains on all folds except its own and validates on its own fold.
 *   row  [*count] owner: the caller, tt_free
 * Local. Errors: MEM. */
tt_err tt_cohort_rows(const tt_cohort *c, const tt_dataset *d, int64_t row_set, tt_split which,
                      int32_t **row, int64_t *count);

/* Initial weights w[P] of a member after `attempt` retries: scaled by init_scale, and 0 for inputs
 * that it does not use; those of `initial` replace them. The same bits on every engine.
 *   m  one of c->member, or any member without `initial` */
void tt_member_init_weights(const tt_cohort *c, const tt_member *m, int32_t attempt, float *w);

/* Whether the set-up of the members goes on.
 *   stop  returns the name of the signal that asks the run to end, or NULL; stop may be NULL
 * Errors: STOPPED (the message has the name). */
tt_err tt_set_up_check(const char *(*stop)(void));

/* w[count][P] of members `which` in their first attempt; for many large members this takes long, so
 * tt_set_up_check is called before each. Errors: STOPPED. */
tt_err tt_members_init_weights(const tt_cohort *c, tt_slice which, const char *(*stop)(void),
                               float *w);

/* Rows per epoch of a member whose row set has `labeled` training rows. */
int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labeled);

/* The row order of one member and epoch: maps slot s of [0, rows) to a position in the list of
 * labeled rows. On host and device. */
typedef struct tt_sampler {
  tt_shuffle epoch, subset;
  uint64_t seed, stream;
  uint32_t labeled;
  int resample;
} tt_sampler;

/*   labeled  training rows of the row set;  rows  per epoch (tt_cohort_epoch_rows) */
TT_HD tt_sampler tt_sampler_init(uint64_t seed, uint64_t stream, tt_resample resample,
                                 uint32_t labeled, uint32_t rows, uint32_t epoch)
{
  tt_sampler o;
  o.epoch = tt_shuffle_make(rows, seed, stream, TT_PURPOSE_SHUFFLE, epoch);
  o.subset = tt_shuffle_make(labeled, seed, stream, TT_PURPOSE_RESAMPLE, 0);
  o.seed = seed;
  o.stream = stream;
  o.labeled = labeled;
  o.resample = (int)resample;
  return o;
}
/* The sampler of a member after `attempt` retries. On the host. */
tt_sampler tt_member_sampler(const tt_cohort *c, const tt_member *m, int32_t attempt,
                             int64_t labeled, int64_t epoch);

/* seen[labeled]: 1 for each row in the list of its row set that a member trains on after `attempt`
 * retries, else 0. */
void tt_member_row_mask(const tt_cohort *c, const tt_member *m, int32_t attempt, int64_t labeled,
                        int8_t *seen);

/* Position in the list of labeled rows of element s: s itself without resampling. */
TT_HD uint32_t tt_sampler_resample(const tt_sampler *o, uint32_t s)
{
  if (o->resample == TT_RESAMPLE_bootstrap) {
    tt_random4 r = tt_random(o->seed, o->stream, TT_PURPOSE_RESAMPLE, 0, s);
    return tt_uniform_below(r.v[0], r.v[1], o->labeled);
  }
  if (o->resample == TT_RESAMPLE_subsample) return tt_shuffle_at(&o->subset, s);
  return s;
}

TT_HD uint32_t tt_sampler_at(const tt_sampler *o, uint32_t slot)
{
  return tt_sampler_resample(o, tt_shuffle_at(&o->epoch, slot));
}
TT_END_C
#endif
