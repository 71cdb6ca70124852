/* Laws of tt_net_inputs (core/columns/net_inputs.h), and of scalers that use it. */
#include "core/base/mem.h"
#include "core/model/dataset.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 4, INPUTS = 8 };

/* An amount, texts with an indicator, an amount with an indicator, numbers. */
static tt_net_inputs example(void)
{
  static const double place[] = {0, 1}, number[] = {-1.5, 0.1};
  static char *const text[] = {"brass", "steel"};
  const tt_net_column column[COLUMNS] = {{TT_CATEGORIES_none, 0, 0, NULL, NULL},
                                         {TT_CATEGORIES_error, 1, 2, place, text},
                                         {TT_CATEGORIES_none, 1, 0, NULL, NULL},
                                         {TT_CATEGORIES_zeros, 0, 2, number, NULL}};
  tt_net_inputs n;
  TT_CHECK_OK(tt_net_inputs_create(COLUMNS, column, &n));
  return n;
}

TT_TEST (columns_without_levels_are_the_inputs) {
  tt_net_inputs n;
  TT_CHECK_OK(tt_net_inputs_create(3, NULL, &n));
  TT_CHECK(n.count, ==, 3);
  TT_CHECK(tt_net_inputs_are_amounts(&n), ==, 1);
  for (int64_t d = 0; d < 3; d++) {
    TT_CHECK(n.at[d].column, ==, d);
    TT_CHECK(tt_net_inputs_levels(&n, d), ==, 0);
  }
  tt_net_inputs_free(&n);
}

TT_TEST (each_level_and_each_indicator_is_an_input) {
  static const char *const name[INPUTS] = {"c", "c=brass",      "c=steel", "c is missing",
                                           "c", "c is missing", "c=-1.5",  "c=0.1"};
  tt_net_inputs n = example();
  char text[64];
  TT_CHECK(n.count, ==, INPUTS);
  TT_CHECK(tt_net_inputs_are_amounts(&n), ==, 0);
  for (int64_t i = 0; i < INPUTS; i++)
    TT_CHECK(strcmp(tt_net_input_name(&n.at[i], "c", text, sizeof text), name[i]), ==, 0);
  TT_CHECK(tt_net_inputs_levels(&n, 1), ==, 2);
  TT_CHECK(tt_net_inputs_levels_are_texts(&n, 1), ==, 1);
  TT_CHECK(tt_net_inputs_levels_are_texts(&n, 3), ==, 0);
  TT_CHECK(tt_net_inputs_has_level(&n, 3, 0.1), ==, 1);
  TT_CHECK(tt_net_inputs_has_level(&n, 3, 0.2), ==, 0);
  TT_CHECK(tt_net_inputs_has_indicator(&n, 2), ==, 1);
  TT_CHECK(strcmp(tt_net_inputs_list_levels(&n, 1, text, sizeof text), "brass, steel"), ==, 0);
  tt_net_inputs_free(&n);
}

TT_TEST (packed_inputs_come_back) {
  tt_net_inputs n = example(), back = {0};
  char *bytes = NULL;
  int64_t size = tt_net_inputs_pack(&n, NULL), used = 0;
  TT_CHECK_OK(TT_ALLOC(bytes, size));
  TT_CHECK(tt_net_inputs_pack(&n, bytes), ==, size);
  TT_CHECK_OK(tt_net_inputs_unpack(bytes, &back, &used));
  TT_CHECK(used, ==, size);
  TT_CHECK(tt_net_inputs_are_same(&n, &back), ==, 1);
  back.at[7].level = 0.2;
  TT_CHECK(tt_net_inputs_are_same(&n, &back), ==, 0);
  tt_free(bytes);
  tt_net_inputs_free(&back);
  tt_net_inputs_free(&n);
}

TT_TEST (a_scaler_writes_levels_and_indicators) {
  static const double raw[2 * COLUMNS] = {5, 1, NAN, 0.1, 7, NAN, 3, 99};
  static const float want[2 * INPUTS] = {2, 0, 1, 0, 4, 1, 0, 1, 3, 0, 0, 1, 3, 0, 0, 0};
  tt_scaler s, copy;
  float x[2 * INPUTS];
  TT_CHECK_OK(tt_scaler_create(COLUMNS, 1, &s));
  tt_net_inputs_free(&s.net);
  s.net = example();
  s.x_mean[0] = 1;
  s.x_scale[0] = 2;
  s.x_fill[2] = 4;
  TT_CHECK_OK(tt_scaler_copy(&s, &copy));
  tt_scaler_normalize_inputs(&copy, 2, raw, x);
  for (int i = 0; i < 2 * INPUTS; i++) TT_CHECK((double)x[i], ==, (double)want[i]);
  TT_CHECK(tt_scaler_may_miss(&s, 0), ==, 0);
  TT_CHECK(tt_scaler_may_miss(&s, 1), ==, 1);
  TT_CHECK(tt_scaler_input_slope(&s, 1, 1.0), ==, 0.0);
  tt_scaler_free(&copy);
  tt_scaler_free(&s);
}
