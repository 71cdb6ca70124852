/* ensemble_early_stopping.c — see ensemble_early_stopping.h. */
#include "src/train/shard/ensemble_early_stopping.h"

#include "core/base/mem.h"
#include "core/model/epoch_end.h"
#include "core/stats/ensemble_loss.h"

#include <math.h>
#include <string.h>

enum { CHUNK_ROWS = 256 }; /* rows predicted and gathered at a time */

/* The members of one cohort. */
typedef struct validation_part {
  tt_shard *shard;
  int64_t first;              /* number of its first member among those of all parts */
  tt_slice slice;             /* its members on this rank, numbered within the cohort */
  tt_ensemble local_ensemble; /* these members, for predictions */
  tt_trained_ensemble model;  /* trained ensemble of local_ensemble */
  float *mine;                /* [slice.count][2][W][CHUNK_ROWS] predictions on this rank */
} validation_part;

typedef struct ensemble_validation {
  tt_comm *c;
  tt_ensemble e; /* with the members of all parts */
  int64_t parts;
  validation_part *part; /* [parts] */
  int8_t *included;      /* [members] 1 = in the mixture */
  int32_t *row;          /* [rows] validation rows */
  int64_t rows;
  float *x;                /* [CHUNK_ROWS][D] */
  float *all;              /* [members][2][W][CHUNK_ROWS] on all ranks */
  double *mean, *variance; /* [q] */
} ensemble_validation;

static const tt_cohort *cohort_of(const ensemble_validation *v) { return v->part->shard->cohort; }

static tt_err gather_summaries(tt_comm *c, const tt_shard *shard, tt_member_summary *dst)
{
  const tt_state *s = shard->state;
  tt_member_summary *mine = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(mine, shard->slice.count));
  for (int64_t i = 0; !e && i < shard->slice.count; i++)
    mine[i] = (tt_member_summary){.epoch = TT_FIELD(s, epoch)[i],
                                  .batch = TT_FIELD(s, batch)[i],
                                  .best_epoch = TT_FIELD(s, best_epoch)[i],
                                  .best_loss = TT_FIELD(s, best_loss)[i],
                                  .status = TT_FIELD(s, status)[i]};
  if (!e) tt_allgatherv(c, mine, shard->slice.count * (int64_t)sizeof *mine, dst, NULL);
  tt_free(mine);
  return e;
}

tt_err tt_member_summaries_gather(tt_comm *c, const tt_shard *shard, int64_t joined,
                                  tt_member_summary **all)
{
  int64_t members = 0, first = 0;
  for (int64_t k = 0; k < joined; k++) members += shard[k].cohort->members;
  tt_err e = tt_agree(c, TT_ALLOC(*all, members));
  for (int64_t k = 0; !e && k < joined; k++) {
    e = gather_summaries(c, &shard[k], *all + first);
    first += shard[k].cohort->members;
  }
  return e;
}

tt_ensemble tt_joined_ensemble(const tt_shard *shard, int64_t joined, int64_t number)
{
  tt_ensemble e = shard->cohort->ensemble[number];
  for (int64_t k = 1; k < joined; k++) e.members += shard[k].cohort->members;
  return e;
}

int64_t tt_ensemble_max_epoch(const tt_ensemble *e, const tt_member_summary *all)
{
  int64_t max_epoch = -1;
  for (int64_t i = e->first; i < e->first + e->members; i++)
    if (all[i].status != TT_STATUS_diverged && all[i].epoch > max_epoch) max_epoch = all[i].epoch;
  return max_epoch;
}

/* A member is in the mixture if it did not diverge and, while it trains, has reached max_epoch. */
static int is_in_mixture(const tt_member_summary *summary, int64_t max_epoch)
{
  return summary->status != TT_STATUS_diverged &&
         (summary->status != TT_STATUS_training || summary->epoch == max_epoch);
}

/* The members of slice s that belong to ensemble e. */
static tt_slice overlap(tt_slice s, const tt_ensemble *e)
{
  int64_t first = s.first > e->first ? s.first : e->first;
  int64_t last = s.first + s.count, end = e->first + e->members;
  if (last > end) last = end;
  return last > first ? (tt_slice){first, last - first} : (tt_slice){e->first, 0};
}

static int64_t output_columns(const ensemble_validation *v)
{
  return cohort_of(v)->model.targets * cohort_of(v)->model.quantities;
}

/* Weights that member n of the slice predicts with: averaged where that exists. */
static const float *weights_of(const validation_part *p, int64_t n)
{
  const tt_state *s = p->shard->state;
  int64_t i = p->slice.first - s->first + n;
  int averaged = s->averages && TT_FIELD(s, averaged)[i] > 0;
  return (averaged ? TT_FIELD(s, average) : TT_FIELD(s, weights)) + i * s->params;
}

static tt_err begin_part_local(const ensemble_validation *v, validation_part *p)
{
  int64_t members = p->slice.count, params = p->shard->cohort->model.params;
  p->local_ensemble = v->e;
  p->local_ensemble.first = 0;
  p->local_ensemble.members = members;
  p->model = (tt_trained_ensemble){.model = p->shard->cohort->model,
                                   .variance_floor = p->shard->cohort->variance_floor,
                                   .members = members,
                                   .ensembles = 1,
                                   .ensemble = &p->local_ensemble};
  TT_TRY(TT_ALLOC(p->model.w, members * params));
  TT_TRY(TT_ALLOC(p->model.weight, members));
  TT_TRY(TT_ALLOC(p->model.status, members));
  for (int64_t i = 0; i < members; i++) {
    p->model.weight[i] = 1.0;
    memcpy(p->model.w + i * params, weights_of(p, i), (size_t)params * sizeof(float));
  }
  return TT_ALLOC(p->mine, members * 2 * output_columns(v) * CHUNK_ROWS);
}

static tt_err begin_local(ensemble_validation *v, const tt_member_summary *all, int64_t max_epoch)
{
  const tt_cohort *c = cohort_of(v);
  int64_t row_set = tt_member_row_set(c, &c->member[v->e.first]);
  int64_t each = 2 * output_columns(v) * CHUNK_ROWS;
  TT_TRY(tt_cohort_rows(c, v->part->shard->data, row_set, TT_VALIDATION, &v->row, &v->rows));
  TT_TRY(TT_ALLOC(v->included, v->e.members));
  for (int64_t i = 0; i < v->e.members; i++)
    v->included[i] = (int8_t)is_in_mixture(&all[v->e.first + i], max_epoch);
  TT_TRY(TT_ALLOC(v->x, CHUNK_ROWS * c->model.inputs));
  TT_TRY(TT_ALLOC(v->all, v->e.members * each));
  TT_TRY(TT_ALLOC(v->mean, c->model.quantities));
  TT_TRY(TT_ALLOC(v->variance, c->model.quantities));
  for (int64_t k = 0; k < v->parts; k++) TT_TRY(begin_part_local(v, &v->part[k]));
  return TT_OK;
}

static void end(ensemble_validation *v)
{
  for (int64_t k = 0; v->part && k < v->parts; k++)
    tt_free_all(&v->part[k].model.w, &v->part[k].model.weight, &v->part[k].model.status,
                &v->part[k].mine);
  tt_free_all(&v->part, &v->included, &v->row, &v->x, &v->all, &v->mean, &v->variance);
}

static tt_err predict_local(ensemble_validation *v, int64_t first, int64_t rows)
{
  const tt_dataset *d = v->part->shard->data;
  for (int64_t r = 0; r < rows; r++)
    memcpy(v->x + r * d->inputs, d->x + v->row[first + r] * d->inputs,
           (size_t)d->inputs * sizeof *v->x);
  for (int64_t k = 0; k < v->parts; k++) {
    const validation_part *p = &v->part[k];
    if (p->slice.count > 0)
      TT_TRY(p->shard->ops->predict(&p->model, p->shard->use, rows, v->x, NULL, p->mine));
  }
  return TT_OK;
}

/* Loss of the mixture for target k with label y; r is the number of the row in the chunk. */
static double mixture_loss(ensemble_validation *v, int64_t k, int64_t r, int64_t rows, double y)
{
  const tt_cohort *c = cohort_of(v);
  int64_t q = c->model.quantities, all = output_columns(v);
  tt_mixture x = {v->e.members, 2 * all * rows, rows, all * rows, v->included};
  tt_mixture_moments(&x, q, v->all + k * q * rows + r, v->mean, v->variance);
  return tt_ensemble_loss(&c->model, c->loss, tt_cohort_loss_args(c), v->mean, v->variance, y);
}

/* Loss of the ensemble in data row `row`, summed over all targets; r is its number in the chunk. */
static double row_loss(ensemble_validation *v, int64_t row, int64_t r, int64_t rows)
{
  const tt_dataset *d = v->part->shard->data;
  double sum = 0.0;
  for (int64_t k = 0; k < v->e.targets; k++) {
    double y = (double)d->y[row * d->targets + v->e.column[k]];
    sum += mixture_loss(v, k, r, rows, y);
  }
  return d->weight ? sum * (double)d->weight[row] : sum;
}

static tt_err mean_loss(ensemble_validation *v, double *loss)
{
  double sum = 0.0;
  for (int64_t first = 0; first < v->rows; first += CHUNK_ROWS) {
    int64_t rows = v->rows - first < CHUNK_ROWS ? v->rows - first : CHUNK_ROWS;
    int64_t each = 2 * output_columns(v) * rows;
    tt_err e = tt_agree(v->c, predict_local(v, first, rows));
    if (e) return e;
    for (int64_t k = 0; k < v->parts; k++)
      tt_allgatherv(v->c, v->part[k].mine, v->part[k].slice.count * each * (int64_t)sizeof(float),
                    v->all + v->part[k].first * each, NULL);
    for (int64_t r = 0; r < rows; r++) sum += row_loss(v, v->row[first + r], r, rows);
  }
  *loss = v->rows ? sum / (double)v->rows : (double)NAN;
  return TT_OK;
}

/* Record the loss of the epoch; update best weights and status of this rank's members of a part.
 *   before  a member of the mixture, before this epoch */
static void update_members(const validation_part *p, const tt_hyper *h,
                           const tt_member_summary *all, const tt_member_summary *before,
                           int64_t max_epoch, double loss)
{
  tt_state *s = p->shard->state;
  int better = tt_epoch_is_best(h, loss, before->best_loss);
  int64_t epoch = max_epoch - 1, best = better ? epoch : before->best_epoch;
  int stop = tt_epoch_exceeds_patience(h, epoch, best);
  for (int64_t n = 0; n < p->slice.count; n++) {
    int64_t i = p->slice.first - s->first + n;
    if (!is_in_mixture(&all[p->first + p->slice.first + n], max_epoch)) continue;
    TT_FIELD(s, loss_ensemble)[i * s->ensemble_epochs + epoch] = (float)loss;
    if (stop && TT_FIELD(s, status)[i] == TT_STATUS_training)
      TT_FIELD(s, status)[i] = TT_STATUS_early_stopped;
    if (!better) continue;
    TT_FIELD(s, best_loss)[i] = loss;
    TT_FIELD(s, best_epoch)[i] = (int32_t)epoch;
    memcpy(TT_FIELD(s, best_weights) + i * s->params, weights_of(p, n),
           (size_t)s->params * sizeof(float));
  }
}

static void update_parts(ensemble_validation *v, const tt_member_summary *all, int64_t max_epoch,
                         double loss)
{
  const tt_hyper *h = &cohort_of(v)->member[v->e.first].hyper;
  const tt_member_summary *one = all + v->e.first;
  while (!is_in_mixture(one, max_epoch)) one++;
  for (int64_t k = 0; k < v->parts; k++) update_members(&v->part[k], h, all, one, max_epoch, loss);
}

/* The parts of ensemble `number` of the first shard. */
static tt_err list_parts(ensemble_validation *v, tt_shard *shard, int64_t number)
{
  int64_t first = 0;
  TT_TRY(TT_ALLOC(v->part, v->parts));
  for (int64_t k = 0; k < v->parts; k++) {
    v->part[k].shard = &shard[k];
    v->part[k].first = first;
    v->part[k].slice = overlap(shard[k].slice, &shard[k].cohort->ensemble[k ? 0 : number]);
    first += shard[k].cohort->members;
  }
  return TT_OK;
}

static tt_err update_ensemble(tt_comm *c, tt_shard *shard, int64_t joined, int64_t number,
                              const tt_member_summary *all)
{
  ensemble_validation v = {.c = c, .e = tt_joined_ensemble(shard, joined, number), .parts = joined};
  int64_t max_epoch = tt_ensemble_max_epoch(&v.e, all);
  double loss = (double)NAN;
  if (max_epoch < 1) return TT_OK;
  tt_err e = list_parts(&v, shard, number);
  if (!e) e = begin_local(&v, all, max_epoch);
  e = tt_agree(c, e);
  if (!e) e = mean_loss(&v, &loss);
  if (!e && v.rows > 0) update_parts(&v, all, max_epoch, loss);
  end(&v);
  return e;
}

tt_err tt_ensemble_early_stopping_update(tt_comm *c, tt_shard *shard, int64_t joined,
                                         const tt_member_summary *all, const int8_t *due)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < shard->cohort->ensembles; i++)
    if (due[i]) e = update_ensemble(c, shard, joined, i, all);
  return e;
}

/* Of a member in a chunk of rows. */
static double prediction_bytes(const tt_cohort *c)
{
  const tt_model *m = &c->model;
  return 2.0 * (double)(m->targets * m->quantities * CHUNK_ROWS) * (double)sizeof(float);
}

static double weights_bytes(const tt_cohort *c, int64_t members)
{
  double each = (double)c->model.params * (double)sizeof(float) + (double)sizeof(double) + 1.0;
  return (double)members * each;
}

double tt_ensemble_early_stopping_bytes(const tt_cohort *c, int64_t members)
{
  double each = prediction_bytes(c), all = each + 2.0 * (double)sizeof(tt_member_summary) + 1.0;
  return weights_bytes(c, members) + (double)members * each + (double)c->members * all +
         (double)(CHUNK_ROWS * c->model.inputs) * (double)sizeof(float);
}

double tt_ensemble_early_stopping_device_bytes(const tt_cohort *c, int64_t members)
{
  enum { BUFFER_SETS = 2 }; /* of the chunks of rows */
  return weights_bytes(c, members) + BUFFER_SETS * (double)members * prediction_bytes(c);
}
