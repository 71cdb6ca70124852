/* read_shape.c — sizes and networks of a model file; see model_internal.h. Every number in the file
 * that becomes a size, an offset or an index is checked before use. */

#include "core/base/mem.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What the file says of the shape of a network; `shape` points into the arrays, and to the front of
 * the model that is made. */
typedef struct net {
  tt_model_shape shape;
  int64_t width[TT_MAX_LAYERS];
  double level[TT_MAX_QUANTILES];
  tt_front *front;
} net;

static tt_err is_damaged(tt_h5_reader *r, const char *table, int64_t k, int64_t value)
{
  return TT_FAIL(DATA, "%s: 'net/%s' of network %" PRId64 " is %" PRId64 TT_DAMAGED,
                 tt_h5_file_name(r), table, k, value);
}

/* The index of a text in a NULL-terminated list of names. */
static tt_err find_choice(tt_h5_reader *r, const char *table, const char *text,
                          const char *const *choice, int *out)
{
  int i = 0;
  while (choice[i] && strcmp(choice[i], text) != 0) i++;
  *out = i;
  if (choice[i]) return TT_OK;
  return TT_FAIL(DATA, "%s: 'net/%s' has '%s', which this version does not know",
                 tt_h5_file_name(r), table, text);
}

static tt_err find_levels(tt_h5_reader *r, const tt_net_tables *t, int64_t k, net *n)
{
  const float *level = t->level + k * t->most_levels;
  int32_t most = tt_output_max_levels(n->shape.output);
  int quantiles = tt_output_forecast(n->shape.output) == TT_FORECAST_quantiles;
  if (quantiles && t->most_levels < most) most = (int32_t)t->most_levels;
  if (t->levels[k] < (most > 0) || t->levels[k] > most)
    return is_damaged(r, "levels", k, t->levels[k]);
  n->shape.levels = t->levels[k];
  for (int32_t j = 0; quantiles && j < n->shape.levels; j++) {
    n->level[j] = (double)level[j];
    if (!(level[j] > 0.0f && level[j] < 1.0f) || (j > 0 && !(level[j] > level[j - 1])))
      return TT_FAIL(DATA, "%s: 'net/level' of network %" PRId64 " holds %g" TT_DAMAGED,
                     tt_h5_file_name(r), k, (double)level[j]);
  }
  n->shape.level = n->level;
  return TT_OK;
}

static tt_err front_is_damaged(tt_h5_reader *r, int64_t k, const char *why)
{
  return TT_FAIL(DATA, "%s: the front of network %" PRId64 " is not possible: %s" TT_DAMAGED,
                 tt_h5_file_name(r), k, why);
}

static tt_err find_front(tt_h5_reader *r, const tt_net_tables *t, int64_t k, net *n)
{
  const int32_t *size = t->front_shape + 3 * k, axes = t->front_axes[k];
  int possible = 0, activation = 0;
  tt_front_fault fault;
  if (axes == 0) return TT_OK;
  if (!t->front) return is_damaged(r, "front_axes", k, axes);
  if (axes < 1 || axes > 2) return front_is_damaged(r, k, "axes are neither 1 nor 2");
  TT_TRY(find_choice(r, "front_activation", t->front_activation[k], tt_choice_activation,
                     &activation));
  const int64_t whole[] = {size[0], axes == 1 ? size[2] : size[1], size[2]};
  const tt_front_shape shape = {
      .dims = axes, .size = whole, .activation = (tt_activation)activation};
  TT_TRY(tt_front_read(t->front[k], &shape, n->front, &possible, &fault));
  if (!possible) return front_is_damaged(r, k, fault.why);
  return TT_OK;
}

/* Texts and flags of network k. */
static tt_err find_net(tt_h5_reader *r, const tt_net_tables *t, int64_t k, net *n)
{
  int output = 0, activation = 0;
  if (t->n_layers[k] < 1 || t->n_layers[k] > TT_MAX_LAYERS || t->n_layers[k] > t->layers)
    return is_damaged(r, "n_layers", k, t->n_layers[k]);
  if (t->layer_norm[k] & ~1) return is_damaged(r, "layer_norm", k, t->layer_norm[k]);
  if (t->residual[k] & ~1) return is_damaged(r, "residual", k, t->residual[k]);
  TT_TRY(find_choice(r, "output", t->output[k], tt_choice_output, &output));
  TT_TRY(find_choice(r, "activation", t->activation[k], tt_choice_activation, &activation));
  n->shape.output = (tt_output)output;
  n->shape.activation = (tt_activation)activation;
  n->shape.layer_norm = t->layer_norm[k];
  n->shape.residual = t->residual[k];
  TT_TRY(find_levels(r, t, k, n));
  return find_front(r, t, k, n);
}

/* Widths of the layers, inputs and targets. */
static tt_err find_sizes(tt_h5_reader *r, const tt_net_tables *t, int64_t k, net *n)
{
  const tt_front *f = n->front;
  int64_t each = tt_outputs_per_target(n->shape.output, n->shape.levels), last = 0;
  n->shape.layers = t->n_layers[k] - 1;
  for (int l = 0; l <= n->shape.layers; l++) {
    n->width[l] = last = t->layer_out[k * t->layers + l];
    if (last < 1) return is_damaged(r, "layer_out", k, last);
  }
  n->shape.hidden = n->width;
  n->shape.inputs =
      f->layers ? (int64_t)f->channels * f->size[0] * f->size[1] : t->layer_in[k * t->layers];
  if (n->shape.inputs < 1) return is_damaged(r, "layer_in", k, n->shape.inputs);
  n->shape.targets = last / each;
  if (last % each == 0 && last >= each) return TT_OK;
  return TT_FAIL(DATA, "%s: the last layer has %" PRId64 " outputs, which does not fit output %s",
                 tt_h5_file_name(r), last, tt_choice_output[n->shape.output]);
}

/* The tables of the layers must be those of the model. */
static tt_err compare_layers(tt_h5_reader *r, const tt_net_tables *t, int64_t k, const tt_model *m)
{
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int64_t offset = k * t->layers + l;
    if (t->layer_in[offset] != layer->in) return is_damaged(r, "layer_in", k, t->layer_in[offset]);
    if (t->weight_offset[offset] != layer->weight)
      return is_damaged(r, "weight_offset", k, t->weight_offset[offset]);
    if (t->bias_offset[offset] != layer->bias)
      return is_damaged(r, "bias_offset", k, t->bias_offset[offset]);
    if (t->gain_offset[offset] != layer->norm)
      return is_damaged(r, "gain_offset", k, t->gain_offset[offset]);
  }
  return TT_OK;
}

static tt_err read_network(tt_h5_reader *r, const tt_net_tables *t, int64_t k,
                           tt_model_network_info *s)
{
  net n = {.front = &s->model.front};
  TT_TRY(find_net(r, t, k, &n));
  TT_TRY(find_sizes(r, t, k, &n));
  tt_front front = s->model.front; /* of the network, whatever comes next */
  n.shape.front = &front;
  if (tt_model_lay_out(&n.shape, &s->model))
    return TT_FAIL(DATA, "%s: sizes of network %" PRId64 " are not possible" TT_DAMAGED,
                   tt_h5_file_name(r), k);
  s->variance_floor = t->variance_floor[k];
  if (!(isfinite(s->variance_floor) && s->variance_floor >= 0.0f))
    return TT_FAIL(DATA, "%s: 'net/variance_floor' of network %" PRId64 " is %g" TT_DAMAGED,
                   tt_h5_file_name(r), k, (double)s->variance_floor);
  return compare_layers(r, t, k, &s->model);
}

static tt_err member_is_damaged(tt_h5_reader *r, const char *table, int64_t i, int64_t value)
{
  return TT_FAIL(DATA, "%s: 'net/%s' of member %" PRId64 " is %" PRId64 TT_DAMAGED,
                 tt_h5_file_name(r), table, i, value);
}

/* Members of each network: they are consecutive, and so are the parameters of all members. */
static tt_err read_members(tt_h5_reader *r, const tt_net_tables *t, tt_model_file_info *w)
{
  int64_t k = -1, next = 0;
  for (int64_t i = 0; i < w->members; i++) {
    int64_t network = t->network_of_member[i];
    if (network < 0 || network < k || network > k + 1 || network >= w->networks)
      return member_is_damaged(r, "network_of_member", i, network);
    tt_model_network_info *s = &w->network_info[network];
    if (network > k) *s = (tt_model_network_info){.member = i, .first_parameter = next};
    if (network > k) TT_TRY(read_network(r, t, network, s));
    if (t->first_parameter[i] != next || __builtin_add_overflow(next, s->model.params, &next))
      return member_is_damaged(r, "first_parameter", i, t->first_parameter[i]);
    s->members++;
    k = network;
  }
  if (k + 1 < w->networks)
    return TT_FAIL(DATA, "%s: network %" PRId64 " has no members" TT_DAMAGED, tt_h5_file_name(r),
                   k + 1);
  return tt_schema_check_shape_local(r, "net/parameters", 1, &next);
}

/* The largest number of targets; all networks have the same inputs. */
static tt_err compare_networks(tt_h5_reader *r, tt_model_file_info *w)
{
  for (int64_t k = 0; k < w->networks; k++) {
    const tt_model *m = &w->network_info[k].model;
    if (m->targets > w->targets) w->targets = m->targets;
    if (m->inputs != w->network_info[0].model.inputs)
      return TT_FAIL(DATA, "%s: the networks do not have the same number of inputs" TT_DAMAGED,
                     tt_h5_file_name(r));
  }
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
  for (int64_t k = 0; k < w->networks; k++) {
    const tt_model *m = &w->network_info[k].model;
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

static tt_err read_networks(tt_h5_reader *r, tt_net_tables *t, tt_model_file_info *w)
{
  TT_TRY(tt_net_tables_read_local(r, w->members, t));
  w->networks = t->networks;
  TT_TRY(TT_ALLOC(w->network_info, w->networks));
  return read_members(r, t, w);
}

void tt_model_info_free(tt_model_file_info *w)
{
  for (int64_t k = 0; w->network_info && k < w->networks; k++)
    tt_front_destroy(&w->network_info[k].model.front);
  tt_free(w->network_info);
}

tt_err tt_model_read_info_local(tt_h5_reader *r, tt_model_file_info *w)
{
  tt_net_tables t = {0};
  w->members = w->ensembles = -1;
  TT_TRY(tt_schema_check_shape_local(r, "status", 1, &w->members));
  TT_TRY(tt_schema_check_shape_local(r, "ensemble_first", 1, &w->ensembles));
  tt_err e = read_networks(r, &t, w);
  tt_net_tables_free(&t);
  if (e) return e;
  TT_TRY(compare_networks(r, w));
  TT_TRY(read_component_shape(r, w));
  return tt_schema_check_shape_local(r, "ensemble_column", 2,
                                     (int64_t[]){w->ensembles, w->targets});
}
