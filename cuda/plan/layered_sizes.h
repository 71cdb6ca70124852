/* layered_sizes.h — the arrays of the layered path on the device: the engine allocates what the
 * tables say, and `tutti plan` adds it up. Plain C, no CUDA. */
#ifndef TT_LAYERED_SIZES_H
#define TT_LAYERED_SIZES_H
#include "core/engine/engine.h"
#include "core/formulas/layer_norm.h"
#include "core/model/parts.h"
TT_BEGIN_C

enum {
  TT_LOSS_PARTIALS = 256,     /* partial sums of a loss */
  TT_VALIDATION_ROWS = 16384, /* of all members of a validation pass, at least */
  TT_SPLIT_ROWS = 4096,       /* of each of them at most */
  TT_NARROW_WIDTH = 16,       /* no tensor cores if a side of a layer is at most this wide */
  TT_CHUNK_ROWS = 128,        /* of a batch, whose weight gradient is summed from zero */
  TT_HEAD_WIDTH = 256,        /* inputs of a last layer that is computed with the loss, at most */
  TT_GATHER_ROWS = 16,        /* rows of a batch that a block gathers */
  TT_ENTRY_FLOATS = 16384,    /* of shared memory, for a first layer computed with them, at most */
  TT_CONV_SUMS = 1 << 19,     /* of a conv and one member: its results times the chunks of their
                                 sums, at most: 128 tiles of 64 x 64 */
  TT_STAGING_BUFFERS = 2      /* for rows from the host, each of `capacity` rows */
};

/* Floats from the parameters of one member to those of the next on the device: whole float4, for
 * vector access. The floats in between are zero. */
TT_HD int64_t tt_param_stride(int64_t params) { return (params + 3) / 4 * 4; }

/* M members of a slice. Flags are 0 or 1. */
typedef struct tt_layered_sizes {
  int64_t members, inputs, targets, stride; /* M; D; K; floats from one member to the next */
  int64_t rows;        /* of a batch: B, or N if that is less; with parts: of a part */
  int64_t split_rows;  /* rows of a validation pass, at most N */
  int64_t split_group; /* its members, at most */
  int64_t capacity;    /* rows of x, y, weight and h, all members together */
  int64_t widest;      /* outputs of the widest layer, values of a layer of the front */
  int64_t terms;       /* validation passes, with parts */
  int64_t blocks;      /* of the norm, with parts */
  /* Rows of a chunk of a weight gradient, from the shape alone; all rows: there is one sum. */
  int64_t chunk;
  /* Gradients of a member in memory: one per chunk, if each chunk has its own blocks; else 1. */
  int64_t copies;
  int64_t conv_chunks; /* values of the sums of a conv in chunks; 0: none */
  int sums;            /* sums of gradients that exist at a time */
  int small;           /* 1: each layer has few tiles, and launches are saved where possible */
  int head;            /* 1: one kernel computes the last layer and the loss */
  int entry; /* 1: one kernel gathers the rows of the batch and computes the first layer */
  int weighted, streamed, dropout, label_noise, clipping, residual, folds, parts;
  int rates;                   /* layers have factors on the learning rate, or running values */
  int projections, batch_norm; /* of the front */
} tt_layered_sizes;

/* Name in tt_layered, type of an element, number of elements, what it is. 0 elements: no array. */
#define TT_LAYERED_ARRAYS(X)                                                                       \
  X(x, float, s->streamed ? 0 : s->capacity * s->inputs, "inputs of a batch")                      \
  X(y, float, s->streamed ? 0 : s->capacity * s->targets, "targets of a batch")                    \
  X(weight, float, s->streamed || !s->weighted ? 0 : s->capacity, "weights of a batch")            \
  X(delta[0], float, s->members * s->rows * s->widest, "gradients of a batch")                     \
  X(delta[1], float, s->members * s->rows * s->widest, "gradients of a batch")                     \
  X(residual_delta, float, s->residual ? s->members * s->rows * s->widest : 0,                     \
    "gradients of a batch")                                                                        \
  X(branch_delta, float, s->projections ? s->members * s->rows * s->widest : 0,                    \
    "gradients of a batch")                                                                        \
  X(conv_chunks, float, s->conv_chunks, "sums of convolutions")                                    \
  X(norm_batch, tt_batch_norm_rows, s->batch_norm ? s->members : 0, "rows of a batch")             \
  X(output_delta, float, s->head ? s->members * s->rows * m->layer[m->layers - 1].out : 0,         \
    "gradients of a batch")                                                                        \
  X(row_loss, double, s->head ? s->members * s->rows : 0, "losses of the rows of a batch")         \
  X(arrived, int32_t, s->head ? s->members : 0, "blocks that are done")                            \
  X(eval_weights, float, s->members * s->stride, "weights to evaluate")                            \
  X(rate, float, s->rates ? s->stride : 0, "factors on the learning rate")                         \
  X(scale, float, s->clipping ? s->members : 0, "norms of the gradients")                          \
  X(squares, double, s->clipping && s->parts ? s->members * s->blocks : 0,                         \
    "norms of the gradients")                                                                      \
  X(sum_loss, double, s->parts ? TT_MAX_PART_SUMS * s->members : 0, "losses of parts")             \
  X(term, double, s->parts ? s->members * s->terms : 0, "validation losses")                       \
  X(order, tt_sampler, s->members, "orders of the rows")                                           \
  X(step, tt_optimizer_args, s->members, "steps of the members")                                   \
  X(lane, double, s->members *TT_LOSS_PARTIALS, "validation losses")                               \
  X(end, int8_t, s->members, "ends of epochs")                                                     \
  X(mean, double, s->members, "losses of the members")                                             \
  X(other_view, int8_t, s->folds ? s->members : 0, "members of other folds")                       \
  X(row, int32_t, s->members * s->rows, "row numbers of a batch")

/* The same for layer l of the model. */
#define TT_LAYERED_LAYER_ARRAYS(X)                                                                 \
  X(h, float, s->capacity * layer->out, "activations of a batch")                                  \
  X(slope, float, tt_layered_stores_slope(s, m, l) ? s->members * s->rows * layer->out : 0,        \
    "derivatives of a batch")                                                                      \
  X(xhat, float, layer->norm >= 0 ? s->members * s->rows * layer->out : 0, "layers of a batch")    \
  X(rstd, float, layer->norm >= 0 ? s->members * s->rows : 0, "layers of a batch")

/* The same for layer l of the front (cuda/front/front.cuh). */
#define TT_LAYERED_FRONT_ARRAYS(X)                                                                 \
  X(y, float, s->capacity *tt_front_values(layer), "activations of a batch")                       \
  X(slope, float,                                                                                  \
    tt_layered_stores_front_slope(layer) ? s->members * s->rows *tt_front_values(layer) : 0,       \
    "derivatives of a batch")                                                                      \
  X(mask, float,                                                                                   \
    s->dropout && layer->kind == TT_FRONT_dropout ? s->members * s->rows * layer->channels : 0,    \
    "channels of a batch")                                                                         \
  X(moments, float, tt_layered_front_moments(s, layer), "layers of a batch")

/* The same in page-locked memory of the host. */
#define TT_LAYERED_PINNED_ARRAYS(X)                                                                \
  X(host_term, double, s->parts ? s->terms : 0, "validation losses")                               \
  X(attempt, int32_t, s->members, "attempts of the members")                                       \
  X(status, int8_t, s->members, "status of the members")                                           \
  X(batch, int32_t, s->members, "batches of the members")                                          \
  X(epoch, int32_t, s->members, "epochs of the members")

/* The same in tt_batch_buffers, of each staging buffer: on the device, and page-locked. */
#define TT_STAGING_ARRAYS(X)                                                                       \
  X(x, float, s->capacity * s->inputs, "rows from the host")                                       \
  X(y, float, s->capacity * s->targets, "rows from the host")                                      \
  X(weight, float, s->weighted ? s->capacity : 0, "rows from the host")

/* Sizes for the members `slice`.
 *   rows      N;  weighted  1: rows have weights
 *   streamed  1: the data set does not fit, and rows come from the host */
tt_layered_sizes tt_layered_sizes_of(const tt_cohort *c, tt_slice slice, int64_t rows, int weighted,
                                     int streamed);

/* The gradient of a conv is a sum over the positions of all rows, in chunks, from the shape alone:
 * their number, and the length of all but the last one, a multiple of 32. Chunks have blocks of
 * their own if the sums of all chunks and members fit in conv_chunks. */
int64_t tt_layered_conv_chunks(const tt_front_layer *l, int64_t rows);
int64_t tt_layered_conv_chunk(const tt_front_layer *l, int64_t rows);

/* The chunks of the inner indices of an output of a conv in a training step, or of the gradient of
 * an input, from the layer and the rows of a batch; each has blocks of its own. */
int64_t tt_layered_conv_sum_chunks(const tt_front_layer *l, int64_t rows, int backward);

/* Floats of shared memory of a block that gathers rows and computes the first layer. */
int64_t tt_layered_entry_floats(const tt_layer *first);

/* Whether a side of a layer is too narrow for tensor cores. */
int tt_layered_is_narrow(const tt_layer *layer);

/* Whether the backward pass needs f'(z) of a layer because it does not follow from the output. */
int tt_layered_stores_slope(const tt_layered_sizes *s, const tt_model *m, int l);
int tt_layered_stores_front_slope(const tt_front_layer *layer);

/* Numbers in tt_cuda_front_arrays.moments. */
int64_t tt_layered_front_moments(const tt_layered_sizes *s, const tt_front_layer *layer);

/* Bytes of all these arrays, of the gradients, and of the staging buffers if rows are streamed. */
int64_t tt_layered_bytes(const tt_layered_sizes *s, const tt_model *m);
/* Bytes of page-locked memory of the host: of an engine; of the sums of gradients that it exchanges
 * through the host. */
int64_t tt_layered_pinned_bytes(const tt_layered_sizes *s);
int64_t tt_layered_exchanged_bytes(const tt_cohort *c, const tt_engine_share *share);

/* Bytes that an engine with a share allocates in addition: sums of gradients, each of one member,
 * and the slots of its stage (cuda/layered/stage.cu). */
int64_t tt_layered_share_bytes(const tt_layered_sizes *s, const tt_cohort *c,
                               const tt_engine_share *share);

/* A slot of a stage has the arrays of the tables for its layers, of one part of one member: with
 * these sizes. */
tt_layered_sizes tt_layered_slot_sizes(const tt_layered_sizes *s);
TT_END_C
#endif
