/* model_write.c — tt_model_write of model_io.h; the layout is in docs/files.md. */
#include "base/mem.h"
#include "io/model_io.h"
#include "io/schema.h"
#include "spec/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Columns of the file that the committee holds in another form, made before anything is written. */
typedef struct tables {
  int64_t *member;     /* [G] 0, 1, 2, ... */
  int32_t *owner;      /* [G] ensemble of each member */
  const char **name;   /* [ensembles] borrowed */
  int64_t *first, *members, *key;
  int32_t *column;     /* [ensembles][K] */
  float *layer;        /* [own members][out * in] of the largest layer */
  int64_t name_length; /* bytes of the longest name or unit */
} tables;

static void free_tables(tables *t)
{
  tt_free(t->member);
  tt_free(t->owner);
  tt_free(t->name);
  tt_free(t->first);
  tt_free(t->members);
  tt_free(t->key);
  tt_free(t->column);
  tt_free(t->layer);
}

static int64_t longest(int64_t n, const char *const *text, int64_t so_far)
{
  int64_t length = tt_h5_text_length(n, text);
  return length > so_far ? length : so_far;
}

static int64_t longest_name(const tt_committee *m, const tables *t)
{
  int64_t most = longest(m->ensembles, t->name, 1);
  most = longest(m->input.count, (const char *const *)m->input.name, most);
  most = longest(m->input.count, (const char *const *)m->input.units, most);
  most = longest(m->target.count, (const char *const *)m->target.name, most);
  return longest(m->target.count, (const char *const *)m->target.units, most);
}

static int64_t largest_layer(const tt_model *model)
{
  int64_t most = 1;
  for (int l = 0; l < model->layers; l++) {
    int64_t size = model->layer[l].in * model->layer[l].out;
    most = size > most ? size : most;
  }
  return most;
}

static tt_err make_tables_local(const tt_committee *m, tt_slice slice, tables *t)
{
  int64_t k = m->model.targets;
  TT_TRY(TT_ALLOC(t->member, m->members));
  TT_TRY(TT_ALLOC(t->owner, m->members));
  TT_TRY(TT_ALLOC(t->name, m->ensembles));
  TT_TRY(TT_ALLOC(t->first, m->ensembles));
  TT_TRY(TT_ALLOC(t->members, m->ensembles));
  TT_TRY(TT_ALLOC(t->key, m->ensembles));
  TT_TRY(TT_ALLOC(t->column, m->ensembles * k));
  TT_TRY(TT_ALLOC(t->layer, slice.count * largest_layer(&m->model)));
  for (int64_t i = 0; i < m->members; i++) t->member[i] = i;
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    if (e->targets != k || e->first < 0 || e->first + e->members > m->members)
      return TT_FAIL(INTERNAL, "ensemble %s: %" PRId64 " targets, members %" PRId64 " + %" PRId64,
                     e->name, e->targets, e->first, e->members);
    t->name[i] = e->name;
    t->first[i] = e->first;
    t->members[i] = e->members;
    t->key[i] = e->key;
    memcpy(t->column + i * k, e->column, (size_t)k * sizeof *t->column);
    for (int64_t j = 0; j < e->members; j++) t->owner[e->first + j] = (int32_t)i;
  }
  t->name_length = longest_name(m, t);
  return TT_OK;
}

static void write_dimensions(tt_schema *s, const tt_committee *m, const tables *t)
{
  const tt_variable member = {"member", TT_H5_I64, {"member"}, NULL, "number of the member", NULL};
  tt_schema_coordinate(s, &member, m->members, t->member);
  tt_schema_dim(s, "ensemble", m->ensembles);
  tt_schema_dim(s, "ensemble_target", m->model.targets);
  tt_schema_dim(s, "feature", m->input.count);
  tt_schema_dim(s, "target", m->target.count);
  tt_schema_dim(s, "name_strlen", t->name_length);
  for (int l = 0; l < m->model.layers; l++) {
    char name[TT_SCHEMA_NAME];
    snprintf(name, sizeof name, "layer%d_out", l);
    tt_schema_dim(s, name, m->model.layer[l].out);
  }
}

static void write_members(tt_schema *s, const tt_committee *m, const tables *t)
{
  const tt_variable owner = {"ensemble_of_member", TT_H5_I32, {"member"}, NULL,
                             "ensemble the member belongs to, from 0", NULL};
  const tt_variable share = {"weight_share", TT_H5_F64, {"member"}, "1",
                             "weight in the averages of its ensemble; 0 = left out", NULL};
  const tt_variable status = {"status", TT_H5_I8, {"member"}, NULL, "how training ended", NULL};
  tt_schema_root(s, &owner, t->owner);
  tt_schema_root(s, &share, m->weight);
  tt_schema_root(s, &status, m->status);
  tt_schema_flags(s, "status", TT_STATUS_diverged + 1, tt_schema_status);
}

static void write_ensembles(tt_schema *s, const tables *t)
{
  const tt_variable first = {"ensemble_first", TT_H5_I64, {"ensemble"}, NULL, "its first member",
                             "ensemble_name"};
  const tt_variable members = {"ensemble_members", TT_H5_I64, {"ensemble"}, NULL,
                               "number of its members", "ensemble_name"};
  const tt_variable key = {"ensemble_key", TT_H5_I64, {"ensemble"}, NULL,
                           "upper half of its members' random streams", "ensemble_name"};
  const tt_variable column = {"ensemble_column", TT_H5_I32, {"ensemble", "ensemble_target"}, NULL,
                              "target column it predicts, from 0", "ensemble_name"};
  tt_schema_texts(s, "ensemble_name", "ensemble", "name_strlen", t->name, "name of the ensemble");
  tt_schema_root(s, &first, t->first);
  tt_schema_root(s, &members, t->members);
  tt_schema_root(s, &key, t->key);
  tt_schema_root(s, &column, t->column);
}

static void write_columns(tt_schema *s, const tt_committee *m)
{
  const tt_variable scale[] = {
      {"scaler/x_mean", TT_H5_F64, {"feature"}, NULL, "x = normalised * x_scale + x_mean", NULL},
      {"scaler/x_scale", TT_H5_F64, {"feature"}, NULL, "x = normalised * x_scale + x_mean", NULL},
      {"scaler/y_mean", TT_H5_F64, {"target"}, NULL, "y = normalised * y_scale + y_mean", NULL},
      {"scaler/y_scale", TT_H5_F64, {"target"}, NULL, "y = normalised * y_scale + y_mean", NULL}};
  const tt_scaler *k = &m->scaler;
  const double *value[] = {k->x_mean, k->x_scale, k->y_mean, k->y_scale};
  tt_h5_group(s->file, "scaler");
  for (int i = 0; i < 4; i++) tt_schema_root(s, &scale[i], value[i]);

  tt_h5_group(s->file, "names");
  tt_schema_texts(s, "names/feature_name", "feature", "name_strlen",
                  (const char *const *)m->input.name, "input column");
  tt_schema_texts(s, "names/feature_units", "feature", "name_strlen",
                  (const char *const *)m->input.units, "units of the input column");
  tt_schema_texts(s, "names/target_name", "target", "name_strlen",
                  (const char *const *)m->target.name, "target column");
  tt_schema_texts(s, "names/target_units", "target", "name_strlen",
                  (const char *const *)m->target.units, "units of the target column");
}

/* One tensor of a layer: `size` numbers at `offset` of each own member, packed and written. */
static void write_tensor(tt_schema *s, const tt_variable *v, tt_slice slice, int64_t params,
                         int64_t offset, int64_t size, const float *w, float *packed)
{
  for (int64_t i = 0; i < slice.count; i++)
    memcpy(packed + i * size, w + i * params + offset, (size_t)size * sizeof *packed);
  tt_schema_slice(s, v, slice.first, slice.count, packed);
}

static void write_layer(tt_schema *s, const tt_committee *m, int l, tt_slice slice, const float *w,
                        float *packed)
{
  const tt_layer *layer = &m->model.layer[l];
  char group[32], weight[48], bias[48], in[TT_SCHEMA_NAME] = "feature", out[TT_SCHEMA_NAME];
  snprintf(group, sizeof group, "net/layer%d", l);
  snprintf(weight, sizeof weight, "%s/weight", group);
  snprintf(bias, sizeof bias, "%s/bias", group);
  snprintf(out, sizeof out, "layer%d_out", l);
  if (l > 0) snprintf(in, sizeof in, "layer%d_out", l - 1);
  const tt_variable v = {weight, TT_H5_F32, {"member", out, in}, "1", "weights, out x in", NULL};
  const tt_variable b = {bias, TT_H5_F32, {"member", out}, "1", "biases", NULL};
  tt_h5_group(s->file, group);
  tt_h5_attr_text(s->file, group, "activation", tt_choice_activation[layer->activation]);
  write_tensor(s, &v, slice, m->model.params, layer->weight, layer->out * layer->in, w, packed);
  write_tensor(s, &b, slice, m->model.params, layer->bias, layer->out, w, packed);
}

static void write_net(tt_schema *s, const tt_committee *m, tt_slice slice, const float *w,
                      float *packed)
{
  int32_t layers = m->model.layers;
  tt_h5_group(s->file, "net");
  tt_h5_attr(s->file, "net", "n_layers", TT_H5_I32, 1, &layers);
  tt_h5_attr_text(s->file, "net", "output", tt_choice_output[m->model.output]);
  tt_h5_attr(s->file, "net", "variance_floor", TT_H5_F32, 1, &m->variance_floor);
  for (int l = 0; l < layers; l++) write_layer(s, m, l, slice, w, packed);
}

tt_err tt_model_write(tt_comm *c, const char *file, const tt_committee *all, tt_slice slice,
                      const float *w, const tt_provenance *from)
{
  tables t = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  int64_t bytes = all->members * (all->model.params * (int64_t)sizeof *w + 64) + (1 << 16);
  tt_err e = tt_agree(c, make_tables_local(all, slice, &t));
  if (!e) e = tt_h5_create(c, file, bytes, &f);
  if (!e) {
    tt_schema_begin(&s, c, f, TT_SCHEMA_MODEL, from);
    write_dimensions(&s, all, &t);
    write_members(&s, all, &t);
    write_ensembles(&s, &t);
    write_columns(&s, all);
    write_net(&s, all, slice, w, t.layer);
    e = tt_h5_commit(&f, NULL);
  }
  free_tables(&t);
  return e;
}
