/* front.h — the front of a network: convolutions and other layers for inputs that are images or
 * profiles, before the dense layers. Floor 1.
 *
 * A row of `model.front` is text, such as "conv 16 3 stride 2". Values of a layer are one array
 * [channels][height][width] for each row of data; a profile has height 1. Convolutions have weights
 * [channels][input channels / groups][height][width], as torch.nn.Conv2d stores them. */
#ifndef TT_FRONT_H
#define TT_FRONT_H
#include "core/base/err.h"
#include "core/formulas/pooling.h"

#include <stdint.h>
#include <stdio.h>
TT_BEGIN_C

enum {
  TT_FRONT_LAYERS = 100000, /* so many layers: `times` of a row has a digit too many */
  TT_FRONT_REASON = 320,    /* bytes of a message */
  TT_FRONT_TEXT = 96,       /* longest row, bytes */
  TT_FRONT_MOST = 1 << 24   /* largest number in a row; most values of a layer, and reads of them */
};

/* Options of a row. They follow its numbers: "stride 2", "activation relu", "project". name; what
 * follows the name; value without the option. pad -1: in a conv, the padding that keeps the size at
 * stride 1 and an odd SIZE; in a pool 0. activation -1: that of the network. */
#define TT_FRONT_OPTIONS(X)                                                                        \
  X(stride, number, 1)                                                                             \
  X(pad, number, -1)                                                                               \
  X(dilation, number, 1)                                                                           \
  X(groups, number, 1)                                                                             \
  X(times, number, 1)                                                                              \
  X(activation, activation, -1)                                                                    \
  X(project, nothing, 0)                                                                           \
  X(activate, nothing, 0)
#define X(name, ...) TT_FRONT_OPTION_##name,
typedef enum tt_front_option { TT_FRONT_OPTIONS(X) TT_FRONT_OPTION_COUNT } tt_front_option;
#undef X
#define TT_FRONT_TAKES(name) (1u << TT_FRONT_OPTION_##name)

/* name, words of a row (a pool has its name behind them), number of numbers that follow, set of
 * options (TT_FRONT_TAKES), form of the row, meaning with source */
#define TT_FRONT_KINDS(X)                                                                          \
  X(conv, "conv", 2,                                                                               \
    TT_FRONT_TAKES(stride) | TT_FRONT_TAKES(pad) | TT_FRONT_TAKES(dilation) |                      \
        TT_FRONT_TAKES(groups) | TT_FRONT_TAKES(activation),                                       \
    "conv CHANNELS SIZE [stride N] [pad N] [dilation N] [groups N] [activation NAME|none]",        \
    "convolution, then the activation (LeCun et al. 1989)")                                        \
  X(group_norm, "group_norm", 1, 0, "group_norm GROUPS",                                           \
    "mean 0 and variance 1 over the channels of a group, then a gain and a shift for each "        \
    "channel; directly behind a conv it comes before the activation (Wu & He 2018)")               \
  X(pool, "pool", 1, TT_FRONT_TAKES(stride) | TT_FRONT_TAKES(pad),                                 \
    "pool POOL SIZE [stride N] [pad N]",                                                           \
    "one value from those of a window, by a row of TT_POOLINGS; stride SIZE unless given")         \
  X(global_mean, "global_mean", 0, 0, "global_mean",                                               \
    "mean of each channel over all positions (Lin, Chen & Yan 2014)")                              \
  X(dropout, "dropout", 0, 0, "dropout", "train.dropout of whole channels (Tompson et al. 2015)")  \
  X(batch_norm, "batch_norm", 0, 0, "batch_norm",                                                  \
    "mean 0 and variance 1 of each channel over the rows of a part of the batch, then a gain and " \
    "a shift; directly behind a conv, which then has no bias, it comes before the activation. "    \
    "Predictions use running means and variances (Ioffe & Szegedy 2015)")                          \
  X(residual, "residual", 1, TT_FRONT_TAKES(project) | TT_FRONT_TAKES(activate),                   \
    "residual LAYERS [project] [activate]",                                                        \
    "adds the input of the next LAYERS layers to their output. project: a 1 x 1 convolution, "     \
    "with the norm of the last one, gives the input the shape of the output; activate: the last "  \
    "activation comes after the addition (He et al. 2016)")                                        \
  X(basic, "basic", 1, TT_FRONT_TAKES(stride) | TT_FRONT_TAKES(times),                             \
    "basic CHANNELS [stride N] [times K]",                                                         \
    "K residual blocks of two 3 x 3 convolutions with batch_norm (He et al. 2016)")                \
  X(bottleneck, "bottleneck", 2, TT_FRONT_TAKES(stride) | TT_FRONT_TAKES(times),                   \
    "bottleneck WIDTH CHANNELS [stride N] [times K]",                                              \
    "K residual blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions with batch_norm (He et al. 2016)")   \
  X(ple, "ple", 1, 0, "ple BINS",                                                                  \
    "piecewise linear encoding of each input: the input, clamped to the range of the training "    \
    "rows, and its part in each of BINS bins between their quantiles, from -1 to 1 "               \
    "(Gorishniy et al. 2022)")

typedef enum tt_front_kind {
#define X(name, ...) TT_FRONT_##name,
  TT_FRONT_KINDS(X)
#undef X
      TT_FRONT_KIND_COUNT
} tt_front_kind;

/* One layer. Pairs are height, width. */
typedef struct tt_front_layer {
  tt_front_kind kind; /* no residual, basic, bottleneck or ple: these become other layers */
  tt_pooling pool;    /* of pool and global_mean */
  tt_activation activation;
  int32_t in_channels, in[2], channels, out[2];
  int32_t size[2], stride[2], pad[2], dilation[2]; /* of conv, pool, global_mean */
  int32_t groups;                                  /* of conv and group_norm */
  int64_t weight, bias; /* offsets in P: of conv; gain and shift of a norm; -1: none */
  int64_t running;      /* of batch_norm: running mean[channels], then variance[channels]; -1 */
  int32_t from; /* this layer reads the result of layer `from`; -1: the inputs of the network.
                           It is the layer before, except for the first layer of a projection */
  int32_t skip; /* the result of layer `skip` is added to that of this layer; -1: the inputs; -2:
                   nothing is added */
  int8_t activates_sum; /* 1: the activation comes after the addition; 0: before it */
  int8_t projects; /* 1: a layer of the projection of a residual. These layers follow the layers
                           of the rows of the residual */
  int8_t encodes;  /* 1: the conv of a row `ple`. tt_front_set_pieces computes its weights from the
                   * training rows. Files do not have this field */
  int8_t begins_block; /* 1: no residual begins before this layer and ends with it or behind it */
  float rate;          /* factor on the learning rate (tt_model_set_rates) */
} tt_front_layer;
enum { TT_FRONT_NO_SKIP = -2, TT_FRONT_SKIP_INPUTS = -1 };

/* layers 0: no front. A copy of the struct has the same array of layers. */
typedef struct tt_front {
  int32_t layers, dims;      /* dims: 1 profile, 2 image */
  int32_t channels, size[2]; /* of the inputs */
  int64_t features;          /* values of the last layer: inputs of the first dense layer */
  int64_t params;            /* they are the first ones of a member */
  tt_front_layer *layer;     /* [layers]; of the host */
} tt_front;

/* `f` is a copy of another front and has its array of layers: replace the array by a copy, which
 * the caller owns (tt_front_destroy, which accepts a zeroed front). After an error `f` has no
 * layers. Local. Errors: MEM. */
tt_err tt_front_own(tt_front *f);
void tt_front_destroy(tt_front *f);

/* Description of a front, input of tt_front_lay_out. */
typedef struct tt_front_shape {
  int dims;            /* 1 profile, 2 image */
  const int64_t *size; /* [1 + dims] channels, then [height], then width or length */
  int64_t rows;
  const char *const *row; /* [rows] */
  tt_activation activation;
  int64_t first; /* 0; or faults of the rows before this one are left out, to find all of them */
} tt_front_shape;

/* Why a front is not possible. */
typedef struct tt_front_fault {
  int64_t row; /* number of the row, from 0; -1: the shape of the inputs */
  char why[TT_FRONT_REASON];
} tt_front_fault;

/* Compute the layers. Returns 1, or 0 and the fault, with the arithmetic of a size that is not
 * possible. Call it again with first = fault->row + 1 for the next fault: while it returns 0, `out`
 * has no layers. Behind a row whose result has no known shape only the words are checked. Owner:
 * the caller, tt_front_destroy. Local. */
int tt_front_lay_out(const tt_front_shape *shape, tt_front *out, tt_front_fault *fault);

/* Whether the first row is one for inputs that are neither image nor profile: ple. */
int tt_front_takes_columns(int64_t rows, const char *const *row);

/* Compute the weights w[P] of the outputs of input `channel` of a layer that encodes.
 *   value  [n] normalized values of the training rows, ascending; n may be 0
 * A bin without width, between two equal values, gives 0. */
void tt_front_set_pieces(const tt_front_layer *l, int64_t channel, int64_t n, const double *value,
                         float *w);

/* Positions of a channel, and values, before and after a layer. */
int64_t tt_front_positions_in(const tt_front_layer *l);
int64_t tt_front_positions(const tt_front_layer *l);
int64_t tt_front_values_in(const tt_front_layer *l);
int64_t tt_front_values(const tt_front_layer *l);

/* Weights of a conv for one output channel: inputs of its group times positions of the kernel. */
int64_t tt_front_fan_in(const tt_front_layer *l);
/* Parameters of a layer, with the running values of batch_norm, which no gradient changes; and
 * those of them that are weights or gains: the first ones. */
int64_t tt_front_layer_params(const tt_front_layer *l);
int64_t tt_front_weights(const tt_front_layer *l);
int64_t tt_front_running(const tt_front_layer *l); /* running values: 0, or 2 for each channel */
int64_t tt_front_all_running(const tt_front *f);

/* Whether the front may be cut before `layer`: the layers from there on use only one result of the
 * layers before, that of layer - 1. */
int tt_front_can_cut(const tt_front *f, int layer);

/* Multiplications of a layer for one row of data. */
double tt_front_products(const tt_front_layer *l);

/* Whether the layers are the same, with the activations. */
int tt_front_equal(const tt_front *a, const tt_front *b);

/* "16 x 8 x 8", of a profile "16 x 64"; "conv 16 x 8 x 8": the result of a layer. Return text. */
enum { TT_FRONT_LAYER_TEXT = 64 };
const char *tt_front_shape_text(const tt_front *f, int32_t channels, const int32_t size[2],
                                char text[TT_FRONT_LAYER_TEXT]);
const char *tt_front_layer_text(const tt_front *f, int layer, char text[TT_FRONT_LAYER_TEXT]);

/* Write the rows with all options, with commas between them; and lay out what it wrote.
 *   shape  without rows
 * The second function returns as tt_front_lay_out; its errors: MEM. */
void tt_front_write(const tt_front *f, FILE *file);
tt_err tt_front_read(const char *text, const tt_front_shape *shape, tt_front *out, int *possible,
                     tt_front_fault *fault);

/* First words of a row of each kind, and name of a pool in it: "conv", "max". */
extern const char *const tt_front_words[TT_FRONT_KIND_COUNT];
extern const char *const tt_pooling_name[TT_POOLING_COUNT];

/* Inputs that an output of a conv, a pool or global_mean reads: position `dst` reads position `src`
 * of the input channel by position `tap` of the kernel. In the order of `dst`, then of `tap`; taps
 * outside of the input are left out. The first function returns their number. */
int64_t tt_front_count_taps(const tt_front_layer *l);
void tt_front_list_taps(const tt_front_layer *l, int32_t *dst, int32_t *tap, int32_t *src);
TT_END_C

/* The same for one output of a conv, a pool or global_mean: the input position that position
 * `output` reads by position `tap` of the kernel; -1: outside of the input. */
TT_HD int32_t tt_front_position_read(const tt_front_layer *l, int32_t output, int32_t tap)
{
  int32_t y = output / l->out[1] * l->stride[0] - l->pad[0] + tap / l->size[1] * l->dilation[0];
  int32_t x = output % l->out[1] * l->stride[1] - l->pad[1] + tap % l->size[1] * l->dilation[1];
  if (y < 0 || y >= l->in[0] || x < 0 || x >= l->in[1]) return -1;
  return y * l->in[1] + x;
}
#endif
