/* row_slopes.h — moments of the ensembles of a model for one row, and their derivatives by the
 * inputs of the networks; Jacobians. All local.
 *
 * A column with a transform is in the user's units, every other one is normalized: the derivative
 * of the member in the user's units is that of here times the scale of the column.
 *
 * With member weights w, W = sum w, and the mean mu and variance v of each member (moments.h):
 *   d mean / dx      = sum w mu' / W
 *   d aleatoric / dx = sum w v' / W / (2 aleatoric)
 *   d epistemic / dx = sum w (mu - mean) mu' / W / epistemic
 *   d total / dx     = (aleatoric d aleatoric / dx + epistemic d epistemic / dx) / total
 * times the scale of the column and the slope of the transform of the input, divided by the scale
 * of the input, and for the standard deviations
 * times the factor of recalibration, whose noise (divided by the factor) is a part of aleatoric.
 * Where a standard deviation is 0 its derivative counts as 0.
 *
 * Of a target with a transform the formulas hold for mu and v in the user's units: the moments of
 * each member after the transform is undone (tt_denormalize_mixture), differentiated by the chain
 * rule. Recalibration needs mean and variance of the means of the members first: the networks are
 * computed twice. */
#ifndef TT_ROW_SLOPES_H
#define TT_ROW_SLOPES_H
#include "src/predict/network_slopes.h"
#include "src/predict/prediction_block.h"

/* Another way than network_slopes.h to the outputs of a member.
 *   at  called for the members of weight > 0; returns o and d_o as in tt_network_slopes for the
 *       present row, borrowed */
typedef struct tt_member_outputs {
  const double *o, *d_o; /* [K][each], [K][each][F] */
} tt_member_outputs;
typedef struct tt_slopes_source {
  tt_member_outputs (*at)(void *context, int64_t member);
  void *with;
} tt_slopes_source;

/* Sums over the members of one ensemble, for its K q columns, and buffers. */
typedef struct tt_row_slopes {
  const tt_trained_ensemble *m;              /* borrowed */
  double weight;                             /* of all members */
  double *mean, *between, *within;           /* [K q] as in tt_moments */
  double *d_mean, *d_between, *d_within;     /* [K q][F]; d_between without the factor 2 */
  tt_column_scale *scale;                    /* [C] of m */
  int transformed;                           /* 1: a column has a transform */
  const tt_column_scale *undo;               /* [K q] transforms to undo; NULL: none now */
  tt_slopes_source source;                   /* at is NULL: `network` */
  tt_network_slopes *network;                /* [networks] */
  double *x;                                 /* [F] normalized */
  double *mu, *variance, *d_mu, *d_variance; /* of one target of one member: [q], [q][F] */
  /* [L], [L][F] amplitudes of a member, if the targets have components, and their variances */
  double *amplitude, *spread, *d_amplitude, *d_spread;
  double *own, *own_variance; /* [F] derivatives of a member on its own, in the user's units */
  double *center, *d_center;  /* [K q], [K q][F] mean and d_mean before transforms are undone */
  double *apart, *d_apart;    /* the same of the variance of the means of the members */
} tt_row_slopes;

/*   source  copied; NULL: the networks in double
 * Owner: the caller, tt_row_slopes_free (accepts a zeroed one, and what create left after an
 * error). Errors: MEM. */
tt_err tt_row_slopes_create(const tt_trained_ensemble *m, const tt_slopes_source *source,
                            tt_row_slopes *out);
void tt_row_slopes_free(tt_row_slopes *s);

/* Call compute(with, thread, row) for the rows [0, rows), each in the default floating-point
 * environment; with one thread on the calling one, without OpenMP, which would allocate. */
void tt_each_row(int threads, int64_t rows, void (*compute)(void *context, int thread, int64_t row),
                 void *context);

/* Jacobians in the user's units */

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
