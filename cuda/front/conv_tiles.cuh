/* conv_tiles.cuh — the kernels of conv_product.cuh, forward and backward, and their launch. Device
 * code. */
#ifndef TT_CONV_TILES_CUH
#define TT_CONV_TILES_CUH
#include "cuda/front/conv_product.cuh"

static __device__ __forceinline__ tt_product_end tt_conv_end_of(const tt_front_layer_args &a,
                                                                const tt_conv_tile &t)
{
  int64_t group = (int64_t)t.group * t.s.results * t.s.places, offset = t.member * a.step + group;
  tt_product_end e;
  e.result = a.result + offset;
  e.slope = a.slope ? a.slope + offset : NULL;
  e.before_slope = a.before_slope ? a.before_slope + offset : NULL;
  e.h = a.y ? a.y + offset : NULL;
  e.residual = a.add ? a.add + t.member * a.add_step + group : NULL;
  e.activates_sum = a.layer.activates_sum;
  e.activation = a.activation;
  return e;
}

/* The results of a thread before the first product. */
template <class K>
static __device__ __forceinline__ void
tt_conv_begin_sums(const tt_conv_args &c, const tt_conv_tile &t, typename K::TILE::sums &sum)
{
  typedef typename K::TILE tile;
  const tt_front_layer &l = c.a.layer;
  float begin[tile::OWN_ROWS];
#pragma unroll
  for (int i = 0; i < tile::OWN_ROWS; i++) {
    int32_t row = t.row + tile::warp_row() + tt_product_row<K>(i);
    begin[i] = 0.0f;
    if (K::KIND == TT_PRODUCT_FORWARD && l.bias >= 0 && row < t.m)
      begin[i] = c.a.w[t.member * c.a.w_step + l.bias + t.group * t.m + row];
  }
  tt_product_each<K>(sum, [&](auto &x, int i, int) {
#pragma unroll
    for (int q = 0; q < (int)(sizeof x / sizeof *x); q++) x[q] = begin[i];
  });
}

template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    conv_product(tt_conv_args c)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_conv_block<K> b = {shared};
  const tt_front_layer_args &a = c.a;
  if ((a.skip && a.skip[blockIdx.x / (unsigned)a.parts]) || !b.begin(c)) return;
  const tt_conv_tile &t = b.tile();
  typename K::TILE::sums sum;
  tt_conv_begin_sums<K>(c, t, sum);
  tt_product_sums<K>(
      t.end - t.first, false, shared, sum,
      [&](float *stage, int32_t rest) { b.load(c, stage, rest); }, [](float) {});
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(sum, shared);
  __syncthreads();
  tt_product_end end = tt_conv_end_of(a, t);
  auto finish = [&](int32_t place, const auto &z) {
    enum { V = sizeof z / sizeof(float) };
    if (K::KIND == TT_PRODUCT_FORWARD)
      tt_finish_forward<V, true>(end, place, z);
    else
      tt_finish_backward<V>(end, place, z);
  };
  if (c.vector)
    b.template finish<4>(t.s.places, finish);
  else
    b.template finish<1>(t.s.places, finish);
}

/* Which arrays have vectors. Positions of a row are neighbors in the right factor if a position
 * reads one of its own number. */
template <tt_conv_direction D> static void tt_conv_find_vectors(tt_conv_args *c)
{
  const tt_front_layer_args &a = c->a;
  const tt_front_layer &l = a.layer;
  const tt_conv_shape s = tt_conv_shape_of<D>(l);
  int back = D == TT_CONV_BACKWARD;
  c->right_vector =
      tt_conv_is_plain(l) && tt_has_vectors(back ? a.d : a.x, back ? a.d_step : a.x_step, s.places);
  c->left_vector = tt_has_vectors(a.w + l.weight, a.w_step, back ? s.results : s.result_step) &&
                   (!back || s.taps == 1);
  c->vector = tt_conv_phases<D>(l, 0) * tt_conv_phases<D>(l, 1) == 1 &&
              tt_has_vectors(a.result, a.step, s.places);
  const float *same[] = {a.slope, a.y, a.before_slope};
  for (int i = 0; i < 3; i++)
    if (same[i]) c->vector = c->vector && tt_has_vectors(same[i], 0, 0);
  if (a.add) c->vector = c->vector && tt_has_vectors(a.add, a.add_step, 0);
}

template <class TILE, tt_product_kind KIND>
static constexpr tt_product_launch<tt_conv_args> tt_describe_conv()
{
  typedef tt_conv_kernel<TILE, KIND> k;
  return {conv_product<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
}

template <tt_conv_direction D>
static tt_err tt_launch_conv(int tile, const tt_front_layer_args &a, int32_t members,
                             cudaStream_t stream)
{
  enum : int { KIND = D == TT_CONV_FORWARD ? TT_PRODUCT_FORWARD : TT_PRODUCT_BACKWARD };
  static const tt_product_launch<tt_conv_args> tiles[] = {
#define X(tm, tn, down, warps_down, warps_across, stages, ...)                                     \
  tt_describe_conv<tt_product_tile<tm, tn, down, warps_down, warps_across, stages>,                \
                   (tt_product_kind)KIND>(),
      TT_PRODUCT_TILES(X)
#undef X
#define X(m, n, warps_down, warps_across, stages, ...)                                             \
  tt_describe_conv<tt_tensor_tile<m, n, warps_down, warps_across, stages>, (tt_product_kind)KIND>(),
          TT_TENSOR_TILES(X)
#undef X
  };
  const tt_product_launch<tt_conv_args> &t = tiles[tile];
  tt_conv_args c = {};
  c.a = a;
  c.copies = 1;
  for (int i = 0; i < 2; i++) c.phases[i] = tt_conv_phases<D>(a.layer, i);
  tt_conv_find_vectors<D>(&c);
  c.down = (int32_t)tt_grid_size(tt_conv_shape_of<D>(a.layer).results, t.rows);
  c.across = (int32_t)tt_grid_size(tt_conv_columns<D>(a), t.columns);
  c.a.parts = c.phases[0] * c.phases[1] * a.layer.groups * c.down * c.across;
  return tt_launch(t.kernel, (unsigned)members * (unsigned)c.a.parts, (unsigned)t.threads,
                   (size_t)t.bytes, stream, c);
}
#endif
