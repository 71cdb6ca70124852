/* trained_ensemble.c — see trained_ensemble.h. */
#include "core/model/trained_ensemble.h"

#include "core/base/list.h"
#include "core/base/mem.h"

#include <math.h>
#include <string.h>

static tt_err allocate_networks(const tt_network *network, tt_trained_ensemble *c)
{
  int64_t first = 0;
  TT_TRY(TT_ALLOC(c->network, c->networks));
  for (int64_t i = 0; i < c->networks; i++) {
    c->network[i] = network[i];
    c->network[i].first = first;
    c->network[i].w = NULL;
    first += network[i].members;
    TT_TRY(tt_front_own(&c->network[i].model.front));
  }
  return TT_OK;
}

/* The weights of the networks stand one after the other. */
static tt_err allocate_weights(tt_trained_ensemble *c)
{
  TT_TRY(TT_ALLOC(c->w, tt_trained_ensemble_parameters(c)));
  float *place = c->w;
  for (int64_t i = 0; i < c->networks; i++) {
    c->network[i].w = place;
    place += c->network[i].members * c->network[i].model.params;
  }
  return TT_OK;
}

static tt_err allocate(tt_trained_ensemble *c)
{
  TT_TRY(TT_ALLOC(c->ensemble, c->ensembles));
  TT_TRY(TT_ALLOC(c->weight, c->members));
  TT_TRY(TT_ALLOC(c->index, c->members));
  TT_TRY(TT_ALLOC(c->head, c->members));
  TT_TRY(TT_ALLOC(c->cohort, c->members));
  TT_TRY(TT_ALLOC(c->x_low, c->model.inputs));
  TT_TRY(TT_ALLOC(c->x_high, c->model.inputs));
  for (int64_t i = 0; i < c->model.inputs; i++) c->x_low[i] = c->x_high[i] = NAN;
  return TT_ALLOC(c->status, c->members);
}

static tt_err create(int64_t networks, const tt_network *network, int64_t ensembles,
                     tt_trained_ensemble **out)
{
  tt_trained_ensemble *c = NULL;
  TT_TRY(TT_ALLOC(c, 1));
  c->model = network[0].model;
  c->networks = networks > 1 ? networks : 0;
  c->ensembles = ensembles;
  for (int64_t i = 0; i < networks; i++) c->members += network[i].members;
  tt_err e = tt_front_own(&c->model.front);
  if (!e && c->networks) e = allocate_networks(network, c);
  if (!e) e = allocate(c);
  if (e) tt_trained_ensemble_destroy(&c);
  *out = c;
  return e;
}

tt_err tt_trained_ensemble_create_mixed(int64_t networks, const tt_network *network,
                                        int64_t ensembles, tt_trained_ensemble **out)
{
  tt_trained_ensemble *c = NULL;
  TT_TRY(create(networks, network, ensembles, &c));
  tt_err e = allocate_weights(c);
  if (e) tt_trained_ensemble_destroy(&c);
  *out = c;
  return e;
}

int64_t tt_trained_ensemble_networks(const tt_trained_ensemble *c)
{
  return c->networks ? c->networks : 1;
}

int64_t tt_trained_ensemble_parameters(const tt_trained_ensemble *c)
{
  int64_t sum = c->networks ? 0 : c->members * c->model.params;
  for (int64_t i = 0; i < c->networks; i++)
    sum += c->network[i].members * c->network[i].model.params;
  return sum;
}

const tt_model *tt_trained_ensemble_model(const tt_trained_ensemble *c, int64_t number)
{
  return c->networks ? &c->network[number].model : &c->model;
}

int64_t tt_trained_ensemble_first(const tt_trained_ensemble *c, int64_t number)
{
  return c->networks ? c->network[number].first : 0;
}

tt_trained_ensemble tt_trained_ensemble_part(const tt_trained_ensemble *c, int64_t number,
                                             tt_ensemble *own)
{
  tt_trained_ensemble part = *c;
  if (!c->networks) return part;
  const tt_network *n = &c->network[number];
  part.model = n->model;
  part.networks = 0;
  part.network = NULL;
  *own = c->ensemble[0];
  own->first = 0;
  own->members = part.members = n->members;
  part.ensemble = own;
  part.w = n->w;
  part.weight += n->first;
  part.status += n->first;
  part.index += n->first;
  part.head += n->first;
  part.cohort += n->first;
  return part;
}

const float *tt_trained_ensemble_weights(const tt_trained_ensemble *c, int64_t member,
                                         int64_t *number)
{
  *number = 0;
  if (!c->networks) return c->w + member * c->model.params;
  while (member >= c->network[*number].first + c->network[*number].members) ++*number;
  const tt_network *n = &c->network[*number];
  return n->w + (member - n->first) * n->model.params;
}

void tt_trained_ensemble_destroy(tt_trained_ensemble **c)
{
  if (!*c) return;
  for (int64_t i = 0; (*c)->ensemble && i < (*c)->ensembles; i++) {
    tt_free((*c)->ensemble[i].name);
    tt_free((*c)->ensemble[i].column);
  }
  for (int64_t i = 0; (*c)->network && i < (*c)->networks; i++)
    tt_front_destroy(&(*c)->network[i].model.front);
  tt_front_destroy(&(*c)->model.front);
  tt_free_all(&(*c)->ensemble, &(*c)->network, &(*c)->w, &(*c)->weight, &(*c)->status, &(*c)->index,
              &(*c)->head, &(*c)->cohort, &(*c)->x_low, &(*c)->x_high, &(*c)->typical_epistemic);
  tt_columns_free(&(*c)->input);
  tt_columns_free(&(*c)->target);
  tt_scaler_free(&(*c)->scaler);
  tt_calibration_free(&(*c)->calibration);
  tt_by_groups_destroy(&(*c)->groups);
  tt_free(*c);
}

static void find_ranges(const tt_dataset *d, tt_trained_ensemble *c)
{
  for (int64_t r = 0; d->split && r < d->rows; r++)
    for (int64_t i = 0; d->split[r] == TT_TRAIN && i < d->inputs; i++) {
      double x = (double)d->x[r * d->inputs + i];
      c->x_low[i] = fmin(c->x_low[i], x); /* fmin and fmax ignore NaN */
      c->x_high[i] = fmax(c->x_high[i], x);
    }
}

/* With components of the targets every ensemble predicts all of them. */
static tt_err take_all_targets(int64_t targets, tt_ensemble *e)
{
  tt_free(e->column);
  e->targets = targets;
  TT_TRY(TT_ALLOC(e->column, targets));
  for (int64_t k = 0; k < targets; k++) e->column[k] = (int32_t)k;
  return TT_OK;
}

static tt_err copy_metadata(const tt_cohort_part *p, const tt_dataset *d, tt_trained_ensemble *out)
{
  int64_t first = p->members.first;
  out->variance_floor = p->cohort->variance_floor;
  for (int64_t i = 0; i < p->ensembles; i++) {
    TT_TRY(tt_ensemble_copy(&p->cohort->ensemble[p->ensemble + i], &out->ensemble[i]));
    out->ensemble[i].first -= first;
    if (d->scaler.components) TT_TRY(take_all_targets(d->targets, &out->ensemble[i]));
  }
  if (out->networks) out->ensemble[0].members = out->members;
  find_ranges(d, out);
  TT_TRY(tt_columns_copy(&d->input, &out->input));
  TT_TRY(tt_columns_copy(&d->target, &out->target));
  return tt_scaler_copy(&d->scaler, &out->scaler);
}

static void copy_numbers(int64_t parts, const tt_cohort_part *part, tt_trained_ensemble *out)
{
  int64_t offset = 0;
  for (int64_t k = 0; k < parts; k++) {
    const tt_slice members = part[k].members;
    const tt_member *m = part[k].cohort->member + members.first;
    for (int64_t i = 0; i < members.count; i++, offset++) {
      out->index[offset] = m[i].index;
      out->head[offset] = m[i].head;
      out->cohort[offset] = part[k].number;
    }
  }
}

tt_err tt_trained_ensemble_from_parts(int64_t parts, const tt_cohort_part *part,
                                      const tt_dataset *d, tt_trained_ensemble **out)
{
  tt_trained_ensemble *trained = NULL;
  tt_network *network = NULL;
  TT_TRY(TT_ALLOC(network, parts));
  for (int64_t i = 0; i < parts; i++) {
    network[i] = (tt_network){.model = part[i].cohort->model, .members = part[i].members.count};
    memcpy(network[i].label, part[i].cohort->label, sizeof network[i].label);
  }
  tt_err e = create(parts, network, part->ensembles, &trained);
  tt_free(network);
  if (!e) e = copy_metadata(part, d, trained);
  if (!e) copy_numbers(parts, part, trained);
  if (e) tt_trained_ensemble_destroy(&trained);
  *out = trained;
  return e;
}

int tt_trained_ensemble_knows_ranges(const tt_trained_ensemble *c) { return !isnan(c->x_low[0]); }

static double beyond_range(const tt_trained_ensemble *c, int64_t input, float x)
{
  double low = c->x_low[input], high = c->x_high[input];
  double beyond = fmax(0.0, fmax(low - (double)x, (double)x - high));
  return high > low ? beyond / (high - low) : beyond;
}

double tt_trained_ensemble_outside(const tt_trained_ensemble *c, const float *x, int64_t *input)
{
  double most = 0.0;
  for (int64_t d = 0; d < c->model.inputs; d++) {
    double beyond = beyond_range(c, d, x[d]);
    if (input && beyond > most) *input = d;
    most = fmax(most, beyond);
  }
  return most;
}

int64_t tt_trained_ensemble_targets(const tt_trained_ensemble *c)
{
  return c->scaler.components ? c->scaler.targets : c->model.targets;
}

void tt_trained_ensemble_expand(const tt_trained_ensemble *c, int64_t rows, int64_t stride,
                                const float *amplitude, const float *variance, float *mean,
                                float *spread)
{
  enum { BLOCK = 64 };
  const tt_scaler *s = &c->scaler;
  for (int64_t first = 0; first < rows; first += BLOCK) {
    int64_t n = rows - first < BLOCK ? rows - first : BLOCK;
    for (int64_t t = 0; t < s->targets; t++) {
      double sum[BLOCK], squares[BLOCK];
      for (int64_t r = 0; r < n; r++) sum[r] = s->component_mean[t], squares[r] = s->residual[t];
      for (int64_t l = 0; l < s->components; l++) {
        double loading = s->component[l * s->targets + t];
        const float *a = amplitude + l * stride + first, *v = variance + l * stride + first;
        for (int64_t r = 0; r < n; r++) {
          sum[r] += loading * (double)a[r];
          squares[r] += loading * loading * (double)v[r];
        }
      }
      for (int64_t r = 0; r < n; r++) {
        mean[t * stride + first + r] = (float)sum[r];
        spread[t * stride + first + r] = (float)squares[r];
      }
    }
  }
}

int64_t tt_trained_ensemble_width(const tt_trained_ensemble *c)
{
  return tt_trained_ensemble_targets(c) * c->model.quantities;
}

int64_t tt_trained_ensemble_columns(const tt_trained_ensemble *c)
{
  return c->ensembles * tt_trained_ensemble_width(c);
}

/* "species=setosa", or "species=0" for a class without a name. */
static tt_err name_class(const tt_columns *target, int32_t k, int32_t number, char **text)
{
  tt_list *names = NULL;
  const char *list = target->classes[k];
  if (*list) TT_TRY(tt_list_parse("classes", list, &names));
  tt_err e = names && number < names->count
                 ? tt_text_format(text, "%s=%s", target->name[k], names->item[number])
                 : tt_text_format(text, "%s=%d", target->name[k], (int)number);
  tt_list_destroy(&names);
  return e;
}

tt_err tt_trained_ensemble_column_name(const tt_trained_ensemble *c, const tt_ensemble *e,
                                       int64_t column, char **text)
{
  int32_t j = (int32_t)(column % c->model.quantities);
  int32_t target = e->column[column / c->model.quantities];
  const char *name = c->target.name[target];
  switch (tt_output_forecast(c->model.output)) {
  case TT_FORECAST_quantiles:
    return tt_text_format(text, "%s q%g", name, (double)c->model.level[j]);
  case TT_FORECAST_categorical:
    if (j == c->model.levels) return tt_text_format(text, "%s entropy", name);
    return name_class(&c->target, target, j, text);
  default: return tt_text_set(text, name);
  }
}

tt_err tt_trained_ensembles_create(int64_t count, tt_trained_ensembles *out)
{
  tt_trained_ensembles all = {.count = count};
  TT_TRY(TT_ALLOC(all.at, count));
  *out = all;
  return TT_OK;
}

void tt_trained_ensembles_destroy(tt_trained_ensembles *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++) tt_trained_ensemble_destroy(&all->at[i]);
  tt_free(all->at);
  *all = (tt_trained_ensembles){.count = 0};
}

int64_t tt_trained_ensembles_members(const tt_trained_ensembles *all)
{
  int64_t members = 0;
  for (int64_t i = 0; i < all->count; i++) members += all->at[i]->members;
  return members;
}

int64_t tt_trained_ensembles_networks(const tt_trained_ensembles *all)
{
  int64_t networks = 0;
  for (int64_t i = 0; i < all->count; i++) networks += tt_trained_ensemble_networks(all->at[i]);
  return networks;
}

int64_t tt_trained_ensembles_columns(const tt_trained_ensembles *all)
{
  int64_t columns = 0;
  for (int64_t i = 0; i < all->count; i++) columns += tt_trained_ensemble_columns(all->at[i]);
  return columns;
}

tt_err tt_trained_parts_create(const tt_trained_ensembles *all, tt_trained_parts *out)
{
  int64_t networks = tt_trained_ensembles_networks(all);
  *out = (tt_trained_parts){0};
  tt_err e = TT_ALLOC(out->at, networks);
  if (!e) e = TT_ALLOC(out->own, networks);
  for (int64_t i = 0; !e && i < all->count; i++)
    for (int64_t k = 0; k < tt_trained_ensemble_networks(all->at[i]); k++, out->count++)
      out->at[out->count] = tt_trained_ensemble_part(all->at[i], k, &out->own[out->count]);
  if (e) tt_trained_parts_free(out);
  return e;
}

void tt_trained_parts_free(tt_trained_parts *p)
{
  tt_free(p->at);
  tt_free(p->own);
  p->count = 0;
}

static tt_err allocate_calibration(tt_calibration *k)
{
  TT_TRY(TT_ALLOC(k->std_scale, k->columns));
  TT_TRY(TT_ALLOC(k->noise, k->columns));
  TT_TRY(TT_ALLOC(k->rows, k->columns));
  TT_TRY(TT_ALLOC(k->level, k->levels));
  return TT_ALLOC(k->width, k->levels * k->columns);
}

tt_err tt_calibration_create(int64_t columns, int64_t levels, const double *level,
                             tt_calibration *out)
{
  tt_calibration k = {.columns = columns, .levels = levels};
  tt_err e = allocate_calibration(&k);
  if (e) {
    tt_calibration_free(&k);
    return e;
  }
  for (int64_t i = 0; i < columns; i++) k.std_scale[i] = 1.0;
  for (int64_t i = 0; i < levels * columns; i++) k.width[i] = INFINITY;
  if (levels) memcpy(k.level, level, (size_t)levels * sizeof *level);
  *out = k;
  return TT_OK;
}

void tt_calibration_free(tt_calibration *k)
{
  tt_free_all(&k->std_scale, &k->noise, &k->rows, &k->level, &k->width);
  *k = (tt_calibration){0};
}
