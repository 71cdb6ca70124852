/* front_buffers.c — buffers of the front of a network; see front.h. */
#include "src/cpu/front.h"

#include "core/base/mem.h"

#include <string.h>

static int64_t kernel_positions(const tt_front_layer *l)
{
  return (int64_t)l->size[0] * l->size[1];
}

static int64_t count_taps(const tt_front_layer *l)
{
  int windows =
      l->kind == TT_FRONT_conv || l->kind == TT_FRONT_pool || l->kind == TT_FRONT_global_mean;
  return windows ? tt_front_count_taps(l) : 0;
}

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

static tt_err allocate_norm(const tt_front_layer *l, int64_t ld, tt_cpu_front_layer *b)
{
  int by_group = l->kind == TT_FRONT_group_norm;
  TT_TRY(allocate_array(tt_front_values(l), ld, &b->normalized));
  return by_group ? allocate_array(l->groups, ld, &b->inverse_std)
                  : allocate_array(l->channels, ld, &b->moments);
}

static tt_err allocate_arrays(const tt_front *f, int number, int64_t ld, int training,
                              tt_cpu_front_layer *b)
{
  const tt_front_layer *l = &f->layer[number];
  int64_t values = tt_front_values(l);
  TT_TRY(allocate_array(values, ld, &b->y));
  if (l->activation != TT_ACT_identity) TT_TRY(allocate_array(values, ld, &b->slope));
  if (!training) return TT_OK;
  TT_TRY(allocate_array(values, ld, &b->delta));
  if (l->kind == TT_FRONT_dropout) TT_TRY(allocate_array(l->channels, ld, &b->mask));
  if (l->skip != TT_FRONT_NO_SKIP) TT_TRY(allocate_array(values, ld, &b->skip_delta));
  if (l->from != number - 1) TT_TRY(allocate_array(tt_front_values_in(l), ld, &b->branch_delta));
  int norm = l->kind == TT_FRONT_group_norm || l->kind == TT_FRONT_batch_norm;
  return norm ? allocate_norm(l, ld, b) : TT_OK;
}

/* Buffers that have no arrays yet. */
static tt_err allocate_front(const tt_front *f, tt_cpu_front **out)
{
  size_t bytes = sizeof **out + (size_t)f->layers * sizeof(tt_cpu_front_layer);
  TT_TRY(tt_alloc_bytes(out, 1, bytes, "buffers of the layers of a front"));
  (*out)->layers = f->layers;
  return TT_OK;
}

tt_err tt_cpu_front_create(const tt_front *f, int64_t ld, int training, tt_cpu_front **out)
{
  tt_cpu_front *b = NULL;
  tt_err e = allocate_front(f, &b);
  for (int l = 0; !e && l < f->layers; l++) {
    e = allocate_arrays(f, l, ld, training, &b->layer[l]);
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
  tt_err e = allocate_front(f, &b);
  for (int l = first; !e && l < end; l++) {
    tt_cpu_front_layer *layer = &b->layer[l];
    layer->by_output = front->layer[l].by_output;
    layer->by_input = front->layer[l].by_input;
    layer->by_tap = front->layer[l].by_tap;
    e = allocate_arrays(f, l, ld, 1, layer);
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
                &layer->inverse_std, &layer->moments, &layer->skip_delta, &layer->branch_delta,
                &layer->indices);
  }
  tt_free(*b);
}
