/* missing.h — data.missing: the value of an input where the data have none. */
#ifndef TT_MISSING_H
#define TT_MISSING_H
#include "core/formulas/normalization.h"

/* name, the value that takes its place; s: tt_column_stats of the training rows that have a value,
 * not transformed; NAN: a missing value is an error */
#define TT_MISSINGS(X)                                                                             \
  X(error, NAN)                                                                                    \
  X(mean, s->mean)                                                                                 \
  X(median, s->median)

typedef enum tt_missing {
#define X(name, value) TT_MISSING_##name,
  TT_MISSINGS(X)
#undef X
      TT_MISSING_COUNT
} tt_missing;

static inline double tt_missing_value(tt_missing by, const tt_column_stats *s)
{
  switch (by) {
#define X(name, value)                                                                             \
  case TT_MISSING_##name: return value;
    TT_MISSINGS(X)
#undef X
  default: return NAN;
  }
}
#endif
