/* front.c — the layers of a front: sizes, parameters, taps; see front.h. */
#include "core/front/front.h"
#include "core/base/mem.h"
#include "core/base/sort.h"

#include <math.h>
#include <string.h>

int64_t tt_front_positions_in(const tt_front_layer *l) { return (int64_t)l->in[0] * l->in[1]; }
int64_t tt_front_positions(const tt_front_layer *l) { return (int64_t)l->out[0] * l->out[1]; }
int64_t tt_front_values_in(const tt_front_layer *l)
{
  return l->in_channels * tt_front_positions_in(l);
}
int64_t tt_front_values(const tt_front_layer *l) { return l->channels * tt_front_positions(l); }

int64_t tt_front_fan_in(const tt_front_layer *l)
{
  return (int64_t)l->in_channels / l->groups * l->size[0] * l->size[1];
}

int64_t tt_front_weights(const tt_front_layer *l)
{
  if (l->weight < 0) return 0;
  return l->kind == TT_FRONT_conv ? l->channels * tt_front_fan_in(l) : l->channels;
}

int64_t tt_front_running(const tt_front_layer *l)
{
  return l->running < 0 ? 0 : 2 * (int64_t)l->channels;
}

int64_t tt_front_layer_params(const tt_front_layer *l)
{
  return tt_front_weights(l) + (l->bias < 0 ? 0 : l->channels) + tt_front_running(l);
}

int64_t tt_front_all_running(const tt_front *f)
{
  int64_t count = 0;
  for (int l = 0; l < f->layers; l++) count += tt_front_running(&f->layer[l]);
  return count;
}

/* Output number o of the layer is -1 below `low`, 1 above `high`, and linear between them. It is 0
 * for a bin that is too narrow for single precision. */
static void set_piece(const tt_front_layer *l, int64_t o, double low, double high, float *w)
{
  double width = high - low, size = fmax(fabs(low), fabs(high));
  int kept = width > 1e-3 * size;
  w[l->weight + o] = kept ? (float)(2.0 / width) : 0.0f;
  w[l->bias + o] = kept ? (float)(-(low + high) / width) : 0.0f;
}

void tt_front_set_pieces(const tt_front_layer *l, int64_t channel, int64_t n, const double *value,
                         float *w)
{
  int64_t each = l->channels / l->in_channels, bins = each - 1, first = channel * each;
  double low = tt_sorted_quantile(n, value, 0.0), high = tt_sorted_quantile(n, value, 1.0);
  set_piece(l, first, low, high, w);
  for (int64_t b = 1; b <= bins; b++, low = high) {
    high = tt_sorted_quantile(n, value, (double)b / (double)bins);
    set_piece(l, first + b, low, high, w);
  }
}

int tt_front_can_cut(const tt_front *f, int layer)
{
  return layer >= f->layers || f->layer[layer].begins_block;
}

tt_err tt_front_own(tt_front *f)
{
  const tt_front_layer *shared = f->layer;
  int32_t layers = f->layers;
  f->layer = NULL;
  f->layers = 0;
  if (!layers) return TT_OK;
  TT_TRY(TT_ALLOC(f->layer, layers));
  memcpy(f->layer, shared, (size_t)layers * sizeof *shared);
  f->layers = layers;
  return TT_OK;
}

void tt_front_destroy(tt_front *f)
{
  tt_free(f->layer);
  f->layers = 0;
}

int tt_front_equal(const tt_front *a, const tt_front *b)
{
  int same = a->layers == b->layers && a->dims == b->dims && a->channels == b->channels &&
             !memcmp(a->size, b->size, sizeof a->size);
  for (int i = 0; same && i < a->layers; i++) {
    const tt_front_layer *k = &a->layer[i], *l = &b->layer[i];
    same = k->kind == l->kind && k->pool == l->pool && k->activation == l->activation &&
           k->channels == l->channels && k->groups == l->groups && k->from == l->from &&
           k->skip == l->skip && k->activates_sum == l->activates_sum &&
           k->projects == l->projects && !memcmp(k->size, l->size, sizeof k->size) &&
           !memcmp(k->stride, l->stride, sizeof k->stride) &&
           !memcmp(k->pad, l->pad, sizeof k->pad) &&
           !memcmp(k->dilation, l->dilation, sizeof k->dilation);
  }
  return same;
}

double tt_front_products(const tt_front_layer *l)
{
  if (l->kind != TT_FRONT_conv) return 0.0;
  return (double)tt_front_values(l) * (double)tt_front_fan_in(l);
}

int64_t tt_front_count_taps(const tt_front_layer *l)
{
  int64_t along[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    for (int32_t p = 0; p < l->out[i]; p++)
      for (int32_t t = 0; t < l->size[i]; t++) {
        int32_t read = p * l->stride[i] - l->pad[i] + t * l->dilation[i];
        along[i] += read >= 0 && read < l->in[i];
      }
  return along[0] * along[1];
}

void tt_front_list_taps(const tt_front_layer *l, int32_t *dst, int32_t *tap, int32_t *src)
{
  int64_t n = 0;
  for (int32_t p = 0; p < l->out[0] * l->out[1]; p++)
    for (int32_t t = 0; t < l->size[0] * l->size[1]; t++) {
      int32_t read = tt_front_position_read(l, p, t);
      if (read < 0) continue;
      dst[n] = p;
      tap[n] = t;
      src[n++] = read;
    }
}
