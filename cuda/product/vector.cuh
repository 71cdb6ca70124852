/* vector.cuh — for kernels over elements of arrays: several neighboring floats per access to
 * memory, and activation and optimizer as types, so that the switch on them is outside of the
 * loops. Device code. */
#ifndef TT_VECTOR_CUH
#define TT_VECTOR_CUH
#include "cuda/common/device.cuh"

#include "core/formulas/elementwise.h"
#include "core/formulas/optimizer.h"

enum { TT_VECTOR = 4 }; /* floats of the widest access, 16 bytes */

/* V neighboring floats; in memory at a multiple of 4 V bytes. */
template <int V> struct alignas(4 * V) tt_floats {
  float v[V];
};
template <int V> __device__ __forceinline__ tt_floats<V> tt_load_floats(const float *place)
{
  TT_CHECK_ALIGNMENT(place, sizeof(tt_floats<V>));
  return *reinterpret_cast<const tt_floats<V> *>(place);
}
template <int V>
__device__ __forceinline__ void tt_store_floats(float *place, const tt_floats<V> &x)
{
  TT_CHECK_ALIGNMENT(place, sizeof(tt_floats<V>));
  *reinterpret_cast<tt_floats<V> *>(place) = x;
}

/* A row of TT_ACTIVATIONS. NEEDS_INPUT 0: the derivative follows from y = f(z). */
template <tt_activation A, int NEEDS> struct tt_activation_row {
  static constexpr tt_activation KIND = A;
  static constexpr int NEEDS_INPUT = NEEDS;
};
template <class F> __device__ __forceinline__ void tt_with_activation(tt_activation kind, F f)
{
  switch (kind) {
#define X(name, y, dy, needs_input, ...)                                                           \
  case TT_ACT_##name: f(tt_activation_row<TT_ACT_##name, needs_input>()); break;
    TT_ACTIVATIONS(X)
#undef X
  default: break;
  }
}

/* A row of TT_OPTIMIZERS. */
template <tt_optimizer OPTIMIZER, int SLOT_COUNT> struct tt_optimizer_row {
  static constexpr tt_optimizer KIND = OPTIMIZER;
  static constexpr int SLOTS = SLOT_COUNT;
};
template <class F> __device__ __forceinline__ void tt_with_optimizer(tt_optimizer kind, F f)
{
  switch (kind) {
#define X(name, slots, ...)                                                                        \
  case TT_OPT_##name: f(tt_optimizer_row<TT_OPT_##name, slots>()); break;
    TT_OPTIMIZERS(X)
#undef X
  default: break;
  }
}
#endif
