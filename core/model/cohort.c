/* cohort.c — see cohort.h. */
#include "core/model/cohort.h"

#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/model/row_split.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int64_t tt_cohort_expansion(const tt_cohort *c) { return c->model.heads > 1 ? c->model.heads : 1; }

tt_state_shape tt_cohort_state_shape(const tt_cohort *c)
{
  return (tt_state_shape){.params = c->model.params,
                          .slots = tt_optimizer_slots(c->optimizer),
                          .epochs = c->max_epochs,
                          .averages = c->average != TT_AVERAGE_none};
}

void tt_cohort_set_rungs(tt_cohort *c, tt_hyper *h)
{
  int64_t unit = tt_rung_unit(h->epochs);
  c->max_epochs = unit * TT_RUNG_UNITS;
  h->epochs = (int32_t)tt_rung_end(unit, 0);
  if (c->schedule == TT_SCHEDULE_cosine_restarts) h->schedule_step = (int32_t)unit;
}

tt_loss_args tt_cohort_loss_args(const tt_cohort *c)
{
  return (tt_loss_args){
#define X(name, meaning) .name = c->name,
      TT_LOSS_PARAMETERS(X)
#undef X
          .inverse_targets = 1.0f / (float)c->model.targets};
}

float tt_cohort_lr_factor(const tt_cohort *c, int32_t attempt)
{
  return (float)tt_power((double)c->retry_lr_scale, attempt);
}

static const char *model_needs_layered(const tt_model *m)
{
  if (m->front.layers) return "a front needs the layered path";
  if (m->heads > 1) return "heads need the layered path";
  if (m->rates) return "learning rates by layer need the layered path";
  for (int l = 0; l < m->layers; l++) {
    if (m->layer[l].norm >= 0) return "layer_norm needs the layered path";
    if (m->layer[l].residual) return "residual layers need the layered path";
  }
  return NULL;
}

static const char *member_needs_layered(const tt_hyper *h)
{
  if (h->dropout > 0.0f) return "dropout needs the layered path";
  if (h->label_noise > 0.0f) return "label_noise needs the layered path";
  return NULL;
}

const char *tt_cohort_needs_layered(const tt_cohort *c)
{
  const char *why = model_needs_layered(&c->model);
  if (tt_loss_is_multi_output(c->loss))
    why = "losses with more than two outputs per target need the layered path";
#define X(name, slots, ...) slots > TT_MAX_FUSED_SLOTS ? #name " needs the layered path" : NULL,
  static const char *const optimizer_needs_layered[] = {TT_OPTIMIZERS(X)};
#undef X
  if (optimizer_needs_layered[c->optimizer]) why = optimizer_needs_layered[c->optimizer];
  if (c->average != TT_AVERAGE_none) why = "averaged weights need the layered path";
  if (c->resample == TT_RESAMPLE_kfold) why = "kfold needs the layered path";
  if (c->partial_labels) why = "rows with some labels unknown need the layered path";
  if (c->label_variance) why = "data.sigma needs the layered path";
  if (c->parts > 1) why = "train.parts needs the layered path";
  for (int64_t i = 0; !why && i < c->members; i++) why = member_needs_layered(&c->member[i].hyper);
  return why;
}

int tt_cohort_lr_varies(const tt_cohort *c)
{
  int lr_varies = c->schedule != TT_SCHEDULE_constant;
  for (int64_t i = 0; i < c->members; i++) lr_varies |= c->member[i].hyper.warmup > 0.0f;
  return lr_varies;
}

int64_t tt_cohort_fold_count(const tt_cohort *c)
{
  return c->resample == TT_RESAMPLE_kfold ? c->folds : 1;
}

tt_used_options tt_cohort_used_options(const tt_cohort *c, tt_slice members)
{
  tt_used_options used = {0};
  for (int64_t i = members.first; i < members.first + members.count; i++) {
    const tt_hyper *h = &c->member[i].hyper;
    used.dropout |= h->dropout > 0.0f;
    used.label_noise |= h->label_noise > 0.0f;
    used.clipping |= h->clip_norm > 0.0f;
  }
  return used;
}

int64_t tt_cohort_row_sets(const tt_cohort *c) { return c->ensembles * tt_cohort_fold_count(c); }

int64_t tt_member_row_set(const tt_cohort *c, const tt_member *m)
{
  return m->ensemble * tt_cohort_fold_count(c) + m->index % tt_cohort_fold_count(c);
}

/* The fold of the training row at a position in the ascending list of the training rows. Each block
 * of `folds` rows has every fold once, in a random order: the sizes of two folds differ by at most
 * one, and rows that are appended change no fold.
 *   order  [folds] of the block of the previous position; positions come in ascending order */
static int64_t next_fold(const tt_cohort *c, int64_t position, int16_t *order)
{
  int64_t block = position / c->folds, place = position % c->folds;
  for (int64_t i = 0; place == 0 && i < c->folds; i++) { /* Fisher and Yates, inside out */
    tt_random4 r = tt_random(c->seed, (uint64_t)block, TT_PURPOSE_FOLDS, 1, (uint32_t)i);
    int64_t j = (int64_t)tt_uniform_below(r.v[0], r.v[1], (uint32_t)i + 1);
    order[i] = order[j];
    order[j] = (int16_t)i;
  }
  return order[place];
}

/* Keep the rows of the set's ensemble. */
static int64_t select_rows(const tt_ensemble *e, const tt_dataset *d, int64_t count, int32_t *row)
{
  int64_t kept = 0;
  if (e->selection < 0 || !d->selected) return count;
  for (int64_t i = 0; i < count; i++)
    if (d->selected[e->selection * d->rows + row[i]]) row[kept++] = row[i];
  return kept;
}

tt_err tt_cohort_folds(const tt_cohort *c, const tt_dataset *d, int64_t count, const int32_t *row,
                       int16_t *fold)
{
  int16_t order[TT_MAX_FOLDS] = {0};
  if (d->unit && count > 0 && d->unit[row[0]] != TT_BY_NO_UNIT)
    return tt_split_folds(count, row, d->unit, d->unit_ordered, c->folds, c->seed, fold);
  for (int64_t i = 0; i < count; i++) fold[i] = (int16_t)next_fold(c, i, order);
  return TT_OK;
}

/* Keep the rows of the fold of a row set, or those of all others. */
static tt_err keep_fold(const tt_cohort *c, const tt_dataset *d, int64_t row_set, int left_out,
                        int32_t *row, int64_t *count)
{
  int16_t *fold = NULL;
  int64_t kept = 0;
  TT_TRY(TT_ALLOC(fold, *count));
  tt_err e = tt_cohort_folds(c, d, *count, row, fold);
  for (int64_t i = 0; !e && i < *count; i++)
    if ((fold[i] == row_set % c->folds) == left_out) row[kept++] = row[i];
  *count = kept;
  tt_free(fold);
  return e;
}

tt_err tt_cohort_rows(const tt_cohort *c, const tt_dataset *d, int64_t row_set, tt_split which,
                      int32_t **row, int64_t *count)
{
  const tt_ensemble *ensemble = &c->ensemble[row_set / tt_cohort_fold_count(c)];
  int folded = c->resample == TT_RESAMPLE_kfold && which != TT_TEST;
  TT_TRY(tt_dataset_rows(d, folded ? TT_TRAIN : which, ensemble->rows, ensemble->column,
                         ensemble->targets, row, count));
  if (which != TT_TEST) *count = select_rows(ensemble, d, *count, *row);
  tt_err e = folded ? keep_fold(c, d, row_set, which == TT_VALIDATION, *row, count) : TT_OK;
  if (e) tt_free(*row);
  return e;
}

/* The normalized values of input i in the training rows among `rows`, ascending. Returns their
 * number. */
static int64_t sort_input(const tt_dataset *d, tt_slice rows, int64_t i, double *value)
{
  int64_t n = 0;
  for (int64_t r = rows.first; r < rows.first + rows.count; r++)
    if (!d->split || d->split[r] == TT_TRAIN) value[n++] = (double)d->x[r * d->inputs + i];
  qsort(value, (size_t)n, sizeof *value, tt_compare_f64);
  return n;
}

tt_err tt_cohort_set_encoding(const tt_dataset *d, tt_cohort *c)
{
  const tt_front *f = &c->model.front;
  double *value = NULL;
  if (!f->layers || !f->layer[0].encodes || !d || !d->x) return TT_OK;
  int64_t groups = d->groups ? d->groups->count : 1, params = tt_front_layer_params(&f->layer[0]);
  TT_TRY(TT_ALLOC(c->encoding, groups * params));
  TT_TRY(TT_ALLOC(value, d->rows));
  for (int64_t g = 0; g < groups; g++)
    for (int64_t i = 0; i < d->inputs; i++) {
      const tt_slice rows = d->groups ? d->groups->rows[g] : (tt_slice){0, d->rows};
      int64_t n = sort_input(d, rows, i, value);
      tt_front_set_pieces(&f->layer[0], i, n, value, c->encoding + g * params);
    }
  tt_free(value);
  return TT_OK;
}

void tt_member_init_weights(const tt_cohort *c, const tt_member *m, int32_t attempt, float *w)
{
  const tt_model *model = &c->model;
  float scale = m->hyper.init_scale;
  tt_model_init_weights(model, c->init, tt_attempt_seed(c->seed, c->retry_reseed, attempt),
                        m->stream, w);
  for (int l = 0; scale != 1.0f && l < model->front.layers; l++) {
    const tt_front_layer *layer = &model->front.layer[l];
    if (layer->kind != TT_FRONT_conv) continue;
    tt_slice own = tt_model_layer_params(model, l);
    for (int64_t p = own.first; p < own.first + own.count; p++) w[p] *= scale;
  }
  for (int l = 0; scale != 1.0f && l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    for (int64_t p = layer->weight; p < layer->bias + layer->out; p++) w[p] *= scale;
  }
  if (c->encoding) {
    int64_t count = tt_model_layer_params(model, 0).count;
    int64_t group = c->ensemble[m->ensemble].rows.count ? m->ensemble : 0;
    memcpy(w, c->encoding + group * count, (size_t)count * sizeof *w);
  }
  if (c->initial) memcpy(w, c->initial[m - c->member], (size_t)c->initial_params * sizeof *w);
}

tt_err tt_set_up_check(const char *(*stop)(void))
{
  const char *signal = stop ? stop() : NULL;
  if (!signal) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s before training began: run again to continue", signal);
}

tt_err tt_members_init_weights(const tt_cohort *c, tt_slice which, const char *(*stop)(void),
                               float *w)
{
  for (int64_t i = 0; i < which.count; i++) {
    TT_TRY(tt_set_up_check(stop));
    tt_member_init_weights(c, &c->member[which.first + i], 0, w + i * c->model.params);
  }
  return TT_OK;
}

int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labeled)
{
  if (c->resample != TT_RESAMPLE_subsample) return labeled;
  int64_t rows = (int64_t)ceil(c->subsample * (double)labeled);
  return rows < 1 && labeled > 0 ? 1 : rows;
}

tt_sampler tt_member_sampler(const tt_cohort *c, const tt_member *m, int32_t attempt,
                             int64_t labeled, int64_t epoch)
{
  return tt_sampler_init(tt_attempt_seed(c->seed, c->retry_reseed, attempt), m->stream, c->resample,
                         (uint32_t)labeled, (uint32_t)tt_cohort_epoch_rows(c, labeled),
                         (uint32_t)epoch);
}

void tt_member_row_mask(const tt_cohort *c, const tt_member *m, int32_t attempt, int64_t labeled,
                        int8_t *seen)
{
  memset(seen, 0, (size_t)labeled);
  if (labeled == 0) return;
  tt_sampler o = tt_member_sampler(c, m, attempt, labeled, 0);
  int64_t rows = tt_cohort_epoch_rows(c, labeled);
  for (int64_t s = 0; s < rows; s++) seen[tt_sampler_resample(&o, (uint32_t)s)] = 1;
}
