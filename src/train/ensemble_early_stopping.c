/* ensemble_early_stopping.c — see ensemble_early_stopping.h. */
#include "src/train/ensemble_early_stopping.h"

#include "core/base/mem.h"
#include "core/stats/ensemble_loss.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 }; /* rows predicted and gathered at a time */

typedef struct jury {
  tt_comm *c;
  tt_crew *w;
  const tt_ensemble *e;
  tt_slice here;     /* its members on this rank, numbers of the cohort */
  tt_ensemble part;  /* these as an ensemble, for predictions */
  tt_committee some; /* a committee of that one */
  int8_t *take;      /* [members] which count */
  int32_t *row;      /* [rows] validation rows */
  int64_t rows;
  float *x;           /* [PIECE][D] */
  float *mine, *all;  /* [members][2][K q][PIECE] here, and everywhere */
  double *mean, *variance; /* [q] */
} jury;

tt_err tt_stands_gather(tt_comm *c, const tt_crew *w, tt_stand **all)
{
  const tt_state *s = w->mine;
  tt_stand *mine = NULL;
  tt_err e = TT_ALLOC(mine, w->slice.count);
  if (!e) e = TT_ALLOC(*all, w->cohort->members);
  e = tt_agree(c, e);
  for (int64_t i = 0; !e && i < w->slice.count; i++)
    mine[i] = (tt_stand){.epoch = TT_FIELD(s, epoch)[i],
                         .batch = TT_FIELD(s, batch)[i],
                         .best_epoch = TT_FIELD(s, best_epoch)[i],
                         .best_loss = TT_FIELD(s, best_loss)[i],
                         .status = TT_FIELD(s, status)[i]};
  if (!e) tt_allgather(c, mine, w->slice.count * (int64_t)sizeof *mine, *all, NULL);
  tt_free(mine);
  return e;
}

int64_t tt_front_of(const tt_ensemble *e, const tt_stand *all)
{
  int64_t front = -1;
  for (int64_t i = e->first; i < e->first + e->members; i++)
    if (all[i].status != TT_STATUS_diverged && all[i].epoch > front) front = all[i].epoch;
  return front;
}

/* Whether a member belongs to the ensemble's mixture now: not diverged, and if it still trains, as
 * far as the others. */
static int counts(const tt_stand *at, int64_t front)
{
  return at->status != TT_STATUS_diverged &&
         (at->status != TT_STATUS_training || at->epoch == front);
}

/* The part of a slice that belongs to the ensemble. */
static tt_slice overlap(tt_slice s, const tt_ensemble *e)
{
  int64_t first = s.first > e->first ? s.first : e->first;
  int64_t last = s.first + s.count, end = e->first + e->members;
  if (last > end) last = end;
  return last > first ? (tt_slice){first, last - first} : (tt_slice){e->first, 0};
}

static int64_t quantities(const jury *j)
{
  return j->w->cohort->model.targets * j->w->cohort->model.quantities;
}

/* The weights that predict now, as a committee of this rank's members. */
static tt_err seat_local(jury *j)
{
  const tt_state *s = j->w->mine;
  const tt_model *model = &j->w->cohort->model;
  int64_t params = model->params, skip = j->here.first - s->first;
  j->part = *j->e;
  j->part.first = 0;
  j->part.members = j->here.count;
  j->some = (tt_committee){.model = *model,
                           .variance_floor = j->w->cohort->variance_floor,
                           .ensembles = 1,
                           .ensemble = &j->part,
                           .members = j->here.count};
  TT_TRY(TT_ALLOC(j->some.w, j->here.count * params));
  TT_TRY(TT_ALLOC(j->some.weight, j->here.count));
  TT_TRY(TT_ALLOC(j->some.status, j->here.count));
  for (int64_t i = 0; i < j->here.count; i++) {
    int averaged = s->averages && TT_FIELD(s, averaged)[skip + i] > 0;
    const float *from = averaged ? TT_FIELD(s, average) : TT_FIELD(s, weights);
    memcpy(j->some.w + i * params, from + (skip + i) * params, (size_t)params * sizeof *from);
    j->some.weight[i] = 1.0;
  }
  return TT_OK;
}

static tt_err begin_local(jury *j, const tt_stand *all, int64_t front)
{
  const tt_cohort *c = j->w->cohort;
  int64_t view = tt_cohort_view_of(c, &c->member[j->e->first]);
  int64_t each = 2 * quantities(j) * PIECE;
  TT_TRY(tt_cohort_rows(c, j->w->data, view, TT_VALIDATION, &j->row, &j->rows));
  TT_TRY(TT_ALLOC(j->take, j->e->members));
  for (int64_t i = 0; i < j->e->members; i++)
    j->take[i] = (int8_t)counts(&all[j->e->first + i], front);
  TT_TRY(TT_ALLOC(j->x, PIECE * c->model.inputs));
  TT_TRY(TT_ALLOC(j->mine, j->here.count * each));
  TT_TRY(TT_ALLOC(j->all, j->e->members * each));
  TT_TRY(TT_ALLOC(j->mean, c->model.quantities));
  TT_TRY(TT_ALLOC(j->variance, c->model.quantities));
  return seat_local(j);
}

static void end(jury *j)
{
  tt_free(j->some.w);
  tt_free(j->some.weight);
  tt_free(j->some.status);
  tt_free(j->take);
  tt_free(j->row);
  tt_free(j->x);
  tt_free(j->mine);
  tt_free(j->all);
  tt_free(j->mean);
  tt_free(j->variance);
}

static tt_err predict_local(jury *j, int64_t first, int64_t rows)
{
  const tt_dataset *d = j->w->data;
  if (j->here.count == 0) return TT_OK;
  for (int64_t r = 0; r < rows; r++)
    memcpy(j->x + r * d->inputs, d->x + j->row[first + r] * d->inputs,
           (size_t)d->inputs * sizeof *j->x);
  return j->w->ops->predict(&j->some, j->w->use, rows, j->x, NULL, j->mine);
}

/* Loss of the mixture in one row, over all targets: r of the `rows` predicted. */
static double row_loss(jury *j, int64_t row, int64_t r, int64_t rows)
{
  const tt_cohort *c = j->w->cohort;
  const tt_dataset *d = j->w->data;
  int64_t q = c->model.quantities, all = quantities(j);
  tt_mixture x = {j->e->members, 2 * all * rows, rows, all * rows, j->take};
  double sum = 0.0;
  for (int64_t k = 0; k < j->e->targets; k++) {
    double y = (double)d->y[row * d->targets + j->e->column[k]];
    tt_mixture_take(&x, q, j->all + k * q * rows + r, j->mean, j->variance);
    sum += tt_ensemble_loss(&c->model, c->loss, tt_cohort_loss_args(c), j->mean, j->variance, y);
  }
  return d->weight ? sum * (double)d->weight[row] : sum;
}

static tt_err mean_loss(jury *j, double *loss)
{
  double sum = 0.0;
  for (int64_t first = 0; first < j->rows; first += PIECE) {
    int64_t rows = j->rows - first < PIECE ? j->rows - first : PIECE;
    int64_t each = 2 * quantities(j) * rows * (int64_t)sizeof(float);
    tt_err e = tt_agree(j->c, predict_local(j, first, rows));
    if (e) return e;
    tt_allgather(j->c, j->mine, j->here.count * each, j->all, NULL);
    for (int64_t r = 0; r < rows; r++) sum += row_loss(j, j->row[first + r], r, rows);
  }
  *loss = j->rows ? sum / (double)j->rows : (double)NAN;
  return TT_OK;
}

/* What follows from the loss of the epoch that ended, for this rank's members. */
static void pass(jury *j, const tt_stand *all, int64_t front, double loss)
{
  tt_state *s = j->w->mine;
  const tt_hyper *h = &j->w->cohort->member[j->e->first].hyper;
  const tt_stand *one = all + j->e->first;
  while (!counts(one, front)) one++;
  int better = loss < one->best_loss - (double)h->min_delta;
  int64_t epoch = front - 1, best = better ? epoch : one->best_epoch;
  int stop = h->patience > 0 && epoch - best >= h->patience;
  for (int64_t n = 0; n < j->here.count; n++) {
    int64_t i = j->here.first - s->first + n;
    if (!counts(&all[j->here.first + n], front)) continue;
    TT_FIELD(s, loss_ensemble)[i * s->judged + epoch] = (float)loss;
    if (stop && TT_FIELD(s, status)[i] == TT_STATUS_training)
      TT_FIELD(s, status)[i] = TT_STATUS_early_stopped;
    if (!better) continue;
    TT_FIELD(s, best_loss)[i] = loss;
    TT_FIELD(s, best_epoch)[i] = (int32_t)epoch;
    memcpy(TT_FIELD(s, best_weights) + i * s->params, j->some.w + n * s->params,
           (size_t)s->params * sizeof(float));
  }
}

static tt_err judge_one(tt_comm *c, tt_crew *w, const tt_ensemble *ensemble, const tt_stand *all)
{
  int64_t front = tt_front_of(ensemble, all);
  jury j = {.c = c, .w = w, .e = ensemble, .here = overlap(w->slice, ensemble)};
  double loss = (double)NAN;
  if (front < 1) return TT_OK;
  tt_err e = tt_agree(c, begin_local(&j, all, front));
  if (!e) e = mean_loss(&j, &loss);
  if (!e && j.rows > 0) pass(&j, all, front, loss);
  end(&j);
  return e;
}

tt_err tt_judge(tt_comm *c, tt_crew *w, const tt_stand *all, const int8_t *due)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < w->cohort->ensembles; i++)
    if (due[i]) e = judge_one(c, w, &w->cohort->ensemble[i], all);
  return e;
}
