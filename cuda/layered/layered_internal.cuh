/* layered_internal.cuh — internals of the layered path: all members advance together, layer by
 * layer.
 *
 * A batch of one member is row-major, [rows][features]; members follow one another, and the arrays
 * of every member begin at a multiple of 16 bytes where their sizes allow it. The bits of a product
 * (product.cuh) depend on nothing but its factors. In tf32 tensor cores multiply in training steps,
 * for layers wider than 16 on both sides. Kernels skip members that need no results.
 *
 * Other sums over rows use a fixed number of interleaved partial sums, each in ascending order,
 * and then add the partial sums: the bits depend neither on how rows are divided nor on padding.
 *
 * Networks with few weights in a layer (size.small) save launches, with the same bits: the rows and
 * the first layer are one kernel, the last layer and the loss another (fused_layers.cuh), the
 * gradients of up to three layers one launch.
 *
 * With train.parts a step computes one part of every batch after the other: the buffers have the
 * rows of a part, and the gradients are added as core/model/parts.h says. */
#ifndef TT_LAYERED_INTERNAL_CUH
#define TT_LAYERED_INTERNAL_CUH
#include "cuda/common/engine_internal.cuh"
#include "cuda/front/front.cuh"
#include "cuda/product/product.cuh"

enum {
  TT_LAYERED_THREADS = 256,
  TT_LAYERED_GRAPHS = 6 /* graphs of 1, 2, 4, ... 32 steps */
};

static_assert((int)TT_LOSS_PARTIALS == (int)TT_LAYERED_THREADS, "one thread per partial sum");

/* Operations of a graph of several steps at most: memory and time to create it grow with them. */
#ifdef TT_CUDA_DOUBLE
enum { TT_LAYERED_GRAPH_NODES = 250 }; /* a low limit, so that tests reach it */
#else
enum { TT_LAYERED_GRAPH_NODES = 4096 };
#endif

/* Data of the path, on the device unless noted. */
typedef struct tt_layered {
  tt_layered_sizes size;
  float *x, *y, *weight;       /* [capacity][D], [capacity][K], [capacity] */
  float *h[TT_MAX_LAYERS];     /* [capacity][out] f(z) of a layer; of the last one the output */
  float *slope[TT_MAX_LAYERS]; /* [M][rows][out] f'(z) where it does not follow from h, or NULL */
  int front_layers;
  tt_cuda_front_arrays *front;  /* [front_layers]; NULL: the network has no front */
  float *delta[2];              /* [M][rows][widest] dL/dz, used alternately */
  float *output_delta;          /* [M][rows][out] dL/dz of the last layer, if one kernel
                                   computes this layer and the loss; else NULL, as the next two */
  double *row_loss;             /* [M][rows] */
  int32_t *arrived;             /* [M] number of blocks that are done; 0 between launches */
  float *sum[TT_MAX_PART_SUMS]; /* [size.copies][M][param_stride] [0] gradient; of parts that are to
                                   be added; from [size.sums] on [param_stride], of one member, or
                                   NULL */
  double *sum_loss;             /* [TT_MAX_PART_SUMS][M] with parts: their losses; else NULL */
  int batch_part, at_sum;       /* the part that is computed, the sum that receives it */
  float *host_sum;              /* [host_sums][P] copies for other engines; pinned host memory */
  int host_sums;
  float *incoming;     /* values from other engines, where they exchange device memory; or NULL */
  double *host_term;   /* [size.terms] pinned host memory */
  float *eval_weights; /* [M][param_stride] */
  tt_slice window;     /* the engine's members that steps compute: all but in partial.cu */
  float *rate;         /* [param_stride] factor on the learning rate; NULL: 1 for all */
  float *scale;        /* [M] clip factor of the gradient; NULL if no member clips */
  double *squares;     /* [M][blocks] with parts and clipping: sums of squares; or NULL */
  double *term;        /* [M][size.terms] with parts: losses of the validation passes; or NULL */
  tt_sampler *order;   /* [M] of the running epochs */
  tt_optimizer_args *step;        /* [M] of the running step */
  double *lane;                   /* [M][TT_LOSS_PARTIALS] validation loss so far */
  int8_t *end;                    /* [M] tt_epoch_state */
  double *mean;                   /* [M] */
  float *xhat[TT_MAX_LAYERS];     /* [M][rows][out] normalized z of layers with layer_norm */
  float *rstd[TT_MAX_LAYERS];     /* [M][rows] 1 / its standard deviation */
  float *residual_delta;          /* [M][rows][widest] dL/dy of residual layers, or NULL */
  float *branch_delta;            /* the same, dL/d(input) of projections in the front */
  float *conv_chunks;             /* sums of a conv in chunks, or NULL */
  tt_batch_norm_rows *norm_batch; /* [M] with batch_norm in the front; or NULL */
  int8_t *other_view;             /* [M] with kfold, 1: the member has another row set */
  int32_t *row;                   /* [M][rows] row numbers of the batch on the device */
  cudaGraphExec_t graph[TT_LAYERED_GRAPHS]; /* of 2^k steps; NULL until needed */
  int graphs;                               /* how many of them are used; 0: not known */
  int warmed_up;                            /* a step has run outside of graphs */
  int8_t *status;                           /* [M] last copy from the device; pinned host memory */
  int32_t *batch, *epoch, *attempt;         /* the same */
  struct tt_layered_stage *stage;           /* of stage.cu, or NULL */
  struct tt_row_stream *row_stream; /* if rows come from the host; x, y, weight are parts of it */
  int shares_x;                     /* 1: x has the same rows for all members, once */
} tt_layered;

/* State of a member after a batch. */
enum tt_epoch_state {
  TT_EPOCH_ENDED = 0,    /* at the end of its epoch */
  TT_EPOCH_RUNNING = 1,  /* inside it, or no longer training */
  TT_EPOCH_DIVERGED = 2, /* at the end, with weights that are not finite */
  TT_EPOCH_BEST = 3      /* past the end, with the best weights so far */
};

typedef struct tt_layered_stage tt_layered_stage;

/* One pass through the layers. */
typedef struct tt_layered_pass {
  int32_t first, members; /* indices of the engine's members */
  int32_t rows;           /* rows per member */
  int64_t x_stride;       /* from one member's x to the next: rows * D, or 0 if all share x */
  const float *w;         /* [M][w_stride] all members of the engine */
  int64_t w_stride;       /* param_stride */
  const int8_t *skip;     /* [M] members with a value other than 0 are skipped; NULL: none is */
  int keep;               /* 1 in a training step: store f' for the backward pass */
  int entry;              /* 1: the first layer is in fused_layers.cuh */
  int head;               /* 1: the last layer is there, its dL/dz is in output_delta */
  float *gradient;        /* [M][param_stride] of the backward pass; [copies] of them */
  const struct tt_step_kernel_args *step; /* the optimizer step of a layer follows its gradient at
                                             once, which is not stored; or NULL */
} tt_layered_pass;

static inline tt_layered *tt_layered_of(tt_engine *e) { return static_cast<tt_layered *>(e->own); }

/* x in the buffers -> h of all layers. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_forward(tt_engine *e, const tt_layered_pass *pass);

/* The first layer of a pass with `entry`: its product, without the inputs. */
tt_product_args tt_layered_entry_product(tt_engine *e, const tt_layered_pass *pass);

/* The last layer of a pass with `head`: its product, from dL/dz in output_delta to that of the
 * layer before in delta[0]; and its biases. */
tt_product_args tt_layered_head_product(tt_engine *e, const tt_layered_pass *pass);

/* The same for layers [first, end), which are numbered as in pipeline.h: from the outputs of layer
 * first - 1. */
tt_err tt_layered_forward_layers(tt_engine *e, const tt_layered_pass *pass, int first, int end);

/* Backward pass: reads dL/d(output) of all members in delta[0], or with `head` dL/dz of the layer
 * before the last one, writes pass->gradient, overwrites both deltas. Asynchronous, may be
 * captured. Errors: INTERNAL. */
tt_err tt_layered_backward(tt_engine *e, const tt_layered_pass *pass);

/* The same for layers [first, end): reads dL/dz of the last of them in delta[0]. *input, unless
 * `input` is NULL, is where dL/d(input of layer `first`) is.
 * output_backward: from dL/d(output of layer n) in delta[0] to dL/dz. */
tt_err tt_layered_backward_layers(tt_engine *e, const tt_layered_pass *pass, int first, int end,
                                  float **input);
tt_err tt_layered_output_backward(tt_engine *e, const tt_layered_pass *pass, int n);

/* The pass over the training rows. */
tt_layered_pass tt_layered_training_pass(tt_engine *e);

/* The rows of part own->batch_part of the next batch; release: after all work with them.
 * Asynchronous. Errors: INTERNAL. */
tt_err tt_layered_load_part(tt_engine *e);
tt_err tt_layered_release_part(tt_engine *e);

/* Outputs of the next batch of every member; its loss and dL/d(output). Asynchronous, may be
 * captured. Errors: INTERNAL. */
tt_err tt_layered_forward_batch(tt_engine *e);
tt_err tt_layered_batch_loss(tt_engine *e);

/* In place of the end of tt_layered_batch_loss: the losses of the batch are in pending_loss.
 * Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_record_losses(tt_engine *e);

/* Copy status, batch, epoch and attempt of the members from the device. Errors: INTERNAL. */
tt_err tt_layered_download_progress(tt_engine *e);

/* Steps to the first end of an epoch of a member that was training at the last
 * tt_layered_download_progress; 0 if none was. */
int64_t tt_layered_steps_to_epoch_end(const tt_engine *e);

/* With parts. The gradients of some parts of the next batch, added as far as the tree allows: sum
 * [0], [1], ... and their losses. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_add_parts(tt_engine *e, tt_slice parts);

/* Add sum k + 1 and its loss to sum k. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_add_sums(tt_engine *e, int k);

/* Sum number k of the first member of the window, and its loss. */
float *tt_layered_sum(const tt_engine *e, int k);
double *tt_layered_sum_loss(const tt_engine *e, int k);

/* With parts, for a window of one member. Asynchronous. Errors: INTERNAL.
 *   squares  sums of squares of the blocks of a segment, from its gradient in sum [0]
 *   advance  optimizer step of a segment, from its gradient in sum [0] and, if the member is
 *            clipped, the sum of all squares in own->squares
 *   accept   the new weights are in place: records the loss of sum [0], and averages the weights
 *   add      to[count] += from[count], as parts of one engine are added */
tt_err tt_layered_segment_squares(tt_engine *e, tt_slice segment);
tt_err tt_layered_segment_advance(tt_engine *e, tt_slice segment);
tt_err tt_layered_accept_weights(tt_engine *e);
tt_err tt_layered_add_values(tt_engine *e, float *dst, const float *src, int64_t count);

/* `steps` steps of every training member. Asynchronous. Errors: INTERNAL, MEM. */
tt_err tt_layered_run_steps(tt_engine *e, int64_t steps);

/* One of them, whose rows are `ahead` steps from the members' positions if they come from the host.
 * The same, may be captured; so may the next ones. */
tt_err tt_layered_run_step(tt_engine *e, int64_t ahead);

/* Rows of the caller (given_rows.cu): the gradient for dL/d(output) in delta[0], as the first or a
 * further one of a step, with `input` as in tt_layered_backward_layers; the step with it. */
tt_err tt_layered_add_gradient(tt_engine *e, int is_first, float **input);
tt_err tt_layered_update_given(tt_engine *e);

/* Whether a step has few enough operations for a graph. */
int tt_layered_fits_graph(const tt_engine *e);

/* Set ending_views [row sets] to 1 for row sets with a member whose epoch ends `steps` steps
 * after the last tt_layered_download_progress. */
void tt_layered_find_ending_views(const tt_engine *e, int64_t steps, int8_t *ending_views);

/* Copy values from or to memory of the caller of such steps: of the host, or of the device.
 * Asynchronous. Errors: INTERNAL. */
static inline tt_err tt_layered_take_values(tt_engine *e, float *dst, const float *src,
                                            int64_t count)
{
  if (!e->device_exchange) return tt_dev_upload(dst, src, count, e->dev.stream);
  return dst == src ? TT_OK : tt_dev_copy(dst, src, count, e->dev.stream);
}
static inline tt_err tt_layered_give_values(tt_engine *e, float *dst, const float *src,
                                            int64_t count)
{
  if (!e->device_exchange) return tt_dev_download(dst, src, count, e->dev.stream);
  return tt_dev_copy(dst, src, count, e->dev.stream);
}

/* team_ops.h (partial.cu). check_path: an error if the engine is not on this path. Between
 * begin_member and end_member, which waits for its work and returns `before` or a later error,
 * steps compute it alone. reserve_sums: memory for sums, on the device `most` at a time, on the
 * host `left`. */
tt_err tt_layered_check_path(const tt_engine *e);
void tt_layered_begin_member(tt_engine *e, int64_t i);
tt_err tt_layered_end_member(tt_engine *e, tt_err before);
tt_err tt_layered_reserve_sums(tt_engine *e, int most, int left);
tt_err tt_layered_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                          float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
tt_err tt_layered_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient,
                          double *block);
tt_err tt_layered_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient,
                          double squares, float *w);
tt_err tt_layered_accept(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                         const tt_epoch_sharing *share, int *epoch_ended);
tt_err tt_layered_device_scratch(tt_engine *e, int64_t count, float **out);
tt_err tt_layered_device_add(tt_engine *e, int64_t m, float *dst, const float *src, int64_t count);
tt_err tt_layered_device_copy(tt_engine *e, float *dst, const float *src, int64_t count);

/* team_ops.h: a stage of a member (stage.cu). */
tt_err tt_layered_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *layers,
                              tt_slice parts, int64_t window, tt_pipeline_step *out);
tt_err tt_layered_stage_forward(tt_engine *e, int64_t part, const float *in, float *out);
tt_err tt_layered_stage_backward(tt_engine *e, int64_t part, const float *in, float *out);
tt_err tt_layered_stage_gradient(tt_engine *e, int64_t part); /* there is nothing left to do */
void tt_layered_stage_destroy(tt_layered *own); /* before the stream of rows is closed */

/* Compute the row orders of the running epochs; steps need them. Asynchronous. Errors: INTERNAL. */
tt_err tt_layered_begin_epochs(tt_engine *e);

/* How member i of the engine, which trains in parts, shares its validation passes with other
 * engines. */
typedef struct tt_layered_sharing {
  const tt_epoch_sharing *with;
  int64_t i, passes;
} tt_layered_sharing;

/* End of an epoch for the members that have reached it: validation, history, row order of the next
 * epoch.
 *   ending_views  [row sets] 1 if members of the row set may be at the end of their epoch
 *   sharing       NULL: not shared; else its member is the only one at the end of its epoch. The
 *                 averages and losses are gathered once, also after an error. */
tt_err tt_layered_end_epochs(tt_engine *e, const int8_t *ending_views,
                             const tt_layered_sharing *sharing);

/* Only gather, after the error `before`, which is returned. */
tt_err tt_layered_gather(tt_engine *e, const tt_layered_sharing *sharing, tt_err before);

/* *w: the weights that members without validation rows predict with, [M][param_stride].
 * Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_prediction_weights(tt_engine *e, const float **w);

/* Mean loss of each member over a split, with the weights that it would predict with:
 * bit-identical to its validation loss if these are the best weights. loss [M], NaN without
 * rows. Errors: INTERNAL. */
tt_err tt_layered_evaluate(tt_engine *e, tt_split split, double *loss);
#endif
