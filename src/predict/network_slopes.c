/* network_slopes.c — see network_slopes.h. */
#include "src/predict/network_slopes.h"

#include "core/base/mem.h"
#include "core/formulas/elementwise_f64.h"
#include "core/formulas/layer_norm.h"

#include <string.h>

tt_err tt_network_slopes_create(const tt_model *m, tt_network_slopes *out)
{
  int64_t hidden = 0, widest = tt_model_widest(m);
  *out = (tt_network_slopes){.model = m};
  for (int l = 0; l < m->layers - 1; l++) hidden += m->layer[l].out;
  TT_TRY(tt_front_slopes_create(&m->front, &out->front));
  TT_TRY(TT_ALLOC(out->o, m->outputs));
  TT_TRY(TT_ALLOC(out->d_o, m->outputs * m->inputs));
  TT_TRY(TT_ALLOC(out->y, hidden));
  TT_TRY(TT_ALLOC(out->slope, hidden));
  TT_TRY(TT_ALLOC(out->normalized, hidden));
  for (int i = 0; i < 3; i++) TT_TRY(TT_ALLOC(out->d[i], widest));
  return TT_OK;
}

void tt_network_slopes_free(tt_network_slopes *s)
{
  tt_front_slopes_free(&s->front);
  tt_free_all(&s->o, &s->d_o, &s->y, &s->slope, &s->normalized, &s->d[0], &s->d[1], &s->d[2]);
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

/* z -> gain * normalized + shift; keeps normalized. Returns 1 / standard deviation of z. */
static double normalize_layer(const tt_layer *layer, const float *w, double *z, double *normalized)
{
  const float *gain = w + layer->norm, *shift = gain + layer->out;
  double mean = 0.0, squares = 0.0, share = 1.0 / (double)layer->out;
  for (int64_t o = 0; o < layer->out; o++) mean += share * z[o];
  for (int64_t o = 0; o < layer->out; o++) squares += (z[o] - mean) * (z[o] - mean);
  double inverse_std = 1.0 / sqrt(squares * share + (double)TT_LAYER_NORM_EPSILON);
  for (int64_t o = 0; o < layer->out; o++) {
    normalized[o] = (z[o] - mean) * inverse_std;
    z[o] = (double)gain[o] * normalized[o] + (double)shift[o];
  }
  return inverse_std;
}

/* Fills y, slope, normalized, inverse_std and o. */
static void forward(tt_network_slopes *s, const float *w, const double *x)
{
  const tt_model *m = s->model;
  if (m->front.layers) x = tt_front_slopes_forward(&s->front, w, x);
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
    if (layer->norm >= 0) s->inverse_std[l] = normalize_layer(layer, w, z, s->normalized + at);
    for (int64_t o = 0; o < layer->out; o++) {
      double y = tt_act_f64(layer->activation, z[o]);
      s->slope[at + o] = tt_act_grad_f64(layer->activation, z[o], y);
      s->y[at + o] = layer->residual ? y + x[o] : y;
    }
    x = s->y + at;
  }
}

/* d, the derivative by the output of layer_norm, becomes that by z (layer_norm.h). */
static void backward_norm(const tt_layer *layer, const float *w, const double *normalized,
                          double inverse_std, double *d)
{
  double mean = 0.0, along = 0.0, share = 1.0 / (double)layer->out;
  for (int64_t o = 0; o < layer->out; o++) {
    d[o] *= (double)w[layer->norm + o];
    mean += share * d[o];
    along += share * d[o] * normalized[o];
  }
  for (int64_t o = 0; o < layer->out; o++)
    d[o] = inverse_std * (d[o] - mean - along * normalized[o]);
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
  if (layer->norm >= 0) backward_norm(layer, w, s->normalized + offset, s->inverse_std[l], d);
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
    tt_front_slopes_backward(&s->front, w, x, d, d_o);
  else
    memcpy(d_o, d, (size_t)m->inputs * sizeof *d);
}

void tt_network_slopes_at(tt_network_slopes *s, const float *w, const double *x)
{
  const tt_model *m = s->model;
  forward(s, w, x);
  for (int64_t o = 0; o < m->outputs; o++)
    backward(s, w, x, o, s->d_o + (o % m->targets * m->each + o / m->targets) * m->inputs);
}

tt_err tt_ensemble_slopes_create(const tt_trained_ensemble *m, tt_network_slopes **out)
{
  int64_t networks = tt_trained_ensemble_networks(m);
  TT_TRY(TT_ALLOC(*out, networks));
  for (int64_t k = 0; k < networks; k++)
    TT_TRY(tt_network_slopes_create(tt_trained_ensemble_model(m, k), &(*out)[k]));
  return TT_OK;
}

void tt_ensemble_slopes_free(const tt_trained_ensemble *m, tt_network_slopes **s)
{
  for (int64_t k = 0; *s && k < tt_trained_ensemble_networks(m); k++)
    tt_network_slopes_free(&(*s)[k]);
  tt_free(*s);
}

const tt_network_slopes *tt_ensemble_slopes_at(const tt_trained_ensemble *m, tt_network_slopes *s,
                                               int64_t member, const double *x)
{
  int64_t number = 0;
  const float *w = tt_trained_ensemble_weights(m, member, &number);
  tt_network_slopes_at(&s[number], w, x);
  return &s[number];
}
