/* engine.h — interface of a compute engine. An engine knows no ranks and no files.
 *
 * Shapes: M members of this engine, P parameters, S optimizer slots, N rows, D inputs, K targets.
 * All functions are local and synchronous. The result of a member depends only
 * on (seed, its stream, its hyper-parameters, the data): never on M, the slice, the other members,
 * the threads, or the number of steps per call of train. */
#ifndef TT_ENGINE_H
#define TT_ENGINE_H
#include "core/engine/team_ops.h"
#include "core/model/cohort.h"
#include "core/model/state.h"
#include "core/model/trained_ensemble.h"
#include "core/stats/moments.h"
TT_BEGIN_C

/* Hardware that the engine may use, and what it is to hold. */
struct tt_resources {
  int threads;             /* >= 1 */
  tt_simd simd;            /* cpu engine only */
  int device;              /* GPU number, cuda engine only */
  tt_gpu_path path;        /* cuda engine only */
  tt_precision precision;  /* of the matrix products in training; cpu engine: fp32 only */
  tt_gpu_path_check check; /* cuda engine only */
  /* For members that several engines train together: the parameters whose slots, best weights,
   * averages this engine holds; NULL: all, as the cuda engine always does. */
  const tt_slice *own;
  int device_exchange; /* 1: they exchange arrays of the device (tt_team_ops.device_scratch) */
  const char *(*stop)(void); /* of tt_set_up_check, for init */
  int64_t share_flops; /* cpu engine: threads share a member only if each has at least this many
                          operations of a step; 0: the measured number. No result depends on it. */
};

/* Progress of the members after a call of train. */
typedef struct tt_progress {
  int64_t training, finished, early_stopped, diverged; /* members in each state; sum = M */
  int64_t member_steps;                                /* optimizer steps taken in this call */
  int64_t restarted; /* diverged members restarted in this call; set by the caller of train */
  int64_t epoch_min; /* fewest finished epochs of a member still training */
  double loss[3]; /* quartiles 0.25, 0.5, 0.75 of the members' last training losses; NaN if none */
} tt_progress;

typedef struct tt_engine_info {
  char device[256];     /* "CPU, 8 threads, avx512" */
  char arithmetic[64];  /* engines with the same text have bit-identical results */
  int64_t device_bytes; /* held of the memory of a GPU by this process; cpu engine: 0 */
} tt_engine_info;

/* Random numbers given by the caller, for comparisons with other programs; a NULL field is drawn as
 * usual. Borrowed: must outlive the engine. */
typedef struct tt_replay {
  const int32_t *order; /* [M][epochs][rows of an epoch] rows of the data set */
} tt_replay;

/* Rows of the next steps of all members, given by the caller in place of a data set: set_batch. All
 * arrays are borrowed. */
typedef struct tt_batch {
  int64_t rows, columns; /* N; T target columns */
  const float *x;        /* [N][D] as the networks get them */
  const float *y;        /* [N][T]; NULL: only for forward and backward */
  const float *weight;   /* [N] as in tt_dataset; NULL: 1 for all rows */
  int64_t count;         /* rows of a step of a member, at most the batch size */
  const int32_t *row;    /* those of member i are row[i * stride + 0 ... count - 1] */
  int64_t stride;        /* from the rows of a member to those of the next; 0: all have the same */
  int predicts;          /* 1: forward computes as in predictions, with the weights for these, and
                            without dropout; 0: as in a step */
  int64_t epoch_rows;    /* rows of an epoch, which ends after as many steps as it has batches; 0:
                            there are no epochs, and the member trains for ever; the same in all
                            batches */
  double *loss;          /* [M] receives the loss of a step, summed over its rows; NaN where the
                            member took none, or diverged */
} tt_batch;

/* Properties of a device. Without pointers, because ranks send it to each other. */
typedef struct tt_device_info {
  char name[128];       /* "NVIDIA H200"; cpu engine: name of the processor */
  char uuid[96];        /* as nvidia-smi prints it; "" where there is none */
  int64_t total_bytes;  /* memory of the device */
  int64_t shared_bytes; /* of a GPU: largest shared memory of a block, else 0 */
  int capability;       /* of a GPU: 10 * major + minor, else 0 */
  int multiprocessors;  /* of a GPU, else 0 */
} tt_device_info;

typedef struct tt_engine_ops {
  const char *name; /* "cpu", "cuda" */
  /* Number of devices that this process can use: 1 for cpu, visible GPUs for cuda; 0 is no error.
   * Errors: UNAVAILABLE (the driver does not work). */
  tt_err (*count)(int *devices);
  /* Properties of device number `device` in [0, devices). Errors: UNAVAILABLE. */
  tt_err (*describe)(int device, tt_device_info *out);
  /* Versions of driver and libraries as text, also if no device is found. May be NULL: none. */
  void (*versions)(char *text, int64_t capacity);
  /* Engine for the members `slice` of the cohort. The cohort is borrowed and must outlive the
   * engine. Errors: MEM, UNAVAILABLE. */
  tt_err (*create)(const tt_cohort *cohort, tt_slice slice, const tt_resources *use,
                   tt_engine **out);
  void (*destroy)(tt_engine **e); /* accepts NULL */
  /* Training, validation and test rows; borrowed: the data set must not change until the next
   * set_data or destroy, because engines on one device share a copy. replay may be NULL. Errors:
   * MEM, DATA (an ensemble without labeled training rows). */
  tt_err (*set_data)(tt_engine *e, const tt_dataset *data, const tt_replay *replay);
  /* Initial weights from (seed, stream); optimizer state before the first step. */
  tt_err (*init)(tt_engine *e);
  /* Up to `steps` further optimizer steps of every member that is still training. At the end of a
   * member's epoch: losses into the history, validation, best weights, early stopping. A
   * member whose loss is not finite becomes diverged; that is not an error. */
  tt_err (*train)(tt_engine *e, int64_t steps, tt_progress *out);
  /* Mean loss of each member over the rows of a split that have its labels: loss[M], NaN without
   * rows; with the weights used for predictions. */
  tt_err (*evaluate)(tt_engine *e, tt_split split, double *loss);
  /* Copy the state of members `which` (numbers of the cohort) out of or into the engine; of the
   * segments (tt_state), the parameters that both have. */
  tt_err (*save)(tt_engine *e, tt_slice which, tt_state *dst);
  tt_err (*load)(tt_engine *e, tt_slice which, const tt_state *src);
  tt_err (*info)(const tt_engine *e, tt_engine_info *out);
  /* host_bytes: host memory that an engine of the members `slice` holds after set_data, with a data
   * set of `rows` rows, and after its first step.
   *   share  NULL: the engine trains by `train`; else it computes this share of each member
   * predict_bytes: further host memory during predict, for the `columns`
   * (tt_trained_ensemble_columns). NULL: negligible. */
  int64_t (*host_bytes)(const tt_cohort *cohort, tt_slice slice, int64_t rows,
                        const tt_engine_share *share, const tt_resources *use);
  int64_t (*predict_bytes)(const tt_model *model, int64_t columns, const tt_resources *use);
  /* Predictions of a trained ensemble on normalized inputs x [rows][D] (needs no tt_engine).
   *   dst      [rows] x columns moments in normalized units, overwritten; or NULL
   *   members  [G][2][K q][rows] means and variances of the quantities of output.h (K q of them, q
   *            a target, quantity j of target k is k q + j; q = 1 for means); or NULL */
  tt_err (*predict)(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                    const float *x, tt_moments *dst, float *members);
  /* Steps on rows of the caller, without set_data: after set_batch, `train` takes one step, and its
   * `out` may be NULL; or a step is forward, which returns outputs [M][count][O] (O those of all
   * heads) and changes no state, backward, once or several times, then update. There are no
   * validation rows. The cuda engine takes the layered path.
   *
   * set_batch: *batch is copied; its arrays must not change until the next set_batch. Several
   * threads may use engines of their own.
   *
   * backward: adds the gradient for dL/d(output) to that of the next update.
   *   delta           [M][count][O]; those of members that do not train are ignored
   *   input_gradient  [M][count][D] dL/d(input), 0 for members that do not train; or NULL. Not for
   *                   a network with a front or frozen layers.
   *
   * update: the optimizer step with the gradient since the last one. A member whose gradient is not
   * finite has diverged. Errors of all: MEM.
   *
   * take_gradient: gradient[M][P] of the next update, which then has none; 0 for members that do
   * not train.
   *
   * set_hyper: the hyper-parameters of members of the cohort have changed; load notices it too.
   * NULL: the engine reads them in every step. */
  tt_err (*set_batch)(tt_engine *e, const tt_batch *batch);
  tt_err (*forward)(tt_engine *e, float *output);
  tt_err (*backward)(tt_engine *e, const float *delta, float *input_gradient);
  tt_err (*update)(tt_engine *e);
  tt_err (*take_gradient)(tt_engine *e, float *gradient);
  void (*set_hyper)(tt_engine *e);
  const tt_team_ops *team; /* members that several engines train together; NULL: not supported */
} tt_engine_ops;

extern const tt_engine_ops tt_engine_cpu;
extern const tt_engine_ops tt_engine_cuda; /* only in builds with CUDA */

/* The compiled engines, NULL-terminated, in the order of preference for `device: auto`. */
extern const tt_engine_ops *const tt_engines[];

TT_END_C
#endif
