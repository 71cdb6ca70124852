/* convs.cu — convolutions of a front (cuda/front/conv_shape.cuh), timed: every tile. A line
 * of JSON for each layer, kind and tile; tile -1 is the one that is chosen. Gradients: as many
 * copies as there are chunks, or 1.
 *
 *   convs        all of them; exit status 69 without a GPU */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "cuda/front/conv_shape.cuh"
#include "cuda/plan/layered_sizes.h"

#include <cstdio>

namespace
{
enum { LAUNCHES = 10, TURNS = 3, CHOSEN = -1 };

/* Square images and windows. */
struct layer {
  const char *name;
  int members, rows, in, out, size, kernel, stride;
};
const layer layers[] = {
    {"resnet18 first", 1, 32, 3, 64, 64, 7, 2},    {"resnet18 64", 1, 32, 64, 64, 16, 3, 1},
    {"resnet18 128/2", 1, 32, 64, 128, 16, 3, 2},  {"resnet18 128", 1, 32, 128, 128, 8, 3, 1},
    {"resnet18 256", 1, 32, 256, 256, 4, 3, 1},    {"resnet18 512", 1, 32, 512, 512, 2, 3, 1},
    {"imagenet 64", 1, 64, 64, 64, 56, 3, 1},      {"imagenet 256", 1, 64, 256, 256, 14, 3, 1},
    {"bottleneck in", 1, 64, 256, 64, 56, 1, 1},   {"bottleneck out", 1, 64, 64, 256, 56, 1, 1},
    {"five resnet18 64", 5, 32, 64, 64, 16, 3, 1}, {"cifar5 16", 5, 64, 16, 16, 32, 3, 1},
    {"cifar5 32", 5, 64, 32, 32, 16, 3, 1},        {"cifar5 64", 5, 64, 64, 64, 8, 3, 1},
    {"many 16", 100, 64, 16, 16, 8, 3, 1},
};
const char *const kinds[TT_PRODUCT_KINDS] = {"forward", "backward", "gradient"};

struct arrays {
  tt_dev dev;
  float *x, *y, *w, *d, *before, *gradient, *sums;
  int64_t most_sums;
};

tt_front_layer layer_of(const layer &l)
{
  tt_front_layer f = {};
  f.kind = TT_FRONT_conv;
  f.in_channels = l.in, f.channels = l.out, f.groups = 1, f.bias = -1;
  for (int i = 0; i < 2; i++) {
    f.in[i] = l.size, f.size[i] = l.kernel, f.stride[i] = l.stride, f.dilation[i] = 1;
    f.pad[i] = l.kernel / 2;
    f.out[i] = (l.size + 2 * f.pad[i] - l.kernel) / l.stride + 1;
  }
  return f;
}

tt_front_layer_args args_of(const arrays *x, const layer &l, int kind, tt_precision precision)
{
  tt_front_layer_args a = {};
  a.layer = layer_of(l);
  a.rows = l.rows;
  a.x = x->x, a.x_step = l.rows * tt_front_values_in(&a.layer);
  a.d = x->d, a.d_step = l.rows * tt_front_values(&a.layer);
  a.w = x->w, a.w_step = tt_param_stride(tt_front_weights(&a.layer));
  a.gradient = x->gradient;
  a.result = kind == TT_PRODUCT_BACKWARD ? x->before : x->y;
  a.step = kind == TT_PRODUCT_BACKWARD ? a.x_step : a.d_step;
  a.activation = TT_ACT_relu;
  if (kind == TT_PRODUCT_BACKWARD) a.y = x->x;
  a.precision = precision;
  a.multiprocessors = x->dev.multiprocessors;
  a.chunk_sums = x->sums, a.most_chunk_sums = x->most_sums;
  return a;
}

tt_err launch(const tt_front_layer_args &a, const layer &l, int kind, int tile, int copies,
              cudaStream_t stream)
{
  if (kind == TT_PRODUCT_GRADIENT)
    return tt_conv_multiply_gradient(tile, copies, a, l.members, stream);
  return tt_conv_multiply((tt_product_kind)kind, tile, a, l.members, stream);
}

/* The shortest of some turns. */
tt_err time_tile(const arrays *x, const layer &l, int kind, int tile, int copies,
                 tt_precision precision)
{
  const tt_front_layer_args a = args_of(x, l, kind, precision);
  double us = 0.0, flops = 2.0 * l.members * l.rows * tt_front_products(&a.layer);
  for (int turn = 0; turn < TURNS; turn++) {
    double begin = tt_monotonic_seconds();
    for (int i = 0; i < LAUNCHES; i++) TT_TRY(launch(a, l, kind, tile, copies, x->dev.stream));
    TT_TRY(tt_stream_synchronize(x->dev.stream));
    double taken = 1e6 * (tt_monotonic_seconds() - begin) / LAUNCHES;
    if (turn == 0 || taken < us) us = taken;
  }
  printf("{\"program\":\"convs\",\"layer\":\"%s\",\"members\":%d,\"rows\":%d,\"in\":%d,\"out\":%d,"
         "\"size\":%d,\"kernel\":%d,\"stride\":%d,\"kind\":\"%s\",\"precision\":\"%s\",\"tile\":%d,"
         "\"copies\":%d,\"us\":%.2f,\"tflops\":%.1f}\n",
         l.name, l.members, l.rows, l.in, l.out, l.size, l.kernel, l.stride, kinds[kind],
         tt_choice_precision[precision], tile, copies, us, 1e-6 * flops / us);
  return TT_OK;
}

tt_err time_gradient(const arrays *x, const layer &l, tt_precision precision)
{
  const tt_front_layer f = layer_of(l);
  int64_t chunks = tt_layered_conv_chunks(&f, l.rows);
  int tensor = precision != TT_PRECISION_fp32;
  int end = TT_CHUNK_TILE_COUNT + (tensor ? (int)TT_TENSOR_CHUNK_TILE_COUNT : 0);
  for (int tile = tensor ? (int)TT_CHUNK_TILE_COUNT : 0; tile < end; tile++) {
    TT_TRY(time_tile(x, l, TT_PRODUCT_GRADIENT, tile, 1, precision));
    if (chunks > 1 && l.members * chunks * tt_front_weights(&f) <= x->most_sums)
      TT_TRY(time_tile(x, l, TT_PRODUCT_GRADIENT, tile, (int)chunks, precision));
  }
  return TT_OK;
}

tt_err time_layer(const arrays *x, const layer &l, tt_precision precision)
{
  int tensor = precision != TT_PRECISION_fp32;
  for (int kind = 0; kind < TT_PRODUCT_GRADIENT; kind++) {
    TT_TRY(time_tile(x, l, kind, CHOSEN, 1, precision));
    int end = tensor ? (int)TT_ALL_TILE_COUNT : (int)TT_PRODUCT_TILE_COUNT;
    for (int tile = tensor ? (int)TT_PRODUCT_TILE_COUNT : 0; tile < end; tile++)
      TT_TRY(time_tile(x, l, kind, tile, 1, precision));
  }
  return time_gradient(x, l, precision);
}

/* Numbers of which no two neighbors are alike: on zeros a GPU is faster. */
tt_err fill(float **dst, int64_t count, cudaStream_t stream)
{
  float *x = NULL;
  TT_TRY(tt_dev_alloc(dst, count, "numbers"));
  TT_TRY(TT_ALLOC(x, count));
  for (int64_t i = 0; i < count; i++) x[i] = (float)(i * 7919 % 1024) / 512.0f - 1.0f;
  tt_err e = tt_dev_upload_sync(*dst, x, count, stream);
  tt_free(x);
  return e;
}

tt_err measure(arrays *x)
{
  int64_t most = 0, weights = 0;
  x->most_sums = 8 << 20;
  TT_TRY(tt_dev_open(0, &x->dev));
  for (const layer &l : layers) {
    const tt_front_layer f = layer_of(l);
    int64_t in = tt_front_values_in(&f), out = tt_front_values(&f);
    most = tt_max_i64(most, (int64_t)l.members * l.rows * tt_max_i64(in, out));
    weights = tt_max_i64(weights, l.members * tt_param_stride(tt_front_weights(&f)));
  }
  for (float **each : {&x->x, &x->y, &x->d, &x->before}) TT_TRY(fill(each, most, x->dev.stream));
  for (float **each : {&x->w, &x->gradient}) TT_TRY(fill(each, weights, x->dev.stream));
  TT_TRY(fill(&x->sums, x->most_sums, x->dev.stream));
  for (const layer &l : layers)
    for (tt_precision p : {TT_PRECISION_fp32, TT_PRECISION_tf32}) TT_TRY(time_layer(x, l, p));
  return TT_OK;
}
} // namespace

int main()
{
  arrays x = {};
  tt_err e = measure(&x);
  for (float **each : {&x.x, &x.y, &x.w, &x.d, &x.before, &x.gradient, &x.sums}) tt_dev_free(*each);
  tt_dev_close(&x.dev);
  if (e) fprintf(stderr, "convs: %s\n", tt_err_last());
  return tt_err_exit_code(e);
}
