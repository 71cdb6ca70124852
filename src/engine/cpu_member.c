/* cpu_member.c — one member through its steps, epochs and stopping rules; see cpu.h. */
#include "engine/cpu.h"

#include <math.h>
#include <string.h>

/* One member in training: its place in the state arrays. */
typedef struct tt_seat {
  const tt_member *member;
  const tt_ensemble *ensemble;
  const tt_row_lists *lists;
  int64_t i;        /* in [0, M) */
  int64_t rows;     /* of an epoch */
  float *w, *slots; /* [P], [S][P] */
} tt_seat;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static tt_seat seat_of(const tt_engine *e, int64_t i)
{
  const tt_state *s = e->state;
  const tt_member *m = &e->cohort->member[e->slice.first + i];
  const tt_row_lists *lists = &e->lists[m->ensemble];
  return (tt_seat){.member = m,
                   .ensemble = &e->cohort->ensemble[m->ensemble],
                   .lists = lists,
                   .i = i,
                   .rows = tt_cohort_epoch_rows(e->cohort, lists->count[TT_TRAIN]),
                   .w = TT_FIELD(s, weights) + i * s->params,
                   .slots = TT_FIELD(s, slots) + i * s->slots * s->params};
}

/* Row numbers of slots [first, first + count) of the running epoch. The order is worked out for as
 * many of the `steps` batches still to do as the window holds. */
static const int32_t *batch_rows(const tt_engine *e, tt_work *b, const tt_seat *seat, int64_t first,
                                 int64_t count, int64_t steps)
{
  int64_t epoch = TT_FIELD(e->state, epoch)[seat->i];
  if (e->replay) {
    int64_t epochs = e->cohort->max_epochs;
    return e->replay + (seat->i * epochs + epoch) * seat->rows + first;
  }
  if (first < b->window_first || first + count > b->window_first + b->window_count) {
    tt_order order = tt_order_make(e->cohort, seat->member, TT_FIELD(e->state, attempt)[seat->i],
                                   seat->lists->count[TT_TRAIN], epoch);
    int64_t batches = lesser(b->window_size / e->cohort->batch_size, steps);
    b->window_first = first;
    b->window_count = lesser(batches * e->cohort->batch_size, seat->rows - first);
    e->kernels->order(&order, seat->lists->row[TT_TRAIN], first, b->window_count, b->window);
  }
  return b->window + (first - b->window_first);
}

static const float *load_rows(const tt_engine *e, tt_work *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows)
{
  const tt_dataset *d = e->data;
  int64_t n = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  e->kernels->gather(d->inputs, d->inputs, NULL, d->x, row, rows, n, b->x, b->ld);
  e->kernels->gather(ensemble->targets, d->targets, ensemble->column, d->y, row, rows, n, b->y,
                     b->ld);
  if (!d->weight) return NULL;
  for (int64_t r = 0; r < rows; r++)
    b->weight[r] = d->weight[row[r]];
  return b->weight;
}

/* d[0] holds dL/d(output); gradients of all layers, last to first. */
static void backward(const tt_engine *e, tt_work *b, const float *w, int64_t rows)
{
  const tt_model *m = &e->cohort->model;
  int64_t n = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  float *d = b->d[0], *next = b->d[1];
  for (int l = m->layers - 1; l >= 0; l--) {
    const tt_layer *layer = &m->layer[l];
    const float *x = l ? b->h[l - 1] : b->x;
    e->kernels->weight_gradient(layer->out, layer->in, d, x, b->gradient + layer->weight,
                                b->gradient + layer->bias, b->ld, n);
    if (l == 0) return;
    e->kernels->product(layer->in, layer->out, w + layer->weight, 1, layer->in, NULL, d,
                        b->z[l - 1], next, b->ld, n);
    float *swap = d;
    d = next;
    next = swap;
  }
}

/* Scale the gradient down to the member's own norm, as torch.nn.utils.clip_grad_norm_. */
static void clip(const tt_engine *e, float *gradient, float limit)
{
  int64_t params = e->cohort->model.params;
  double norm = sqrt(e->kernels->square_sum(params, gradient));
  if (!(norm + 1e-6 > (double)limit)) return;
  float scale = (float)((double)limit / (norm + 1e-6));
  for (int64_t p = 0; p < params; p++)
    gradient[p] *= scale;
}

static void update(const tt_engine *e, tt_work *b, const tt_seat *seat)
{
  const tt_hyper *h = &seat->member->hyper;
  int64_t step = ++TT_FIELD(e->state, step)[seat->i];
  tt_step_args args = {.learning_rate = h->learning_rate,
                       .l2 = h->l2,
                       .decay = h->weight_decay,
                       .momentum = h->momentum,
                       .nesterov = e->cohort->nesterov ? 1.0f : 0.0f,
                       .beta1 = h->beta1,
                       .beta2 = h->beta2,
                       .epsilon = h->epsilon};
  tt_step_correct(&args, step);
  if (h->clip_norm > 0.0f) clip(e, b->gradient, h->clip_norm);
  e->kernels->step(e->cohort->optimizer, e->cohort->model.params, seat->w, b->gradient, seat->slots,
                   args);
}

/* One optimiser step of `steps` still to do; 0 if the loss is not finite: the weights stay as they
 * were. */
static int one_step(const tt_engine *e, tt_work *b, const tt_seat *seat, int64_t steps)
{
  const tt_cohort *c = e->cohort;
  tt_state *s = e->state;
  int64_t first = TT_FIELD(s, batch)[seat->i] * c->batch_size;
  int64_t rows = lesser(c->batch_size, seat->rows - first);
  const int32_t *row = batch_rows(e, b, seat, first, rows, steps);
  const float *weight = load_rows(e, b, seat->ensemble, row, rows);
  tt_cpu_forward(e->kernels, &c->model, seat->w, b, rows, 1);
  double loss =
      e->kernels->loss(c->loss, tt_cohort_loss_args(c), c->model.targets, rows, b->z[c->model.layers - 1],
                       b->y, weight, 1.0f / (float)rows, b->d[0], b->ld);
  if (!isfinite(loss)) return 0;
  TT_FIELD(s, loss_sum)[seat->i] += loss;
  TT_FIELD(s, batch)[seat->i]++;
  backward(e, b, seat->w, rows);
  update(e, b, seat);
  return 1;
}

double tt_cpu_mean_loss(const tt_engine *e, tt_work *b, const tt_ensemble *ensemble, const float *w,
                        const int32_t *row, int64_t count)
{
  const tt_cohort *c = e->cohort;
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += b->rows) {
    int64_t rows = lesser(b->rows, count - first);
    const float *weight = load_rows(e, b, ensemble, row + first, rows);
    tt_cpu_forward(e->kernels, &c->model, w, b, rows, 0);
    sum += e->kernels->loss(c->loss, tt_cohort_loss_args(c), c->model.targets, rows,
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

/* Validation of one member: history and best weights. 0 if its loss is not finite. */
static int validate(const tt_engine *e, tt_work *b, const tt_seat *seat)
{
  tt_state *s = e->state;
  int64_t i = seat->i, count = seat->lists->count[TT_VALIDATION];
  int32_t epoch = TT_FIELD(s, epoch)[i];
  if (!count) return 1;
  double loss =
      tt_cpu_mean_loss(e, b, seat->ensemble, seat->w, seat->lists->row[TT_VALIDATION], count);
  TT_FIELD(s, loss_validation)[i * s->epochs + epoch] = (float)loss;
  if (!isfinite(loss)) return 0;
  if (loss < TT_FIELD(s, best_loss)[i] - (double)seat->member->hyper.min_delta) {
    TT_FIELD(s, best_loss)[i] = loss;
    TT_FIELD(s, best_epoch)[i] = epoch;
    memcpy(TT_FIELD(s, best_weights) + i * s->params, seat->w, (size_t)s->params * sizeof *seat->w);
  }
  return 1;
}

/* The last batch of an epoch is done: losses, validation, who goes on. */
static tt_status end_epoch(const tt_engine *e, tt_work *b, const tt_seat *seat)
{
  tt_state *s = e->state;
  int64_t i = seat->i;
  const tt_hyper *h = &seat->member->hyper;
  int32_t epoch = TT_FIELD(s, epoch)[i];
  TT_FIELD(s, loss_train)
  [i * s->epochs + epoch] = (float)(TT_FIELD(s, loss_sum)[i] / (double)seat->rows);
  int sound = all_finite(seat->w, s->params) && validate(e, b, seat);
  TT_FIELD(s, loss_sum)[i] = 0.0;
  TT_FIELD(s, batch)[i] = 0;
  TT_FIELD(s, epoch)[i] = epoch + 1;
  b->window_count = 0;
  if (!sound) return TT_STATUS_diverged;
  int32_t best = TT_FIELD(s, best_epoch)[i];
  int validated = seat->lists->count[TT_VALIDATION] > 0;
  if (h->patience > 0 && validated && epoch - best >= h->patience) return TT_STATUS_early_stopped;
  return epoch + 1 >= h->epochs ? TT_STATUS_finished : TT_STATUS_training;
}

int64_t tt_cpu_train_member(tt_engine *e, tt_work *b, int64_t i, int64_t steps)
{
  tt_seat seat = seat_of(e, i);
  int8_t *status = &TT_FIELD(e->state, status)[i];
  int64_t done = 0;
  b->window_count = 0;
  while (done < steps && *status == TT_STATUS_training) {
    if (!one_step(e, b, &seat, steps - done)) {
      *status = TT_STATUS_diverged;
      break;
    }
    done++;
    if (TT_FIELD(e->state, batch)[i] * e->cohort->batch_size >= seat.rows)
      *status = (int8_t)end_epoch(e, b, &seat);
  }
  return done;
}
