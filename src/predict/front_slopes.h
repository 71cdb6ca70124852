/* front_slopes.h — the front of one network for one row and its derivatives, in double, by reverse
 * differentiation; a part of network_slopes.h. All local. */
#ifndef TT_FRONT_SLOPES_H
#define TT_FRONT_SLOPES_H
#include "core/front/front.h"

/* Buffers of one layer. */
typedef struct tt_front_layer_slopes {
  double *y, *slope;                /* [values] result, f'(z) */
  double *d;                        /* [values] derivative by the result */
  double *normalized, *inverse_std; /* [values], [groups] of group_norm */
} tt_front_layer_slopes;

typedef struct tt_front_slopes {
  const tt_front *front;        /* borrowed; without layers nothing is allocated */
  double *scratch;              /* of all layers */
  tt_front_layer_slopes *layer; /* [layers] */
} tt_front_slopes;

/* Owner: the caller, tt_front_slopes_free (accepts a zeroed one). Errors: MEM. */
tt_err tt_front_slopes_create(const tt_front *f, tt_front_slopes *out);
void tt_front_slopes_free(tt_front_slopes *s);

/* The features of the network with weights w[P] at the normalized inputs x: the result of the last
 * layer; kept for the second function. */
const double *tt_front_slopes_forward(tt_front_slopes *s, const float *w, const double *x);

/* From d_features, the derivative of any number by the features, to its derivative d_x by the
 * inputs. */
void tt_front_slopes_backward(tt_front_slopes *s, const float *w, const double *x,
                              const double *d_features, double *d_x);
#endif
