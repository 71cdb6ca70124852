/* export_c_undo.h — in an exported C file: the transforms of targets and the scales of folds are
 * undone; a part of export_c.c. All functions are local. */
#ifndef TT_EXPORT_C_UNDO_H
#define TT_EXPORT_C_UNDO_H
#include "src/export/export_internal.h"

/* Refuse a transform without an expression. Errors: USAGE. */
tt_err tt_export_c_undo_check(const tt_export_model *x);

/* Write the functions that undo transforms. */
void tt_export_c_undo_functions(const tt_export_model *x, FILE *file);

/* Write static double undo<i>(c, center, apart, mean, variance): recalibrate the values of a member
 * for column c of cohort i and convert them to the user's units, as tt_denormalize_mixture does;
 * `center` and `apart` are mean and variance of the means of its ensemble. It returns what
 * recalibration adds to *variance. */
void tt_export_c_undo(int64_t i, const tt_export_cohort *k, FILE *file);

/* Lines of the function of a member of network i, which has a fold: convert the parameter `all` to
 * x[inputs] for the fold; and convert mean[width] and variance[width] back. */
void tt_export_c_fold_inputs(FILE *file, int64_t i, int64_t inputs);
void tt_export_c_fold_outputs(FILE *file, int64_t i, int64_t width);
#endif
