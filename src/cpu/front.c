/* front.c — passes through the front of a network; see front.h. */
#include "src/cpu/front.h"

#include "core/formulas/layer_norm.h"

#include <string.h>

static int is_pool(const tt_front_layer *l)
{
  return l->kind == TT_FRONT_pool || l->kind == TT_FRONT_global_mean;
}

static int64_t kernel_positions(const tt_front_layer *l)
{
  return (int64_t)l->size[0] * l->size[1];
}

static int is_activated(const tt_front_layer *l) { return l->activation != TT_ACT_identity; }

/* Whether a layer is the first one of a projection: it does not read the layer before. */
static int begins_projection(const tt_front *f, int l) { return f->layer[l].from != l - 1; }

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
                         layer->bias < 0 ? NULL : p->w + layer->bias + g * c.outputs,
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

/* Whether batch_norm takes the moments of the batch: in training, unless it keeps its weights. */
static int takes_moments(const tt_cpu_front_pass *p, int l, int gradient)
{
  return gradient && tt_model_rate(p->model, l) > 0.0f;
}

/* The moments of the batch, and what they change in the running ones. */
static void take_moments(const tt_cpu_front_pass *p, const tt_front_layer *layer, int64_t c,
                         const float *x, float *moments)
{
  int64_t each = tt_front_positions(layer);
  const float *running = p->w + layer->running + c;
  float mean, variance;
  p->kernels->moments(each, p->rows, x, &mean, &variance, p->ld);
  moments[0] = mean;
  moments[1] = tt_layer_norm_inverse_std(variance, 1.0f);
  moments[2] = p->running_share * (mean - running[0]);
  moments[3] = tt_batch_norm_variance_change(variance, each * p->rows, running[layer->channels],
                                             p->running_share);
}

/* How channel c is normalized: with the moments of the batch, or the running ones (NULL). */
static tt_channel_norm channel_norm(const tt_cpu_front_pass *p, const tt_front_layer *layer,
                                    int64_t c, const float *moments)
{
  const float *running = p->w + layer->running + c;
  return (tt_channel_norm){.mean = moments ? moments[0] : running[0],
                           .inverse_std =
                               moments ? moments[1]
                                       : tt_layer_norm_inverse_std(running[layer->channels], 1.0f),
                           .gain = p->w[layer->weight + c],
                           .shift = p->w[layer->bias + c]};
}

/* Result of layer l; -1: the inputs. */
static const float *result_of(const tt_cpu_front_pass *p, int l)
{
  return l < 0 ? p->x : p->buffers->layer[l].y + p->row;
}

/* z of layer l: where the activation reads it, or the result itself. */
static float *z_of(const tt_cpu_front_pass *p, int l)
{
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  return (is_activated(&p->front->layer[l]) ? b->slope : b->y) + p->row;
}

/* From z to the result, for some values of layer l. */
static void finish_result(const tt_cpu_front_pass *p, int l, int64_t first, int64_t count,
                          int gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  int64_t offset = first * p->ld;
  float *y = p->buffers->layer[l].y + p->row + offset, *z = z_of(p, l) + offset;
  const float *skip = layer->skip == TT_FRONT_NO_SKIP ? NULL : result_of(p, layer->skip) + offset;
  if (skip && layer->activates_sum) p->kernels->add(count, skip, z, p->ld, p->n);
  if (is_activated(layer))
    p->kernels->activate(layer->activation, count, p->n, z, y, p->ld, gradient);
  if (skip && !layer->activates_sum) p->kernels->add(count, skip, y, p->ld, p->n);
}

/* The result of a batch_norm, channel by channel, so that the values of one stay in cache. */
static void normalize_channels(const tt_cpu_front_pass *p, int l, const float *x, int gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer);
  for (int64_t c = 0; c < layer->channels; c++) {
    int64_t offset = c * each * p->ld;
    float *moments = takes_moments(p, l, gradient) ? b->moments + c * p->ld : NULL;
    if (moments) take_moments(p, layer, c, x + offset, moments);
    tt_channel_norm norm = channel_norm(p, layer, c, moments);
    p->kernels->normalize(each, &norm, x + offset,
                          gradient ? b->normalized + offset + p->row : NULL, z_of(p, l) + offset,
                          p->ld, p->n);
    finish_result(p, l, c * each, each, gradient);
  }
}

/* Running moments do not depend on the batch, so that dL/dx is dL/dy times a factor. */
static void normalize_channels_back(const tt_cpu_front_pass *p, int l, const float *d, float *dst)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer);
  for (int64_t c = 0; c < layer->channels; c++) {
    int64_t offset = c * each * p->ld;
    int by_batch = takes_moments(p, l, 1);
    tt_channel_norm norm = channel_norm(p, layer, c, by_batch ? b->moments + c * p->ld : NULL);
    if (by_batch) {
      p->kernels->normalize_gradient(each, p->rows, &norm, b->moments + c * p->ld + 4,
                                     b->normalized + offset + p->row, d + offset, dst + offset,
                                     p->ld, p->n);
      continue;
    }
    const tt_channel_norm factor = {0.0f, norm.inverse_std, norm.gain, 0.0f};
    p->kernels->normalize(each, &factor, d + offset, NULL, dst + offset, p->ld, p->n);
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
  float *y = b->y + p->row;
  switch (layer->kind) {
  case TT_FRONT_conv: convolve(p, l, x, z_of(p, l)); break;
  case TT_FRONT_group_norm: normalize(p, l, x, z_of(p, l), gradient); break;
  case TT_FRONT_batch_norm: normalize_channels(p, l, x, gradient); return;
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
  finish_result(p, l, 0, values, gradient);
}

void tt_cpu_front_forward(const tt_cpu_front_pass *p, int first, int end, const tt_dropout *drop,
                          int64_t unit, int gradient)
{
  for (int l = first; l < end; l++) {
    const tt_front_layer *layer = &p->front->layer[l];
    forward_layer(p, l, result_of(p, layer->from), drop, unit, gradient);
    if (layer->kind == TT_FRONT_dropout) unit += layer->channels;
  }
}

/* Backward */

/* dL/dy of some values of layer l -> dL/dz; keeps the derivative by a sum for the layer that is
 * added. */
static void finish_delta(const tt_cpu_front_pass *p, int l, int64_t first, int64_t count)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t offset = first * p->ld + p->row;
  float *d = b->delta + offset;
  int adds = layer->skip != TT_FRONT_NO_SKIP;
  if (adds && !layer->activates_sum) copy(count, d, b->skip_delta + offset, p->ld, p->n);
  if (is_activated(layer)) p->kernels->times(count, b->slope + offset, d, p->ld, p->n);
  if (adds && layer->activates_sum) copy(count, d, b->skip_delta + offset, p->ld, p->n);
}

/* The same for all values, and the sums of batch_norm over a channel, while it is in cache. */
static void finish_deltas(const tt_cpu_front_pass *p, int l)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const tt_cpu_front_layer *b = &p->buffers->layer[l];
  int64_t each = tt_front_positions(layer);
  if (layer->kind != TT_FRONT_batch_norm) {
    finish_delta(p, l, 0, tt_front_values(layer));
    return;
  }
  for (int64_t c = 0; c < layer->channels; c++) {
    int64_t offset = c * each * p->ld + p->row;
    finish_delta(p, l, c * each, each);
    if (takes_moments(p, l, 1))
      p->kernels->delta_sums(each, p->rows, b->normalized + offset, b->delta + offset,
                             b->moments + c * p->ld + 4, p->ld);
  }
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

/* dL/dz of layer l -> dL/d(its input), by this layer alone. */
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
  case TT_FRONT_batch_norm: normalize_channels_back(p, l, d, dst); break;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean:
    p->kernels->pool_gradient(layer->pool, layer->channels, in, &b->by_output, window_share(layer),
                              result_of(p, layer->from), d, dst, p->ld, p->n);
    break;
  default:
    copy(values, d, dst, p->ld, p->n);
    mask_channels(p, l, dst);
    break;
  }
}

/* dL/d(result of layer l - 1) by all layers that read it: layer l, projections and sums. */
static void collect_deltas(const tt_cpu_front_pass *p, int l, float *dst)
{
  const tt_front *f = p->front;
  int64_t values = tt_front_values_in(&f->layer[l]);
  backward_layer(p, l, dst);
  for (int e = l; e < f->layers; e++) {
    const tt_cpu_front_layer *b = &p->buffers->layer[e];
    if (f->layer[e].skip == l - 1)
      p->kernels->add(values, b->skip_delta + p->row, dst, p->ld, p->n);
    if (begins_projection(f, e) && f->layer[e].from == l - 1)
      p->kernels->add(values, b->branch_delta + p->row, dst, p->ld, p->n);
  }
}

/* dL/dy of layer l, the last row of a residual with a projection. No layer reads its result; it is
 * only added to that of the projection. */
static void take_sum_delta(const tt_cpu_front_pass *p, int l)
{
  const tt_front *f = p->front;
  for (int e = l + 1; e < f->layers; e++)
    if (f->layer[e].skip == l)
      copy(tt_front_values(&f->layer[l]), p->buffers->layer[e].skip_delta + p->row,
           p->buffers->layer[l].delta + p->row, p->ld, p->n);
}

void tt_cpu_front_backward(const tt_cpu_front_pass *p, int first, int end)
{
  for (int l = end - 1; l >= first; l--) {
    if (l + 1 < end && begins_projection(p->front, l + 1)) take_sum_delta(p, l);
    finish_deltas(p, l);
    if (begins_projection(p->front, l))
      backward_layer(p, l, p->buffers->layer[l].branch_delta + p->row);
    else if (l > first)
      collect_deltas(p, l, p->buffers->layer[l - 1].delta + p->row);
  }
}

void tt_cpu_front_input_gradient(const tt_cpu_front_pass *p, int layer, float *dx)
{
  collect_deltas(p, layer, dx);
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
                                  result_of(p, layer->from) +
                                      g * c.channels * c.from_positions * p->ld,
                                  gradient + layer->weight + o * c.output_step,
                                  layer->bias < 0 ? NULL : gradient + layer->bias + o, p->ld, p->n);
  }
}

/* Of the parameters and running values of channel c of a batch_norm. */
static void batch_norm_gradient(const tt_cpu_front_pass *p, int l, int64_t c, float *gradient)
{
  const tt_front_layer *layer = &p->front->layer[l];
  const float *moments = p->buffers->layer[l].moments + c * p->ld;
  gradient[layer->weight + c] = moments[5];
  gradient[layer->bias + c] = moments[4];
  gradient[layer->running + c] = moments[2];
  gradient[layer->running + layer->channels + c] = moments[3];
}

void tt_cpu_front_gradient(const tt_cpu_front_pass *p, int layer, int64_t first, int64_t channels,
                           float *gradient)
{
  tt_front_kind kind = p->front->layer[layer].kind;
  if (kind == TT_FRONT_conv) conv_gradient(p, layer, first, channels, gradient);
  for (int64_t c = first; kind == TT_FRONT_group_norm && c < first + channels; c++)
    norm_gradient(p, layer, c, gradient);
  for (int64_t c = first; kind == TT_FRONT_batch_norm && c < first + channels; c++)
    batch_norm_gradient(p, layer, c, gradient);
}
