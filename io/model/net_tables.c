/* net_tables.c — see model_internal.h. */
#include "core/base/mem.h"
#include "core/model/state.h"
#include "io/model/model_internal.h"

#include <math.h>
#include <stdlib.h>

/* Dimensions of the axes of TT_NET_TABLES. */
#define DIMENSION_members "member"
#define DIMENSION_networks "net/network"
#define DIMENSION_layers "net/layer"
#define DIMENSION_most_levels "net/level_number"
#define DIMENSION_one NULL

void tt_net_tables_free(tt_net_tables *t)
{
#define X(type, h5, name, ...) tt_free(t->name);
  TT_NET_TABLES(X)
#undef X
#define X(name, ...) tt_h5_texts_free(t->networks, &t->name);
  TT_NET_TEXTS(X)
  TT_NET_FRONT_TEXTS(X)
#undef X
  tt_free_all(&t->front_shape, &t->part);
}

/* Writing */

static tt_err allocate(int fronts, tt_net_tables *t)
{
#define X(type, h5, name, rows, columns, meaning) TT_TRY(TT_ALLOC(t->name, t->rows * t->columns));
  TT_NET_TABLES(X)
#undef X
#define X(name, ...) TT_TRY(TT_ALLOC(t->name, t->networks));
  TT_NET_TEXTS(X)
  TT_TRY(TT_ALLOC(t->part, t->networks));
  if (!fronts) return TT_OK;
  TT_NET_FRONT_TEXTS(X)
#undef X
  return TT_ALLOC(t->front_shape, 3 * t->networks);
}

static void fill_layers(const tt_model *m, int64_t k, tt_net_tables *t)
{
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    int64_t offset = k * t->layers + l;
    t->layer_in[offset] = layer->in;
    t->layer_out[offset] = layer->out;
    t->weight_offset[offset] = layer->weight;
    t->bias_offset[offset] = layer->bias;
    t->gain_offset[offset] = layer->norm;
    t->layer_norm[k] |= layer->norm >= 0;
    t->residual[k] |= layer->residual;
  }
}

static tt_err fill_front(const tt_model *m, int64_t k, tt_net_tables *t)
{
  const tt_front *f = &m->front;
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  if (!file) return TT_FAIL(MEM, "no memory for the front of network %" PRId64, k);
  tt_front_write(f, file);
  fclose(file);
  tt_err e = tt_text_set(&t->front[k], text);
  free(text);
  t->front_axes[k] = f->layers ? f->dims : 0;
  t->front_shape[3 * k] = f->channels;
  t->front_shape[3 * k + 1] = f->size[0];
  t->front_shape[3 * k + 2] = f->size[1];
  if (e) return e;
  return tt_text_set(&t->front_activation[k], tt_choice_activation[tt_model_activation(m)]);
}

/*   member  its first member; it becomes that of the next network */
static tt_err fill_network(const tt_trained_ensemble *e, int64_t k, int64_t *member,
                           tt_net_tables *t)
{
  const tt_model *m = &e->model;
  for (int64_t i = 0; i < e->members; i++, ++*member, t->parameters += m->params) {
    t->network_of_member[*member] = (int32_t)k;
    t->first_parameter[*member] = t->parameters;
  }
  t->n_layers[k] = m->layers;
  t->levels[k] = m->levels;
  t->variance_floor[k] = e->variance_floor;
  for (int64_t j = 0; j < t->most_levels; j++)
    t->level[k * t->most_levels + j] =
        tt_model_has_quantiles(m) && j < m->levels ? m->level[j] : (float)NAN;
  fill_layers(m, k, t);
  TT_TRY(tt_text_set(&t->output[k], tt_choice_output[m->output]));
  TT_TRY(tt_text_set(&t->activation[k], tt_choice_activation[m->layer[0].activation]));
  return t->front ? fill_front(m, k, t) : TT_OK;
}

tt_err tt_net_tables_create(const tt_trained_ensembles *all, tt_net_tables *out)
{
  int64_t member = 0;
  int fronts = 0;
  tt_trained_parts parts;
  TT_TRY(tt_trained_parts_create(all, &parts));
  *out = (tt_net_tables){.members = tt_trained_ensembles_members(all),
                         .networks = parts.count,
                         .one = 1,
                         .layers = 1,
                         .most_levels = 1};
  for (int64_t k = 0; k < parts.count; k++) {
    const tt_model *m = &parts.at[k].model;
    fronts |= m->front.layers > 0;
    if (m->layers > out->layers) out->layers = m->layers;
    if (tt_model_has_quantiles(m) && m->levels > out->most_levels) out->most_levels = m->levels;
  }
  tt_err e = allocate(fronts, out);
  for (int64_t k = 0; !e && k < parts.count; k++) e = fill_network(&parts.at[k], k, &member, out);
  tt_trained_parts_free(&parts);
  return e;
}

static void write_texts(tt_schema *s, const char *name, const char *length, int64_t n,
                        char *const *text, const char *meaning)
{
  const char *const *all = (const char *const *)text;
  tt_schema_create_dimension(s, length, tt_h5_max_text_length(n, all));
  tt_schema_write_texts(s, name, DIMENSION_networks, length, all, meaning);
}

/* Index of the first parameter of a member; behind the last member the number of all parameters. */
static int64_t first_of(const tt_net_tables *t, int64_t member)
{
  return member < t->members ? t->first_parameter[member] : t->parameters;
}

static void write_parameters(tt_schema *s, const tt_net_tables *t, const tt_model_shard *shard)
{
  static const char name[] = "net/parameters", *const axis = "net/parameter";
  int64_t member = 0;
  for (int64_t k = 0; k < t->networks; k++) {
    int64_t first = first_of(t, member + shard[k].slice.first);
    int64_t end = first_of(t, member + shard[k].slice.first + shard[k].slice.count);
    t->part[k] = (tt_h5_part){first, end - first, shard[k].w};
    while (member < t->members && t->network_of_member[member] == k) member++;
  }
  tt_h5_create_open_dimension(s->file, axis); /* one with a size would need a byte per parameter */
  tt_h5_create_dataset(s->file, name, TT_H5_F32, 1, &t->parameters);
  tt_h5_write_attr_text(s->file, name, "long_name",
                        "parameters of all members, one member after the other");
  tt_h5_attach_scales(s->file, name, &axis, 1);
  tt_h5_write_parts(s->file, name, TT_H5_F32, t->networks, t->part);
}

void tt_net_tables_write(tt_schema *s, const tt_net_tables *t, const tt_model_shard *shard)
{
  tt_h5_create_group(s->file, "net");
  tt_schema_create_dimension(s, DIMENSION_networks, t->networks);
  tt_schema_create_dimension(s, DIMENSION_layers, t->layers);
  tt_schema_create_dimension(s, DIMENSION_most_levels, t->most_levels);
#define X(type, h5, name, rows, columns, meaning)                                                  \
  TT_SCHEMA_WRITE(s, t->name, "net/" #name, h5, NULL, meaning, NULL, DIMENSION_##rows,             \
                  DIMENSION_##columns);
  TT_NET_TABLES(X)
#undef X
#define X(name, meaning)                                                                           \
  write_texts(s, "net/" #name, "net/" #name "_strlen", t->networks, t->name, meaning);
  TT_NET_TEXTS(X)
  if (t->front) {
    TT_NET_FRONT_TEXTS(X)
    tt_schema_create_dimension(s, "net/front_axis", 3);
    TT_SCHEMA_WRITE(s, t->front_shape, "net/front_shape", I32, NULL, "channels, height, width",
                    NULL, DIMENSION_networks, "net/front_axis");
  }
#undef X
  write_parameters(s, t, shard);
}

/* Reading */

/* Sizes of -1 become those of the file. */
static tt_err read_table(tt_h5_reader *r, const char *path, tt_h5_type type, int axes,
                         int64_t *rows, int64_t *columns, void *out)
{
  int64_t shape[2] = {*rows, *columns};
  TT_TRY(tt_schema_read_array_local(r, path, type, axes, shape, out));
  *rows = shape[0];
  *columns = shape[1];
  return TT_OK;
}

tt_err tt_net_tables_read_local(tt_h5_reader *r, int64_t members, tt_net_tables *t)
{
  int64_t shape[2] = {-1, 3};
  *t = (tt_net_tables){
      .members = members, .networks = -1, .one = 1, .layers = -1, .most_levels = -1};
#define X(type, h5, name, rows, columns, meaning)                                                  \
  TT_TRY(read_table(r, "net/" #name, TT_H5_##h5, &t->columns == &t->one ? 1 : 2, &t->rows,         \
                    &t->columns, &t->name));
  TT_NET_TABLES(X)
#undef X
#define X(name, ...) TT_TRY(tt_schema_read_texts_local(r, "net/" #name, t->networks, &t->name));
  TT_NET_TEXTS(X)
  if (!tt_h5_has_local(r, "net/front")) return TT_OK;
  TT_NET_FRONT_TEXTS(X)
#undef X
  shape[0] = t->networks;
  return tt_schema_read_array_local(r, "net/front_shape", TT_H5_I32, 2, shape, &t->front_shape);
}
