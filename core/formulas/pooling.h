/* pooling.h — the pools of a front (core/front/front.h): one value from those of a window. */
#ifndef TT_POOLING_H
#define TT_POOLING_H
#include "core/formulas/elementwise.h"

/* name; s before the first value; s with one more value x; result y from s and share = 1 / values
 * of the window; dy/dx from x, y and share; whether only the first value with a derivative that is
 * not 0 has it (1); meaning with source. A NaN in the window makes y NaN, so that a diverged member
 * is noticed. */
#define TT_POOLINGS(X)                                                                             \
  X(max, -INFINITY, x > s || x != x ? x : s, s, x == y ? 1.0f : 0.0f, 1,                           \
    "largest value of a window (Ranzato et al. 2007)")                                             \
  X(mean, 0.0f, s + x, s * share, share, 0, "mean of a window (LeCun et al. 1989)")

typedef enum tt_pooling {
#define X(name, ...) TT_POOLING_##name,
  TT_POOLINGS(X)
#undef X
      TT_POOLING_COUNT
} tt_pooling;

/* In a kernel `by` is a constant and the compiler removes the switch. */
TT_HD float tt_pooling_start(tt_pooling by)
{
  switch (by) {
#define X(name, start, ...)                                                                        \
  case TT_POOLING_##name: return start;
    TT_POOLINGS(X)
#undef X
  default: return 0.0f;
  }
}

TT_HD float tt_pooling_next(tt_pooling by, float s, float x)
{
  switch (by) {
#define X(name, start, next, ...)                                                                  \
  case TT_POOLING_##name: return next;
    TT_POOLINGS(X)
#undef X
  default: return s;
  }
}

TT_HD float tt_pooling_result(tt_pooling by, float s, float share)
{
  (void)share;
  switch (by) {
#define X(name, start, next, result, ...)                                                          \
  case TT_POOLING_##name: return result;
    TT_POOLINGS(X)
#undef X
  default: return s;
  }
}

TT_HD float tt_pooling_slope(tt_pooling by, float x, float y, float share)
{
  (void)x, (void)y, (void)share;
  switch (by) {
#define X(name, start, next, result, slope, ...)                                                   \
  case TT_POOLING_##name: return slope;
    TT_POOLINGS(X)
#undef X
  default: return 0.0f;
  }
}

TT_HD int tt_pooling_takes_first(tt_pooling by)
{
  switch (by) {
#define X(name, start, next, result, slope, first, meaning)                                        \
  case TT_POOLING_##name: return first;
    TT_POOLINGS(X)
#undef X
  default: return 0;
  }
}
#endif
