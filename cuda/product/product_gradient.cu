/* product_gradient.cu — the kernels of product.cuh for gradients: of one layer, in one chain; of
 * several layers in one launch, in chunks of rows. */
#include "cuda/product/product_launch.cuh"

tt_err tt_multiply_gradient(int tile, const tt_product_args &args, int64_t members,
                            cudaStream_t stream)
{
  return launch_product<TT_PRODUCT_GRADIENT>(tile, args, members, stream);
}

template <class TILE> using chunk_kernel = tt_product_kernel<TILE, TT_PRODUCT_GRADIENT>;

/* What a block computes: a tile, of all rows or of one chunk. */
typedef struct chunk_block {
  tt_product_place at;
  int32_t layer, copy;
} chunk_block;

template <class TILE> __device__ __forceinline__ chunk_block chunk_block_of(const tt_gradients &g)
{
  chunk_block b;
  int32_t number = (int32_t)blockIdx.x;
  b.layer = 0;
  for (int l = 1; l < g.layers; l++) b.layer += number >= g.first[l];
  const tt_product_args &a = g.layer[b.layer];
  number -= g.first[b.layer];
  int32_t part = number / g.copies % a.parts;
  b.copy = number % g.copies;
  b.at = {number / g.copies / a.parts, part / a.across * TILE::ROWS,
          part % a.across * TILE::COLUMNS};
  return b;
}

template <class TILE>
static __global__ void __launch_bounds__(TILE::THREADS, TT_PRODUCT_THREADS / TILE::THREADS)
    layer_gradients(tt_gradients g)
{
  TT_SHARED_MEMORY(float, shared);
  typedef chunk_kernel<TILE> K;
  chunk_block b = chunk_block_of<TILE>(g);
  tt_product_args a = g.layer[b.layer];
  if (a.skip && a.skip[b.at.member]) return;
  float sum[TILE::SUMS] = {}, total[TILE::SUMS], bias_total = -0.0f;
#pragma unroll
  for (int i = 0; i < TILE::SUMS; i++) total[i] = -0.0f;
  int32_t rows = g.chunk; /* left in the chunk */
  auto after = [&](float &bias) {
    rows -= TT_PANEL;
    if (rows > 0) return;
    rows = g.chunk;
    tt_product_end_chunk(sum, total);
    bias_total += bias;
    bias = 0.0f;
  };
  typedef typename TILE::sums sums;
  int32_t skipped = b.copy * g.chunk, inner = a.k - skipped;
  if (g.copies > 1 && inner > g.chunk) inner = g.chunk;
  tt_product_loader<K> load(a, b.at);
  load.left += (int64_t)skipped * a.left.ld;
  load.right += (int64_t)skipped * a.right.ld;
  bool biases = b.at.column == 0 && threadIdx.x < TILE::ROWS;
  float bias =
      tt_product_sums<K>(inner, biases, shared, reinterpret_cast<sums &>(sum), load, after);
  if (rows < g.chunk) {
    tt_product_end_chunk(sum, total);
    bias_total += bias;
  }
  a.result += b.copy * g.copy_step;
  int32_t row = b.at.row + (int32_t)threadIdx.x;
  if (biases && row < a.m)
    a.bias_gradient[(int64_t)b.at.member * a.step + b.copy * g.copy_step + row] = bias_total;
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(reinterpret_cast<sums &>(total), shared);
  __syncthreads();
  if (a.vector)
    tt_product_finish<K, 4>(a, b.at, shared);
  else
    tt_product_finish<K, 1>(a, b.at, shared);
}

struct layer_gradient_kernels {
  template <class TILE> static constexpr tt_product_launch<tt_gradients> of()
  {
    return {layer_gradients<TILE>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS,
            chunk_kernel<TILE>::BYTES};
  }
};

tt_err tt_multiply_chunks(int tile, tt_gradients g, int64_t members, cudaStream_t stream)
{
  const auto &t = tt_chunk_tile_at<tt_gradients, layer_gradient_kernels>(tile);
  unsigned blocks = 0;
  for (int l = 0; l < g.layers; l++) {
    tt_product_args &a = g.layer[l];
    a.across = (int32_t)tt_grid_size(a.n, t.columns);
    a.parts = a.across * (int32_t)tt_grid_size(a.m, t.rows);
    g.first[l] = (int32_t)blocks;
    blocks += (unsigned)members * (unsigned)(a.parts * g.copies);
  }
  return tt_launch(t.kernel, blocks, (unsigned)t.threads, (size_t)t.bytes, stream, g);
}
