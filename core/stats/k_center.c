/* k_center.c — see k_center.h. */
#include "core/stats/k_center.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

static tt_err allocate(int with_score, tt_apart *a)
{
  TT_TRY(TT_ALLOC(a->x, a->inputs * a->count));
  TT_TRY(TT_ALLOC(a->near, a->count));
  if (!with_score) return TT_OK;
  TT_TRY(TT_ALLOC(a->score, a->count));
  TT_TRY(TT_ALLOC(a->value, a->count));
  return TT_ALLOC(a->seen, a->count);
}

tt_err tt_apart_create(int64_t first, int64_t count, int64_t inputs, const double *score,
                       tt_apart *out)
{
  *out = (tt_apart){.first = first, .count = count, .inputs = inputs};
  tt_err e = allocate(score != NULL, out);
  if (e) tt_apart_free(out);
  for (int64_t i = 0; i < count && !e; i++) {
    out->near[i] = INFINITY;
    if (!score) continue;
    out->score[i] = score[i];
    out->value[i] = (float)score[i];
    out->seen[i] = INFINITY;
  }
  return e;
}

void tt_apart_load(tt_apart *a, int64_t from, int64_t n, const float *x)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < a->inputs; d++)
      a->x[d * a->count + from + i] = x[i * a->inputs + d];
}

void tt_apart_free(tt_apart *a)
{
  tt_free(a->x);
  tt_free(a->near);
  tt_free(a->score);
  tt_free(a->value);
  tt_free(a->seen);
  *a = (tt_apart){0};
}

enum { BLOCK = 512 }; /* candidates whose inputs stay in cache while all centres pass */

static void one_block(tt_apart *a, int64_t from, int64_t n, const float *centre)
{
  float sum[BLOCK] = {0};
  for (int64_t d = 0; d < a->inputs; d++) {
    const float *x = a->x + d * a->count + from;
    const float at = centre[d];
    for (int64_t i = 0; i < n; i++) {
      float difference = x[i] - at;
      sum[i] += difference * difference;
    }
  }
  float *near = a->near + from;
  for (int64_t i = 0; i < n; i++)
    near[i] = sum[i] < near[i] ? sum[i] : near[i];
}

void tt_apart_centres(tt_apart *a, const float *centre, int64_t n)
{
  for (int64_t from = 0; from < a->count; from += BLOCK)
    for (int64_t k = 0; k < n; k++)
      one_block(a, from, a->count - from < BLOCK ? a->count - from : BLOCK, centre + k * a->inputs);
}

int tt_apart_take(tt_apart *a, int64_t position, float *x)
{
  int64_t at = position - a->first;
  if (at < 0 || at >= a->count) return 0;
  a->near[at] = -1.0f;
  for (int64_t d = 0; d < a->inputs; d++)
    x[d] = a->x[d * a->count + at];
  return 1;
}

/* Floats that are not negative are ordered as their bits. */
static int64_t key_of(float value, int64_t position)
{
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return (int64_t)((uint64_t)bits << 32 | (0xFFFFFFFFu - (uint32_t)position));
}

static int64_t largest(const tt_apart *a, const float *value)
{
  int64_t best = -1;
  for (int64_t i = 0; i < a->count; i++)
    if (a->near[i] >= 0.0f && (best < 0 || value[i] > value[best])) best = i;
  return best < 0 ? TT_APART_NONE : key_of(value[best] + 0.0f, a->first + best);
}

int64_t tt_apart_farthest(const tt_apart *a) { return largest(a, a->near); }

int64_t tt_apart_penalised(tt_apart *a, double length)
{
  double unit = (double)a->inputs * length * length;
  for (int64_t i = 0; i < a->count; i++) {
    if (a->near[i] < 0.0f || a->near[i] == a->seen[i]) continue;
    a->seen[i] = a->near[i];
    a->value[i] = (float)(a->score[i] * -expm1(-(double)a->near[i] / unit));
  }
  return largest(a, a->value);
}
