/* forward_backward.c — forward and backward pass; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <string.h>

/* z of hidden layer l -> f(z), after layer_norm if it has one. */
static void activate_layer(const tt_cpu_pass *p, int l, int64_t n, int gradient)
{
  const tt_layer *layer = &p->m->layer[l];
  tt_cpu_buffers *b = p->b;
  if (layer->norm >= 0)
    p->k->norm(layer->out, 1, p->w + layer->norm, p->w + layer->norm + layer->out, b->z[l],
               gradient ? b->normalized[l] : NULL, b->inverse_std[l], b->ld, n);
  p->k->activate(layer->activation, layer->out, n, b->z[l], b->h[l], b->ld, gradient);
}

tt_cpu_front_pass tt_cpu_front_pass_of(const tt_cpu_pass *p)
{
  return (tt_cpu_front_pass){.kernels = p->k,
                             .model = p->m,
                             .front = &p->m->front,
                             .buffers = p->b->front,
                             .w = p->w,
                             .x = p->b->x,
                             .row = p->b->front_row,
                             .ld = p->b->ld,
                             .n = tt_lanes_up(p->rows),
                             .rows = p->rows,
                             .running_share = p->b->running_share};
}

float *tt_cpu_layer_input(const tt_model *m, const tt_cpu_buffers *b, int layer)
{
  if (layer == 0) return b->x;
  if (layer <= m->front.layers) return tt_cpu_front_result(b->front, layer - 1, b->front_row);
  return b->h[layer - m->front.layers - 1];
}

/* Of dense layer l. */
static const float *input_of_layer(const tt_cpu_pass *p, int l)
{
  return tt_cpu_layer_input(p->m, p->b, p->m->front.layers + l);
}

/* Layers [first, end) of the front. The channels that may be dropped come after the hidden units.
 */
static void forward_front(const tt_cpu_pass *p, int first, int end, const tt_dropout *drop,
                          int gradient)
{
  const tt_model *m = p->m;
  const tt_cpu_front_pass pass = tt_cpu_front_pass_of(p);
  int64_t unit = 0;
  for (int l = 0; l < m->layers - 1; l++) unit += m->layer[l].out;
  for (int l = 0; l < first; l++)
    if (m->front.layer[l].kind == TT_FRONT_dropout) unit += m->front.layer[l].channels;
  tt_cpu_front_forward(&pass, first, end, drop, unit, gradient);
}

/* Dense layers [first, end). */
static void forward_dense(const tt_cpu_pass *p, int first, int end, const tt_dropout *drop,
                          int gradient)
{
  tt_cpu_buffers *b = p->b;
  int64_t n = tt_lanes_up(p->rows), unit = 0;
  for (int l = 0; l < first; l++) unit += p->m->layer[l].out;
  for (int l = first; l < end; l++) {
    const tt_layer *layer = &p->m->layer[l];
    const float *x = input_of_layer(p, l);
    p->k->product(layer->out, layer->in, p->w + layer->weight, layer->in, 1, p->w + layer->bias, x,
                  NULL, b->z[l], b->ld, n);
    if (l == p->m->layers - 1) return;
    activate_layer(p, l, n, gradient);
    if (drop && layer->dropout)
      p->k->drop(drop, unit, layer->out, b->h[l], gradient ? b->z[l] : NULL, b->ld, n);
    if (layer->residual) p->k->add(layer->out, x, b->h[l], b->ld, n);
    unit += layer->out;
  }
}

void tt_cpu_forward_layers(const tt_cpu_pass *p, int first, int end, const tt_dropout *drop,
                           int gradient)
{
  int front = p->m->front.layers;
  if (drop && !(drop->p > 0.0f)) drop = NULL;
  if (first < front) forward_front(p, first, end < front ? end : front, drop, gradient);
  if (end > front) forward_dense(p, first > front ? first - front : 0, end - front, drop, gradient);
}

void tt_cpu_forward(const tt_cpu_pass *p, const tt_dropout *drop, int gradient)
{
  tt_cpu_forward_layers(p, 0, p->m->front.layers + p->m->layers, drop, gradient);
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
static void dense_input_gradient(const tt_cpu_pass *p, int l, float *dst)
{
  const tt_layer *layer = &p->m->layer[l];
  p->k->product(layer->in, layer->out, p->w + layer->weight, 1, layer->in, NULL,
                tt_cpu_delta(p->m, p->b, l), NULL, dst, p->b->ld, tt_lanes_up(p->rows));
}

const float *tt_cpu_dense_input_gradient(const tt_cpu_pass *p, int l)
{
  const tt_layer *layer = &p->m->layer[l];
  const tt_cpu_buffers *b = p->b;
  dense_input_gradient(p, l, b->scratch);
  if (layer->residual)
    p->k->add(layer->in, b->residual_gradient, b->scratch, b->ld, tt_lanes_up(p->rows));
  return b->scratch;
}

void tt_cpu_output_backward(const tt_cpu_pass *p, int l)
{
  const tt_layer *layer = &p->m->layer[l];
  tt_cpu_buffers *b = p->b;
  int64_t n = tt_lanes_up(p->rows);
  for (int64_t o = 0; layer->residual && o < layer->out; o++)
    memcpy(b->residual_gradient + o * b->ld, b->scratch + o * b->ld, (size_t)n * sizeof(float));
  p->k->times(layer->out, b->scratch, b->z[l], b->ld, n);
  if (layer->norm >= 0)
    p->k->norm_gradient(layer->out, 1, p->w + layer->norm, b->normalized[l], b->inverse_std[l],
                        b->z[l], b->delta[l], b->ld, n);
}

void tt_cpu_backward_layer(const tt_cpu_pass *p, int l)
{
  const tt_layer *next = &p->m->layer[l + 1], *here = &p->m->layer[l];
  tt_cpu_buffers *b = p->b;
  if (p->m->front.layers + l < tt_model_frozen(p->m)) return;
  if (next->residual || here->residual || here->norm >= 0) {
    (void)tt_cpu_dense_input_gradient(p, l + 1);
    tt_cpu_output_backward(p, l);
    return;
  }
  p->k->product(next->in, next->out, p->w + next->weight, 1, next->in, NULL,
                tt_cpu_delta(p->m, b, l + 1), b->z[l], b->z[l], b->ld, tt_lanes_up(p->rows));
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

void tt_cpu_layer_gradient(const tt_cpu_pass *p, int l, tt_slice outputs, int64_t cut,
                           float *gradient)
{
  const tt_layer *layer = &p->m->layer[l];
  const tt_cpu_buffers *b = p->b;
  int64_t n = tt_lanes_up(p->rows), first = outputs.first;
  if (outputs.count < 1) return;
  if (tt_model_rate(p->m, p->m->front.layers + l) == 0.0f) {
    clear_layer_gradient(layer, outputs, gradient);
    return;
  }
  p->k->weight_gradient(outputs.count, layer->in, tt_cpu_delta(p->m, b, l) + first * b->ld,
                        input_of_layer(p, l), gradient + layer->weight + first * layer->in,
                        gradient + layer->bias + first, b->ld, cut, n);
  if (layer->norm < 0) return;
  float *gain = gradient + layer->norm, *shift = gain + layer->out;
  for (int64_t o = first; o < first + outputs.count; o++)
    p->k->weight_gradient(1, 1, b->z[l] + o * b->ld, b->normalized[l] + o * b->ld, gain + o,
                          shift + o, b->ld, cut, n);
}

void tt_cpu_features_gradient(const tt_cpu_pass *p)
{
  dense_input_gradient(p, 0,
                       tt_cpu_front_delta(p->b->front, p->m->front.layers - 1, p->b->front_row));
}

void tt_cpu_backward_front(const tt_cpu_pass *p)
{
  const tt_cpu_front_pass pass = tt_cpu_front_pass_of(p);
  if (!p->b->front || p->m->front.layers - 1 < tt_model_frozen(p->m)) return;
  tt_cpu_features_gradient(p);
  tt_cpu_front_backward(&pass, 0, p->m->front.layers);
}

void tt_cpu_channel_gradient(const tt_cpu_pass *p, int l, tt_slice channels, float *gradient)
{
  const tt_cpu_front_pass pass = tt_cpu_front_pass_of(p);
  const tt_front_layer *layer = &p->m->front.layer[l];
  if (layer->weight >= 0 && tt_model_rate(p->m, l) == 0.0f) {
    int64_t each = tt_front_weights(layer) / layer->channels;
    clear(gradient, layer->weight + channels.first * each, channels.count * each);
    if (layer->bias >= 0) clear(gradient, layer->bias + channels.first, channels.count);
    for (int half = 0; layer->running >= 0 && half < 2; half++)
      clear(gradient, layer->running + half * layer->channels + channels.first, channels.count);
    return;
  }
  if (channels.count > 0) tt_cpu_front_gradient(&pass, l, channels.first, channels.count, gradient);
}

void tt_cpu_backward(const tt_cpu_pass *p, float *gradient)
{
  const tt_model *m = p->m;
  for (int l = m->layers - 1; l >= 0; l--) {
    tt_cpu_layer_gradient(p, l, (tt_slice){0, m->layer[l].out}, tt_cpu_cut(m, p->rows), gradient);
    if (l > 0) tt_cpu_backward_layer(p, l - 1);
  }
  tt_cpu_backward_front(p);
  for (int l = 0; l < m->front.layers; l++)
    tt_cpu_channel_gradient(p, l, (tt_slice){0, m->front.layer[l].channels}, gradient);
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
