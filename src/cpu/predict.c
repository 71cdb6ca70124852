/* predict.c — predictions of a trained ensemble: blocks of rows in parallel, members in order. */
#include "src/cpu/cpu_internal.h"

#include "core/base/floating.h"
#include "core/base/mem.h"
#include "core/engine/mixed_predict.h"

#include <omp.h>
#include <string.h>

enum { BLOCK = 256 }; /* rows that stay in cache in the loop over members */

typedef struct predict_job {
  const tt_trained_ensemble *c;
  const tt_kernels *kernels;
  int64_t rows, columns;
  const float *x;
  tt_moments *into;
  float *members;
} predict_job;

/* Buffers of one thread. */
typedef struct thread_scratch {
  tt_cpu_buffers *buffers;
  float *mean;               /* [width][ld] prediction of a member */
  float *variance;           /* [width][ld] */
  float *amplitude, *spread; /* [K q][ld] the same of the components of the targets, or NULL */
  double *weight;            /* [columns] sums of member weights of the block */
} thread_scratch;

/* One target of a block; the compiler vectorizes the loops over rows. */
static void predict_target(const predict_job *job, const float *o, int64_t step, int64_t rows,
                           float *mean, float *variance, int64_t out_step)
{
  const tt_model *m = &job->c->model;
  switch (m->output) {
#define X(name, ...)                                                                               \
  case TT_OUTPUT_##name:                                                                           \
    for (int64_t r = 0; r < rows; r++)                                                             \
      tt_predict_##name(m->levels, job->c->variance_floor, o + r, step, mean + r, variance + r,    \
                        out_step);                                                                 \
    return;
    TT_OUTPUTS(X)
#undef X
  default: return;
  }
}

/* Prediction of a member for a block, from the outputs of the last layer: mean, variance
 * [width][ld]. */
static void read_outputs(const predict_job *job, thread_scratch *s, int64_t rows)
{
  const tt_model *m = &job->c->model;
  int64_t ld = s->buffers->ld, q = m->quantities;
  float *mean = s->amplitude ? s->amplitude : s->mean;
  float *variance = s->amplitude ? s->spread : s->variance;
  for (int64_t k = 0; k < m->targets; k++)
    predict_target(job, s->buffers->z[m->layers - 1] + k * ld, m->targets * ld, rows,
                   mean + k * q * ld, variance + k * q * ld, ld);
  if (s->amplitude)
    tt_trained_ensemble_expand(job->c, rows, ld, mean, variance, s->mean, s->variance);
}

static void store_member(const predict_job *job, const thread_scratch *s, int64_t member,
                         int64_t first, int64_t rows)
{
  int64_t width = tt_trained_ensemble_width(job->c), ld = s->buffers->ld;
  float *dst = job->members + tt_prediction_place(width, job->rows, member, 0, first);
  for (int64_t j = 0; j < width; j++) {
    memcpy(dst + j * job->rows, s->mean + j * ld, (size_t)rows * sizeof *dst);
    memcpy(dst + (width + j) * job->rows, s->variance + j * ld, (size_t)rows * sizeof *dst);
  }
}

/* Add all members, in order, to the moments of rows [first, first + rows). */
static void predict_members(const predict_job *job, thread_scratch *s, int64_t first, int64_t rows)
{
  const tt_trained_ensemble *c = job->c;
  const tt_model *m = &c->model;
  tt_cpu_buffers *b = s->buffers;
  tt_moments part = {.rows = rows, .columns = job->columns, .weight = s->weight};
  if (job->into) {
    part.mean = job->into->mean + first * job->columns;
    part.between = job->into->between + first * job->columns;
    part.within = job->into->within + first * job->columns;
    memset(s->weight, 0, (size_t)job->columns * sizeof *s->weight);
  }
  int64_t n = tt_lanes_up(rows), width = tt_trained_ensemble_width(c);
  for (int64_t r = 0; r < rows; r++) b->window[r] = (int32_t)r;
  job->kernels->gather(m->inputs, m->inputs, NULL, job->x + first * m->inputs, b->window, rows, n,
                       b->x, b->ld);
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t i = c->ensemble[e].first; i < c->ensemble[e].first + c->ensemble[e].members; i++) {
      if (c->weight[i] <= 0.0 && !job->members) continue;
      tt_cpu_forward(&(tt_cpu_pass){job->kernels, m, c->w + i * m->params, b, rows}, NULL, 0);
      read_outputs(job, s, rows);
      if (job->into)
        tt_moments_add(&part, e * width, width, c->weight[i], s->mean, s->variance, b->ld);
      if (job->members) store_member(job, s, i, first, rows);
    }
}

/* The block whose first row is `first`. */
static void predict_block(const predict_job *job, thread_scratch *s, int64_t first)
{
  tt_floating caller = tt_floating_begin();
  predict_members(job, s, first, job->rows - first < BLOCK ? job->rows - first : BLOCK);
  tt_floating_end(caller);
}

static void scratch_destroy(thread_scratch *s)
{
  tt_cpu_buffers_destroy(&s->buffers);
  tt_free_all(&s->mean, &s->variance, &s->amplitude, &s->spread, &s->weight);
}

static tt_err scratch_create(const predict_job *job, thread_scratch *s)
{
  TT_TRY(tt_cpu_buffers_create(&job->c->model, BLOCK, 1, TT_BUFFERS_PREDICT, &s->buffers));
  TT_TRY(TT_ALLOC_VALUES(s->mean, tt_trained_ensemble_width(job->c) * s->buffers->ld));
  TT_TRY(TT_ALLOC_VALUES(s->variance, tt_trained_ensemble_width(job->c) * s->buffers->ld));
  if (job->c->scaler.components) {
    TT_TRY(TT_ALLOC_VALUES(s->amplitude, job->c->model.targets * s->buffers->ld));
    TT_TRY(TT_ALLOC_VALUES(s->spread, job->c->model.targets * s->buffers->ld));
  }
  return TT_ALLOC_VALUES(s->weight, job->columns);
}

static int threads_of(const tt_resources *use) { return use->threads < 1 ? 1 : use->threads; }

int64_t tt_cpu_predict_bytes(const tt_model *model, int64_t columns, const tt_resources *use)
{
  const tt_trained_ensemble c = {.model = *model};
  const predict_job job = {.c = &c, .columns = columns};
  thread_scratch one = {0};
  tt_mem_count_begin();
  (void)scratch_create(&job, &one);
  int64_t each = tt_mem_count_end(), threads = threads_of(use);
  scratch_destroy(&one);
  return tt_alloc_size(threads, sizeof one) + threads * each;
}

tt_err tt_cpu_predict(const tt_trained_ensemble *c, const tt_resources *use, int64_t rows,
                      const float *x, tt_moments *dst, float *members)
{
  predict_job job = {.c = c, .rows = rows, .x = x, .into = dst, .members = members};
  if (c->networks) return tt_mixed_predict(tt_cpu_predict, c, use, rows, x, dst, members);
  TT_TRY(tt_kernels_get(use->simd, &job.kernels));
  job.columns = tt_trained_ensemble_columns(c);
  if (dst) {
    tt_moments_clear(dst);
    tt_moments_set_weights(dst, c);
  }
  int threads = threads_of(use);
  thread_scratch *scratch = NULL;
  TT_TRY(TT_ALLOC(scratch, threads));
  tt_err e = TT_OK;
  for (int t = 0; !e && t < threads; t++) e = scratch_create(&job, &scratch[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t first = 0; first < rows; first += BLOCK)
      predict_block(&job, &scratch[omp_get_thread_num()], first);
  }
  for (int t = 0; t < threads; t++) scratch_destroy(&scratch[t]);
  tt_free(scratch);
  return e;
}
