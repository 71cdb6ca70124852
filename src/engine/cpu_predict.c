/* cpu_predict.c — predictions of a committee: blocks of rows in parallel, members in order. */
#include "engine/cpu.h"

#include "base/mem.h"

#include <omp.h>
#include <string.h>

enum { BLOCK = 256 }; /* rows that pass all members while they are in cache */

typedef struct tt_job {
  const tt_committee *c;
  const tt_kernels *kernels;
  int64_t rows, columns;
  const float *x;
  tt_moments *into;
  float *members;
} tt_job;

/* Buffers of one thread beside tt_work. */
typedef struct tt_scratch {
  tt_work *work;
  float *variance; /* [K][ld] */
  double *weight;  /* [columns] of the block's moments */
} tt_scratch;

/* The raw variance outputs become variances. */
static void variances(const tt_job *job, tt_scratch *s, const float *raw, int64_t rows)
{
  int64_t ld = s->work->ld;
  for (int64_t k = 0; k < job->c->model.targets; k++)
    for (int64_t r = 0; r < rows; r++)
      s->variance[k * ld + r] = tt_softplus(raw[k * ld + r]) + job->c->variance_floor;
}

static void keep_member(const tt_job *job, const tt_scratch *s, int64_t member, int64_t first,
                        int64_t rows, const float *mean, int two)
{
  int64_t k = job->c->model.targets, ld = s->work->ld;
  float *to = job->members + member * 2 * k * job->rows + first;
  for (int64_t j = 0; j < k; j++) {
    memcpy(to + j * job->rows, mean + j * ld, (size_t)rows * sizeof *to);
    if (two)
      memcpy(to + (k + j) * job->rows, s->variance + j * ld, (size_t)rows * sizeof *to);
    else
      memset(to + (k + j) * job->rows, 0, (size_t)rows * sizeof *to);
  }
}

/* Rows [first, first + rows): all members, in order, into the moments of these rows. */
static void block(const tt_job *job, tt_scratch *s, int64_t first, int64_t rows)
{
  const tt_committee *c = job->c;
  const tt_model *m = &c->model;
  tt_work *b = s->work;
  int two = m->output == TT_OUTPUT_mean_variance;
  tt_moments part = {.rows = rows, .columns = job->columns, .weight = s->weight};
  if (job->into) {
    part.mean = job->into->mean + first * job->columns;
    part.between = job->into->between + first * job->columns;
    part.within = job->into->within + first * job->columns;
    memset(s->weight, 0, (size_t)job->columns * sizeof *s->weight);
  }
  int64_t n = (rows + TT_LANES - 1) / TT_LANES * TT_LANES, column = 0;
  for (int64_t r = 0; r < rows; r++)
    b->window[r] = (int32_t)r;
  job->kernels->gather(m->inputs, m->inputs, NULL, job->x + first * m->inputs, b->window, rows, n,
                       b->x, b->ld);
  for (int64_t e = 0; e < c->ensembles; column += c->ensemble[e++].targets)
    for (int64_t i = c->ensemble[e].first; i < c->ensemble[e].first + c->ensemble[e].members; i++) {
      if (c->weight[i] <= 0.0 && !job->members) continue;
      tt_cpu_forward(job->kernels, m, c->w + i * m->params, b, rows, 0);
      const float *mean = b->z[m->layers - 1];
      if (two) variances(job, s, mean + m->targets * b->ld, rows);
      if (job->into)
        tt_moments_add(&part, column, m->targets, c->weight[i], mean, two ? s->variance : NULL,
                       b->ld);
      if (job->members) keep_member(job, s, i, first, rows, mean, two);
    }
}

static void scratch_free(tt_scratch *s)
{
  tt_work_destroy(&s->work);
  tt_free(s->variance);
  tt_free(s->weight);
}

static tt_err scratch_make(const tt_job *job, tt_scratch *s)
{
  TT_TRY(tt_work_create(&job->c->model, BLOCK, 0, &s->work));
  TT_TRY(TT_ALLOC(s->variance, job->c->model.targets * s->work->ld));
  return TT_ALLOC(s->weight, job->columns);
}

tt_err tt_cpu_predict(const tt_committee *c, const tt_resources *use, int64_t rows, const float *x,
                      tt_moments *into, float *members)
{
  tt_job job = {.c = c, .rows = rows, .x = x, .into = into, .members = members};
  TT_TRY(tt_kernels_get(use->simd, &job.kernels));
  job.columns = tt_committee_columns(c);
  if (into) {
    tt_moments_clear(into);
    tt_moments_take_shares(into, c);
  }
  int threads = use->threads < 1 ? 1 : use->threads;
  tt_scratch *scratch = NULL;
  TT_TRY(TT_ALLOC(scratch, threads));
  tt_err e = TT_OK;
  for (int t = 0; !e && t < threads; t++)
    e = scratch_make(&job, &scratch[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t first = 0; first < rows; first += BLOCK)
      block(&job, &scratch[omp_get_thread_num()], first,
            rows - first < BLOCK ? rows - first : BLOCK);
  }
  for (int t = 0; t < threads; t++)
    scratch_free(&scratch[t]);
  tt_free(scratch);
  return e;
}
