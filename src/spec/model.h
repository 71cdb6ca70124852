/* model.h — the shape of one member: layers as offsets into one flat array of parameters. Floor 1.
 * Plain data, read by gcc and nvcc alike. */
#ifndef TT_MODEL_H
#define TT_MODEL_H
#include "base/err.h"
#include "spec/choices.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { TT_MAX_LAYERS = 64 };

/* z = W x + b, then y = act(z). W is row-major [out][in], as torch.nn.Linear stores it. */
typedef struct tt_layer {
  int64_t in, out;
  int64_t weight, bias; /* offsets into [P]: W takes out * in, b takes out */
  tt_activation activation;
} tt_layer;

typedef struct tt_model {
  int64_t inputs, targets, outputs; /* D, K targets of a member, O outputs of the last layer */
  int64_t params;                   /* P */
  int layers;
  tt_layer layer[TT_MAX_LAYERS];
  tt_output output;
} tt_model;

/* Build a multilayer perceptron inputs -> hidden[0] -> ... -> outputs.
 *   inputs, targets  >= 1;   hidden [layers] widths >= 1, layers may be 0
 *   outputs          targets for mean; 2 * targets for mean_variance: [mu_1..mu_K, r_1..r_K] with
 *                    variance = softplus(r) + floor
 * Local. Errors: CONFIG (too deep, or more than 2^31 - 1 parameters). */
tt_err tt_model_build(int64_t inputs, int64_t targets, const int64_t *hidden, int64_t layers,
                      tt_activation activation, tt_output output, tt_model *out);

/* Initial weights of one member: w[P] from (seed, stream) alone. The same bits on every engine. */
void tt_model_init(const tt_model *model, tt_init init, uint64_t seed, uint64_t stream, float *w);

/* Floating point operations of one optimiser step on `rows` rows (matrix products: forward, weight
 * gradient, input gradient; the first layer has no input gradient). */
double tt_model_flops(const tt_model *model, int64_t rows);
#ifdef __cplusplus
}
#endif
#endif
