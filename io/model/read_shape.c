/* read_shape.c — sizes and networks of a model file; see model_internal.h. Every number in the file
 * that becomes a size, an offset or an index is checked before use. */
#include "io/model/model_internal.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tt_err tt_model_read_vector_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n,
                                  void *out)
{
  TT_TRY(tt_schema_check_shape_local(r, path, 1, &n));
  return tt_h5_read_rows_local(r, path, type, 0, n, out);
}

void tt_model_tensor_path(const tt_model_cohort_info *s, int l, const char *which,
                          char path[TT_MODEL_PATH_MAX])
{
  snprintf(path, TT_MODEL_PATH_MAX, "%snet/layer%d/%s", s->prefix, l, which);
}

void tt_model_front_path(const tt_model_cohort_info *s, int l, const char *which,
                         char path[TT_MODEL_PATH_MAX])
{
  snprintf(path, TT_MODEL_PATH_MAX, "%snet/front%d/%s", s->prefix, l, which);
}

/* The index of a text attribute in a list of names. */
static tt_err read_choice_attr(tt_h5_reader *r, const char *object, const char *name,
                               const char *const *choice, int *out)
{
  char *text = NULL;
  TT_TRY(tt_h5_read_attr_text_local(r, object, name, &text));
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

/* The attributes of a network that determine its shape; `shape` points into the arrays. */
typedef struct net_shape {
  tt_model_shape shape;
  int32_t layers;
  int activation[TT_MAX_LAYERS];
  int64_t width[TT_MAX_LAYERS];
  double level[TT_MAX_QUANTILES];
  tt_front front;
} net_shape;

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

static tt_err read_levels(tt_h5_reader *r, const char *group, net_shape *n)
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
  for (int32_t j = 0; j < n->shape.levels; j++) {
    n->level[j] = (double)level[j];
    if (!(level[j] > 0.0f && level[j] < 1.0f) || (j > 0 && !(level[j] > level[j - 1])))
      return TT_FAIL(DATA, "%s: attribute 'level' of '%s' holds %g" TT_DAMAGED, tt_h5_file_name(r),
                     group, (double)level[j]);
  }
  n->shape.level = n->level;
  return TT_OK;
}

static tt_err front_is_damaged(tt_h5_reader *r, const char *group, const char *why)
{
  return TT_FAIL(DATA, "%s: the front of '%s' is not possible: %s" TT_DAMAGED, tt_h5_file_name(r),
                 group, why);
}

/* The front from its attributes. */
static tt_err read_front(tt_h5_reader *r, const char *group, net_shape *n)
{
  int32_t size[3], axes = 0;
  int activation = 0, possible = 0;
  char *text = NULL;
  tt_front_fault fault;
  if (!tt_h5_has_attr_local(r, group, "front")) return TT_OK;
  TT_TRY(tt_h5_read_attr_local(r, group, "front_axes", TT_H5_I32, 1, &axes));
  TT_TRY(tt_h5_read_attr_local(r, group, "front_shape", TT_H5_I32, 3, size));
  if (axes < 1 || axes > 2) return front_is_damaged(r, group, "axes are neither 1 nor 2");
  TT_TRY(read_choice_attr(r, group, "front_activation", tt_choice_activation, &activation));
  const int64_t whole[] = {size[0], axes == 1 ? size[2] : size[1], size[2]};
  TT_TRY(tt_h5_read_attr_text_local(r, group, "front", &text));
  tt_err e = tt_front_read(
      text, &(tt_front_shape){.dims = axes, .size = whole, .activation = (tt_activation)activation},
      &n->front, &possible, &fault);
  tt_free(text);
  if (!e && !possible) e = front_is_damaged(r, group, fault.why);
  n->shape.front = &n->front;
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
    tt_model_front_path(s, l, conv ? "weight" : "gain", path);
    TT_TRY(tt_schema_check_shape_local(r, path, conv ? 3 : 2, shape));
    tt_model_front_path(s, l, conv ? "bias" : "shift", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
  }
  return TT_OK;
}

static tt_err read_net(tt_h5_reader *r, const char *group, net_shape *n)
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
static tt_err read_layers(tt_h5_reader *r, tt_model_cohort_info *s, net_shape *n)
{
  const tt_front *f = &n->front;
  int64_t in = f->layers ? f->features : -1;
  char path[96];
  for (int l = 0; l < n->layers; l++) {
    int64_t shape[3] = {s->members, -1, in};
    tt_model_tensor_path(s, l, "weight", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 3, shape));
    s->members = shape[0];
    tt_model_tensor_path(s, l, "bias", path);
    TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
    for (int k = 0; n->shape.layer_norm && l + 1 < n->layers && k < 2; k++) {
      tt_model_tensor_path(s, l, k ? "shift" : "gain", path);
      TT_TRY(tt_schema_check_shape_local(r, path, 2, shape));
    }
    snprintf(path, sizeof path, "%snet/layer%d", s->prefix, l);
    TT_TRY(read_choice_attr(r, path, "activation", tt_choice_activation, &n->activation[l]));
    if (l == 0)
      n->shape.inputs = f->layers ? (int64_t)f->channels * f->size[0] * f->size[1] : shape[2];
    n->width[l] = in = shape[1];
  }
  return TT_OK;
}

/* Read the shapes of all tensors and lay out the model; the layout must match the file. */
static tt_err read_model_shape(tt_h5_reader *r, tt_model_cohort_info *s)
{
  const char *file = tt_h5_file_name(r);
  net_shape n = {0};
  char group[64];
  snprintf(group, sizeof group, "%snet", s->prefix);
  TT_TRY(read_net(r, group, &n));
  TT_TRY(read_layers(r, s, &n));
  TT_TRY(check_front(r, s, &n.front));
  int64_t last = n.width[n.layers - 1],
          each = tt_outputs_per_target(n.shape.output, n.shape.levels);
  if (last % each || last < each)
    return TT_FAIL(DATA, "%s: the last layer has %" PRId64 " outputs, which does not fit output %s",
                   file, last, tt_choice_output[n.shape.output]);
  n.shape.targets = last / each;
  n.shape.hidden = n.width;
  n.shape.layers = n.layers - 1;
  n.shape.activation = (tt_activation)n.activation[0];
  if (tt_model_lay_out(&n.shape, &s->model))
    return TT_FAIL(DATA, "%s: sizes of '%s' are not possible" TT_DAMAGED, file, group);
  for (int l = 0; l < n.layers; l++)
    if (s->model.layer[l].activation != (tt_activation)n.activation[l])
      return TT_FAIL(DATA, "%s: activation of '%s/layer%d' is %s, expected %s", file, group, l,
                     tt_choice_activation[n.activation[l]],
                     tt_choice_activation[s->model.layer[l].activation]);
  return TT_OK;
}

/* Ensembles of each cohort: they are consecutive, and each cohort has at least one. */
static tt_err read_ensemble_cohorts(tt_h5_reader *r, tt_model_file_info *w)
{
  int32_t *cohort = NULL;
  int64_t next = 0;
  int empty = 0;
  TT_TRY(TT_ALLOC(cohort, w->ensembles));
  tt_err e = tt_model_read_vector_local(r, "ensemble_cohort", TT_H5_I32, w->ensembles, cohort);
  for (int64_t k = 0; !e && k < w->cohorts; k++) {
    w->cohort_info[k].ensemble = next;
    while (next < w->ensembles && cohort[next] == k) next++;
    w->cohort_info[k].ensembles = next - w->cohort_info[k].ensemble;
    empty |= w->cohort_info[k].ensembles < 1;
  }
  if (!e && (empty || next < w->ensembles))
    e = TT_FAIL(DATA, "%s: 'ensemble_cohort' does not list %" PRId64 " cohorts in order" TT_DAMAGED,
                tt_h5_file_name(r), w->cohorts);
  tt_free(cohort);
  return e;
}

static tt_err read_cohorts(tt_h5_reader *r, tt_model_file_info *w)
{
  int64_t members = 0;
  for (int64_t k = 0; k < w->cohorts; k++) {
    tt_model_cohort_info *s = &w->cohort_info[k];
    s->member = members;
    s->members = w->cohorts > 1 ? -1 : w->members;
    if (w->cohorts > 1) snprintf(s->prefix, sizeof s->prefix, "cohort%d/", (int)k);
    TT_TRY(read_model_shape(r, s));
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

tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w)
{
  int64_t members[1] = {-1}, ensembles[1] = {-1};
  TT_TRY(tt_schema_check_shape_local(r, "status", 1, members));
  TT_TRY(tt_schema_check_shape_local(r, "ensemble_first", 1, ensembles));
  w->members = members[0];
  w->ensembles = ensembles[0];
  w->cohorts = 1;
  if (tt_h5_has_attr_local(r, "/", "cohorts"))
    TT_TRY(tt_h5_read_attr_local(r, "/", "cohorts", TT_H5_I64, 1, &w->cohorts));
  if (w->cohorts < 1 || w->cohorts > w->ensembles)
    return TT_FAIL(DATA,
                   "%s: attribute 'cohorts' is %" PRId64 ", with %" PRId64 " ensembles" TT_DAMAGED,
                   tt_h5_file_name(r), w->cohorts, w->ensembles);
  TT_TRY(TT_ALLOC(w->cohort_info, w->cohorts));
  w->cohort_info[0].ensembles = w->ensembles;
  if (w->cohorts > 1) TT_TRY(read_ensemble_cohorts(r, w));
  TT_TRY(read_cohorts(r, w));
  return tt_schema_check_shape_local(r, "ensemble_column", 2,
                                     (int64_t[]){w->ensembles, w->targets});
}
