/* residual_front.h — a residual network of 1-D convolutions, for tests of members that several
 * threads, engines or ranks train together. */
#ifndef TT_TEST_RESIDUAL_FRONT_H
#define TT_TEST_RESIDUAL_FRONT_H
#include "core/front/front.h"
#include "tests/support/check.h"

enum { RESIDUAL_INPUTS = 16 };

/* A convolution; 5 residuals of two convolutions; a dropout; 5 residuals of two convolutions with
 * group_norm; a batch_norm; a residual of a convolution with batch_norm and a projection; a pool.
 * Owner: the caller. */
static inline tt_front residual_front(tt_activation activation)
{
  static const int64_t size[] = {1, RESIDUAL_INPUTS};
  char rows[2048] = "conv 4 3";
  int possible = 0;
  tt_front f;
  tt_front_fault fault = {0, ""};
  for (int i = 0; i < 5; i++) strcat(rows, ", residual 2, conv 6 3, conv 4 3 groups 2");
  strcat(rows, ", dropout");
  for (int i = 0; i < 5; i++)
    strcat(rows, ", residual 4, conv 4 3, group_norm 2, conv 4 5, group_norm 1");
  strcat(rows, ", batch_norm, residual 2 project activate, conv 4 3, batch_norm, pool mean 2");
  TT_CHECK_OK(tt_front_read(rows,
                            &(tt_front_shape){.dims = 1, .size = size, .activation = activation},
                            &f, &possible, &fault));
  TT_CHECK(possible, ==, 1);
  TT_CHECK(f.layers, ==, 38);
  return f;
}
#endif
