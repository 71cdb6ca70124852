/* group_norm.cu — group_norm of a front, by the formulas of core/formulas/layer_norm.h. See
 * front.cuh.
 *
 * A warp has one group of one row, whose values are neighbors in memory. */
#include "cuda/front/front_layer.cuh"

#include "core/formulas/layer_norm.h"

/* The group of a warp: group `of` of row `of` / groups. */
typedef struct norm_group {
  int32_t of, values, first, channel; /* values; place of the first in a member; its channel */
  int32_t lane, active;
} norm_group;

static __device__ norm_group norm_group_of(const tt_front_layer_args &a, const tt_front_block &b)
{
  const tt_front_layer &l = a.layer;
  int32_t each = l.channels / l.groups;
  norm_group g;
  g.of = b.part * TT_FRONT_WARPS + (int32_t)threadIdx.x / TT_WARP_SIZE;
  g.values = each * tt_front_places(l);
  g.first = g.of * g.values;
  g.channel = g.of % l.groups * each;
  g.lane = (int32_t)threadIdx.x % TT_WARP_SIZE;
  g.active = b.active && g.of < a.rows * l.groups;
  return g;
}

static __global__ void normalize_groups(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  norm_group g = norm_group_of(a, b);
  if (!g.active) return;
  const float *x = a.x + b.member * a.x_step + g.first, *w = a.w + b.member * a.w_step;
  int32_t places = tt_front_places(l);
  float sum = 0.0f, squares = 0.0f, share = 1.0f / (float)g.values;
  for (int32_t k = g.lane; k < g.values; k += TT_WARP_SIZE) sum += x[k];
  float mean = tt_warp_sum(sum) * share;
  for (int32_t k = g.lane; k < g.values; k += TT_WARP_SIZE)
    squares = tt_fma(x[k] - mean, x[k] - mean, squares);
  float inverse_std = tt_layer_norm_inverse_std(tt_warp_sum(squares), share);
  for (int32_t k = g.lane; k < g.values; k += TT_WARP_SIZE) {
    int32_t c = g.channel + k / places;
    float normalized = tt_layer_norm_normalized(x[k], mean, inverse_std);
    tt_front_finish_forward(a, b.member, g.first + k,
                            tt_layer_norm_output(normalized, w[l.weight + c], w[l.bias + c]));
  }
  if (!a.moments || g.lane) return;
  float *moments = a.moments + 2 * (b.member * a.rows * l.groups + g.of);
  moments[0] = mean;
  moments[1] = inverse_std;
}

static __global__ void normalize_groups_backward(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  norm_group g = norm_group_of(a, b);
  if (!g.active) return;
  const float *x = a.x + b.member * a.x_step + g.first, *d = a.d + b.member * a.d_step + g.first;
  const float *gain = a.w + b.member * a.w_step + l.weight + g.channel;
  const float *moments = a.moments + 2 * (b.member * a.rows * l.groups + g.of);
  int32_t places = tt_front_places(l);
  float plain = 0.0f, along = 0.0f, share = 1.0f / (float)g.values;
  float mean = moments[0], inverse_std = moments[1];
  for (int32_t k = g.lane; k < g.values; k += TT_WARP_SIZE) {
    float slope = gain[k / places] * d[k];
    plain += slope;
    along = tt_fma(slope, tt_layer_norm_normalized(x[k], mean, inverse_std), along);
  }
  plain = tt_warp_sum(plain) * share;
  along = tt_warp_sum(along) * share;
  for (int32_t k = g.lane; k < g.values; k += TT_WARP_SIZE) {
    float normalized = tt_layer_norm_normalized(x[k], mean, inverse_std);
    tt_front_finish_backward(
        a, b.member, g.first + k,
        tt_layer_norm_delta(gain[k / places] * d[k], plain, along, normalized, inverse_std));
  }
}

static int64_t parts_of(const tt_front_layer_args &a)
{
  return tt_grid_size((int64_t)a.rows * a.layer.groups, TT_FRONT_WARPS);
}

tt_err tt_front_norm_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_front_launch(normalize_groups, a, parts_of(a), members, 0, stream);
}

tt_err tt_front_norm_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_front_launch(normalize_groups_backward, a, parts_of(a), members, 0, stream);
}
