/* sweep.c — see sweep.h. */
#include "core/config/sweep.h"

#include "core/base/rng.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

const char *const tt_hyper_name[TT_HYPER_COUNT + 1] = {TT_HYPERS(TT_ROW_NAME) NULL};

enum { F32 = 0, I32 = 1 };
const int8_t tt_hyper_is_whole[TT_HYPER_COUNT] = {
#define X(name, type, file, ...) file,
    TT_HYPERS(X)
#undef X
};

const char *const tt_choice_sweep[] = {TT_SWEEPS(TT_ROW_NAME) NULL};

static void set_hyper(tt_hyper *h, int which, double value)
{
  switch (which) {
#define X(name, type, ...)                                                                         \
  case TT_HYPER_##name: h->name = (type)value; return;
    TT_HYPERS(X)
#undef X
  default: return;
  }
}

static tt_random4 draw(const tt_sweep *s, const tt_sweep_member *m)
{
  const char *name = tt_hyper_name[s->hyper];
  uint32_t which = (uint32_t)XXH3_64bits(name, strlen(name));
  return tt_random(m->seed, m->stream, TT_PURPOSE_SWEEP, which, 0);
}

/* In [0, 1), 53 bits. */
static double fraction(tt_random4 r)
{
  return ((double)(r.v[0] >> 5) * 0x1p26 + (double)(r.v[1] >> 6)) * 0x1p-53;
}

/* ratio^u for u in [0, 1): the product of ratio^(1/2), ratio^(1/4), ... for the bits of u that
 * are 1. Square roots and products are rounded correctly, so the result is bit-identical on all
 * machines; that of pow() is not. */
static double portable_power(double ratio, double u)
{
  double product = 1.0;
  for (int bit = 0; bit < 53; bit++) {
    ratio = sqrt(ratio);
    u *= 2.0;
    if (u < 1.0) continue;
    u -= 1.0;
    product *= ratio;
  }
  return product;
}

static double clamp(double x, double low, double high)
{
  return x < low ? low : x > high ? high : x;
}

double tt_sweep_draw(const tt_sweep_range *s, tt_random4 r)
{
  double a = s->value[0], b = s->value[1];
  if (s->kind == TT_SWEEP_uniform && s->is_whole)
    return a + tt_uniform_below(r.v[0], r.v[1], (uint32_t)(b - a) + 1u);
  if (s->kind == TT_SWEEP_uniform) return clamp(a + fraction(r) * (b - a), a, b);
  if (s->kind != TT_SWEEP_log_uniform)
    return s->value[tt_uniform_below(r.v[0], r.v[1], (uint32_t)s->count)];
  double x = a * portable_power(b / a, fraction(r));
  return clamp(s->is_whole ? round(x) : x, a, b);
}

const char *tt_sweep_range_fault(const tt_sweep_range *s, int is_name)
{
  if (s->kind != TT_SWEEP_uniform && s->kind != TT_SWEEP_log_uniform) return NULL;
  if (is_name) return "is for numbers; use list, grid or choice";
  if (s->count != 2) return "takes two values, the lowest and the highest";
  if (s->value[0] > s->value[1]) return "goes from the lowest to the highest value";
  if (s->kind == TT_SWEEP_log_uniform && s->value[0] <= 0.0) return "needs a lowest value above 0";
  return NULL;
}

/* The last option of the grid changes fastest. */
static double grid_value(int64_t sweeps, const tt_sweep *sweep, int64_t which, int64_t index)
{
  int64_t stride = tt_sweep_combinations(sweeps - which - 1, sweep + which + 1);
  return sweep[which].value[index / stride % sweep[which].count];
}

void tt_sweep_apply(int64_t sweeps, const tt_sweep *sweep, const tt_sweep_member *m, tt_hyper *h)
{
  for (int64_t i = 0; i < sweeps; i++) {
    const tt_sweep *s = &sweep[i];
    const tt_sweep_range range = {s->kind, tt_hyper_is_whole[s->hyper], s->count, s->value};
    tt_random4 r = draw(s, m);
    switch (s->kind) {
    case TT_SWEEP_list: set_hyper(h, s->hyper, s->value[m->position % s->count]); break;
    case TT_SWEEP_grid: set_hyper(h, s->hyper, grid_value(sweeps, sweep, i, m->index)); break;
    default: set_hyper(h, s->hyper, tt_sweep_draw(&range, r));
    }
  }
}

int64_t tt_sweep_combinations(int64_t sweeps, const tt_sweep *sweep)
{
  int64_t product = 1;
  for (int64_t i = 0; i < sweeps && product <= INT32_MAX; i++)
    if (sweep[i].kind == TT_SWEEP_grid) product *= sweep[i].count;
  return product;
}
