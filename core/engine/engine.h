/* engine.h — interface of a compute engine. An engine knows no ranks and no files.
 *
 * Shapes: M members of this engine, P parameters, S optimiser slots, N rows, D inputs, K targets.
 * All functions are local and synchronous. The result of a member depends only
 * on (seed, its stream, its hyper-parameters, the data): never on M, the slice, the other members,
 * the threads, or the number of steps per call of train. */
#ifndef TT_ENGINE_H
#define TT_ENGINE_H
#include "core/engine/device_link.h"
#include "core/engine/pipeline.h"
#include "core/model/cohort.h"
#include "core/model/parts.h"
#include "core/model/state.h"
#include "core/model/trained_ensemble.h"
#include "core/stats/moments.h"
TT_BEGIN_C

typedef struct tt_engine tt_engine;

/* Hardware that the engine may use, and what it is to hold. */
typedef struct tt_resources {
  int threads;            /* >= 1 */
  tt_simd simd;           /* cpu engine only */
  int device;             /* GPU number, cuda engine only */
  tt_gpu_path path;       /* cuda engine only */
  tt_precision precision; /* of the matrix products in training; cpu engine: fp32 only */
  /* For members that several engines train together: the parameters whose slots, best weights,
   * averages and snapshots this engine holds; NULL: all, as the cuda engine always does. */
  const tt_slice *own;
  int device_exchange; /* 1: they exchange arrays of the device (device_room below) */
  const char *(*stop)(void);   /* of tt_set_up_check, for init */
  int64_t share_flops; /* cpu engine: threads share a member only if each has at least this many
                          operations of a step; 0: the measured number. No result depends on it. */
} tt_resources;

/* Progress of the members after a call of train. */
typedef struct tt_progress {
  int64_t training, finished, early_stopped, diverged; /* members in each state; sum = M */
  int64_t waiting; /* of those in training: they train in a later wave (src/train/shard/wave.h) */
  int64_t member_steps; /* optimiser steps taken in this call */
  int64_t restarted;    /* diverged members restarted in this call; set by the caller of train */
  int64_t epoch_min;    /* fewest finished epochs of a member still training */
  double loss[3]; /* quartiles 0.25, 0.5, 0.75 of the members' last training losses; NaN if none */
} tt_progress;

typedef struct tt_engine_info {
  char device[256];    /* "CPU, 8 threads, avx512" */
  char arithmetic[64]; /* engines with the same text have bit-identical results */
  int64_t bytes;       /* memory held */
} tt_engine_info;

/* Random numbers given by the caller, for comparisons with other programs; a NULL field is drawn as
 * usual. Borrowed: must outlive the engine. */
typedef struct tt_replay {
  const int32_t *order; /* [M][epochs][rows of an epoch] rows of the data set */
} tt_replay;

/* Properties of a device. Without pointers, because ranks send it to each other. */
typedef struct tt_device_info {
  char name[128];       /* "NVIDIA H200"; cpu engine: name of the processor */
  char uuid[96];        /* as nvidia-smi prints it; "" where there is none */
  int64_t total_bytes;  /* memory of the device */
  int64_t shared_bytes; /* of a GPU: largest shared memory of a block, else 0 */
  int capability;       /* of a GPU: 10 * major + minor, else 0 */
  int multiprocessors;  /* of a GPU, else 0 */
} tt_device_info;

/* What several engines that train a member share at the end of an epoch with validation rows.
 * First, with averages of the weights, a vector [P] in `room`: each engine writes its segment, and
 * gather_segments fills in the others. Then the terms of a sum: each engine computes
 * tt_part_slice(terms, engines, engine) of them, and `gather` fills in the others. */
typedef struct tt_epoch_sharing {
  int engines, engine;
  void (*gather)(void *with, int64_t terms, double *term); /* term[terms] */
  void (*gather_segments)(void *with, float *vector);
  float *room; /* [P] memory of the caller; with tt_resources.device_exchange on the device */
  void *with;
} tt_epoch_sharing;

/* A step of a stage (tt_engine_ops.stage_begin). */
typedef struct tt_pipeline_step {
  int training;   /* 0: the member does not train, and the rest is 0 */
  int ends_epoch; /* 1: it is the last step of an epoch */
  int64_t rows;   /* of the batch */
  /* After the last backward pass, of the engine: the sums of the parts, tt_part_sums_of(parts), of
   * the gradients of the parameters of the stage; arrays [P], and [0] is there without parts too.
   * The caller may change them. The loss of each sum, if the stage is the last one; not finite if
   * that of a part is not. */
  float *sum[TT_MAX_PART_SUMS];
  const double *loss;
} tt_pipeline_step;

typedef struct tt_engine_ops {
  const char *name; /* "cpu", "cuda" */
  /* Number of devices that this process can use: 1 for cpu, visible GPUs for cuda; 0 is no error.
   * Errors: UNAVAILABLE (the driver does not work). */
  tt_err (*count)(int *devices);
  /* Properties of device number `device` in [0, devices). Errors: UNAVAILABLE. */
  tt_err (*describe)(int device, tt_device_info *out);
  /* Versions of driver and libraries as text, also if no device is found. May be NULL: none. */
  void (*versions)(char *text, int64_t room);
  /* Engine for the members `slice` of the cohort. The cohort is borrowed and must outlive the
   * engine. Errors: MEM, UNAVAILABLE. */
  tt_err (*create)(const tt_cohort *cohort, tt_slice slice, const tt_resources *use,
                   tt_engine **out);
  void (*destroy)(tt_engine **e); /* accepts NULL */
  /* Training, validation and test rows; borrowed: the data set must not change until the next
   * set_data or destroy, because engines on one device share a copy. replay may be NULL. Errors:
   * MEM, DATA (an ensemble without labelled training rows). */
  tt_err (*set_data)(tt_engine *e, const tt_dataset *data, const tt_replay *replay);
  /* Initial weights from (seed, stream); optimizer state before the first step. */
  tt_err (*init)(tt_engine *e);
  /* Up to `steps` further optimiser steps of every member that is still training. At the end of a
   * member's epoch: losses into the history, validation, best weights, early stopping. A
   * member whose loss is not finite becomes diverged; that is not an error.
   * With train.early_stopping: ensemble a call ends no later than the current epoch of a member,
   * and the caller does best weights and early stopping (save, load). */
  tt_err (*train)(tt_engine *e, int64_t steps, tt_progress *out);
  /* Mean loss of each member over the rows of a split that have its labels: loss[M], NaN without
   * rows; with the weights used for predictions. */
  tt_err (*evaluate)(tt_engine *e, tt_split split, double *loss);
  /* Copy the state of members `which` (numbers of the cohort) out of or into the engine; of the
   * segments (tt_state), the parameters that both have. */
  tt_err (*save)(tt_engine *e, tt_slice which, tt_state *to);
  tt_err (*load)(tt_engine *e, tt_slice which, const tt_state *from);
  tt_err (*info)(const tt_engine *e, tt_engine_info *out);
  /* Bytes of host memory: of an engine of the members `slice` with a data set of `rows` rows, from
   * set_data on; and of predict, while it runs, for so many tt_trained_ensemble_columns. NULL: few.
   */
  int64_t (*host_bytes)(const tt_cohort *cohort, tt_slice slice, int64_t rows,
                        const tt_resources *use);
  int64_t (*predict_bytes)(const tt_model *model, int64_t columns, const tt_resources *use);
  /* Predictions of a trained ensemble on normalised inputs x [rows][D] (needs no tt_engine).
   *   into     [rows] x columns moments in normalised units, overwritten; or NULL
   *   members  [G][2][K q][rows] means and variances of the quantities of output.h (K q of them, q
   *            a target, quantity j of target k is k q + j; q = 1 for means); or NULL */
  tt_err (*predict)(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                    const float *x, tt_moments *into, float *members);
  /* One step in two parts, for losses that depend on several members (train.method: fusion).
   * NULL if the engine does not support them. B batch size, O outputs.
   *
   * forward: outputs of every member on its next batch; changes no state.
   *   output  [M][B][O]
   *   row     [M][B] rows of the data set, -1 where there is none (short batch, or the member does
   *           not train)
   *
   * apply: the rest of the step: backward pass, optimiser, end of the epoch.
   *   delta   [M][B][O] dL/d(output)
   *   loss    [M] of the batch, summed over rows; if not finite, the member has diverged */
  tt_err (*forward)(tt_engine *e, float *output, int32_t *row);
  tt_err (*apply)(tt_engine *e, const float *delta, const double *loss);
  /* Steps of one member that several engines train together: each computes some parts of every
   * batch (train.parts, core/model/parts.h) and the optimiser step of one segment of the
   * parameters. All engines hold the member in the same state, except for the slots, averages,
   * best weights and snapshots of parameters that another engine updates. NULL if the engine does
   * not support them. m is a number of the cohort. A step is partial; if the loss of the batch is
   * finite, squares and advance; then accept. Together they are a step of train, with the same bits
   * for any number of engines.
   *
   * partial_bytes: host memory of partial besides that of the engine of `slice`.
   *
   * partial: gradients of some parts of the next batch; changes no state.
   *   training  0: the member does not train, nothing else is written
   *   sum       the sums of the parts, tt_part_sums_of(parts): pointers to [P] of the engine, which
   *             the caller may change, until the next call
   *   loss      of each sum; not finite if a loss in it is not
   *
   * squares: the gradient [segment.count] of a segment, of all parts; unused inputs get 0.
   *   block     [blocks of the segment] sums of squares; not written without clipping
   *
   * advance: the optimiser step of a segment; changes the gradient.
   *   squares   sum of all blocks, in order; 0 if the member is not clipped
   *   w         [segment.count] new weights; NULL: they stay in the engine only
   *
   * accept: the weights of other segments, then the end of the step and of the epoch. It is called
   * after an error of the other functions too.
   *   w            [of.count] weights of the parameters `of`; not used if there are none
   *   loss         of the batch, in tree order; if not finite, the member has diverged, and w is
   *                not used
   *   share        how the engines share the end of an epoch: all of them call its functions in
   *                the same way; NULL: one engine
   *   epoch_ended  1 if the step was the last one of an epoch */
  int64_t (*partial_bytes)(const tt_cohort *c, tt_slice slice, tt_slice parts,
                           const tt_resources *use);
  tt_err (*partial)(tt_engine *e, int64_t m, tt_slice parts, int *training,
                    float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
  tt_err (*squares)(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block);
  tt_err (*advance)(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                    float *w);
  tt_err (*accept)(tt_engine *e, int64_t m, tt_slice of, const float *w, double loss,
                   const tt_epoch_sharing *share, int *epoch_ended);
  /* With tt_resources.device_exchange the caller gets and gives the sums, gradients and weights of
   * the functions above in memory of the device, whose addresses its MPI library takes; advance
   * uses the gradient that squares got. NULL if the engine has no such memory.
   *
   * device_room: room for `count` further values there, as long as the engine has its data. It may
   * be called once. Errors: MEM.
   *
   * device_add: adds from[count] to to[count]. Both begin at the same place of a unit of 16 bytes;
   * other values in the units that they share with others change too. Goes on while the caller
   * exchanges other arrays.
   *
   * device_copy: copies from[count] to `to`, unless they are the same; complete, as all additions
   * before it, when it returns. */
  tt_err (*device_room)(tt_engine *e, int64_t count, float **out);
  tt_err (*device_add)(tt_engine *e, int64_t m, float *to, const float *from, int64_t count);
  tt_err (*device_copy)(tt_engine *e, float *to, const float *from, int64_t count);
  const tt_device_link_ops *link; /* moves arrays of the device between engines; NULL: none */
  /* The same steps with the layers of a member cut into stages (pipeline.h): each engine has one
   * stage and computes some parts of every batch. A step is stage_begin; stage_forward and
   * stage_backward of its parts, each in the order of the parts; if the loss is finite, squares and
   * advance; accept with the weights of its stage that other engines have updated, or, in a step
   * that ends an epoch, with all weights. NULL if the engine does not support them. n rows of a
   * part are padded to a multiple of TT_PART_LANES; a part without rows has no arrays. With
   * tt_resources.device_exchange `in`, `out` and the sums are in memory of the device.
   *
   * stage_begin: window is the largest number of parts between their forward and backward pass.
   * Changes no state. Errors: MEM.
   *
   * stage_forward
   *   in    [in of the first layer][n] outputs of the stage before; the first stage ignores it
   *   out   [out of the last layer][n]; the last stage ignores it
   * stage_backward
   *   in    [out of the last layer][n] dL/d(output of the stage); the last stage ignores it, and
   *         one of which no layer, and none before, trains (tt_pipeline_has_gradient)
   *   out   [in of the first layer][n] dL/d(input of the stage); the first stage ignores it, and
   *         one before which no layer trains
   *
   * stage_bytes: host memory of a stage besides that of the engine of `slice`. */
  tt_err (*stage_begin)(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                        int64_t window, tt_pipeline_step *out);
  tt_err (*stage_forward)(tt_engine *e, int64_t part, const float *in, float *out);
  tt_err (*stage_backward)(tt_engine *e, int64_t part, const float *in, float *out);
  int64_t (*stage_bytes)(const tt_cohort *c, tt_slice slice, const tt_pipeline_stage *stage,
                         tt_slice parts, int64_t window, const tt_resources *use);
} tt_engine_ops;

extern const tt_engine_ops tt_engine_cpu;
extern const tt_engine_ops tt_engine_cuda; /* only in builds with CUDA */

/* The compiled engines, NULL-terminated, in the order of preference for `device: auto`. */
extern const tt_engine_ops *const tt_engines[];

TT_END_C
#endif
