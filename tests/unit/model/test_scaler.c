/* test_scaler.c — laws of tt_scaler (core/model/dataset.h), for every row of TT_NORMALIZES. */
#include "core/model/dataset.h"
#include "tests/support/check.h"

#include <math.h>

enum { INPUTS = 3, TARGETS = 2 };

static tt_scaler scaler(void)
{
  tt_scaler s;
  TT_CHECK_OK(tt_scaler_create(INPUTS, TARGETS, &s));
  return s;
}

/* A shift and a scale are no transform: such models do not need the members. */
TT_TEST (only_transforms_count_as_transforms) {
  for (int kind = 0; kind < TT_NORMALIZE_COUNT; kind++) {
    tt_scaler s = scaler();
    int transforms = tt_normalize_transform((tt_normalize)kind) != TT_TRANSFORM_identity;
    s.x_normalize[INPUTS - 1] = (int8_t)kind;
    TT_CHECK(tt_scaler_transformed_target(&s), ==, -1);
    s.y_normalize[1] = (int8_t)kind;
    TT_CHECK(tt_scaler_transformed_target(&s), ==, transforms ? 1 : -1);
    tt_scaler_free(&s);
  }
}

/* A column whose quartiles are equal is scaled by its range. */
TT_TEST (robust_scales_any_column_that_is_not_constant) {
  static const struct {
    double low, high, quarter, three_quarters, scale;
  } row[] = {{-2, 10, 1, 4, 3}, {-2, 10, 1, 1, 6}, {1, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const tt_column_stats s = {.rows = 9,
                               .low = row[i].low,
                               .high = row[i].high,
                               .quarter = row[i].quarter,
                               .median = 1,
                               .three_quarters = row[i].three_quarters};
    double offset, scale;
    tt_normalize_fit(TT_NORMALIZE_robust, &s, &offset, &scale);
    TT_CHECK(offset, ==, 1.0);
    TT_CHECK(scale, ==, row[i].scale);
  }
}

TT_TEST (a_target_comes_back) {
  for (int kind = 0; kind < TT_NORMALIZE_COUNT; kind++) {
    tt_scaler s = scaler();
    s.y_normalize[1] = (int8_t)kind;
    s.y_lambda[1] = 0.3;
    s.y_mean[1] = -0.7;
    s.y_scale[1] = 2.5;
    for (double y = 0.125; y < 100.0; y *= 3.0)
      TT_CHECK(fabs(tt_scaler_denormalize_target(&s, 1, tt_scaler_normalize_target(&s, 1, y)) - y),
               <, 1e-12 * y);
    tt_scaler_free(&s);
  }
}

/* A fill is a value in the user's units; it has no derivative. */
TT_TEST (a_missing_input_is_its_fill) {
  tt_scaler s = scaler();
  s.x_normalize[1] = TT_NORMALIZE_log;
  TT_CHECK(tt_scaler_fills(&s), ==, 0);
  s.x_fill[1] = 4.0;
  TT_CHECK(tt_scaler_fills(&s), ==, 1);
  TT_CHECK(tt_scaler_normalize_input(&s, 1, (double)NAN), ==,
           tt_scaler_normalize_input(&s, 1, 4.0));
  TT_CHECK(tt_scaler_input_slope(&s, 1, (double)NAN), ==, 0.0);
  TT_CHECK(tt_scaler_input_slope(&s, 1, 4.0), ==, 0.25);
  tt_scaler_free(&s);
}
