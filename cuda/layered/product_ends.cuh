/* product_ends.cuh — what follows a product (product.cuh), for V neighbouring results of a member.
 * Device code. */
#ifndef TT_PRODUCT_ENDS_CUH
#define TT_PRODUCT_ENDS_CUH
#include "cuda/layered/product.cuh"
#include "cuda/layered/vector.cuh"

/* Arrays of one member, of the shape of its result. */
typedef struct tt_product_end {
  float *result, *slope, *before_slope;
  const float *h, *residual;
  tt_activation activation;
} tt_product_end;

__device__ __forceinline__ tt_product_end tt_product_end_of(const tt_product_args &a,
                                                            int64_t member)
{
  int64_t at = member * a.step;
  tt_product_end e;
  e.result = a.result + at;
  e.slope = a.slope ? a.slope + at : NULL;
  e.before_slope = a.before_slope ? a.before_slope + at : NULL;
  e.h = a.h ? a.h + at : NULL;
  e.residual = a.residual ? a.residual + at : NULL;
  e.activation = a.activation;
  return e;
}

/* z at `at` -> f(z), and f'(z) where it does not follow from f(z). */
template <int V>
__device__ __forceinline__ void tt_finish_forward(const tt_product_end &e, int32_t at,
                                                  const tt_floats<V> &z)
{
  tt_with_activation(e.activation, [&](auto activation) {
    typedef decltype(activation) row;
    tt_floats<V> f;
#pragma unroll
    for (int q = 0; q < V; q++) f.v[q] = tt_act(row::KIND, z.v[q]);
    tt_store_floats(e.result + at, f);
    if constexpr (row::NEEDS_INPUT) {
      if (!e.slope) return;
#pragma unroll
      for (int q = 0; q < V; q++) f.v[q] = tt_act_grad(row::KIND, z.v[q], f.v[q]);
      tt_store_floats(e.slope + at, f);
    }
  });
}

/* dL/dy of the layer before, without its residual part, -> dL/dz. */
template <int V>
__device__ __forceinline__ void tt_finish_backward(const tt_product_end &e, int32_t at,
                                                   tt_floats<V> d)
{
  if (e.residual) {
    tt_floats<V> more = tt_load_floats<V>(e.residual + at);
#pragma unroll
    for (int q = 0; q < V; q++) d.v[q] += more.v[q];
  }
  if (e.before_slope) tt_store_floats(e.before_slope + at, d);
  if (e.slope) {
    tt_floats<V> slope = tt_load_floats<V>(e.slope + at);
#pragma unroll
    for (int q = 0; q < V; q++) d.v[q] *= slope.v[q];
  } else if (e.h) {
    tt_floats<V> h = tt_load_floats<V>(e.h + at);
    tt_with_activation(e.activation, [&](auto activation) {
      typedef decltype(activation) row;
      if constexpr (!row::NEEDS_INPUT) {
#pragma unroll
        for (int q = 0; q < V; q++) d.v[q] *= tt_act_grad(row::KIND, h.v[q], h.v[q]);
      }
    });
  }
  tt_store_floats(e.result + at, d);
}

template <tt_product_kind KIND, int V>
__device__ __forceinline__ void tt_finish_product(const tt_product_end &e, int32_t at,
                                                  const tt_floats<V> &x)
{
  if constexpr (KIND == TT_PRODUCT_FORWARD) tt_finish_forward<V>(e, at, x);
  if constexpr (KIND == TT_PRODUCT_BACKWARD) tt_finish_backward<V>(e, at, x);
  if constexpr (KIND == TT_PRODUCT_GRADIENT) tt_store_floats(e.result + at, x);
}
#endif
