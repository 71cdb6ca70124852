/* reference_front.h — the layers of a front from their definitions, in double, one row at a time. */
#ifndef TT_REFERENCE_FRONT_H
#define TT_REFERENCE_FRONT_H
#include "tests/support/problem.h"

enum { REF_FRONT_VALUES = 256 };
static inline double ref_activation(tt_activation a, double x);

static inline int ref_inside(const tt_front_layer *l, int y, int x)
{
  return y >= 0 && y < l->in[0] && x >= 0 && x < l->in[1];
}

/* Value of channel c at (y, x); 0 outside. */
static inline double ref_pixel(const tt_front_layer *l, const double *in, int c, int y, int x)
{
  return ref_inside(l, y, x) ? in[(c * l->in[0] + y) * l->in[1] + x] : 0.0;
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
      if (ref_inside(l, row, column)) most = fmax(most, pixel);
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

/* As in predictions, with the running means and variances. */
static inline double ref_batch_norm(const tt_front_layer *l, const double *w, int c, double x)
{
  double mean = w[l->running + c], variance = w[l->running + l->channels + c];
  return w[l->weight + c] * (x - mean) / sqrt(variance + 1e-5) + w[l->bias + c];
}

/* The result before the activation. */
static inline void ref_front_layer(const tt_front_layer *l, const double *w, const double *in,
                                   const double *mask, double *out)
{
  for (int i = 0, place = (int)tt_front_positions(l); i < tt_front_values(l); i++) {
    int c = i / place, y = i % place / l->out[1], x = i % l->out[1];
    switch (l->kind) {
    case TT_FRONT_conv: out[i] = ref_conv(l, w, in, c, y, x); break;
    case TT_FRONT_group_norm: out[i] = in[i]; break;
    case TT_FRONT_dropout: out[i] = mask ? in[i] * mask[c] : in[i]; break;
    case TT_FRONT_batch_norm: out[i] = ref_batch_norm(l, w, c, in[i]); break;
    default: out[i] = ref_pool(l, in, c, y, x); break;
    }
  }
  if (l->kind == TT_FRONT_group_norm) ref_group_norm(l, w, out);
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
    const double *skip = layer->skip == TT_FRONT_NO_SKIP ? NULL : value[layer->skip + 1];
    double *out = value[l + 1];
    TT_CHECK(tt_front_values(layer), <=, (int64_t)REF_FRONT_VALUES);
    ref_front_layer(layer, w, value[layer->from + 1], mask, out);
    for (int64_t i = 0; i < tt_front_values(layer); i++) {
      if (skip && layer->activates_sum) out[i] += skip[i];
      out[i] = ref_activation(layer->activation, out[i]);
      if (skip && !layer->activates_sum) out[i] += skip[i];
    }
    if (mask && layer->kind == TT_FRONT_dropout) mask += layer->channels;
  }
  memcpy(features, value[f->layers], (size_t)f->features * sizeof *features);
}
#endif
