/* channel_mask.cu — dropout of whole channels of a front; one thread per value, or per four
 * neighbors. See front.cuh. */
#include "cuda/front/front_layer.cuh"

/* f(place in a member, V values of `from` there, times the factor of their channel). */
template <int V, class F>
static __device__ __forceinline__ void mask(const tt_front_layer_args &a, const float *from,
                                            int64_t step, F f)
{
  tt_front_block b = tt_front_block_of(a);
  int32_t places = tt_front_places(a.layer), channels = a.rows * a.layer.channels;
  int64_t value = V * ((int64_t)b.part * TT_FRONT_THREADS + threadIdx.x);
  if (!b.active || value >= (int64_t)channels * places) return;
  int32_t index = (int32_t)value;
  tt_floats<V> x = tt_load_floats<V>(from + b.member * step + index);
  float factor = a.mask ? a.mask[b.member * channels + index / places] : 1.0f;
#pragma unroll
  for (int q = 0; q < V; q++) x.v[q] *= factor;
  f(tt_front_end_of(a, b.member), index, x);
}

template <int V> static __global__ void mask_channels(tt_front_layer_args a)
{
  mask<V>(a, a.x, a.x_step, [](const tt_product_end &end, int32_t index, tt_floats<V> x) {
    tt_finish_forward<V, true>(end, index, x);
  });
}

template <int V> static __global__ void mask_channels_backward(tt_front_layer_args a)
{
  mask<V>(a, a.d, a.d_step, [](const tt_product_end &end, int32_t index, tt_floats<V> d) {
    tt_finish_backward<V>(end, index, d);
  });
}

/* from: what is multiplied */
static tt_err launch(void (*one)(tt_front_layer_args), void (*four)(tt_front_layer_args),
                     const tt_front_layer_args &a, const float *from, int64_t step, int32_t members,
                     cudaStream_t stream)
{
  int64_t values = a.rows * tt_front_values(&a.layer), places = tt_front_positions(&a.layer);
  int vectors = tt_front_has_vectors(a, places) && tt_has_vectors(from, step, places);
  int64_t parts = tt_grid_size(values, TT_FRONT_THREADS * (vectors ? 4 : 1));
  return tt_front_launch(vectors ? four : one, a, parts, members, 0, stream);
}

tt_err tt_front_mask_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch(mask_channels<1>, mask_channels<4>, a, a.x, a.x_step, members, stream);
}

tt_err tt_front_mask_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch(mask_channels_backward<1>, mask_channels_backward<4>, a, a.d, a.d_step, members,
                stream);
}
