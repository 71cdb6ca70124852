/* sensitivity.c — derivatives by the inputs; see explain_internal.h. */
#include "core/base/mem.h"
#include "core/model/partition.h"
#include "src/explain/explain_internal.h"
#include "src/host/watchdog.h"
#include "src/predict/row_slopes.h"

#include <math.h>
#include <omp.h>

/* Blocks of rows are units of work and of summation. Of networks with very many targets and inputs
 * there are fewer, so that their sums need at most 256 MiB, or the memory of one block. */
enum { MOST_BLOCKS = 16, MOST_SUMS = 1 << 25 };

/* Sums over rows of weight * derivative by the D inputs, in the user's units: W columns of a
 * member, C of all ensembles. */
typedef struct slope_sums {
  double *member;           /* [G][W][D] of absolute values */
  double *absolute, *slope; /* [C][D] of the mean of the members */
  double *weight;           /* [1] of the rows */
} slope_sums;

typedef struct sensitivity {
  const tt_trained_ensemble *m;
  const tt_explain_rows *rows;
  int64_t width, columns, inputs; /* D */
  int64_t each;                   /* doubles of a block */
  int64_t blocks;
} sensitivity;

static slope_sums sums_at(const sensitivity *s, double *block)
{
  double *absolute = block + s->m->members * s->width * s->inputs;
  double *slope = absolute + s->columns * s->inputs;
  return (slope_sums){block, absolute, slope, slope + s->columns * s->inputs};
}

/* One thread. */
typedef struct worker {
  const sensitivity *s;
  tt_row_slopes slopes;
  double *unit;  /* [D] from derivatives by inputs of the networks to those by columns */
  slope_sums to; /* of the present block */
  double weight; /* of the present row */
  int64_t first; /* column of the present ensemble */
} worker;

static tt_err worker_create(const sensitivity *s, worker *w)
{
  w->s = s;
  TT_TRY(tt_row_slopes_create(s->m, NULL, &w->slopes));
  return TT_ALLOC(w->unit, s->inputs);
}

static void worker_free(worker *w)
{
  tt_row_slopes_free(&w->slopes);
  tt_free(w->unit);
}

/* Derivative of column c of the present ensemble by column d, from those by the inputs of the
 * networks. */
static double slope_of(const worker *w, int64_t c, int64_t d, const double *by_inputs)
{
  return tt_row_slopes_unit(&w->slopes, w->first + c) * w->unit[d] *
         by_inputs[w->s->m->scaler.net.first[d]];
}

/* tt_member_slopes.add */
static void add_member(void *context, int64_t member, int64_t c, const double *d_mu)
{
  worker *w = context;
  double *dst = w->to.member + (member * w->s->width + c) * w->s->inputs;
  for (int64_t d = 0; d < w->s->inputs; d++) dst[d] += w->weight * fabs(slope_of(w, c, d, d_mu));
}

/* Add the mean of the members of the present ensemble. */
static void add_mean(worker *w)
{
  const sensitivity *s = w->s;
  for (int64_t c = 0; c < s->width; c++)
    for (int64_t d = 0; d < s->inputs; d++) {
      int64_t cell = (w->first + c) * s->inputs + d;
      double slope = w->weight * slope_of(w, c, d, w->slopes.d_mean + c * s->m->scaler.net.count);
      w->to.slope[cell] += slope;
      w->to.absolute[cell] += fabs(slope);
    }
}

static void add_row(worker *w, int64_t r)
{
  const sensitivity *s = w->s;
  const double *raw = s->rows->raw + r * s->inputs;
  const tt_member_slopes each = {add_member, w};
  tt_row_slopes_set_row(&w->slopes, raw);
  w->weight = s->rows->weight[r];
  for (int64_t d = 0; d < s->inputs; d++) w->unit[d] = tt_row_slopes_input_unit(&w->slopes, raw, d);
  for (int64_t e = 0; e < s->m->ensembles; e++) {
    w->first = e * s->width;
    tt_row_slopes_at(&w->slopes, e, &each);
    if (w->slopes.weight > 0.0) add_mean(w);
  }
  *w->to.weight += w->weight;
}

static tt_err add_blocks(const sensitivity *s, tt_slice mine, int threads, double *block)
{
  worker *w = NULL;
  tt_err e = TT_ALLOC(w, threads);
  for (int t = 0; !e && t < threads; t++) e = worker_create(s, &w[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < mine.count; i++) {
      int64_t offset = mine.first + i, rows = s->rows->rows;
      worker *own = &w[omp_get_thread_num()];
      own->to = sums_at(s, block + i * s->each);
      for (int64_t r = offset * rows / s->blocks; r < (offset + 1) * rows / s->blocks; r++) {
        tt_watchdog_heartbeat_local("derivatives");
        add_row(own, r);
      }
    }
  }
  for (int t = 0; w && t < threads; t++) worker_free(&w[t]);
  tt_free(w);
  return e;
}

static void store_column(const sensitivity *s, const slope_sums *src, const tt_explained *own,
                         int64_t column, tt_importance *out)
{
  const tt_ensemble *e = &s->m->ensemble[column / s->width];
  int64_t cells = s->width * s->inputs;
  for (int64_t d = 0; d < s->inputs; d++) {
    if (tt_net_inputs_is_category(&s->m->scaler.net, d)) continue;
    int64_t offset = column * s->inputs + d, cell = (own->column + column) * out->inputs + d;
    double mean, spread, unit = s->rows->spread[d] / *src->weight;
    tt_explain_spread(e->members, s->m->weight + e->first,
                      src->member + e->first * cells + offset % cells, cells, &mean, &spread);
    out->sensitivity[cell] = src->absolute[offset] * unit;
    out->sensitivity_between[cell] = spread * unit;
    out->slope[cell] = src->slope[offset] / *src->weight;
  }
}

tt_err tt_explain_sensitivities(tt_comm *c, const tt_explained *own, const tt_explain_rows *rows,
                                tt_importance *out)
{
  const tt_trained_ensemble *m = own->m;
  sensitivity s = {.m = m,
                   .rows = rows,
                   .width = tt_trained_ensemble_width(m),
                   .columns = tt_trained_ensemble_columns(m),
                   .inputs = m->scaler.inputs};
  double *here = NULL, *all = NULL;
  tt_slice mine = {0, 0};
  s.each = (m->members * s.width + 2 * s.columns) * s.inputs + 1;
  s.blocks = MOST_SUMS / s.each;
  s.blocks = s.blocks < 1 ? 1 : s.blocks > MOST_BLOCKS ? MOST_BLOCKS : s.blocks;
  tt_err e = tt_partition_even(s.blocks, tt_comm_ranks(c), tt_comm_rank(c), &mine);
  if (!e) e = TT_ALLOC(here, mine.count * s.each);
  if (!e) e = TT_ALLOC(all, s.blocks * s.each);
  if (!e) e = add_blocks(&s, mine, own->use->threads, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgatherv(c, here, mine.count * s.each * (int64_t)sizeof *here, all, NULL);
    for (int64_t b = 1; b < s.blocks; b++)
      for (int64_t i = 0; i < s.each; i++) all[i] += all[b * s.each + i];
    const slope_sums total = sums_at(&s, all);
    for (int64_t k = 0; k < s.columns; k++) store_column(&s, &total, own, k, out);
  }
  tt_free_all(&here, &all);
  return e;
}
