/* export_c_front.h — the front of the networks in an exported C file; a part of export_c.c. All
 * functions are local. */
#ifndef TT_EXPORT_C_FRONT_H
#define TT_EXPORT_C_FRONT_H
#include "src/export/export_internal.h"

/* Refuse fronts whose results would need too much of the stack. Errors: USAGE. */
tt_err tt_export_c_front_check(const tt_export_model *x);

/* Write the functions that the fronts of all cohorts call, and the shapes of their layers. */
void tt_export_c_front_functions(const tt_export_model *x, FILE *file);

/* Write the lines of member<cohort>() that compute the features from the inputs x.
 *   features  name of their array; "x" without a front */
enum { TT_EXPORT_C_NAME = 32 };
void tt_export_c_front(const tt_front *f, int64_t cohort, char features[TT_EXPORT_C_NAME],
                       FILE *file);
#endif
