/* conv_gradient.cu — the kernels of conv_product.cuh for the gradients of the weights. */
#include "cuda/front/conv_product.cuh"
#include "cuda/plan/layered_sizes.h"
#include "cuda/product/multiply.cuh"

template <class TILE>
static __global__ void __launch_bounds__(TILE::THREADS, TT_PRODUCT_THREADS / TILE::THREADS)
    conv_gradient(tt_conv_args c)
{
  TT_SHARED_MEMORY(float, shared);
  typedef tt_conv_kernel<TILE, TT_PRODUCT_GRADIENT> K;
  typedef typename TILE::sums sums;
  const tt_conv_block<K> b = {shared};
  if (!b.begin(c)) return;
  const tt_conv_tile &t = b.tile();
  float sum[TILE::SUMS] = {}, total[TILE::SUMS];
#pragma unroll
  for (int i = 0; i < TILE::SUMS; i++) total[i] = -0.0f;
  int32_t left = c.chunk; /* inner indices of the chunk */
  auto after = [&](float) {
    left -= TT_PANEL;
    if (left > 0) return;
    left = c.chunk;
    tt_product_end_chunk(sum, total);
  };
  tt_product_sums<K>(
      t.end - t.first, false, shared, reinterpret_cast<sums &>(sum),
      [&](float *stage, float *next, int32_t rest) { b.load(c, stage, next, rest); }, after);
  if (left < c.chunk) tt_product_end_chunk(sum, total);
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(reinterpret_cast<sums &>(total), shared);
  __syncthreads();
  float *result = c.result + t.member * c.step + t.copy * c.copy_step;
  auto finish = [&](int32_t place, int32_t, const auto &x) { tt_store_floats(result + place, x); };
  if (c.vector)
    b.template finish<4>(c, c.s.result_step, finish);
  else
    b.template finish<1>(c, c.s.result_step, finish);
}

/* The sums of the chunks, in their order. */
static __global__ void add_conv_chunks(tt_conv_args c)
{
  int64_t member = blockIdx.x / (unsigned)c.a.parts;
  int64_t k = (int64_t)(blockIdx.x % (unsigned)c.a.parts) * TT_FRONT_THREADS + threadIdx.x;
  if (k >= c.copy_step || (c.a.skip && c.a.skip[member])) return;
  const float *chunk = c.result + member * c.step + k;
  float sum = *chunk;
#pragma unroll 8
  for (int32_t i = 1; i < c.copies; i++) sum += chunk[i * c.copy_step];
  c.a.gradient[member * c.a.w_step + c.a.layer.weight + k] = sum;
}

struct gradient_kernels {
  template <class TILE> static constexpr tt_product_launch<tt_conv_args> of()
  {
    return {conv_gradient<TILE>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS,
            tt_conv_kernel<TILE, TT_PRODUCT_GRADIENT>::BYTES};
  }
};

tt_err tt_conv_multiply_gradient(int tile, int32_t copies, const tt_front_layer_args &a,
                                 int32_t members, cudaStream_t stream)
{
  tt_conv_args c;
  tt_conv_describe(TT_PRODUCT_GRADIENT, a, 0, &c);
  if (tile < 0) {
    tt_gradients g = {};
    g.layers = 1, g.layer[0].m = c.s.results, g.layer[0].n = c.columns, g.copies = copies;
    tile = tt_choose_chunk_tile(g, (int64_t)members * a.layer.groups, a.multiprocessors,
                                tt_conv_precision(a, c.s));
  }
  c.chunk = (int32_t)tt_layered_conv_chunk(&a.layer, a.rows);
  c.copies = copies;
  c.copy_step = (int64_t)a.layer.channels * c.columns;
  c.result = copies > 1 ? a.chunk_sums : a.gradient + a.layer.weight;
  c.step = copies > 1 ? copies * c.copy_step : a.w_step;
  c.vector = tt_has_vectors(c.result, c.step, c.columns);
  const auto &t = tt_chunk_tile_at<tt_conv_args, gradient_kernels>(tile);
  TT_TRY(tt_launch_conv(t, c, members, stream));
  if (copies == 1) return TT_OK;
  c.a.parts = (int32_t)tt_grid_size(c.copy_step, TT_FRONT_THREADS);
  return tt_launch(add_conv_chunks, (unsigned)members * (unsigned)c.a.parts, TT_FRONT_THREADS, 0,
                   stream, c);
}

tt_err tt_front_conv_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  int64_t chunks = tt_layered_conv_chunks(&a.layer, a.rows);
  int fits = members * chunks * tt_front_weights(&a.layer) <= a.most_chunk_sums;
  return tt_conv_multiply_gradient(-1, fits ? (int32_t)chunks : 1, a, members, stream);
}
