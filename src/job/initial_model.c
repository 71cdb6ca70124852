/* initial_model.c — see initial_model.h. */
#include "src/job/initial_model.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/model/model_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

/* The job whose members begin with a model. */
typedef struct fine_tuning {
  const tt_config *cfg;
  tt_dataset *data;
  const tt_cohorts *cohorts;
  tt_trained_ensembles *model;
  const tt_scaler *as; /* the normalization of the model */
} fine_tuning;

static const char *file_of(const fine_tuning *dst) { return dst->cfg->train_init_from; }

/* The option that the user has given: a campaign names the model of its round before. */
static const char *option_of(const fine_tuning *dst)
{
  return dst->cfg->campaign ? "campaign.warm_start" : "train.init_from";
}

/* content */

#define HASH(array_, count_, h_)                                                                   \
  XXH3_64bits_withSeed(array_, (size_t)(count_) * sizeof *(array_), h_)

/* What decides results: not the bytes of the file, which has the time of writing too. */
static uint64_t hash_model(const fine_tuning *dst, uint64_t h)
{
  const tt_scaler *s = dst->as;
  const int64_t options[] = {dst->cfg->train_init_member, dst->cfg->train_init_layers};
  h = HASH(options, 2, h);
  h = HASH(s->x_mean, s->inputs, HASH(s->x_scale, s->inputs, HASH(s->x_lambda, s->inputs, h)));
  h = HASH(s->y_mean, s->targets, HASH(s->y_scale, s->targets, HASH(s->y_lambda, s->targets, h)));
  for (int64_t k = 0; k < dst->model->count; k++) {
    const tt_trained_ensemble *m = dst->model->at[k];
    for (int64_t i = 0; i < m->ensembles; i++)
      h = HASH(m->ensemble[i].name, strlen(m->ensemble[i].name), h);
    h = HASH(m->index, m->members, HASH(m->status, m->members, h));
    h = HASH(m->w, tt_trained_ensemble_parameters(m), h);
  }
  return h;
}

/* layers */

/* "8 -> 64 relu", "8 -> 64 relu, layer_norm, residual", of the front "conv 16 x 8 x 8". */
static void describe_layer(const tt_model *m, int l, char text[128])
{
  char front[TT_FRONT_LAYER_TEXT];
  if (l >= tt_model_all_layers(m)) {
    snprintf(text, 128, "missing");
    return;
  }
  if (l < m->front.layers) {
    snprintf(text, 128, "%s, %" PRId64 " weights", tt_front_layer_text(&m->front, l, front),
             tt_front_weights(&m->front.layer[l]));
    return;
  }
  const tt_layer *layer = &m->layer[l - m->front.layers];
  int last = l == tt_model_all_layers(m) - 1;
  snprintf(text, 128, "%" PRId64 " -> %" PRId64 " %s%s%s", layer->in, layer->out,
           last ? tt_choice_output[m->output] : tt_choice_activation[layer->activation],
           layer->norm < 0 ? "" : ", layer_norm", layer->residual ? ", residual" : "");
}

/* Number of layers of a network that get weights from the model. */
static int layers_taken(const fine_tuning *dst, const tt_model *m)
{
  int64_t chosen = dst->cfg->train_init_layers;
  return chosen < 0 ? tt_model_all_layers(m) : (int)chosen;
}

/* The first `layers` layers are the same in both networks; then so are their offsets. */
static tt_err check_layers(const fine_tuning *dst, const tt_ensemble *e, const tt_model *here,
                           const tt_model *there)
{
  char a[128], b[128];
  int layers = layers_taken(dst, here), all = tt_model_all_layers(here);
  if (layers > all)
    return TT_FAIL(DATA, "train.init_layers is %d, but the network of ensemble %s has %d layers",
                   layers, e->name, all);
  for (int l = 0; l < layers; l++) {
    describe_layer(here, l, a);
    describe_layer(there, l, b);
    if (!strcmp(a, b)) continue;
    return TT_FAIL(DATA,
                   "%s: %s: layer %d of %d of ensemble %s is %s there and %s here; "
                   "change model, or take only the %d layers before it (train.init_layers)",
                   option_of(dst), file_of(dst), l + 1, all, e->name, b, a, l);
  }
  if (here->front.layers && !tt_front_equal(&here->front, &there->front))
    return TT_FAIL(DATA,
                   "%s: %s: the front of ensemble %s has other options there; use the "
                   "same model.front",
                   option_of(dst), file_of(dst), e->name);
  return TT_OK;
}

/* members */

/* The ensemble of the model with this name, or its only one. */
static tt_err find_ensemble(const fine_tuning *dst, const tt_ensemble *e,
                            const tt_trained_ensemble **model, const tt_ensemble **found)
{
  char names[256] = "";
  int64_t count = 0;
  for (int64_t k = 0; k < dst->model->count; k++)
    for (int64_t i = 0; i < dst->model->at[k]->ensembles; i++) {
      const tt_ensemble *there = &dst->model->at[k]->ensemble[i];
      *model = dst->model->at[k];
      *found = there;
      if (!strcmp(there->name, e->name)) return TT_OK;
      tt_text_append(names, sizeof names, ", ", there->name);
      count++;
    }
  if (count == 1) return TT_OK;
  return TT_FAIL(DATA, "%s: %s has no ensemble %s, but %s; use one of these names", option_of(dst),
                 file_of(dst), e->name, names);
}

static int64_t smallest_index(const tt_trained_ensemble *m, const tt_ensemble *e)
{
  int64_t least = m->index[e->first];
  for (int64_t i = e->first; i < e->first + e->members; i++)
    if (m->index[i] < least) least = m->index[i];
  return least;
}

/* The row of the member that is number `place` of an ensemble: with kfold members are not in
 * ascending order. Snapshots have the number of their member; then rows are counted.
 *   first_number  smallest number */
static int64_t find_row(const tt_trained_ensemble *m, const tt_ensemble *e, int64_t first_number,
                        int64_t place)
{
  int64_t row = e->first + place;
  for (int64_t i = e->first; !m->head[row] && i < e->first + e->members; i++)
    if (m->index[i] == first_number + place) return i;
  return row;
}

/* The weights for member number `index` of an ensemble, and the number of their network. */
static tt_err find_weights(const fine_tuning *dst, const tt_trained_ensemble *m,
                           const tt_ensemble *there, int64_t index, int64_t *network,
                           const float **w)
{
  int64_t chosen = dst->cfg->train_init_member, wanted = chosen < 0 ? index : chosen;
  int64_t first_number = smallest_index(m, there), place = wanted - first_number;
  if (chosen >= 0 && (place < 0 || place >= there->members))
    return TT_FAIL(
        DATA,
        "train.init_member: %" PRId64 ": ensemble %s of %s has members %" PRId64 " to %" PRId64,
        chosen, there->name, file_of(dst), first_number, first_number + there->members - 1);
  place = (place % there->members + there->members) % there->members;
  for (int64_t k = 0; k < there->members; k++) {
    int64_t row = find_row(m, there, first_number, (place + k) % there->members);
    *w = tt_trained_ensemble_weights(m, row, network);
    if (m->status[row] != TT_STATUS_diverged) return TT_OK;
    if (chosen >= 0)
      return TT_FAIL(DATA, "train.init_member: member %" PRId64 " of ensemble %s of %s diverged",
                     chosen, there->name, file_of(dst));
  }
  return TT_FAIL(DATA, "%s: all members of ensemble %s of %s diverged", option_of(dst), there->name,
                 file_of(dst));
}

static tt_err match_cohort(const fine_tuning *dst, tt_cohort *c)
{
  const tt_trained_ensemble *m = NULL;
  const tt_ensemble *there = NULL;
  int64_t network = 0;
  int last = layers_taken(dst, &c->model) - 1;
  TT_TRY(TT_ALLOC(c->initial, c->members));
  for (int64_t i = 0; i < c->ensembles; i++) {
    const tt_ensemble *e = &c->ensemble[i];
    TT_TRY(find_ensemble(dst, e, &m, &there));
    for (int64_t k = e->first; k < e->first + e->members; k++) {
      TT_TRY(find_weights(dst, m, there, c->member[k].index, &network, &c->initial[k]));
      TT_TRY(check_layers(dst, e, &c->model, tt_trained_ensemble_model(m, network)));
    }
  }
  for (int l = 0; l <= last; l++) {
    tt_slice own = tt_model_layer_params(&c->model, l);
    if (own.count) c->initial_params = own.first + own.count;
  }
  return TT_OK;
}

/* normalization */

/* How a column of the data set is normalized, and how the model does it. */
typedef struct column_scale {
  const char *role, *name;
  const int8_t *was_by, *by;
  const double *was_mean, *was_scale, *was_lambda;
  const double *mean, *scale, *lambda;
} column_scale;

/* Normalize values again, one in every `step`. */
static tt_err renormalize(const fine_tuning *dst, const column_scale *c, int64_t rows, int64_t step,
                          float *value)
{
  tt_transform f = tt_normalize_transform((tt_normalize)*c->by);
  if (*c->was_by != *c->by)
    return TT_FAIL(DATA,
                   "%s: %s '%s' is normalized by %s in %s, by %s in this job; write "
                   "the same in data.normalize",
                   option_of(dst), c->role, c->name, tt_choice_normalize[*c->by], file_of(dst),
                   tt_choice_normalize[*c->was_by]);
  for (int64_t r = 0; r < rows; r++) {
    double t = tt_denormalize_value((double)value[r * step], *c->was_mean, *c->was_scale);
    t = tt_transform_apply(f, *c->lambda, tt_transform_undo(f, *c->was_lambda, t));
    value[r * step] = (float)tt_normalize_value(t, *c->mean, *c->scale);
    if (isinf(value[r * step]))
      return TT_FAIL(DATA,
                     "%s: %s '%s' of row %" PRId64 " is too large for the mean and scale of %s",
                     option_of(dst), c->role, c->name, r, file_of(dst));
  }
  return TT_OK;
}

/* The columns of the data set are those of the model, in the same order, with the same levels. */
static tt_err check_inputs(const fine_tuning *dst, const tt_trained_ensemble *m)
{
  const tt_dataset *d = dst->data;
  tt_columns_fit fit;
  int64_t *src = NULL;
  char there[256], here[256];
  TT_TRY(TT_ALLOC(src, m->input.count > d->input.count ? m->input.count : d->input.count));
  tt_err e = tt_columns_compare(&m->input, &d->input, src, &fit);
  tt_free(src);
  if (e) return e;
  if (fit != TT_COLUMNS_FIT_same && fit != TT_COLUMNS_FIT_unnamed)
    return TT_FAIL(DATA,
                   "%s: %s has the inputs %s; data.inputs are %s; give the same "
                   "columns in the same order",
                   option_of(dst), file_of(dst), tt_columns_list(&m->input, there, sizeof there),
                   tt_columns_list(&d->input, here, sizeof here));
  if (tt_net_inputs_are_same(&m->scaler.net, &d->scaler.net)) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: the inputs of %s have other levels or indicators of missing "
                 "values than those of this job; use the same data.categories and data.missing",
                 option_of(dst), file_of(dst));
}

static tt_err scale_inputs(const fine_tuning *dst)
{
  tt_dataset *d = dst->data;
  tt_scaler *s = &d->scaler;
  const tt_scaler *as = dst->as;
  for (int64_t i = 0; i < d->inputs; i++) {
    int64_t k = s->net.at[i].column;
    if (s->net.at[i].kind != TT_NET_INPUT_amount) continue;
    const column_scale c = {
        "input",         d->input.name[k], &s->x_normalize[k], &as->x_normalize[k],
        &s->x_mean[k],   &s->x_scale[k],   &s->x_lambda[k],    &as->x_mean[k],
        &as->x_scale[k], &as->x_lambda[k]};
    TT_TRY(renormalize(dst, &c, d->rows, d->inputs, d->x + i));
    s->x_mean[k] = as->x_mean[k], s->x_scale[k] = as->x_scale[k];
    s->x_lambda[k] = as->x_lambda[k];
  }
  return TT_OK;
}

/* Column of the model for target t of the data set; -1: it has none. */
static int64_t find_target(const tt_trained_ensemble *m, const tt_dataset *d, int64_t t)
{
  for (int64_t k = 0; k < m->target.count; k++)
    if (!strcmp(m->target.name[k], d->target.name[t])) return k;
  int named = m->target.given && d->target.given;
  return !named && m->target.count == d->targets ? t : -1;
}

/* Whether an ensemble of the job has target t as a label that is not normalized: a class, a
 * probability or a count. */
static int is_plain_label(const fine_tuning *dst, int64_t t)
{
  for (int64_t i = 0; i < dst->cohorts->count; i++) {
    const tt_cohort *c = dst->cohorts->at[i];
    if (tt_output_labels(c->model.output) == TT_LABEL_TYPE_real) continue;
    for (int64_t k = 0; k < c->ensembles; k++)
      for (int64_t j = 0; j < c->ensemble[k].targets; j++)
        if (c->ensemble[k].column[j] == t) return 1;
  }
  return 0;
}

static tt_err scale_targets(const fine_tuning *dst, const tt_trained_ensemble *m)
{
  tt_dataset *d = dst->data;
  tt_scaler *s = &d->scaler;
  const tt_scaler *as = dst->as;
  for (int64_t t = 0; t < d->targets; t++) {
    int64_t k = find_target(m, d, t);
    if (k < 0 || is_plain_label(dst, t)) continue;
    if (as->y_scale[k] == tt_normalize_constant(as->y_mean[k])) continue; /* no scale */
    const column_scale c = {
        "target",        d->target.name[t], &s->y_normalize[t], &as->y_normalize[k],
        &s->y_mean[t],   &s->y_scale[t],    &s->y_lambda[t],    &as->y_mean[k],
        &as->y_scale[k], &as->y_lambda[k]};
    TT_TRY(renormalize(dst, &c, d->rows, d->targets, d->y + t));
    s->y_mean[t] = as->y_mean[k], s->y_scale[t] = as->y_scale[k];
    s->y_lambda[t] = as->y_lambda[k];
  }
  return TT_OK;
}

static tt_err apply_local(fine_tuning *dst)
{
  const tt_trained_ensemble *m = dst->model->at[0];
  dst->as = &m->scaler;
  if (m->groups)
    return TT_FAIL(DATA,
                   "%s: %s was trained with by; give a model that was trained without it, for "
                   "example on the rows of one group",
                   option_of(dst), file_of(dst));
  TT_TRY(check_inputs(dst, m));
  for (int64_t k = 0; k < dst->cohorts->count; k++) TT_TRY(match_cohort(dst, dst->cohorts->at[k]));
  if (!dst->data->groups) { /* those of by_transfer are normalized as the model is */
    TT_TRY(scale_inputs(dst));
    TT_TRY(scale_targets(dst, m));
  }
  dst->data->hash = hash_model(dst, dst->data->hash);
  return TT_OK;
}

tt_err tt_initial_model_apply(tt_comm *c, const tt_config *cfg, tt_dataset *d,
                              const tt_cohorts *all, tt_trained_ensembles *model)
{
  fine_tuning tuning = {cfg, d, all, model, NULL};
  if (!*file_of(&tuning)) return TT_OK;
  tt_err e = tt_model_read_group(c, file_of(&tuning), (tt_model_choice){.whole = 1}, model);
  if (!e) e = tt_agree(c, apply_local(&tuning));
  if (!e)
    tt_log_root(TT_LOG_INFO, "members start with weights of %s; inputs %sare normalized as there",
                file_of(&tuning), d->groups ? "" : "and targets ");
  return e;
}
