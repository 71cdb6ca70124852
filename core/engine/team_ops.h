/* team_ops.h — interface of a compute engine for members that several engines train together, each
 * some parts of a batch or some layers (core/model/parts.h, pipeline.h). The functions are local
 * and synchronous, as those of engine.h; P parameters. */
#ifndef TT_TEAM_OPS_H
#define TT_TEAM_OPS_H
#include "core/engine/device_link.h"
#include "core/engine/pipeline.h"
#include "core/model/cohort.h"
#include "core/model/parts.h"
TT_BEGIN_C

typedef struct tt_engine tt_engine;
typedef struct tt_resources tt_resources;

/* What several engines that train a member share at the end of an epoch with validation rows.
 * First, with averages of the weights, a vector [P] in `scratch`: each engine writes its segment,
 * and gather_segments fills in the others. Then the terms of a sum: each engine computes
 * tt_part_slice(terms, engines, engine) of them, and `gather` fills in the others. */
typedef struct tt_epoch_sharing {
  int engines, engine;
  void (*gather)(void *context, int64_t terms, double *term); /* term[terms] */
  void (*gather_segments)(void *context, float *vector);
  float *scratch; /* [P] memory of the caller; with tt_resources.device_exchange on the device */
  void *with;
} tt_epoch_sharing;

/* A step of a stage (tt_team_ops.stage_begin). */
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

/* What an engine computes of a member that several engines train together. */
typedef struct tt_engine_share {
  tt_slice parts;                 /* of every batch */
  const tt_pipeline_stage *stage; /* NULL: all layers */
  int64_t window;                 /* of the stage */
} tt_engine_share;

typedef struct tt_team_ops {
  /* Each engine computes some parts of every batch (train.parts, core/model/parts.h) and the
   * optimizer step of one segment of the parameters. All engines hold the member in the same state,
   * except for the slots, averages and best weights of parameters that another engine
   * updates. m is a number of the cohort. A step is partial; if the loss of the batch is finite,
   * squares and advance; then accept. Together they are a step of train, with the same bits for any
   * number of engines.
   *
   * partial: gradients of some parts of the next batch; changes no state.
   *   training  0: the member does not train, nothing else is written
   *   sum       the sums of the parts, tt_part_sums_of(parts): pointers to [P] of the engine, which
   *             the caller may change, until the next call
   *   loss      of each sum; not finite if a loss in it is not
   *
   * squares: the gradient [segment.count] of a segment, of all parts.
   *   block     [blocks of the segment] sums of squares; not written without clipping
   *
   * advance: the optimizer step of a segment; changes the gradient.
   *   squares   sum of all blocks, in order; 0 if the member is not clipped
   *   w         [segment.count] new weights; NULL: they stay in the engine only
   *
   * accept: the weights of other segments, then the end of the step and of the epoch. It is called
   * after an error of the other functions too.
   *   w            [slice.count] weights of the parameters `slice`; not used if there are none
   *   loss         of the batch, in tree order; if not finite, the member has diverged, and w is
   *                not used
   *   share        how the engines share the end of an epoch: all of them call its functions in
   *                the same way; NULL: one engine
   *   epoch_ended  1 if the step was the last one of an epoch */
  tt_err (*partial)(tt_engine *e, int64_t m, tt_slice parts, int *training,
                    float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
  tt_err (*squares)(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block);
  tt_err (*advance)(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                    float *w);
  tt_err (*accept)(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                   const tt_epoch_sharing *share, int *epoch_ended);
  /* With tt_resources.device_exchange the caller gets and gives the sums, gradients and weights of
   * the functions above in memory of the device, whose addresses its MPI library takes; advance
   * uses the gradient that squares got. NULL if the engine has no such memory.
   *
   * device_scratch: memory for `count` further values there, as long as the engine has its data. It
   * may be called once. Errors: MEM.
   *
   * device_add: adds src[count] to dst[count]. Both begin at the same place of a unit of 16 bytes;
   * other values in the units that they share with others change too. Goes on while the caller
   * exchanges other arrays.
   *
   * device_copy: copies src[count] to `dst`, unless they are the same; complete, as all additions
   * before it, when it returns. */
  tt_err (*device_scratch)(tt_engine *e, int64_t count, float **out);
  tt_err (*device_add)(tt_engine *e, int64_t m, float *dst, const float *src, int64_t count);
  tt_err (*device_copy)(tt_engine *e, float *dst, const float *src, int64_t count);
  const tt_device_link_ops *link; /* moves arrays of the device between engines; NULL: none */
  /* The same steps with the layers of a member cut into stages (pipeline.h): each engine has one
   * stage and computes some parts of every batch. A step is stage_begin; stage_forward and
   * stage_backward of its parts, each in the order of the parts, and stage_gradient directly after
   * the latter; if the loss is finite, squares and advance; accept with the weights of its stage
   * that other engines have updated, or, in a step that ends an epoch, with all weights. n rows of
   * a part are padded to a multiple of TT_PART_LANES; a part without rows has no arrays. With
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
   * stage_gradient: the gradient of the parameters by this part, in the sums, while `out` is on its
   * way to the stage before. An engine may have added it in stage_backward. */
  tt_err (*stage_begin)(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                        int64_t window, tt_pipeline_step *out);
  tt_err (*stage_forward)(tt_engine *e, int64_t part, const float *in, float *out);
  tt_err (*stage_backward)(tt_engine *e, int64_t part, const float *in, float *out);
  tt_err (*stage_gradient)(tt_engine *e, int64_t part);
} tt_team_ops;
TT_END_C
#endif
