/* sensitivity.c — derivatives by the inputs; see explain_internal.h. */
#include "core/base/mem.h"
#include "core/formulas/output.h"
#include "core/model/partition.h"
#include "src/explain/explain_internal.h"
#include "src/host/watchdog.h"
#include "src/predict/network_slopes.h"
#include "src/predict/prediction_block.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { BLOCKS = 16 }; /* of rows: units of work and of summation */

/* Sums over rows of weight * derivative by the F inputs of the networks, those by amounts in the
 * user's units: W columns of a member, C of all ensembles. */
typedef struct slope_sums {
  double *member;           /* [G][W][F] of absolute values */
  double *absolute, *slope; /* [C][F] of the mean of the members */
  double *weight;           /* [1] of the rows */
} slope_sums;

typedef struct sensitivity {
  const tt_trained_ensemble *m;
  const tt_explain_rows *rows;
  int64_t width, columns, inputs; /* F */
  int64_t each;                   /* doubles of a block */
} sensitivity;

static slope_sums sums_at(const sensitivity *s, double *block)
{
  double *absolute = block + s->m->members * s->width * s->inputs;
  double *slope = absolute + s->columns * s->inputs;
  return (slope_sums){block, absolute, slope, slope + s->columns * s->inputs};
}

/* Buffers of one thread. */
typedef struct buffers {
  tt_network_slopes network;
  double *x;                                     /* [F] normalised */
  double *mean, *variance, *d_mean, *d_variance; /* [q], [q][F] of one target */
  double *row;                                   /* [W][F] weighted derivatives of one row */
} buffers;

static tt_err buffers_create(const sensitivity *s, buffers *b)
{
  int64_t q = s->m->model.quantities, D = s->inputs;
  TT_TRY(tt_network_slopes_create(&s->m->model, &b->network));
  TT_TRY(TT_ALLOC(b->x, D));
  TT_TRY(TT_ALLOC(b->mean, q));
  TT_TRY(TT_ALLOC(b->variance, q));
  TT_TRY(TT_ALLOC(b->d_mean, q * D));
  TT_TRY(TT_ALLOC(b->d_variance, q * D));
  return TT_ALLOC(b->row, s->width * D);
}

static void buffers_free(buffers *b)
{
  tt_network_slopes_free(&b->network);
  tt_free_all(&b->x, &b->mean, &b->variance, &b->d_mean, &b->d_variance, &b->row);
}

/* d_mean of one target becomes that by the amounts in the user's units. */
static void scale_slopes(const sensitivity *s, int64_t r, int64_t column, buffers *b)
{
  const tt_scaler *scaler = &s->m->scaler;
  for (int64_t j = 0; j < s->m->model.quantities; j++) {
    double scale = tt_column_scale_of(s->m, column + j).scale;
    for (int64_t i = 0; i < s->inputs; i++) {
      int64_t d = scaler->net.at[i].column;
      b->d_mean[j * s->inputs + i] *=
          scale / scaler->x_scale[d] *
          tt_scaler_input_slope(scaler, d, s->rows->raw[r * scaler->inputs + d]);
    }
  }
}

/* Add member i of an ensemble, whose first column is `column`, to the sums. */
static void add_member(const sensitivity *s, int64_t r, int64_t i, int64_t column, buffers *b,
                       slope_sums *to)
{
  const tt_model *m = &s->m->model;
  tt_output_slopes at = {.n = m->levels,
                         .variance_floor = (double)s->m->variance_floor,
                         .inputs = s->inputs,
                         .mean = b->mean,
                         .variance = b->variance,
                         .d_mean = b->d_mean,
                         .d_variance = b->d_variance};
  int64_t cells = m->quantities * s->inputs;
  tt_network_slopes_at(&b->network, s->m->w + i * m->params, b->x);
  for (int64_t k = 0; k < m->targets; k++) {
    at.o = b->network.o + k * m->each;
    at.d_o = b->network.d_o + k * m->each * s->inputs;
    tt_output_differentiate(m->output, &at);
    scale_slopes(s, r, column + k * m->quantities, b);
    for (int64_t n = 0; n < cells; n++) {
      to->member[(i * m->targets + k) * cells + n] += s->rows->weight[r] * fabs(b->d_mean[n]);
      b->row[k * cells + n] += s->m->weight[i] * b->d_mean[n];
    }
  }
}

static void add_row(const sensitivity *s, int64_t r, buffers *b, slope_sums *to)
{
  int64_t cells = s->width * s->inputs;
  tt_scaler_net_inputs(&s->m->scaler, s->rows->raw + r * s->m->scaler.inputs, b->x);
  for (int64_t e = 0; e < s->m->ensembles; e++) {
    const tt_ensemble *own = &s->m->ensemble[e];
    double share = 0.0;
    memset(b->row, 0, (size_t)cells * sizeof *b->row);
    for (int64_t i = own->first; i < own->first + own->members; i++) {
      if (!(s->m->weight[i] > 0.0)) continue;
      share += s->m->weight[i];
      add_member(s, r, i, e * s->width, b, to);
    }
    for (int64_t n = 0; share > 0.0 && n < cells; n++) {
      double slope = s->rows->weight[r] * b->row[n] / share;
      to->slope[e * cells + n] += slope;
      to->absolute[e * cells + n] += fabs(slope);
    }
  }
  *to->weight += s->rows->weight[r];
}

static tt_err add_blocks(const sensitivity *s, tt_slice mine, int threads, double *block)
{
  buffers *b = NULL;
  tt_err e = TT_ALLOC(b, threads);
  for (int t = 0; !e && t < threads; t++) e = buffers_create(s, &b[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < mine.count; i++) {
      int64_t at = mine.first + i, rows = s->rows->rows;
      slope_sums to = sums_at(s, block + i * s->each);
      tt_watchdog_heartbeat_local("derivatives");
      for (int64_t r = at * rows / BLOCKS; r < (at + 1) * rows / BLOCKS; r++)
        add_row(s, r, &b[omp_get_thread_num()], &to);
    }
  }
  for (int t = 0; b && t < threads; t++) buffers_free(&b[t]);
  tt_free(b);
  return e;
}

static void store_column(const sensitivity *s, const slope_sums *from, const tt_explained *own,
                         int64_t column, tt_importance *out)
{
  const tt_ensemble *e = &s->m->ensemble[column / s->width];
  int64_t cells = s->width * s->inputs;
  if (tt_column_scale_of(s->m, column).by != TT_TRANSFORM_identity) return;
  const tt_net_inputs *net = &s->m->scaler.net;
  for (int64_t d = 0; d < net->columns; d++) {
    if (tt_net_inputs_is_category(net, d)) continue;
    int64_t at = column * s->inputs + net->first[d], to = (own->column + column) * out->inputs + d;
    double mean, spread, unit = s->rows->spread[d] / *from->weight;
    tt_explain_spread(e->members, s->m->weight + e->first,
                      from->member + e->first * cells + at % cells, cells, &mean, &spread);
    out->sensitivity[to] = from->absolute[at] * unit;
    out->sensitivity_between[to] = spread * unit;
    out->slope[to] = from->slope[at] / *from->weight;
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
                   .inputs = m->model.inputs};
  double *here = NULL, *all = NULL;
  tt_slice mine = {0, 0};
  s.each = (m->members * s.width + 2 * s.columns) * s.inputs + 1;
  tt_err e = tt_partition_even(BLOCKS, tt_comm_ranks(c), tt_comm_rank(c), &mine);
  if (m->scaler.components) return tt_agree(c, e);
  if (!e) e = TT_ALLOC(here, mine.count * s.each);
  if (!e) e = TT_ALLOC(all, BLOCKS * s.each);
  if (!e) e = add_blocks(&s, mine, own->use->threads, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgatherv(c, here, mine.count * s.each * (int64_t)sizeof *here, all, NULL);
    for (int64_t b = 1; b < BLOCKS; b++)
      for (int64_t i = 0; i < s.each; i++) all[i] += all[b * s.each + i];
    const slope_sums total = sums_at(&s, all);
    for (int64_t k = 0; k < s.columns; k++) store_column(&s, &total, own, k, out);
  }
  tt_free(here);
  tt_free(all);
  return e;
}
