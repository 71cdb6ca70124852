/* engine_internal.cuh — internals of the cuda engine, shared by engine.cu and its paths. C++17.
 *
 * The state of the members is on the device in the same arrays as in tt_state on the host,
 * [M][length] per field, except that the device has tt_param_stride(P) floats where the host has P
 * parameters. A path advances it by steps; all paths and the cpu engine define step,
 * epoch, validation and end in the same way (src/cpu/member.c). */
#ifndef TT_ENGINE_INTERNAL_CUH
#define TT_ENGINE_INTERNAL_CUH
#include "cuda/common/shared_data.cuh"

#include "core/engine/engine.h"
#include "core/engine/progress.h"
#include "core/model/epoch_end.h"
#include "core/model/parts.h"
#include "cuda/plan/device_sizes.h"
#include "cuda/plan/path_verdict.h"

/* Data that a kernel may access: passed by value in its arguments; every pointer is a device
 * pointer. M members of the slice, P parameters, S slots, E epochs, N rows, D inputs, T target
 * columns, K targets of a member. Without kfold there is one row set per ensemble, in the same
 * order. */
typedef struct tt_cuda_state {
  const tt_model *model;         /* network shape, one for all members */
  const tt_member *member;       /* [M] hyper-parameters, stream, ensemble */
  const tt_dev_row_lists *lists; /* [row sets] */
  const int32_t *view_of_member; /* [M] row set of a member */
  const int32_t *column;         /* [ensembles][K] target columns */
  const int32_t *epoch_rows;     /* [M] rows of an epoch, after resampling; 0: it has no end */
  const float *x, *y, *weight;   /* [N][D], [N][T], [N] or NULL */
  const int32_t *replay;         /* [M][E][rows of an epoch] or NULL */
  int32_t members, inputs, columns, targets, outputs; /* M, D, T, K, O */
  int32_t heads;                                      /* each with O outputs */
  int32_t params, slot_count, epochs, layers;         /* P, S, E; `slots` is the array */
  int32_t param_stride;                               /* tt_param_stride(P) */
  int32_t batch_size, nesterov, weighted;             /* weighted: rows have weights */
  int32_t reseed;                                     /* retries draw new numbers */
  int32_t lr_varies; /* the learning rate may change with every step */
  tt_schedule schedule;
  tt_schedule_options schedule_options;
  tt_weight_average average_kind;
  uint64_t seed;
  tt_resample resample;
  tt_loss loss;
  tt_loss_args loss_args;
  tt_optimizer optimizer;
  tt_output output;
  tt_activation activation; /* of the hidden layers */
  int32_t batch_parts;      /* parts of a batch (core/model/parts.h) */
  int32_t rows;             /* N: a stored row is row % N of the data set */
  int32_t given_rows;       /* rows of a step, which the caller gives; 0: those of the data set */
#define X(name, type, length) type *name;
  TT_STATE_FIELDS(X)
#undef X
} tt_cuda_state;

/* One implementation of training. Functions but train return when the work is done; errors as in
 * engine.h. */
typedef struct tt_cuda_path {
  const char *name;                /* "block" */
  tt_err (*prepare)(tt_engine *e); /* allocate memory, after set_data; may be called again */
  /* Up to `steps` steps of every training member. May return before the work is done: the engine
   * waits for it. */
  tt_err (*train)(tt_engine *e, int64_t steps);
  void (*release)(tt_engine *e);
  /* Text for what decides the order of the path's sums: engines with the same text give the same
   * bits, also on two paths with the same function. May be called before prepare. NULL: the path
   * alone decides it. */
  void (*arithmetic)(const tt_engine *e, char *text, size_t capacity);
  /* engine.h: evaluate, with the sums of the path's own validation; NULL: evaluate.cu does it. */
  tt_err (*evaluate)(tt_engine *e, tt_split split, double *loss);
  int takes_host_rows; /* 1: it can train with a data set that is on the host (tt_engine.data) */
} tt_cuda_path;
#define X(name, ...) extern const tt_cuda_path tt_cuda_##name;
TT_GPU_PATHS(X)
#undef X
extern const tt_team_ops tt_layered_team; /* of the layered path, which members with parts take */

/* Rows of the data set, by row set and split; on the host. */
typedef struct tt_host_row_lists {
  int32_t **row;  /* [row sets * TT_SPLITS] */
  int64_t *count; /* [row sets * TT_SPLITS] */
} tt_host_row_lists;

struct tt_engine {
  const tt_cohort *cohort;
  tt_slice slice;
  int threads;               /* host threads that gather rows, if the data set is on the host */
  int device_exchange;       /* as in tt_resources */
  const char *(*stop)(void); /* as in tt_resources */
  tt_gpu_path wanted;        /* requested by the caller */
  tt_dev dev;
  tt_precision precision;                    /* of training steps; everything else is fp32 */
  const tt_cuda_path *path, *host_rows_path; /* the second: the one for a data set on the host */
  int cluster_ranks;                         /* blocks for a member on the cluster path */
  char why[TT_PATH_REASON_BYTES];            /* reason for the choice of the path */
  void *own;                                 /* data of the path */
  tt_cuda_state view;
  tt_model *model; /* device arrays that `view` points to */
  tt_member *member;
  tt_dev_row_lists *lists;
  int32_t *all_list_rows; /* all lists one after the other */
  int32_t *column, *epoch_rows, *replay, *view_of_member;
  tt_shared_data *shared;       /* the values of the data set, or NULL: not on the device */
  int64_t rows;                 /* N */
  const tt_dataset *data;       /* data set on the host, borrowed; NULL: it is on the device */
  tt_host_row_lists host_rows;  /* used with `data` */
  const int32_t *host_replay;   /* used with `data`, borrowed; or NULL */
  tt_dev_row_lists *host_lists; /* [row sets] counts are valid on the host; pointers are not */
  int32_t *host_epoch_rows;     /* [M] */
  tt_member_progress *standing; /* [M] for the report after a call of train */
  int64_t *before;              /* [M] steps done before the call */
  int8_t *status;               /* [M] on the host: status after the last load or call of train */
  struct tt_given_rows *given;  /* rows of the caller (given_rows.cu); NULL: those of a data set */
};

/* The view of some members of the engine: the first of them has number 0 in it. */
tt_cuda_state tt_cuda_view_of(const tt_engine *e, tt_slice members);

/* The members of a launch of a path whose units train whole members. */
typedef struct tt_member_queue {
  const int32_t *member; /* [count] */
  int32_t count, unused; /* no padding: the double checks all bytes of arguments */
  int32_t *next;         /* the first one that no unit has taken; 0 at the start of the launch */
} tt_member_queue;

/* device code that all paths share: what a step and an epoch mean */

/* Called by one thread of a unit: its next member, or -1 if there is none. */
__device__ __forceinline__ int tt_cuda_take_member(const tt_member_queue &queue)
{
  int i = atomicAdd(queue.next, 1);
  return i < queue.count ? queue.member[i] : -1;
}

/* Rows on which member i trains and validates. */
__device__ __forceinline__ const tt_dev_row_lists &tt_cuda_member_rows(const tt_cuda_state &v,
                                                                       int i)
{
  return v.lists[v.view_of_member[i]];
}

/* Seed of member i's random numbers in its running attempt. */
__device__ __forceinline__ uint64_t tt_cuda_member_seed(const tt_cuda_state &v, int i)
{
  return tt_attempt_seed(v.seed, v.reseed, v.attempt[i]);
}

/* Row order of member i's running epoch. */
__device__ __forceinline__ tt_sampler tt_cuda_epoch_order(const tt_cuda_state &v, int i)
{
  const tt_member &m = v.member[i];
  return tt_sampler_init(tt_cuda_member_seed(v, i), m.stream, v.resample,
                         (uint32_t)tt_cuda_member_rows(v, i).count[TT_TRAIN],
                         (uint32_t)v.epoch_rows[i], (uint32_t)v.epoch[i]);
}

/* Row of the data set in slot `slot` of member i's running epoch. */
__device__ __forceinline__ int32_t tt_cuda_epoch_row(const tt_cuda_state &v, int i,
                                                     const tt_sampler &order, int32_t slot)
{
  if (v.replay) return v.replay[((int64_t)i * v.epochs + v.epoch[i]) * v.epoch_rows[i] + slot];
  return tt_cuda_member_rows(v, i).row[TT_TRAIN][tt_sampler_at(&order, (uint32_t)slot)];
}

/* Learning rate of member i's step t (from 1), which belongs to its running epoch. */
__device__ __forceinline__ float tt_cuda_learning_rate(const tt_cuda_state &v, int i, int64_t t)
{
  const tt_hyper &h = v.member[i].hyper;
  if (!v.lr_varies) return (float)((double)h.learning_rate * (double)v.lr_factor[i]);
  int64_t steps = ((int64_t)v.epoch_rows[i] + v.batch_size - 1) / v.batch_size;
  return tt_member_learning_rate(&h, v.schedule, &v.schedule_options, v.lr_factor[i], v.epoch[i],
                                 t - 1, steps);
}

/* Arguments of the optimizer for member i without the values that change per step: the learning
 * rate is that of v.lr_varies = 0, the bias corrections are 0. */
__device__ __forceinline__ tt_optimizer_args tt_cuda_step_args_base(const tt_cuda_state &v, int i)
{
  const tt_hyper &h = v.member[i].hyper;
  return tt_member_optimizer_args(&h, v.nesterov,
                                  (float)((double)h.learning_rate * (double)v.lr_factor[i]));
}

/* Arguments of the optimizer for step t (from 1) of member i. */
__device__ __forceinline__ tt_optimizer_args tt_cuda_step_args(const tt_cuda_state &v, int i,
                                                               int64_t t)
{
  tt_optimizer_args a = tt_cuda_step_args_base(v, i);
  a.learning_rate = tt_cuda_learning_rate(v, i, t);
  tt_optimizer_bias_correction(&a, t);
  return a;
}

/* An optimizer as a type, for paths that keep its slots in shared memory: loops over parameters
 * are compiled once per row of TT_OPTIMIZERS. */
template <tt_optimizer KIND, int SLOT_COUNT> struct tt_cuda_fused_optimizer {
  static constexpr int SLOTS = SLOT_COUNT; /* 1 or 2 */
  static __device__ __forceinline__ void step(float *w, float g, float *s0, float *s1,
                                              const tt_optimizer_args &args)
  {
    tt_optimizer_step(KIND, w, g, s0, s1, s1, args); /* a row does not use slots it does not have */
  }
};

/* Call f(tt_cuda_fused_optimizer<...>()) for optimizer `kind`; does nothing for an optimizer
 * with more slots. */
template <class F> __device__ __forceinline__ void tt_cuda_with_optimizer(tt_optimizer kind, F f)
{
  switch (kind) {
#define X(name, slots, ...)                                                                        \
  case TT_OPT_##name:                                                                              \
    if constexpr (slots <= TT_MAX_FUSED_SLOTS) f(tt_cuda_fused_optimizer<TT_OPT_##name, slots>()); \
    break;
    TT_OPTIMIZERS(X)
#undef X
  default: break;
  }
}

/* Called by one thread: reduce_on_plateau after an epoch with that loss. */
__device__ __forceinline__ void tt_cuda_reduce_on_plateau(const tt_cuda_state &v, int i,
                                                          double loss)
{
  const tt_hyper &h = v.member[i].hyper;
  tt_plateau p;
  p.rate = v.lr_factor[i];
  p.best = v.plateau_best[i];
  p.wait = v.plateau_wait[i];
  p = tt_plateau_end_epoch(p, loss, h.schedule_gamma, h.schedule_min, h.schedule_step, h.min_delta);
  v.lr_factor[i] = p.rate;
  v.plateau_best[i] = p.best;
  v.plateau_wait[i] = p.wait;
}

/* Called by one thread after the last batch of member i's epoch: adds training and validation loss
 * to the history, updates the counters, decides whether the member continues.
 *   all_finite  1 if all weights are finite
 *   loss        mean validation loss; ignored without validation rows
 * Returns 1 if the present weights are the best ones: the caller copies them into best_weights. */
__device__ __forceinline__ int tt_cuda_end_epoch(const tt_cuda_state &v, int i, int all_finite,
                                                 double loss)
{
  const tt_hyper &h = v.member[i].hyper;
  int validated = tt_cuda_member_rows(v, i).count[TT_VALIDATION] > 0, best = 0;
  int32_t epoch = v.epoch[i];
  double mean = v.loss_sum[i] / (double)v.epoch_rows[i];
  v.loss_train[(int64_t)i * v.epochs + epoch] = (float)mean;
  if (all_finite && validated) {
    v.loss_validation[(int64_t)i * v.epochs + epoch] = (float)loss;
    all_finite = isfinite(loss);
    best = all_finite && tt_epoch_is_best(&h, loss, v.best_loss[i]);
    if (best) {
      v.best_loss[i] = loss;
      v.best_epoch[i] = epoch;
    }
  }
  if (all_finite && v.schedule == TT_SCHEDULE_reduce_on_plateau)
    tt_cuda_reduce_on_plateau(v, i, validated ? loss : mean);
  v.loss_sum[i] = 0.0;
  v.batch[i] = 0;
  v.epoch[i] = epoch + 1;
  v.status[i] = (int8_t)tt_epoch_end_status(&h, epoch, v.best_epoch[i], validated, all_finite);
  return best;
}

/* Weights of member i to predict with: the best ones if there are any. */
__device__ __forceinline__ const float *tt_cuda_prediction_weights(const tt_cuda_state &v, int i)
{
  return (v.best_epoch[i] >= 0 ? v.best_weights : v.weights) + (int64_t)i * v.param_stride;
}

/* Whether member i continues after the end of an epoch, in the running call of train. */
__device__ __forceinline__ int tt_cuda_keeps_training(const tt_cuda_state &v, int i)
{
  return v.status[i] == TT_STATUS_training;
}
#endif
