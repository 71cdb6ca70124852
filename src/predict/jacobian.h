/* jacobian.h — derivatives of predictions by the inputs, in the user's units. All local.
 *
 * With member weights w, W = sum w, and the mean mu and variance v of each member (moments.h):
 *   d mean / dx      = sum w mu' / W
 *   d aleatoric / dx = sum w v' / W / (2 aleatoric)
 *   d epistemic / dx = sum w (mu - mean) mu' / W / epistemic
 *   d total / dx     = (aleatoric d aleatoric / dx + epistemic d epistemic / dx) / total
 * times the scale of the column and the slope of the transform of the input, divided by the scale
 * of the input, and for the standard deviations
 * times the factor of recalibration. Where a standard deviation is 0 its derivative counts as 0.
 *
 * Of a target with a transform the formulas hold for mu and v in the user's units: the moments of
 * each member after the transform is undone (tt_denormalize_mixture), differentiated by the chain
 * rule. Recalibration needs mean and variance of the means of the members first: the networks are
 * computed twice. */
#ifndef TT_JACOBIAN_H
#define TT_JACOBIAN_H
#include "io/results/results.h"
#include "src/predict/row_slopes.h"

/* Jacobians of the columns of all trained ensembles, exact up to rounding in double; at a kink of
 * an activation the derivative of one side, as in training. A column without members has NaN.
 *   x    [rows][D] in the user's units, finite
 *   out  arrays [rows][C][D], those that are NULL are not wanted
 * Errors: MEM. */
tt_err tt_jacobian_compute(const tt_trained_ensembles *all, int threads, int64_t rows,
                           const double *x, const tt_jacobian *out);

/* The same for one row x[D] and the trained ensemble of `s`.
 *   s    its sums are overwritten
 *   out  arrays [C][D] of the columns of this trained ensemble */
void tt_jacobian_row(tt_row_slopes *s, const double *x, const tt_jacobian *out);

/* The arrays of `all`, those that are not NULL, from element `offset` on. */
tt_jacobian tt_jacobian_from(const tt_jacobian *all, int64_t offset);
#endif
