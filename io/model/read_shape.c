/* read_shape.c — sizes and networks of a model file; see model_internal.h. Every number in the file
 * that becomes a size, an offset or an index is checked before use. */
#include "io/model/model_internal.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tt_model_tensor_path(int l, const char *which, char path[TT_MODEL_PATH_MAX])
{
  snprintf(path, TT_MODEL_PATH_MAX, "net/layer%d/%s", l, which);
}

void tt_model_front_path(int l, const char *which, char path[TT_MODEL_PATH_MAX])
{
  snprintf(path, TT_MODEL_PATH_MAX, "net/front%d/%s", l, which);
}

/* The index of a text attribute in a list of names. */
static tt_err read_choice_attr(tt_h5_reader *r, const char *object, const char *name,
                               const char *const *choice, int *out)
{
  char *text = NULL;
  TT_TRY(tt_h5_read_attr_text_local(r, object, name, &text));
  tt_err e = tt_model_find_choice(r, object, name, text, choice, out);
  tt_free(text);
  return e;
}

/* A whole number that old files do not have. */
static tt_err read_optional_attr(tt_h5_reader *r, const char *group, const char *name,
                                 int32_t least, int32_t most, int32_t *out)
{
  *out = least;
  if (!tt_h5_has_attr_local(r, group, name)) return TT_OK;
  TT_TRY(tt_h5_read_attr_local(r, group, name, TT_H5_I32, 1, out));
  if (*out < least || *out > most)
    return TT_FAIL(DATA,
                   "%s: attribute '%s' of '%s' is %" PRId32 ", expected %" PRId32 " to %" PRId32,
                   tt_h5_file_name(r), name, group, *out, least, most);
  return TT_OK;
}

static tt_err read_levels(tt_h5_reader *r, const char *group, tt_model_net *n)
{
  float level[TT_MAX_QUANTILES];
  int quantiles = tt_output_forecast(n->shape.output) == TT_FORECAST_quantiles;
  int32_t most = tt_output_max_levels(n->shape.output);
  if (!most) return TT_OK;
  TT_TRY(read_optional_attr(r, group, "levels", 0, most, &n->shape.levels));
  if (n->shape.levels < 1)
    return TT_FAIL(DATA, "%s: '%s' has no attribute 'levels'" TT_DAMAGED, tt_h5_file_name(r),
                   group);
  if (!quantiles) return TT_OK;
  TT_TRY(tt_h5_read_attr_local(r, group, "level", TT_H5_F32, n->shape.levels, level));
  return tt_model_check_levels(r, group, level, n);
}

/* The front from its attributes. */
static tt_err read_front(tt_h5_reader *r, const char *group, tt_model_net *n)
{
  int32_t size[3], axes = 0;
  int activation = 0;
  char *text = NULL;
  if (!tt_h5_has_attr_local(r, group, "front")) return TT_OK;
  TT_TRY(tt_h5_read_attr_local(r, group, "front_axes", TT_H5_I32, 1, &axes));
  TT_TRY(tt_h5_read_attr_local(r, group, "front_shape", TT_H5_I32, 3, size));
  TT_TRY(read_choice_attr(r, group, "front_activation", tt_choice_activation, &activation));
  TT_TRY(tt_h5_read_attr_text_local(r, group, "front", &text));
  tt_err e = tt_model_parse_front(r, group, text, axes, size, (tt_activation)activation, n);
  tt_free(text);
  return e;
}

/* The tensors of the front must fit its layers. */
static tt_err check_front(tt_h5_reader *r, const tt_model_cohort_info *s, const tt_front *f)
{
  char path[TT_MODEL_PATH_MAX];
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    int conv = layer->kind == TT_FRONT_conv;
    int64_t shape[] = {s->members, layer->channels, conv ? tt_front_fan_in(layer) : 0};
    if (layer->weight < 0) continue;
    tt_model_front_path(l, conv ? "weight" : "gain", path);
    TT_TRY(tt_schema_check_shape_local(r, path, conv ? 3 : 2, shape));
    tt_model_front_path(l, conv ? "bias" : "shift", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
  }
  return TT_OK;
}

static tt_err read_net(tt_h5_reader *r, const char *group, tt_model_net *n)
{
  int output = 0;
  int32_t norm, residual;
  TT_TRY(tt_h5_read_attr_local(r, group, "n_layers", TT_H5_I32, 1, &n->layers));
  if (n->layers < 1 || n->layers > TT_MAX_LAYERS)
    return TT_FAIL(DATA, "%s: attribute 'n_layers' of '%s' is %" PRId32 ", expected 1 to %d",
                   tt_h5_file_name(r), group, n->layers, TT_MAX_LAYERS);
  TT_TRY(read_choice_attr(r, group, "output", tt_choice_output, &output));
  TT_TRY(read_optional_attr(r, group, "layer_norm", 0, 1, &norm));
  TT_TRY(read_optional_attr(r, group, "residual", 0, 1, &residual));
  n->shape.output = (tt_output)output;
  n->shape.layer_norm = norm;
  n->shape.residual = residual;
  TT_TRY(read_front(r, group, n));
  return read_levels(r, group, n);
}

/* Widths of the layers from their tensors; number of members from the first tensor. */
static tt_err read_layers(tt_h5_reader *r, tt_model_cohort_info *s, tt_model_net *n,
                          int activation[TT_MAX_LAYERS])
{
  const tt_front *f = &n->front;
  int64_t in = f->layers ? f->features : -1;
  char path[96];
  for (int l = 0; l < n->layers; l++) {
    int64_t shape[3] = {s->members, -1, in};
    tt_model_tensor_path(l, "weight", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 3, shape));
    s->members = shape[0];
    tt_model_tensor_path(l, "bias", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
    for (int k = 0; n->shape.layer_norm && l + 1 < n->layers && k < 2; k++) {
      tt_model_tensor_path(l, k ? "shift" : "gain", path);
      TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
    }
    snprintf(path, sizeof path, "net/layer%d", l);
    TT_TRY(read_choice_attr(r, path, "activation", tt_choice_activation, &activation[l]));
    if (l == 0)
      n->shape.inputs = f->layers ? (int64_t)f->channels * f->size[0] * f->size[1] : shape[2];
    n->width[l] = in = shape[1];
  }
  return TT_OK;
}

/* Read the shapes of all tensors and lay out the model; the layout must match the file. */
static tt_err read_model_shape(tt_h5_reader *r, tt_model_cohort_info *s)
{
  tt_model_net n = {0};
  int activation[TT_MAX_LAYERS];
  TT_TRY(read_net(r, "net", &n));
  TT_TRY(read_layers(r, s, &n, activation));
  TT_TRY(check_front(r, s, &n.front));
  n.activation = activation[0];
  TT_TRY(tt_model_lay_out_net(r, "net", &n, &s->model));
  for (int l = 0; l < n.layers; l++)
    if (s->model.layer[l].activation != (tt_activation)activation[l])
      return TT_FAIL(DATA, "%s: activation of 'net/layer%d' is %s, expected %s", tt_h5_file_name(r),
                     l, tt_choice_activation[activation[l]],
                     tt_choice_activation[s->model.layer[l].activation]);
  TT_TRY(tt_h5_read_attr_local(r, "net", "variance_floor", TT_H5_F32, 1, &s->variance_floor));
  return tt_model_check_floor(r, "net", s->variance_floor);
}

/* Ensembles of each cohort: they are consecutive. A cohort without one has further members of the
 * only ensemble of the cohort before. */
static tt_err read_ensemble_cohorts(tt_h5_reader *r, tt_model_file_info *w)
{
  int32_t *cohort = NULL;
  int64_t next = 0, before = 0;
  int wrong = 0;
  TT_TRY(TT_ALLOC(cohort, w->ensembles));
  tt_err e = tt_model_read_vector_local(r, "ensemble_cohort", TT_H5_I32, w->ensembles, cohort);
  for (int64_t k = 0; !e && k < w->cohorts; k++) {
    tt_model_cohort_info *s = &w->cohort_info[k];
    s->ensemble = next;
    while (next < w->ensembles && cohort[next] == k) next++;
    s->ensembles = next - s->ensemble;
    wrong |= s->ensembles == 0 && before != 1;
    before = s->ensembles ? s->ensembles : before;
  }
  if (!e && (wrong || next < w->ensembles))
    e = TT_FAIL(DATA, "%s: 'ensemble_cohort' does not list %" PRId64 " cohorts in order" TT_DAMAGED,
                tt_h5_file_name(r), w->cohorts);
  tt_free(cohort);
  return e;
}

/* Members and targets of all cohorts, whose networks are known. */
static tt_err count_members(tt_h5_reader *r, tt_model_file_info *w)
{
  int64_t members = 0;
  for (int64_t k = 0; k < w->cohorts; k++) {
    tt_model_cohort_info *s = &w->cohort_info[k];
    s->member = members;
    members += s->members;
    if (s->model.targets > w->targets) w->targets = s->model.targets;
    if (s->model.inputs != w->cohort_info[0].model.inputs)
      return TT_FAIL(DATA, "%s: the cohorts do not have the same number of inputs" TT_DAMAGED,
                     tt_h5_file_name(r));
  }
  if (members != w->members)
    return TT_FAIL(DATA,
                   "%s: the cohorts have %" PRId64 " members, 'status' has %" PRId64 TT_DAMAGED,
                   tt_h5_file_name(r), members, w->members);
  return TT_OK;
}

/* With components of the targets, networks predict these, and ensembles all T targets. */
static tt_err read_component_shape(tt_h5_reader *r, tt_model_file_info *w)
{
  int64_t targets[1] = {-1}, shape[2] = {-1, -1};
  if (!tt_h5_has_local(r, "scaler/y_component")) return TT_OK;
  TT_TRY(tt_schema_check_shape_local(r, "scaler/y_mean", 1, targets));
  shape[1] = targets[0];
  TT_TRY(tt_schema_check_shape_local(r, "scaler/y_component", 2, shape));
  for (int64_t k = 0; k < w->cohorts; k++) {
    const tt_model *m = &w->cohort_info[k].model;
    if (m->targets != shape[0] || tt_output_forecast(m->output) != TT_FORECAST_gaussian)
      return TT_FAIL(DATA,
                     "%s: 'scaler/y_component' has %" PRId64 " components, but the networks "
                     "predict %" PRId64 " targets, output %s" TT_DAMAGED,
                     tt_h5_file_name(r), shape[0], m->targets, tt_choice_output[m->output]);
  }
  w->components = shape[0];
  w->targets = targets[0];
  return TT_OK;
}

tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w)
{
  int64_t members[1] = {-1}, ensembles[1] = {-1};
  TT_TRY(tt_schema_check_shape_local(r, "status", 1, members));
  TT_TRY(tt_schema_check_shape_local(r, "ensemble_first", 1, ensembles));
  w->members = members[0];
  w->ensembles = ensembles[0];
  w->cohorts = 1;
  w->flat = tt_h5_has_attr_local(r, "/", "cohorts");
  if (w->flat) TT_TRY(tt_h5_read_attr_local(r, "/", "cohorts", TT_H5_I64, 1, &w->cohorts));
  if (w->cohorts < 1 || w->cohorts > w->members)
    return TT_FAIL(DATA,
                   "%s: attribute 'cohorts' is %" PRId64 ", with %" PRId64 " members" TT_DAMAGED,
                   tt_h5_file_name(r), w->cohorts, w->members);
  TT_TRY(TT_ALLOC(w->cohort_info, w->cohorts));
  w->cohort_info[0].ensembles = w->ensembles;
  w->cohort_info[0].members = w->members;
  if (w->flat) TT_TRY(read_ensemble_cohorts(r, w));
  TT_TRY(w->flat ? tt_model_read_flat_local(r, w) : read_model_shape(r, w->cohort_info));
  TT_TRY(count_members(r, w));
  TT_TRY(read_component_shape(r, w));
  TT_TRY(tt_fold_tables_read_local(r, w->cohorts, w->cohort_info[0].model.inputs, w->targets,
                                   &w->folds));
  return tt_schema_check_shape_local(r, "ensemble_column", 2,
                                     (int64_t[]){w->ensembles, w->targets});
}
