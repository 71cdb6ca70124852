/* normalization.h — data.normalize: how a column of the data is normalized.
 *
 * t = f(user value), the transform; t = normalized value * scale + offset. All of them are fitted
 * to the training rows. */
#ifndef TT_NORMALIZATION_FORMULAS_H
#define TT_NORMALIZATION_FORMULAS_H
#include "core/formulas/transform.h"

/* Statistics of a transformed column over its training rows that have a value. */
typedef struct tt_column_stats {
  double rows, mean, std; /* population standard deviation */
  double low, high;
  double quarter, median, three_quarters; /* quantiles; 0 unless the row asks for values */
} tt_column_stats;

/* name, transform, offset, scale, what it needs besides sums: nothing, or values (all values of the
 * column at once); s: tt_column_stats of the column. If all values are equal, the scale is 1.
 * robust where the quartiles are equal: Holzmueller et al. 2024, RealMLP. */
#define TT_NORMALIZES(X)                                                                           \
  X(none, identity, 0.0, 1.0, NOTHING)                                                             \
  X(standard, identity, s->mean, s->std, NOTHING)                                                  \
  X(minmax, identity, s->low, s->high - s->low, NOTHING)                                           \
  X(robust, identity, s->median,                                                                   \
    s->three_quarters > s->quarter ? s->three_quarters - s->quarter : 0.5 * (s->high - s->low),    \
    VALUES)                                                                                        \
  X(log, log, s->mean, s->std, NOTHING)                                                            \
  X(log1p, log1p, s->mean, s->std, NOTHING)                                                        \
  X(yeo_johnson, yeo_johnson, s->mean, s->std, VALUES)

typedef enum tt_normalize {
#define X(name, ...) TT_NORMALIZE_##name,
  TT_NORMALIZES(X)
#undef X
      TT_NORMALIZE_COUNT
} tt_normalize;

typedef enum tt_normalize_needs { TT_NORMALIZE_NOTHING, TT_NORMALIZE_VALUES } tt_normalize_needs;

static inline tt_transform tt_normalize_transform(tt_normalize normalize)
{
  switch (normalize) {
#define X(name, transform, offset, scale, needs)                                                   \
  case TT_NORMALIZE_##name: return TT_TRANSFORM_##transform;
    TT_NORMALIZES(X)
#undef X
  default: return TT_TRANSFORM_identity;
  }
}

static inline int tt_normalize_needs_values(tt_normalize normalize)
{
  switch (normalize) {
#define X(name, transform, offset, scale, needs)                                                   \
  case TT_NORMALIZE_##name: return TT_NORMALIZE_##needs == TT_NORMALIZE_VALUES;
    TT_NORMALIZES(X)
#undef X
  default: return 0;
  }
}

/* A column without values has offset 0 and scale 1. */
static inline void tt_normalize_fit(tt_normalize normalize, const tt_column_stats *s,
                                    double *offset, double *scale)
{
  *offset = 0.0;
  *scale = 1.0;
  if (s->rows <= 0.0) return;
  switch (normalize) {
#define X(name, transform, offset_, scale_, needs)                                                 \
  case TT_NORMALIZE_##name:                                                                        \
    *offset = offset_;                                                                             \
    *scale = s->low == s->high ? 1.0 : scale_;                                                     \
    return;
    TT_NORMALIZES(X)
#undef X
  default: return;
  }
}

/* Scale of a target whose labels are all equal, `offset`: predictions are this value, to six digits
 * or more. */
static inline double tt_normalize_constant(double offset)
{
  return 1e-6 * (offset < 0.0 ? -offset : offset > 0.0 ? offset : 1.0);
}

/* Of a transformed value. */
static inline double tt_normalize_value(double value, double offset, double scale)
{
  return (value - offset) / scale;
}

static inline double tt_denormalize_value(double normalized, double offset, double scale)
{
  return normalized * scale + offset;
}
#endif
