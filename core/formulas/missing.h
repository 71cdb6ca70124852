/* missing.h — data.missing: the value of an input where the data have none. */
#ifndef TT_MISSING_H
#define TT_MISSING_H
#include "core/formulas/normalization.h"

/* name, the value that takes its place (NAN: a missing value is an error; indicator: it is an input
 * too), what it needs besides sums, as in TT_NORMALIZES; s: tt_column_stats of the training rows
 * that have a value, not transformed */
#define TT_MISSINGS(X)                                                                             \
  X(error, NAN, NOTHING)                                                                           \
  X(mean, s->mean, NOTHING)                                                                        \
  X(median, s->median, VALUES)                                                                     \
  X(indicator, s->mean, NOTHING)

typedef enum tt_missing {
#define X(name, ...) TT_MISSING_##name,
  TT_MISSINGS(X)
#undef X
      TT_MISSING_COUNT
} tt_missing;

static inline int tt_missing_needs_values(tt_missing missing)
{
  switch (missing) {
#define X(name, value, needs)                                                                      \
  case TT_MISSING_##name: return TT_NORMALIZE_##needs == TT_NORMALIZE_VALUES;
    TT_MISSINGS(X)
#undef X
  default: return 0;
  }
}

static inline double tt_missing_value(tt_missing missing, const tt_column_stats *s)
{
  switch (missing) {
#define X(name, value, needs)                                                                      \
  case TT_MISSING_##name: return value;
    TT_MISSINGS(X)
#undef X
  default: return NAN;
  }
}
#endif
