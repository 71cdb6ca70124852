/* model.h — the network of a member: layers as offsets into one flat array of parameters. Plain
 * data, for gcc and nvcc. */
#ifndef TT_MODEL_H
#define TT_MODEL_H
#include "core/base/err.h"
#include "core/config/choices.h"
#include "core/front/front.h"
#include "core/model/partition.h"

#include <stdint.h>
TT_BEGIN_C

enum { TT_MAX_LAYERS = 64 };

/* z = W x + b, then y = act(z). W is row-major [out][in], as torch.nn.Linear stores it. */
typedef struct tt_layer {
  int64_t in, out;
  int64_t weight, bias; /* offsets into [P]: W has out * in values, b has out */
  tt_activation activation;
  int64_t norm;    /* offset of gain[out], then shift[out] of a layer_norm before act; -1: none */
  int8_t residual; /* y = act(z) + x; only hidden layers as wide as the hidden layer before */
  int8_t dropout;  /* 1 for hidden layers: train.dropout applies to act(z) */
  float rate;      /* factor on the learning rate; 0: the layer keeps its weights */
} tt_layer;

typedef struct tt_model {
  int64_t inputs, targets, outputs; /* D, K targets of a member, O outputs of a head */
  int64_t params;                   /* P */
  int layers;
  tt_layer layer[TT_MAX_LAYERS];
  tt_output output;
  int32_t each, quantities;      /* outputs and predicted quantities per target (output.h) */
  int32_t levels;                /* number of levels of quantiles or classes of softmax, else 0 */
  float level[TT_MAX_QUANTILES]; /* ascending, of quantiles */
  tt_front front; /* before layer 0, which has its features as inputs; or none. Its array of layers
                   * has the owner of the model, or of the front from which it was made */
  int8_t rates;   /* 1: some layers have another factor on the learning rate than 1 */
  int32_t heads; /* the last layer has O outputs for each head, those of head 0 first; at least 1 */
} tt_model;

/* Description of a network, input of tt_model_lay_out. */
typedef struct tt_model_shape {
  int64_t inputs, targets; /* >= 1 */
  const int64_t *hidden;   /* [layers] widths >= 1; layers may be 0 */
  int64_t layers;
  tt_activation activation;
  tt_output output;
  int layer_norm, residual; /* 1: of the hidden layers (residual as in tt_layer) */
  int32_t heads;            /* 0: 1 */
  int32_t levels;           /* of quantiles, or classes of softmax */
  const double *level;      /* [levels] of quantiles */
  const tt_front *front;    /* NULL: none */
} tt_model_shape;

/* Compute the layers of a network inputs -> front -> hidden[0] -> ... -> outputs. Local.
 * Errors: CONFIG (too many layers, parameters (2^31 or more), levels or classes; inputs that do not
 * fit the front). */
tt_err tt_model_lay_out(const tt_model_shape *shape, tt_model *out);

/* The network of one head: its parameters are those of all layers but the last, and of its outputs
 * of the last layer. */
tt_model tt_model_of_head(const tt_model *m);

/* Copy the parameters w[P] of head h to out[P of tt_model_of_head]. */
void tt_model_copy_head(const tt_model *m, int64_t h, const float *w, float *out);

/* Layers with those of the front, which come first in the functions below. */
int tt_model_all_layers(const tt_model *m);

/* Set the factors on the learning rate: 0 for the first `freeze` layers.
 *   rate  [count] one factor for each layer; count 0: 1 for all but a layer that encodes
 * The layers of the front are changed too. Local. Errors: CONFIG (other number of layers; no layer
 * is left to train). */
tt_err tt_model_set_rates(int64_t freeze, const double *rate, int64_t count, tt_model *m);

/* Parameters of layer l. */
tt_slice tt_model_layer_params(const tt_model *m, int l);
/* Number of parameters without running values, as PyTorch counts them. */
int64_t tt_model_trained_params(const tt_model *m);

/* Factor on the learning rate of layer l; number of first layers that keep their weights. */
float tt_model_rate(const tt_model *m, int l);
int tt_model_frozen(const tt_model *m);

/* The parameters from p on, up to `end`, that are of one kind: running values of a batch_norm
 * (*running 1) or others (0). At least one. In a gradient, the place of a running value has what is
 * to be added to it. */
tt_slice tt_model_same_use(const tt_model *m, int64_t p, int64_t end, int *running);

/* Parameters [p, ...) up to `end` that have the same factor *rate as parameter p, at least one. It
 * is -1 for running values, which no optimizer changes. */
tt_slice tt_model_same_rate(const tt_model *m, int64_t p, int64_t end, float *rate);

/* The activation of the hidden layers; without them, the first one of the front; identity if there
 * are none. */
tt_activation tt_model_activation(const tt_model *m);

/* Inputs, features of a front, outputs of each layer: "8-64-64-1", "64-front-128-32-10". Returns
 * text. */
enum { TT_MODEL_WIDTHS_TEXT = 256 };
const char *tt_model_widths(const tt_model *m, char text[TT_MODEL_WIDTHS_TEXT]);

/* Inputs and outputs of the widest layer; inputs of the network. */
int64_t tt_model_widest(const tt_model *m);

/* Whether the output is quantiles. */
int tt_model_has_quantiles(const tt_model *m);

/* Index of the quantity that is the point forecast of a target; for quantiles the level nearest to
 * 0.5. */
int32_t tt_model_point_quantity(const tt_model *m);

/* Initial weights of one member: w[P] depends on (seed, stream) only. The same bits on every
 * engine. Gains of norms are 1, shifts 0, running means 0 and variances 1. A conv counts as a layer
 * with as many inputs as an output reads, and outputs as an input is read by (torch.nn.init). */
void tt_model_init_weights(const tt_model *model, tt_init init, uint64_t seed, uint64_t stream,
                           float *w);

/* Floating point operations of one optimizer step on `rows` rows (products: forward, weight
 * gradient, input gradient; the first layer that trains has no input gradient). */
double tt_model_flops(const tt_model *model, int64_t rows);
TT_END_C
#endif
