/* front.h — forward and backward pass of the front of a network (core/front/front.h). All local.
 *
 * Arrays are [values of a layer][ld] with rows of the batch side by side (kernels.h). Rows are
 * independent, but for the gradients of the parameters. */
#ifndef TT_CPU_FRONT_H
#define TT_CPU_FRONT_H
#include "src/cpu/kernels/kernels.h"

/* Buffers of one layer; delta, normalized and the others behind it only in training. */
typedef struct tt_cpu_front_layer {
  float *y;           /* [values][ld] result */
  float *slope;       /* z, then f'(z), with an activation */
  float *mask;        /* [channels][ld] of dropout */
  float *delta;       /* dL/dy, then dL/dz, or with group_norm dL/d(result of norm) */
  float *normalized;  /* with a norm: mean 0 and variance 1 */
  float *inverse_std; /* [groups][ld] with group_norm */
  float
      *moments; /* [channels][ld] with batch_norm; four are used of each channel: mean, 1 / standard
                     deviation, what is added to its running mean, and to its running variance */
  float *skip_delta; /* dL/d(sum) of a layer that ends a residual, for the layer that is added */
  float
      *branch_delta; /* [values of the input][ld] dL/d(input) of the first layer of a projection */
  int32_t *indices;  /* of the three lists */
  tt_taps by_output, by_input, by_tap; /* keys: positions of y, of x, of the kernel; only the first
                                          one for pools and without training */
} tt_cpu_front_layer;

typedef struct tt_cpu_front {
  int32_t layers;
  tt_cpu_front_layer layer[]; /* [layers] */
} tt_cpu_front;

/* Rows [row, row + n) of the buffers, n a multiple of 16. With batch_norm, in training, all rows of
 * a part of the batch. */
typedef struct tt_cpu_front_pass {
  const tt_kernels *kernels;
  const tt_model *model;
  const tt_front *front; /* of the model */
  tt_cpu_front *buffers;
  const float *w;           /* [P] */
  const float *x;           /* [D][ld], from row `row` on */
  int64_t row, ld, n, rows; /* rows: without padding */
  float running_share; /* of the part in the running values of batch_norm (tt_batch_norm_share) */
} tt_cpu_front_pass;

/* Buffers with this leading dimension. Owner: the caller. Errors: MEM. */
tt_err tt_cpu_front_create(const tt_front *f, int64_t ld, int training, tt_cpu_front **out);
void tt_cpu_front_destroy(tt_cpu_front **b); /* accepts NULL */

/* Buffers for training with the lists of others, which live longer: of layers [first, end), and
 * the result of the layer before. */
tt_err tt_cpu_front_slot_create(const tt_front *f, const tt_cpu_front *front, int first, int end,
                                int64_t ld, tt_cpu_front **out);

/* Result of a layer, and dL/d(result), which the caller sets before tt_cpu_front_backward; from row
 * `row` on. */
float *tt_cpu_front_result(const tt_cpu_front *b, int layer, int64_t row);
float *tt_cpu_front_delta(const tt_cpu_front *b, int layer, int64_t row);

/* Layers [first, end).
 *   drop      NULL: no dropout;  unit  number of the first channel that may be dropped
 *   gradient  1: keep the values for the backward pass */
void tt_cpu_front_forward(const tt_cpu_front_pass *p, int first, int end, const tt_dropout *drop,
                          int64_t unit, int gradient);

/* The deltas of layers [first, end), from dL/d(result) of the last one. */
void tt_cpu_front_backward(const tt_cpu_front_pass *p, int first, int end);

/* After the backward pass: dL/d(inputs of a layer) [values][ld]. */
void tt_cpu_front_input_gradient(const tt_cpu_front_pass *p, int layer, float *dx);

/* After the backward pass: gradient of the parameters of some output channels of a layer, in
 * gradient[P]. */
void tt_cpu_front_gradient(const tt_cpu_front_pass *p, int layer, int64_t first, int64_t channels,
                           float *gradient);
#endif
