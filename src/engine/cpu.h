/* cpu.h — inside of the cpu engine: what cpu.c, cpu_member.c and cpu_predict.c share. Floor 3. */
#ifndef TT_CPU_H
#define TT_CPU_H
#include "engine/engine.h"
#include "engine/kernels.h"

/* Rows labelled for one ensemble, by split. */
typedef struct tt_row_lists {
  int32_t *row[TT_SPLITS]; /* [count], ascending */
  int64_t count[TT_SPLITS];
} tt_row_lists;

struct tt_engine {
  const tt_cohort *cohort;
  tt_slice slice;
  const tt_kernels *kernels;
  int threads;
  const tt_dataset *data;
  const int32_t *replay; /* [M][epochs][rows] or NULL */
  tt_row_lists *lists;   /* [ensembles] */
  tt_state *state;
  struct tt_work **work; /* [threads] */
};

/* Buffers of one thread; a member's step touches nothing else but its weights and the data. */
enum { TT_WINDOW = 4096 }; /* slots of an epoch's order kept at a time, or one batch if larger */
typedef struct tt_work {
  int64_t rows, ld;        /* padded rows of a batch, and the distance between features */
  float *x;                /* [D][ld] */
  float *y;                /* [K][ld] */
  float *weight;           /* [rows] */
  float *z[TT_MAX_LAYERS]; /* [out][ld] of layer l: z, then f'(z); of the last layer: the output */
  float *h[TT_MAX_LAYERS]; /* [out][ld] f(z) */
  float *d[2];             /* [widest][ld] */
  float *gradient;         /* [P] */
  int32_t *window;         /* [window_size] row numbers */
  int64_t window_size;
  int64_t window_first, window_count;
} tt_work;

/* Buffers for batches of up to `batch` rows; `training` = with gradients. Errors: MEM. */
tt_err tt_work_create(const tt_model *model, int64_t batch, int training, tt_work **out);
void tt_work_destroy(tt_work **w);
int64_t tt_work_bytes(const tt_model *model, int64_t batch);

/* x[D][ld] in the buffers -> output of the last layer, z[layers - 1]. gradient: keep f'(z). */
void tt_cpu_forward(const tt_kernels *k, const tt_model *model, const float *w, tt_work *b,
                    int64_t rows, int gradient);

/* Up to `steps` steps of member i of [0, M). Returns the number taken. */
int64_t tt_cpu_train_member(tt_engine *e, tt_work *b, int64_t i, int64_t steps);

/* Mean loss of weights w[P] over a list of rows; NaN for no rows. */
double tt_cpu_mean_loss(const tt_engine *e, tt_work *b, const tt_ensemble *ensemble, const float *w,
                        const int32_t *row, int64_t count);

/* engine.h: describe. */
tt_err tt_cpu_describe(int device, tt_device_info *out);

/* engine.h: predict. */
tt_err tt_cpu_predict(const tt_committee *c, const tt_resources *use, int64_t rows, const float *x,
                      tt_moments *into, float *members);
#endif
