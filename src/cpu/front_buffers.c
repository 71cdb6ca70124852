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
  return windows ? tt_front_list_taps(l, NULL, NULL, NULL) : 0;
}

static int lists_of(const tt_front_layer *l, int training)
{
  return training && l->kind == TT_FRONT_conv ? 3 : 1;
}

/* int32 numbers of the lists of a layer: two for each pair, one for each key. */
static int64_t count_indices(const tt_front_layer *l, int training)
{
  int64_t keys = tt_front_positions(l) + 1;
  if (lists_of(l, training) == 3) keys += tt_front_positions_in(l) + 1 + kernel_positions(l) + 1;
  return keys + 2 * lists_of(l, training) * count_taps(l);
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
  TT_TRY(TT_ALLOC(b->indices, count_indices(l, training)));
  TT_TRY(TT_ALLOC(triple, 3 * taps));
  int32_t *dst = triple, *tap = dst + taps, *src = tap + taps, *scratch = b->indices;
  (void)tt_front_list_taps(l, dst, tap, src);
  b->by_output = sort_taps(taps, tt_front_positions(l), dst, tap, src, &scratch);
  if (lists_of(l, training) == 3) {
    b->by_input = sort_taps(taps, tt_front_positions_in(l), src, tap, dst, &scratch);
    b->by_tap = sort_taps(taps, kernel_positions(l), tap, dst, src, &scratch);
  }
  tt_free(triple);
  return TT_OK;
}

/* Sizes of the arrays of a layer, in rows of ld floats: y, slope, mask, delta, normalized,
 * inverse_std, moments, skip_delta, branch_delta. */
enum { ARRAYS = 9 };
static void array_sizes(const tt_front *f, int number, int training, int64_t size[ARRAYS])
{
  const tt_front_layer *l = &f->layer[number];
  int64_t values = tt_front_values(l), by_group = l->kind == TT_FRONT_group_norm;
  int64_t by_batch = l->kind == TT_FRONT_batch_norm;
  size[0] = values;
  size[1] = l->activation != TT_ACT_identity ? values : 0;
  size[2] = training && l->kind == TT_FRONT_dropout ? l->channels : 0;
  size[3] = training ? values : 0;
  size[4] = training && (by_group || by_batch) ? values : 0;
  size[5] = training && by_group ? l->groups : 0;
  size[6] = training && by_batch ? l->channels : 0;
  size[7] = training && l->skip != TT_FRONT_NO_SKIP ? values : 0;
  size[8] = training && l->from != number - 1 ? tt_front_values_in(l) : 0;
}

static tt_err allocate_arrays(const tt_front *f, int l, int64_t ld, int training,
                              tt_cpu_front_layer *b)
{
  int64_t size[ARRAYS];
  float **array[ARRAYS] = {&b->y,       &b->slope,      &b->mask,
                           &b->delta,   &b->normalized, &b->inverse_std,
                           &b->moments, &b->skip_delta, &b->branch_delta};
  array_sizes(f, l, training, size);
  for (int i = 0; i < ARRAYS; i++)
    if (size[i]) TT_TRY(TT_ALLOC(*array[i], size[i] * ld));
  return TT_OK;
}

tt_err tt_cpu_front_create(const tt_front *f, int64_t ld, int training, tt_cpu_front **out)
{
  tt_cpu_front *b = NULL;
  tt_err e = TT_ALLOC(b, 1);
  if (!e) b->layers = f->layers;
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
  tt_err e = TT_ALLOC(b, 1);
  if (!e) b->layers = front->layers;
  for (int l = first; !e && l < end; l++) {
    tt_cpu_front_layer *layer = &b->layer[l];
    layer->by_output = front->layer[l].by_output;
    layer->by_input = front->layer[l].by_input;
    layer->by_tap = front->layer[l].by_tap;
    e = allocate_arrays(f, l, ld, 1, layer);
  }
  if (!e && first > 0)
    e = TT_ALLOC(b->layer[first - 1].y, tt_front_values(&f->layer[first - 1]) * ld);
  if (e)
    tt_cpu_front_destroy(&b);
  else
    *out = b;
  return e;
}

static int64_t array_bytes(const tt_front *f, int l, int64_t ld, int training)
{
  int64_t size[ARRAYS], bytes = 0;
  array_sizes(f, l, training, size);
  for (int i = 0; i < ARRAYS; i++)
    if (size[i]) bytes += tt_alloc_size(size[i] * ld, sizeof(float));
  return bytes;
}

int64_t tt_cpu_front_slot_bytes(const tt_front *f, int first, int end, int64_t ld)
{
  int64_t bytes = tt_alloc_size(1, sizeof(tt_cpu_front));
  if (first > 0) bytes += tt_alloc_size(tt_front_values(&f->layer[first - 1]) * ld, sizeof(float));
  for (int l = first; l < end; l++) bytes += array_bytes(f, l, ld, 1);
  return bytes;
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

int64_t tt_cpu_front_bytes(const tt_front *f, int64_t ld, int training)
{
  int64_t bytes = f->layers ? tt_alloc_size(1, sizeof(tt_cpu_front)) : 0;
  for (int l = 0; l < f->layers; l++) {
    bytes += array_bytes(f, l, ld, training);
    if (count_taps(&f->layer[l]))
      bytes += tt_alloc_size(count_indices(&f->layer[l], training), sizeof(int32_t));
  }
  return bytes;
}
