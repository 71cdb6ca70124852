/* call.h — what each call of libtutti changes in its thread, and puts back. Floor 5. */
#ifndef TT_CALL_H
#define TT_CALL_H
#include "core/base/err.h"
#include "core/base/floating.h"

#include <locale.h>

typedef struct tt_call {
  locale_t locale;
  tt_floating floating;
} tt_call;

/* The thread uses the locale "C", so that numbers in files and messages have a decimal point in
 * every locale of the caller, and the default floating-point environment. */
void tt_call_begin(tt_call *caller);

/* Put back what the caller had. The message of tutti_error becomes "" on success. Returns the exit
 * code of `e`. */
int tt_call_end(const tt_call *caller, tt_err e);
#endif
