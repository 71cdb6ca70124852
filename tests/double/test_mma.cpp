/* test_mma.cpp — products on tensor cores against sums in double precision, for shapes that are no
 * multiple of a fragment: forward, backward and gradient of a layer; and the accuracy of TF32 and
 * its split. */
#include "tests/double/product.cuh"

#include "tests/double/rig.h"

enum { WARPS = 3, ROOM = 2 * TT_BLOCK_TILE_ROWS };

/* One layer with its arrays on the host; unused places are NaN. */
typedef struct layer_case {
  int in, out, rows;
  product_args a;
  std::vector<float> w, x, z, slope;
} layer_case;

static int odd_float4(int width)
{
  int up = (width + 3) / 4 * 4;
  return up % 8 ? up : up + 4;
}

static float number(int seed, int i) { return sinf(1.3f * (float)i + (float)seed) + 0.003f; }

static void fill(std::vector<float> &to, int at, int rows, int columns, int ld, int seed)
{
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) to[(size_t)(at + r * ld + c)] = number(seed, r * columns + c);
}

static layer_case make(int in, int out, int rows, int groups)
{
  layer_case k = {};
  k.in = in, k.out = out, k.rows = rows;
  tt_block_layer &n = k.a.layer;
  n.in = in, n.out = out, n.groups = (int8_t)groups;
  int half = (rows + 1) / 2; /* rows that the kernel takes at a time */
  n.share = (int16_t)((half + groups - 1) / groups);
  n.stride = odd_float4(in);
  n.bias = out * n.stride;
  k.a.x_ld = odd_float4(in), k.a.z_ld = odd_float4(out), k.a.rows = rows;
  k.w.assign((size_t)(n.bias + odd_float4(out)), 0.0f); /* gaps are zero */
  k.x.assign((size_t)(ROOM * k.a.x_ld), NAN);
  k.z.assign((size_t)(ROOM * k.a.z_ld), NAN);
  k.slope.assign((size_t)(ROOM * k.a.x_ld), NAN);
  fill(k.w, 0, out, in, n.stride, 1);
  fill(k.w, n.bias, 1, out, 0, 2);
  fill(k.x, 0, rows, in, k.a.x_ld, 3);
  fill(k.z, 0, rows, out, k.a.z_ld, 4);
  fill(k.slope, 0, rows, in, k.a.x_ld, 5);
  return k;
}

typedef struct results {
  std::vector<float> z, h, g;
} results;

static results run_case(layer_case k, void (*kernel)(product_args))
{
  results got;
  product_args a = k.a;
  std::vector<float> gradient(k.w.size(), 0.0f);
  float *w = on_device(k.w);
  a.w = w;
  a.x = on_device(k.x), a.z = on_device(k.z), a.slope = on_device(k.slope);
  a.h = on_device(k.slope), a.g = on_device(gradient);
  TT_CHECK_OK(tt_launch(kernel, 1, WARPS * TT_WARP_SIZE, 0, dev.stream, a));
  got.z = from_device(a.z, (int64_t)k.z.size());
  got.h = from_device(a.h, (int64_t)k.slope.size());
  got.g = from_device(a.g, (int64_t)k.w.size());
  for (float *at : {w, a.x, a.z, a.slope, a.h, a.g}) tt_dev_free(at);
  return got;
}

/* Largest difference so far, relative to the sum of the terms' sizes. */
static void worst(double *so_far, double got, double want, double size)
{
  double gap = fabs(got - want) / size;
  TT_CHECK(isnan(gap), ==, 0);
  *so_far = fmax(*so_far, gap);
}

typedef struct errors {
  double forward, backward, gradient;
} errors;

static void compare_forward(const layer_case &k, const results &got, errors *e)
{
  const tt_block_layer &n = k.a.layer;
  for (int r = 0; r < k.rows; r++)
    for (int o = 0; o < k.out; o++) {
      double sum = k.w[(size_t)(n.bias + o)], size = fabs(sum);
      for (int i = 0; i < k.in; i++) {
        double t = (double)k.x[(size_t)(r * k.a.x_ld + i)] * k.w[(size_t)(o * n.stride + i)];
        sum += t, size += fabs(t);
      }
      worst(&e->forward, got.z[(size_t)(r * k.a.z_ld + o)], sum, size);
    }
}

static void compare_backward(const layer_case &k, const results &got, errors *e)
{
  for (int r = 0; r < k.rows; r++)
    for (int i = 0; i < k.in; i++) {
      size_t at = (size_t)(r * k.a.x_ld + i);
      double sum = 0.0, size = 0.0, slope = k.slope[at];
      for (int o = 0; o < k.out; o++) {
        double t =
            (double)k.z[(size_t)(r * k.a.z_ld + o)] * k.w[(size_t)(o * k.a.layer.stride + i)];
        sum += t, size += fabs(t);
      }
      worst(&e->backward, got.h[at], sum * slope, size * fabs(slope));
    }
}

/* Also: the gaps of the gradient stay zero. */
static void compare_gradient(const layer_case &k, const results &got, errors *e)
{
  const tt_block_layer &n = k.a.layer;
  for (int o = 0; o < k.out; o++)
    for (int i = 0; i < n.stride; i++) {
      double sum = 0.0, size = 0.0;
      for (int r = 0; i < k.in && r < k.rows; r++) {
        double t = (double)k.z[(size_t)(r * k.a.z_ld + o)] * k.x[(size_t)(r * k.a.x_ld + i)];
        sum += t, size += fabs(t);
      }
      float g = got.g[(size_t)(o * n.stride + i)];
      if (i < k.in)
        worst(&e->gradient, g, sum, size);
      else
        TT_CHECK(g, ==, 0.0f);
    }
}

static const int shapes[][4] = {/* in, out, rows, groups */
                                {8, 8, 1, 1},    {8, 16, 32, 3},  {9, 8, 31, 1},   {17, 33, 40, 2},
                                {20, 12, 64, 3}, {31, 65, 33, 1}, {64, 32, 64, 1}, {70, 10, 7, 3}};

static errors errors_of(void (*kernel)(product_args))
{
  errors e = {};
  for (const int(&s)[4] : shapes) {
    layer_case k = make(s[0], s[1], s[2], s[3]);
    results got = run_case(k, kernel);
    compare_forward(k, got, &e);
    compare_backward(k, got, &e);
    compare_gradient(k, got, &e);
  }
  fprintf(stderr, "  forward %.1e, backward %.1e, gradient %.1e\n", e.forward, e.backward,
          e.gradient);
  return e;
}

/* Two roundings of 2^-11 to a product, rarely both at their worst. */
TT_TEST (tf32_keeps_eleven_bits) {
  for (auto kernel : {products<2>, products<4>, products<8>}) {
    errors e = errors_of(kernel);
    for (double x : {e.forward, e.backward, e.gradient}) {
      TT_CHECK(x, <, 0x1p-10);
      TT_CHECK(x, >, 0x1p-15);
    }
  }
}

TT_TEST (products_are_the_same_bits_in_every_schedule) {
  layer_case k = make(17, 33, 40, 2);
  std::vector<uint64_t> hashes;
  for (const schedule &s : schedules) {
    use_schedule(s);
    results got = run_case(k, products<4>);
    hashes.push_back(hash_of(got.z) ^ hash_of(got.h) ^ hash_of(got.g));
  }
  tt_double_reset();
  for (uint64_t hash : hashes) TT_CHECK(hash, ==, hashes[0]);
}

TT_TEST (factors_are_rounded_to_the_nearest_tf32) {
  for (int i = 0; i < 100000; i++) {
    float x = number(0, i) * powf(2.0f, (float)(i % 61 - 30)), near = tt_round_to_tf32(x);
    TT_CHECK(__float_as_uint(near) & 0x1FFFu, ==, 0u);
    TT_CHECK(fabs((double)near - (double)x), <=, 0x1p-11 * fabs((double)x));
  }
  TT_CHECK(tt_round_to_tf32(INFINITY), ==, INFINITY);
  TT_CHECK(isnan(tt_round_to_tf32(NAN)), !=, 0);
  TT_CHECK(tt_round_to_tf32(1.0f + 0x1p-11f), ==, 1.0f); /* ties to even */
  TT_CHECK(tt_round_to_tf32(-1.0f - 0x3p-11f), ==, -1.0f - 0x1p-9f);
  TT_CHECK(tt_round_to_tf32(-1.0f - 0x1p-11f - 0x1p-23f), ==, -1.0f - 0x1p-10f);
}

TT_SUITE(open_device, close_device)
