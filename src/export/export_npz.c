/* export_npz.c — a trained model as a NumPy archive: the weights of the used members and all
 * transforms. docs/embedding.md lists the arrays, with a program that predicts from them.
 *
 * An archive is a ZIP file of .npy files. They are stored without compression, so that a few
 * records are all that is needed of the format (PKWARE APPNOTE 6.3.3). */
#include "core/base/mem.h"
#include "src/export/export_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct zip_archive {
  const char *file;
  FILE *to, *directory; /* directory: the records that stand at the end */
  int entries;
  int64_t offset; /* bytes written */
} zip_archive;

enum { MOST_AXES = 5 };
typedef struct npy_array {
  const char *type; /* of NumPy: "<f4" */
  int64_t bytes;    /* of a value */
  int ndims;
  int64_t dim[MOST_AXES];
  const void *values;
} npy_array;

static uint32_t crc32_of(const char *bytes, size_t size)
{
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; i++) {
    crc ^= (unsigned char)bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/* Little-endian, as the format asks for. */
static void put_number(FILE *to, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++, value >>= 8) fputc((int)(value & 0xFF), to);
}

/* The fields that a local header and the directory have in common. */
static void put_fields(FILE *to, uint32_t crc, size_t size, size_t name_length)
{
  put_number(to, 20, 2);         /* version 2.0 */
  put_number(to, 0, 4);          /* no flags, not compressed */
  put_number(to, 0x00210000, 4); /* 1 January 1980: the archive does not depend on the time */
  put_number(to, crc, 4);
  put_number(to, size, 4);
  put_number(to, size, 4);
  put_number(to, name_length, 2);
  put_number(to, 0, 2); /* no extra field */
}

static tt_err put_entry(zip_archive *z, const char *name, const char *bytes, size_t size)
{
  size_t length = strlen(name);
  uint32_t crc = crc32_of(bytes, size);
  if (z->offset + (int64_t)size > INT64_C(0xFFFF0000))
    return TT_FAIL(USAGE, "%s: an archive may have 4 GiB, and this model is larger", z->file);
  put_number(z->to, 0x04034B50, 4);
  put_fields(z->to, crc, size, length);
  fwrite(name, 1, length, z->to);
  fwrite(bytes, 1, size, z->to);
  put_number(z->directory, 0x02014B50, 4);
  put_number(z->directory, 20, 2);
  put_fields(z->directory, crc, size, length);
  put_number(z->directory, 0, 10); /* no comment, one disk, no attributes */
  put_number(z->directory, (uint64_t)z->offset, 4);
  fwrite(name, 1, length, z->directory);
  z->offset += (int64_t)(30 + length + size);
  z->entries++;
  return TT_OK;
}

/* The header of an .npy file, version 1.0: a dictionary of Python, padded to 64 bytes. */
static void put_npy_header(FILE *to, const npy_array *a)
{
  char text[256], shape[96] = "";
  for (int i = 0; i < a->ndims; i++)
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%" PRId64 ",", a->dim[i]);
  int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                   a->type, shape);
  int padded = (10 + n + 1 + 63) / 64 * 64 - 10;
  fputs("\x93NUMPY", to);
  put_number(to, 1, 2);
  put_number(to, (uint64_t)padded, 2);
  fprintf(to, "%-*s\n", padded - 1, text);
}

static tt_err put_array(zip_archive *z, const char *name, const npy_array *a)
{
  char entry[128], *bytes = NULL;
  size_t size = 0, values = 1;
  FILE *to = open_memstream(&bytes, &size);
  if (!to) return TT_FAIL(MEM, "%s: out of memory", z->file);
  for (int i = 0; i < a->ndims; i++) values *= (size_t)a->dim[i];
  put_npy_header(to, a);
  fwrite(a->values, (size_t)a->bytes, values, to);
  int bad = ferror(to);
  bad |= fclose(to) != 0;
  snprintf(entry, sizeof entry, "%s.npy", name);
  tt_err e = bad ? TT_FAIL(MEM, "%s: out of memory", z->file) : put_entry(z, entry, bytes, size);
  free(bytes);
  return e;
}

/* Texts of equal length, as the type S of NumPy; a single text without an axis if n is 0. */
static tt_err put_texts(zip_archive *z, const char *name, int64_t n, const char *const *text)
{
  char *bytes = NULL, type[32];
  size_t room = 1;
  for (int64_t i = 0; i < (n ? n : 1); i++) room = strlen(text[i]) > room ? strlen(text[i]) : room;
  TT_TRY(tt_alloc_bytes(&bytes, n ? n : 1, room, "texts"));
  for (int64_t i = 0; i < (n ? n : 1); i++)
    memcpy(bytes + (size_t)i * room, text[i], strlen(text[i]));
  snprintf(type, sizeof type, "|S%zu", room);
  tt_err e = put_array(z, name, &(npy_array){type, (int64_t)room, n > 0, {n}, bytes});
  tt_free(bytes);
  return e;
}

static tt_err put_doubles(zip_archive *z, const char *name, int64_t n, const double *value)
{
  return put_array(z, name, &(npy_array){"<f8", 8, 1, {n}, value});
}

static tt_err put_integer(zip_archive *z, const char *name, int64_t value)
{
  return put_array(z, name, &(npy_array){"<i8", 8, 0, {0}, &value});
}

/* A tensor of all used members: the numbers from `offset` on.
 *   dim  [axes] without that of the members */
static tt_err put_tensor(zip_archive *z, const char *name, const tt_export_cohort *k,
                         int64_t offset, int axes, const int64_t *dim)
{
  npy_array a = {.type = "<f4", .bytes = 4, .ndims = 1 + axes, .dim = {k->members}};
  int64_t size = 1;
  float *all = NULL;
  for (int i = 0; i < axes; i++) size *= a.dim[1 + i] = dim[i];
  TT_TRY(TT_ALLOC(all, k->members * size));
  for (int64_t g = 0; g < k->members; g++)
    memcpy(all + g * size, k->m->w + k->member[g] * k->m->model.params + offset,
           (size_t)size * sizeof *all);
  a.values = all;
  tt_err e = put_array(z, name, &a);
  tt_free(all);
  return e;
}

/* The beginning of the names of the arrays of a cohort, or of its networks from the second one on:
 * "cohort0", "cohort0_network1". */
typedef struct prefix {
  char text[64];
} prefix;

static prefix prefix_of(int64_t cohort, int64_t network)
{
  prefix p;
  if (network > 0)
    snprintf(p.text, sizeof p.text, "cohort%" PRId64 "_network%" PRId64, cohort, network);
  else
    snprintf(p.text, sizeof p.text, "cohort%" PRId64, cohort);
  return p;
}

/* Name of an array; valid until the next call. */
static const char *named(char room[128], const prefix *p, const char *what, int l)
{
  if (l < 0)
    snprintf(room, 128, "%s_%s", p->text, what);
  else
    snprintf(room, 128, "%s_%s%d", p->text, what, l);
  return room;
}

static const char *named_front(char room[128], const prefix *p, int l, const char *what)
{
  snprintf(room, 128, "%s_front%d_%s", p->text, l, what);
  return room;
}

static tt_err put_layer(zip_archive *z, const prefix *i, const tt_export_cohort *k, int l)
{
  const tt_layer *layer = &k->m->model.layer[l];
  char name[128];
  const int64_t dim[] = {layer->out, layer->in};
  TT_TRY(put_tensor(z, named(name, i, "weight", l), k, layer->weight, 2, dim));
  TT_TRY(put_tensor(z, named(name, i, "bias", l), k, layer->bias, 1, dim));
  TT_TRY(put_integer(z, named(name, i, "residual", l), layer->residual));
  if (layer->norm < 0) return TT_OK;
  TT_TRY(put_tensor(z, named(name, i, "gain", l), k, layer->norm, 1, dim));
  return put_tensor(z, named(name, i, "shift", l), k, layer->norm + layer->out, 1, dim);
}

/* Height and width as a vector. */
static tt_err put_pair(zip_archive *z, const char *name, const int32_t pair[2])
{
  const int64_t both[] = {pair[0], pair[1]};
  return put_array(z, name, &(npy_array){"<i8", 8, 1, {2}, both});
}

/* Layer l of the front: arrays cohort0_front0_weight, ... */
static tt_err put_front_layer(zip_archive *z, const prefix *i, const tt_export_cohort *k, int l)
{
  const tt_front_layer *at = &k->m->model.front.layer[l];
  const char *kind = tt_front_words[at->kind], *activation = tt_choice_activation[at->activation];
  const char *by = tt_pooling_name[at->pool];
  const int64_t dim[] = {at->channels, at->in_channels / at->groups, at->size[0], at->size[1]};
  int conv = at->kind == TT_FRONT_conv;
  char name[128];
#define NAMED(what) named_front(name, i, l, what)
  TT_TRY(put_texts(z, NAMED("kind"), 0, &kind));
  TT_TRY(put_texts(z, NAMED("activation"), 0, &activation));
  TT_TRY(put_texts(z, NAMED("pool"), 0, &by));
  TT_TRY(put_pair(z, NAMED("size"), at->size));
  TT_TRY(put_pair(z, NAMED("stride"), at->stride));
  TT_TRY(put_pair(z, NAMED("pad"), at->pad));
  TT_TRY(put_pair(z, NAMED("dilation"), at->dilation));
  TT_TRY(put_integer(z, NAMED("groups"), at->groups));
  TT_TRY(put_integer(z, NAMED("skip"), at->skip));
  if (at->weight < 0) return TT_OK;
  TT_TRY(put_tensor(z, NAMED("weight"), k, at->weight, conv ? 4 : 1, dim));
  return put_tensor(z, NAMED("bias"), k, at->bias, 1, dim);
#undef NAMED
}

static tt_err put_front(zip_archive *z, const prefix *i, const tt_export_cohort *k)
{
  const tt_front *f = &k->m->model.front;
  const int64_t shape[] = {f->channels, f->size[0], f->size[1]};
  char name[128];
  TT_TRY(put_integer(z, named(name, i, "front_layers", -1), f->layers));
  if (!f->layers) return TT_OK;
  TT_TRY(put_array(z, named(name, i, "front_shape", -1), &(npy_array){"<i8", 8, 1, {3}, shape}));
  for (int l = 0; l < f->layers; l++) TT_TRY(put_front_layer(z, i, k, l));
  return TT_OK;
}

/* Names of n transforms. */
static tt_err put_transforms(zip_archive *z, const char *array, int64_t n, const tt_transform *f)
{
  const char **name = NULL;
  TT_TRY(TT_ALLOC(name, n));
  for (int64_t i = 0; i < n; i++) name[i] = tt_export_transform_name(f[i]);
  tt_err e = put_texts(z, array, n, name);
  tt_free(name);
  return e;
}

/* Of the inputs. */
static tt_err put_input_transforms(zip_archive *z, const tt_export_model *x)
{
  tt_transform *f = NULL;
  TT_TRY(TT_ALLOC(f, x->inputs));
  for (int64_t i = 0; i < x->inputs; i++) f[i] = tt_export_transform(x, i);
  tt_err e = put_transforms(z, "x_transform", x->inputs, f);
  tt_free(f);
  return e;
}

/* Components of the targets, if there are any. */
static tt_err put_components(zip_archive *z, const prefix *i, const tt_scaler *s)
{
  char name[128];
  if (!s->components) return TT_OK;
  const npy_array component = {"<f8", 8, 2, {s->components, s->targets}, s->component};
  TT_TRY(put_array(z, named(name, i, "component", -1), &component));
  TT_TRY(put_doubles(z, named(name, i, "component_mean", -1), s->targets, s->component_mean));
  return put_doubles(z, named(name, i, "residual_variance", -1), s->targets, s->residual);
}

/* What a network with a fold does to its inputs. */
static tt_err put_fold_inputs(zip_archive *z, const prefix *i, const tt_trained_ensemble *m)
{
  char name[128];
  if (!m->scales) return TT_OK;
  TT_TRY(put_doubles(z, named(name, i, "x_factor", -1), m->model.inputs, m->scales->x_factor));
  return put_doubles(z, named(name, i, "x_offset", -1), m->model.inputs, m->scales->x_offset);
}

/* What is done to the predictions of each member, if some have a fold. */
static tt_err put_fold_targets(zip_archive *z, const tt_export_model *x, const prefix *i,
                               const tt_export_cohort *k)
{
  int64_t width = tt_trained_ensemble_width(k->m), g = 0;
  double *factor = NULL, *offset = NULL;
  char name[128];
  int some = 0;
  for (int64_t n = 0; n < k->networks; n++) some |= x->network[k->network + n].m->scales != NULL;
  if (!some || k->m->scaler.components) return TT_OK;
  tt_err e = TT_ALLOC(factor, k->members * width);
  if (!e) e = TT_ALLOC(offset, k->members * width);
  for (int64_t n = 0; !e && n < k->networks; n++)
    for (int64_t u = 0; u < x->network[k->network + n].members; u++, g++)
      tt_export_fold_targets(&x->network[k->network + n], factor + g * width, offset + g * width);
  npy_array a = {"<f8", 8, 2, {k->members, width}, factor};
  if (!e) e = put_array(z, named(name, i, "y_factor", -1), &a);
  a.values = offset;
  if (!e) e = put_array(z, named(name, i, "y_offset", -1), &a);
  tt_free_all(&factor, &offset);
  return e;
}

/* Layers and weights of the members with one network. */
static tt_err put_network(zip_archive *z, const prefix *i, const tt_export_cohort *k)
{
  const tt_model *m = &k->m->model;
  const char *activation = tt_choice_activation[tt_model_activation(m)];
  char name[128];
  TT_TRY(put_fold_inputs(z, i, k->m));
  TT_TRY(put_front(z, i, k));
  for (int l = 0; l < m->layers; l++) TT_TRY(put_layer(z, i, k, l));
  TT_TRY(put_integer(z, named(name, i, "layers", -1), m->layers));
  return put_texts(z, named(name, i, "activation", -1), 0, &activation);
}

static tt_err put_cohort(zip_archive *z, const tt_export_model *x, int64_t number)
{
  const tt_export_cohort *k = &x->cohort[number];
  const prefix p = prefix_of(number, 0), *i = &p;
  const tt_model *m = &k->m->model;
  const char *output = tt_choice_output[m->output];
  double variance_floor = (double)k->m->variance_floor;
  char name[128];
  for (int64_t n = 0; n < k->networks; n++) {
    const prefix of_network = prefix_of(number, n);
    TT_TRY(put_network(z, &of_network, &x->network[k->network + n]));
  }
  TT_TRY(put_integer(z, named(name, i, "networks", -1), k->networks));
  TT_TRY(put_integer(z, named(name, i, "targets", -1), m->targets));
  TT_TRY(put_integer(z, named(name, i, "ensembles", -1), k->m->ensembles));
  TT_TRY(put_texts(z, named(name, i, "output", -1), 0, &output));
  TT_TRY(put_array(z, named(name, i, "variance_floor", -1),
                   &(npy_array){"<f8", 8, 0, {0}, &variance_floor}));
  TT_TRY(
      put_array(z, named(name, i, "ensemble", -1), &(npy_array){"<i8", 8, 1, {k->members}, k->of}));
  TT_TRY(put_doubles(z, named(name, i, "share", -1), k->members, k->share));
  TT_TRY(put_doubles(z, named(name, i, "offset", -1), k->columns, k->offset));
  TT_TRY(put_doubles(z, named(name, i, "scale", -1), k->columns, k->scale));
  TT_TRY(put_doubles(z, named(name, i, "std_scale", -1), k->columns, k->std_scale));
  TT_TRY(put_fold_targets(z, x, i, k));
  TT_TRY(put_components(z, i, &k->m->scaler));
  TT_TRY(put_doubles(z, named(name, i, "lambda", -1), k->columns, k->lambda));
  return put_transforms(z, named(name, i, "transform", -1), k->columns, k->undo);
}

/* Which inputs of the networks the columns become. */
static tt_err put_net_inputs(zip_archive *z, const tt_export_model *x)
{
  const char **kind = NULL, **name = NULL;
  int64_t *column = NULL;
  double *level = NULL;
  tt_err e = TT_ALLOC(kind, x->inputs);
  if (!e) e = TT_ALLOC(name, x->inputs);
  if (!e) e = TT_ALLOC(column, x->inputs);
  if (!e) e = TT_ALLOC(level, x->inputs);
  for (int64_t i = 0; !e && i < x->inputs; i++) {
    column[i] = x->net->at[i].column;
    kind[i] = tt_export_kind_name(&x->net->at[i]);
    level[i] = x->net->at[i].level;
    name[i] = x->net->at[i].name ? x->net->at[i].name : "";
  }
  if (!e) e = put_array(z, "x_column", &(npy_array){"<i8", 8, 1, {x->inputs}, column});
  if (!e) e = put_texts(z, "x_kind", x->inputs, kind);
  if (!e) e = put_doubles(z, "x_level", x->inputs, level);
  if (!e) e = put_texts(z, "x_level_name", x->inputs, name);
  if (!e) e = put_doubles(z, "x_fill", x->inputs, x->scaler->x_fill);
  tt_free_all(&kind, &name, &column, &level);
  return e;
}

static tt_err put_all(zip_archive *z, const tt_export_model *x)
{
  const tt_columns *input = &x->all->at[0]->input;
  TT_TRY(put_integer(z, "cohorts", x->cohorts));
  TT_TRY(put_doubles(z, "x_mean", x->inputs, x->scaler->x_mean));
  TT_TRY(put_doubles(z, "x_scale", x->inputs, x->scaler->x_scale));
  TT_TRY(put_doubles(z, "x_lambda", x->inputs, x->scaler->x_lambda));
  TT_TRY(put_input_transforms(z, x));
  if (!x->plain) TT_TRY(put_net_inputs(z, x));
  TT_TRY(put_texts(z, "input_name", x->columns_in, (const char *const *)input->name));
  TT_TRY(put_texts(z, "input_units", x->columns_in, (const char *const *)input->units));
  TT_TRY(put_texts(z, "column_ensemble", x->columns, x->labels->ensemble));
  TT_TRY(put_texts(z, "column_label", x->columns, (const char *const *)x->labels->label));
  TT_TRY(put_texts(z, "column_units", x->columns, x->labels->units));
  TT_TRY(put_texts(z, "model", 1, &x->model));
  TT_TRY(put_texts(z, "model_hash_xxh3", 1, &x->model_hash));
  for (int64_t i = 0; i < x->cohorts; i++) TT_TRY(put_cohort(z, x, i));
  return TT_OK;
}

tt_err tt_export_npz_local(const tt_export_model *x, FILE *to)
{
  char *bytes = NULL;
  size_t size = 0;
  zip_archive z = {.file = x->file, .to = to, .directory = open_memstream(&bytes, &size)};
  if (!z.directory) return TT_FAIL(MEM, "%s: out of memory", x->file);
  tt_err e = put_all(&z, x);
  int bad = ferror(z.directory);
  bad |= fclose(z.directory) != 0;
  if (!e && bad) e = TT_FAIL(MEM, "%s: out of memory", x->file);
  if (!e && z.entries > 65534)
    e = TT_FAIL(USAGE, "%s: an archive may have 65534 arrays, and this model has %d", x->file,
                z.entries);
  if (!e) {
    fwrite(bytes, 1, size, to);
    put_number(to, 0x06054B50, 4);
    put_number(to, 0, 4); /* one disk */
    put_number(to, (uint64_t)z.entries, 2);
    put_number(to, (uint64_t)z.entries, 2);
    put_number(to, size, 4);
    put_number(to, (uint64_t)z.offset, 4);
    put_number(to, 0, 2); /* no comment */
  }
  free(bytes);
  return e;
}
