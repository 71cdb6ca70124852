/* normalization.h — data.normalize: how a column of the data is normalised.
 *
 * user value = normalised value * scale + offset; both are fitted to the training rows. */
#ifndef TT_NORMALIZATION_FORMULAS_H
#define TT_NORMALIZATION_FORMULAS_H

/* Statistics of a column over its training rows that have a value. */
typedef struct tt_column_stats {
  double rows, mean, std; /* population standard deviation */
  double low, high;
} tt_column_stats;

/* name, offset, scale; s: tt_column_stats of the column. If all values are equal, the
 * scale is 1. */
#define TT_NORMALIZES(X)                                                                           \
  X(none, 0.0, 1.0)                                                                                \
  X(standard, s->mean, s->std)

typedef enum tt_normalize {
#define X(name, ...) TT_NORMALIZE_##name,
  TT_NORMALIZES(X)
#undef X
      TT_NORMALIZE_COUNT
} tt_normalize;

/* A column without values has offset 0 and scale 1. */
static inline void tt_normalize_fit(tt_normalize by, const tt_column_stats *s, double *offset,
                                    double *scale)
{
  *offset = 0.0;
  *scale = 1.0;
  if (s->rows <= 0.0) return;
  switch (by) {
#define X(name, offset_, scale_)                                                                   \
  case TT_NORMALIZE_##name:                                                                        \
    *offset = offset_;                                                                             \
    *scale = s->low == s->high ? 1.0 : scale_;                                                     \
    return;
    TT_NORMALIZES(X)
#undef X
  default: return;
  }
}

static inline double tt_normalize_value(double value, double offset, double scale)
{
  return (value - offset) / scale;
}

static inline double tt_denormalize_value(double normalized, double offset, double scale)
{
  return normalized * scale + offset;
}
#endif
