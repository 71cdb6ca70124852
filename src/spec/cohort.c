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
  return (tt_hyper){
      .learning_rate = (float)own->learning_rate,
      .l2 = (float)cfg->train_l2,
      .weight_decay = (float)cfg->train_weight_decay,
      .momentum = (float)cfg->train_momentum,
      .beta1 = (float)cfg->train_beta1,
      .beta2 = (float)cfg->train_beta2,
      .epsilon = (float)cfg->train_epsilon,
      .clip_norm = (float)cfg->train_clip_norm,
      .min_delta = (float)cfg->train_min_delta,
      .patience = (int32_t)cfg->train_patience,
      .epochs = (int32_t)cfg->train_epochs,
  };
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
  c->optimizer = (tt_optimizer)cfg->train_optimizer;
  c->nesterov = cfg->train_nesterov;
  c->batch_size = cfg->train_batch_size;
  c->batches = (tt_batches)cfg->train_batches;
  c->resample = (tt_resample)cfg->train_resample;
  c->subsample = cfg->train_subsample;
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

int64_t tt_cohort_epoch_rows(const tt_cohort *c, int64_t labelled)
{
  if (c->resample != TT_RESAMPLE_subsample) return labelled;
  int64_t rows = (int64_t)ceil(c->subsample * (double)labelled);
  return rows < 1 && labelled > 0 ? 1 : rows;
}

tt_order tt_order_make(const tt_cohort *c, const tt_member *m, int64_t labelled, int64_t epoch)
{
  return tt_order_fix(c->seed, m->stream, c->batches, c->resample, (uint32_t)labelled,
                      (uint32_t)tt_cohort_epoch_rows(c, labelled), (uint32_t)epoch);
}
