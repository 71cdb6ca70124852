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
tt_call tt_call_begin(void);

/* Put back what the caller had. The message of tutti_error becomes "" on success. Returns the exit
 * code of `e`. */
int tt_call_end(tt_call caller, tt_err e);

/* Check the size of a struct that a program may have from an older tutti.h, in [least, now].
 *   type  "tutti_batch";  field  "batch->size"
 * Errors: USAGE. */
tt_err tt_call_check_size(const char *type, const char *field, size_t size, size_t least,
                          size_t now);

/* Check that none of the `nset` texts is NULL. Errors: USAGE. */
tt_err tt_call_check_set(const char *const *set, int nset);
#endif
