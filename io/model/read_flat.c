/* read_flat.c — networks of several cohorts from the tables of /net; see model_internal.h. */
#include "core/base/mem.h"
#include "io/hdf5/schema.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <string.h>

/* The tables of the file that say what the others follow from. */
typedef struct flat_tables {
  int64_t cohorts, layers, levels_most;
  int64_t *members, *member_parameters, *first_parameter; /* [cohorts] */
  int64_t *n_layers, *layer_norm, *residual, *levels, *front_axes;
  int64_t *layer_in, *layer_out, *weight_offset, *bias_offset, *gain_offset; /* [cohorts][layers] */
  float *variance_floor, *level;                                             /* [cohorts][levels] */
  int32_t *front_shape;                                                      /* [cohorts][3] */
  char **output, **activation, **front, **front_activation;                  /* [cohorts] */
} flat_tables;

static void free_tables(flat_tables *t)
{
  tt_free_all(&t->members, &t->member_parameters, &t->first_parameter, &t->n_layers, &t->layer_norm,
              &t->residual, &t->levels, &t->front_axes, &t->layer_in, &t->layer_out,
              &t->weight_offset, &t->bias_offset, &t->gain_offset, &t->variance_floor, &t->level,
              &t->front_shape);
  tt_h5_texts_free(t->cohorts, &t->output);
  tt_h5_texts_free(t->cohorts, &t->activation);
  tt_h5_texts_free(t->cohorts, &t->front);
  tt_h5_texts_free(t->cohorts, &t->front_activation);
}

static tt_err read_cohort_tables(tt_h5_reader *r, flat_tables *t)
{
  const struct {
    const char *path;
    int64_t **to;
  } of_cohorts[] = {{"net/members", &t->members},
                    {"net/member_parameters", &t->member_parameters},
                    {"net/first_parameter", &t->first_parameter},
                    {"net/n_layers", &t->n_layers},
                    {"net/layer_norm", &t->layer_norm},
                    {"net/residual", &t->residual},
                    {"net/levels", &t->levels},
                    {"net/front_axes", &t->front_axes}};
  for (size_t i = 0; i < sizeof of_cohorts / sizeof *of_cohorts; i++) {
    TT_TRY(TT_ALLOC(*of_cohorts[i].to, t->cohorts));
    TT_TRY(tt_model_read_vector_local(r, of_cohorts[i].path, TT_H5_I64, t->cohorts,
                                      *of_cohorts[i].to));
  }
  TT_TRY(TT_ALLOC(t->variance_floor, t->cohorts));
  return tt_model_read_vector_local(r, "net/variance_floor", TT_H5_F32, t->cohorts,
                                    t->variance_floor);
}

static tt_err read_layer_tables(tt_h5_reader *r, flat_tables *t)
{
  const struct {
    const char *path;
    int64_t **to;
  } of_layers[] = {{"net/layer_in", &t->layer_in},
                   {"net/layer_out", &t->layer_out},
                   {"net/weight_offset", &t->weight_offset},
                   {"net/bias_offset", &t->bias_offset},
                   {"net/gain_offset", &t->gain_offset}};
  t->layers = -1;
  for (size_t i = 0; i < sizeof of_layers / sizeof *of_layers; i++) {
    int64_t dims[2] = {t->cohorts, t->layers};
    TT_TRY(tt_schema_check_shape_local(r, of_layers[i].path, 2, dims));
    t->layers = dims[1];
    TT_TRY(TT_ALLOC(*of_layers[i].to, t->cohorts * t->layers));
    TT_TRY(tt_h5_read_rows_local(r, of_layers[i].path, TT_H5_I64, 0, t->cohorts, *of_layers[i].to));
  }
  return TT_OK;
}

static tt_err read_other_tables(tt_h5_reader *r, flat_tables *t)
{
  int64_t levels[2] = {t->cohorts, -1};
  TT_TRY(tt_schema_check_shape_local(r, "net/level", 2, levels));
  t->levels_most = levels[1];
  TT_TRY(TT_ALLOC(t->level, t->cohorts * t->levels_most));
  TT_TRY(tt_h5_read_rows_local(r, "net/level", TT_H5_F32, 0, t->cohorts, t->level));
  TT_TRY(tt_schema_read_texts_local(r, "net/output", t->cohorts, &t->output));
  TT_TRY(tt_schema_read_texts_local(r, "net/activation", t->cohorts, &t->activation));
  if (!tt_h5_has_local(r, "net/front")) return TT_OK;
  TT_TRY(tt_schema_read_texts_local(r, "net/front", t->cohorts, &t->front));
  TT_TRY(tt_schema_read_texts_local(r, "net/front_activation", t->cohorts, &t->front_activation));
  TT_TRY(tt_schema_check_shape_local(r, "net/front_shape", 2, (int64_t[]){t->cohorts, 3}));
  TT_TRY(TT_ALLOC(t->front_shape, 3 * t->cohorts));
  return tt_h5_read_rows_local(r, "net/front_shape", TT_H5_I32, 0, t->cohorts, t->front_shape);
}

static tt_err is_damaged(tt_h5_reader *r, const char *table, int64_t k, int64_t value)
{
  return TT_FAIL(DATA, "%s: 'net/%s' of cohort %" PRId64 " is %" PRId64 TT_DAMAGED,
                 tt_h5_file_name(r), table, k, value);
}

/* Texts and flags of cohort k. */
static tt_err find_net(tt_h5_reader *r, const flat_tables *t, int64_t k, tt_model_net *n)
{
  int output = 0, activation = 0;
  if (t->n_layers[k] < 1 || t->n_layers[k] > TT_MAX_LAYERS || t->n_layers[k] > t->layers)
    return is_damaged(r, "n_layers", k, t->n_layers[k]);
  if ((t->layer_norm[k] | t->residual[k]) & ~1)
    return is_damaged(r, t->layer_norm[k] & ~1 ? "layer_norm" : "residual", k,
                      t->layer_norm[k] & ~1 ? t->layer_norm[k] : t->residual[k]);
  TT_TRY(tt_model_find_choice(r, "net", "output", t->output[k], tt_choice_output, &output));
  TT_TRY(tt_model_find_choice(r, "net", "activation", t->activation[k], tt_choice_activation,
                              &n->activation));
  n->layers = (int32_t)t->n_layers[k];
  n->shape.output = (tt_output)output;
  n->shape.layer_norm = (int)t->layer_norm[k];
  n->shape.residual = (int)t->residual[k];
  int32_t most = tt_output_max_levels(n->shape.output);
  int quantiles = tt_output_forecast(n->shape.output) == TT_FORECAST_quantiles;
  if (quantiles && t->levels_most < most) most = (int32_t)t->levels_most;
  if (t->levels[k] < (most > 0) || t->levels[k] > most)
    return is_damaged(r, "levels", k, t->levels[k]);
  n->shape.levels = (int32_t)t->levels[k];
  if (quantiles) TT_TRY(tt_model_check_levels(r, "net", t->level + k * t->levels_most, n));
  if (t->front_axes[k] == 0) return TT_OK;
  if (!t->front) return is_damaged(r, "front_axes", k, t->front_axes[k]);
  TT_TRY(tt_model_find_choice(r, "net", "front_activation", t->front_activation[k],
                              tt_choice_activation, &activation));
  return tt_model_parse_front(r, "net", t->front[k], (int32_t)t->front_axes[k],
                              t->front_shape + 3 * k, (tt_activation)activation, n);
}

/* The tables of the layers must be those of the model. */
static tt_err compare_layers(tt_h5_reader *r, const flat_tables *t, int64_t k, const tt_model *m)
{
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int64_t at = k * t->layers + l;
    if (t->layer_in[at] != layer->in) return is_damaged(r, "layer_in", k, t->layer_in[at]);
    if (t->weight_offset[at] != layer->weight)
      return is_damaged(r, "weight_offset", k, t->weight_offset[at]);
    if (t->bias_offset[at] != layer->bias)
      return is_damaged(r, "bias_offset", k, t->bias_offset[at]);
    if (t->gain_offset[at] != layer->norm)
      return is_damaged(r, "gain_offset", k, t->gain_offset[at]);
  }
  if (t->member_parameters[k] != m->params)
    return is_damaged(r, "member_parameters", k, t->member_parameters[k]);
  return TT_OK;
}

static tt_err read_cohort(tt_h5_reader *r, const flat_tables *t, int64_t k, int64_t *next,
                          tt_model_cohort_info *s)
{
  tt_model_net n = {0};
  int64_t values = 0;
  TT_TRY(find_net(r, t, k, &n));
  const tt_front *f = &n.front;
  for (int l = 0; l < n.layers; l++) {
    n.width[l] = t->layer_out[k * t->layers + l];
    if (n.width[l] < 1) return is_damaged(r, "layer_out", k, n.width[l]);
  }
  n.shape.inputs =
      f->layers ? (int64_t)f->channels * f->size[0] * f->size[1] : t->layer_in[k * t->layers];
  if (n.shape.inputs < 1) return is_damaged(r, "layer_in", k, n.shape.inputs);
  TT_TRY(tt_model_lay_out_net(r, "net", &n, &s->model));
  TT_TRY(compare_layers(r, t, k, &s->model));
  if (t->members[k] < 1 || __builtin_mul_overflow(t->members[k], s->model.params, &values))
    return is_damaged(r, "members", k, t->members[k]);
  if (t->first_parameter[k] != *next || __builtin_add_overflow(*next, values, next))
    return is_damaged(r, "first_parameter", k, t->first_parameter[k]);
  s->members = t->members[k];
  s->first_parameter = t->first_parameter[k];
  s->variance_floor = t->variance_floor[k];
  return tt_model_check_floor(r, "net", s->variance_floor);
}

static tt_err read_tables(tt_h5_reader *r, flat_tables *t, tt_model_file_info *w)
{
  int64_t next = 0;
  TT_TRY(read_cohort_tables(r, t));
  TT_TRY(read_layer_tables(r, t));
  TT_TRY(read_other_tables(r, t));
  for (int64_t k = 0; k < w->cohorts; k++) TT_TRY(read_cohort(r, t, k, &next, &w->cohort_info[k]));
  return tt_schema_check_shape_local(r, "net/parameters", 1, &next);
}

tt_err tt_model_read_flat_local(tt_h5_reader *r, tt_model_file_info *w)
{
  flat_tables t = {.cohorts = w->cohorts};
  tt_err e = read_tables(r, &t, w);
  free_tables(&t);
  return e;
}
