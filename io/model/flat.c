/* flat.c — the networks of several cohorts in one group /net, however many there are: one flat
 * dataset of all parameters, and tables of their shapes; see model_internal.h and docs/files.md. */
#include "io/model/flat.h"

#include "core/base/mem.h"
#include "core/model/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables with an element for each cohort: name in tt_flat_nets and in the file, C type, type of the
 * file, meaning. */
#define COHORT_TABLES(X)                                                                           \
  X(members, int64_t, I64, "number of members")                                                    \
  X(member_parameters, int64_t, I64, "number of parameters of a member")                           \
  X(first_parameter, int64_t, I64, "index of the first parameter of the first member")             \
  X(n_layers, int32_t, I32, "number of layers")                                                    \
  X(layer_norm, int8_t, I8, "1 = with layer_norm")                                                 \
  X(residual, int8_t, I8, "1 = with residual layers")                                              \
  X(levels, int32_t, I32, "number of quantiles or classes, else 0")                                \
  X(variance_floor, float, F32, "least variance of mean_variance")                                 \
  X(front_axes, int32_t, I32, "axes of the front; 0 = no front")

/* The same with an element for each layer of each cohort, 0 after the last layer; offsets are in
 * the parameters of a member, -1 = none. */
#define LAYER_TABLES(X)                                                                            \
  X(layer_in, "number of inputs")                                                                  \
  X(layer_out, "number of outputs")                                                                \
  X(weight_offset, "offset of the weights, out x in")                                              \
  X(bias_offset, "offset of the biases")                                                           \
  X(gain_offset, "offset of the gains of layer_norm; the shifts follow")

struct tt_flat_nets {
  int64_t cohorts, layers, levels_most, parameters, name_length, front_length;
#define X(name, type, h5, meaning) type *name; /* [cohorts] */
  COHORT_TABLES(X)
#undef X
#define X(name, meaning) int64_t *name; /* [cohorts][layers] */
  LAYER_TABLES(X)
#undef X
  float *level;         /* [cohorts][levels_most], NaN after the last */
  int32_t *front_shape; /* [cohorts][3] */
  const char **output, **activation, **front_activation; /* [cohorts] */
  char **front;                                          /* [cohorts] */
  tt_h5_part *part;                                      /* [cohorts] parameters of this rank */
};

/* Writing */

static char *front_text(const tt_front *f)
{
  char *text = NULL;
  size_t size = 0;
  FILE *to = f->layers ? open_memstream(&text, &size) : NULL;
  if (to) {
    tt_front_write(f, to);
    fclose(to);
  }
  return text ? text : calloc(1, 1);
}

static void fill_layers(const tt_model *m, int64_t k, tt_flat_nets *t)
{
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int64_t at = k * t->layers + l;
    t->layer_in[at] = layer->in;
    t->layer_out[at] = layer->out;
    t->weight_offset[at] = layer->weight;
    t->bias_offset[at] = layer->bias;
    t->gain_offset[at] = layer->norm;
    t->layer_norm[k] |= layer->norm >= 0;
    t->residual[k] |= layer->residual;
  }
}

static tt_err fill_cohort(const tt_trained_ensemble *e, int64_t k, tt_flat_nets *t)
{
  const tt_model *m = &e->model;
  t->members[k] = e->members;
  t->member_parameters[k] = m->params;
  t->first_parameter[k] = t->parameters;
  t->parameters += e->members * m->params;
  t->n_layers[k] = m->layers;
  t->levels[k] = m->levels;
  t->variance_floor[k] = e->variance_floor;
  t->front_axes[k] = m->front.layers ? m->front.dims : 0;
  t->front_shape[3 * k] = m->front.channels;
  t->front_shape[3 * k + 1] = m->front.size[0];
  t->front_shape[3 * k + 2] = m->front.size[1];
  t->output[k] = tt_choice_output[m->output];
  t->activation[k] = tt_choice_activation[m->layer[0].activation];
  t->front_activation[k] = tt_choice_activation[tt_model_activation(m)];
  t->front[k] = front_text(&m->front);
  for (int64_t j = 0; j < t->levels_most; j++)
    t->level[k * t->levels_most + j] =
        tt_model_has_quantiles(m) && j < m->levels ? m->level[j] : (float)NAN;
  fill_layers(m, k, t);
  return t->front[k] ? TT_OK : TT_FAIL(MEM, "no memory for the front of cohort %" PRId64, k);
}

static tt_err allocate(tt_flat_nets *t)
{
#define X(name, type, h5, meaning) TT_TRY(TT_ALLOC(t->name, t->cohorts));
  COHORT_TABLES(X)
#undef X
#define X(name, meaning) TT_TRY(TT_ALLOC(t->name, t->cohorts * t->layers));
  LAYER_TABLES(X)
#undef X
  TT_TRY(TT_ALLOC(t->level, t->cohorts * t->levels_most));
  TT_TRY(TT_ALLOC(t->front_shape, 3 * t->cohorts));
  TT_TRY(TT_ALLOC(t->output, t->cohorts));
  TT_TRY(TT_ALLOC(t->activation, t->cohorts));
  TT_TRY(TT_ALLOC(t->front_activation, t->cohorts));
  TT_TRY(TT_ALLOC(t->front, t->cohorts));
  return TT_ALLOC(t->part, t->cohorts);
}

void tt_flat_nets_destroy(tt_flat_nets **nets)
{
  tt_flat_nets *t = *nets;
  if (!t) return;
#define X(name, ...) tt_free(t->name);
  COHORT_TABLES(X)
  LAYER_TABLES(X)
#undef X
  for (int64_t k = 0; t->front && k < t->cohorts; k++) free(t->front[k]);
  tt_free_all(&t->level, &t->front_shape, &t->output, &t->activation, &t->front_activation,
              &t->front, &t->part, nets);
}

static int64_t longer_of(int64_t n, const char *const *text, int64_t so_far)
{
  int64_t length = tt_h5_max_text_length(n, text);
  return length > so_far ? length : so_far;
}

tt_err tt_flat_nets_create(const tt_trained_ensembles *all, tt_flat_nets **out)
{
  tt_flat_nets *t = NULL;
  tt_trained_parts of;
  TT_TRY(tt_trained_parts_create(all, &of));
  tt_err e = TT_ALLOC(t, 1);
  if (!e) *t = (tt_flat_nets){.cohorts = of.count, .layers = 1, .levels_most = 1};
  for (int64_t k = 0; !e && k < of.count; k++) {
    const tt_model *m = &of.at[k].model;
    if (m->layers > t->layers) t->layers = m->layers;
    if (tt_model_has_quantiles(m) && m->levels > t->levels_most) t->levels_most = m->levels;
  }
  if (!e) e = allocate(t);
  for (int64_t k = 0; !e && k < of.count; k++) e = fill_cohort(&of.at[k], k, t);
  tt_trained_parts_free(&of);
  if (e) {
    tt_flat_nets_destroy(&t);
    return e;
  }
  t->name_length = longer_of(t->cohorts, t->output, 1);
  t->name_length = longer_of(t->cohorts, t->activation, t->name_length);
  t->name_length = longer_of(t->cohorts, t->front_activation, t->name_length);
  t->front_length = longer_of(t->cohorts, (const char *const *)t->front, 1);
  *out = t;
  return TT_OK;
}

static void write_parameters(tt_schema *s, const tt_model_shard *shard, const tt_flat_nets *t)
{
  const tt_variable v = TT_VARIABLE("net/parameters", F32, "1",
                                    "parameters of all members, cohort by cohort, member by member",
                                    NULL, "net/parameter");
  for (int64_t k = 0; k < t->cohorts; k++) {
    int64_t each = t->member_parameters[k];
    t->part[k] = (tt_h5_part){t->first_parameter[k] + shard[k].slice.first * each,
                              shard[k].slice.count * each, shard[k].w};
  }
  tt_schema_create_dimension(s, "net/parameter", t->parameters);
  tt_schema_create_variable(s, &v);
  tt_h5_write_parts(s->file, v.name, TT_H5_F32, t->cohorts, t->part);
}

static void write_fronts(tt_schema *s, const tt_flat_nets *t)
{
  int some = 0;
  for (int64_t k = 0; k < t->cohorts; k++) some |= t->front_axes[k] > 0;
  if (!some) return;
  tt_schema_create_dimension(s, "net/front_strlen", t->front_length);
  tt_schema_create_dimension(s, "net/front_axis", 3);
  tt_schema_write_texts(s, "net/front", "net/cohort", "net/front_strlen",
                        (const char *const *)t->front, "rows of the front");
  tt_schema_write_texts(s, "net/front_activation", "net/cohort", "net/net_strlen",
                        t->front_activation, "activation of the front");
  TT_SCHEMA_WRITE(s, t->front_shape, "net/front_shape", I32, NULL, "channels, height, width", NULL,
                  "net/cohort", "net/front_axis");
}

void tt_flat_nets_write(tt_schema *s, const tt_model_shard *shard, const tt_flat_nets *t)
{
  tt_h5_create_group(s->file, "net");
  tt_schema_create_dimension(s, "net/cohort", t->cohorts);
  tt_schema_create_dimension(s, "net/layer", t->layers);
  tt_schema_create_dimension(s, "net/level_number", t->levels_most);
  tt_schema_create_dimension(s, "net/net_strlen", t->name_length);
#define X(name, type, h5, meaning)                                                                 \
  TT_SCHEMA_WRITE(s, t->name, "net/" #name, h5, NULL, meaning, NULL, "net/cohort");
  COHORT_TABLES(X)
#undef X
#define X(name, meaning)                                                                           \
  TT_SCHEMA_WRITE(s, t->name, "net/" #name, I64, NULL, meaning, NULL, "net/cohort", "net/layer");
  LAYER_TABLES(X)
#undef X
  TT_SCHEMA_WRITE(s, t->level, "net/level", F32, "1", "quantiles", NULL, "net/cohort",
                  "net/level_number");
  tt_schema_write_texts(s, "net/output", "net/cohort", "net/net_strlen", t->output,
                        "output of the network");
  tt_schema_write_texts(s, "net/activation", "net/cohort", "net/net_strlen", t->activation,
                        "activation of the first layer, and of all hidden layers");
  write_fronts(s, t);
  write_parameters(s, shard, t);
}
