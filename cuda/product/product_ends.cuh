/* product_ends.cuh — what follows a product (product.cuh), for V neighboring results of a member.
 * Device code. */
#ifndef TT_PRODUCT_ENDS_CUH
#define TT_PRODUCT_ENDS_CUH
#include "cuda/product/product.cuh"
#include "cuda/product/vector.cuh"

/* Arrays of one member, of the shape of its result. */
typedef struct tt_product_end {
  float *result, *slope, *before_slope;
  const float *h, *residual;
  int8_t activates_sum; /* forward, with ADDS: the residual comes before the activation */
  tt_activation activation;
} tt_product_end;

__device__ __forceinline__ tt_product_end tt_product_end_of(const tt_product_args &a,
                                                            int64_t member)
{
  int64_t offset = member * a.step;
  tt_product_end e;
  e.result = a.result + offset;
  e.slope = a.slope ? a.slope + offset : NULL;
  e.before_slope = a.before_slope ? a.before_slope + offset : NULL;
  e.h = a.h ? a.h + offset : NULL;
  e.residual = a.residual ? a.residual + offset : NULL;
  e.activation = a.activation;
  return e;
}

/* z at `index` -> f(z), and f'(z) where it does not follow from f(z). ADDS: the residual is added,
 * if there is one, so that f'(z) may be stored for every activation. */
template <int V, bool ADDS = false>
__device__ __forceinline__ void tt_finish_forward(const tt_product_end &e, int32_t index,
                                                  tt_floats<V> z)
{
  bool adds = ADDS && e.residual;
  tt_floats<V> more = {};
  if (adds) more = tt_load_floats<V>(e.residual + index);
#pragma unroll
  for (int q = 0; q < V; q++)
    if (adds && e.activates_sum) z.v[q] += more.v[q];
  tt_with_activation(e.activation, [&](auto activation) {
    typedef decltype(activation) row;
    constexpr bool SLOPE = ADDS || row::NEEDS_INPUT;
    tt_floats<V> f, slope;
#pragma unroll
    for (int q = 0; q < V; q++) {
      f.v[q] = tt_act(row::KIND, z.v[q]);
      slope.v[q] = SLOPE ? tt_act_grad(row::KIND, z.v[q], f.v[q]) : 0.0f;
      if (adds && !e.activates_sum) f.v[q] += more.v[q];
    }
    tt_store_floats(e.result + index, f);
    if (SLOPE && e.slope) tt_store_floats(e.slope + index, slope);
  });
}

/* dL/dy of the layer before, without its residual part, -> dL/dz.
 *   known  the values of e.h + index, where they are at hand */
template <int V>
__device__ __forceinline__ void tt_finish_backward(const tt_product_end &e, int32_t index,
                                                   tt_floats<V> d, const float *known = nullptr)
{
  if (e.residual) {
    tt_floats<V> more = tt_load_floats<V>(e.residual + index);
#pragma unroll
    for (int q = 0; q < V; q++) d.v[q] += more.v[q];
  }
  if (e.before_slope) tt_store_floats(e.before_slope + index, d);
  if (e.slope) {
    tt_floats<V> slope = tt_load_floats<V>(e.slope + index);
#pragma unroll
    for (int q = 0; q < V; q++) d.v[q] *= slope.v[q];
  } else if (e.h) {
    tt_floats<V> h = tt_load_floats<V>(known ? known : e.h + index);
    tt_with_activation(e.activation, [&](auto activation) {
      typedef decltype(activation) row;
      if constexpr (!row::NEEDS_INPUT) {
#pragma unroll
        for (int q = 0; q < V; q++) d.v[q] *= tt_act_grad(row::KIND, h.v[q], h.v[q]);
      }
    });
  }
  tt_store_floats(e.result + index, d);
}

template <tt_product_kind KIND, int V>
__device__ __forceinline__ void tt_finish_product(const tt_product_end &e, int32_t index,
                                                  const tt_floats<V> &x)
{
  if constexpr (KIND == TT_PRODUCT_FORWARD) tt_finish_forward<V>(e, index, x);
  if constexpr (KIND == TT_PRODUCT_BACKWARD) tt_finish_backward<V>(e, index, x);
  if constexpr (KIND == TT_PRODUCT_GRADIENT) tt_store_floats(e.result + index, x);
}
#endif
