/* cohort_create.c — creates the cohorts of a job from the configuration; see cohort.h. */
#include "core/model/cohort.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

typedef struct cohort_builder {
  const tt_config *cfg;
  int64_t inputs;
  const tt_columns *target;
  const tt_dataset *data; /* NULL: not read */
  int64_t *group;         /* [ensembles] index of the first ensemble of the same cohort */
  int64_t *classes;       /* [ensembles] number of classes for categorical forecasts, else 0 */
} cohort_builder;

static int64_t find_column(const tt_columns *target, const char *name)
{
  for (int64_t i = 0; i < target->count; i++)
    if (!strcmp(target->name[i], name)) return i;
  return -1;
}

static tt_err find_column_or_fail(const tt_ensemble_config *src, const char *name,
                                  const tt_columns *target, int32_t *column)
{
  int64_t i = find_column(target, name);
  if (i < 0) {
    char names[512];
    return TT_FAIL(CONFIG, "ensemble %s: target '%s' is not in the data; targets are: %s",
                   src->name, name, tt_columns_list(target, names, sizeof names));
  }
  *column = (int32_t)i;
  return TT_OK;
}

/* K, the number of targets of an ensemble. */
static int64_t count_targets(const tt_ensemble_config *own, const tt_columns *target)
{
  if (own->target[0]) return 1;
  return own->targets.count ? own->targets.count : target->count;
}

static tt_err find_columns(const tt_ensemble_config *own, const tt_columns *target, int64_t count,
                           int32_t *column)
{
  int single = own->target[0] != '\0', some = own->targets.count > 0;
  for (int64_t i = 0; i < count; i++) {
    column[i] = (int32_t)i;
    if (!single && !some) continue;
    const char *name = single ? own->target : own->targets.value[i];
    TT_TRY(find_column_or_fail(own, name, target, &column[i]));
    for (int64_t j = 0; j < i; j++)
      if (column[j] == column[i])
        return TT_FAIL(CONFIG, "ensemble %s: target '%s' is named twice", own->name, name);
  }
  return TT_OK;
}

tt_err tt_cohort_target_columns(const tt_ensemble_config *own, const tt_columns *target,
                                int64_t *count, int32_t **column)
{
  int32_t *found = NULL;
  *count = count_targets(own, target);
  TT_TRY(TT_ALLOC(found, *count));
  tt_err e = find_columns(own, target, *count, found);
  if (e)
    tt_free(found);
  else
    *column = found;
  return e;
}

/* Upper half of the streams. It depends on the name only, so that new members or new ensembles do
 * not change the streams of other members. */
static uint32_t name_hash(const tt_ensemble_config *own)
{
  return (uint32_t)XXH3_64bits(own->name, strlen(own->name));
}

static tt_err check_name_hashes(const tt_config *cfg)
{
  for (int64_t i = 0; i < cfg->ensembles; i++)
    for (int64_t j = 0; j < i; j++)
      if (cfg->ensemble[i].number != cfg->ensemble[j].number &&
          name_hash(&cfg->ensemble[i]) == name_hash(&cfg->ensemble[j]))
        return TT_FAIL(CONFIG,
                       "the names of ensembles %s and %s have the same hash; rename one of them",
                       cfg->ensemble[j].name, cfg->ensemble[i].name);
  return TT_OK;
}

static tt_hyper hyper(const tt_ensemble_config *own)
{
  return (tt_hyper){
#define X(name, type, ...) .name = (type)own->train_##name,
      TT_HYPERS(X)
#undef X
  };
}

/* The selected rows of split `which` with labels of targets [from, from + count); owner of *row:
 * the caller, tt_free. */
static tt_err list_rows(const cohort_builder *k, const tt_ensemble *e, tt_split which,
                        int64_t first_column, int64_t count, int32_t **row, int64_t *rows)
{
  int64_t kept = 0;
  TT_TRY(tt_dataset_rows(k->data, which, e->rows, e->column + first_column, count, row, rows));
  const int8_t *chosen = e->selection < 0 ? NULL : k->data->selected + e->selection * k->data->rows;
  for (int64_t i = 0; i < *rows; i++)
    if (!chosen || chosen[(*row)[i]]) (*row)[kept++] = (*row)[i];
  *rows = kept;
  return TT_OK;
}

/* Add the number of these rows. */
static tt_err count_rows(const cohort_builder *k, const tt_ensemble *e, tt_split which,
                         int64_t first_column, int64_t count, int64_t *labeled)
{
  int32_t *row = NULL;
  int64_t rows = 0;
  TT_TRY(list_rows(k, e, which, first_column, count, &row, &rows));
  *labeled += rows;
  tt_free(row);
  return TT_OK;
}

/* Number of folds without rows. */
static tt_err count_empty_folds(const cohort_builder *k, const tt_cohort *c, const int32_t *row,
                                int64_t rows, int64_t *empty)
{
  int16_t *fold = NULL;
  int8_t seen[TT_MAX_FOLDS] = {0};
  TT_TRY(TT_ALLOC(fold, rows));
  tt_err err = tt_cohort_folds(c, k->data, rows, row, fold);
  for (int64_t i = 0; !err && i < rows; i++) seen[fold[i]] = 1;
  *empty = c->folds;
  for (int64_t i = 0; !err && i < c->folds; i++) *empty -= seen[i];
  tt_free(fold);
  return err;
}

/* Reject folds without rows: members need rows to train and to validate on. */
static tt_err check_folds(const cohort_builder *k, const tt_ensemble_config *own,
                          const tt_cohort *c, const tt_ensemble *e)
{
  int32_t *row = NULL;
  int64_t rows = 0, empty = 0;
  if (!k->data || !k->data->split || own->train_resample != TT_RESAMPLE_kfold) return TT_OK;
  TT_TRY(list_rows(k, e, TT_TRAIN, 0, e->targets, &row, &rows));
  tt_err err = count_empty_folds(k, c, row, rows, &empty);
  tt_free(row);
  if (err || !empty) return err;
  if (rows < c->folds)
    return TT_FAIL(CONFIG,
                   "ensemble %s: train.folds is %" PRId64 ", but there are %" PRId64
                   " rows to train on; use fewer folds",
                   e->name, own->train_folds, rows);
  return TT_FAIL(CONFIG,
                 "ensemble %s: train.folds is %" PRId64 ", but %" PRId64
                 " of them have no rows, because rows with equal values of data.split.%s, or equal "
                 "inputs, are in one fold; use fewer folds",
                 e->name, own->train_folds, empty, k->data->unit_ordered ? "order" : "group");
}

/* Reject options that need validation rows if there are none. The configuration cannot check it,
 * because a dataset may define the split and the selections. With kfold, early stopping uses the
 * fold instead, but weights of members and calibration do not. */
static tt_err check_validation(const cohort_builder *k, const tt_ensemble_config *own,
                               const tt_cohort *c, const tt_ensemble *e)
{
  const tt_config *cfg = k->cfg;
  int weighs = cfg->combine_method != TT_COMBINE_mean && !tt_config_weighs_folds(cfg, own);
  const char *what = weighs ? "combine.method"
                     : cfg->calibration_recalibrate == TT_RECALIBRATE_all
                         ? "calibration.recalibrate: all"
                     : cfg->calibration_conformal.count > 0 ? "calibration.conformal"
                                                            : NULL;
  int64_t all = 0, any = 0;
  int early_stopping = 0;
  for (int64_t i = e->first; i < e->first + e->members; i++)
    early_stopping |= c->member[i].hyper.patience > 0;
  early_stopping &= own->train_resample != TT_RESAMPLE_kfold;
  if (!k->data || !k->data->split || (!what && !early_stopping)) return TT_OK;
  TT_TRY(count_rows(k, e, TT_VALIDATION, 0, e->targets, &all));
  for (int64_t t = 0; t < e->targets; t++) TT_TRY(count_rows(k, e, TT_VALIDATION, t, 1, &any));
  if (early_stopping && all == 0) what = "train.patience";
  if (early_stopping && all == 0 ? 0 : !what || any > 0) return TT_OK;
  return TT_FAIL(CONFIG,
                 "ensemble %s: %s needs validation rows, but there is none with a label for its "
                 "targets%s",
                 e->name, what, e->selection < 0 ? "" : " among its `rows`");
}

/* Only rows that train or validate count, so that complete data are trained on any path. */
static int has_partial_labels(const tt_dataset *d, const tt_ensemble *e)
{
  if (!d || !d->split || !d->partial_labels) return 0;
  int64_t first = e->rows.first, rows = e->rows.count ? e->rows.count : d->rows;
  for (int64_t r = first; r < first + rows; r++)
    if ((d->split[r] == TT_TRAIN || d->split[r] == TT_VALIDATION) &&
        tt_dataset_row_is_partial(d, r, e->column, e->targets))
      return 1;
  return 0;
}

/* The member at a place of an ensemble: with kfold those that leave out the same fold stand
 * together, fold after fold, in ascending order. */
static int64_t member_at(const tt_ensemble_config *own, int64_t place)
{
  int64_t folds = own->train_folds;
  if (own->train_resample != TT_RESAMPLE_kfold) return place;
  for (int64_t fold = 0;; fold++) {
    int64_t first = (fold - own->first_member % folds + folds) % folds; /* member of this fold */
    int64_t members = first < own->members ? (own->members - first + folds - 1) / folds : 0;
    if (place < members) return first + place * folds;
    place -= members;
  }
}

/* train.epochs: auto, of bench/studies/recipes.py: as many steps for all tables, but small ones are
 * not passed forever, and large ones often enough. Classes gain nothing by more than a few. */
static int32_t auto_epochs(int64_t rows, tt_label_type labels)
{
  const int64_t passed = 640000, least = 100, most = 2000;
  int few = labels == TT_LABEL_TYPE_class_index || labels == TT_LABEL_TYPE_probability;
  int64_t epochs = few ? least : rows > 0 ? passed / rows : most;
  return (int32_t)(epochs < least ? least : epochs > most ? most : epochs);
}

static tt_err set_auto_epochs(const cohort_builder *k, const tt_ensemble_config *own,
                              const tt_ensemble *e, tt_hyper *h)
{
  int64_t rows = 0;
  if (k->data && k->data->split)
    TT_TRY(count_rows(k, e, TT_TRAIN, 0, e->targets, &rows));
  else if (k->data)
    rows = (int64_t)((k->cfg->data_file ? k->cfg->data_split_train : 1.0) * (double)k->data->rows);
  h->epochs = auto_epochs(rows, tt_output_labels((tt_output)own->model_output));
  return TT_OK;
}

static int32_t scaled_epochs(int32_t epochs, double factor)
{
  const double most = 16777216.0; /* of train.epochs */
  return (int32_t)fmin(most, fmax(1.0, round((double)epochs * factor)));
}

/* Append ensemble `number` and its members to the cohort; with `by` it is that of a group. */
static tt_err add_ensemble(const cohort_builder *k, const tt_ensemble_config *own, int64_t number,
                           tt_cohort *c)
{
  tt_ensemble *e = &c->ensemble[number];
  const tt_by_groups *groups = k->data ? k->data->groups : NULL;
  TT_TRY(tt_text_set(&e->name, groups ? groups->name[number] : own->name));
  if (groups) e->rows = groups->rows[number];
  e->first = c->members;
  e->members = own->members;
  e->selection = k->data && k->data->selections ? (int32_t)own->selection : -1;
  e->key = name_hash(own);
  e->number = groups ? number : own->number;
  TT_TRY(tt_cohort_target_columns(own, k->target, &e->targets, &e->column));
  TT_TRY(check_folds(k, own, c, e));
  c->partial_labels |= has_partial_labels(k->data, e);
  tt_hyper base = hyper(own);
  if (own->train_epochs < 0) TT_TRY(set_auto_epochs(k, own, e, &base));
  for (int64_t place = 0; place < e->members; place++) {
    tt_member *m = &c->member[e->first + place];
    int64_t i = member_at(own, place);
    m->ensemble = (int32_t)number;
    m->index = (int32_t)(own->first_member + i);
    m->stream = (uint64_t)e->key << 32 | (uint32_t)m->index;
    m->hyper = base;
    tt_sweep_apply(own->sweeps, own->sweep, &(tt_sweep_member){c->seed, m->stream, m->index, i},
                   &m->hyper);
    m->hyper.epochs = scaled_epochs(m->hyper.epochs, own->train_epochs_factor);
    if (tt_config_searches(k->cfg)) tt_cohort_set_rungs(c, &m->hyper);
    if (m->hyper.epochs > c->max_epochs) c->max_epochs = m->hyper.epochs;
  }
  c->members += e->members;
  return check_validation(k, own, c, e);
}

static tt_err set_model(const cohort_builder *k, int64_t i, tt_model *m)
{
  const tt_ensemble_config *own = &k->cfg->ensemble[i];
  int levels = tt_output_forecast((tt_output)own->model_output) == TT_FORECAST_quantiles;
  tt_front_fault fault;
  if (!tt_config_front(own, k->inputs, &m->front, &fault))
    return TT_FAIL(CONFIG, "ensemble %s: model.front: %s", own->name, fault.why);
  tt_front front = m->front; /* of the cohort, whatever comes next */
  tt_model_shape shape = {.inputs = k->inputs,
                          .targets = count_targets(own, k->target),
                          .hidden = own->model_hidden.value,
                          .layers = own->model_hidden.count,
                          .activation = (tt_activation)own->model_activation,
                          .output = (tt_output)own->model_output,
                          .layer_norm = own->model_layer_norm,
                          .residual = own->model_residual,
                          .heads = (int32_t)own->model_heads,
                          .levels = (int32_t)(levels ? own->model_quantiles.count : k->classes[i]),
                          .level = own->model_quantiles.value,
                          .front = &front};
  TT_TRY(tt_model_lay_out(&shape, m));
  return tt_model_set_rates(own->train_freeze, own->train_layer_rates.value,
                            own->train_layer_rates.count, m);
}

/* Options that all ensembles of the cohort of ensemble i share. */
static tt_err set_options(const cohort_builder *k, int64_t i, tt_cohort *c)
{
  const tt_ensemble_config *own = &k->cfg->ensemble[i];
  snprintf(c->label, sizeof c->label, "%s", own->label);
  c->init = (tt_init)own->model_init;
  c->loss = (tt_loss)own->train_loss;
#define X(name, meaning) c->name = (float)own->train_##name;
  TT_LOSS_PARAMETERS(X)
#undef X
  c->optimizer = (tt_optimizer)own->train_optimizer;
  c->nesterov = own->train_nesterov;
  c->schedule = (tt_schedule)own->train_schedule;
  c->schedule_options.growth = (float)own->train_schedule_growth;
  c->schedule_options.peak = (float)own->train_schedule_pct_start;
  for (int64_t m = 0; m < own->train_schedule_milestones.count && m < TT_MAX_MILESTONES; m++)
    c->schedule_options.milestone[c->schedule_options.milestones++] =
        (int32_t)own->train_schedule_milestones.value[m];
  c->batch_size = own->train_batch_size;
  c->label_variance = k->cfg->data_sigma && *k->cfg->data_sigma;
  c->parts = own->train_parts;
  c->resample = (tt_resample)own->train_resample;
  c->subsample = own->train_subsample;
  c->folds = own->train_folds;
  c->average = (tt_weight_average)own->train_average;
  c->retries = (int32_t)own->train_on_diverged_retries;
  c->retry_lr_scale = (float)own->train_on_diverged_lr_scale;
  c->retry_reseed = own->train_on_diverged_reseed;
  c->seed = (uint64_t)k->cfg->run_seed;
  return set_model(k, i, &c->model);
}

/* Number of classes: the largest label of the ensemble plus 1. */
static tt_err count_classes(const cohort_builder *k, const tt_ensemble_config *own,
                            int64_t *classes)
{
  const tt_dataset *d = k->data;
  int32_t *column = NULL;
  int64_t columns = 0;
  float largest = 1.0f;
  TT_TRY(tt_cohort_target_columns(own, k->target, &columns, &column));
  for (int64_t r = 0; d && d->y && r < d->rows; r++)
    for (int64_t i = 0; i < columns; i++) {
      float y = d->y[r * d->targets + column[i]];
      largest = y > largest ? y : largest; /* ignores NaN */
    }
  tt_free(column);
  *classes = (int64_t)fminf(largest, (float)TT_MAX_CLASSES) + 1; /* tt_model_lay_out rejects more */
  return TT_OK;
}

static tt_err find_classes(cohort_builder *k)
{
  TT_TRY(TT_ALLOC(k->classes, k->cfg->ensembles));
  for (int64_t i = 0; i < k->cfg->ensembles; i++) {
    const tt_ensemble_config *own = &k->cfg->ensemble[i];
    if (tt_output_forecast((tt_output)own->model_output) != TT_FORECAST_categorical) continue;
    k->classes[i] = own->model_classes;
    if (own->model_classes < 0) TT_TRY(count_classes(k, own, &k->classes[i]));
  }
  return TT_OK;
}

/* Ensembles with the same hash share a cohort; one of several networks shares none. */
static uint64_t cohort_hash(const cohort_builder *k, int64_t i)
{
  const tt_ensemble_config *own = &k->cfg->ensemble[i];
  const int64_t numbers[] = {count_targets(own, k->target), k->classes[i],
                             own->networks > 1 ? i + 1 : 0};
  return XXH3_64bits_withSeed(numbers, sizeof numbers, tt_config_cohort_hash(own));
}

static tt_err group_ensembles(cohort_builder *k)
{
  uint64_t *form = NULL;
  TT_TRY(TT_ALLOC(form, k->cfg->ensembles));
  for (int64_t i = 0; i < k->cfg->ensembles; i++) {
    form[i] = cohort_hash(k, i);
    while (form[k->group[i]] != form[i]) k->group[i]++;
  }
  tt_free(form);
  return TT_OK;
}

/* The cohort of ensemble `first` and all later ensembles of the same group. */
static tt_err fill_cohort(const cohort_builder *k, int64_t first, tt_cohort *c)
{
  const tt_config *cfg = k->cfg;
  int64_t ensembles = 0, members = 0, number = 0;
  int64_t groups = k->data && k->data->groups ? k->data->groups->count : 1;
  for (int64_t i = first; i < cfg->ensembles; i++) {
    if (k->group[i] != first) continue;
    ensembles += groups;
    members += groups * cfg->ensemble[i].members;
  }
  c->joined = cfg->ensemble[first].network > 0;
  TT_TRY(set_options(k, first, c));
  TT_TRY(tt_cohort_set_encoding(k->data, c));
  TT_TRY(TT_ALLOC(c->ensemble, ensembles));
  TT_TRY(TT_ALLOC(c->member, members));
  c->ensembles = ensembles;
  for (int64_t i = first; i < cfg->ensembles; i++)
    for (int64_t g = 0; k->group[i] == first && g < groups; g++)
      TT_TRY(add_ensemble(k, &cfg->ensemble[i], number++, c));
  return TT_OK;
}

static tt_err build_cohorts(cohort_builder *k, tt_cohorts *out)
{
  TT_TRY(check_name_hashes(k->cfg));
  TT_TRY(TT_ALLOC(k->group, k->cfg->ensembles));
  TT_TRY(find_classes(k));
  TT_TRY(group_ensembles(k));
  TT_TRY(TT_ALLOC(out->at, k->cfg->ensembles));
  for (int64_t i = 0; i < k->cfg->ensembles; i++) {
    if (k->group[i] != i) continue;
    TT_TRY(TT_ALLOC(out->at[out->count], 1));
    TT_TRY(fill_cohort(k, i, out->at[out->count++]));
  }
  return TT_OK;
}

tt_err tt_cohorts_create(const tt_config *cfg, int64_t inputs, const tt_columns *target,
                         const tt_dataset *data, tt_cohorts *out)
{
  int64_t components = cfg->data_targets_pca; /* the networks predict these */
  tt_columns trained = *target;
  if (components && components < target->count) trained.count = components;
  cohort_builder k = {.cfg = cfg, .inputs = inputs, .target = &trained, .data = data};
  tt_cohorts made = {0};
  tt_err e = build_cohorts(&k, &made);
  tt_free(k.group);
  tt_free(k.classes);
  if (e) tt_cohorts_destroy(&made);
  *out = made;
  return e;
}

void tt_cohorts_destroy(tt_cohorts *c)
{
  for (int64_t i = 0; i < c->count; i++) tt_cohort_destroy(&c->at[i]);
  tt_free(c->at);
  c->count = 0;
}

int64_t tt_cohorts_members(const tt_cohorts *all)
{
  int64_t members = 0;
  for (int64_t i = 0; i < all->count; i++) members += all->at[i]->members;
  return members;
}

tt_err tt_ensemble_copy(const tt_ensemble *src, tt_ensemble *dst)
{
  *dst = *src;
  dst->name = NULL;
  dst->column = NULL;
  TT_TRY(tt_text_set(&dst->name, src->name ? src->name : ""));
  TT_TRY(TT_ALLOC(dst->column, src->targets));
  memcpy(dst->column, src->column, (size_t)src->targets * sizeof *src->column);
  return TT_OK;
}

void tt_cohort_destroy(tt_cohort **c)
{
  if (!*c) return;
  for (int64_t i = 0; (*c)->ensemble && i < (*c)->ensembles; i++) {
    tt_free((*c)->ensemble[i].name);
    tt_free((*c)->ensemble[i].column);
  }
  tt_front_destroy(&(*c)->model.front);
  tt_free_all(&(*c)->ensemble, &(*c)->member, &(*c)->initial, &(*c)->encoding, c);
}
