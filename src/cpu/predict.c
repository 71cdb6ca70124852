/* predict.c — predictions of a committee: blocks of rows in parallel, members in order. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"

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
  float *mean;     /* [K q][ld] of outputs that are not means themselves */
  float *variance; /* [K q][ld] */
  double *weight;  /* [columns] of the block's moments */
} tt_scratch;

/* What a member predicts for a block: [K q][ld]; variance NULL = 0. */
typedef struct tt_says {
  const float *mean, *variance;
} tt_says;

/* From the outputs of the last layer. */
static tt_says interpret(const tt_job *job, tt_scratch *s, int64_t rows)
{
  const tt_model *m = &job->c->model;
  int64_t ld = s->work->ld, q = m->quantities;
  const float *o = s->work->z[m->layers - 1], *raw = o + m->targets * ld;
  if (m->output == TT_OUTPUT_mean) return (tt_says){o, NULL};
  if (m->output == TT_OUTPUT_mean_variance) {
    for (int64_t k = 0; k < m->targets; k++)
      for (int64_t r = 0; r < rows; r++)
        s->variance[k * ld + r] = tt_softplus(raw[k * ld + r]) + job->c->variance_floor;
    return (tt_says){o, s->variance};
  }
  for (int64_t k = 0; k < m->targets; k++)
    for (int64_t r = 0; r < rows; r++)
      tt_output_predict(m->output, m->levels, job->c->variance_floor, o + k * ld + r,
                        m->targets * ld, s->mean + k * q * ld + r, s->variance + k * q * ld + r,
                        ld);
  return (tt_says){s->mean, s->variance};
}

static void keep_member(const tt_job *job, const tt_scratch *s, int64_t member, int64_t first,
                        int64_t rows, tt_says says)
{
  int64_t width = tt_committee_width(job->c), ld = s->work->ld;
  float *to = job->members + member * 2 * width * job->rows + first;
  for (int64_t j = 0; j < width; j++) {
    memcpy(to + j * job->rows, says.mean + j * ld, (size_t)rows * sizeof *to);
    if (says.variance)
      memcpy(to + (width + j) * job->rows, says.variance + j * ld, (size_t)rows * sizeof *to);
    else
      memset(to + (width + j) * job->rows, 0, (size_t)rows * sizeof *to);
  }
}

/* Rows [first, first + rows): all members, in order, into the moments of these rows. */
static void block(const tt_job *job, tt_scratch *s, int64_t first, int64_t rows)
{
  const tt_committee *c = job->c;
  const tt_model *m = &c->model;
  tt_work *b = s->work;
  tt_moments part = {.rows = rows, .columns = job->columns, .weight = s->weight};
  if (job->into) {
    part.mean = job->into->mean + first * job->columns;
    part.between = job->into->between + first * job->columns;
    part.within = job->into->within + first * job->columns;
    memset(s->weight, 0, (size_t)job->columns * sizeof *s->weight);
  }
  int64_t n = (rows + TT_LANES - 1) / TT_LANES * TT_LANES, width = tt_committee_width(c);
  for (int64_t r = 0; r < rows; r++)
    b->window[r] = (int32_t)r;
  job->kernels->gather(m->inputs, m->inputs, NULL, job->x + first * m->inputs, b->window, rows, n,
                       b->x, b->ld);
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t i = c->ensemble[e].first; i < c->ensemble[e].first + c->ensemble[e].members; i++) {
      if (c->weight[i] <= 0.0 && !job->members) continue;
      tt_cpu_forward(job->kernels, m, c->w + i * m->params, b, rows, NULL, 0);
      tt_says says = interpret(job, s, rows);
      if (job->into)
        tt_moments_add(&part, e * width, width, c->weight[i], says.mean, says.variance, b->ld);
      if (job->members) keep_member(job, s, i, first, rows, says);
    }
}

static void scratch_free(tt_scratch *s)
{
  tt_work_destroy(&s->work);
  tt_free(s->mean);
  tt_free(s->variance);
  tt_free(s->weight);
}

static tt_err scratch_make(const tt_job *job, tt_scratch *s)
{
  TT_TRY(tt_work_create(&job->c->model, BLOCK, TT_WORK_PREDICT, &s->work));
  TT_TRY(TT_ALLOC(s->mean, tt_committee_width(job->c) * s->work->ld));
  TT_TRY(TT_ALLOC(s->variance, tt_committee_width(job->c) * s->work->ld));
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
