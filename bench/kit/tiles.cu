/* tiles.cu — every tile of the products of the layered path (cuda/product/product.cuh), timed: what
 * the last two numbers of TT_PRODUCT_TILES and TT_TENSOR_TILES assume. A line of JSON for each
 * shape, kind and tile, with `chosen` 1 where the choice of a tile takes it.
 *
 *   tiles        all of them; exit status 69 without a GPU */
#include "core/base/clock.h"
#include "core/base/int.h"
#include "core/base/mem.h"
#include "cuda/product/multiply.cuh"

#include <cstdio>

namespace
{
enum { LAUNCHES = 20, TURNS = 5 };

/* A layer of a workload of workload.h. */
struct layer {
  const char *name;
  int members, rows, in, out;
};
const layer layers[] = {
    {"A", 16, 256, 32, 32},    {"B", 128, 256, 64, 64},     {"C", 1000, 256, 128, 128},
    {"D", 100, 512, 256, 256}, {"D1", 100, 512, 32, 256},   {"U2", 5, 512, 192, 192},
    {"L", 1, 1024, 512, 512},  {"L16", 16, 1024, 512, 512}, {"wide", 4, 1024, 1024, 1024},
};
const char *const kinds[TT_PRODUCT_KINDS] = {"forward", "backward", "gradient"};

struct arrays {
  tt_dev dev;
  float *left, *right, *result, *bias;
};

tt_product_args args_of(const arrays *x, const layer &l, int kind)
{
  int gradient = kind == TT_PRODUCT_GRADIENT, forward = kind == TT_PRODUCT_FORWARD;
  tt_product_args a = {};
  a.m = gradient ? l.out : l.rows;
  a.n = forward ? l.out : l.in;
  a.k = gradient ? l.rows : forward ? l.in : l.out;
  int32_t left = gradient ? a.m : a.k, right = forward ? a.k : a.n;
  a.left = {x->left, (int64_t)a.m * a.k, left, 1};
  a.right = {x->right, (int64_t)a.n * a.k, right, 1};
  a.result = x->result;
  a.step = (int64_t)a.m * a.n;
  a.vector = 1;
  a.activation = TT_ACT_relu;
  a.bias = x->bias;
  a.h = kind == TT_PRODUCT_BACKWARD ? x->left : NULL;
  a.bias_gradient = x->bias;
  return a;
}

/* The shortest of some turns. */
tt_err time_tile(const arrays *x, const layer &l, int kind, int tile, double *us)
{
  tt_product_args a = args_of(x, l, kind);
  *us = 0.0;
  for (int turn = 0; turn < TURNS; turn++) {
    double begin = tt_monotonic_seconds();
    for (int i = 0; i < LAUNCHES; i++)
      TT_TRY(tt_multiply((tt_product_kind)kind, tile, a, l.members, x->dev.stream));
    TT_TRY(tt_stream_synchronize(x->dev.stream));
    double taken = 1e6 * (tt_monotonic_seconds() - begin) / LAUNCHES;
    if (turn == 0 || taken < *us) *us = taken;
  }
  return TT_OK;
}

tt_err time_layer(const arrays *x, const layer &l, int kind)
{
  tt_product_args a = args_of(x, l, kind);
  double flops = 2.0 * l.members * l.rows * l.in * l.out;
  for (int tile = 0; tile < TT_ALL_TILE_COUNT; tile++) {
    tt_precision precision = tile < TT_PRODUCT_TILE_COUNT ? TT_PRECISION_fp32 : TT_PRECISION_tf32;
    int chosen =
        tt_choose_product_tile(a.m, a.n, l.members, x->dev.multiprocessors, precision) == tile;
    double us;
    TT_TRY(time_tile(x, l, kind, tile, &us));
    printf(
        "{\"program\":\"tiles\",\"layer\":\"%s\",\"members\":%d,\"rows\":%d,\"in\":%d,\"out\":%d,"
        "\"kind\":\"%s\",\"precision\":\"%s\",\"tile\":%d,\"chosen\":%d,\"us\":%.2f,"
        "\"tflops\":%.1f}\n",
        l.name, l.members, l.rows, l.in, l.out, kinds[kind], tt_choice_precision[precision], tile,
        chosen, us, 1e-6 * flops / us);
  }
  return TT_OK;
}

/* Numbers of which no two neighbors are alike: on zeros a GPU is faster. */
tt_err fill(float *dst, int64_t count, cudaStream_t stream)
{
  float *x = NULL;
  TT_TRY(TT_ALLOC(x, count));
  for (int64_t i = 0; i < count; i++) x[i] = (float)(i * 7919 % 1024) / 512.0f - 1.0f;
  tt_err e = tt_dev_upload_sync(dst, x, count, stream);
  tt_free(x);
  return e;
}

tt_err measure(arrays *x)
{
  int64_t most = 0;
  TT_TRY(tt_dev_open(0, &x->dev));
  for (const layer &l : layers) {
    int64_t widest = l.in > l.out ? l.in : l.out;
    most = tt_max_i64(most, (int64_t)l.members * widest * (l.rows > widest ? l.rows : widest));
  }
  for (float **each : {&x->left, &x->right, &x->result, &x->bias}) {
    TT_TRY(tt_dev_alloc(each, most, "numbers"));
    TT_TRY(fill(*each, most, x->dev.stream));
  }
  for (const layer &l : layers)
    for (int kind = 0; kind < TT_PRODUCT_KINDS; kind++) TT_TRY(time_layer(x, l, kind));
  return TT_OK;
}
} // namespace

int main()
{
  arrays x = {};
  tt_err e = measure(&x);
  for (float **each : {&x.left, &x.right, &x.result, &x.bias}) tt_dev_free(*each);
  tt_dev_close(&x.dev);
  if (e) fprintf(stderr, "tiles: %s\n", tt_err_last());
  return tt_err_exit_code(e);
}
