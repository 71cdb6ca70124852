/* test_model_io.c — model.h5 is read as written, bit by bit, on any number of ranks; damaged files
 * are rejected with a message that names the place. */
#include "core/base/mem.h"
#include "core/model/state.h"
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"
#include "io/model/model_internal.h"
#include "tests/support/check.h"
#include "tests/support/made_up.h"

#include <hdf5.h>
#include <math.h>
#include <string.h>

static void check_same_texts(int64_t n, char *const *a, char *const *b)
{
  for (int64_t i = 0; i < n; i++) assert_string_equal(a[i], b[i]);
}

static void check_same_columns(const tt_columns *a, const tt_columns *b)
{
  TT_CHECK(a->count, ==, b->count);
  check_same_texts(a->count, a->name, b->name);
  check_same_texts(a->count, a->units, b->units);
}

static void check_same(const tt_trained_ensemble *a, const tt_trained_ensemble *b)
{
  const int64_t g = a->members;
  TT_CHECK(g, ==, b->members);
  TT_CHECK(a->ensembles, ==, b->ensembles);
  TT_CHECK(a->model.params, ==, b->model.params);
  tt_model there = b->model;
  there.front.layer = a->model.front.layer;
  TT_CHECK(memcmp(&a->model, &there, sizeof there), ==, 0);
  TT_CHECK(tt_front_equal(&a->model.front, &b->model.front), ==, 1);
  TT_CHECK(a->variance_floor, ==, b->variance_floor);
  for (int64_t i = 0; i < a->ensembles; i++) {
    const tt_ensemble *p = &a->ensemble[i], *q = &b->ensemble[i];
    assert_string_equal(p->name, q->name);
    TT_CHECK(p->first, ==, q->first);
    TT_CHECK(p->members, ==, q->members);
    TT_CHECK(p->targets, ==, q->targets);
    TT_CHECK(p->key, ==, q->key);
    for (int64_t j = 0; j < p->targets; j++) TT_CHECK(p->column[j], ==, q->column[j]);
  }
  TT_CHECK(memcmp(a->w, b->w, (size_t)(g * a->model.params) * sizeof *a->w), ==, 0);
  TT_CHECK(memcmp(a->weight, b->weight, (size_t)g * sizeof *a->weight), ==, 0);
  TT_CHECK(memcmp(a->status, b->status, (size_t)g), ==, 0);
  TT_CHECK(memcmp(a->index, b->index, (size_t)g * sizeof *a->index), ==, 0);
  TT_CHECK(memcmp(a->head, b->head, (size_t)g * sizeof *a->head), ==, 0);
  check_same_columns(&a->input, &b->input);
  check_same_columns(&a->target, &b->target);
  const size_t d = (size_t)a->input.count * sizeof(double);
  const size_t t = (size_t)a->target.count * sizeof(double);
  TT_CHECK(memcmp(a->scaler.x_mean, b->scaler.x_mean, d), ==, 0);
  TT_CHECK(memcmp(a->scaler.x_scale, b->scaler.x_scale, d), ==, 0);
  TT_CHECK(memcmp(a->scaler.y_mean, b->scaler.y_mean, t), ==, 0);
  TT_CHECK(memcmp(a->scaler.y_scale, b->scaler.y_scale, t), ==, 0);
}

static void write_model(const char *file, tt_trained_ensemble *m, tt_slice slice)
{
  tt_provenance provenance = made_up_provenance(comm);
  const tt_trained_ensembles only = {.count = 1, .at = (tt_trained_ensemble *[]){m}};
  const tt_model_shard part = {slice, m->w + slice.first * m->model.params};
  TT_CHECK_OK(tt_model_write(comm, file, &only, &part, &provenance));
}

/* Slices of the usual partition, and all members on the last rank. */
TT_TEST (a_model_is_read_bit_by_bit) {
  const int64_t members[] = {1, 2, 7};
  const int64_t widths[] = {5, 3};
  for (int hidden = 0; hidden <= 2; hidden++)
    for (int i = 0; i < 3; i++)
      for (int uneven = 0; uneven < 2; uneven++) {
        tt_trained_ensemble *m =
            made_up_committee(members[i], widths, hidden, TT_OUTPUT_mean_variance);
        tt_trained_ensembles back = {0}, alone = {0};
        tt_slice slice;
        int last = tt_comm_rank(comm) == tt_comm_ranks(comm) - 1;
        TT_CHECK_OK(tt_partition_even(m->members, tt_comm_ranks(comm), tt_comm_rank(comm), &slice));
        if (uneven) slice = (tt_slice){last ? 0 : m->members, last ? m->members : 0};
        write_model(at("round.h5"), m, slice);
        TT_CHECK_OK(tt_model_read(comm, at("round.h5"), &back));
        TT_CHECK_OK(tt_model_read_local(at("round.h5"), &alone));
        TT_CHECK(back.count, ==, 1);
        check_same(m, back.at[0]);
        check_same(m, alone.at[0]);
        tt_trained_ensemble_destroy(&m);
        tt_trained_ensembles_destroy(&back);
        tt_trained_ensembles_destroy(&alone);
        tt_barrier(comm);
      }
}

/* A front for MADE_UP_INPUTS inputs: a profile (1 axis) or an image, with every kind of row. */
static tt_front made_up_front(int axes)
{
  tt_front front;
  static const int64_t size[] = {1, 1, MADE_UP_INPUTS};
  static const char *const row[] = {"conv 4 2 pad 1 dilation 2",
                                    "dropout",
                                    "residual 2",
                                    "group_norm 2",
                                    "conv 4 1 groups 2",
                                    "pool max 1",
                                    "pool mean 1 stride 1",
                                    "conv 6 3 activation none",
                                    "group_norm 3",
                                    "residual 3 project activate",
                                    "conv 3 3 stride 2 activation elu",
                                    "batch_norm",
                                    "pool max 3 stride 1 pad 1",
                                    "basic 4 stride 2 times 2",
                                    "bottleneck 2 8",
                                    "global_mean"};
  tt_front_fault fault = {0, ""};
  int possible =
      tt_front_lay_out(&(tt_front_shape){.dims = axes,
                                         .size = axes == 1 ? size + 1 : size,
                                         .rows = sizeof row / sizeof *row,
                                         .row = row,
                                         .activation = axes == 1 ? TT_ACT_tanh : TT_ACT_gelu},
                       &front, &fault);
  if (!possible) fprintf(stderr, "row %d: %s\n", (int)fault.row, fault.why);
  TT_CHECK(possible, ==, 1);
  return front;
}

/* A front of many layers, each with tensors of its own. */
static tt_front long_front(void)
{
  enum { ROWS_OF_FRONT = 1500 };
  tt_front front;
  const char *row[ROWS_OF_FRONT];
  static const int64_t size[] = {1, MADE_UP_INPUTS};
  tt_front_fault fault = {0, ""};
  for (int i = 0; i < ROWS_OF_FRONT; i++) row[i] = i % 2 ? "group_norm 1" : "conv 2 1";
  const tt_front_shape shape = {
      .activation = TT_ACT_tanh, .dims = 1, .size = size, .rows = ROWS_OF_FRONT, .row = row};
  TT_CHECK(tt_front_lay_out(&shape, &front, &fault), ==, 1);
  return front;
}

/* Cohorts of every kind of network, and the deepest ones: the shape is read from attributes and
 * tensors alone. */
static tt_trained_ensembles many_shapes(void)
{
  static const int64_t widths[] = {4, 4, 3};
  static int64_t deep[TT_MAX_LAYERS - 1];
  static const double levels[] = {0.1, 0.5, 0.9};
  tt_front front[] = {made_up_front(1), made_up_front(2), long_front()};
  const tt_model_shape shapes[] = {
      {.targets = 1, .hidden = widths, .layers = 1, .activation = TT_ACT_relu},
      {.targets = 2, .hidden = widths, .layers = 3, .layer_norm = 1, .activation = TT_ACT_tanh},
      {.targets = 1, .hidden = widths, .layers = 3, .residual = 1, .activation = TT_ACT_tanh},
      {.targets = 2, .output = TT_OUTPUT_quantiles, .levels = 3, .level = levels},
      {.targets = 1,
       .output = TT_OUTPUT_softmax,
       .levels = 5,
       .hidden = widths,
       .layers = 2,
       .activation = TT_ACT_silu},
      {.targets = 1,
       .output = TT_OUTPUT_sigmoid,
       .layer_norm = 1,
       .residual = 1,
       .hidden = widths,
       .layers = 2,
       .activation = TT_ACT_gelu},
      {.targets = 2, .output = TT_OUTPUT_rate},
      {.targets = 1, .hidden = widths, .layers = 1, .activation = TT_ACT_tanh, .front = &front[0]},
      {.targets = 1, .activation = TT_ACT_gelu, .front = &front[1]},
      {.targets = 1,
       .hidden = deep,
       .layers = TT_MAX_LAYERS - 1,
       .layer_norm = 1,
       .activation = TT_ACT_tanh,
       .front = &front[2]}};
  for (int i = 0; i < TT_MAX_LAYERS - 1; i++) deep[i] = 2;
  const int64_t count = sizeof shapes / sizeof *shapes;
  tt_trained_ensembles all = {0};
  TT_CHECK_OK(tt_trained_ensembles_create(count, &all));
  for (int64_t i = 0; i < count; i++) all.at[i] = made_up_shape(1 + i % 4, shapes[i]);
  for (int i = 0; i < 3; i++) tt_front_destroy(&front[i]);
  all.at[1]->head[0] = 3;
  for (int64_t i = 0; i < count; i++) /* labels of classes and counts have no scale */
    for (int t = 0; t < MADE_UP_TARGETS; t++) all.at[i]->scaler.y_scale[t] = 1.0;
  return all;
}

/* Members of all cohorts distributed in one range, as the program does it. */
static void write_cohorts(const char *file, const tt_trained_ensembles *all)
{
  tt_model_shard part[16];
  tt_slice line;
  tt_provenance provenance = made_up_provenance(comm);
  int64_t first = 0, members = tt_trained_ensembles_members(all);
  TT_CHECK_OK(tt_partition_even(members, tt_comm_ranks(comm), tt_comm_rank(comm), &line));
  for (int64_t i = 0; i < all->count; i++) {
    const tt_trained_ensemble *m = all->at[i];
    part[i].slice = tt_slice_intersect(line, first, m->members);
    part[i].w = m->w + part[i].slice.first * m->model.params;
    first += m->members;
  }
  TT_CHECK_OK(tt_model_write(comm, file, all, part, &provenance));
}

TT_TEST (cohorts_of_every_shape_are_read) {
  tt_trained_ensembles all = many_shapes(), back = {0}, alone = {0};
  write_cohorts(at("cohorts.h5"), &all);
  TT_CHECK_OK(tt_model_read(comm, at("cohorts.h5"), &back));
  TT_CHECK_OK(tt_model_read_local(at("cohorts.h5"), &alone));
  TT_CHECK(back.count, ==, all.count);
  TT_CHECK(alone.count, ==, all.count);
  for (int64_t i = 0; i < all.count; i++) {
    check_same(all.at[i], back.at[i]);
    check_same(all.at[i], alone.at[i]);
  }
  tt_trained_ensembles_destroy(&all);
  tt_trained_ensembles_destroy(&back);
  tt_trained_ensembles_destroy(&alone);
  tt_barrier(comm);
}

/* Each of those shapes alone, as the only cohort of its file. */
TT_TEST (every_shape_alone_is_read) {
  tt_trained_ensembles all = many_shapes();
  for (int64_t i = 0; i < all.count; i++) {
    tt_trained_ensembles back = {0};
    const tt_trained_ensembles only = {.count = 1, .at = &all.at[i]};
    write_cohorts(at("alone.h5"), &only);
    TT_CHECK_OK(tt_model_read(comm, at("alone.h5"), &back));
    check_same(all.at[i], back.at[0]);
    tt_trained_ensembles_destroy(&back);
    tt_barrier(comm);
  }
  tt_trained_ensembles_destroy(&all);
}

/* damaged files: one process damages a valid file and reads it */

typedef struct damage {
  enum { DROP, RESHAPE, SET, TEXT_ATTR, INT_ATTR } kind;
  const char *object, *attribute; /* attribute: of a group, or the new text */
  int64_t where;                  /* SET: flat index; RESHAPE: axis */
  double value;                   /* SET: new value; RESHAPE: new size; INT_ATTR: new value */
  const char *message;            /* part of the error message */
} damage;

static const damage damages[] = {
    {TEXT_ATTR, "/", "tutti_schema", 0, 0, "tutti-result-1.0"},
    {SET, "net/n_layers", NULL, 0, 3, "n_layers"},
    {SET, "net/n_layers", NULL, 0, 1, "first_parameter"},
    {DROP, "status", NULL, 0, 0, "status"},
    {DROP, "member_weight", NULL, 0, 0, "member_weight"},
    {DROP, "member_cohort", NULL, 0, 0, "member_cohort"},
    {DROP, "ensemble_name", NULL, 0, 0, "ensemble_name"},
    {DROP, "ensemble_first", NULL, 0, 0, "ensemble_first"},
    {DROP, "ensemble_column", NULL, 0, 0, "ensemble_column"},
    {DROP, "names/target_units", NULL, 0, 0, "names/target_units"},
    {DROP, "scaler/x_scale", NULL, 0, 0, "scaler/x_scale"},
    {DROP, "scaler/y_normalize", NULL, 0, 0, "scaler/y_normalize"},
    {RESHAPE, "status", NULL, 0, 5, "net/network_of_member"},
    {RESHAPE, "status", NULL, 0, 0, "status"},
    {RESHAPE, "ensemble_column", NULL, 0, 9, "ensemble_column"},
    {RESHAPE, "ensemble_first", NULL, 0, 9, "ensemble_"},
    {RESHAPE, "scaler/y_mean", NULL, 0, 1, "ensemble_column"},
    {RESHAPE, "scaler/y_scale", NULL, 0, 9, "scaler/y_scale"},
    {SET, "status", NULL, 2, 9, "status"},
    {SET, "member_weight", NULL, 1, 0.5, "member_weight"},
    {SET, "member_weight", NULL, 2, -1, "member_weight"},
    {SET, "member_weight", NULL, 2, NAN, "member_weight"},
    {SET, "ensemble_members", NULL, 0, 9, "ensemble"},
    {SET, "ensemble_members", NULL, 1, 1, "ensemble"},
    {SET, "ensemble_first", NULL, 1, -1, "ensemble"},
    {SET, "ensemble_first", NULL, 1, 4, "'ensemble_first' of ensemble 1 is 4"},
    {SET, "ensemble_column", NULL, 3, 4, "ensemble_column"},
    {SET, "ensemble_column", NULL, 3, -1, "ensemble_column"},
    {SET, "scaler/x_scale", NULL, 0, 0, "scaler/x_scale"},
    {SET, "scaler/y_mean", NULL, 0, INFINITY, "scaler/y_mean"},
    {SET, "net/network_of_member", NULL, 0, 1, "'net/network_of_member' of member 0 is 1"},
    {SET, "net/parameters", NULL, 0, INFINITY, "net/parameters"},
};

static void set_value(hid_t f, const damage *d)
{
  hid_t data = H5Dopen2(f, d->object, H5P_DEFAULT), space = H5Dget_space(data);
  static double value[32768];
  TT_CHECK(H5Sget_simple_extent_npoints(space), <=, 32768);
  TT_CHECK(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value), >=, 0);
  value[d->where] = d->value;
  TT_CHECK(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value), >=, 0);
  H5Sclose(space);
  H5Dclose(data);
}

/* The same type, zeros, one axis of another size. */
static void reshape(hid_t f, const damage *d)
{
  hsize_t dims[H5S_MAX_RANK];
  hid_t data = H5Dopen2(f, d->object, H5P_DEFAULT), space = H5Dget_space(data);
  hid_t type = H5Dget_type(data);
  int n = H5Sget_simple_extent_dims(space, dims, NULL);
  dims[d->where] = (hsize_t)d->value;
  H5Sclose(space);
  H5Dclose(data);
  TT_CHECK(H5Ldelete(f, d->object, H5P_DEFAULT), >=, 0);
  space = H5Screate_simple(n, dims, NULL);
  data = H5Dcreate2(f, d->object, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  TT_CHECK(data, >=, 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Tclose(type);
}

static void set_attribute(hid_t f, const damage *d)
{
  static const char text[] = "tutti-result-1.0";
  int value = (int)d->value;
  hid_t object = H5Oopen(f, d->object, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
  hid_t type = H5Tcopy(d->kind == TEXT_ATTR ? H5T_C_S1 : H5T_NATIVE_INT);
  if (d->kind == TEXT_ATTR) H5Tset_size(type, sizeof text);
  TT_CHECK(H5Adelete(object, d->attribute), >=, 0);
  hid_t a = H5Acreate2(object, d->attribute, type, space, H5P_DEFAULT, H5P_DEFAULT);
  TT_CHECK(H5Awrite(a, type, d->kind == TEXT_ATTR ? (const void *)text : &value), >=, 0);
  H5Aclose(a);
  H5Tclose(type);
  H5Sclose(space);
  H5Oclose(object);
}

static void apply(const char *file, const damage *d)
{
  hid_t f = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  TT_CHECK(f, >=, 0);
  if (d->kind == DROP) TT_CHECK(H5Ldelete(f, d->object, H5P_DEFAULT), >=, 0);
  if (d->kind == RESHAPE) reshape(f, d);
  if (d->kind == SET) set_value(f, d);
  if (d->kind == TEXT_ATTR || d->kind == INT_ATTR) set_attribute(f, d);
  H5Fclose(f);
}

/* Read the whole file into memory; write it back with changes. */
static char bytes[1 << 20];
static int64_t length;

static void load(const char *file)
{
  FILE *f = fopen(file, "rb");
  length = (int64_t)fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  TT_CHECK(length, <, (int64_t)sizeof bytes);
}

static void store(const char *file, int64_t count)
{
  FILE *f = fopen(file, "wb");
  TT_CHECK((int64_t)fwrite(bytes, 1, (size_t)count, f), ==, count);
  fclose(f);
}

static void refused(const char *file, const char *what, const char *part)
{
  tt_trained_ensembles m = {0};
  tt_err e = tt_model_read_local(file, &m);
  if (e != TT_E_DATA || m.at) fprintf(stderr, "%s: error %d (%s)\n", what, (int)e, tt_err_last());
  TT_CHECK((int)e, ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), file);
  TT_CHECK_HAS(tt_err_last(), part);
}

/* This test has no collective call: other ranks return. */
static void write_good(void)
{
  if (tt_comm_ranks(comm) > 1) skip();
  tt_trained_ensemble *m = made_up_committee(4, (int64_t[]){6}, 1, TT_OUTPUT_mean);
  write_model(at("good.h5"), m, (tt_slice){0, 4});
  load(at("good.h5"));
  tt_trained_ensemble_destroy(&m);
}

static const damage of_networks[] = {
    {SET, "net/levels", NULL, 3, 0, "levels"},
    {SET, "net/levels", NULL, 0, 2, "levels"},
    {SET, "net/levels", NULL, 4, 4, "last layer"},
    {SET, "net/level", NULL, 10, 2, "level"},
    {SET, "net/layer_norm", NULL, 1, 2, "layer_norm"},
    {SET, "net/layer_norm", NULL, 0, 1, "gain_offset"},
    {SET, "net/n_layers", NULL, 2, 0, "n_layers"},
    {SET, "net/n_layers", NULL, 2, 65, "n_layers"},
    {SET, "net/layer_out", NULL, 0, -4, "layer_out"},
    {SET, "net/layer_out", NULL, 0, 4e18, "sizes of network 0 are not possible"},
    {SET, "net/layer_in", NULL, 1, 3, "layer_in"},
    {SET, "net/weight_offset", NULL, 0, 1, "weight_offset"},
    {SET, "net/bias_offset", NULL, 1, 1, "bias_offset"},
    {SET, "net/first_parameter", NULL, 1, 0, "'net/first_parameter' of member 1 is 0"},
    {SET, "net/network_of_member", NULL, 0, -1, "'net/network_of_member' of member 0 is -1"},
    {SET, "net/network_of_member", NULL, 1, 0, "first_parameter"},
    {SET, "net/network_of_member", NULL, 1, 2, "'net/network_of_member' of member 1 is 2"},
    {SET, "net/network_of_member", NULL, 5, 1, "'net/network_of_member' of member 5 is 1"},
    {SET, "net/network_of_member", NULL, 22, 8, "'net/network_of_member' of member 22 is 8"},
    {SET, "net/variance_floor", NULL, 0, NAN, "variance_floor"},
    {SET, "net/front_axes", NULL, 0, 1, "front"},
    {SET, "net/front_axes", NULL, 0, 7, "axes"},
    {DROP, "net", NULL, 0, 0, "net/network_of_member"},
    {DROP, "net/parameters", NULL, 0, 0, "net/parameters"},
    {DROP, "net/output", NULL, 0, 0, "net/output"},
    {RESHAPE, "net/n_layers", NULL, 0, 11, "net/layer_norm"},
    {RESHAPE, "net/layer_out", NULL, 1, 1, "net/layer_"},
    {RESHAPE, "net/parameters", NULL, 0, 30, "net/parameters"},
    {SET, "ensemble_first", NULL, 0, 1, "no ensemble of network 0"},
    {SET, "ensemble_first", NULL, 1, 0, "ensemble"},
    {SET, "ensemble_first", NULL, 1, -9e18, "ensemble"},
    {SET, "ensemble_column", NULL, 2, -1, "ensemble_column"},
    {RESHAPE, "status", NULL, 0, 30, "net/network_of_member"},
    {RESHAPE, "member_index", NULL, 0, 3, "member_index"},
    {SET, "net/parameters", NULL, 0, NAN, "net/parameters"},
    {SET, "member_index", NULL, 3, -1, "'member_index' of member 3 is -1"},
    {SET, "member_cohort", NULL, 3, -1, "'member_cohort' of member 3 is -1"},
    {SET, "head", NULL, 3, -1, "'head' of member 3 is -1"},
    {SET, "scaler/y_mean", NULL, 0, 1e6, "'scaler/y_mean' is 1e+06"},
    {SET, "scaler/y_scale", NULL, 0, 1e-9, "'scaler/y_scale' 1e-09"},
};

TT_TEST (networks_that_do_not_fit_are_refused) {
  if (tt_comm_ranks(comm) > 1) skip();
  tt_trained_ensembles all = many_shapes();
  write_cohorts(at("good.h5"), &all);
  load(at("good.h5"));
  tt_trained_ensembles_destroy(&all);
  for (size_t i = 0; i < sizeof of_networks / sizeof *of_networks; i++) {
    store(at("bad.h5"), length);
    apply(at("bad.h5"), &of_networks[i]);
    refused(at("bad.h5"), of_networks[i].object, of_networks[i].message);
  }
}

static void drop_attribute(const char *file, const char *object, const char *name)
{
  hid_t f = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  TT_CHECK(H5Adelete_by_name(f, object, name, H5P_DEFAULT), >=, 0);
  H5Fclose(f);
}

/* Changes that leave every value valid. */
TT_TEST (a_changed_model_is_rejected) {
  tt_trained_ensembles all = {0};
  write_good();
  store(at("other.h5"), length);
  apply(at("other.h5"), &(damage){SET, "member_index", NULL, 3, 7, ""});
  refused(at("other.h5"), "content_hash_xxh3", "its content has the hash");
  TT_CHECK_OK(tt_schema_seal_local(at("other.h5"), tt_model_attributes));
  TT_CHECK_OK(tt_model_read_local(at("other.h5"), &all));
  tt_trained_ensembles_destroy(&all);
  drop_attribute(at("other.h5"), "/", "content_hash_xxh3");
  refused(at("other.h5"), "content_hash_xxh3", "has no attribute");
}

TT_TEST (a_damaged_model_is_rejected) {
  write_good();
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    store(at("bad.h5"), length);
    apply(at("bad.h5"), &damages[i]);
    refused(at("bad.h5"), damages[i].object, damages[i].message);
  }
  for (int64_t cut = 1; cut < length; cut += length / 37) {
    store(at("bad.h5"), length - cut);
    refused(at("bad.h5"), "cut", "bad.h5");
  }
}

/* A wrong byte is an error or has no effect; it never crashes the program, and an error leaks no
 * memory. */
TT_TEST (a_wrong_byte_never_crashes_the_reader) {
  write_good();
  int64_t balance = tt_mem_live_blocks();
  for (int64_t i = 0; i < length; i += 1 + length / 500) {
    tt_trained_ensembles m = {0};
    bytes[i] = (char)~bytes[i];
    store(at("bad.h5"), length);
    bytes[i] = (char)~bytes[i];
    tt_err e = tt_model_read_local(at("bad.h5"), &m);
    TT_CHECK(!e, ==, m.at != NULL);
    tt_trained_ensembles_destroy(&m);
    TT_CHECK(tt_mem_live_blocks(), ==, balance);
  }
}

TT_TEST (all_ranks_get_the_error_of_a_missing_or_wrong_file) {
  tt_trained_ensembles m = {0};
  TT_CHECK((int)tt_model_read(comm, at("nowhere.h5"), &m), ==, (int)TT_E_NOINPUT);
  TT_CHECK_HAS(tt_err_last(), "nowhere.h5");
  TT_CHECK((int)tt_model_read(comm, TUTTI_SOURCE "/CMakeLists.txt", &m), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "CMakeLists.txt");
  TT_CHECK(m.at == NULL, ==, 1);
}
