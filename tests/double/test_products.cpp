/* test_products.cpp — products of the layered path: every tile gives the bits of sums in ascending
 * order, for shapes that are no multiple of a tile, a panel or a vector, in every order of threads;
 * gradients in chunks of rows have the same bits in one block and in several; the rule by which a
 * tile is chosen. */
#include "cuda/common/mma.cuh"
#include "cuda/layered/layered_internal.cuh"
#include "cuda/product/multiply.cuh"

#include "tests/double/rig.h"

enum { MEMBERS = 3, SKIPPED = 1, ENDS = 4 };

/* One member: result [m x n], k inner indices. */
typedef struct shape {
  int m, n, k;
} shape;

/* A product with all its arrays, [MEMBERS][...] without gaps. */
typedef struct product_case {
  tt_product_kind kind;
  shape s;
  int end;    /* which of the things that may follow */
  int tensor; /* 1: on tensor cores */
  std::vector<float> left, right, bias, slope, h, residual;
} product_case;

typedef struct product_results {
  std::vector<float> result, slope, before, bias; /* biases are as far apart as results */
} product_results;

static std::vector<float> values(int count, int seed)
{
  std::vector<float> v((size_t)count);
  for (int i = 0; i < count; i++) v[(size_t)i] = sinf(1.3f * (float)i + (float)seed) + 0.003f;
  return v;
}

static product_case make(tt_product_kind kind, shape s, int end, int tensor)
{
  product_case c = {kind, s, end, tensor, {}, {}, {}, {}, {}, {}};
  c.left = values(MEMBERS * s.m * s.k, 1);
  c.right = values(MEMBERS * s.n * s.k, 2);
  c.bias = values(MEMBERS * s.n, 3);
  c.slope = values(MEMBERS * s.m * s.n, 4);
  c.h = values(MEMBERS * s.m * s.n, 5);
  c.residual = values(MEMBERS * s.m * s.n, 6);
  return c;
}

static tt_activation activation_of(const product_case &c)
{
  static const tt_activation all[ENDS] = {TT_ACT_identity, TT_ACT_relu, TT_ACT_silu, TT_ACT_tanh};
  return all[c.end];
}

/* Which optional arrays a case has. */
static int has_slope(const product_case &c) { return c.end == 2; }
static int has_h(const product_case &c) { return c.end == 1 || c.end == 3; }
static int has_residual(const product_case &c) { return c.end > 1; }

static float left_of(const product_case &c, int member, int i, int k)
{
  int at = c.kind == TT_PRODUCT_GRADIENT ? k * c.s.m + i : i * c.s.k + k;
  return c.left[(size_t)(member * c.s.m * c.s.k + at)];
}
static float right_of(const product_case &c, int member, int j, int k)
{
  int at = c.kind == TT_PRODUCT_FORWARD ? j * c.s.k + k : k * c.s.n + j;
  return c.right[(size_t)(member * c.s.n * c.s.k + at)];
}

/* A chain of the inner indices [begin, end): multiply-adds, or eight rounded products at a time, as
 * the tensor cores of the double add them. */
static float chain(const product_case &c, int member, int i, int j, int begin, int end, float sum)
{
  for (int k = begin; k < end && !c.tensor; k++)
    sum = tt_fma(left_of(c, member, i, k), right_of(c, member, j, k), sum);
  for (int k = begin; k < end && c.tensor; k += TT_MMA_INNER) {
    float eight = 0.0f;
    for (int q = k; q < end && q < k + TT_MMA_INNER; q++)
      eight +=
          tt_round_to_tf32(left_of(c, member, i, q)) * tt_round_to_tf32(right_of(c, member, j, q));
    sum += eight;
  }
  return sum;
}

static float sum_of(const product_case &c, int member, int i, int j)
{
  float bias = c.kind == TT_PRODUCT_FORWARD ? c.bias[(size_t)(member * c.s.n + j)] : 0.0f;
  return chain(c, member, i, j, 0, c.s.k, bias);
}

/* The result at `at`, and what else is stored there. */
static void expect_one(const product_case &c, float sum, size_t at, product_results &want)
{
  tt_activation f = activation_of(c);
  want.result[at] = sum;
  if (c.kind == TT_PRODUCT_FORWARD) {
    want.result[at] = tt_act(f, sum);
    if (has_slope(c)) want.slope[at] = tt_act_grad(f, sum, want.result[at]);
  }
  if (c.kind != TT_PRODUCT_BACKWARD) return;
  if (has_residual(c)) want.before[at] = sum = sum + c.residual[at];
  if (has_slope(c)) sum *= c.slope[at];
  if (has_h(c)) sum *= tt_act_grad(f, c.h[at], c.h[at]);
  want.result[at] = sum;
}

/* Of the members that are not skipped; NaN in the others. */
static product_results expected(const product_case &c)
{
  product_results want;
  size_t count = (size_t)(MEMBERS * c.s.m * c.s.n);
  want.result.assign(count, NAN);
  want.slope = c.slope;
  want.before.assign(count, NAN);
  want.bias.assign(count, NAN);
  for (int member = 0; member < MEMBERS; member++)
    for (int i = 0; member != SKIPPED && i < c.s.m; i++) {
      float bias = 0.0f;
      for (int k = 0; k < c.s.k; k++) bias += left_of(c, member, i, k);
      if (c.kind == TT_PRODUCT_GRADIENT) want.bias[(size_t)(member * c.s.m * c.s.n + i)] = bias;
      for (int j = 0; j < c.s.n; j++)
        expect_one(c, sum_of(c, member, i, j), (size_t)((member * c.s.m + i) * c.s.n + j), want);
    }
  return want;
}

static tt_factor factor(const float *at, int lines, int ld)
{
  tt_factor f = {at, (int64_t)lines * ld, ld, ld % 4 == 0};
  return f;
}

static product_results compute(const product_case &c, int tile)
{
  const shape &s = c.s;
  std::vector<float> nothing((size_t)(MEMBERS * s.m * s.n), NAN);
  std::vector<int8_t> skipped(MEMBERS, 0);
  skipped[SKIPPED] = 1;
  float *left = on_device(c.left), *right = on_device(c.right), *bias = on_device(c.bias),
        *slope = on_device(c.slope), *h = on_device(c.h), *residual = on_device(c.residual),
        *result = on_device(nothing), *before = on_device(nothing), *biases = on_device(nothing);
  int8_t *skip = on_device(skipped);
  int along = c.kind != TT_PRODUCT_GRADIENT, both = c.kind == TT_PRODUCT_FORWARD;
  tt_product_args a = {};
  a.skip = skip;
  a.left = factor(left, along ? s.m : s.k, along ? s.k : s.m);
  a.right = factor(right, both ? s.n : s.k, both ? s.k : s.n);
  a.m = s.m, a.n = s.n, a.k = s.k;
  a.result = result, a.step = (int64_t)s.m * s.n, a.vector = s.n % 4 == 0;
  a.activation = activation_of(c);
  a.bias = bias, a.bias_step = s.n;
  a.slope = has_slope(c) ? slope : NULL;
  a.h = has_h(c) ? h : NULL;
  a.residual = has_residual(c) ? residual : NULL;
  a.before_slope = has_residual(c) ? before : NULL;
  a.bias_gradient = biases;
  TT_CHECK_OK(tt_multiply(c.kind, tile, a, MEMBERS, dev.stream));
  int64_t count = MEMBERS * s.m * s.n;
  product_results got = {from_device(result, count), from_device(slope, count),
                         from_device(before, count), from_device(biases, count)};
  for (float *at : {left, right, bias, slope, h, residual, result, before, biases}) tt_dev_free(at);
  tt_dev_free(skip);
  return got;
}

static void same(const char *what, const product_case &c, int tile, const std::vector<float> &want,
                 const std::vector<float> &got)
{
  for (size_t i = 0; i < want.size(); i++) {
    if ((isnan(want[i]) && isnan(got[i])) || !memcmp(&want[i], &got[i], sizeof(float))) continue;
    fprintf(stderr, "kind %d, tile %d, %d x %d x %d, end %d: %s %d is %.9g, not %.9g\n",
            (int)c.kind, tile, c.s.m, c.s.n, c.s.k, c.end, what, (int)i, (double)got[i],
            (double)want[i]);
    TT_CHECK(got[i], ==, want[i]);
  }
}

static void check(const product_case &c, const product_results &want, int tile)
{
  product_results got = compute(c, tile);
  same("result", c, tile, want.result, got.result);
  same("slope", c, tile, want.slope, got.slope);
  if (c.kind == TT_PRODUCT_BACKWARD) same("before", c, tile, want.before, got.before);
  if (c.kind == TT_PRODUCT_GRADIENT) same("bias", c, tile, want.bias, got.bias);
}

/* Vectors on every side, on none, on some; one result; several panels and tiles. */
static const shape shapes[] = {{1, 1, 1},   {20, 36, 40}, {33, 17, 70}, {130, 132, 20},
                               {7, 140, 3}, {140, 5, 8},  {16, 64, 66}};

TT_TEST (every_tile_sums_in_ascending_order) {
  int number = 0;
  for (const shape &s : shapes)
    for (int kind = 0; kind < TT_PRODUCT_KINDS; kind++, number++) {
      int tile = 0;
      for (int tensor = 0; tensor < 2; tensor++) {
        product_case c = make((tt_product_kind)kind, s, number % ENDS, tensor);
        product_results want = expected(c);
        for (; tile < (tensor ? TT_ALL_TILE_COUNT : TT_PRODUCT_TILE_COUNT); tile++) {
          use_schedule(schedules[(number + tile) % 4]);
          check(c, want, tile);
        }
      }
    }
  tt_double_reset();
}

TT_TEST (every_end_follows_every_kind) {
  for (int kind = 0; kind < TT_PRODUCT_KINDS; kind++)
    for (int end = 0; end < ENDS; end++)
      for (const shape &s : {shape{5, 8, 6}, shape{5, 7, 6}}) {
        for (int tensor = 0; tensor < 2; tensor++) {
          product_case c = make((tt_product_kind)kind, s, end, tensor);
          check(c, expected(c), (tensor ? TT_ALL_TILE_COUNT : TT_PRODUCT_TILE_COUNT) - 1);
        }
      }
}

/* gradients in chunks */

enum { CHUNK = 128 };

/* The gradient [m][n] of a member and its biases [m]: each chunk from 0, then in order. */
static void expect_chunks(const product_case &c, int member, int i, product_results &want)
{
  for (int j = 0; j <= c.s.n; j++) { /* n: the bias */
    float total = 0.0f;
    for (int first = 0; first < c.s.k; first += CHUNK) {
      float sum = 0.0f;
      int last = c.s.k < first + CHUNK ? c.s.k : first + CHUNK;
      if (j < c.s.n) sum = chain(c, member, i, j, first, last, sum);
      for (int k = first; k < last && j == c.s.n; k++) sum += left_of(c, member, i, k);
      total = first ? total + sum : sum;
    }
    size_t at = (size_t)(member * c.s.m * c.s.n + (j < c.s.n ? i * c.s.n + j : i));
    (j < c.s.n ? want.result : want.bias)[at] = total;
  }
}

/* Add the copies [copies][count] as the optimizer does. */
static std::vector<float> add_copies(const std::vector<float> &from, size_t count, int copies)
{
  std::vector<float> sum(from.begin(), from.begin() + (long)count);
  for (int c = 1; c < copies; c++)
    for (size_t i = 0; i < count; i++) sum[i] += from[(size_t)c * count + i];
  return sum;
}

/* Two layers in one launch: [copies][2][MEMBERS][m * n] results, the same for the biases. */
static void check_chunks(const product_case (&c)[2], int tile, int copies)
{
  size_t most = 0, each[2];
  for (int l = 0; l < 2; l++) {
    each[l] = (size_t)(MEMBERS * c[l].s.m * c[l].s.n);
    if (each[l] > most) most = each[l];
  }
  std::vector<float> nothing((size_t)copies * 2 * most, NAN);
  std::vector<int8_t> skipped(MEMBERS, 0);
  skipped[SKIPPED] = 1;
  float *left[2], *right[2], *result = on_device(nothing), *biases = on_device(nothing);
  int8_t *skip = on_device(skipped);
  tt_gradients g = {};
  g.layers = 2, g.chunk = CHUNK, g.copies = copies, g.copy_step = (int64_t)(2 * most);
  for (int l = 0; l < 2; l++) {
    const shape &s = c[l].s;
    tt_product_args &a = g.layer[l];
    a.skip = skip;
    a.left = factor(left[l] = on_device(c[l].left), s.k, s.m);
    a.right = factor(right[l] = on_device(c[l].right), s.k, s.n);
    a.m = s.m, a.n = s.n, a.k = s.k;
    a.result = result + (size_t)l * most, a.bias_gradient = biases + (size_t)l * most;
    a.step = (int64_t)s.m * s.n;
    a.vector = tt_has_vectors(a.result, a.step, s.n) && g.copy_step % 4 == 0;
  }
  TT_CHECK_OK(tt_multiply_chunks(tile, g, MEMBERS, dev.stream));
  std::vector<float> got =
                         add_copies(from_device(result, (int64_t)nothing.size()), 2 * most, copies),
                     bias =
                         add_copies(from_device(biases, (int64_t)nothing.size()), 2 * most, copies);
  for (int l = 0; l < 2; l++) {
    product_results want;
    want.result.assign(each[l], NAN);
    want.bias.assign(each[l], NAN);
    for (int member = 0; member < MEMBERS; member++)
      for (int i = 0; member != SKIPPED && i < c[l].s.m; i++) expect_chunks(c[l], member, i, want);
    long at = l * (long)most, end = at + (long)each[l];
    same("result", c[l], tile, want.result, {got.begin() + at, got.begin() + end});
    same("bias", c[l], tile, want.bias, {bias.begin() + at, bias.begin() + end});
    tt_dev_free(left[l]);
    tt_dev_free(right[l]);
  }
  tt_dev_free(result);
  tt_dev_free(biases);
  tt_dev_free(skip);
}

/* Whole chunks, and a short last one; tiles that are not full; fewer rows than a chunk. */
TT_TEST (chunks_have_the_same_bits_in_one_block_and_in_several) {
  static const shape layers[][2] = {
      {{1, 20, 300}, {33, 17, 300}}, {{36, 8, 256}, {5, 36, 256}}, {{66, 4, 100}, {3, 7, 100}}};
  int number = 0;
  for (const shape(&s)[2] : layers)
    for (int tile = 0; tile < TT_CHUNK_TILE_COUNT + TT_TENSOR_CHUNK_TILE_COUNT; tile++, number++) {
      int tensor = tile >= TT_CHUNK_TILE_COUNT;
      product_case c[2] = {make(TT_PRODUCT_GRADIENT, s[0], 0, tensor),
                           make(TT_PRODUCT_GRADIENT, s[1], 0, tensor)};
      int chunks = (s[0].k + CHUNK - 1) / CHUNK;
      for (int copies = 1; copies <= chunks; copies += chunks > 1 ? chunks - 1 : 1) {
        use_schedule(schedules[(number + copies) % 4]);
        check_chunks(c, tile, copies);
      }
    }
  tt_double_reset();
}

/* A multiprocessor for every block where there are few members, the largest tiles where there are
 * many; narrow tiles for narrow results. */
TT_TEST (the_tile_follows_from_the_number_of_blocks) {
  const tt_precision fp32 = TT_PRECISION_fp32, tf32 = TT_PRECISION_tf32;
  int many = tt_choose_product_tile(512, 256, 1000, 132, fp32);
  int few = tt_choose_product_tile(512, 192, 5, 132, fp32);
  TT_CHECK(many, ==, 0);
  TT_CHECK(few, >, many);
  TT_CHECK(tt_choose_product_tile(512, 10, 1000, 132, fp32), ==, 2);
  TT_CHECK(tt_choose_product_tile(10, 512, 1000, 132, fp32), ==, 3);
  TT_CHECK(tt_choose_product_tile(5, 7, 1, 132, fp32), ==, TT_PRODUCT_TILE_COUNT - 1);
  TT_CHECK(tt_choose_product_tile(512, 256, 1000, 132, tf32), ==, TT_PRODUCT_TILE_COUNT);
  TT_CHECK(tt_choose_product_tile(512, 192, 5, 132, tf32), ==, TT_PRODUCT_TILE_COUNT + 3);
  tt_gradients g = {};
  g.layers = 1, g.layer[0].m = g.layer[0].n = 192;
  g.copies = 4;
  TT_CHECK(tt_choose_chunk_tile(g, 5, 132, fp32), ==, 2);
  TT_CHECK(tt_choose_chunk_tile(g, 1, 132, tf32), ==, TT_CHUNK_TILE_COUNT + 1);
  g.copies = 1;
  TT_CHECK(tt_choose_chunk_tile(g, 100, 132, fp32), ==, 0);
  TT_CHECK(tt_choose_chunk_tile(g, 100, 132, tf32), ==, TT_CHUNK_TILE_COUNT);
  /* a conv of 16 channels of 5 members */
  TT_CHECK(tt_choose_product_tile(16, 65536, 5, 132, tf32), ==, TT_PRODUCT_TILE_COUNT + 1);
  g.layer[0].m = 16, g.layer[0].n = 144, g.copies = 43;
  TT_CHECK(tt_choose_chunk_tile(g, 5, 132, fp32), ==, 3);
  TT_CHECK(tt_choose_chunk_tile(g, 5, 132, tf32), ==, TT_CHUNK_TILE_COUNT + 2);
}

TT_SUITE(open_device, close_device)
