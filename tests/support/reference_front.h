/* reference_front.h — the layers of a front from their definitions, in double, one row at a time. */
#ifndef TT_REFERENCE_FRONT_H
#define TT_REFERENCE_FRONT_H
#include "tests/support/problem.h"

enum { REF_FRONT_VALUES = 256, REF_LAYERS = 64 };
static inline double ref_activation(tt_activation a, double x);

/* Value of channel c at (y, x); 0 outside. */
static inline double ref_pixel(const tt_front_layer *l, const double *in, int c, int y, int x)
{
  if (y < 0 || y >= l->in[0] || x < 0 || x >= l->in[1]) return 0.0;
  return in[(c * l->in[0] + y) * l->in[1] + x];
}

static inline double ref_conv(const tt_front_layer *l, const double *w, const double *in, int c,
                              int y, int x)
{
  int each = l->in_channels / l->groups, first = c / (l->channels / l->groups) * each;
  double sum = l->bias < 0 ? 0.0 : w[l->bias + c];
  for (int i = 0; i < each; i++)
    for (int v = 0; v < l->size[0]; v++)
      for (int u = 0; u < l->size[1]; u++)
        sum += w[l->weight + ((c * each + i) * l->size[0] + v) * l->size[1] + u] *
               ref_pixel(l, in, first + i, y * l->stride[0] - l->pad[0] + v * l->dilation[0],
                         x * l->stride[1] - l->pad[1] + u * l->dilation[1]);
  return sum;
}

static inline double ref_pool(const tt_front_layer *l, const double *in, int c, int y, int x)
{
  double most = -INFINITY, sum = 0.0, n = l->size[0] * l->size[1];
  for (int v = 0; v < l->size[0]; v++)
    for (int u = 0; u < l->size[1]; u++) {
      int row = y * l->stride[0] - l->pad[0] + v, column = x * l->stride[1] - l->pad[1] + u;
      double pixel = ref_pixel(l, in, c, row, column);
      if (row >= 0 && row < l->in[0] && column >= 0 && column < l->in[1]) most = fmax(most, pixel);
      sum += pixel;
    }
  switch (l->pool) {
  case TT_POOLING_max: return most;
  case TT_POOLING_mean: return sum / n;
  default: break;
  }
  fprintf(stderr, "no textbook formula for pool %s\n", tt_pooling_name[l->pool]);
  fail();
  return NAN;
}

static inline void ref_group_norm(const tt_front_layer *l, const double *w, double *z)
{
  int64_t each = tt_front_values(l) / l->groups, place = tt_front_positions(l);
  for (int64_t g = 0; g < l->groups; g++) {
    double mean = 0.0, variance = 0.0, *at = z + g * each;
    for (int64_t i = 0; i < each; i++) mean += at[i] / (double)each;
    for (int64_t i = 0; i < each; i++) variance += (at[i] - mean) * (at[i] - mean) / (double)each;
    for (int64_t i = 0; i < each; i++) {
      int64_t c = (g * each + i) / place;
      at[i] = w[l->weight + c] * (at[i] - mean) / sqrt(variance + 1e-5) + w[l->bias + c];
    }
  }
}

/* Mean and variance of each channel of each layer over a batch, while `use` is 1 (reference.h);
 * else batch_norm uses the running ones. */
enum { REF_CHANNELS = 16 };
static struct {
  int use, known[REF_LAYERS]; /* known 0: a layer that keeps its weights */
  double of[REF_LAYERS][REF_CHANNELS][2];
} ref_moments;

static inline void ref_batch_norm(const tt_front_layer *l, int layer, const double *w, double *z)
{
  int64_t place = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++) {
    int64_t c = i / place;
    double mean = w[l->running + c], variance = w[l->running + l->channels + c];
    if (ref_moments.use && ref_moments.known[layer])
      mean = ref_moments.of[layer][c][0], variance = ref_moments.of[layer][c][1];
    z[i] = w[l->weight + c] * (z[i] - mean) / sqrt(variance + 1e-5) + w[l->bias + c];
  }
}

/* `add` is added to the result, or NULL. */
static inline void ref_front_layer(const tt_front *f, int layer, const double *w, const double *in,
                                   const double *mask, const double *add, double *out)
{
  const tt_front_layer *l = &f->layer[layer];
  int64_t values = tt_front_values(l), place = tt_front_positions(l);
  for (int i = 0; i < values; i++) {
    int c = (int)(i / place), y = (int)(i % place) / l->out[1], x = i % l->out[1];
    out[i] = l->kind == TT_FRONT_conv ? ref_conv(l, w, in, c, y, x)
             : l->kind == TT_FRONT_pool || l->kind == TT_FRONT_global_mean
                 ? ref_pool(l, in, c, y, x)
                 : in[i];
    if (mask && l->kind == TT_FRONT_dropout) out[i] *= mask[c];
  }
  if (l->kind == TT_FRONT_group_norm) ref_group_norm(l, w, out);
  if (l->kind == TT_FRONT_batch_norm) ref_batch_norm(l, layer, w, out);
  for (int64_t i = 0; i < values; i++) {
    if (add && l->activates_sum) out[i] += add[i];
    out[i] = ref_activation(l->activation, out[i]);
    if (add && !l->activates_sum) out[i] += add[i];
  }
}

/* value[1 + l]: the result of layer l for one row, of the first `layers` layers; value[0]: x.
 *   mask  factors of the channels that may be dropped, or NULL */
static inline void ref_front_values(const tt_front *f, const double *w, const double *x,
                                    const double *mask, int layers,
                                    double (*value)[REF_FRONT_VALUES])
{
  int64_t inputs = (int64_t)f->channels * f->size[0] * f->size[1];
  TT_CHECK(inputs, <=, (int64_t)REF_FRONT_VALUES);
  TT_CHECK(layers, <=, (int)REF_LAYERS);
  memcpy(value[0], x, (size_t)inputs * sizeof *x);
  for (int l = 0; l < layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    TT_CHECK(tt_front_values(layer), <=, (int64_t)REF_FRONT_VALUES);
    ref_front_layer(f, l, w, value[layer->from + 1], mask,
                    layer->skip == TT_FRONT_NO_SKIP ? NULL : value[layer->skip + 1], value[l + 1]);
    if (mask && layer->kind == TT_FRONT_dropout) mask += layer->channels;
  }
}

/* The features of one row. */
static inline void ref_front(const tt_front *f, const double *w, const double *x,
                             const double *mask, double *features)
{
  static double value[1 + REF_LAYERS][REF_FRONT_VALUES];
  ref_front_values(f, w, x, mask, f->layers, value);
  memcpy(features, value[f->layers], (size_t)f->features * sizeof *features);
}
#endif
