/* conv_tiles.cu — the kernels of conv_product.cuh, forward and backward. */
#include "cuda/front/conv_product.cuh"
#include "cuda/plan/layered_sizes.h"
#include "cuda/product/multiply.cuh"

/* What follows a sum z of V neighboring results. */
template <tt_product_kind KIND, int V>
static __device__ __forceinline__ void end_sum(const tt_front_layer_args &a,
                                               const tt_product_end &end, int64_t member,
                                               int32_t place, int32_t channel, tt_floats<V> z)
{
  if (KIND == TT_PRODUCT_BACKWARD) return tt_finish_backward<V>(end, place, z);
  float b = a.layer.bias < 0 ? 0.0f : a.w[member * a.w_step + a.layer.bias + channel];
#pragma unroll
  for (int q = 0; q < V; q++) z.v[q] += b;
  tt_finish_forward<V, true>(end, place, z);
}

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
  float *chunk = c.result + t.member * c.step + t.copy * c.copy_step;
  auto finish = [&](int32_t place, int32_t channel, auto z) {
    enum { V = sizeof z / sizeof(float) };
    if (c.copies > 1)
      tt_store_floats(chunk + place, z);
    else
      end_sum<K::KIND, V>(c.a, end, t.member, place, channel, z);
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

/* The sums of the chunks, in their order, and what follows; V neighbors. */
template <tt_product_kind KIND, int V> static __global__ void end_conv_chunks(tt_conv_args c)
{
  int64_t member = blockIdx.x / (unsigned)c.a.parts;
  int32_t k = (int32_t)(blockIdx.x % (unsigned)c.a.parts) * TT_FRONT_THREADS + (int32_t)threadIdx.x;
  k *= V;
  if (k >= c.copy_step || (c.a.skip && c.a.skip[member])) return;
  const float *chunk = c.result + member * c.step + k;
  tt_floats<V> sum = tt_load_floats<V>(chunk);
#pragma unroll 4
  for (int32_t i = 1; i < c.copies; i++) {
    tt_floats<V> more = tt_load_floats<V>(chunk + i * c.copy_step);
#pragma unroll
    for (int q = 0; q < V; q++) sum.v[q] += more.v[q];
  }
  end_sum<KIND, V>(c.a, tt_front_end_of(c.a, member), member, k,
                   k / c.s.places % (c.s.results * c.a.layer.groups), sum);
}

/* All phases, for some members. */
template <tt_product_kind KIND>
static tt_err multiply(int tile, int32_t copies, const tt_front_layer_args &a, int32_t members,
                       cudaStream_t stream)
{
  tt_conv_args c;
  for (int32_t first = 0, all = 1; first < all; first += TT_CONV_PHASES) {
    all = tt_conv_describe(KIND, a, first, &c);
    if (tile < 0)
      tile = tt_choose_product_tile(c.s.results, c.columns,
                                    (int64_t)members * a.layer.groups * all * copies,
                                    a.multiprocessors, tt_conv_precision(a, c.s));
    c.copies = copies;
    c.copy_step = (int64_t)a.rows * a.layer.groups * c.s.results * c.s.places;
    c.step = copies * c.copy_step;
    c.result = a.chunk_sums;
    const auto &t = tt_product_tile_at<tt_conv_args, conv_kernels<KIND>>(tile);
    TT_TRY(tt_launch_conv(t, c, members, stream));
  }
  if (copies == 1) return TT_OK;
  int vectors = tt_front_has_vectors(a, c.s.places) && tt_has_vectors(c.result, 0, 0);
  c.a.parts = (int32_t)tt_grid_size(c.copy_step, TT_FRONT_THREADS * (vectors ? 4 : 1));
  return tt_launch(vectors ? end_conv_chunks<KIND, 4> : end_conv_chunks<KIND, 1>,
                   (unsigned)members * (unsigned)c.a.parts, TT_FRONT_THREADS, 0, stream, c);
}

/* The arguments from member `count` on. */
static void skip_members(tt_front_layer_args *a, int32_t count)
{
  if (a->skip) a->skip += count;
  a->x += count * a->x_step;
  if (a->d) a->d += count * a->d_step;
  a->w += count * a->w_step;
  a->result += count * a->step;
  if (a->slope) a->slope += count * a->step;
  if (a->y) a->y += count * a->step;
  if (a->before_slope) a->before_slope += count * a->step;
  if (a->add) a->add += count * a->add_step;
}

/* As many members at a time as there is memory for the sums of their chunks. */
template <tt_product_kind KIND>
static tt_err multiply_in_turns(int tile, tt_front_layer_args a, int32_t members,
                                cudaStream_t stream)
{
  int back = KIND == TT_PRODUCT_BACKWARD;
  int64_t copies = a.chunk_sums ? tt_layered_conv_sum_chunks(&a.layer, a.rows, back) : 1;
  int64_t values = back ? tt_front_values_in(&a.layer) : tt_front_values(&a.layer);
  int64_t most = copies > 1 ? a.most_chunk_sums / (copies * a.rows * values) : members;
  if (most < 1) return TT_FAIL(INTERNAL, "no memory was planned for the sums of a convolution");
  for (int32_t left = members; left > 0; left -= (int32_t)most) {
    int32_t now = left < most ? left : (int32_t)most;
    TT_TRY(multiply<KIND>(tile, (int32_t)copies, a, now, stream));
    skip_members(&a, now);
  }
  return TT_OK;
}

tt_err tt_conv_multiply(tt_product_kind kind, int tile, const tt_front_layer_args &a,
                        int32_t members, cudaStream_t stream)
{
  return kind == TT_PRODUCT_FORWARD
             ? multiply_in_turns<TT_PRODUCT_FORWARD>(tile, a, members, stream)
             : multiply_in_turns<TT_PRODUCT_BACKWARD>(tile, a, members, stream);
}

tt_err tt_front_conv_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_conv_multiply(TT_PRODUCT_FORWARD, -1, a, members, stream);
}

tt_err tt_front_conv_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_conv_multiply(TT_PRODUCT_BACKWARD, -1, a, members, stream);
}
