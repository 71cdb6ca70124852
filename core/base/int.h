/* int.h — arithmetic of counts. Host and device. */
#ifndef TT_INT_H
#define TT_INT_H
#include "core/base/host_device.h"

#include <stdint.h>

TT_HD int64_t tt_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
TT_HD int64_t tt_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* The smallest number of parts of size `part` that hold `whole`.  whole >= 0, part >= 1 */
TT_HD int64_t tt_ceil_div(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

/* The smallest multiple of `step` that is at least `n`.  n >= 0, step >= 1 */
TT_HD int64_t tt_round_up(int64_t n, int64_t step) { return tt_ceil_div(n, step) * step; }
#endif
