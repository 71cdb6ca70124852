/* front_slopes.c — see front_slopes.h. */
#include "src/predict/front_slopes.h"

#include "core/base/mem.h"
#include "core/formulas/elementwise_f64.h"
#include "core/formulas/layer_norm.h"

#include <string.h>

/* How many numbers of `scratch` a layer takes. */
static int64_t numbers_of(const tt_front_layer *l)
{
  int64_t norm = l->kind == TT_FRONT_group_norm;
  return 3 * tt_front_values(l) + norm * (tt_front_values(l) + l->groups);
}

tt_err tt_front_slopes_create(const tt_front *f, tt_front_slopes *out)
{
  int64_t numbers = 0;
  *out = (tt_front_slopes){.front = f};
  for (int l = 0; l < f->layers; l++) numbers += numbers_of(&f->layer[l]);
  if (!numbers) return TT_OK;
  TT_TRY(TT_ALLOC(out->scratch, numbers));
  TT_TRY(TT_ALLOC(out->layer, f->layers));
  double *place = out->scratch;
  for (int l = 0; l < f->layers; place += numbers_of(&f->layer[l++])) {
    int64_t values = tt_front_values(&f->layer[l]);
    out->layer[l] = (tt_front_layer_slopes){place, place + values, place + 2 * values,
                                            place + 3 * values, place + 4 * values};
  }
  return TT_OK;
}

void tt_front_slopes_free(tt_front_slopes *s) { tt_free_all(&s->scratch, &s->layer); }

/* Convolutions and pools */

/* Outputs to, to + 1, ... of a channel read inputs from, from + step, ... by one position of the
 * kernel. */
typedef struct line {
  int64_t to, from, step, count;
} line;

/* Row y of the outputs and position (v, u) of the kernel; without what is outside of the inputs. */
static line line_of(const tt_front_layer *l, int64_t y, int64_t v, int64_t u)
{
  int64_t row = y * l->stride[0] - l->pad[0] + v * l->dilation[0], step = l->stride[1];
  int64_t offset = u * l->dilation[1] - l->pad[1],
          first = offset < 0 ? (step - 1 - offset) / step : 0;
  int64_t capacity = l->in[1] - 1 - offset, last = capacity < 0 ? -1 : capacity / step;
  if (last > l->out[1] - 1) last = l->out[1] - 1;
  if (row < 0 || row >= l->in[0] || last < first) return (line){0};
  return (line){y * l->out[1] + first, row * l->in[1] + offset + first * step, step,
                last - first + 1};
}

/* Without a bias.
 *   back  0: add the products of the weights and the inputs `src` to the outputs `dst`; 1: add the
 *         derivatives by the inputs to `dst`, given those by the outputs, `src` */
static void add_products(const tt_front_layer *l, const float *w, int back, const double *src,
                         double *dst)
{
  int64_t in_group = l->in_channels / l->groups, out_group = l->channels / l->groups;
  const float *weight = w + l->weight;
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t i = 0; i < in_group * l->size[0] * l->size[1]; i++, weight++) {
      int64_t tap = i % (l->size[0] * l->size[1]), channel = i / (l->size[0] * l->size[1]);
      int64_t output = c * tt_front_positions(l);
      int64_t input = (c / out_group * in_group + channel) * tt_front_positions_in(l);
      for (int64_t y = 0; y < l->out[0]; y++) {
        const line at = line_of(l, y, tap / l->size[1], tap % l->size[1]);
        int64_t o = output + at.to, x = input + at.from;
        for (int64_t k = 0; !back && k < at.count; k++)
          dst[o + k] += (double)*weight * src[x + k * at.step];
        for (int64_t k = 0; back && k < at.count; k++)
          dst[x + k * at.step] += (double)*weight * src[o + k];
      }
    }
}

static void convolve(const tt_front_layer *l, const float *w, const double *x, double *z)
{
  int64_t each = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++)
    z[i] = l->bias < 0 ? 0.0 : (double)w[l->bias + i / each];
  add_products(l, w, 0, x, z);
}

static int32_t window_of(const tt_front_layer *l) { return l->size[0] * l->size[1]; }

/* Output position p of a channel. */
static double pool_window(const tt_front_layer *l, int32_t p, const double *x)
{
  double s = tt_pooling_start_f64(l->pool);
  for (int32_t k = 0; k < window_of(l); k++) {
    int32_t input = tt_front_position_read(l, p, k);
    if (input >= 0) s = tt_pooling_next_f64(l->pool, s, x[input]);
  }
  return tt_pooling_result_f64(l->pool, s, 1.0 / window_of(l));
}

static void pool(const tt_front_layer *l, const double *x, double *z)
{
  int64_t each = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++)
    z[i] = pool_window(l, (int32_t)(i % each), x + i / each * tt_front_positions_in(l));
}

/* The derivatives by the inputs of the window of output position p.
 *   d  derivative by the output */
static void pool_window_back(const tt_front_layer *l, int32_t p, const double *x, double d,
                             double *d_x)
{
  double y = pool_window(l, p, x);
  for (int32_t k = 0; k < window_of(l); k++) {
    int32_t input = tt_front_position_read(l, p, k);
    if (input < 0) continue;
    double slope = tt_pooling_slope_f64(l->pool, x[input], y, 1.0 / window_of(l));
    d_x[input] += slope * d;
    if (tt_pooling_takes_first(l->pool) && slope != 0.0) return;
  }
}

static void pool_back(const tt_front_layer *l, const double *x, const double *d, double *d_x)
{
  int64_t each = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++) {
    int64_t channel = i / each * tt_front_positions_in(l);
    pool_window_back(l, (int32_t)(i % each), x + channel, d[i], d_x + channel);
  }
}

/* group_norm */

static void normalize(const tt_front_layer *l, const float *w, const double *x,
                      const tt_front_layer_slopes *s)
{
  int64_t size = tt_front_values(l) / l->groups, each = tt_front_positions(l);
  for (int64_t g = 0; g < l->groups; g++) {
    const double *src = x + g * size;
    double mean = 0.0, squares = 0.0, share = 1.0 / (double)size;
    for (int64_t i = 0; i < size; i++) mean += share * src[i];
    for (int64_t i = 0; i < size; i++) squares += (src[i] - mean) * (src[i] - mean);
    s->inverse_std[g] = 1.0 / sqrt(squares * share + (double)TT_LAYER_NORM_EPSILON);
    for (int64_t i = g * size; i < (g + 1) * size; i++) {
      s->normalized[i] = (x[i] - mean) * s->inverse_std[g];
      s->y[i] = (double)w[l->weight + i / each] * s->normalized[i] + (double)w[l->bias + i / each];
    }
  }
}

static void normalize_back(const tt_front_layer *l, const float *w, const tt_front_layer_slopes *s,
                           double *d_x)
{
  int64_t size = tt_front_values(l) / l->groups, each = tt_front_positions(l);
  for (int64_t g = 0; g < l->groups; g++) {
    double mean = 0.0, along = 0.0, share = 1.0 / (double)size;
    for (int64_t i = g * size; i < (g + 1) * size; i++) {
      double d = (double)w[l->weight + i / each] * s->d[i];
      mean += share * d;
      along += share * d * s->normalized[i];
    }
    for (int64_t i = g * size; i < (g + 1) * size; i++)
      d_x[i] += s->inverse_std[g] *
                ((double)w[l->weight + i / each] * s->d[i] - mean - along * s->normalized[i]);
  }
}

/* batch_norm, with running means and variances */

static double channel_factor(const tt_front_layer *l, const float *w, int64_t channel)
{
  double variance = (double)w[l->running + l->channels + channel];
  return (double)w[l->weight + channel] / sqrt(variance + (double)TT_LAYER_NORM_EPSILON);
}

static void normalize_channels(const tt_front_layer *l, const float *w, const double *x, double *z)
{
  int64_t each = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++) {
    int64_t c = i / each;
    z[i] = channel_factor(l, w, c) * (x[i] - (double)w[l->running + c]) + (double)w[l->bias + c];
  }
}

static void normalize_channels_back(const tt_front_layer *l, const float *w, const double *d,
                                    double *d_x)
{
  int64_t each = tt_front_positions(l);
  for (int64_t i = 0; i < tt_front_values(l); i++) d_x[i] += channel_factor(l, w, i / each) * d[i];
}

/* All layers */

static void add(int64_t n, const double *src, double *dst)
{
  for (int64_t i = 0; i < n; i++) dst[i] += src[i];
}

/*   skip  what is added, or NULL */
static void forward_layer(const tt_front_layer *l, const float *w, const double *x,
                          const double *skip, const tt_front_layer_slopes *s)
{
  int64_t values = tt_front_values(l);
  switch (l->kind) {
  case TT_FRONT_conv: convolve(l, w, x, s->y); break;
  case TT_FRONT_group_norm: normalize(l, w, x, s); break;
  case TT_FRONT_batch_norm: normalize_channels(l, w, x, s->y); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean: pool(l, x, s->y); break;
  default: memcpy(s->y, x, (size_t)values * sizeof *x); break; /* dropout */
  }
  if (skip && l->activates_sum) add(values, skip, s->y);
  for (int64_t i = 0; i < values; i++) {
    double y = tt_act_f64(l->activation, s->y[i]);
    s->slope[i] = tt_act_grad_f64(l->activation, s->y[i], y);
    s->y[i] = y;
  }
  if (skip && !l->activates_sum) add(values, skip, s->y);
}

/* Result of layer l; -1: the inputs; TT_FRONT_NO_SKIP: NULL. */
static const double *result_of(const tt_front_slopes *s, int l, const double *x)
{
  if (l == TT_FRONT_NO_SKIP) return NULL;
  return l < 0 ? x : s->layer[l].y;
}

const double *tt_front_slopes_forward(tt_front_slopes *s, const float *w, const double *x)
{
  const tt_front *f = s->front;
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    forward_layer(layer, w, result_of(s, layer->from, x), result_of(s, layer->skip, x),
                  &s->layer[l]);
  }
  return s->layer[f->layers - 1].y;
}

/* Add to d_x and d_skip the derivatives by the inputs x of the layer and by what is added (NULL:
 * nothing). */
static void backward_layer(const tt_front_layer *l, const float *w, const double *x,
                           const tt_front_layer_slopes *s, double *d_skip, double *d_x)
{
  int64_t values = tt_front_values(l);
  if (d_skip && !l->activates_sum) add(values, s->d, d_skip);
  for (int64_t i = 0; i < values; i++) s->d[i] *= s->slope[i];
  if (d_skip && l->activates_sum) add(values, s->d, d_skip);
  switch (l->kind) {
  case TT_FRONT_conv: add_products(l, w, 1, s->d, d_x); break;
  case TT_FRONT_group_norm: normalize_back(l, w, s, d_x); break;
  case TT_FRONT_batch_norm: normalize_channels_back(l, w, s->d, d_x); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean: pool_back(l, x, s->d, d_x); break;
  default: add(values, s->d, d_x); break; /* dropout */
  }
}

/* Derivative by the result of layer l; -1: by the inputs; TT_FRONT_NO_SKIP: NULL. */
static double *slope_of(const tt_front_slopes *s, int l, double *d_x)
{
  if (l == TT_FRONT_NO_SKIP) return NULL;
  return l < 0 ? d_x : s->layer[l].d;
}

void tt_front_slopes_backward(tt_front_slopes *s, const float *w, const double *x,
                              const double *d_features, double *d_x)
{
  const tt_front *f = s->front;
  memset(d_x, 0, (size_t)tt_front_values_in(&f->layer[0]) * sizeof *d_x);
  for (int l = 0; l < f->layers; l++)
    memset(s->layer[l].d, 0, (size_t)tt_front_values(&f->layer[l]) * sizeof *d_x);
  add(f->features, d_features, s->layer[f->layers - 1].d);
  for (int l = f->layers - 1; l >= 0; l--) {
    const tt_front_layer *layer = &f->layer[l];
    backward_layer(layer, w, result_of(s, layer->from, x), &s->layer[l],
                   slope_of(s, layer->skip, d_x), slope_of(s, layer->from, d_x));
  }
}
