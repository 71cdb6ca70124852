/* front_layer.cuh — what the kernels of a front share: their arguments, which part of the work a
 * block has, and what follows a sum. Device code, and the launches of front.cu. */
#ifndef TT_CUDA_FRONT_LAYER_CUH
#define TT_CUDA_FRONT_LAYER_CUH
#include "cuda/product/product_ends.cuh"

#include "core/config/choices.h"
#include "core/formulas/layer_norm.h"
#include "core/front/front.h"

enum { TT_FRONT_THREADS = 256, TT_FRONT_WARPS = TT_FRONT_THREADS / TT_WARP_SIZE };

/* One layer. Arrays are those of the first member, [rows][values], with the distance to the next
 * member behind them. */
typedef struct tt_front_layer_args {
  tt_front_layer layer;
  const int8_t *skip;  /* [members] or NULL */
  int32_t rows, parts; /* parts: blocks of a member, set by the launch */
  const float *x;      /* inputs of the layer */
  int64_t x_step;
  const float *d; /* backward: dL/dz of the layer */
  int64_t d_step;
  const float *w; /* parameters of the member */
  float *gradient;
  int64_t w_step;    /* of both */
  const float *mask; /* [rows][channels] or NULL */
  float *moments; /* as in tt_cuda_front_arrays; NULL: not stored, or the running ones are used */
  const tt_batch_norm_rows *batch; /* [members] of batch_norm with the moments of the batch */
  /* What follows: forward, y = f(z) + add, or f(z + add) (activates_sum). Backward, to dL/dz of the
   * layer before, whose f is used: result = (sum + add) slope. All have the shape of the result,
   * but for the step of add. */
  float *result;
  int64_t step;
  float *slope;        /* forward: f'(z) is stored here; backward: it is read; or NULL */
  const float *y;      /* backward, without slope: f(z), from which f'(z) follows; NULL: f is x */
  const float *add;    /* a residual, or NULL */
  float *before_slope; /* backward: sum + add is stored here, which may be `add`; or NULL */
  int64_t add_step;
  tt_activation activation;
  tt_precision precision; /* fp32 or tf32, of products */
  int multiprocessors;    /* for the choice of a tile */
  int clusters;           /* 1: the GPU has them */
  float *chunk_sums;      /* as in tt_cuda_front_pass; NULL: the pass is no training step */
  int64_t most_chunk_sums;
} tt_front_layer_args;

typedef struct tt_front_block {
  int64_t member;
  int32_t part, active;
} tt_front_block;

/* A launch has `parts` blocks for each member, member by member. */
__device__ __forceinline__ tt_front_block tt_front_block_of(const tt_front_layer_args &a)
{
  tt_front_block b;
  b.member = (int64_t)(blockIdx.x / (unsigned)a.parts);
  b.part = (int32_t)(blockIdx.x % (unsigned)a.parts);
  b.active = !a.skip || a.skip[b.member] == 0;
  return b;
}

__device__ __forceinline__ int32_t tt_front_places_in(const tt_front_layer &l)
{
  return l.in[0] * l.in[1];
}

__device__ __forceinline__ int32_t tt_front_places(const tt_front_layer &l)
{
  return l.out[0] * l.out[1];
}

/* What follows a sum of a member. */
__device__ __forceinline__ tt_product_end tt_front_end_of(const tt_front_layer_args &a,
                                                          int64_t member)
{
  int64_t offset = member * a.step;
  tt_product_end e;
  e.result = a.result + offset;
  e.slope = a.slope ? a.slope + offset : NULL;
  e.before_slope = a.before_slope ? a.before_slope + offset : NULL;
  e.h = a.y ? a.y + offset : NULL;
  e.residual = a.add ? a.add + member * a.add_step : NULL;
  e.activates_sum = a.layer.activates_sum;
  e.activation = a.activation;
  return e;
}

/* z -> the result at `index` of a member. */
__device__ __forceinline__ void tt_front_finish_forward(const tt_front_layer_args &a,
                                                        int64_t member, int32_t index, float z)
{
  tt_finish_forward<1, true>(tt_front_end_of(a, member), index, {{z}});
}

/* dL/dy of the layer before, without its residual part, -> dL/dz. */
__device__ __forceinline__ void tt_front_finish_backward(const tt_front_layer_args &a,
                                                         int64_t member, int32_t index, float d)
{
  tt_finish_backward<1>(tt_front_end_of(a, member), index, {{d}});
}

/* 1 if four neighbors of all arrays that follow a sum may be accessed at once; `places`: positions
 * of a channel. */
static inline int tt_front_has_vectors(const tt_front_layer_args &a, int64_t places)
{
  const float *const same[] = {a.result, a.slope, a.y, a.before_slope};
  int vectors = tt_has_vectors(a.add, a.add_step, places);
  for (const float *array : same) vectors = vectors && tt_has_vectors(array, a.step, places);
  return vectors;
}

/* Launch `parts` blocks for each member. */
static inline tt_err tt_front_launch(void (*kernel)(tt_front_layer_args), tt_front_layer_args a,
                                     int64_t parts, int32_t members, size_t shared_bytes,
                                     cudaStream_t stream)
{
  a.parts = (int32_t)parts;
  return tt_launch(kernel, (unsigned)members * (unsigned)parts, TT_FRONT_THREADS, shared_bytes,
                   stream, a);
}

/* Launch one layer for `members` members. Asynchronous, may be captured. Errors: INTERNAL.
 * `backward` computes dL/dz of the layer before, `gradient` that of the parameters. */
typedef tt_err tt_front_function(const tt_front_layer_args &a, int32_t members,
                                 cudaStream_t stream);
tt_front_function tt_front_conv_forward, tt_front_conv_backward, tt_front_conv_gradient;
tt_front_function tt_front_norm_forward, tt_front_norm_backward;
tt_front_function tt_front_batch_norm_forward, tt_front_batch_norm_backward;
tt_front_function tt_front_pool_forward, tt_front_pool_backward;
tt_front_function tt_front_mask_forward, tt_front_mask_backward;

/* Of conv: the biases; of a norm: gains and shifts, and what is added to running moments, as
 * tt_front_batch_norm_backward does it too. */
tt_front_function tt_front_channel_gradient;
#endif
