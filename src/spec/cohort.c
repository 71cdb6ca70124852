/* cohort.c — see cohort.h. */
#include "spec/cohort.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static int64_t find(const tt_columns *target, const char *name)
{
  for (int64_t i = 0; i < target->count; i++)
    if (!strcmp(target->name[i], name)) return i;
  return -1;
}

static void list_names(const tt_columns *target, char *text, size_t room)
{
  size_t used = 0;
  text[0] = '\0';
  for (int64_t i = 0; i < target->count && used + 1 < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", target->name[i]);
}

static tt_err one_column(const tt_ensemble_config *from, const char *name, const tt_columns *target,
                         int32_t *column)
{
  int64_t i = find(target, name);
  if (i < 0) {
    char names[512];
    list_names(target, names, sizeof names);
    return TT_FAIL(CONFIG, "ensemble %s: target '%s' is not in the data; there is: %s", from->name,
                   name, names);
  }
  *column = (int32_t)i;
  return TT_OK;
}

static tt_err find_columns(const tt_ensemble_config *from, const tt_columns *target,
                           tt_ensemble *out)
{
  int single = from->target[0] != '\0', some = from->targets.count > 0;
  out->targets = single ? 1 : some ? from->targets.count : target->count;
  TT_TRY(TT_ALLOC(out->column, out->targets));
  for (int64_t k = 0; k < out->targets; k++) {
    if (!single && !some) {
      out->column[k] = (int32_t)k;
      continue;
    }
    const char *name = single ? from->target : from->targets.value[k];
    TT_TRY(one_column(from, name, target, &out->column[k]));
    for (int64_t j = 0; j < k; j++)
      if (out->column[j] == out->column[k])
        return TT_FAIL(CONFIG, "ensemble %s: target '%s' is named twice", from->name, name);
  }
  return TT_OK;
}

/* The upper half of the streams comes from the name, so that adding members to one ensemble, or
 * another ensemble before it, changes nothing for its members. */
static tt_err make_ensembles(const tt_config *cfg, const tt_columns *target, tt_cohort *c)
{
  c->ensembles = cfg->ensembles;
  TT_TRY(TT_ALLOC(c->ensemble, c->ensembles));
  for (int64_t i = 0; i < c->ensembles; i++) {
    const tt_ensemble_config *from = &cfg->ensemble[i];
    tt_ensemble *e = &c->ensemble[i];
    TT_TRY(tt_text_set(&e->name, from->name));
    e->first = c->members;
    e->members = from->members;
    e->selection = -1;
    e->key = (uint32_t)XXH3_64bits(from->name, strlen(from->name));
    c->members += from->members;
    TT_TRY(find_columns(from, target, e));
    if (e->targets != c->ensemble[0].targets)
      return TT_FAIL(CONFIG,
                     "ensemble %s learns %" PRId64 " targets and %s %" PRId64
                     "; in one job all ensembles learn equally many",
                     e->name, e->targets, c->ensemble[0].name, c->ensemble[0].targets);
    for (int64_t j = 0; j < i; j++)
      if (c->ensemble[j].key == e->key)
        return TT_FAIL(CONFIG, "ensembles %s and %s need names that differ more (equal hashes)",
                       c->ensemble[j].name, e->name);
  }
  return TT_OK;
}

static tt_hyper hyper(const tt_config *cfg, const tt_ensemble_config *own)
{
  tt_hyper h = {
#define X(name, type, ...) .name = (type)cfg->train_##name,
      TT_HYPERS(X)
#undef X
  };
  h.learning_rate = (float)own->learning_rate;
  return h;
}

static tt_err make_members(const tt_config *cfg, tt_cohort *c)
{
  TT_TRY(TT_ALLOC(c->member, c->members));
  for (int64_t i = 0; i < c->ensembles; i++) {
    tt_hyper own = hyper(cfg, &cfg->ensemble[i]);
    for (int64_t k = 0; k < c->ensemble[i].members; k++) {
      tt_member *m = &c->member[c->ensemble[i].first + k];
      m->ensemble = (int32_t)i;
      m->index = (int32_t)k;
      m->stream = (uint64_t)c->ensemble[i].key << 32 | (uint32_t)k;
      m->hyper = own;
    }
  }
  return TT_OK;
}

static tt_err fill(const tt_config *cfg, int64_t inputs, const tt_columns *target, tt_cohort *c)
{
  TT_TRY(make_ensembles(cfg, target, c));
  TT_TRY(tt_model_build(inputs, c->ensemble[0].targets, cfg->model_hidden.value,
                        cfg->model_hidden.count, (tt_activation)cfg->model_activation,
                        (tt_output)cfg->model_output, &c->model));
  return make_members(cfg, c);
}

tt_err tt_cohort_create(const tt_config *cfg, int64_t inputs, const tt_columns *target,
                        tt_cohort **out)
{
  tt_cohort *c = NULL;
  TT_TRY(TT_ALLOC(c, 1));
  c->init = (tt_init)cfg->model_init;
  c->loss = (tt_loss)cfg->train_loss;
  c->variance_floor = (float)cfg->train_variance_floor;
  c->huber_delta = (float)cfg->train_huber_delta;
  c->nll_beta = (float)cfg->train_nll_beta;
  c->optimizer = (tt_optimizer)cfg->train_optimizer;
  c->nesterov = cfg->train_nesterov;
  c->schedule = (tt_schedule)cfg->train_schedule;
  c->schedule_shape.growth = (float)cfg->train_schedule_growth;
  c->schedule_shape.peak = (float)cfg->train_schedule_peak;
  for (int64_t i = 0; i < cfg->train_schedule_milestones.count && i < TT_MAX_MILESTONES; i++)
    c->schedule_shape.milestone[c->schedule_shape.milestones++] =
        (int32_t)cfg->train_schedule_milestones.value[i];
  c->batch_size = cfg->train_batch_size;
  c->resample = (tt_resample)cfg->train_resample;
  c->subsample = cfg->train_subsample;
  c->folds = cfg->train_folds;
  c->method = (tt_method)cfg->train_method;
  c->snapshots = c->method == TT_METHOD_snapshot ? cfg->train_snapshots : 0;
  c->average = (tt_average)cfg->train_average;
  c->stop = (tt_stop_at)cfg->train_stop;
  c->retries = (int32_t)cfg->train_on_diverged_retries;
  c->retry_rate = (float)cfg->train_on_diverged_lr_scale;
  c->retry_reseed = cfg->train_on_diverged_reseed;
  c->seed = (uint64_t)cfg->run_seed;
  c->max_epochs = cfg->train_epochs;
  tt_err e = fill(cfg, inputs, target, c);
  if (e)
    tt_cohort_destroy(&c);
  else
    *out = c;
  return e;
}

void tt_cohort_destroy(tt_cohort **c)
{
  if (!*c) return;
  for (int64_t i = 0; (*c)->ensemble && i < (*c)->ensembles; i++) {
    tt_free((*c)->ensemble[i].name);
    tt_free((*c)->ensemble[i].column);
  }
  tt_free((*c)->ensemble);
  tt_free((*c)->member);
  tt_free(*c);
}

tt_state_shape tt_cohort_state_shape(const tt_cohort *c)
{
  return (tt_state_shape){.params = c->model.params,
                          .slots = tt_optimizer_slots(c->optimizer),
                          .epochs = c->max_epochs,
                          .averages = c->average != TT_AVERAGE_none,
                          .snapshots = c->snapshots};
}

tt_loss_args tt_cohort_loss_args(const tt_cohort *c)
{
  return (tt_loss_args){.variance_floor = c->variance_floor,
                        .share = 1.0f / (float)c->model.targets,
                        .huber_delta = c->huber_delta,
                        .nll_beta = c->nll_beta};
}

static const char *beyond_model(const tt_model *m)
{
  for (int l = 0; l < m->layers; l++) {
    if (m->layer[l].norm >= 0) return "layer_norm is for the layered path";
    if (m->layer[l].residual) return "residual layers are for the layered path";
  }
  return NULL;
}

static const char *beyond_member(const tt_hyper *h)
{
  if (h->dropout > 0.0f) return "dropout is for the layered path";
  if (h->label_noise > 0.0f) return "label_noise is for the layered path";
  if (h->anchor > 0.0f) return "anchor is for the layered path";
  if (h->adversarial > 0.0f) return "adversarial training is for the layered path";
  if (h->features < 1.0f && h->features > 0.0f) return "a part of the features is for the layered path";
  return NULL;
}

const char *tt_cohort_beyond_fused(const tt_cohort *c)
{
  const char *why = beyond_model(&c->model);
  if (tt_loss_is_wide(c->loss)) why = "losses of many outputs are for the layered path";
  if (tt_optimizer_slots(c->optimizer) > 2) why = "amsgrad is for the layered path";
  if (c->average != TT_AVERAGE_none) why = "averaged weights are for the layered path";
  if (c->method != TT_METHOD_independent) why = "fusion and snapshots are for the layered path";
  if (c->resample == TT_RESAMPLE_kfold) why = "kfold is for the layered path";
  for (int64_t i = 0; !why && i < c->members; i++) why = beyond_member(&c->member[i].hyper);
  return why;
}

static int64_t folds_of(const tt_cohort *c)
{
  return c->resample == TT_RESAMPLE_kfold ? c->folds : 1;
}

int64_t tt_cohort_views(const tt_cohort *c) { return c->ensembles * folds_of(c); }

int64_t tt_cohort_view_of(const tt_cohort *c, const tt_member *m)
{
  return m->ensemble * folds_of(c) + m->index % folds_of(c);
}

/* The fold of a row: by the seed and its number alone, so that labelling more rows moves none. */
static int64_t fold_of(const tt_cohort *c, int64_t row)
{
  tt_random4 r = tt_random(c->seed, 0, TT_FOR_FOLDS, (uint32_t)(row >> 32), (uint32_t)row);
  return (int64_t)tt_below(r.v[0], r.v[1], (uint32_t)c->folds);
}

/* Whether a training row with kfold is in this view's part of the split. */
static int in_fold(const tt_cohort *c, int64_t view, tt_split which, int64_t row)
{
  int out = fold_of(c, row) == view % c->folds;
  return which == TT_VALIDATION ? out : !out;
}

tt_err tt_cohort_rows(const tt_cohort *c, const tt_dataset *d, int64_t view, tt_split which,
                      int32_t **row, int64_t *count)
{
  const tt_ensemble *e = &c->ensemble[view / folds_of(c)];
  int folded = c->resample == TT_RESAMPLE_kfold && which != TT_TEST;
  int64_t kept = 0;
  const int8_t *selected = e->selection < 0 || !d->selected
                               ? NULL : d->selected + e->selection * d->rows;
  TT_TRY(tt_dataset_rows(d, folded ? TT_TRAIN : which, e->column, e->targets, row, count));
  for (int64_t i = 0; i < *count; i++) {
    int64_t r = (*row)[i];
    if (which != TT_TEST && selected && !selected[r]) continue;
    if (folded && !in_fold(c, view, which, r)) continue;
    (*row)[kept++] = (int32_t)r;
  }
  *count = kept;
  return TT_OK;
}

/* Inputs are put in a member's own order; it sees the first `some` of it. */
static tt_shuffle feature_order(const tt_cohort *c, const tt_member *m, int64_t *some)
{
  int64_t inputs = c->model.inputs;
  *some = llround((double)m->hyper.features * (double)inputs);
  if (*some < 1) *some = 1;
  return tt_shuffle_make((uint32_t)inputs, c->seed, m->stream, TT_FOR_FEATURES, 0);
}

void tt_cohort_features(const tt_cohort *c, const tt_member *m, int8_t *seen)
{
  int64_t some;
  tt_shuffle order = feature_order(c, m, &some);
  for (int64_t i = 0; i < c->model.inputs; i++)
    seen[i] = (int64_t)tt_shuffle_at(&order, (uint32_t)i) < some;
}

static void hide_inputs(const tt_cohort *c, const tt_member *m, float *w)
{
  const tt_layer *first = &c->model.layer[0];
  int64_t some;
  tt_shuffle order = feature_order(c, m, &some);
  for (int64_t i = 0; i < first->in; i++) {
    if ((int64_t)tt_shuffle_at(&order, (uint32_t)i) < some) continue;
    for (int64_t o = 0; o < first->out; o++) w[first->weight + o * first->in + i] = 0.0f;
  }
}

void tt_cohort_init(const tt_cohort *c, const tt_member *m, int32_t attempt, float *w)
{
  const tt_model *model = &c->model;
  float scale = m->hyper.init_scale;
  tt_model_init(model, c->init, tt_attempt_seed(c->seed, c->retry_reseed, attempt), m->stream, w);
  for (int l = 0; scale != 1.0f && l < model->layers; l++) {
    const tt_layer *layer = &model->layer[l];
    for (int64_t p = layer->weight; p < layer->bias + layer->out; p++) w[p] *= scale;
  }
  if (m->hyper.features < 1.0f) hide_inputs(c, m, w);
}

int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labelled)
{
  if (c->resample != TT_RESAMPLE_subsample) return labelled;
  int64_t rows = (int64_t)ceil(c->subsample * (double)labelled);
  return rows < 1 && labelled > 0 ? 1 : rows;
}

tt_order tt_order_make(const tt_cohort *c, const tt_member *m, int64_t labelled, int64_t epoch)
{
  return tt_order_fix(c->seed, m->stream, (tt_batches)m->hyper.batches, c->resample, (uint32_t)labelled,
                      (uint32_t)tt_cohort_epoch_rows(c, labelled), (uint32_t)epoch);
}
