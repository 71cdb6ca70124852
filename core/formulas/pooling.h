/* pooling.h — pooling layers of a front (core/front/front.h): a window of values becomes one. */
#ifndef TT_POOLING_H
#define TT_POOLING_H
#include "core/formulas/elementwise.h"

/* name; s before the first value; s with one more value x; result y from s and share = 1 / values
 * of the window; dy/dx from x, y and share; whether only the first value with a derivative that is
 * not 0 has it (1); meaning with source. A NaN in the window makes y NaN, so that a diverged member
 * is noticed. */
#define TT_POOLINGS(X)                                                                             \
  X(max, -INFINITY, (x > s) | (x != x) ? x : s, s, x == y ? 1.0f : 0.0f, 1,                        \
    "largest value of a window (Ranzato et al. 2007)")                                             \
  X(mean, 0.0f, s + x, s * share, share, 0, "mean of a window (LeCun et al. 1989)")

typedef enum tt_pooling {
#define X(name, ...) TT_POOLING_##name,
  TT_POOLINGS(X)
#undef X
      TT_POOLING_COUNT
} tt_pooling;

/* The formulas for float (kernels) and double (_f64, derivatives of predictions). The kernels call
 * them with a constant `pooling`, so that the compiler removes the switch. */
/* clang-format off */
#define TT_POOLING_START(name, start, ...) case TT_POOLING_##name: return start;
#define TT_POOLING_NEXT(name, start, next, ...) case TT_POOLING_##name: return next;
#define TT_POOLING_RESULT(name, start, next, result, ...) case TT_POOLING_##name: return result;
#define TT_POOLING_SLOPE(name, start, next, result, slope, ...)                                    \
  case TT_POOLING_##name: return slope;
/* clang-format on */
#define TT_POOLING_FUNCTIONS(number, end)                                                          \
  TT_HD number tt_pooling_start##end(tt_pooling pooling)                                           \
  {                                                                                                \
    switch (pooling) {                                                                             \
      TT_POOLINGS(TT_POOLING_START)                                                                \
    default: return 0;                                                                             \
    }                                                                                              \
  }                                                                                                \
  TT_HD number tt_pooling_next##end(tt_pooling pooling, number s, number x)                        \
  {                                                                                                \
    switch (pooling) {                                                                             \
      TT_POOLINGS(TT_POOLING_NEXT)                                                                 \
    default: return s;                                                                             \
    }                                                                                              \
  }                                                                                                \
  TT_HD number tt_pooling_result##end(tt_pooling pooling, number s, number share)                  \
  {                                                                                                \
    (void)share;                                                                                   \
    switch (pooling) {                                                                             \
      TT_POOLINGS(TT_POOLING_RESULT)                                                               \
    default: return s;                                                                             \
    }                                                                                              \
  }                                                                                                \
  TT_HD number tt_pooling_slope##end(tt_pooling pooling, number x, number y, number share)         \
  {                                                                                                \
    (void)x, (void)y, (void)share;                                                                 \
    switch (pooling) {                                                                             \
      TT_POOLINGS(TT_POOLING_SLOPE)                                                                \
    default: return 0;                                                                             \
    }                                                                                              \
  }
TT_POOLING_FUNCTIONS(float, )
TT_POOLING_FUNCTIONS(double, _f64)
#undef TT_POOLING_FUNCTIONS
#undef TT_POOLING_START
#undef TT_POOLING_NEXT
#undef TT_POOLING_RESULT
#undef TT_POOLING_SLOPE

TT_HD int tt_pooling_takes_first(tt_pooling pooling)
{
  switch (pooling) {
#define X(name, start, next, result, slope, first, meaning)                                        \
  case TT_POOLING_##name: return first;
    TT_POOLINGS(X)
#undef X
  default: return 0;
  }
}
#endif
