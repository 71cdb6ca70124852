/* test_convolve.cpp — convolutions as products: every tile gives the bits of sums in ascending order
 * of channels and positions of the kernel, for strides, paddings, dilations and groups, in every
 * order of threads; gradients in chunks have the same bits in one block and in several; other sums
 * in chunks have those of chains that are added in their order. */
#include "cuda/common/mma.cuh"
#include "cuda/front/conv_shape.cuh"
#include "cuda/plan/layered_sizes.h"
#include "cuda/product/product.cuh"

#include "tests/double/rig.h"

enum { MEMBERS = 3, SKIPPED = 1 };

typedef enum direction { FORWARD, BACKWARD, GRADIENT, DIRECTIONS } direction;

typedef struct shape {
  int rows, in, out, groups, size[2], kernel[2], stride[2], pad[2], dilation[2];
} shape;

/* Vectors on both sides; none, with more columns than a tile; a profile with a stride and a
 * dilation that have a common divisor; positions that nothing reads; groups; many panels. */
static const shape shapes[] = {
    {2, 8, 12, 1, {4, 6}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {3, 5, 37, 1, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 36, 3, 1, {1, 23}, {1, 3}, {1, 4}, {0, 5}, {1, 2}},
    {2, 3, 6, 1, {7, 5}, {2, 1}, {3, 2}, {1, 0}, {1, 1}},
    {3, 6, 66, 3, {4, 4}, {3, 2}, {2, 1}, {2, 1}, {1, 2}},
    {1, 20, 4, 2, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
};

static tt_front_layer layer_of(const shape &s)
{
  tt_front_layer l = {};
  l.kind = TT_FRONT_conv;
  l.in_channels = s.in, l.channels = s.out, l.groups = s.groups;
  for (int i = 0; i < 2; i++) {
    l.in[i] = s.size[i], l.size[i] = s.kernel[i], l.stride[i] = s.stride[i];
    l.pad[i] = s.pad[i], l.dilation[i] = s.dilation[i];
    l.out[i] = (s.size[i] + 2 * s.pad[i] - s.dilation[i] * (s.kernel[i] - 1) - 1) / s.stride[i] + 1;
  }
  l.weight = 4;
  l.bias = 4 + tt_front_weights(&l);
  return l;
}

static std::vector<float> values(int64_t count, int seed)
{
  std::vector<float> v((size_t)count);
  for (int64_t i = 0; i < count; i++) v[(size_t)i] = sinf(1.3f * (float)i + (float)seed) + 0.003f;
  return v;
}

/* A conv with all its arrays. `ends`: a residual after tanh, or before silu; the slope is stored. */
typedef struct conv_case {
  direction d;
  shape s;
  tt_front_layer l;
  int tensor, ends;
  int64_t w_step, x_step, d_step;
  std::vector<float> w, x, delta, slope, add;
} conv_case;

static tt_activation activation_of(const conv_case &c)
{
  static const tt_activation all[] = {TT_ACT_identity, TT_ACT_tanh, TT_ACT_silu};
  return all[c.ends];
}

static conv_case make(direction d, const shape &s, int tensor, int ends)
{
  conv_case c = {d, s, layer_of(s), tensor, ends, 0, 0, 0, {}, {}, {}, {}, {}};
  c.l.activates_sum = (int8_t)(ends == 2);
  c.w_step = tt_param_stride(c.l.bias + s.out);
  c.x_step = s.rows * tt_front_values_in(&c.l);
  c.d_step = s.rows * tt_front_values(&c.l);
  c.w = values(MEMBERS * c.w_step, 1);
  c.x = values(MEMBERS * c.x_step, 2);
  c.delta = values(MEMBERS * c.d_step, 3);
  int64_t results = MEMBERS * (d == BACKWARD ? c.x_step : c.d_step);
  c.slope = values(results, 4);
  c.add = values(results, 5);
  return c;
}

/* A sum of products in ascending order: one by one, or eight rounded products at a time; with
 * `chunk`, a sum of such sums of as many products. */
typedef struct chain {
  int tensor, count;
  float sum, eight;
  int chunk;
  float total;
} chain;

static float end(const chain &c)
{
  return c.total + (c.count % TT_MMA_INNER ? c.sum + c.eight : c.sum);
}

static void multiply(chain *c, float a, float b)
{
  if (c->chunk && c->count && c->count % c->chunk == 0) {
    c->total = end(*c);
    c->sum = 0.0f;
  }
  c->count++;
  if (!c->tensor) c->sum = tt_fma(a, b, c->sum);
  if (!c->tensor) return;
  c->eight += tt_round_to_tf32(a) * tt_round_to_tf32(b);
  if (c->count % TT_MMA_INNER) return;
  c->sum += c->eight;
  c->eight = 0.0f;
}

/* A chain of `count` products in as many chunks as a training step has; chunks are whole panels. */
static chain begin(const conv_case &c, int count)
{
  int64_t copies = tt_layered_conv_sum_chunks(&c.l, c.s.rows, c.d == BACKWARD);
  int64_t chunk = tt_round_up(tt_ceil_div(count, copies), 32);
  return {c.tensor, 0, 0.0f, 0.0f, copies > 1 ? (int)chunk : 0, -0.0f};
}

static float at(const std::vector<float> &v, int64_t member_step, int member, int64_t index)
{
  return v[(size_t)(member * member_step + index)];
}
static float weight(const conv_case &c, int m, int o, int i, int tap)
{
  int64_t each = tt_front_fan_in(&c.l), taps = c.s.kernel[0] * c.s.kernel[1];
  return at(c.w, c.w_step, m, c.l.weight + o * each + i * taps + tap);
}

/* Result channel o of a row at a position; i counts the inputs of the group. */
static float forward_sum(const conv_case &c, int m, int r, int o, int p)
{
  int in = c.s.in / c.s.groups, group = o / (c.s.out / c.s.groups);
  int taps = c.s.kernel[0] * c.s.kernel[1];
  chain sum = begin(c, in * taps);
  int64_t places = tt_front_positions_in(&c.l);
  for (int i = 0; i < in; i++)
    for (int tap = 0; tap < taps; tap++) {
      int32_t read = tt_front_position_read(&c.l, p, tap);
      int64_t channel = (int64_t)r * c.s.in + group * in + i;
      float x = read < 0 ? 0.0f : at(c.x, c.x_step, m, channel * places + read);
      multiply(&sum, weight(c, m, o, i, tap), x);
    }
  return end(sum) + at(c.w, c.w_step, m, c.l.bias + o);
}

/* The output that reads position `input` by tap `tap`; -1: none. */
static int32_t reader_of(const tt_front_layer *l, int32_t input, int32_t tap)
{
  int32_t output = (int32_t)tt_front_positions(l) - 1;
  while (output >= 0 && tt_front_position_read(l, output, tap) != input) output--;
  return output;
}

/* Whether tap `tap` of an axis could read `position`, were the output long enough. */
static int in_phase(const shape &s, int axis, int position, int tap)
{
  return (position + s.pad[axis] - tap * s.dilation[axis]) % s.stride[axis] == 0;
}

static float backward_sum(const conv_case &c, int m, int r, int channel, int p)
{
  const shape &s = c.s;
  int in = s.in / s.groups, out = s.out / s.groups, group = channel / in;
  int64_t places = tt_front_positions(&c.l);
  auto reads = [&](int tap) {
    return in_phase(s, 0, p / s.size[1], tap / s.kernel[1]) &&
           in_phase(s, 1, p % s.size[1], tap % s.kernel[1]);
  };
  int taps = 0;
  for (int tap = 0; tap < s.kernel[0] * s.kernel[1]; tap++) taps += reads(tap);
  chain sum = begin(c, out * taps);
  for (int o = 0; o < out; o++)
    for (int tap = 0; tap < s.kernel[0] * s.kernel[1]; tap++) {
      if (!reads(tap)) continue;
      int32_t from = reader_of(&c.l, p, tap);
      int64_t of = (int64_t)r * s.out + group * out + o;
      float d = from < 0 ? 0.0f : at(c.delta, c.d_step, m, of * places + from);
      multiply(&sum, weight(c, m, group * out + o, channel % in, tap), d);
    }
  return end(sum);
}

static float gradient_sum(const conv_case &c, int m, int o, int i, int tap)
{
  const shape &s = c.s;
  int in = s.in / s.groups, group = o / (s.out / s.groups);
  int64_t chunk = tt_layered_conv_chunk(&c.l, s.rows), places = tt_front_positions(&c.l);
  int64_t from_places = tt_front_positions_in(&c.l), all = s.rows * places;
  float total = -0.0f;
  for (int64_t first = 0; first < all; first += chunk) {
    chain sum = {c.tensor, 0, 0.0f, 0.0f, 0, -0.0f};
    for (int64_t k = first; k < all && k < first + chunk; k++) {
      int64_t r = k / places;
      int32_t read = tt_front_position_read(&c.l, (int32_t)(k % places), tap);
      int64_t channel = r * s.in + group * in + i;
      float x = read < 0 ? 0.0f : at(c.x, c.x_step, m, channel * from_places + read);
      multiply(&sum, at(c.delta, c.d_step, m, (r * s.out + o) * places + k % places), x);
    }
    total += end(sum);
  }
  return total;
}

typedef struct conv_results {
  std::vector<float> result, slope, before;
} conv_results;

static void expect_end(const conv_case &c, size_t at_index, float sum, conv_results &want)
{
  float add = c.ends ? c.add[at_index] : 0.0f;
  if (c.d == BACKWARD) {
    if (c.ends) want.before[at_index] = sum = sum + add;
    want.result[at_index] = c.ends ? sum * c.slope[at_index] : sum;
    return;
  }
  if (c.ends == 2) sum += add;
  tt_activation f = activation_of(c);
  want.result[at_index] = tt_act(f, sum);
  if (c.ends) want.slope[at_index] = tt_act_grad(f, sum, want.result[at_index]);
  if (c.ends == 1) want.result[at_index] += add;
}

/* Of the members that are not skipped; NaN in the others. */
static conv_results expected(const conv_case &c)
{
  conv_results want;
  int64_t each = c.d == GRADIENT ? c.w_step : c.d == BACKWARD ? c.x_step : c.d_step;
  int64_t places = c.d == BACKWARD ? tt_front_positions_in(&c.l) : tt_front_positions(&c.l);
  want.result.assign((size_t)(MEMBERS * each), NAN);
  want.slope = c.slope;
  want.before.assign((size_t)(MEMBERS * each), NAN);
  int64_t taps = c.s.kernel[0] * c.s.kernel[1], fan = tt_front_fan_in(&c.l);
  for (int m = 0; m < MEMBERS; m++) {
    if (m == SKIPPED) continue;
    size_t first = (size_t)(m * each);
    for (int64_t k = 0; c.d == GRADIENT && k < tt_front_weights(&c.l); k++)
      want.result[first + (size_t)(c.l.weight + k)] =
          gradient_sum(c, m, (int)(k / fan), (int)(k % fan / taps), (int)(k % taps));
    for (int64_t k = 0; c.d != GRADIENT && k < each; k++) {
      int p = (int)(k % places), channels = c.d == BACKWARD ? c.s.in : c.s.out;
      int channel = (int)(k / places % channels), r = (int)(k / places / channels);
      float sum =
          c.d == BACKWARD ? backward_sum(c, m, r, channel, p) : forward_sum(c, m, r, channel, p);
      expect_end(c, first + (size_t)k, sum, want);
    }
  }
  return want;
}

static conv_results compute(const conv_case &c, int tile, int64_t copies)
{
  int64_t each = c.d == GRADIENT ? c.w_step : c.d == BACKWARD ? c.x_step : c.d_step;
  std::vector<float> nothing((size_t)(MEMBERS * each), NAN);
  int64_t most = MEMBERS * copies * tt_front_weights(&c.l);
  if (c.d != GRADIENT) /* for one member at a time */
    most = each * tt_layered_conv_sum_chunks(&c.l, c.s.rows, c.d == BACKWARD);
  std::vector<float> sums((size_t)most, NAN);
  std::vector<int8_t> skipped(MEMBERS, 0);
  skipped[SKIPPED] = 1;
  float *w = on_device(c.w), *x = on_device(c.x), *delta = on_device(c.delta),
        *slope = on_device(c.slope), *add = on_device(c.add), *result = on_device(nothing),
        *before = on_device(nothing), *chunk_sums = on_device(sums);
  int8_t *skip = on_device(skipped);
  tt_front_layer_args a = {};
  a.layer = c.l, a.skip = skip, a.rows = c.s.rows;
  a.x = x, a.x_step = c.x_step, a.d = delta, a.d_step = c.d_step, a.w = w, a.w_step = c.w_step;
  a.result = a.gradient = result, a.step = each, a.chunk_sums = chunk_sums;
  a.most_chunk_sums = most;
  a.activation = activation_of(c);
  if (c.ends) {
    a.slope = slope;
    a.add = add, a.add_step = each;
    if (c.d == BACKWARD) a.before_slope = before;
  }
  if (c.d == FORWARD)
    TT_CHECK_OK(tt_conv_multiply(TT_PRODUCT_FORWARD, tile, a, MEMBERS, dev.stream));
  else if (c.d == BACKWARD)
    TT_CHECK_OK(tt_conv_multiply(TT_PRODUCT_BACKWARD, tile, a, MEMBERS, dev.stream));
  else
    TT_CHECK_OK(tt_conv_multiply_gradient(tile, (int32_t)copies, a, MEMBERS, dev.stream));
  conv_results got = {from_device(result, MEMBERS * each), {}, {}};
  if (c.d != GRADIENT) got.slope = from_device(slope, MEMBERS * each);
  if (c.d == BACKWARD) got.before = from_device(before, MEMBERS * each);
  for (float *p : {w, x, delta, slope, add, result, before, chunk_sums}) tt_dev_free(p);
  tt_dev_free(skip);
  return got;
}

static void same(const char *what, const conv_case &c, int tile, const std::vector<float> &want,
                 const std::vector<float> &got)
{
  for (size_t i = 0; i < got.size(); i++) {
    if ((isnan(want[i]) && isnan(got[i])) || !memcmp(&want[i], &got[i], sizeof(float))) continue;
    fprintf(stderr,
            "direction %d, tile %d, %d rows, %d to %d channels, ends %d: %s %d is %.9g, not "
            "%.9g\n",
            (int)c.d, tile, c.s.rows, c.s.in, c.s.out, c.ends, what, (int)i, (double)got[i],
            (double)want[i]);
    TT_CHECK(got[i], ==, want[i]);
  }
}

static void check(const conv_case &c, const conv_results &want, int tile, int64_t copies)
{
  conv_results got = compute(c, tile, copies);
  same("result", c, tile, want.result, got.result);
  same("slope", c, tile, want.slope, got.slope);
  same("before", c, tile, want.before, got.before);
}

TT_TEST (every_tile_sums_a_conv_in_ascending_order) {
  int number = 0;
  for (const shape &s : shapes)
    for (int d = FORWARD; d < GRADIENT; d++)
      for (int tensor = 0, tile = 0; tensor < 2; tensor++, number++) {
        conv_case c = make((direction)d, s, tensor, number % 3);
        conv_results want = expected(c);
        for (; tile < (tensor ? TT_ALL_TILE_COUNT : TT_PRODUCT_TILE_COUNT); tile++) {
          use_schedule(schedules[(number + tile) % 4]);
          check(c, want, tile, 1);
        }
      }
  tt_double_reset();
}

TT_TEST (long_sums_are_those_of_chunks_in_their_order) {
  static const shape split[] = {
      {2, 130, 4, 1, {1, 4}, {1, 9}, {1, 1}, {0, 4}, {1, 1}},
      {1, 3, 460, 1, {4, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
  };
  int number = 0;
  for (int d = FORWARD; d < GRADIENT; d++)
    for (int tile = 0; tile < TT_ALL_TILE_COUNT; tile++, number++) {
      conv_case c = make((direction)d, split[d], tile >= TT_PRODUCT_TILE_COUNT, number % 3);
      TT_CHECK(tt_layered_conv_sum_chunks(&c.l, c.s.rows, d == BACKWARD), ==, 2);
      use_schedule(schedules[number % 4]);
      check(c, expected(c), tile, 1);
    }
  tt_double_reset();
}

/* Whatever the number of rows, the sums of one member fit into the memory that is planned. */
TT_TEST (sums_in_chunks_fit_for_any_number_of_rows) {
  for (int out = 1; out < 600; out += 37)
    for (int width = 1; width < 40; width += 6)
      for (int stride = 1; stride < 3; stride++) {
        shape s = {1, 600 - out, out, 1, {width, width}, {3, 3}, {stride, stride}, {1, 1}, {1, 1}};
        tt_front_layer l = layer_of(s);
        for (int64_t rows = 1; rows < 70; rows++) {
          int64_t forward = tt_layered_conv_sum_chunks(&l, rows, 0),
                  backward = tt_layered_conv_sum_chunks(&l, rows, 1);
          if (forward > 1)
            TT_CHECK(rows * forward * tt_front_values(&l), <=, (int64_t)TT_CONV_SUMS);
          if (backward > 1)
            TT_CHECK(rows * backward * tt_front_values_in(&l), <=, (int64_t)TT_CONV_SUMS);
        }
      }
}

TT_TEST (chunks_of_a_conv_have_the_same_bits_in_one_block_and_in_several) {
  static const shape long_sums[] = {
      {9, 2, 5, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {60, 4, 8, 2, {1, 9}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
  };
  int number = 0;
  auto every_tile = [&](const shape &s) {
    for (int tile = 0; tile < TT_CHUNK_TILE_COUNT + TT_TENSOR_CHUNK_TILE_COUNT; tile++, number++) {
      conv_case c = make(GRADIENT, s, tile >= TT_CHUNK_TILE_COUNT, 0);
      conv_results want = expected(c);
      int64_t chunks = tt_layered_conv_chunks(&c.l, s.rows);
      for (int64_t copies = 1; copies <= chunks; copies += chunks > 1 ? chunks - 1 : 1) {
        use_schedule(schedules[(number + copies) % 4]);
        check(c, want, tile, copies);
      }
    }
  };
  for (const shape &s : long_sums) {
    tt_front_layer l = layer_of(s);
    TT_CHECK(tt_layered_conv_chunks(&l, s.rows), >, 1);
    every_tile(s);
  }
  for (const shape &s : shapes) every_tile(s);
  tt_double_reset();
}

TT_SUITE(open_device, close_device)
