/* front.c — passes through the front of a network; see front.h. */
#include "src/cpu/front.h"

#include "core/base/mem.h"

#include <string.h>

/* Buffers */

static int is_pool(const tt_front_layer *l)
{
  return l->kind == TT_FRONT_pool || l->kind == TT_FRONT_global_mean;
}

static int64_t count_taps(const tt_front_layer *l)
{
  int windows = l->kind == TT_FRONT_conv || is_pool(l);
  return windows ? tt_front_count_taps(l) : 0;
}

static int64_t kernel_positions(const tt_front_layer *l)
{
  return (int64_t)l->size[0] * l->size[1];
}

static int is_activated(const tt_front_layer *l) { return l->activation != TT_ACT_identity; }

static int lists_of(const tt_front_layer *l, int training)
{
  return training && l->kind == TT_FRONT_conv ? 3 : 1;
}

/* int32 numbers of the lists of a layer: two for each pair, one for each key. */
static int64_t count_indices(const tt_front_layer *l, int64_t taps, int training)
{
  int64_t keys = tt_front_positions(l) + 1;
  if (lists_of(l, training) == 3) keys += tt_front_positions_in(l) + 1 + kernel_positions(l) + 1;
  return keys + 2 * lists_of(l, training) * taps;
}

/* A list of pairs (one, other), sorted by their keys, which are stored from *scratch on. */
static tt_taps sort_taps(int64_t taps, int64_t keys, const int32_t *key, const int32_t *one,
                         const int32_t *other, int32_t **scratch)
{
  int32_t *first = *scratch, *outputs = first + keys + 1, *inputs = outputs + taps;
  memset(first, 0, (size_t)(keys + 1) * sizeof *first);
  for (int64_t t = 0; t < taps; t++) first[key[t] + 1]++;
  for (int64_t k = 0; k < keys; k++) first[k + 1] += first[k];
  for (int64_t t = 0; t < taps; t++) {
    int32_t slot = first[key[t]]++;
    outputs[slot] = one[t], inputs[slot] = other[t];
  }
  for (int64_t k = keys; k > 0; k--) first[k] = first[k - 1]; /* each has moved to the next key */
  first[0] = 0;
  *scratch = inputs + taps;
  return (tt_taps){keys, first, outputs, inputs};
}

static tt_err make_lists(const tt_front_layer *l, int training, tt_cpu_front_layer *b)
{
  int64_t taps = count_taps(l);
  int32_t *triple = NULL;
  if (!taps) return TT_OK;
  TT_TRY(TT_ALLOC_VALUES(b->indices, count_indices(l, taps, training)));
  if (tt_mem_counts()) return TT_OK;
  TT_TRY(TT_ALLOC(triple, 3 * taps));
  int32_t *dst = triple, *tap = dst + taps, *src = tap + taps, *scratch = b->indices;
  tt_front_list_taps(l, dst, tap, src);
  b->by_output = sort_taps(taps, tt_front_positions(l), dst, tap, src, &scratch);
  if (lists_of(l, training) == 3) {
    b->by_input = sort_taps(taps, tt_front_positions_in(l), src, tap, dst, &scratch);
    b->by_tap = sort_taps(taps, kernel_positions(l), tap, dst, src, &scratch);
  }
  tt_free(triple);
  return TT_OK;
}

static tt_err allocate_array(int64_t values, int64_t ld, float **out)
{
  return values ? TT_ALLOC_VALUES(*out, values * ld) : TT_OK;
}

static tt_err allocate_arrays(const tt_front_layer *l, int64_t ld, int training,
                              tt_cpu_front_layer *b)
{
  int64_t values = tt_front_values(l);
  TT_TRY(allocate_array(values, ld, &b->y));
  if (is_activated(l)) TT_TRY(allocate_array(values, ld, &b->slope));
  if (!training) return TT_OK;
  TT_TRY(allocate_array(values, ld, &b->delta));
  if (l->kind == TT_FRONT_dropout) TT_TRY(allocate_array(l->channels, ld, &b->mask));
  if (l->skip != TT_FRONT_NO_SKIP) TT_TRY(allocate_array(values, ld, &b->skip_delta));
  if (l->kind != TT_FRONT_group_norm) return TT_OK;
  TT_TRY(allocate_array(values, ld, &b->normalized));
  return allocate_array(l->groups, ld, &b->inverse_std);
}

tt_err tt_cpu_front_create(const tt_front *f, int64_t ld, int training, tt_cpu_front **out)
{
  tt_cpu_front *b = NULL;
  tt_err e = TT_ALLOC(b, 1);
  if (!e) b->layers = f->layers;
  for (int l = 0; !e && l < f->layers; l++) {
    e = allocate_arrays(&f->layer[l], ld, training, &b->layer[l]);
    if (!e) e = make_lists(&f->layer[l], training, &b->layer[l]);
  }
  if (e)
    tt_cpu_front_destroy(&b);
  else
    *out = b;
  return e;
}

tt_err tt_cpu_front_slot_create(const tt_front *f, const tt_cpu_front *front, int first, int end,
                                int64_t ld, tt_cpu_front **out)
{
  tt_cpu_front *b = NULL;
  tt_err e = TT_ALLOC(b, 1);
  if (!e) b->layers = front->layers;
  for (int l = first; !e && l < end; l++) {
    tt_cpu_front_layer *layer = &b->layer[l];
    layer->by_output = front->layer[l].by_output;
    layer->by_input = front->layer[l].by_input;
    layer->by_tap = front->layer[l].by_tap;
    e = allocate_arrays(&f->layer[l], ld, 1, layer);
  }
  if (!e && first > 0)
    e = TT_ALLOC_VALUES(b->layer[first - 1].y, tt_front_values(&f->layer[first - 1]) * ld);
  if (e)
    tt_cpu_front_destroy(&b);
  else
    *out = b;
  return e;
}

void tt_cpu_front_destroy(tt_cpu_front **b)
{
  if (!*b) return;
  for (int l = 0; l < (*b)->layers; l++) {
    tt_cpu_front_layer *layer = &(*b)->layer[l];
    tt_free_all(&layer->y, &layer->slope, &layer->mask, &layer->delta, &layer->normalized,
                &layer->inverse_std, &layer->skip_delta, &layer->indices);
  }
  tt_free(*b);
}

float *tt_cpu_front_result(const tt_cpu_front *b, int layer, int64_t row)
{
  return b->layer[layer].y + row;
}

float *tt_cpu_front_delta(const tt_cpu_front *b, int layer, int64_t row)
{
  return b->layer[layer].delta + row;
}

/* Forward */

static void copy(int64_t values, const float *src, float *dst, int64_t ld, int64_t n)
{
  for (int64_t v = 0; v < values; v++) memcpy(dst + v * ld, src + v * ld, (size_t)n * sizeof *dst);
}

/* What group g of a conv has in its weights and channels. */
static tt_convolution forward_of(const tt_front_layer *l, const tt_cpu_front_layer *b)
{
  return (tt_convolution){.outputs = l->channels / l->groups,
                          .channels = l->in_channels / l->groups,
                          .output_step = tt_front_fan_in(l),
                          .channel_step = kernel_positions(l),
                          .positions = tt_front_positions(l),
                          .from_positions = tt_front_positions_in(l),
                          .taps = b->by_output};
}

static void convolve(const tt_cpu_front_pass *p, int l, const float *x, float *z)
{
  const tt_front_layer *layer = &p->front->layer[l];
  tt_convolution c = forward_of(layer, &p->buffers->layer[l]);
  for (int64_t g = 0; g < layer->groups; g++)
    p->kernels->convolve(&c, p->w + layer->weight + g * c.outputs * c.output_step,
                         p->w + layer->bias + g * c.outputs,
                         x + g * c.channels * c.from_positions * p->ld,
                         z + g * c.outputs * c.positions * p->ld, p->ld, p->n);
}

static void normalize(const tt_cpu_front_pass *p, int l, const float *x, float *z, int gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer), out = layer->channels / layer->groups;
  copy(tt_front_values(layer), x, z, p->ld, p->n);
  for (int64_t g = 0; g < layer->groups; g++) {
    int64_t offset = g * out * each * p->ld;
    p->kernels->norm(out, each, p->w + layer->weight + g * out, p->w + layer->bias + g * out,
                     z + offset, gradient ? b->normalized + offset + p->row : NULL,
                     gradient ? b->inverse_std + g * p->ld + p->row : NULL, p->ld, p->n);
  }
}

static float window_share(const tt_front_layer *l) { return 1.0f / (float)kernel_positions(l); }

/* Multiply each channel by its mask. */
static void mask_channels(const tt_cpu_front_pass *p, int l, float *y)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const float *mask = p->buffers->layer[l].mask + p->row;
  int64_t each = tt_front_positions(layer);
  for (int64_t v = 0; v < layer->channels * each; v++)
    p->kernels->times(1, mask + v / each * p->ld, y + v * p->ld, p->ld, p->n);
}

/* Set the mask and multiply. Without dropout in training the mask is 1. */
static void drop_channels(const tt_cpu_front_pass *p, int l, const tt_dropout *drop, int64_t unit,
                          float *y)
{
  const tt_front_layer *layer = &p->front->layer[l];
  float *mask = p->buffers->layer[l].mask;
  if (!mask) return;
  mask += p->row;
  for (int64_t c = 0; c < layer->channels; c++)
    for (int64_t r = 0; r < p->n; r++) mask[c * p->ld + r] = 1.0f;
  if (!drop) return;
  p->kernels->drop(drop, unit, layer->channels, mask, NULL, p->ld, p->n);
  mask_channels(p, l, y);
}

/* x -> result of layer l. */
static void forward_layer(const tt_cpu_front_pass *p, int l, const float *x, const tt_dropout *drop,
                          int64_t unit, int gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t in = tt_front_positions_in(layer), values = tt_front_values(layer);
  float *y = b->y + p->row, *z = is_activated(layer) ? b->slope + p->row : y;
  switch (layer->kind) {
  case TT_FRONT_conv: convolve(p, l, x, z); break;
  case TT_FRONT_group_norm: normalize(p, l, x, z, gradient); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean:
    p->kernels->pool(layer->pool, layer->channels, in, &b->by_output, window_share(layer), x, y,
                     p->ld, p->n);
    break;
  default:
    copy(values, x, y, p->ld, p->n);
    drop_channels(p, l, drop, unit, y);
    break;
  }
  if (is_activated(layer))
    p->kernels->activate(layer->activation, values, p->n, z, y, p->ld, gradient);
}

/* Result of layer l; -1: the inputs. */
static const float *result_of(const tt_cpu_front_pass *p, int l)
{
  return l < 0 ? p->x : p->buffers->layer[l].y + p->row;
}

void tt_cpu_front_forward(const tt_cpu_front_pass *p, int first, int end, const tt_dropout *drop,
                          int64_t unit, int gradient)
{
  for (int l = first; l < end; l++) {
    const tt_front_layer *layer = &p->front->layer[l];
    forward_layer(p, l, result_of(p, l - 1), drop, unit, gradient);
    if (layer->skip != TT_FRONT_NO_SKIP)
      p->kernels->add(tt_front_values(layer), result_of(p, layer->skip),
                      p->buffers->layer[l].y + p->row, p->ld, p->n);
    if (layer->kind == TT_FRONT_dropout) unit += layer->channels;
  }
}

/* Backward */

/* dL/dy of layer l -> dL/dz; keeps the first one for the layer where a residual begins. */
static void finish_delta(const tt_cpu_front_pass *p, int l)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t values = tt_front_values(layer);
  float *d = b->delta + p->row;
  if (layer->skip != TT_FRONT_NO_SKIP) copy(values, d, b->skip_delta + p->row, p->ld, p->n);
  if (is_activated(layer)) p->kernels->times(values, b->slope + p->row, d, p->ld, p->n);
}

static void convolve_back(const tt_cpu_front_pass *p, int l, const float *d, float *dst)
{
  const tt_front_layer *layer = &p->front->layer[l];
  tt_convolution f = forward_of(layer, &p->buffers->layer[l]);
  const tt_convolution c = {.outputs = f.channels,
                            .channels = f.outputs,
                            .output_step = f.channel_step,
                            .channel_step = f.output_step,
                            .positions = f.from_positions,
                            .from_positions = f.positions,
                            .taps = p->buffers->layer[l].by_input};
  for (int64_t g = 0; g < layer->groups; g++)
    p->kernels->convolve(&c, p->w + layer->weight + g * f.outputs * f.output_step, NULL,
                         d + g * f.outputs * f.positions * p->ld,
                         dst + g * f.channels * f.from_positions * p->ld, p->ld, p->n);
}

static void normalize_back(const tt_cpu_front_pass *p, int l, const float *d, float *dst)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer), out = layer->channels / layer->groups;
  for (int64_t g = 0; g < layer->groups; g++) {
    int64_t offset = g * out * each * p->ld;
    p->kernels->norm_gradient(out, each, p->w + layer->weight + g * out,
                              b->normalized + offset + p->row, b->inverse_std + g * p->ld + p->row,
                              d + offset, dst + offset, p->ld, p->n);
  }
}

/* dL/dz of layer l -> dL/d(its input). */
static void backward_layer(const tt_cpu_front_pass *p, int l, float *dst)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  const float *d = b->delta + p->row;
  int64_t in = tt_front_positions_in(layer), values = tt_front_values_in(layer);
  for (int64_t v = 0; is_pool(layer) && v < values; v++)
    memset(dst + v * p->ld, 0, (size_t)p->n * sizeof *dst);
  switch (layer->kind) {
  case TT_FRONT_conv: convolve_back(p, l, d, dst); break;
  case TT_FRONT_group_norm: normalize_back(p, l, d, dst); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean:
    p->kernels->pool_gradient(layer->pool, layer->channels, in, &b->by_output, window_share(layer),
                              result_of(p, l - 1), d, dst, p->ld, p->n);
    break;
  default:
    copy(values, d, dst, p->ld, p->n);
    mask_channels(p, l, dst);
    break;
  }
  for (int e = l; e < p->front->layers; e++)
    if (p->front->layer[e].skip == l - 1)
      p->kernels->add(values, p->buffers->layer[e].skip_delta + p->row, dst, p->ld, p->n);
}

void tt_cpu_front_backward(const tt_cpu_front_pass *p, int first, int end)
{
  for (int l = end - 1; l >= first; l--) {
    finish_delta(p, l);
    if (l > first) backward_layer(p, l, p->buffers->layer[l - 1].delta + p->row);
  }
}

void tt_cpu_front_input_gradient(const tt_cpu_front_pass *p, int layer, float *dx)
{
  backward_layer(p, layer, dx);
}

/* Gradients of gain and shift of channel c. */
static void norm_gradient(const tt_cpu_front_pass *p, int l, int64_t c, float *gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer);
  float gain = 0.0f, shift = 0.0f;
  for (int64_t v = c * each; v < (c + 1) * each; v++) {
    float along, sum;
    p->kernels->weight_gradient(1, 1, b->delta + v * p->ld + p->row,
                                b->normalized + v * p->ld + p->row, &along, &sum, p->ld, p->n,
                                p->n);
    gain += along;
    shift += sum;
  }
  gradient[layer->weight + c] = gain;
  gradient[layer->bias + c] = shift;
}

/* Of the output channels [first, first + channels) of a conv, group by group. */
static void conv_gradient(const tt_cpu_front_pass *p, int l, int64_t first, int64_t channels,
                          float *gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  tt_convolution c = forward_of(layer, b);
  int64_t each = c.outputs, end = first + channels;
  c.taps = b->by_tap;
  for (int64_t o = first; o < end; o += c.outputs) {
    int64_t g = o / each, left = (g + 1) * each - o;
    c.outputs = end - o < left ? end - o : left;
    p->kernels->convolve_gradient(&c, b->delta + p->row + o * c.positions * p->ld,
                                  result_of(p, l - 1) + g * c.channels * c.from_positions * p->ld,
                                  gradient + layer->weight + o * c.output_step,
                                  gradient + layer->bias + o, p->ld, p->n);
  }
}

void tt_cpu_front_gradient(const tt_cpu_front_pass *p, int layer, int64_t first, int64_t channels,
                           float *gradient)
{
  tt_front_kind kind = p->front->layer[layer].kind;
  if (kind == TT_FRONT_conv) conv_gradient(p, layer, first, channels, gradient);
  for (int64_t c = first; kind == TT_FRONT_group_norm && c < first + channels; c++)
    norm_gradient(p, layer, c, gradient);
}
