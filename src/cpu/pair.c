/* pair.c — two threads train a small member, each with its own copy of weights and slots; see
 * cpu_internal.h.
 *
 * Each thread computes the gradient of its half of the rows (tt_cpu_cut), and updates its copy with
 * the sum of both halves. So the threads meet once a step and exchange gradients only, not the rows
 * of all layers, nor weights: the update of a step is made at the start of the next one. Which copy
 * is used changes no bit. */
#include "src/cpu/cpu_internal.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

int64_t tt_cpu_pair_floats(const tt_cohort *c)
{
  enum { TERM = sizeof(double) / sizeof(float) };
  if (c->parts > 1 || tt_cpu_cut(&c->model, c->batch_size) >= c->batch_size) return 0;
  return (1 + tt_cohort_state_shape(c).slots + 4) * tt_lanes_up(c->model.params) +
         2 * TERM * tt_lanes_up(c->batch_size);
}

static float *take(float **scratch, int64_t count)
{
  float *taken = *scratch;
  *scratch += tt_lanes_up(count);
  return taken;
}

void tt_cpu_pair_begin(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       tt_cpu_pair *out)
{
  const tt_cohort *c = e->cohort;
  float *scratch = ctx->team->pair_scratch;
  *out = (tt_cpu_pair){.e = e, .b = b, .member = {*ctx, *ctx}};
  for (int k = 0; k < 2; k++) out->term[k] = (double *)(void *)take(&scratch, 2 * c->batch_size);
  for (int k = 0; k < 4; k++) out->half[k / 2][k % 2] = take(&scratch, c->model.params);
  out->member[1].w = take(&scratch, c->model.params);
  out->member[1].slots = scratch;
}

static void copy_member(const tt_cpu_pair *p)
{
  size_t params = (size_t)p->e->cohort->model.params, slots = (size_t)p->e->state->slots;
  memcpy(p->member[1].w, p->member[0].w, params * sizeof(float));
  memcpy(p->member[1].slots, p->member[0].slots, slots * params * sizeof(float));
}

/* 2 if the gradient of so many rows is the sum of two halves, else 1. */
static int halves_of(const tt_cpu_pair *p, int64_t rows)
{
  return tt_cpu_cut(&p->e->cohort->model, rows) < rows ? 2 : 1;
}

/* The gradient of some parameters in the step before. */
static void add_halves(const tt_cpu_pair *p, tt_slice segment, float *sum)
{
  const float *one = p->half[0][p->which] + segment.first;
  const float *two = p->half[1][p->which] + segment.first;
  if (halves_of(p, p->due) == 1)
    memcpy(sum, one, (size_t)segment.count * sizeof *sum);
  else
    for (int64_t k = 0; k < segment.count; k++) sum[k] = one[k] + two[k];
}

/* Update the weights and slots of a thread; a few parameters at a time, so that they stay in cache,
 * but all at once if the gradient is clipped, which needs the norm of all. */
static void update_copy(const tt_cpu_pair *p, int thread)
{
  enum { FEW = 256 };
  const tt_cpu_member *ctx = &p->member[thread];
  float limit = ctx->member->hyper.clip_norm;
  int64_t params = p->e->cohort->model.params, each = limit > 0.0f ? params : FEW;
  tt_cpu_update u = p->update;
  u.ctx = ctx;
  for (int64_t first = 0; first < params; first += each) {
    tt_slice segment = {first, tt_min_i64(params - first, each)};
    float *sum = p->half[thread][!p->which] + first;
    add_halves(p, segment, sum);
    if (limit > 0.0f) u.scale = tt_clip_factor(p->e->kernels->square_sum(params, sum), limit);
    tt_cpu_update_weights(&u, segment, sum);
    if (thread == 0) tt_cpu_average_weights(p->e, ctx, segment);
  }
}

static void add_loss(const tt_cpu_pair *p)
{
  TT_FIELD(p->e->state, loss_sum)
  [p->member[0].i] += tt_kernels_add_losses(p->e->cohort->loss, p->due, p->term[p->which]);
}

static int all_finite(int64_t count, const double *term)
{
  int finite = 1;
  for (int64_t k = 0; k < count; k++) finite &= fabs(term[k]) <= DBL_MAX;
  return finite;
}

static void compute_half(tt_cpu_pair *p, int thread, int halves)
{
  tt_slice rows = tt_cpu_share_of_rows(p->rows, thread, halves);
  tt_cpu_buffers b = *p->e->buffers[omp_get_thread_num()];
  b.term = p->term[!p->which] + rows.first;
  tt_cpu_panels_gradient(p->e, &b, &p->member[thread], &p->batch, rows, tt_lanes_up(rows.count),
                         p->half[thread][!p->which]);
  if (!all_finite(rows.count, b.term)) atomic_store_explicit(&p->infinite, 1, memory_order_relaxed);
}

static void share(void *context, int thread, int threads)
{
  tt_cpu_pair *p = context;
  int halves = p->rows ? halves_of(p, p->rows) : 0;
  (void)threads;
  if (thread == 1 && !p->is_copied) copy_member(p);
  if (thread == 0 && p->due) add_loss(p);
  if (p->due) update_copy(p, thread);
  if (thread < halves) compute_half(p, thread, halves);
}

static void meet(tt_cpu_pair *p)
{
  tt_cpu_team_run_on(p->member[0].team, 2, share, p);
  p->is_copied = 1;
  p->which ^= p->rows > 0;
  p->due = p->rows;
  p->rows = 0;
}

int tt_cpu_pair_step(tt_cpu_pair *p, int64_t steps)
{
  const tt_engine *e = p->e;
  const tt_cpu_member *ctx = &p->member[0];
  tt_cpu_next_batch(e, p->b, ctx, steps, &p->batch);
  p->rows = p->batch.count;
  meet(p);
  if (atomic_load_explicit(&p->infinite, memory_order_relaxed)) return 0;
  tt_cpu_update_begin(e, ctx, &p->update);
  int is_last = steps == 1 || TT_FIELD(e->state, batch)[ctx->i] + 1 == ctx->batches;
  if (is_last || e->cohort->average == TT_AVERAGE_ema) meet(p);
  tt_cpu_end_step(e, ctx, 0.0);
  return 1;
}

void tt_cpu_pair_end(tt_cpu_pair *p)
{
  if (p->due) meet(p);
}
