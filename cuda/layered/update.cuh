/* update.cuh — arguments of the kernels of a step outside its layers, and the optimizer step of
 * some parameters. Device code. */
#ifndef TT_LAYERED_UPDATE_CUH
#define TT_LAYERED_UPDATE_CUH
#include "cuda/layered/layered_internal.cuh"
#include "cuda/product/vector.cuh"

typedef struct tt_step_kernel_args {
  tt_cuda_state v;
  int32_t rows, parts; /* rows of a batch that are computed; blocks per member */
  int uses_clipping;
  float *x, *y, *weight;
  const float *output; /* [M][rows][heads * O] */
  float *delta;        /* [M][rows][heads * O] */
  float *gradient, *scale;
  int32_t *row;         /* [M][rows] row numbers of the batch */
  double *pending_loss; /* [M] losses of the batch, or of its parts */
  tt_sampler *order;
  tt_optimizer_args *step;
  const float *add;       /* [M][P] gradient of the next parts, added to `gradient` */
  const double *add_loss; /* [M] their loss */
  const float *rate;      /* [P] as tt_model_same_rate returns; NULL: 1 for all */
  double *squares;        /* [M][squares_each] sums of squares of blocks of the gradient */
  int32_t squares_each;
  int32_t batch_part;          /* of the batch, that is computed */
  const float *label_variance; /* [N][T] or NULL */
  int32_t copies;              /* gradients of chunks of rows, which are added; or 1 */
  int64_t copy_step;           /* floats from one of them to the next */
} tt_step_kernel_args;

/* Whether member i has a moving average of its weights. */
__device__ __forceinline__ int tt_uses_ema(const tt_cuda_state &v, int64_t i)
{
  return v.average_kind == TT_AVERAGE_ema && v.epoch[i] >= v.member[i].hyper.average_start;
}

/* Update of V parameters of member i from p on, with their gradients; what lies behind the last
 * parameter stays zero.
 *   RATES  1: parameters have factors on the learning rate; those with factor 0 stay as they are,
 *          to those with a negative one the gradient is added */
template <class OPTIMIZER, int V, int RATES>
__device__ __forceinline__ void tt_update_parameters(const tt_step_kernel_args &a, int64_t i,
                                                     int32_t p, tt_floats<V> g, float scale,
                                                     tt_optimizer_args args)
{
  enum { SLOTS = OPTIMIZER::SLOTS, SECOND = SLOTS > 1 ? 1 : 0, THIRD = SLOTS > 2 ? 2 : 0 };
  const tt_cuda_state &v = a.v;
  int64_t offset = i * v.param_stride + p;
  float *slots = v.slots + i * SLOTS * v.param_stride + p;
  tt_floats<V> w = tt_load_floats<V>(v.weights + offset), rate = {}, slot[SLOTS];
  const tt_optimizer_args whole = args;
#pragma unroll
  for (int k = 0; k < SLOTS; k++) slot[k] = tt_load_floats<V>(slots + (int64_t)k * v.param_stride);
  if (RATES) rate = tt_load_floats<V>(a.rate + p);
#pragma unroll
  for (int q = 0; q < V; q++) {
    if (p + q >= v.params) break;
    if (RATES && rate.v[q] < 0.0f) w.v[q] += g.v[q];
    if (RATES && !(rate.v[q] > 0.0f)) continue;
    if (RATES) args = tt_layer_optimizer_args(whole, rate.v[q]);
    tt_optimizer_step(OPTIMIZER::KIND, &w.v[q], g.v[q] * scale, &slot[0].v[q], &slot[SECOND].v[q],
                      &slot[THIRD].v[q], args);
  }
  tt_store_floats(v.weights + offset, w);
#pragma unroll
  for (int k = 0; k < SLOTS; k++) tt_store_floats(slots + (int64_t)k * v.param_stride, slot[k]);
  if (!tt_uses_ema(v, i)) return;
  tt_floats<V> average = tt_load_floats<V>(v.average + offset);
#pragma unroll
  for (int q = 0; q < V; q++)
    average.v[q] =
        tt_ema_update(average.v[q], w.v[q], v.member[i].hyper.average_decay, v.averaged[i] - 1);
  tt_store_floats(v.average + offset, average);
}

/* f(update), where update(p, g) is tt_update_parameters of member i. */
template <int V, int RATES, class F>
__device__ __forceinline__ void tt_layered_with_optimizer(const tt_step_kernel_args &a, int64_t i,
                                                          F f)
{
  const tt_optimizer_args args = a.step[i];
  float scale = a.uses_clipping ? a.scale[i] : 1.0f;
  tt_with_optimizer(a.v.optimizer, [&](auto optimizer) {
    f([&](int32_t p, const tt_floats<V> &g) {
      tt_update_parameters<decltype(optimizer), V, RATES>(a, i, p, g, scale, args);
    });
  });
}

/* The gradient of a layer for `members` members, with tile number `tile`
 * (cuda/product/product.cuh), and the optimizer step of its parameters: the same bits as a step
 * from a stored gradient. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_layered_gradient_step(int tile, const tt_product_args &product,
                                const tt_step_kernel_args &step, const tt_layer &layer,
                                int64_t members, cudaStream_t stream);
#endif
