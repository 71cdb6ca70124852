/* member.c — one member through its epochs and stopping rules; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <math.h>
#include <string.h>

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

double tt_cpu_mean_loss(const tt_engine *e, tt_work *b, const tt_ensemble *ensemble, const float *w,
                        const int32_t *row, int64_t count)
{
  const tt_cohort *c = e->cohort;
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += b->rows) {
    int64_t rows = lesser(b->rows, count - first);
    const float *weight = tt_cpu_load_rows(e, b, ensemble, row + first, rows);
    tt_cpu_forward(e->kernels, &c->model, w, b, rows, NULL, 0);
    sum += e->kernels->loss(c->loss, tt_cohort_loss_args(c), &c->model, rows,
                            b->z[c->model.layers - 1], b->y, weight, 1.0f, NULL, b->ld);
  }
  return count ? sum / (double)count : (double)NAN;
}

static int all_finite(const float *w, int64_t count)
{
  float probe = 0.0f; /* 0 * finite = 0; anything else is NaN for ever */
  for (int64_t i = 0; i < count; i++)
    probe += 0.0f * w[i];
  return !isnan(probe);
}

/* The weights of the epoch's end go into their mean. */
static void average(const tt_engine *e, const tt_seat *seat)
{
  tt_state *s = e->state;
  if (e->cohort->average != TT_AVERAGE_swa) return;
  if (TT_FIELD(s, epoch)[seat->i] < seat->member->hyper.average_start) return;
  int64_t *averaged = &TT_FIELD(s, averaged)[seat->i];
  float *mean = TT_FIELD(s, average) + seat->i * s->params;
  for (int64_t p = 0; p < s->params; p++)
    mean[p] = tt_average_swa(mean[p], seat->w[p], *averaged);
  ++*averaged;
}

/* At the ends of equal parts of a member's epochs. */
static void take_snapshot(const tt_engine *e, const tt_seat *seat)
{
  tt_state *s = e->state;
  int64_t cycle = s->snapshots ? seat->member->hyper.epochs / s->snapshots : 0;
  int64_t done = TT_FIELD(s, epoch)[seat->i] + 1, which = cycle ? done / cycle - 1 : 0;
  if (!cycle || done % cycle || which >= s->snapshots) return;
  memcpy(TT_FIELD(s, snapshots) + (seat->i * s->snapshots + which) * s->params, seat->w,
         (size_t)s->params * sizeof *seat->w);
}

/* The weights a member would predict with now. */
static const float *present(const tt_state *s, const tt_seat *seat)
{
  int averaged = s->averages && TT_FIELD(s, averaged)[seat->i] > 0;
  return averaged ? TT_FIELD(s, average) + seat->i * s->params : seat->w;
}

/* Validation of one member: history and, unless the ensemble stops as a whole, best weights. *loss
 * is left alone where there is no row for it. */
static void validate(const tt_engine *e, tt_work *b, const tt_seat *seat, double *loss)
{
  tt_state *s = e->state;
  int64_t i = seat->i, count = seat->lists->count[TT_VALIDATION];
  const float *w = present(s, seat);
  int32_t epoch = TT_FIELD(s, epoch)[i];
  if (!count) return;
  *loss = tt_cpu_mean_loss(e, b, seat->ensemble, w, seat->lists->row[TT_VALIDATION], count);
  TT_FIELD(s, loss_validation)[i * s->epochs + epoch] = (float)*loss;
  if (e->cohort->stop != TT_STOP_AT_member || !isfinite(*loss)) return;
  if (*loss >= TT_FIELD(s, best_loss)[i] - (double)seat->member->hyper.min_delta) return;
  TT_FIELD(s, best_loss)[i] = *loss;
  TT_FIELD(s, best_epoch)[i] = epoch;
  memcpy(TT_FIELD(s, best_weights) + i * s->params, w, (size_t)s->params * sizeof *w);
}

static void wait_on_plateau(const tt_engine *e, const tt_seat *seat, double loss)
{
  tt_state *s = e->state;
  int64_t i = seat->i;
  const tt_hyper *h = &seat->member->hyper;
  if (e->cohort->schedule != TT_SCHEDULE_reduce_on_plateau) return;
  tt_plateau p = {TT_FIELD(s, rate)[i], TT_FIELD(s, plateau_best)[i], TT_FIELD(s, plateau_wait)[i]};
  p = tt_plateau_end_epoch(p, loss, h->schedule_gamma, h->schedule_min, h->schedule_step,
                           h->min_delta);
  TT_FIELD(s, rate)[i] = p.rate;
  TT_FIELD(s, plateau_best)[i] = p.best;
  TT_FIELD(s, plateau_wait)[i] = p.wait;
}

/* Who goes on after an epoch, from 0, that ended well. */
static tt_status who_goes_on(const tt_engine *e, const tt_seat *seat, int32_t epoch)
{
  const tt_hyper *h = &seat->member->hyper;
  int patient = h->patience > 0 && e->cohort->stop == TT_STOP_AT_member;
  int validated = seat->lists->count[TT_VALIDATION] > 0;
  if (patient && validated && epoch - TT_FIELD(e->state, best_epoch)[seat->i] >= h->patience)
    return TT_STATUS_early_stopped;
  return epoch + 1 >= h->epochs ? TT_STATUS_finished : TT_STATUS_training;
}

/* The last batch of an epoch is done: losses, averages, validation, who goes on. */
static tt_status end_epoch(const tt_engine *e, tt_work *b, const tt_seat *seat)
{
  tt_state *s = e->state;
  int64_t i = seat->i;
  int32_t epoch = TT_FIELD(s, epoch)[i];
  double loss = TT_FIELD(s, loss_sum)[i] / (double)seat->rows;
  TT_FIELD(s, loss_train)[i * s->epochs + epoch] = (float)loss;
  int sound = all_finite(seat->w, s->params);
  if (sound) {
    average(e, seat);
    take_snapshot(e, seat);
    validate(e, b, seat, &loss);
    sound = isfinite(loss);
  }
  TT_FIELD(s, loss_sum)[i] = 0.0;
  TT_FIELD(s, batch)[i] = 0;
  TT_FIELD(s, epoch)[i] = epoch + 1;
  b->window_count = 0;
  if (!sound) return TT_STATUS_diverged;
  wait_on_plateau(e, seat, loss);
  return who_goes_on(e, seat, epoch);
}

int tt_cpu_after_step(const tt_engine *e, tt_work *b, const tt_seat *seat)
{
  if (TT_FIELD(e->state, batch)[seat->i] < seat->batches) return 0;
  TT_FIELD(e->state, status)[seat->i] = (int8_t)end_epoch(e, b, seat);
  return 1;
}

int64_t tt_cpu_train_member(tt_engine *e, tt_work *b, int64_t i, int64_t steps)
{
  tt_seat seat = tt_cpu_seat(e, b, i);
  int8_t *status = &TT_FIELD(e->state, status)[i];
  int64_t done = 0;
  while (done < steps && *status == TT_STATUS_training) {
    if (!tt_cpu_step(e, b, &seat, steps - done)) {
      *status = TT_STATUS_diverged;
      break;
    }
    done++;
    if (tt_cpu_after_step(e, b, &seat) && e->cohort->stop == TT_STOP_AT_ensemble) break;
  }
  return done;
}
