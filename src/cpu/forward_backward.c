/* forward_backward.c — buffers, forward and backward pass; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"
#include "core/model/parts.h"

#include <string.h>

static int64_t round_up_to_lanes(int64_t rows)
{
  return (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
}

/* An odd number of 64-byte cache lines, so that features are not in the same cache sets. */
static int64_t leading_dimension(int64_t padded)
{
  return padded / TT_LANES % 2 ? padded : padded + TT_LANES;
}

static int any_residual(const tt_model *m)
{
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].residual) return 1;
  return 0;
}

/* 1 if dL/dz of a layer has memory of its own; else it replaces f'(z) in z. */
static int has_own_delta(const tt_layer *layer, int last) { return last || layer->norm >= 0; }

static tt_err allocate_layer(const tt_layer *layer, int last, int training, int l,
                             tt_cpu_buffers *b)
{
  TT_TRY(TT_ALLOC(b->z[l], layer->out * b->ld));
  if (!last) TT_TRY(TT_ALLOC(b->h[l], layer->out * b->ld));
  if (training && has_own_delta(layer, last)) TT_TRY(TT_ALLOC(b->delta[l], layer->out * b->ld));
  if (layer->norm < 0 || !training) return TT_OK;
  TT_TRY(TT_ALLOC(b->normalized[l], layer->out * b->ld));
  return TT_ALLOC(b->inverse_std[l], b->ld);
}

static float **input_of(tt_cpu_buffers *b, int l) { return l ? &b->h[l - 1] : &b->x; }

static tt_err allocate(const tt_model *m, tt_cpu_buffers_use use, tt_cpu_buffers *b)
{
  int training = use != TT_BUFFERS_PREDICT;
  TT_TRY(TT_ALLOC(b->x, m->inputs * b->ld));
  TT_TRY(TT_ALLOC(b->y, m->targets * b->ld));
  TT_TRY(TT_ALLOC(b->variance, m->targets * b->ld));
  TT_TRY(TT_ALLOC(b->weight, b->ld));
  for (int l = 0; l < m->layers; l++)
    TT_TRY(allocate_layer(&m->layer[l], l == m->layers - 1, training, l, b));
  TT_TRY(TT_ALLOC(b->window, b->window_size));
  if (m->front.layers) TT_TRY(tt_cpu_front_create(&m->front, b->ld, training, &b->front));
  if (!training) return TT_OK;
  TT_TRY(TT_ALLOC(b->term, b->ld));
  TT_TRY(TT_ALLOC(b->scratch, tt_model_widest(m) * b->ld));
  TT_TRY(TT_ALLOC(b->input_mask, m->inputs));
  if (any_residual(m)) TT_TRY(TT_ALLOC(b->residual_gradient, tt_model_widest(m) * b->ld));
  if (use == TT_BUFFERS_ADVERSARIAL) TT_TRY(TT_ALLOC(b->adversarial_gradient, m->params));
  return TT_ALLOC(b->gradient[0], m->params);
}

int tt_cpu_threads_per_member(const tt_cohort *c, tt_slice slice, int threads)
{
  int64_t most = c->parts < threads ? c->parts : threads;
  return slice.count < threads ? (int)most : 1;
}

/* Most sums that are pending at a time on a thread with its share of a slice of the parts. */
static int pending_sums(int64_t parts, tt_slice slice, int threads, int thread)
{
  int most;
  tt_slice own = tt_part_slice(slice.count, threads, threads > 1 ? thread : 0);
  (void)tt_part_sums_of(parts, (tt_slice){slice.first + own.first, own.count}, &most);
  return most;
}

tt_err tt_cpu_reserve_sums(tt_engine *e, tt_slice parts, int threads)
{
  const tt_cohort *c = e->cohort;
  for (int t = 0; t < (threads > 1 ? threads : e->threads); t++)
    for (int i = 0; i < pending_sums(c->parts, parts, threads, t); i++)
      if (!e->buffers[t]->gradient[i])
        TT_TRY(TT_ALLOC(e->buffers[t]->gradient[i], c->model.params));
  return TT_OK;
}

tt_err tt_cpu_buffers_create(const tt_model *model, int64_t batch, int64_t parts,
                             tt_cpu_buffers_use use, tt_cpu_buffers **out)
{
  tt_cpu_buffers *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->rows = round_up_to_lanes(tt_part_max_rows(batch, parts));
  b->ld = leading_dimension(b->rows);
  b->window_size = batch > TT_SAMPLER_WINDOW ? round_up_to_lanes(batch) : TT_SAMPLER_WINDOW;
  tt_err e = allocate(model, use, b);
  if (e)
    tt_cpu_buffers_destroy(&b);
  else
    *out = b;
  return e;
}

void tt_cpu_buffers_destroy(tt_cpu_buffers **w)
{
  tt_cpu_buffers *b = *w;
  if (!b) return;
  tt_free_all(&b->x, &b->y, &b->variance, &b->weight);
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    tt_free_all(&b->z[l], &b->h[l], &b->delta[l], &b->normalized[l], &b->inverse_std[l]);
  }
  for (int i = 0; i < TT_MAX_PART_SUMS; i++) tt_free(b->gradient[i]);
  tt_cpu_front_destroy(&b->front);
  tt_free_all(&b->term, &b->scratch, &b->residual_gradient, &b->adversarial_gradient,
              &b->input_mask, &b->window, w);
}

tt_err tt_cpu_slot_allocate(const tt_model *model, int first, int end, tt_cpu_buffers *b)
{
  int64_t in = model->layer[first].in;
  for (int l = first; l < end; l++)
    b->z[l] = b->h[l] = b->delta[l] = b->normalized[l] = b->inverse_std[l] = NULL;
  *input_of(b, first) = NULL;
  TT_TRY(TT_ALLOC(*input_of(b, first), in * b->ld));
  for (int l = first; l < end; l++)
    TT_TRY(allocate_layer(&model->layer[l], l == model->layers - 1, 1, l, b));
  return TT_OK;
}

void tt_cpu_slot_free(int first, int end, tt_cpu_buffers *b)
{
  tt_free(*input_of(b, first));
  for (int l = first; l < end; l++)
    tt_free_all(&b->z[l], &b->h[l], &b->delta[l], &b->normalized[l], &b->inverse_std[l]);
}

/* Features of a layer in the buffers, for training. */
static int64_t layer_features(const tt_layer *layer)
{
  return 2 * layer->out + (layer->norm < 0 ? 0 : 2 * layer->out + 1);
}

int64_t tt_cpu_slot_bytes(const tt_model *model, int64_t batch, int64_t parts, int first, int end)
{
  int64_t features = model->layer[first].in;
  for (int l = first; l < end; l++) features += layer_features(&model->layer[l]);
  return 4 * features * leading_dimension(round_up_to_lanes(tt_part_max_rows(batch, parts)));
}

int64_t tt_cpu_buffers_bytes(const tt_model *model, int64_t batch, int64_t parts, int threads,
                             tt_cpu_buffers_use use)
{
  int64_t ld = leading_dimension(round_up_to_lanes(tt_part_max_rows(batch, parts))),
          features = model->inputs + 2 * model->targets + 3;
  for (int l = 0; l < model->layers; l++) features += layer_features(&model->layer[l]);
  features += (any_residual(model) ? 2 : 1) * tt_model_widest(model);
  int64_t gradients =
      pending_sums(parts, (tt_slice){0, parts}, threads, 0) + (use == TT_BUFFERS_ADVERSARIAL);
  return 4 * (features * ld + gradients * model->params + TT_SAMPLER_WINDOW) +
         tt_cpu_front_bytes(&model->front, ld, use != TT_BUFFERS_PREDICT);
}

/* z of hidden layer l -> f(z), after layer_norm if it has one. */
static void activate_layer(const tt_kernels *k, const tt_layer *layer, const float *w,
                           tt_cpu_buffers *b, int l, int64_t n, int gradient)
{
  if (layer->norm >= 0)
    k->norm(layer->out, 1, w + layer->norm, w + layer->norm + layer->out, b->z[l],
            gradient ? b->normalized[l] : NULL, b->inverse_std[l], b->ld, n);
  for (int64_t o = 0; o < layer->out; o++)
    k->activate(layer->activation, n, b->z[l] + o * b->ld, b->h[l] + o * b->ld, gradient);
}

static tt_cpu_front_pass front_pass(const tt_kernels *k, const tt_model *m, const float *w,
                                    const tt_cpu_buffers *b, int64_t rows)
{
  return (tt_cpu_front_pass){.kernels = k,
                             .front = &m->front,
                             .buffers = b->front,
                             .w = w,
                             .x = b->x,
                             .row = b->front_row,
                             .ld = b->ld,
                             .n = round_up_to_lanes(rows)};
}

/* Inputs of layer 0. */
static const float *dense_inputs(const tt_cpu_buffers *b)
{
  return b->front ? tt_cpu_front_result(b->front, b->front_row) : b->x;
}

static const float *input_of_layer(const tt_cpu_buffers *b, int l)
{
  return l ? b->h[l - 1] : dense_inputs(b);
}

/* The channels of the front that may be dropped come after the hidden units. */
static void forward_front(const tt_kernels *k, const tt_model *m, const float *w, tt_cpu_buffers *b,
                          int64_t rows, const tt_dropout *drop, int gradient)
{
  tt_cpu_front_pass p = front_pass(k, m, w, b, rows);
  int64_t unit = 0;
  for (int l = 0; l < m->layers - 1; l++) unit += m->layer[l].out;
  tt_cpu_front_forward(&p, drop, unit, gradient);
}

void tt_cpu_forward_layers(const tt_kernels *k, const tt_model *model, const float *w,
                           tt_cpu_buffers *b, int first, int end, int64_t rows,
                           const tt_dropout *drop, int gradient)
{
  int64_t n = round_up_to_lanes(rows), unit = 0;
  for (int l = 0; l < first; l++) unit += model->layer[l].out;
  for (int l = first; l < end; l++) {
    const tt_layer *layer = &model->layer[l];
    const float *x = input_of_layer(b, l);
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

void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_cpu_buffers *b,
                    int64_t rows, const tt_dropout *drop, int gradient)
{
  if (b->front) forward_front(k, model, w, b, rows, drop, gradient);
  tt_cpu_forward_layers(k, model, w, b, 0, model->layers, rows, drop, gradient);
}

float *tt_cpu_delta(const tt_model *m, const tt_cpu_buffers *b, int l)
{
  return has_own_delta(&m->layer[l], l == m->layers - 1) ? b->delta[l] : b->z[l];
}

/* dL/d(inputs of layer l), but for its skip connection. */
static void dense_input_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                                 const tt_cpu_buffers *b, int l, int64_t rows, float *to)
{
  const tt_layer *layer = &m->layer[l];
  k->product(layer->in, layer->out, w + layer->weight, 1, layer->in, NULL, tt_cpu_delta(m, b, l),
             NULL, to, b->ld, round_up_to_lanes(rows));
}

const float *tt_cpu_dense_input_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                                         tt_cpu_buffers *b, int l, int64_t rows)
{
  const tt_layer *layer = &m->layer[l];
  dense_input_gradient(k, m, w, b, l, rows, b->scratch);
  if (layer->residual)
    k->add(layer->in, b->residual_gradient, b->scratch, b->ld, round_up_to_lanes(rows));
  return b->scratch;
}

void tt_cpu_output_backward(const tt_kernels *k, const tt_model *m, const float *w,
                            tt_cpu_buffers *b, int l, int64_t rows)
{
  const tt_layer *layer = &m->layer[l];
  int64_t n = round_up_to_lanes(rows);
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
  if (next->residual || here->residual || here->norm >= 0) {
    (void)tt_cpu_dense_input_gradient(k, m, w, b, l + 1, rows);
    tt_cpu_output_backward(k, m, w, b, l, rows);
    return;
  }
  k->product(next->in, next->out, w + next->weight, 1, next->in, NULL, tt_cpu_delta(m, b, l + 1),
             b->z[l], b->z[l], b->ld, round_up_to_lanes(rows));
}

void tt_cpu_layer_gradient(const tt_kernels *k, const tt_model *m, const tt_cpu_buffers *b, int l,
                           tt_slice outputs, int64_t rows, float *gradient)
{
  const tt_layer *layer = &m->layer[l];
  int64_t n = round_up_to_lanes(rows), first = outputs.first;
  if (outputs.count < 1) return;
  k->weight_gradient(outputs.count, layer->in, tt_cpu_delta(m, b, l) + first * b->ld,
                     input_of_layer(b, l), gradient + layer->weight + first * layer->in,
                     gradient + layer->bias + first, b->ld, n);
  if (layer->norm < 0) return;
  float *gain = gradient + layer->norm, *shift = gain + layer->out;
  for (int64_t o = first; o < first + outputs.count; o++)
    k->weight_gradient(1, 1, b->z[l] + o * b->ld, b->normalized[l] + o * b->ld, gain + o, shift + o,
                       b->ld, n);
}

const float *tt_cpu_input_gradient(const tt_kernels *k, const tt_model *m, const float *w,
                                   tt_cpu_buffers *b, int64_t rows)
{
  tt_cpu_front_pass p = front_pass(k, m, w, b, rows);
  if (b->front)
    tt_cpu_front_input_gradient(&p, b->scratch);
  else
    (void)tt_cpu_dense_input_gradient(k, m, w, b, 0, rows);
  return b->scratch;
}

void tt_cpu_backward_front(const tt_kernels *k, const tt_model *m, const float *w,
                           tt_cpu_buffers *b, int64_t rows)
{
  tt_cpu_front_pass p = front_pass(k, m, w, b, rows);
  if (!b->front) return;
  dense_input_gradient(k, m, w, b, 0, rows, tt_cpu_front_delta(b->front, b->front_row));
  tt_cpu_front_backward(&p);
}

void tt_cpu_channel_gradient(const tt_kernels *k, const tt_model *m, tt_cpu_buffers *b, int l,
                             tt_slice channels, int64_t rows, float *gradient)
{
  tt_cpu_front_pass p = front_pass(k, m, NULL, b, rows);
  if (channels.count > 0) tt_cpu_front_gradient(&p, l, channels.first, channels.count, gradient);
}

void tt_cpu_backward(const tt_kernels *k, const tt_model *m, const float *w, tt_cpu_buffers *b,
                     int64_t rows, float *gradient)
{
  for (int l = m->layers - 1; l >= 0; l--) {
    tt_cpu_layer_gradient(k, m, b, l, (tt_slice){0, m->layer[l].out}, rows, gradient);
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
