/* front.cuh — forward and backward pass of the front of a network (core/front/front.h), for all
 * members at once. C++17.
 *
 * Layout: [members][rows][channels][positions], as the data set has its inputs and as the first
 * dense layer reads its features, so that nothing is transposed. Neighboring threads compute
 * neighboring positions of one channel, and then those of the next row: what a warp reads and
 * writes is one piece of memory, or one for each row where a channel has fewer than 32 positions.
 *
 * Each result is computed by one thread, one warp or one block, and the order of its sum follows
 * from the layer alone. So the bits of a member depend neither on the number of members, nor on
 * its place among them, nor on the GPU. */
#ifndef TT_CUDA_FRONT_CUH
#define TT_CUDA_FRONT_CUH
#include "cuda/common/device.cuh"

#include "core/config/choices.h"
#include "core/formulas/layer_norm.h"
#include "core/front/front.h"

/* Arrays of one layer on the device, for `rows` rows of each member; owned by the caller. Without
 * training only y is used. */
typedef struct tt_cuda_front_arrays {
  float *y;       /* [members][rows][values] results */
  float *slope;   /* [members][rows][values] f'(z), if it does not follow from y, or NULL */
  float *mask;    /* [members][rows][channels] factors of dropout, or NULL: 1 */
  float *moments; /* [members][rows][groups][2] of group_norm: mean, 1 / standard deviation;
                     [members][channels][TT_BATCH_NORM_MOMENTS] of batch_norm: the same of the
                     batch, what is added to the running mean and variance, the number of rows */
} tt_cuda_front_arrays;

/* Pointers to arrays of members are those of the first member of the pass. */
typedef struct tt_cuda_front_pass {
  const tt_front *front;
  const tt_cuda_front_arrays *layer; /* [layers] */
  int32_t members, rows;
  const int8_t *skip; /* [members] those with a value other than 0 are skipped; NULL: none is */
  const float *x;     /* [members][rows][inputs] */
  int64_t x_step;     /* from one member's x to the next: 0 if all members share it */
  const float *w;     /* parameters of the member */
  int64_t w_step;     /* from one member's parameters, and their gradient, to the next */
  int keep;           /* 1: a training step, with dropout; store what its backward pass needs */
  const tt_batch_norm_rows *batch; /* [members] of a training step with batch_norm */
  tt_precision precision;          /* fp32 or tf32, of the products of convolutions */
  int multiprocessors, clusters;   /* of the GPU: their number, whether it has clusters; change no
                                      bit, as what follows */
  float *chunk_sums;               /* [most_chunk_sums] sums of convolutions in chunks; or NULL */
  int64_t most_chunk_sums;
  cudaStream_t stream;
} tt_cuda_front_pass;

/* What the backward pass of layers [begin, end) needs besides. A residual that ends in them begins
 * in them. Deltas are [members][rows][most values of a layer]. */
typedef struct tt_cuda_front_backward_args {
  int begin, end;
  float *delta[2];       /* [0]: dL/dz of layer end - 1; both are overwritten */
  float *residual_delta; /* dL/dy of layer end - 1 if it ends a residual that is added after the
                            activation; NULL: no residual */
  float *branch_delta;   /* for the input of a projection; NULL: no projection */
  float *inputs;   /* output dL/d(input of layer begin), which may be delta[(end - begin) % 2]; or
                    NULL */
  float *gradient; /* output: of the parameters */
  int first;       /* no layer before this one trains */
} tt_cuda_front_backward_args;

/* Results of layers [begin, end), from those of the layer before. Asynchronous, may be captured.
 * Errors: INTERNAL. */
tt_err tt_cuda_front_forward(const tt_cuda_front_pass *p, int begin, int end);

/* In delta[0], dL/dy of layer end - 1 -> dL/dz. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_cuda_front_output_backward(const tt_cuda_front_pass *p,
                                     const tt_cuda_front_backward_args *b);

/* Gradients of the parameters from `first` on, and of the inputs. Asynchronous, may be captured.
 * Errors: INTERNAL. */
tt_err tt_cuda_front_backward(const tt_cuda_front_pass *p, const tt_cuda_front_backward_args *b);

/* Result of the last layer. */
static inline float *tt_cuda_front_features(const tt_front *f, const tt_cuda_front_arrays *layer)
{
  return layer[f->layers - 1].y;
}
#endif
