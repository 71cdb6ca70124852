/* front_internal.h — what the files of core/front share. */
#ifndef TT_FRONT_INTERNAL_H
#define TT_FRONT_INTERNAL_H
#include "core/formulas/elementwise.h"
#include "core/front/front.h"

/* One row of the job file. */
typedef struct tt_front_row {
  tt_front_kind kind;
  tt_pooling pool; /* of pool */
  int32_t number[2];
  int32_t option[TT_FRONT_OPTION_COUNT]; /* of a word alone: 1 */
  int given[TT_FRONT_OPTION_COUNT];
} tt_front_row;

extern const char *const tt_front_activation_name[TT_ACT_COUNT];

/* A row with the options of a row that gives none. */
tt_front_row tt_front_plain_row(tt_front_kind kind, int32_t first, int32_t second);

/* Returns 1, or 0 and the fault. */
int tt_front_row_parse(const char *text, int64_t number, tt_front_row *out, tt_front_fault *fault);

/* Set the fault; returns 0. */
__attribute__((format(printf, 3, 4))) int tt_front_reject(tt_front_fault *fault, int64_t row,
                                                          const char *fmt, ...);
#endif
