/* axis_labels.c — see axis_labels.h. */
#include "io/results/axis_labels.h"

#include "core/base/int.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tt_axis_labels_free(tt_axis_labels *o)
{
  tt_free_all(&o->by_target, &o->place, &o->member, &o->cohort, &o->index, &o->head, &o->owner,
              &o->network);
  for (int64_t i = 0; o->network_text && i < o->networks; i++) tt_free(o->network_text[i]);
  tt_free(o->network_text);
  tt_free(o->ensemble);
  tt_free(o->target);
  tt_free(o->units);
  for (int64_t i = 0; o->label && i < o->columns; i++) tt_free(o->label[i]);
  tt_free(o->label);
}

/* Whether networks differ. */
static int has_several(const tt_trained_ensembles *all)
{
  int several = all->count > 1;
  for (int64_t i = 0; i < all->count; i++) several |= all->at[i]->networks > 0;
  return several;
}

static tt_err allocate(const tt_trained_ensembles *all, tt_axis_labels *o)
{
  if (has_several(all)) TT_TRY(TT_ALLOC(o->network, o->members));
  TT_TRY(TT_ALLOC(o->place, o->members * o->width));
  TT_TRY(TT_ALLOC(o->member, o->members));
  TT_TRY(TT_ALLOC(o->cohort, o->members));
  TT_TRY(TT_ALLOC(o->index, o->members));
  TT_TRY(TT_ALLOC(o->head, o->members));
  TT_TRY(TT_ALLOC(o->owner, o->members));
  TT_TRY(TT_ALLOC(o->network_text, o->networks));
  TT_TRY(TT_ALLOC(o->ensemble, o->columns));
  TT_TRY(TT_ALLOC(o->target, o->columns));
  TT_TRY(TT_ALLOC(o->units, o->columns));
  return TT_ALLOC(o->label, o->columns);
}

/* "64-64 silu", "wide: front-64 relu, layer_norm"; "linear" without hidden layers. */
static tt_err describe_network(const tt_trained_ensemble *all, int64_t number, char **out)
{
  const tt_model *m = tt_trained_ensemble_model(all, number);
  const char *label = all->networks ? all->network[number].label : "";
  char text[64 + TT_LABEL_SIZE + 12 * TT_MAX_LAYERS] = "";
  size_t used = (size_t)snprintf(text, sizeof text, "%s%s", label, *label ? ": " : "");
  const tt_layer *first = &m->layer[0];
  int hidden = m->layers > 1, residual = 0;
  if (m->front.layers)
    used += (size_t)snprintf(text + used, sizeof text - used, "front%s", hidden ? "-" : " ");
  for (int l = 0; l < m->layers - 1; l++) {
    residual |= m->layer[l].residual;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, l ? "-" : "",
                             m->layer[l].out);
  }
  if (!hidden && !m->front.layers)
    snprintf(text + used, sizeof text - used, "linear");
  else
    snprintf(text + used, sizeof text - used, "%s%s%s%s", hidden ? " " : "",
             tt_choice_activation[tt_model_activation(m)],
             hidden && first->norm >= 0 ? ", layer_norm" : "", residual ? ", residual" : "");
  return tt_text_set(out, text);
}

/* Probabilities and entropies have no units, even if the labels have units. */
static const char *units_of(const tt_trained_ensemble *m, int32_t target)
{
  return tt_output_is_class(m->model.output) ? "1" : m->target.units[target];
}

/* Column j of ensemble e. */
static tt_err fill_column(const tt_trained_ensemble *m, const tt_ensemble *e, int64_t j,
                          int64_t column, tt_axis_labels *o)
{
  int64_t q = m->model.quantities;
  int32_t target = e->column[j / q];
  o->ensemble[column] = o->groups ? m->groups->ensemble : e->name;
  o->target[column] = m->target.name[target];
  o->units[column] = units_of(m, target);
  return tt_trained_ensemble_column_name(m, e, j, &o->label[column]);
}

/* The texts of its networks begin at `text`, its members at `first`, its columns at *column. */
static tt_err fill_ensembles(const tt_trained_ensemble *m, char *const *text, int64_t first,
                             int64_t *column, tt_axis_labels *o)
{
  int64_t network = 0;
  for (int64_t i = 0; i < m->members; i++) {
    tt_trained_ensemble_weights(m, i, &network);
    o->member[first + i] = first + i;
    o->cohort[first + i] = m->cohort[i];
    if (o->network) o->network[first + i] = text[network];
    o->index[first + i] = m->index[i];
    o->head[first + i] = m->head[i];
    o->heads |= m->head[i] > 0;
  }
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    for (int64_t j = 0; j < e->members; j++) o->owner[first + e->first + j] = e->name;
    for (int64_t j = 0; (i == 0 || !o->groups) && j < tt_trained_ensemble_width(m); j++, ++*column)
      TT_TRY(fill_column(m, e, j, *column, o));
  }
  return TT_OK;
}

static tt_err fill_all(const tt_trained_ensembles *all, tt_axis_labels *o)
{
  int64_t first = 0, column = 0, network = 0;
  for (int64_t i = 0; i < all->count; i++) {
    for (int64_t k = 0; k < tt_trained_ensemble_networks(all->at[i]); k++)
      TT_TRY(describe_network(all->at[i], k, &o->network_text[network + k]));
    TT_TRY(fill_ensembles(all->at[i], o->network_text + network, first, &column, o));
    first += all->at[i]->members;
    network += tt_trained_ensemble_networks(all->at[i]);
  }
  return TT_OK;
}

static void find_common_units(tt_axis_labels *o)
{
  const char **texts[] = {o->ensemble, o->target, o->units, (const char **)o->label};
  for (int i = 0; i < 4; i++) {
    int64_t length = tt_h5_max_text_length(o->columns, texts[i]);
    o->text = length > o->text ? length : o->text;
  }
  const tt_by_groups *g = o->all->at[0]->groups;
  for (int64_t i = 0; g && i < g->count + g->small; i++) {
    const char *name = i < g->count ? g->name[i] : g->small_name[i - g->count];
    o->text = tt_max_i64(o->text, tt_h5_max_text_length(1, &name));
  }
  int64_t target = tt_schema_max_column_text(&o->all->at[0]->target);
  if (target > o->text) o->text = target;
  int64_t network = tt_h5_max_text_length(o->networks, (const char *const *)o->network_text);
  if (o->network && network > o->text) o->text = network;
  o->common_units = o->columns && o->units[0][0] ? o->units[0] : NULL;
  for (int64_t i = 0; o->common_units && i < o->columns; i++)
    if (strcmp(o->units[i], o->common_units) != 0) o->common_units = NULL;
}

tt_err tt_axis_labels_create(const tt_trained_ensembles *all, tt_axis_labels *out)
{
  tt_axis_labels o = {.all = all,
                      .targets = all->at[0]->target.count,
                      .members = tt_trained_ensembles_members(all),
                      .columns = tt_trained_ensembles_columns(all),
                      .networks = tt_trained_ensembles_networks(all)};
  if (all->at[0]->groups) {
    o.groups = all->at[0]->groups->count;
    o.columns /= o.groups;
  }
  for (int64_t i = 0; i < all->count; i++) {
    int64_t targets = tt_trained_ensemble_targets(all->at[i]);
    int64_t width = tt_trained_ensemble_width(all->at[i]);
    o.most_targets = targets > o.most_targets ? targets : o.most_targets;
    o.width = width > o.width ? width : o.width;
  }
  tt_err e = allocate(all, &o);
  if (!e) e = fill_all(all, &o);
  if (e) {
    tt_axis_labels_free(&o);
    return e;
  }
  find_common_units(&o);
  *out = o;
  return TT_OK;
}

static void write_groups(tt_schema *s, const tt_axis_labels *o)
{
  const tt_by_groups *g = o->all->at[0]->groups;
  tt_schema_create_dimension(s, TT_GROUP_AXIS, g->count);
  tt_schema_write_texts(s, "group", TT_GROUP_AXIS, "name_strlen", (const char *const *)g->name,
                        "value of the columns of by; " TT_BY_POOLED " = all rows");
  if (!g->small) return;
  tt_schema_create_dimension(s, "small_group_index", g->small);
  tt_schema_write_texts(s, "small_group", "small_group_index", "name_strlen",
                        (const char *const *)g->small_name,
                        "groups with too few rows for an ensemble of their own");
  TT_SCHEMA_WRITE(s, g->small_rows, "small_group_rows", I64, "1", "rows of the small group",
                  "small_group", "small_group_index");
}

void tt_axis_labels_write_columns(tt_schema *s, const tt_axis_labels *o)
{
  tt_schema_create_dimension(s, "column", o->columns);
  tt_schema_create_dimension(s, "name_strlen", o->text);
  tt_schema_write_texts(s, "column_ensemble", "column", "name_strlen", o->ensemble,
                        "ensemble that predicts the column");
  tt_schema_write_texts(s, "column_target", "column", "name_strlen", o->target,
                        "target of the column");
  tt_schema_write_texts(s, "column_label", "column", "name_strlen", (const char *const *)o->label,
                        "target, with its level or class");
  tt_schema_write_texts(s, "column_units", "column", "name_strlen", o->units,
                        "units of the column");
  if (o->groups) write_groups(s, o);
}

void tt_axis_labels_write_targets(tt_schema *s, const tt_axis_labels *o)
{
  tt_schema_write_columns(s, "target", "name_strlen", "target_name", "target_units",
                          &o->all->at[0]->target);
}

tt_err tt_axis_labels_reserve(tt_axis_labels *o)
{
  return TT_ALLOC(o->by_target, o->members * o->targets);
}

const double *tt_axis_labels_by_target(const tt_axis_labels *o, const double *of_place)
{
  int64_t member = 0;
  for (int64_t i = 0; i < o->members * o->targets; i++) o->by_target[i] = (double)NAN;
  for (int64_t n = 0; of_place && n < o->all->count; n++) {
    const tt_trained_ensemble *m = o->all->at[n];
    for (int64_t e = 0; e < m->ensembles; e++)
      for (int64_t i = 0; i < m->ensemble[e].members; i++, member++)
        for (int64_t k = 0; k < tt_trained_ensemble_targets(m); k++)
          o->by_target[member * o->targets + m->ensemble[e].column[k]] =
              of_place[member * o->most_targets + k];
  }
  return o->by_target;
}

/* place [members][size]: the first column of each target, or with each = 1 all columns; -1 beyond
 * those of the member. */
static void fill_places(const tt_axis_labels *o, int64_t size, int each)
{
  int64_t member = 0, column = 0;
  for (int64_t i = 0; i < o->members * size; i++) o->place[i] = -1;
  for (int64_t n = 0; n < o->all->count; n++) {
    const tt_trained_ensemble *m = o->all->at[n];
    int64_t width = tt_trained_ensemble_width(m), step = each ? 1 : m->model.quantities;
    for (int64_t e = 0; e < m->ensembles; e++, column += width)
      for (int64_t i = 0; i < m->ensemble[e].members; i++, member++)
        for (int64_t k = 0; k < width / step; k++)
          o->place[member * size + k] = (int32_t)(column + k * step);
  }
}

const char *tt_axis_labels_write_places(tt_schema *s, const tt_axis_labels *o)
{
  int several = o->width != o->most_targets;
  const char *name = several ? "quantity" : "ensemble_target";
  int64_t size = several ? o->width : o->most_targets;
  fill_places(o, size, several);
  tt_schema_create_dimension(s, name, size);
  TT_SCHEMA_WRITE(s, o->place, "member_column", I32, NULL,
                  "column of each number of the member, from 0; -1 = none", TT_MEMBER_COORDINATES,
                  "member", name);
  return name;
}

void tt_axis_labels_write_members(tt_schema *s, const tt_axis_labels *o)
{
  TT_SCHEMA_COORDINATE(s, o->members, o->member, "member", I64, NULL, "number of the member");
  tt_schema_write_texts(s, "ensemble", "member", "name_strlen", o->owner, "ensemble of the member");
  TT_SCHEMA_WRITE(s, o->cohort, "cohort", I32, NULL,
                  "cohort of the member: members with equal networks, trained together", "ensemble",
                  "member");
  TT_SCHEMA_WRITE(s, o->index, "member_index", I32, NULL, "number of the member in its ensemble",
                  "ensemble", "member");
  if (o->network)
    tt_schema_write_texts(s, "network", "member", "name_strlen", o->network,
                          "label and hidden layers of the network of the member");
  if (o->heads)
    TT_SCHEMA_WRITE(s, o->head, "head", I32, NULL, "number of the head of the member, from 1",
                    "ensemble", "member");
}
