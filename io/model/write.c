/* write.c — tt_model_write of model_file.h; the layout is in docs/files.md. */
#include "core/base/mem.h"
#include "core/model/state.h"
#include "io/model/calibration.h"
#include "io/model/flat.h"
#include "io/model/fold_scales.h"
#include "io/model/model_file.h"
#include "io/model/model_internal.h"
#include "io/model/net_inputs_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of the file that must be assembled from the cohorts before the write. */
typedef struct model_arrays {
  int64_t cohorts;                     /* networks of all trained ensembles */
  int64_t members, ensembles, targets; /* of all cohorts together; the largest K */
  int64_t *member;                     /* [G] 0, 1, 2, ... */
  int32_t *ensemble_of_member, *index, *snapshot,
      *cohort_of_member; /* [G] ensemble of each member, number in the ensemble, snapshot, cohort */
  double *weight;        /* [G] */
  int8_t *status;        /* [G] */
  int snapshots;         /* whether any member is a snapshot */
  const char **name;     /* [ensembles] borrowed */
  const char **by;       /* [D + T] names of the normalizations */
  int64_t *first, *count, *key; /* [ensembles] */
  int32_t *cohort;              /* [ensembles] */
  int32_t *column;              /* [ensembles][K], -1 beyond the targets of an ensemble */
  float *tensor;                /* [members of this rank][numbers] of the largest tensor */
  tt_fold_tables folds;
  int flat;           /* 1: several cohorts, or scales of folds: tables instead of tensors */
  tt_flat_nets *nets; /* with flat */
  tt_calibration calibration; /* of all columns */
  tt_net_inputs_table net;
  int64_t columns;
  char **label;        /* [columns] owned, tt_trained_ensemble_column_name */
  double *epistemic;   /* [columns] typical_epistemic; NULL: not known */
  int64_t name_length; /* bytes of the longest name or unit */
} model_arrays;

static void free_file_arrays(model_arrays *t)
{
  tt_free_all(&t->member, &t->ensemble_of_member, &t->index, &t->snapshot, &t->cohort_of_member,
              &t->weight, &t->status, &t->name, &t->by, &t->first, &t->count, &t->key, &t->cohort,
              &t->column, &t->tensor, &t->epistemic);
  if (t->label) tt_h5_texts_free(t->columns, &t->label);
  tt_flat_nets_destroy(&t->nets);
  tt_fold_tables_free(&t->folds);
  tt_calibration_free(&t->calibration);
  tt_net_inputs_table_free(&t->net);
}

static int64_t longer_of(int64_t n, const char *const *text, int64_t so_far)
{
  int64_t length = tt_h5_max_text_length(n, text);
  return length > so_far ? length : so_far;
}

static int64_t longest_name(const tt_trained_ensemble *m, const model_arrays *t)
{
  int64_t most = longer_of(t->ensembles, t->name, t->net.longest);
  most = longer_of(t->columns, (const char *const *)t->label, most);
  most = longer_of(m->input.count + m->target.count, t->by, most);
  most = longer_of(m->input.count, (const char *const *)m->input.name, most);
  most = longer_of(m->input.count, (const char *const *)m->input.units, most);
  most = longer_of(m->target.count, (const char *const *)m->target.name, most);
  return longer_of(m->target.count, (const char *const *)m->target.units, most);
}

static tt_err allocate(const tt_trained_ensembles *all, const tt_model_shard *shard,
                       model_arrays *t)
{
  int64_t room = 1;
  t->cohorts = tt_trained_ensembles_networks(all);
  for (int64_t i = 0; i < all->count; i++) {
    const tt_trained_ensemble *m = all->at[i];
    t->members += m->members;
    t->ensembles += m->ensembles;
    int64_t targets = tt_trained_ensemble_targets(m);
    t->targets = targets > t->targets ? targets : t->targets;
  }
  TT_TRY(tt_fold_tables_create(all, t->targets, &t->folds));
  t->flat = t->cohorts > 1 || t->folds.networks;
  if (!t->flat) room = shard->slice.count * tt_model_largest_tensor(&all->at[0]->model);
  TT_TRY(TT_ALLOC(t->member, t->members));
  TT_TRY(TT_ALLOC(t->ensemble_of_member, t->members));
  TT_TRY(TT_ALLOC(t->index, t->members));
  TT_TRY(TT_ALLOC(t->snapshot, t->members));
  TT_TRY(TT_ALLOC(t->cohort_of_member, t->members));
  TT_TRY(TT_ALLOC(t->weight, t->members));
  TT_TRY(TT_ALLOC(t->status, t->members));
  TT_TRY(TT_ALLOC(t->name, t->ensembles));
  TT_TRY(TT_ALLOC(t->by, all->at[0]->input.count + all->at[0]->target.count));
  TT_TRY(TT_ALLOC(t->first, t->ensembles));
  TT_TRY(TT_ALLOC(t->count, t->ensembles));
  TT_TRY(TT_ALLOC(t->key, t->ensembles));
  TT_TRY(TT_ALLOC(t->cohort, t->ensembles));
  TT_TRY(TT_ALLOC(t->column, t->ensembles * t->targets));
  TT_TRY(TT_ALLOC_STORED(t->tensor, room));
  return t->flat ? tt_flat_nets_create(all, &t->nets) : TT_OK;
}

/* Its first cohort is `number`; its members start at `member`, its ensembles at `ensemble`. */
static tt_err fill_cohort(const tt_trained_ensemble *m, int32_t number, int64_t member,
                          int64_t ensemble, model_arrays *t)
{
  for (int64_t i = 0; i < m->members; i++) {
    t->member[member + i] = member + i;
    t->index[member + i] = m->index[i];
    t->snapshot[member + i] = m->snapshot[i];
    t->cohort_of_member[member + i] = m->cohort[i];
    t->snapshots |= m->snapshot[i] > 0;
    t->weight[member + i] = m->weight[i];
    t->status[member + i] = m->status[i];
  }
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    int64_t at = ensemble + i;
    if (e->targets != tt_trained_ensemble_targets(m) || e->first < 0 ||
        e->first + e->members > m->members)
      return TT_FAIL(INTERNAL, "ensemble %s: %" PRId64 " targets, members %" PRId64 " + %" PRId64,
                     e->name, e->targets, e->first, e->members);
    t->name[at] = e->name;
    t->first[at] = member + e->first;
    t->count[at] = e->members;
    t->key[at] = e->key;
    t->cohort[at] = number;
    for (int64_t j = 0; j < t->targets; j++)
      t->column[at * t->targets + j] = j < e->targets ? e->column[j] : -1;
    for (int64_t j = 0; j < e->members; j++)
      t->ensemble_of_member[member + e->first + j] = (int32_t)at;
  }
  return TT_OK;
}

static tt_err label_columns(const tt_trained_ensembles *all, model_arrays *t)
{
  char text[512];
  int64_t next = 0;
  t->columns = tt_trained_ensembles_columns(all);
  TT_TRY(TT_ALLOC(t->label, t->columns));
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++)
      for (int64_t j = 0; j < tt_trained_ensemble_width(all->at[i]); j++, next++) {
        tt_trained_ensemble_column_name(all->at[i], &all->at[i]->ensemble[e], j, text, sizeof text);
        TT_TRY(tt_text_set(&t->label[next], text));
      }
  return TT_OK;
}

static tt_err join_epistemic(const tt_trained_ensembles *all, model_arrays *t)
{
  int64_t first = 0;
  for (int64_t i = 0; i < all->count; i++)
    if (!all->at[i]->typical_epistemic) return TT_OK;
  TT_TRY(TT_ALLOC(t->epistemic, t->columns));
  for (int64_t i = 0; i < all->count; i++) {
    int64_t columns = tt_trained_ensemble_columns(all->at[i]);
    memcpy(t->epistemic + first, all->at[i]->typical_epistemic,
           (size_t)columns * sizeof *t->epistemic);
    first += columns;
  }
  return TT_OK;
}

static tt_err make_file_arrays_local(const tt_trained_ensembles *all, const tt_model_shard *shard,
                                     model_arrays *t)
{
  int64_t member = 0, ensemble = 0, cohort = 0;
  TT_TRY(allocate(all, shard, t));
  for (int64_t i = 0; i < all->count; i++) {
    TT_TRY(fill_cohort(all->at[i], (int32_t)cohort, member, ensemble, t));
    cohort += tt_trained_ensemble_networks(all->at[i]);
    member += all->at[i]->members;
    ensemble += all->at[i]->ensembles;
  }
  const tt_scaler *k = &all->at[0]->scaler;
  for (int64_t i = 0; i < k->inputs; i++) t->by[i] = tt_choice_normalize[k->x_normalize[i]];
  for (int64_t i = 0; i < k->targets; i++)
    t->by[k->inputs + i] = tt_choice_normalize[k->y_normalize[i]];
  TT_TRY(tt_net_inputs_table_create(&k->net, &t->net));
  TT_TRY(label_columns(all, t));
  t->name_length = longest_name(all->at[0], t);
  TT_TRY(join_epistemic(all, t));
  return tt_calibration_concat(all, &t->calibration);
}

static void write_dimensions(tt_schema *s, const tt_trained_ensemble *m, const model_arrays *t)
{
  TT_SCHEMA_COORDINATE(s, t->members, t->member, "member", I64, NULL, "number of the member");
  tt_schema_create_dimension(s, "ensemble", t->ensembles);
  tt_schema_create_dimension(s, "ensemble_target", t->targets);
  tt_schema_create_dimension(s, "feature", m->input.count);
  tt_schema_create_dimension(s, "target", m->target.count);
  tt_schema_create_dimension(s, "name_strlen", t->name_length);
  tt_schema_create_dimension(s, "column", t->columns);
  tt_schema_write_texts(s, "column_label", "column", "name_strlen", (const char *const *)t->label,
                        "target, with its level or class");
}

/* A variable with one value, or one row of values, per member or per ensemble. */
#define WRITE_MEMBERS(data_, name_, type_, units_, meaning_)                                       \
  TT_SCHEMA_WRITE(s, data_, name_, type_, units_, meaning_, NULL, "member")
#define WRITE_ENSEMBLES(data_, name_, type_, meaning_, ...)                                        \
  TT_SCHEMA_WRITE(s, data_, name_, type_, NULL, meaning_, "ensemble_name", __VA_ARGS__)

static void write_members(tt_schema *s, const model_arrays *t)
{
  WRITE_MEMBERS(t->ensemble_of_member, "ensemble_of_member", I32, NULL,
                "ensemble the member belongs to, from 0");
  WRITE_MEMBERS(t->weight, "member_weight", F64, "1",
                "weight of the member in its ensemble; 0 = not used");
  WRITE_MEMBERS(t->status, "status", I8, NULL, "how training ended");
  tt_schema_write_flags(s, "status", TT_STATUS_diverged + 1, tt_schema_status_meanings);
  WRITE_MEMBERS(t->index, "member_index", I32, NULL, "number of the member in its ensemble");
  if (t->flat)
    WRITE_MEMBERS(t->cohort_of_member, "member_cohort", I32, NULL,
                  "cohort that trained the member, as in checkpoints and results.h5");
  if (t->snapshots)
    WRITE_MEMBERS(t->snapshot, "snapshot", I32, NULL,
                  "number of the snapshot or head of the member, from 1");
}

static void write_ensembles(tt_schema *s, const model_arrays *t)
{
  tt_schema_write_texts(s, "ensemble_name", "ensemble", "name_strlen", t->name,
                        "name of the ensemble");
  WRITE_ENSEMBLES(t->first, "ensemble_first", I64, "first member of the ensemble", "ensemble");
  WRITE_ENSEMBLES(t->count, "ensemble_members", I64, "number of members of the ensemble",
                  "ensemble");
  WRITE_ENSEMBLES(t->key, "ensemble_key", I64, "upper half of the random streams of its members",
                  "ensemble");
  WRITE_ENSEMBLES(t->column, "ensemble_column", I32, "target column it predicts, from 0; -1 = none",
                  "ensemble", "ensemble_target");
  if (!t->flat) return;
  WRITE_ENSEMBLES(t->cohort, "ensemble_cohort", I32,
                  "cohort of its first member, in the tables of /net", "ensemble");
  tt_h5_write_attr(s->file, "/", "cohorts", TT_H5_I64, 1, &t->cohorts);
}

static void write_scaler(tt_schema *s, const tt_scaler *k, const char *const *by)
{
  static const char x[] = "f(x) = normalised * x_scale + x_mean; f by x_normalize",
                    y[] = "f(y) = normalised * y_scale + y_mean; f by y_normalize";
  static const char f[] = "how the column is normalised", lambda[] = "parameter of yeo_johnson";
  tt_h5_create_group(s->file, "scaler");
  TT_SCHEMA_WRITE(s, k->x_mean, "scaler/x_mean", F64, NULL, x, NULL, "feature");
  TT_SCHEMA_WRITE(s, k->x_scale, "scaler/x_scale", F64, NULL, x, NULL, "feature");
  TT_SCHEMA_WRITE(s, k->y_mean, "scaler/y_mean", F64, NULL, y, NULL, "target");
  TT_SCHEMA_WRITE(s, k->y_scale, "scaler/y_scale", F64, NULL, y, NULL, "target");
  TT_SCHEMA_WRITE(s, k->x_lambda, "scaler/x_lambda", F64, NULL, lambda, NULL, "feature");
  TT_SCHEMA_WRITE(s, k->y_lambda, "scaler/y_lambda", F64, NULL, lambda, NULL, "target");
  if (tt_scaler_fills(k))
    TT_SCHEMA_WRITE(s, k->x_fill, "scaler/x_fill", F64, NULL, "value where x is missing", NULL,
                    "feature");
  tt_schema_write_texts(s, "scaler/x_normalize", "feature", "name_strlen", by, f);
  tt_schema_write_texts(s, "scaler/y_normalize", "target", "name_strlen", by + k->inputs, f);
}

/* Principal components of the targets. */
static void write_components(tt_schema *s, const tt_scaler *k)
{
  if (!k->components) return;
  tt_schema_create_dimension(s, "component", k->components);
  TT_SCHEMA_WRITE(s, k->component, "scaler/y_component", F64, NULL,
                  "normalised y = y_component_mean + sum of amplitude * y_component", NULL,
                  "component", "target");
  TT_SCHEMA_WRITE(s, k->component_mean, "scaler/y_component_mean", F64, NULL,
                  "mean of the normalised y in the training rows", NULL, "target");
  TT_SCHEMA_WRITE(s, k->residual, "scaler/y_residual", F64, NULL,
                  "variance of the normalised y that the components do not hold", NULL, "target");
}

static void write_ranges(tt_schema *s, const tt_trained_ensemble *m)
{
  const char *input = tt_net_inputs_dimension(&m->scaler.net);
  if (!tt_trained_ensemble_knows_ranges(m)) return;
  TT_SCHEMA_WRITE(s, m->x_low, "scaler/x_low", F64, NULL,
                  "smallest normalised value in the training rows", NULL, input);
  TT_SCHEMA_WRITE(s, m->x_high, "scaler/x_high", F64, NULL,
                  "largest normalised value in the training rows", NULL, input);
}

static void write_epistemic(tt_schema *s, const double *epistemic)
{
  if (!epistemic) return;
  TT_SCHEMA_WRITE(s, epistemic, "typical_epistemic", F64, "1",
                  "root mean square of the epistemic standard deviation of the normalised target "
                  "over training rows",
                  NULL, "column");
}

static void write_columns(tt_schema *s, const tt_trained_ensemble *m)
{
  tt_h5_create_group(s->file, "names");
  tt_schema_write_texts(s, "names/feature_name", "feature", "name_strlen",
                        (const char *const *)m->input.name, "input column");
  tt_schema_write_texts(s, "names/feature_units", "feature", "name_strlen",
                        (const char *const *)m->input.units, "units of the input column");
  tt_schema_write_texts(s, "names/target_name", "target", "name_strlen",
                        (const char *const *)m->target.name, "target column");
  tt_schema_write_texts(s, "names/target_units", "target", "name_strlen",
                        (const char *const *)m->target.units, "units of the target column");
  tt_schema_write_given(s, "names/feature_name", &m->input);
  tt_schema_write_given(s, "names/target_name", &m->target);
}

/* The networks of the only cohort. */
typedef struct net {
  const tt_trained_ensemble *m;
  const tt_model_shard *shard;
  float *tensor_buffer; /* buffer for a tensor of the members of this rank */
} net;

static void output_dimension_name(int l, char out[TT_SCHEMA_NAME_MAX])
{
  snprintf(out, TT_SCHEMA_NAME_MAX, "layer%d_out", l);
}

/* One tensor of a layer: `size` numbers at `offset` of each member of this rank, packed and
 * written. */
static void write_numbers(tt_schema *s, const net *n, const tt_variable v, int64_t offset,
                          int64_t size)
{
  const tt_slice slice = n->shard->slice;
  for (int64_t i = 0; i < slice.count; i++)
    memcpy(n->tensor_buffer + i * size, n->shard->w + i * n->m->model.params + offset,
           (size_t)size * sizeof *n->tensor_buffer);
  tt_schema_write_rows(s, &v, slice.first, slice.count, n->tensor_buffer);
}

static void write_tensor(tt_schema *s, const net *n, int l, const char *name, const char *meaning,
                         const char *in, int64_t offset, int64_t size)
{
  char path[96], out[TT_SCHEMA_NAME_MAX];
  snprintf(path, sizeof path, "net/layer%d/%s", l, name);
  output_dimension_name(l, out);
  write_numbers(s, n, (tt_variable){path, TT_H5_F32, {"member", out, in}, "1", meaning, NULL},
                offset, size);
}

static const char *front_dimension_name(int l, const char *side, char name[TT_SCHEMA_NAME_MAX])
{
  snprintf(name, TT_SCHEMA_NAME_MAX, "front%d_%s", l, side);
  return name;
}

/* Weights and biases, or gains and shifts, of a layer of the front, if it has any. */
static void write_front_layer(tt_schema *s, const net *n, int l)
{
  const tt_front_layer *layer = &n->m->model.front.layer[l];
  int conv = layer->kind == TT_FRONT_conv;
  char path[96], out[TT_SCHEMA_NAME_MAX], in[TT_SCHEMA_NAME_MAX];
  if (layer->weight < 0) return;
  tt_schema_create_dimension(s, front_dimension_name(l, "out", out), layer->channels);
  if (conv)
    tt_schema_create_dimension(s, front_dimension_name(l, "in", in), tt_front_fan_in(layer));
  snprintf(path, sizeof path, "net/front%d", l);
  tt_h5_create_group(s->file, path);
  snprintf(path, sizeof path, "net/front%d/%s", l, conv ? "weight" : "gain");
  const tt_variable first = {
      path,
      TT_H5_F32,
      {"member", out, conv ? in : NULL},
      "1",
      conv ? "weights, channels x (input channels of the group, positions of the kernel)"
           : "gains of group_norm",
      NULL};
  write_numbers(s, n, first, layer->weight, tt_front_weights(layer));
  snprintf(path, sizeof path, "net/front%d/%s", l, conv ? "bias" : "shift");
  const tt_variable second = {
      path, TT_H5_F32, {"member", out}, "1", conv ? "biases" : "shifts of group_norm", NULL};
  write_numbers(s, n, second, layer->bias, layer->channels);
}

/* Attributes that determine the front, and its parameters. */
static void write_front(tt_schema *s, const net *n, const char *group)
{
  const tt_front *f = &n->m->model.front;
  const int32_t shape[] = {f->channels, f->size[0], f->size[1]};
  char *text = NULL;
  size_t size = 0;
  if (!f->layers) return;
  FILE *to = open_memstream(&text, &size);
  if (to) {
    tt_front_write(f, to);
    fclose(to);
  }
  tt_h5_write_attr_text(s->file, group, "front", text ? text : "");
  tt_h5_write_attr_text(s->file, group, "front_activation",
                        tt_choice_activation[tt_model_activation(&n->m->model)]);
  tt_h5_write_attr(s->file, group, "front_shape", TT_H5_I32, 3, shape);
  tt_h5_write_attr(s->file, group, "front_axes", TT_H5_I32, 1, &f->dims);
  free(text);
  for (int l = 0; l < f->layers; l++) write_front_layer(s, n, l);
}

static void write_layer(tt_schema *s, const net *n, int l)
{
  const tt_layer *layer = &n->m->model.layer[l];
  char group[64], in[TT_SCHEMA_NAME_MAX];
  snprintf(in, sizeof in, "%s", tt_net_inputs_dimension(&n->m->scaler.net));
  if (l == 0 && n->m->model.front.layers) snprintf(in, sizeof in, "front_out");
  snprintf(group, sizeof group, "net/layer%d", l);
  if (l > 0) output_dimension_name(l - 1, in);
  tt_h5_create_group(s->file, group);
  tt_h5_write_attr_text(s->file, group, "activation", tt_choice_activation[layer->activation]);
  write_tensor(s, n, l, "weight", "weights, out x in", in, layer->weight, layer->out * layer->in);
  write_tensor(s, n, l, "bias", "biases", NULL, layer->bias, layer->out);
  if (layer->norm < 0) return;
  write_tensor(s, n, l, "gain", "gains of layer_norm", NULL, layer->norm, layer->out);
  write_tensor(s, n, l, "shift", "shifts of layer_norm", NULL, layer->norm + layer->out,
               layer->out);
}

/* Attributes that determine the networks together with the tensors. */
static void write_shape(tt_schema *s, const char *group, const tt_trained_ensemble *m)
{
  const tt_model *model = &m->model;
  int32_t layers = model->layers, norm = 0, residual = 0;
  for (int l = 0; l < layers; l++) {
    norm |= model->layer[l].norm >= 0;
    residual |= model->layer[l].residual;
  }
  tt_h5_write_attr(s->file, group, "n_layers", TT_H5_I32, 1, &layers);
  tt_h5_write_attr_text(s->file, group, "output", tt_choice_output[model->output]);
  tt_h5_write_attr(s->file, group, "variance_floor", TT_H5_F32, 1, &m->variance_floor);
  tt_h5_write_attr(s->file, group, "layer_norm", TT_H5_I32, 1, &norm);
  tt_h5_write_attr(s->file, group, "residual", TT_H5_I32, 1, &residual);
  if (model->levels > 0) tt_h5_write_attr(s->file, group, "levels", TT_H5_I32, 1, &model->levels);
  if (tt_model_has_quantiles(model))
    tt_h5_write_attr(s->file, group, "level", TT_H5_F32, model->levels, model->level);
}

static void write_net(tt_schema *s, const net *n)
{
  const tt_model *m = &n->m->model;
  char name[TT_SCHEMA_NAME_MAX];
  for (int l = 0; l < m->layers; l++) {
    output_dimension_name(l, name);
    tt_schema_create_dimension(s, name, m->layer[l].out);
  }
  if (m->front.layers) tt_schema_create_dimension(s, "front_out", m->front.features);
  tt_h5_create_group(s->file, "net");
  write_shape(s, "net", n->m);
  write_front(s, n, "net");
  for (int l = 0; l < m->layers; l++) write_layer(s, n, l);
}

tt_err tt_model_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                      const tt_model_shard *shard, const tt_provenance *from)
{
  model_arrays t = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  int64_t bytes = 1 << 16;
  for (int64_t i = 0; i < all->count; i++)
    bytes += tt_trained_ensemble_parameters(all->at[i]) * (int64_t)sizeof(float) +
             all->at[i]->members * 64;
  tt_err e = tt_agree(c, make_file_arrays_local(all, shard, &t));
  if (!e) e = tt_h5_create(c, file, bytes, &f);
  if (!e) {
    const tt_scaler *scaler = &all->at[0]->scaler;
    int later = tt_scaler_transforms(scaler) || scaler->components > 0 || t.net.count;
    tt_schema_write_header(&s, c, f, later ? TT_SCHEMA_TRANSFORMED_MODEL : TT_SCHEMA_MODEL, from);
    tt_schema_hash_content(&s, tt_model_attributes);
    write_dimensions(&s, all->at[0], &t);
    write_members(&s, &t);
    write_ensembles(&s, &t);
    write_scaler(&s, scaler, t.by);
    tt_net_inputs_write(&s, &t.net);
    write_components(&s, scaler);
    write_ranges(&s, all->at[0]);
    write_columns(&s, all->at[0]);
    tt_calibration_write(&s, &t.calibration);
    write_epistemic(&s, t.epistemic);
    if (t.flat)
      tt_flat_nets_write(&s, shard, t.nets);
    else
      write_net(&s, &(net){all->at[0], shard, t.tensor});
    tt_fold_tables_write(&s, tt_net_inputs_dimension(&scaler->net), &t.folds);
    e = tt_h5_commit(&f);
  }
  free_file_arrays(&t);
  return e;
}
