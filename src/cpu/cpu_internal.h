/* cpu_internal.h — inside of the cpu engine: what its files share. Floor 3. */
#ifndef TT_CPU_INTERNAL_H
#define TT_CPU_INTERNAL_H
#include "core/engine/engine.h"
#include "src/cpu/kernels.h"

/* The rows of one view (cohort.h), by split. */
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
  tt_cpu_row_lists *lists; /* [views] */
  float *anchor;           /* [M][P] initial weights; NULL: no member is anchored to them */
  float *range;            /* [D] of the inputs; NULL: no member is trained adversarially */
  tt_state *state;
  struct tt_cpu_buffers **buffers; /* [threads] */
};

/* Buffers of one thread; a member's step touches nothing else but its weights and the data. */
enum {
  TT_SAMPLER_WINDOW = 4096
}; /* slots of an epoch's order kept at a time, or one batch if larger */
typedef struct tt_cpu_buffers {
  int64_t rows, ld;        /* padded rows of a batch, and the distance between features */
  float *x;                /* [D][ld] */
  float *y;                /* [K][ld] */
  float *weight;           /* [rows] */
  float *z[TT_MAX_LAYERS]; /* [out][ld] of layer l: z, then dy/dz; of the last: the output */
  float *h[TT_MAX_LAYERS]; /* [out][ld] y of layer l: f(z), after dropout, plus x if residual */
  float *normalized[TT_MAX_LAYERS];  /* [out][ld] with layer_norm: z of mean 0 and variance 1 */
  float *inverse_std[TT_MAX_LAYERS]; /* [ld] with layer_norm: 1 / standard deviation of z */
  float *d[2];                       /* [widest][ld] */
  float *residual_gradient; /* [widest][ld] dL/dy of a residual layer, on its way past the layer */
  float *gradient;          /* [P] */
  float *adversarial_gradient; /* [P] gradient at the adversarial inputs */
  int8_t *input_mask;          /* [D] inputs the member sees */
  int32_t *window;             /* [window_size] row numbers */
  int64_t window_size;
  int64_t window_first, window_count;
} tt_cpu_buffers;

typedef enum tt_cpu_buffers_use {
  TT_BUFFERS_PREDICT,
  TT_BUFFERS_TRAIN,
  TT_BUFFERS_ADVERSARIAL
} tt_cpu_buffers_use;

/* Buffers for batches of up to `batch` rows. Errors: MEM. */
tt_err tt_cpu_buffers_create(const tt_model *model, int64_t batch, tt_cpu_buffers_use use,
                             tt_cpu_buffers **out);
void tt_cpu_buffers_destroy(tt_cpu_buffers **w);
int64_t tt_cpu_buffers_bytes(const tt_model *model, int64_t batch, tt_cpu_buffers_use use);

/* x[D][ld] in the buffers -> output of the last layer, z[layers - 1].
 *   drop      NULL: no unit is left out;   gradient  keep what tt_cpu_backward needs */
void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_cpu_buffers *b,
                    int64_t rows, const tt_dropout *drop, int gradient);

/* d[0] holds dL/d(output): gradient[P] of all parameters, last layer to first. Returns dL/dx
 * [D][ld] if `inputs`, else NULL. */
const float *tt_cpu_backward(const tt_kernels *k, const tt_model *model, const float *w,
                             tt_cpu_buffers *b, int64_t rows, float *gradient, int inputs);

/* One member in training: its place in the state arrays. */
typedef struct tt_cpu_member {
  const tt_member *member;
  const tt_ensemble *ensemble;
  const tt_cpu_row_lists *lists;
  int64_t i;             /* in [0, M) */
  int64_t rows, batches; /* of an epoch */
  float *w, *slots;      /* [P], [S][P] */
} tt_cpu_member;

/* Make buffers b those of member i of [0, M). */
tt_cpu_member tt_cpu_member_begin(const tt_engine *e, tt_cpu_buffers *b, int64_t i);

/* One optimiser step of `steps` still to do; 0 if the loss is not finite: the weights stay as they
 * were. */
int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps);

/* The same in halves (engine.h: forward, apply). The first returns the rows of the batch, *count of
 * them, and leaves the outputs in z[layers - 1]; the second returns as tt_cpu_step does. */
const int32_t *tt_cpu_split_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                    int64_t *count);
int tt_cpu_split_apply(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       const float *delta, double loss);

/* After a step: if that was the last batch of an epoch, its end. Returns 1 then. */
int tt_cpu_end_epoch_if_due(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx);

/* Up to `steps` steps of member i of [0, M). Returns the number taken. */
int64_t tt_cpu_train_member(tt_engine *e, tt_cpu_buffers *b, int64_t i, int64_t steps);

/* The given rows of the data set into x, y and, if there are some, weight of the buffers. Returns
 * the weights or NULL. */
const float *tt_cpu_load_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows);

/* Mean loss of weights w[P] over a list of rows; NaN for no rows. */
double tt_cpu_mean_loss(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                        const float *w, const int32_t *row, int64_t count);

/* Denormal numbers count as zero between the two: the moments of dead units decay into them, and
 * each operation on one costs a hundred others. The first returns the mode to restore. */
unsigned tt_cpu_flush_denormals(void);
void tt_cpu_restore_denormals(unsigned old);

/* engine.h: describe, predict, forward, apply. */
tt_err tt_cpu_describe(int device, tt_device_info *out);
tt_err tt_cpu_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                      const float *x, tt_moments *into, float *members);
tt_err tt_cpu_ops_forward(tt_engine *e, float *output, int32_t *row);
tt_err tt_cpu_ops_apply(tt_engine *e, const float *delta, const double *loss);
#endif
