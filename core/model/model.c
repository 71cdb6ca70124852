/* model.c — see model.h. */
#include "core/model/model.h"

#include "core/base/int.h"
#include "core/base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static tt_err set_output(const tt_model_shape *shape, tt_model *m)
{
  int32_t most = tt_output_max_levels(shape->output);
  m->output = shape->output;
  m->levels = most ? shape->levels : 0;
  if (most && (shape->levels < 1 || shape->levels > most))
    return TT_FAIL(CONFIG, "model.output: %s with %d %s; 1 to %d are possible",
                   tt_choice_output[shape->output], shape->levels,
                   tt_output_is_class(shape->output) ? "classes" : "levels", most);
  for (int32_t j = 0; tt_model_has_quantiles(m) && j < m->levels; j++)
    m->level[j] = (float)shape->level[j];
  m->each = tt_outputs_per_target(m->output, m->levels);
  m->quantities = tt_quantities_per_target(m->output, m->levels);
  m->outputs = m->each * m->targets;
  return TT_OK;
}

/* Set the offsets of a layer that starts at `offset`; returns its end, or INT64_MAX if a width is
 * so large that a product of two might overflow. */
static int64_t set_offsets(const tt_model_shape *shape, int64_t offset, int first, int last,
                           tt_layer *layer)
{
  if (layer->in > INT32_MAX || layer->out > INT32_MAX) return INT64_MAX;
  layer->activation = last ? TT_ACT_identity : shape->activation;
  layer->weight = offset;
  layer->bias = offset + layer->in * layer->out;
  offset = layer->bias + layer->out;
  layer->norm = !last && shape->layer_norm ? offset : -1;
  layer->residual = (int8_t)(!last && !first && shape->residual && layer->in == layer->out);
  layer->dropout = (int8_t)!last;
  layer->rate = 1.0f;
  return layer->norm < 0 ? offset : offset + 2 * layer->out;
}

static tt_err set_front(const tt_model_shape *shape, tt_model *m)
{
  if (!shape->front || !shape->front->layers) return TT_OK;
  const tt_front *f = shape->front;
  int64_t values = (int64_t)f->channels * f->size[0] * f->size[1];
  m->front = *f;
  m->params = f->params;
  if (values == m->inputs) return TT_OK;
  char height[32] = "";
  if (f->dims == 2) snprintf(height, sizeof height, "%" PRId32 " * ", f->size[0]);
  return TT_FAIL(CONFIG,
                 "model.%s: %" PRId32 " * %s%" PRId32 " = %" PRId64
                 " values, but data.inputs has %" PRId64 " columns",
                 f->dims == 1 ? "profile" : "image", f->channels, height, f->size[1], values,
                 m->inputs);
}

tt_err tt_model_lay_out(const tt_model_shape *shape, tt_model *out)
{
  if (shape->layers + 1 > TT_MAX_LAYERS)
    return TT_FAIL(CONFIG, "model.hidden has %" PRId64 " layers; at most %d are possible",
                   shape->layers, TT_MAX_LAYERS - 1);
  tt_model m = {.inputs = shape->inputs,
                .targets = shape->targets,
                .layers = (int)shape->layers + 1,
                .heads = shape->heads > 1 ? shape->heads : 1};
  TT_TRY(set_output(shape, &m));
  TT_TRY(set_front(shape, &m));
  int64_t in = m.front.layers ? m.front.features : m.inputs;
  for (int l = 0; l < m.layers; l++) {
    int last = l == m.layers - 1;
    m.layer[l].in = in;
    m.layer[l].out = in = last ? m.heads * m.outputs : shape->hidden[l];
    m.params = set_offsets(shape, m.params, l == 0, last, &m.layer[l]);
    if (m.params > INT32_MAX)
      return TT_FAIL(CONFIG, "the network has more than %d parameters; make model.hidden smaller",
                     INT32_MAX);
  }
  *out = m;
  return TT_OK;
}

tt_model tt_model_of_head(const tt_model *m)
{
  tt_model one = *m;
  if (m->heads <= 1) return one;
  tt_layer *last = &one.layer[m->layers - 1];
  one.heads = 1;
  last->out = m->outputs;
  last->bias = last->weight + last->out * last->in;
  one.params = last->bias + last->out;
  return one;
}

void tt_model_copy_head(const tt_model *m, int64_t h, const float *w, float *out)
{
  const tt_layer *last = &m->layer[m->layers - 1];
  int64_t count = m->outputs * last->in;
  memcpy(out, w, (size_t)last->weight * sizeof *w);
  memcpy(out + last->weight, w + last->weight + h * count, (size_t)count * sizeof *w);
  memcpy(out + last->weight + count, w + last->bias + h * m->outputs,
         (size_t)m->outputs * sizeof *w);
}

/* The factor on the learning rate of layer l. */
static float *rate_of(tt_model *m, int l)
{
  return l < m->front.layers ? &m->front.layer[l].rate : &m->layer[l - m->front.layers].rate;
}

int tt_model_all_layers(const tt_model *m) { return m->front.layers + m->layers; }

tt_err tt_model_set_rates(int64_t freeze, const double *rate, int64_t count, tt_model *m)
{
  int all = tt_model_all_layers(m), trained = 0, plain = 1;
  if (count && count != all)
    return TT_FAIL(CONFIG,
                   "train.layer_rates has %" PRId64
                   " factors, but the network has %d layers; write one for each",
                   count, all);
  for (int l = 0; l < all; l++) {
    int given = l < m->front.layers && m->front.layer[l].encodes;
    float factor = l < freeze ? 0.0f : count ? (float)rate[l] : given ? 0.0f : 1.0f;
    *rate_of(m, l) = factor;
    trained |= factor > 0.0f && tt_model_layer_params(m, l).count > 0;
    plain &= factor == 1.0f;
  }
  m->rates = (int8_t)!plain;
  if (trained) return TT_OK;
  return TT_FAIL(CONFIG,
                 "the network has %d layers, and all of them keep their weights (train.freeze: "
                 "%" PRId64 ", or factors 0 in train.layer_rates); leave one to train",
                 all, freeze);
}

tt_slice tt_model_layer_params(const tt_model *m, int l)
{
  if (l < m->front.layers) {
    const tt_front_layer *front = &m->front.layer[l];
    return front->weight < 0 ? (tt_slice){0, 0}
                             : (tt_slice){front->weight, tt_front_layer_params(front)};
  }
  const tt_layer *layer = &m->layer[l - m->front.layers];
  int64_t norm = layer->norm < 0 ? 0 : 2 * layer->out;
  return (tt_slice){layer->weight, layer->out * (layer->in + 1) + norm};
}

int64_t tt_model_trained_params(const tt_model *m)
{
  return m->params - tt_front_all_running(&m->front);
}

float tt_model_rate(const tt_model *m, int l)
{
  return l < m->front.layers ? m->front.layer[l].rate : m->layer[l - m->front.layers].rate;
}

int tt_model_frozen(const tt_model *m)
{
  int l = 0;
  while (l < tt_model_all_layers(m) && tt_model_rate(m, l) == 0.0f) l++;
  return l;
}

tt_slice tt_model_same_use(const tt_model *m, int64_t p, int64_t end, int *running)
{
  *running = 0;
  for (int l = 0; l < m->front.layers; l++) {
    int64_t first = m->front.layer[l].running, count = tt_front_running(&m->front.layer[l]);
    if (!count || p >= first + count) continue;
    *running = p >= first;
    end = tt_min_i64(end, *running ? first + count : first);
    break;
  }
  return (tt_slice){p, end - p};
}

tt_slice tt_model_same_rate(const tt_model *m, int64_t p, int64_t end, float *rate)
{
  int running;
  end = p + tt_model_same_use(m, p, end, &running).count;
  *rate = running ? -1.0f : 1.0f;
  if (running) return (tt_slice){p, end - p};
  for (int l = 0; m->rates && l < tt_model_all_layers(m); l++) {
    tt_slice own = tt_model_layer_params(m, l);
    if (p < own.first || p >= own.first + own.count) continue;
    *rate = tt_model_rate(m, l);
    if (own.first + own.count < end) end = own.first + own.count;
    break;
  }
  return (tt_slice){p, end - p};
}

tt_activation tt_model_activation(const tt_model *m)
{
  if (m->layers > 1) return m->layer[0].activation;
  for (int l = 0; l < m->front.layers; l++)
    if (m->front.layer[l].activation != TT_ACT_identity) return m->front.layer[l].activation;
  return TT_ACT_identity;
}

const char *tt_model_widths(const tt_model *m, char text[TT_MODEL_WIDTHS_TEXT])
{
  const int capacity = TT_MODEL_WIDTHS_TEXT;
  int used = snprintf(text, (size_t)capacity, "%" PRId64, m->inputs);
  if (m->front.layers)
    used += snprintf(text + used, (size_t)(capacity - used), "-front-%" PRId64, m->front.features);
  for (int l = 0; l < m->layers && used < capacity; l++)
    used += snprintf(text + used, (size_t)(capacity - used), "-%" PRId64, m->layer[l].out);
  return text;
}

int64_t tt_model_widest(const tt_model *m)
{
  int64_t width = m->inputs;
  for (int l = 0; l < m->front.layers; l++)
    if (tt_front_values(&m->front.layer[l]) > width) width = tt_front_values(&m->front.layer[l]);
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].out > width) width = m->layer[l].out;
  return width;
}

int tt_model_has_quantiles(const tt_model *m)
{
  return tt_output_forecast(m->output) == TT_FORECAST_quantiles;
}

int32_t tt_model_point_quantity(const tt_model *m)
{
  int32_t best = 0;
  for (int32_t j = 1; tt_model_has_quantiles(m) && j < m->levels; j++)
    if (fabsf(m->level[j] - 0.5f) < fabsf(m->level[best] - 0.5f)) best = j;
  return best;
}

typedef enum distribution { DISTRIBUTION_uniform, DISTRIBUTION_normal } distribution;

static distribution init_bounds(tt_init init, double in, double out, float *weights, float *biases)
{
  (void)out;
  switch (init) {
#define X(name, shape, w, b, source)                                                               \
  case TT_INIT_##name: *weights = (float)(w), *biases = (float)(b); return DISTRIBUTION_##shape;
    TT_INITS(X)
#undef X
  default: *weights = *biases = 0.0f; return DISTRIBUTION_uniform;
  }
}

static void fill(float *w, int64_t count, distribution shape, float bound, uint64_t seed,
                 uint64_t stream, int layer, int64_t offset)
{
  tt_random4 r = {{0}};
  for (int64_t i = 0; i < count; i++) {
    uint64_t index = (uint64_t)(offset + i);
    if (i == 0 || index % 4 == 0) /* four values have one random block */
      r = tt_random(seed, stream, TT_PURPOSE_INIT, (uint32_t)layer, (uint32_t)(index / 4));
    if (shape == DISTRIBUTION_normal)
      w[i] = bound * tt_box_muller(r.v[index & 2], r.v[(index & 2) + 1], (int)(index & 1));
    else
      w[i] = bound * (2.0f * tt_uniform(r.v[index % 4]) - 1.0f);
  }
}

/* Streams of the front come after those of the dense layers, whose numbers do not depend on it. */
static void init_front(const tt_front *f, tt_init init, uint64_t seed, uint64_t stream, float *w)
{
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    int64_t count = tt_front_weights(layer), taps = (int64_t)layer->size[0] * layer->size[1];
    float weights, biases;
    if (layer->kind == TT_FRONT_conv) {
      distribution shape = init_bounds(init, (double)tt_front_fan_in(layer),
                                       (double)(layer->channels * taps), &weights, &biases);
      fill(w + layer->weight, count, shape, weights, seed, stream, TT_MAX_LAYERS + l, 0);
      if (layer->bias >= 0)
        fill(w + layer->bias, layer->channels, DISTRIBUTION_uniform, biases, seed, stream,
             TT_MAX_LAYERS + l, count);
    } else if (count) {
      for (int64_t c = 0; c < count; c++) w[layer->weight + c] = 1.0f, w[layer->bias + c] = 0.0f;
    }
    for (int64_t c = 0, half = tt_front_running(layer) / 2; c < half; c++)
      w[layer->running + c] = 0.0f, w[layer->running + half + c] = 1.0f;
  }
}

void tt_model_init_weights(const tt_model *model, tt_init init, uint64_t seed, uint64_t stream,
                           float *w)
{
  init_front(&model->front, init, seed, stream, w);
  for (int l = 0; l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    float weights, biases;
    int64_t out = l < model->layers - 1 ? layer->out : model->outputs; /* of one head */
    distribution shape = init_bounds(init, (double)layer->in, (double)out, &weights, &biases);
    fill(w + layer->weight, layer->in * layer->out, shape, weights, seed, stream, l, 0);
    fill(w + layer->bias, layer->out, DISTRIBUTION_uniform, biases, seed, stream, l,
         layer->in * layer->out);
    for (int64_t o = 0; layer->norm >= 0 && o < layer->out; o++) {
      w[layer->norm + o] = 1.0f;
      w[layer->norm + layer->out + o] = 0.0f;
    }
  }
}

/* Products of layer l of all with one row: forward, weight gradient, input gradient. */
static double count_products(const tt_model *m, int l)
{
  return 1.0 + (tt_model_rate(m, l) > 0.0f) + (l > tt_model_frozen(m));
}

double tt_model_flops(const tt_model *model, int64_t rows)
{
  const tt_front *f = &model->front;
  double products = 0.0;
  for (int l = 0; l < f->layers; l++)
    products += count_products(model, l) * tt_front_products(&f->layer[l]);
  for (int l = 0; l < model->layers; l++) {
    double size = (double)(model->layer[l].in * model->layer[l].out);
    products += count_products(model, f->layers + l) * size;
  }
  return 2.0 * (double)rows * products;
}
