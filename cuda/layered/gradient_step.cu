/* gradient_step.cu — the gradient of a layer in one chain (cuda/product/product.cuh), and at once
 * the optimizer step of its parameters: the gradient is not stored. */
#include "cuda/layered/update.cuh"
#include "cuda/product/product_launch.cuh"

typedef struct gradient_step_args {
  tt_product_args product;
  tt_step_kernel_args step;
  int32_t weight, bias; /* first parameters of the layer */
} gradient_step_args;

/* The weights of a tile, V neighbors at a time. */
template <class K, int V>
__device__ __forceinline__ void step_weights(const gradient_step_args &a, tt_product_place place,
                                             const float *tile)
{
  tt_layered_with_optimizer<V, 0>(a.step, place.member, [&](auto update) {
    tt_product_each_result<K, V>(a.product, place, tile, [&](int32_t index, const tt_floats<V> &x) {
      update(a.weight + index, x);
    });
  });
}

template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    layer_gradient_step(gradient_step_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_product_place place = tt_product_place_of<K>(a.product);
  if (a.product.skip && a.product.skip[place.member]) return;
  bool biases = place.column == 0 && threadIdx.x < K::TILE::ROWS;
  float bias = tt_product_compute<K>(a.product, place, biases, shared);
  if (a.product.vector)
    step_weights<K, 4>(a, place, shared);
  else
    step_weights<K, 1>(a, place, shared);
  int32_t row = place.row + (int32_t)threadIdx.x;
  if (!biases || row >= a.product.m) return;
  tt_layered_with_optimizer<1, 0>(a.step, place.member,
                                  [&](auto update) { update(a.bias + row, tt_floats<1>{{bias}}); });
}

struct gradient_steps {
  template <class TILE> static constexpr tt_product_launch<gradient_step_args> of()
  {
    typedef tt_product_kernel<TILE, TT_PRODUCT_GRADIENT> k;
    return {layer_gradient_step<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
  }
};

tt_err tt_layered_gradient_step(int tile, const tt_product_args &product,
                                const tt_step_kernel_args &step, const tt_layer &layer,
                                int64_t members, cudaStream_t stream)
{
  gradient_step_args a = {};
  a.product = product;
  a.step = step;
  a.weight = (int32_t)layer.weight;
  a.bias = (int32_t)layer.bias;
  return tt_launch_product(tt_product_tile_at<gradient_step_args, gradient_steps>(tile), a.product,
                           a, members, stream);
}
