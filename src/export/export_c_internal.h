/* export_c_internal.h — parts of export_c.c. All functions are local. */
#ifndef TT_EXPORT_C_INTERNAL_H
#define TT_EXPORT_C_INTERNAL_H
#include "src/export/export_internal.h"

/* The front of the networks */

/* Refuse fronts whose results would need too much of the stack. Errors: USAGE. */
tt_err tt_export_c_front_check(const tt_export_model *x);

/* Write the functions that the fronts of all cohorts call, and the shapes of their layers. */
void tt_export_c_front_functions(const tt_export_model *x, FILE *file);

/* Write the lines of member<cohort>() that compute the features from the inputs x.
 *   features  name of their array; "x" without a front */
enum { TT_EXPORT_C_NAME = 32 };
void tt_export_c_front(const tt_front *f, int64_t cohort, char features[TT_EXPORT_C_NAME],
                       FILE *file);

/* Refuse a transform without an expression. Errors: USAGE. */
tt_err tt_export_c_undo_check(const tt_export_model *x);

/* Write the functions that undo transforms. */
void tt_export_c_undo_functions(const tt_export_model *x, FILE *file);

/* Write the comment, and the prototypes of the functions <name>_... */
void tt_export_c_head(const tt_export_model *x, const char *name, FILE *file);

/* Groups */

/* The first parameter of a function that uses numbers of a group, and its argument. */
static inline const char *tt_export_c_parameter(const tt_export_model *x)
{
  return x->groups ? "const struct group *G, " : "";
}
static inline const char *tt_export_c_argument(const tt_export_model *x)
{
  return x->groups ? "G, " : "";
}
/* Write the numbers of all groups, under the names that those of a model without groups have.
 * Errors: MEM. */
tt_err tt_export_c_groups_table(const tt_export_model *x, FILE *file);
/* Write <name>_predict.
 *   inputs  as in tt_export_c_member */
void tt_export_c_groups_predict(const tt_export_model *x, const char *name, const char *inputs,
                                FILE *file);

/* The transforms of targets are undone */

/* Write static double undo<i>(c, center, apart, mean, variance): recalibrate the values of a member
 * for column c of cohort i and convert them to the user's units, as tt_denormalize_mixture does;
 * `center` and `apart` are mean and variance of the means of its ensemble. It returns what
 * recalibration adds to *variance. */
void tt_export_c_undo(const tt_export_model *x, int64_t i, FILE *file);

/* Write int <name>_member(member, x, mean, variance).
 *   inputs  the lines that compute the normalized inputs u from x */
void tt_export_c_member(const tt_export_model *x, const char *name, const char *inputs, FILE *file);

#endif
