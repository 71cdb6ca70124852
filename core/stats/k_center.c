/* k_center.c — see k_center.h. */
#include "core/stats/k_center.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

static tt_err allocate_arrays(int with_score, tt_k_center *a)
{
  TT_TRY(TT_ALLOC(a->x, a->inputs * a->count));
  TT_TRY(TT_ALLOC(a->min_distance, a->count));
  if (!with_score) return TT_OK;
  TT_TRY(TT_ALLOC(a->score, a->count));
  TT_TRY(TT_ALLOC(a->value, a->count));
  return TT_ALLOC(a->value_distance, a->count);
}

tt_err tt_k_center_create(int64_t first, int64_t count, int64_t inputs, const double *score,
                          tt_k_center *out)
{
  *out = (tt_k_center){.first = first, .count = count, .inputs = inputs};
  tt_err e = allocate_arrays(score != NULL, out);
  if (e) tt_k_center_free(out);
  for (int64_t i = 0; i < count && !e; i++) {
    out->min_distance[i] = INFINITY;
    if (!score) continue;
    out->score[i] = score[i];
    out->value[i] = (float)score[i];
    out->value_distance[i] = INFINITY;
  }
  return e;
}

void tt_k_center_load(tt_k_center *a, int64_t begin, int64_t n, const float *x)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < a->inputs; d++) a->x[d * a->count + begin + i] = x[i * a->inputs + d];
}

void tt_k_center_free(tt_k_center *a)
{
  tt_free_all(&a->x, &a->min_distance, &a->score, &a->value, &a->value_distance);
  *a = (tt_k_center){0};
}

enum { BLOCK_ROWS = 512 }; /* candidates whose inputs stay in cache in the loop over centers */

static void update_block(tt_k_center *a, int64_t begin, int64_t n, const float *center)
{
  float sum[BLOCK_ROWS] = {0};
  for (int64_t d = 0; d < a->inputs; d++) {
    const float *x = a->x + d * a->count + begin;
    const float coordinate = center[d];
    for (int64_t i = 0; i < n; i++) {
      float difference = x[i] - coordinate;
      sum[i] += difference * difference;
    }
  }
  float *min_distance = a->min_distance + begin;
  for (int64_t i = 0; i < n; i++)
    min_distance[i] = sum[i] < min_distance[i] ? sum[i] : min_distance[i];
}

void tt_k_center_add_centers(tt_k_center *a, const float *center, int64_t n)
{
  for (int64_t begin = 0; begin < a->count; begin += BLOCK_ROWS)
    for (int64_t k = 0; k < n; k++)
      update_block(a, begin, a->count - begin < BLOCK_ROWS ? a->count - begin : BLOCK_ROWS,
                   center + k * a->inputs);
}

int tt_k_center_choose(tt_k_center *a, int64_t position, float *x)
{
  int64_t offset = position - a->first;
  if (offset < 0 || offset >= a->count) return 0;
  a->min_distance[offset] = -1.0f;
  for (int64_t d = 0; d < a->inputs; d++) x[d] = a->x[d * a->count + offset];
  return 1;
}

/* Floats >= 0 have the same order as their bits. */
static int64_t make_key(float value, int64_t position)
{
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return (int64_t)((uint64_t)bits << 32 | (0xFFFFFFFFu - (uint32_t)position));
}

static int64_t best_key(const tt_k_center *a, const float *value)
{
  int64_t best = -1;
  for (int64_t i = 0; i < a->count; i++)
    if (a->min_distance[i] >= 0.0f && (best < 0 || value[i] > value[best])) best = i;
  return best < 0 ? TT_K_CENTER_NONE : make_key(value[best] + 0.0f, a->first + best);
}

int64_t tt_k_center_farthest(const tt_k_center *a) { return best_key(a, a->min_distance); }

int64_t tt_k_center_penalized(tt_k_center *a, double length)
{
  double unit = (double)a->inputs * length * length;
  for (int64_t i = 0; i < a->count; i++) {
    if (a->min_distance[i] < 0.0f || a->min_distance[i] == a->value_distance[i]) continue;
    a->value_distance[i] = a->min_distance[i];
    a->value[i] = (float)(a->score[i] * -expm1(-(double)a->min_distance[i] / unit));
  }
  return best_key(a, a->value);
}
