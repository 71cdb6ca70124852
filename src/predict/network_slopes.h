/* network_slopes.h — outputs of one network for one row and their derivatives by the inputs, in
 * double, by reverse differentiation. All local. */
#ifndef TT_NETWORK_SLOPES_H
#define TT_NETWORK_SLOPES_H
#include "core/model/trained_ensemble.h"

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

/* Result and buffers. */
typedef struct tt_network_slopes {
  const tt_model *model;             /* borrowed */
  double *o;                         /* [K][each] outputs, those of a target together */
  double *d_o;                       /* [K][each][D] their derivatives by the normalized inputs */
  double *y, *slope, *normalized;    /* [sum of out] of all hidden layers: outputs, f'(z), and with
                                        layer_norm z with mean 0 and variance 1 */
  double inverse_std[TT_MAX_LAYERS]; /* with layer_norm */
  double *d[3];                      /* [widest] of the backward pass */
  tt_front_slopes front;             /* with a front: its features are the inputs of layer 0 */
} tt_network_slopes;

/* Those of each network of a trained ensemble. Owner: the caller, tt_ensemble_slopes_free, also
 * after an error. at: set o and d_o of the network of a member, with its weights, at the normalized
 * inputs x[D]; the result is borrowed. Errors: MEM. */
tt_err tt_ensemble_slopes_create(const tt_trained_ensemble *m, tt_network_slopes **out);
void tt_ensemble_slopes_free(const tt_trained_ensemble *m, tt_network_slopes **s);
const tt_network_slopes *tt_ensemble_slopes_at(const tt_trained_ensemble *e, tt_network_slopes *all,
                                               int64_t member, const double *x);
#endif
