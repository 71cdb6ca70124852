/* conv_tiles.cu — the kernels of conv_product.cuh, forward and backward. */
#include "cuda/front/conv_product.cuh"
#include "cuda/product/multiply.cuh"

template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    conv_product(tt_conv_args c)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_conv_block<K> block = {shared};
  if (!block.begin(c)) return;
  const tt_conv_tile &t = block.tile();
  typename K::TILE::sums sum = {};
  tt_product_sums<K>(
      t.end - t.first, false, shared, sum,
      [&](float *stage, float *next, int32_t rest) { block.load(c, stage, next, rest); },
      [](float) {});
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(sum, shared);
  __syncthreads();
  const tt_product_end end = tt_front_end_of(c.a, t.member);
  const float *bias = c.a.w + t.member * c.a.w_step + c.a.layer.bias;
  auto finish = [&](int32_t place, int32_t channel, auto z) {
    enum { V = sizeof z / sizeof(float) };
    if (K::KIND == TT_PRODUCT_BACKWARD) return tt_finish_backward<V>(end, place, z);
    float b = c.a.layer.bias < 0 ? 0.0f : bias[channel];
#pragma unroll
    for (int q = 0; q < V; q++) z.v[q] += b;
    tt_finish_forward<V, true>(end, place, z);
  };
  if (c.vector)
    block.template finish<4>(c, c.s.places, finish);
  else
    block.template finish<1>(c, c.s.places, finish);
}

template <tt_product_kind KIND> struct conv_kernels {
  template <class TILE> static constexpr tt_product_launch<tt_conv_args> of()
  {
    typedef tt_conv_kernel<TILE, KIND> k;
    return {conv_product<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
  }
};

template <tt_product_kind KIND>
static tt_err multiply(int tile, const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  tt_conv_args c;
  for (int32_t first = 0, all = 1; first < all; first += TT_CONV_PHASES) {
    all = tt_conv_describe(KIND, a, first, &c);
    if (tile < 0)
      tile = tt_choose_product_tile(c.s.results, c.columns, (int64_t)members * a.layer.groups * all,
                                    a.multiprocessors, tt_conv_precision(a, c.s));
    const auto &t = tt_product_tile_at<tt_conv_args, conv_kernels<KIND>>(tile);
    TT_TRY(tt_launch_conv(t, c, members, stream));
  }
  return TT_OK;
}

tt_err tt_conv_multiply(tt_product_kind kind, int tile, const tt_front_layer_args &a,
                        int32_t members, cudaStream_t stream)
{
  return kind == TT_PRODUCT_FORWARD ? multiply<TT_PRODUCT_FORWARD>(tile, a, members, stream)
                                    : multiply<TT_PRODUCT_BACKWARD>(tile, a, members, stream);
}
