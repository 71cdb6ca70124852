/* forward_backward.c — forward and backward pass; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <string.h>

/* z of hidden layer l -> f(z), after layer_norm if it has one. */
static void activate_layer(const tt_kernels *k, const tt_layer *layer, const float *w,
                           tt_cpu_buffers *b, int l, int64_t n, int gradient)
{
  if (layer->norm >= 0)
    k->norm(layer->out, 1, w + layer->norm, w + layer->norm + layer->out, b->z[l],
            gradient ? b->normalized[l] : NULL, b->inverse_std[l], b->ld, n);
  k->activate(layer->activation, layer->out, n, b->z[l], b->h[l], b->ld, gradient);
}

tt_cpu_front_pass tt_cpu_front_pass_of(const tt_kernels *k, const tt_model *m, const float *w,
                                       const tt_cpu_buffers *b, int64_t rows)
{
  return (tt_cpu_front_pass){.kernels = k,
                             .model = m,
                             .front = &m->front,
                             .buffers = b->front,
                             .w = w,
                             .x = b->x,
                             .row = b->front_row,
                             .ld = b->ld,
                             .n = tt_lanes_up(rows),
                             .rows = rows,
                             .running_share = b->running_share};
}

float *tt_cpu_layer_input(const tt_model *m, const tt_cpu_buffers *b, int layer)
{
  if (layer == 0) return b->x;
  if (layer <= m->front.layers) return tt_cpu_front_result(b->front, layer - 1, b->front_row);
  return b->h[layer - m->front.layers - 1];
}

/* Of dense layer l. */
static const float *input_of_layer(const tt_model *m, const tt_cpu_buffers *b, int l)
{
  return tt_cpu_layer_input(m, b, m->front.layers + l);
}

/* Layers [first, end) of the front. The channels that may be dropped come after the hidden units.
 */
static void forward_front(const tt_kernels *k, const tt_model *m, const float *w, tt_cpu_buffers *b,
                          int first, int end, int64_t rows, const tt_dropout *drop, int gradient)
{
  tt_cpu_front_pass p = tt_cpu_front_pass_of(k, m, w, b, rows);
  int64_t unit = 0;
  for (int l = 0; l < m->layers - 1; l++) unit += m->layer[l].out;
  for (int l = 0; l < first; l++)
    if (m->front.layer[l].kind == TT_FRONT_dropout) unit += m->front.layer[l].channels;
  tt_cpu_front_forward(&p, first, end, drop, unit, gradient);
}

/* Dense layers [first, end). */
static void forward_dense(const tt_kernels *k, const tt_model *model, const float *w,
                          tt_cpu_buffers *b, int first, int end, int64_t rows,
                          const tt_dropout *drop, int gradient)
{
  int64_t n = tt_lanes_up(rows), unit = 0;
  for (int l = 0; l < first; l++) unit += model->layer[l].out;
  for (int l = first; l < end; l++) {
    const tt_layer *layer = &model->layer[l];
    const float *x = input_of_layer(model, b, l);
    k->product(layer->out, layer->in, w + layer->weight, layer->in, 1, w + layer->bias, x, NULL,
               b->z[l], b->ld, n);
    if (l == model->layers - 1) return;
    activate_layer(k, layer, w, b, l, n, gradient);
    if (drop && layer->dropout)
      k->drop(drop, unit, layer->out, b->h[l], gradient ? b->z[l] : NULL, b->ld, n);
    if (layer->residual) k->add(layer->out, x, b->h[l], b->ld, n);
    unit += layer->out;
  }
}

void tt_cpu_forward_layers(const tt_kernels *k, const tt_model *model, const float *w,
                           tt_cpu_buffers *b, int first, int end, int64_t rows,
                           const tt_dropout *drop, int gradient)
{
  int front = model->front.layers;
  if (drop && !(drop->p > 0.0f)) drop = NULL;
  if (first < front)
    forward_front(k, model, w, b, first, end < front ? end : front, rows, drop, gradient);
  if (end > front)
    forward_dense(k, model, w, b, first > front ? first - front : 0, end - front, rows, drop,
                  gradient);
}

void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_cpu_buffers *b,
                    int64_t rows, const tt_dropout *drop, int gradient)
{
  tt_cpu_forward_layers(k, model, w, b, 0, model->front.layers + model->layers, rows, drop,
                        gradient);
}

/* Halves take more additions, panels less time in a few networks only. */
int tt_cpu_is_in_panels(const tt_model *m)
{
  enum { LEAST_PARAMS = 2048, MOST_PARAMS = 16384 };
  return !m->front.layers && m->params >= LEAST_PARAMS && m->params <= MOST_PARAMS;
}

int64_t tt_cpu_cut(const tt_model *m, int64_t rows)
{
  enum { LEAST_ROWS = 256 };
  return rows < LEAST_ROWS || !tt_cpu_is_in_panels(m) ? tt_lanes_up(rows)
                                                      : tt_cpu_share_of_rows(rows, 0, 2).count;
}

/* By the operations of a step. A batch in parts is shared in another way: its parts are. A
 * batch_norm needs all rows of a part at once. */
int tt_cpu_most_sharing(const tt_engine *e, int64_t rows)
{
  const tt_cohort *c = e->cohort;
  if (c->parts > 1 || tt_front_all_running(&c->model.front)) return 1;
  if (rows > c->batch_size) rows = c->batch_size;
  double flops = tt_model_flops(&c->model, rows), threads = flops / (double)e->share_flops;
  int most = e->threads < TT_CPU_MOST_SHARING ? e->threads : TT_CPU_MOST_SHARING;
  int halves = e->share_flops == TT_CPU_SHARE_FLOPS && flops >= 2.0 * TT_CPU_HALF_FLOPS &&
               e->pair_scratch && tt_cpu_cut(&c->model, rows) < rows;
  int least = halves && most > 1 ? 2 : 1;
  return threads < least ? least : threads < most ? (int)threads : most;
}

float *tt_cpu_delta(const tt_model *m, const tt_cpu_buffers *b, int l)
{
  int has_own = l == m->layers - 1 || m->layer[l].norm >= 0;
  return has_own ? b->delta[l] : b->z[l];
}

/* dL/d(inputs of layer l), but for its skip connection. */
static void dense_input_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                                 const tt_cpu_buffers *b, int l, int64_t rows, float *dst)
{
  const tt_layer *layer = &m->layer[l];
  k->product(layer->in, layer->out, w + layer->weight, 1, layer->in, NULL, tt_cpu_delta(m, b, l),
             NULL, dst, b->ld, tt_lanes_up(rows));
}

const float *tt_cpu_dense_input_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                                         tt_cpu_buffers *b, int l, int64_t rows)
{
  const tt_layer *layer = &m->layer[l];
  dense_input_gradient(k, m, w, b, l, rows, b->scratch);
  if (layer->residual)
    k->add(layer->in, b->residual_gradient, b->scratch, b->ld, tt_lanes_up(rows));
  return b->scratch;
}

void tt_cpu_output_backward(const tt_kernels *k, const tt_model *m, const float *w,
                            tt_cpu_buffers *b, int l, int64_t rows)
{
  const tt_layer *layer = &m->layer[l];
  int64_t n = tt_lanes_up(rows);
  for (int64_t o = 0; layer->residual && o < layer->out; o++)
    memcpy(b->residual_gradient + o * b->ld, b->scratch + o * b->ld, (size_t)n * sizeof(float));
  k->times(layer->out, b->scratch, b->z[l], b->ld, n);
  if (layer->norm >= 0)
    k->norm_gradient(layer->out, 1, w + layer->norm, b->normalized[l], b->inverse_std[l], b->z[l],
                     b->delta[l], b->ld, n);
}

void tt_cpu_backward_layer(const tt_kernels *k, const tt_model *m, const float *w,
                           tt_cpu_buffers *b, int l, int64_t rows)
{
  const tt_layer *next = &m->layer[l + 1], *here = &m->layer[l];
  if (m->front.layers + l < tt_model_frozen(m)) return;
  if (next->residual || here->residual || here->norm >= 0) {
    (void)tt_cpu_dense_input_gradient(k, m, w, b, l + 1, rows);
    tt_cpu_output_backward(k, m, w, b, l, rows);
    return;
  }
  k->product(next->in, next->out, w + next->weight, 1, next->in, NULL, tt_cpu_delta(m, b, l + 1),
             b->z[l], b->z[l], b->ld, tt_lanes_up(rows));
}

static void clear(float *gradient, int64_t first, int64_t count)
{
  memset(gradient + first, 0, (size_t)count * sizeof *gradient);
}

/* The gradient of some outputs of a layer that keeps its weights. */
static void clear_layer_gradient(const tt_layer *layer, tt_slice outputs, float *gradient)
{
  clear(gradient, layer->weight + outputs.first * layer->in, outputs.count * layer->in);
  clear(gradient, layer->bias + outputs.first, outputs.count);
  if (layer->norm < 0) return;
  clear(gradient, layer->norm + outputs.first, outputs.count);
  clear(gradient, layer->norm + layer->out + outputs.first, outputs.count);
}

void tt_cpu_layer_gradient(const tt_kernels *k, const tt_model *m, const tt_cpu_buffers *b, int l,
                           tt_slice outputs, int64_t rows, int64_t cut, float *gradient)
{
  const tt_layer *layer = &m->layer[l];
  int64_t n = tt_lanes_up(rows), first = outputs.first;
  if (outputs.count < 1) return;
  if (tt_model_rate(m, m->front.layers + l) == 0.0f) {
    clear_layer_gradient(layer, outputs, gradient);
    return;
  }
  k->weight_gradient(outputs.count, layer->in, tt_cpu_delta(m, b, l) + first * b->ld,
                     input_of_layer(m, b, l), gradient + layer->weight + first * layer->in,
                     gradient + layer->bias + first, b->ld, cut, n);
  if (layer->norm < 0) return;
  float *gain = gradient + layer->norm, *shift = gain + layer->out;
  for (int64_t o = first; o < first + outputs.count; o++)
    k->weight_gradient(1, 1, b->z[l] + o * b->ld, b->normalized[l] + o * b->ld, gain + o, shift + o,
                       b->ld, cut, n);
}

void tt_cpu_features_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                              tt_cpu_buffers *b, int64_t rows)
{
  dense_input_gradient(k, m, w, b, 0, rows,
                       tt_cpu_front_delta(b->front, m->front.layers - 1, b->front_row));
}

void tt_cpu_backward_front(const tt_kernels *k, const tt_model *m, const float *w,
                           tt_cpu_buffers *b, int64_t rows)
{
  tt_cpu_front_pass p = tt_cpu_front_pass_of(k, m, w, b, rows);
  if (!b->front || m->front.layers - 1 < tt_model_frozen(m)) return;
  tt_cpu_features_gradient(k, m, w, b, rows);
  tt_cpu_front_backward(&p, 0, m->front.layers);
}

void tt_cpu_channel_gradient(const tt_kernels *k, const tt_model *m, tt_cpu_buffers *b, int l,
                             tt_slice channels, int64_t rows, float *gradient)
{
  tt_cpu_front_pass p = tt_cpu_front_pass_of(k, m, NULL, b, rows);
  const tt_front_layer *layer = &m->front.layer[l];
  if (layer->weight >= 0 && tt_model_rate(m, l) == 0.0f) {
    int64_t each = tt_front_weights(layer) / layer->channels;
    clear(gradient, layer->weight + channels.first * each, channels.count * each);
    if (layer->bias >= 0) clear(gradient, layer->bias + channels.first, channels.count);
    for (int half = 0; layer->running >= 0 && half < 2; half++)
      clear(gradient, layer->running + half * layer->channels + channels.first, channels.count);
    return;
  }
  if (channels.count > 0) tt_cpu_front_gradient(&p, l, channels.first, channels.count, gradient);
}

void tt_cpu_backward(const tt_kernels *k, const tt_model *m, const float *w, tt_cpu_buffers *b,
                     int64_t rows, float *gradient)
{
  for (int l = m->layers - 1; l >= 0; l--) {
    tt_cpu_layer_gradient(k, m, b, l, (tt_slice){0, m->layer[l].out}, rows, tt_cpu_cut(m, rows),
                          gradient);
    if (l > 0) tt_cpu_backward_layer(k, m, w, b, l - 1, rows);
  }
  tt_cpu_backward_front(k, m, w, b, rows);
  for (int l = 0; l < m->front.layers; l++)
    tt_cpu_channel_gradient(k, m, b, l, (tt_slice){0, m->front.layer[l].channels}, rows, gradient);
}

tt_cpu_buffers tt_cpu_buffers_from_row(const tt_model *m, const tt_cpu_buffers *b, int64_t row)
{
  tt_cpu_buffers v = *b;
  v.x += row;
  v.y += row;
  v.variance += row;
  v.weight += row;
  v.term += row;
  v.scratch += row;
  v.front_row += row;
  if (v.residual_gradient) v.residual_gradient += row;
  for (int l = 0; l < m->layers; l++) {
    v.z[l] += row;
    if (v.h[l]) v.h[l] += row;
    if (v.delta[l]) v.delta[l] += row;
    if (v.normalized[l]) v.normalized[l] += row;
    if (v.inverse_std[l]) v.inverse_std[l] += row;
  }
  return v;
}
