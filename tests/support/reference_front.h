/* reference_front.h — the layers of a front from their definitions, in double, one row at a time. */
#ifndef TT_REFERENCE_FRONT_H
#define TT_REFERENCE_FRONT_H
#include "tests/support/problem.h"

enum { REF_FRONT_VALUES = 256 };
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
  double sum = w[l->bias + c];
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
      double pixel = ref_pixel(l, in, c, y * l->stride[0] + v, x * l->stride[1] + u);
      most = fmax(most, pixel);
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

static inline void ref_front_layer(const tt_front_layer *l, const double *w, const double *in,
                                   const double *mask, double *out)
{
  int64_t values = tt_front_values(l), place = tt_front_positions(l);
  for (int i = 0; i < values; i++) {
    int c = (int)(i / place), y = (int)(i % place) / l->out[1], x = i % l->out[1];
    out[i] = l->kind == TT_FRONT_conv ? ref_conv(l, w, in, c, y, x)
             : l->kind == TT_FRONT_group_norm || l->kind == TT_FRONT_dropout
                 ? in[i]
                 : ref_pool(l, in, c, y, x);
    if (mask && l->kind == TT_FRONT_dropout) out[i] *= mask[c];
  }
  if (l->kind == TT_FRONT_group_norm) ref_group_norm(l, w, out);
  for (int64_t i = 0; i < values; i++) out[i] = ref_activation(l->activation, out[i]);
}

/* The features of one row.
 *   mask  factors of the channels that may be dropped, or NULL */
static inline void ref_front(const tt_front *f, const double *w, const double *x,
                             const double *mask, double *features)
{
  double value[1 + TT_MAX_FRONT][REF_FRONT_VALUES];
  int64_t inputs = (int64_t)f->channels * f->size[0] * f->size[1];
  TT_CHECK(inputs, <=, (int64_t)REF_FRONT_VALUES);
  memcpy(value[0], x, (size_t)inputs * sizeof *x);
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    TT_CHECK(tt_front_values(layer), <=, (int64_t)REF_FRONT_VALUES);
    ref_front_layer(layer, w, value[l], mask, value[l + 1]);
    for (int64_t i = 0; layer->skip != TT_FRONT_NO_SKIP && i < tt_front_values(layer); i++)
      value[l + 1][i] += value[layer->skip + 1][i];
    if (mask && layer->kind == TT_FRONT_dropout) mask += layer->channels;
  }
  memcpy(features, value[f->layers], (size_t)f->features * sizeof *features);
}
#endif
