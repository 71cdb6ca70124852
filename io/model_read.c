/* model_read.c — tt_model_read of model_io.h. Nothing in the file is taken on trust: every number
 * that leads to a size, an offset or an index is checked before it is used. */
#include "base/mem.h"
#include "io/h5.h"
#include "io/model_io.h"
#include "io/schema.h"
#include "spec/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 1 << 22 }; /* numbers to read at a time */

/* ---- Shapes ---------------------------------------------------------------------------------- */

static tt_err read_vector(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n, void *out)
{
  TT_TRY(tt_schema_shape_local(r, path, 1, &n));
  return tt_h5_read_local(r, path, type, 0, n, out);
}

/* The place of a text attribute in a list of names. */
static tt_err read_choice(tt_h5_reader *r, const char *object, const char *name,
                          const char *const *choice, int *out)
{
  char *text = NULL;
  TT_TRY(tt_h5_attr_text_local(r, object, name, &text));
  int i = 0;
  while (choice[i] && strcmp(choice[i], text) != 0) i++;
  tt_err e = TT_OK;
  if (!choice[i])
    e = TT_FAIL(DATA, "%s: attribute '%s' of '%s' is '%s', which this version does not know",
                tt_h5_file_name(r), name, object, text);
  tt_free(text);
  *out = i;
  return e;
}

typedef struct sizes {
  int64_t members, ensembles;
  tt_model model;
} sizes;

static void name_tensor(int l, const char *which, char path[64])
{
  snprintf(path, 64, "net/layer%d/%s", l, which);
}

/* Shapes of all tensors, and the model they add up to: what tt_model_build makes of the widths must
 * be what the file holds. */
static tt_err read_model_shape(tt_h5_reader *r, sizes *s)
{
  const char *file = tt_h5_file_name(r);
  int32_t layers = 0;
  int output = 0, activation[TT_MAX_LAYERS] = {0};
  int64_t hidden[TT_MAX_LAYERS] = {0}, inputs = -1, targets = -1, in = -1;
  char path[64];
  TT_TRY(tt_h5_attr_local(r, "net", "n_layers", TT_H5_I32, 1, &layers));
  if (layers < 1 || layers > TT_MAX_LAYERS)
    return TT_FAIL(DATA, "%s: attribute 'n_layers' of 'net' is %" PRId32 ", expected 1 to %d", file,
                   layers, TT_MAX_LAYERS);
  TT_TRY(read_choice(r, "net", "output", tt_choice_output, &output));
  TT_TRY(tt_schema_shape_local(r, "ensemble_column", 2, (int64_t[]){s->ensembles, -1}));
  for (int l = 0; l < layers; l++) {
    int64_t shape[3] = {s->members, -1, in};
    name_tensor(l, "weight", path);
    TT_TRY(tt_schema_shape_local(r, path, 3, shape));
    name_tensor(l, "bias", path);
    TT_TRY(tt_schema_shape_local(r, path, 2, shape));
    snprintf(path, sizeof path, "net/layer%d", l);
    TT_TRY(read_choice(r, path, "activation", tt_choice_activation, &activation[l]));
    if (l == 0) inputs = shape[2];
    hidden[l] = in = shape[1];
  }
  int per_target = output == TT_OUTPUT_mean_variance ? 2 : 1;
  targets = in / per_target;
  if (in % per_target || targets < 1)
    return TT_FAIL(DATA, "%s: the last layer has %" PRId64 " outputs, which does not fit output %s",
                   file, in, tt_choice_output[output]);
  if (tt_model_build(inputs, targets, hidden, layers - 1, (tt_activation)activation[0],
                     (tt_output)output, &s->model))
    return TT_FAIL(DATA, "%s: sizes of 'net' are not possible" TT_DAMAGED, file);
  for (int l = 0; l < layers; l++)
    if (s->model.layer[l].activation != (tt_activation)activation[l])
      return TT_FAIL(DATA, "%s: activation of 'net/layer%d' is %s, expected %s", file, l,
                     tt_choice_activation[activation[l]],
                     tt_choice_activation[s->model.layer[l].activation]);
  return TT_OK;
}

static tt_err read_sizes(tt_h5_reader *r, sizes *s)
{
  int64_t members[1] = {-1}, ensembles[1] = {-1};
  TT_TRY(tt_schema_shape_local(r, "status", 1, members));
  TT_TRY(tt_schema_shape_local(r, "ensemble_first", 1, ensembles));
  s->members = members[0];
  s->ensembles = ensembles[0];
  return read_model_shape(r, s);
}

/* ---- Contents -------------------------------------------------------------------------------- */

static tt_err read_members(tt_h5_reader *r, tt_committee *m)
{
  const char *file = tt_h5_file_name(r);
  TT_TRY(read_vector(r, "status", TT_H5_I8, m->members, m->status));
  TT_TRY(read_vector(r, "weight_share", TT_H5_F64, m->members, m->weight));
  for (int64_t i = 0; i < m->members; i++) {
    if (m->status[i] < TT_STATUS_training || m->status[i] > TT_STATUS_diverged)
      return TT_FAIL(DATA, "%s: 'status' of member %" PRId64 " is %d, expected 0 to %d", file, i,
                     m->status[i], TT_STATUS_diverged);
    if (!isfinite(m->weight[i]) || m->weight[i] < 0.0 ||
        (m->status[i] == TT_STATUS_diverged && m->weight[i] != 0.0))
      return TT_FAIL(DATA, "%s: 'weight_share' of member %" PRId64 " is %g, which cannot be with "
                           "status %d", file, i, m->weight[i], m->status[i]);
  }
  return TT_OK;
}

/* Ensembles are consecutive and hold all members. */
static tt_err check_ensembles(tt_h5_reader *r, const tt_committee *m, int64_t targets)
{
  const char *file = tt_h5_file_name(r);
  int64_t next = 0;
  for (int64_t i = 0; i < m->ensembles; i++) {
    const tt_ensemble *e = &m->ensemble[i];
    if (e->first != next || e->members < 1 || e->members > m->members - next)
      return TT_FAIL(DATA, "%s: ensemble %" PRId64 " ('%s') has members %" PRId64 " + %" PRId64
                           ", expected to begin at %" PRId64 " of %" PRId64 TT_DAMAGED, file, i,
                     e->name, e->first, e->members, next, m->members);
    next += e->members;
    for (int64_t j = 0; j < e->targets; j++)
      if (e->column[j] < 0 || e->column[j] >= targets)
        return TT_FAIL(DATA, "%s: 'ensemble_column' of ensemble '%s' is %" PRId32 ", expected less "
                             "than %" PRId64, file, e->name, e->column[j], targets);
  }
  if (next != m->members)
    return TT_FAIL(DATA, "%s: the ensembles have %" PRId64 " members, 'status' has %" PRId64
                         TT_DAMAGED, file, next, m->members);
  return TT_OK;
}

/* number  room for [3 + K][ensembles] */
static tt_err fill_ensembles(tt_h5_reader *r, tt_committee *m, char **name, int64_t *number)
{
  int64_t n = m->ensembles, k = m->model.targets;
  int64_t *first = number, *members = number + n, *key = number + 2 * n, *column = number + 3 * n;
  TT_TRY(tt_schema_shape_local(r, "ensemble_column", 2, (int64_t[]){n, k}));
  TT_TRY(read_vector(r, "ensemble_first", TT_H5_I64, n, first));
  TT_TRY(read_vector(r, "ensemble_members", TT_H5_I64, n, members));
  TT_TRY(read_vector(r, "ensemble_key", TT_H5_I64, n, key));
  TT_TRY(tt_h5_read_local(r, "ensemble_column", TT_H5_I64, 0, n, column));
  for (int64_t i = 0; i < n; i++) {
    tt_ensemble *e = &m->ensemble[i];
    e->first = first[i];
    e->members = members[i];
    e->key = (uint32_t)key[i];
    e->targets = k;
    TT_TRY(tt_text_set(&e->name, name[i]));
    TT_TRY(TT_ALLOC(e->column, k));
    for (int64_t j = 0; j < k; j++) e->column[j] = (int32_t)column[i * k + j];
  }
  return TT_OK;
}

static tt_err read_ensembles(tt_h5_reader *r, tt_committee *m)
{
  char **name = NULL;
  int64_t *number = NULL;
  tt_err e = tt_schema_texts_local(r, "ensemble_name", m->ensembles, &name);
  if (!e) e = TT_ALLOC(number, (3 + m->model.targets) * m->ensembles);
  if (!e) e = fill_ensembles(r, m, name, number);
  tt_h5_texts_free(m->ensembles, &name);
  tt_free(number);
  return e;
}

static tt_err read_columns(tt_h5_reader *r, const char *names, const char *units, int64_t count,
                           tt_columns *out)
{
  char **name = NULL, **unit = NULL;
  tt_err e = tt_columns_create(count, out);
  if (!e) e = tt_schema_texts_local(r, names, count, &name);
  if (!e) e = tt_schema_texts_local(r, units, count, &unit);
  for (int64_t i = 0; !e && i < count; i++) {
    e = tt_text_set(&out->name[i], name[i]);
    if (!e) e = tt_text_set(&out->units[i], unit[i]);
  }
  tt_h5_texts_free(count, &name);
  tt_h5_texts_free(count, &unit);
  return e;
}

/* Means are finite, scales are finite and not zero. */
static tt_err read_scale(tt_h5_reader *r, const char *path, int64_t n, int is_scale, double *out)
{
  TT_TRY(read_vector(r, path, TT_H5_F64, n, out));
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(out[i]) || (is_scale && !(out[i] > 0.0)))
      return TT_FAIL(DATA, "%s: '%s' of column %" PRId64 " is %g" TT_DAMAGED, tt_h5_file_name(r),
                     path, i, out[i]);
  return TT_OK;
}

static tt_err read_scaler(tt_h5_reader *r, int64_t inputs, int64_t targets, tt_scaler *out)
{
  TT_TRY(tt_scaler_create(inputs, targets, out));
  TT_TRY(read_scale(r, "scaler/x_mean", inputs, 0, out->x_mean));
  TT_TRY(read_scale(r, "scaler/x_scale", inputs, 1, out->x_scale));
  TT_TRY(read_scale(r, "scaler/y_mean", targets, 0, out->y_mean));
  return read_scale(r, "scaler/y_scale", targets, 1, out->y_scale);
}

/* Finite, unless the member diverged. */
static tt_err check_finite(tt_h5_reader *r, const char *path, const tt_committee *m, int64_t member,
                           const float *w, int64_t size)
{
  if (m->status[member] == TT_STATUS_diverged) return TT_OK;
  for (int64_t j = 0; j < size; j++)
    if (!isfinite(w[j]))
      return TT_FAIL(DATA, "%s: '%s' of member %" PRId64 " holds %g, but the member did not diverge"
                           TT_DAMAGED, tt_h5_file_name(r), path, member, (double)w[j]);
  return TT_OK;
}

/* One tensor: `size` numbers of each member, to `offset` of its parameters. buffer: room for one
 * member, and for BATCH numbers if there are as many. */
static tt_err read_tensor(tt_h5_reader *r, const char *path, tt_committee *m, int64_t offset,
                          int64_t size, float *buffer)
{
  int64_t step = size < BATCH ? BATCH / size : 1;
  for (int64_t first = 0; first < m->members; first += step) {
    int64_t count = m->members - first < step ? m->members - first : step;
    TT_TRY(tt_h5_read_local(r, path, TT_H5_F32, first, count, buffer));
    for (int64_t i = 0; i < count; i++) {
      TT_TRY(check_finite(r, path, m, first + i, buffer + i * size, size));
      memcpy(m->w + (first + i) * m->model.params + offset, buffer + i * size,
             (size_t)size * sizeof *buffer);
    }
  }
  return TT_OK;
}

static tt_err read_weights(tt_h5_reader *r, tt_committee *m)
{
  float *buffer = NULL;
  char path[64];
  int64_t all = m->members * m->model.params, one = m->model.params;
  tt_err e = TT_ALLOC(buffer, one > BATCH ? one : all < BATCH ? all : BATCH);
  for (int l = 0; !e && l < m->model.layers; l++) {
    const tt_layer *layer = &m->model.layer[l];
    name_tensor(l, "weight", path);
    e = read_tensor(r, path, m, layer->weight, layer->in * layer->out, buffer);
    name_tensor(l, "bias", path);
    if (!e) e = read_tensor(r, path, m, layer->bias, layer->out, buffer);
  }
  tt_free(buffer);
  return e;
}

static tt_err read_contents(tt_h5_reader *r, tt_committee *m)
{
  int64_t targets[1] = {-1};
  TT_TRY(tt_h5_attr_local(r, "net", "variance_floor", TT_H5_F32, 1, &m->variance_floor));
  if (!isfinite(m->variance_floor) || m->variance_floor < 0.0f)
    return TT_FAIL(DATA, "%s: attribute 'variance_floor' of 'net' is %g" TT_DAMAGED,
                   tt_h5_file_name(r), (double)m->variance_floor);
  TT_TRY(tt_schema_shape_local(r, "scaler/y_mean", 1, targets));
  TT_TRY(read_members(r, m));
  TT_TRY(read_ensembles(r, m));
  TT_TRY(check_ensembles(r, m, targets[0]));
  TT_TRY(read_columns(r, "names/feature_name", "names/feature_units", m->model.inputs, &m->input));
  TT_TRY(read_columns(r, "names/target_name", "names/target_units", targets[0], &m->target));
  TT_TRY(read_scaler(r, m->model.inputs, targets[0], &m->scaler));
  return read_weights(r, m);
}

static tt_err read_all(tt_h5_reader *r, tt_committee **out)
{
  sizes s = {0};
  tt_committee *m = NULL;
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_MODEL, "model"));
  TT_TRY(read_sizes(r, &s));
  TT_TRY(tt_committee_create(&s.model, s.ensembles, s.members, &m));
  tt_err e = read_contents(r, m);
  if (e)
    tt_committee_destroy(&m);
  else
    *out = m;
  return e;
}

tt_err tt_model_read_local(const char *file, tt_committee **out)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_all(r, out);
  tt_h5_close_local(&r);
  return e;
}
