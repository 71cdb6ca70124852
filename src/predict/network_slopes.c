/* network_slopes.c — see network_slopes.h. */
#include "src/predict/network_slopes.h"

#include "core/base/mem.h"
#include "core/formulas/elementwise_f64.h"
#include "core/formulas/layer_norm.h"

#include <string.h>

/* The front */

/* How many numbers of `scratch` a layer takes. */
static int64_t numbers_of(const tt_front_layer *l)
{
  int64_t norm = l->kind == TT_FRONT_group_norm;
  return 3 * tt_front_values(l) + norm * (tt_front_values(l) + l->groups);
}

/* Allocate the buffers; none without layers. Errors: MEM. */
static tt_err front_create(const tt_front *f, tt_front_slopes *out)
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

static void front_free(tt_front_slopes *s) { tt_free_all(&s->scratch, &s->layer); }

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

/* layer_norm, and group_norm in each of its groups */

/* x -> y = gain * normalized + shift, where a gain and a shift belong to `each` values. Returns
 * 1 / standard deviation of x; y may be x. */
static double normalize(int64_t n, int64_t each, const float *gain, const float *shift,
                        const double *x, double *normalized, double *y)
{
  double mean = 0.0, squares = 0.0, share = 1.0 / (double)n;
  for (int64_t i = 0; i < n; i++) mean += share * x[i];
  for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
  double inverse_std = 1.0 / sqrt(squares * share + (double)TT_LAYER_NORM_EPSILON);
  for (int64_t i = 0; i < n; i++) {
    normalized[i] = (x[i] - mean) * inverse_std;
    y[i] = (double)gain[i / each] * normalized[i] + (double)shift[i / each];
  }
  return inverse_std;
}

/* d, the derivative by y, becomes that by x (layer_norm.h). */
static void normalize_back(int64_t n, int64_t each, const float *gain, const double *normalized,
                           double inverse_std, double *d)
{
  double mean = 0.0, along = 0.0, share = 1.0 / (double)n;
  for (int64_t i = 0; i < n; i++) {
    d[i] *= (double)gain[i / each];
    mean += share * d[i];
    along += share * d[i] * normalized[i];
  }
  for (int64_t i = 0; i < n; i++) d[i] = inverse_std * (d[i] - mean - along * normalized[i]);
}

/*   back  0: forward from x; 1: s->d becomes the derivative by x */
static void normalize_groups(const tt_front_layer *l, const float *w, const double *x, int back,
                             const tt_front_layer_slopes *s)
{
  int64_t size = tt_front_values(l) / l->groups, each = tt_front_positions(l);
  for (int64_t g = 0; g < l->groups; g++) {
    int64_t first = g * size;
    const float *gain = w + l->weight + first / each, *shift = w + l->bias + first / each;
    if (back)
      normalize_back(size, each, gain, s->normalized + first, s->inverse_std[g], s->d + first);
    else
      s->inverse_std[g] =
          normalize(size, each, gain, shift, x + first, s->normalized + first, s->y + first);
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

/* Layers of the front */

static void add(int64_t n, const double *src, double *dst)
{
  for (int64_t i = 0; i < n; i++) dst[i] += src[i];
}

/*   skip  what is added, or NULL */
static void forward_front_layer(const tt_front_layer *l, const float *w, const double *x,
                                const double *skip, const tt_front_layer_slopes *s)
{
  int64_t values = tt_front_values(l);
  switch (l->kind) {
  case TT_FRONT_conv: convolve(l, w, x, s->y); break;
  case TT_FRONT_group_norm: normalize_groups(l, w, x, 0, s); break;
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

/* The features of the network at the normalized inputs x: the result of the last layer, which is
 * kept for the next function. */
static const double *front_forward(tt_front_slopes *s, const float *w, const double *x)
{
  const tt_front *f = s->front;
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    forward_front_layer(layer, w, result_of(s, layer->from, x), result_of(s, layer->skip, x),
                        &s->layer[l]);
  }
  return s->layer[f->layers - 1].y;
}

/* Add to d_x and d_skip the derivatives by the inputs x of the layer and by what is added (NULL:
 * nothing). */
static void backward_front_layer(const tt_front_layer *l, const float *w, const double *x,
                                 const tt_front_layer_slopes *s, double *d_skip, double *d_x)
{
  int64_t values = tt_front_values(l);
  if (d_skip && !l->activates_sum) add(values, s->d, d_skip);
  for (int64_t i = 0; i < values; i++) s->d[i] *= s->slope[i];
  if (d_skip && l->activates_sum) add(values, s->d, d_skip);
  if (l->kind == TT_FRONT_group_norm) normalize_groups(l, w, x, 1, s);
  switch (l->kind) {
  case TT_FRONT_conv: add_products(l, w, 1, s->d, d_x); break;
  case TT_FRONT_batch_norm: normalize_channels_back(l, w, s->d, d_x); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean: pool_back(l, x, s->d, d_x); break;
  default: add(values, s->d, d_x); break; /* dropout, group_norm */
  }
}

/* Derivative by the result of layer l; -1: by the inputs; TT_FRONT_NO_SKIP: NULL. */
static double *slope_of(const tt_front_slopes *s, int l, double *d_x)
{
  if (l == TT_FRONT_NO_SKIP) return NULL;
  return l < 0 ? d_x : s->layer[l].d;
}

/* From d_features, the derivative of any number by the features, to its derivative d_x by the
 * inputs. */
static void front_backward(tt_front_slopes *s, const float *w, const double *x,
                           const double *d_features, double *d_x)
{
  const tt_front *f = s->front;
  memset(d_x, 0, (size_t)tt_front_values_in(&f->layer[0]) * sizeof *d_x);
  for (int l = 0; l < f->layers; l++)
    memset(s->layer[l].d, 0, (size_t)tt_front_values(&f->layer[l]) * sizeof *d_x);
  add(f->features, d_features, s->layer[f->layers - 1].d);
  for (int l = f->layers - 1; l >= 0; l--) {
    const tt_front_layer *layer = &f->layer[l];
    backward_front_layer(layer, w, result_of(s, layer->from, x), &s->layer[l],
                         slope_of(s, layer->skip, d_x), slope_of(s, layer->from, d_x));
  }
}

/* All layers */

static tt_err create(const tt_model *m, tt_network_slopes *out)
{
  int64_t hidden = 0, widest = tt_model_widest(m);
  *out = (tt_network_slopes){.model = m};
  for (int l = 0; l < m->layers - 1; l++) hidden += m->layer[l].out;
  TT_TRY(front_create(&m->front, &out->front));
  TT_TRY(TT_ALLOC(out->o, m->outputs));
  TT_TRY(TT_ALLOC(out->d_o, m->outputs * m->inputs));
  TT_TRY(TT_ALLOC(out->y, hidden));
  TT_TRY(TT_ALLOC(out->slope, hidden));
  TT_TRY(TT_ALLOC(out->normalized, hidden));
  for (int i = 0; i < 3; i++) TT_TRY(TT_ALLOC(out->d[i], widest));
  return TT_OK;
}

/* Sum of w x in eight parts, which the compiler keeps in vector registers. */
static double dot(int64_t n, const float *w, const double *x)
{
  double part[8] = {0.0}, sum = 0.0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) part[k] += (double)w[i + k] * x[i + k];
  for (; i < n; i++) sum += (double)w[i] * x[i];
  for (int k = 0; k < 8; k++) sum += part[k];
  return sum;
}

/* Fills y, slope, normalized, inverse_std and o. */
static void forward(tt_network_slopes *s, const float *w, const double *x)
{
  const tt_model *m = s->model;
  if (m->front.layers) x = front_forward(&s->front, w, x);
  for (int64_t l = 0, at = 0; l < m->layers; at += m->layer[l++].out) {
    const tt_layer *layer = &m->layer[l];
    double *z = s->d[0];
    for (int64_t o = 0; o < layer->out; o++)
      z[o] = (double)w[layer->bias + o] + dot(layer->in, w + layer->weight + o * layer->in, x);
    if (l == m->layers - 1) { /* output j of target k has index j K + k */
      for (int64_t o = 0; o < layer->out; o++)
        s->o[o % m->targets * m->each + o / m->targets] = z[o];
      return;
    }
    const float *gain = w + layer->norm; /* the shifts are behind the gains */
    if (layer->norm >= 0)
      s->inverse_std[l] =
          normalize(layer->out, 1, gain, gain + layer->out, z, s->normalized + at, z);
    for (int64_t o = 0; o < layer->out; o++) {
      double y = tt_act_f64(layer->activation, z[o]);
      s->slope[at + o] = tt_act_grad_f64(layer->activation, z[o], y);
      s->y[at + o] = layer->residual ? y + x[o] : y;
    }
    x = s->y + at;
  }
}

/* From d, the derivative by the output of hidden layer l, whose units begin at `offset`, to that by
 * its inputs, in `next`.
 *   skip  buffer for the skip connection */
static void backward_layer(const tt_network_slopes *s, const float *w, int l, int64_t offset,
                           double *d, double *skip, double *next)
{
  const tt_layer *layer = &s->model->layer[l];
  if (layer->residual) memcpy(skip, d, (size_t)layer->out * sizeof *d);
  for (int64_t o = 0; o < layer->out; o++) d[o] *= s->slope[offset + o];
  if (layer->norm >= 0)
    normalize_back(layer->out, 1, w + layer->norm, s->normalized + offset, s->inverse_std[l], d);
  for (int64_t i = 0; i < layer->in; i++) next[i] = layer->residual ? skip[i] : 0.0;
  for (int64_t o = 0; o < layer->out; o++) {
    const float *row = w + layer->weight + o * layer->in;
    for (int64_t i = 0; i < layer->in; i++) next[i] += d[o] * (double)row[i];
  }
}

/* Derivatives of output o of the last layer by the inputs x. */
static void backward(tt_network_slopes *s, const float *w, const double *x, int64_t o, double *d_o)
{
  const tt_model *m = s->model;
  const tt_layer *last = &m->layer[m->layers - 1];
  double *d = s->d[0], *next = s->d[1];
  int64_t offset = 0;
  for (int64_t i = 0; i < last->in; i++) d[i] = (double)w[last->weight + o * last->in + i];
  for (int l = 0; l < m->layers - 1; l++) offset += m->layer[l].out;
  for (int l = m->layers - 2; l >= 0; l--) {
    offset -= m->layer[l].out;
    backward_layer(s, w, l, offset, d, s->d[2], next);
    double *swap = d;
    d = next;
    next = swap;
  }
  if (m->front.layers)
    front_backward(&s->front, w, x, d, d_o);
  else
    memcpy(d_o, d, (size_t)m->inputs * sizeof *d);
}

tt_err tt_ensemble_slopes_create(const tt_trained_ensemble *m, tt_network_slopes **out)
{
  int64_t networks = tt_trained_ensemble_networks(m);
  TT_TRY(TT_ALLOC(*out, networks));
  for (int64_t k = 0; k < networks; k++)
    TT_TRY(create(tt_trained_ensemble_model(m, k), &(*out)[k]));
  return TT_OK;
}

void tt_ensemble_slopes_free(const tt_trained_ensemble *m, tt_network_slopes **s)
{
  for (int64_t k = 0; *s && k < tt_trained_ensemble_networks(m); k++) {
    tt_network_slopes *o = &(*s)[k];
    front_free(&o->front);
    tt_free_all(&o->o, &o->d_o, &o->y, &o->slope, &o->normalized, &o->d[0], &o->d[1], &o->d[2]);
  }
  tt_free(*s);
}

const tt_network_slopes *tt_ensemble_slopes_at(const tt_trained_ensemble *e, tt_network_slopes *all,
                                               int64_t member, const double *x)
{
  int64_t number = 0;
  const float *w = tt_trained_ensemble_weights(e, member, &number);
  tt_network_slopes *s = &all[number];
  const tt_model *m = s->model;
  forward(s, w, x);
  for (int64_t o = 0; o < m->outputs; o++)
    backward(s, w, x, o, s->d_o + (o % m->targets * m->each + o / m->targets) * m->inputs);
  return s;
}
