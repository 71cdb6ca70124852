/* cpu_internal.h — internal declarations of the cpu engine. */
#ifndef TT_CPU_INTERNAL_H
#define TT_CPU_INTERNAL_H
#include "core/engine/engine.h"
#include "src/cpu/kernels.h"

/* The rows of one row set (cohort.h), by split. */
typedef struct tt_cpu_row_lists {
  int32_t *row[TT_SPLITS]; /* [count], ascending */
  int64_t count[TT_SPLITS];
} tt_cpu_row_lists;

struct tt_engine {
  const tt_cohort *cohort;
  tt_slice slice;
  const tt_kernels *kernels;
  int threads;
  const tt_dataset *data;
  const int32_t *replay; /* [M][epochs][rows] or NULL */
  int64_t row_sets;
  tt_cpu_row_lists *lists; /* [row_sets] */
  float *anchor;           /* [M][P] initial weights; NULL: no member is anchored to them */
  float *range;            /* [D] of the inputs; NULL: no member is trained adversarially */
  tt_state *state;
  double *term; /* terms of a validation loss, if members have parts; else NULL */
  struct tt_cpu_buffers **buffers; /* [threads] */
};

/* Row numbers of an epoch computed at a time; one batch if that is larger. */
enum { TT_SAMPLER_WINDOW = 4096 };

/* Buffers of one thread; a step uses only these, the state of the member and the data. */
typedef struct tt_cpu_buffers {
  int64_t rows, ld;        /* padded rows of a part of a batch, and the leading dimension */
  float *x;                /* [D][ld] */
  float *y;                /* [K][ld] */
  float *weight;           /* [rows] */
  float *z[TT_MAX_LAYERS]; /* [out][ld] of layer l: z, then dy/dz; of the last layer the output */
  float *h[TT_MAX_LAYERS]; /* [out][ld] y of layer l: f(z) after dropout, plus x if residual */
  float *normalized[TT_MAX_LAYERS];  /* [out][ld] with layer_norm: z of mean 0 and variance 1 */
  float *inverse_std[TT_MAX_LAYERS]; /* [ld] with layer_norm: 1 / standard deviation of z */
  float *d[2];                       /* [widest][ld] */
  float *residual_gradient;    /* [widest][ld] dL/dy of a residual layer, for its skip connection */
  float *gradient[TT_MAX_PART_SUMS]; /* [P] [0] of the batch; sums of its parts (parts.h) */
  double loss[TT_MAX_PART_SUMS];     /* of these sums, if threads share the parts of a batch */
  float *adversarial_gradient;       /* [P] gradient at the adversarial inputs */
  int8_t *input_mask;          /* [D] 1 for inputs that the member uses */
  int32_t *window;             /* [window_size] row numbers */
  int64_t window_size;
  int64_t window_first, window_count;
} tt_cpu_buffers;

typedef enum tt_cpu_buffers_use {
  TT_BUFFERS_PREDICT,
  TT_BUFFERS_TRAIN,
  TT_BUFFERS_ADVERSARIAL
} tt_cpu_buffers_use;

/* Buffers of a thread for batches of up to `batch` rows in `parts` parts. Without the gradients of
 * more than one part, which tt_cpu_reserve_sums adds; the bytes are with them, if `threads` threads
 * share the parts. Errors: MEM. */
tt_err tt_cpu_buffers_create(const tt_model *model, int64_t batch, int64_t parts,
                             tt_cpu_buffers_use use, tt_cpu_buffers **out);
void tt_cpu_buffers_destroy(tt_cpu_buffers **w);
int64_t tt_cpu_buffers_bytes(const tt_model *model, int64_t batch, int64_t parts, int threads,
                             tt_cpu_buffers_use use);

/* x[D][ld] in the buffers -> output of the last layer, z[layers - 1].
 *   drop      NULL: no dropout;   gradient  1: keep the values for tt_cpu_backward */
void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_cpu_buffers *b,
                    int64_t rows, const tt_dropout *drop, int gradient);

/* From dL/d(output) in d[0], compute gradient[P] of all parameters. Returns dL/dx [D][ld] if
 * `inputs`, else NULL. */
const float *tt_cpu_backward(const tt_kernels *k, const tt_model *model, const float *w,
                             tt_cpu_buffers *b, int64_t rows, float *gradient, int inputs);

/* One member in training, with its part of the state arrays. */
typedef struct tt_cpu_member {
  const tt_member *member;
  const tt_ensemble *ensemble;
  const tt_cpu_row_lists *lists;
  int64_t i;             /* in [0, M) */
  int64_t rows, batches; /* per epoch */
  float *w, *slots;      /* [P], [S][P] */
  int threads;           /* that share its steps and validation rows */
  const tt_shared_sum *share; /* of its validation loss with other engines; NULL: none */
} tt_cpu_member;

/* Prepare buffers b for member i of [0, M). */
tt_cpu_member tt_cpu_member_begin(const tt_engine *e, tt_cpu_buffers *b, int64_t i);

/* A batch: the rows of the data set, its dropout. */
typedef struct tt_cpu_batch {
  int64_t count;
  const int32_t *row; /* [count] */
  tt_dropout dropout; /* p = 0: none */
} tt_cpu_batch;

/* The next batch of a member. steps: as for tt_cpu_step. */
void tt_cpu_next_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps, tt_cpu_batch *out);

/* Copy some rows of the batch to the buffers, with label noise, and set the rows of its dropout.
 * Returns the sample weights, or NULL. */
const float *tt_cpu_load_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                               tt_cpu_batch *batch, tt_slice rows);

/* Gradients of some parts of the batch, added as parts.h says: sum[0], sum[1], ... are pointers to
 * [P] in the buffers; loss[TT_MAX_PART_SUMS] of each, NaN if one is not finite. Returns the number
 * of these sums: 1 for all parts of the batch.
 *   threads  that compute the parts, each with its own buffers of the engine; 1: with `b` */
int tt_cpu_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                    const tt_cpu_batch *batch, tt_slice parts, int threads,
                    float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);

/* Threads that share the parts of a member in tt_cpu_step: those of the engine if it has fewer
 * members, else 1. */
int tt_cpu_threads_per_member(const tt_cohort *c, tt_slice slice, int threads);

/* Gradients for a slice of the parts: each thread has those of its share of the slice; with
 * threads 1 each thread of the engine has those of the whole slice. Errors: MEM. */
tt_err tt_cpu_reserve_sums(tt_engine *e, tt_slice parts, int threads);

/* A step after its gradient, for the parameters of one segment, gradient[segment.count].
 *   squares  sum of squares of the gradient of all parameters; used if the member is clipped
 * The first function sets the gradient of unused inputs to 0 and, if the member is clipped,
 * computes the sum of squares of each block of TT_NORM_BLOCK parameters; the last function ends the
 * step in the state. */
void tt_cpu_gradient_squares(const tt_engine *e, const tt_cpu_buffers *b, const tt_cpu_member *ctx,
                             tt_slice segment, float *gradient, double *block);
void tt_cpu_update_weights(const tt_engine *e, const tt_cpu_member *ctx, tt_slice segment,
                           float *gradient, double squares);
void tt_cpu_end_step(const tt_engine *e, const tt_cpu_member *ctx, double loss);

/* One optimiser step. Returns 0 if the loss is not finite; then the weights do not change.
 *   steps  steps until the caller stops: the row order is computed for no more batches */
int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps);

/* The same in two parts (engine.h: forward, apply). The first returns the *count rows of the batch
 * and leaves the outputs in z[layers - 1]; the second returns the same as tt_cpu_step. */
const int32_t *tt_cpu_split_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                    int64_t *count);
int tt_cpu_split_apply(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       const float *delta, double loss);

/* After a step: if it was the last of an epoch, end the epoch and return 1; else return 0. */
int tt_cpu_end_epoch_if_due(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx);

/* Up to `steps` steps of member i of [0, M). Returns the number taken. */
int64_t tt_cpu_train_member(tt_engine *e, tt_cpu_buffers *b, int64_t i, int64_t steps);

/* Copy rows of the data set to x, y and weight of the buffers. Returns the sample weights, or NULL
 * if the data set has none. */
const float *tt_cpu_load_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows);

/* Mean loss of weights w[P] over a list of rows; NaN for no rows. The second function divides the
 * rows among the threads and engines that share the member. */
double tt_cpu_mean_loss(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                        const float *w, const int32_t *row, int64_t count);
double tt_cpu_shared_mean_loss(const tt_engine *e, const tt_cpu_member *ctx, const float *w,
                               const int32_t *row, int64_t count);

/* Between the two calls denormal numbers count as zero: the moments of dead units decay to denormal
 * numbers, and one operation on them is about a hundred times slower. The first call returns the
 * mode to restore. */
unsigned tt_cpu_flush_denormals(void);
void tt_cpu_restore_denormals(unsigned old);

/* Bytes that tt_cpu_predict allocates for each thread. */
int64_t tt_cpu_predict_bytes(const tt_model *model);

/* engine.h: describe, predict, forward, apply. */
tt_err tt_cpu_describe(int device, tt_device_info *out);
tt_err tt_cpu_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                      const float *x, tt_moments *into, float *members);
tt_err tt_cpu_ops_forward(tt_engine *e, float *output, int32_t *row);
tt_err tt_cpu_ops_apply(tt_engine *e, const float *delta, const double *loss);

/* engine.h: partial, squares, advance, accept. */
tt_err tt_cpu_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                      float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS]);
tt_err tt_cpu_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block);
tt_err tt_cpu_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                      float *w);
tt_err tt_cpu_accept(tt_engine *e, int64_t m, const float *w, double loss,
                     const tt_shared_sum *share, int *epoch_ended);
#endif
