/* conv_product.cu — what a conv multiplies; see conv_product.cuh. */
#include "cuda/front/conv_product.cuh"

/* Results along one axis, and the position that result j reads by tap t:
 * read + j read_step + t tap_read. */
typedef struct conv_axis {
  int32_t results, first, step; /* result j is at position first + j step */
  int32_t read, read_step, tap_read;
  int32_t taps, tap, tap_step; /* tap t is position tap + t tap_step of the kernel */
} conv_axis;

static conv_axis forward_axis(const tt_front_layer &l, int i)
{
  return {l.out[i], 0, 1, -l.pad[i], l.stride[i], l.dilation[i], l.size[i], 0, 1};
}

static conv_axis backward_axis(const tt_front_layer &l, int i, int32_t phase)
{
  int32_t stride = l.stride[i], dilation = l.dilation[i], size = l.size[i], tap = 0, tap_step = 1;
  while (tap_step * dilation % stride) tap_step++;
  while (tap < tap_step && tap * dilation % stride != phase) tap++;
  int32_t padding = l.pad[i] - phase; /* before the first position of the phase */
  int32_t skipped = padding > 0 ? (padding + stride - 1) / stride : 0;
  int32_t first = skipped * stride - padding;
  int32_t results = first < l.in[i] ? (l.in[i] - 1 - first) / stride + 1 : 0;
  int32_t taps = tap < tap_step && tap < size ? (size - 1 - tap) / tap_step + 1 : 0;
  int32_t read = skipped - (tap * dilation - phase) / stride;
  return {results, first, stride, read, 1, -(tap_step * dilation / stride), taps, tap, tap_step};
}

/* The entries of a phase whose axes are `v` and `h`; result_width: of the result. */
static tt_conv_phase phase_of(const tt_conv_args &c, const conv_axis &v, const conv_axis &h,
                              int32_t result_width)
{
  const tt_front_layer &l = c.a.layer;
  const tt_conv_shape &s = c.s;
  int32_t w = c.width, kernel = l.size[1];
  tt_conv_index position = {
      {v.read * w + h.read, v.read, h.read, v.first * result_width + h.first},
      {{l.groups * s.inner * s.from_places, 0, 0, l.groups * s.results * s.places},
       {v.read_step * w, v.read_step, 0, v.step * result_width},
       {h.read_step, 0, h.read_step, h.step}},
      {v.results, h.results},
      c.a.rows * v.results * h.results};
  tt_conv_index tap = {{0, 0, 0, v.tap * kernel + h.tap},
                       {{s.from_places, 0, 0, s.inner_step},
                        {v.tap_read * w, v.tap_read, 0, v.tap_step * kernel},
                        {h.tap_read, 0, h.tap_read, h.tap_step}},
                       {v.taps, h.taps},
                       s.inner * v.taps * h.taps};
  return {position, tap};
}

/* The factors, and which arrays have vectors. Positions of a row are neighbors in the right factor
 * if a position reads one of its own number. */
static void describe_factors(tt_product_kind kind, tt_conv_args *c)
{
  const tt_front_layer_args &a = c->a;
  const tt_front_layer &l = a.layer;
  const tt_conv_shape &s = c->s;
  int back = kind == TT_PRODUCT_BACKWARD, gradient = kind == TT_PRODUCT_GRADIENT, plain = 1;
  for (int i = 0; i < 2; i++) plain &= l.size[i] == 1 && l.stride[i] == 1 && l.pad[i] == 0;
  c->left = gradient ? a.d : a.w + l.weight;
  c->left_step = gradient ? a.d_step : a.w_step;
  c->left_group = (int64_t)s.results * (gradient ? s.places : s.inner * s.taps);
  c->side_step = gradient ? s.places : s.result_step;
  c->right = back ? a.d : a.x;
  c->right_step = back ? a.d_step : a.x_step;
  c->right_group = (int64_t)s.inner * s.from_places;
  c->height = back ? l.out[0] : l.in[0];
  c->width = back ? l.out[1] : l.in[1];
  c->left_vector = tt_has_vectors(c->left, c->left_step, back ? s.results : c->side_step) &&
                   (!back || s.taps == 1);
  c->right_vector = plain && tt_has_vectors(c->right, c->right_step, s.places);
  c->vector = (!back || l.stride[0] * l.stride[1] == 1) && tt_front_has_vectors(a, s.places);
}

int32_t tt_conv_describe(tt_product_kind kind, const tt_front_layer_args &a, int32_t first,
                         tt_conv_args *out)
{
  const tt_front_layer &l = a.layer;
  int back = kind == TT_PRODUCT_BACKWARD, phases[] = {1, 1};
  for (int i = 0; back && i < 2; i++) phases[i] = min(l.stride[i], l.in[i] + l.pad[i]);
  *out = {};
  out->a = a;
  out->s = tt_conv_shape_of(l, kind);
  out->copies = 1;
  describe_factors(kind, out);
  for (int32_t p = first; p < phases[0] * phases[1] && out->phases < TT_CONV_PHASES; p++) {
    conv_axis axis[2];
    for (int i = 0; i < 2; i++)
      axis[i] = back ? backward_axis(l, i, i ? p % phases[1] : p / phases[1]) : forward_axis(l, i);
    tt_conv_phase *q = &out->phase[out->phases++];
    *q = phase_of(*out, axis[0], axis[1], back ? l.in[1] : l.out[1]);
    int32_t columns = kind == TT_PRODUCT_GRADIENT ? q->tap.count : q->position.count;
    if (columns > out->columns) out->columns = columns;
  }
  return phases[0] * phases[1];
}
