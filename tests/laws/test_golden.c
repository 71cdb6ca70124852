/* test_golden.c — law: from given initial weights and batch order, training follows the float64
 * trajectory of an independent program (tests/data/README.md): losses of every epoch to 1e-4, final
 * weights to 1e-3, both relative. Steps in tf32 to 5e-3 and 5e-2.
 * Law: the bits of the cpu engine depend on its arithmetic alone, not on the compiler. */
#include "tests/support/plain_model.h"
#include "tests/support/problem.h"

#include <hdf5.h>
#include <inttypes.h>

static hid_t open_file(const char *name)
{
  char path[512];
  const char *elsewhere = getenv("TUTTI_TEST_DATA"); /* for a program copied to another machine */
  snprintf(path, sizeof path, "%s/golden/%s.h5", elsewhere ? elsewhere : TUTTI_TEST_DATA, name);
  hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  TT_CHECK(f, >=, 0);
  return f;
}

/* A whole dataset as native values of `type`; owned by the caller. */
static void *read_all(hid_t file, const char *name, hid_t type, hsize_t dims[3])
{
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  TT_CHECK(d, >=, 0);
  hid_t space = H5Dget_space(d);
  dims[0] = dims[1] = dims[2] = 1;
  H5Sget_simple_extent_dims(space, dims, NULL);
  char *data = NULL;
  TT_CHECK_OK(TT_ALLOC(data, (int64_t)(dims[0] * dims[1] * dims[2] * H5Tget_size(type))));
  TT_CHECK(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), >=, 0);
  H5Sclose(space);
  H5Dclose(d);
  return data;
}

static double setting(const char *config, const char *key)
{
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *cursor = strstr(config, quoted);
  TT_CHECK(cursor != NULL, ==, 1);
  return strtod(cursor + strlen(quoted), NULL);
}

static void read_config(hid_t file, char *text, size_t capacity)
{
  hid_t a = H5Aopen(file, "config", H5P_DEFAULT), type = H5Aget_type(a);
  if (H5Tis_variable_str(type)) {
    char *value = NULL;
    TT_CHECK(H5Aread(a, type, (void *)&value), >=, 0);
    snprintf(text, capacity, "%s", value);
    H5free_memory(value);
  } else {
    TT_CHECK(H5Tget_size(type), <, capacity);
    memset(text, 0, capacity);
    TT_CHECK(H5Aread(a, type, text), >=, 0);
  }
  H5Tclose(type);
  H5Aclose(a);
}

/* Copy x and y of one part into the rows of the data set from `row` on. */
static int64_t take_rows(hid_t file, const char *x, const char *y, tt_split split, int64_t row,
                         tt_dataset *d)
{
  hsize_t dims[3];
  if (H5Lexists(file, x, H5P_DEFAULT) <= 0) return row;
  float *src = read_all(file, x, H5T_NATIVE_FLOAT, dims);
  memcpy(d->x + row * d->inputs, src, dims[0] * dims[1] * sizeof *src);
  tt_free(src);
  src = read_all(file, y, H5T_NATIVE_FLOAT, dims);
  memcpy(d->y + row * d->targets, src, dims[0] * dims[1] * sizeof *src);
  tt_free(src);
  for (hsize_t r = 0; r < dims[0]; r++) d->split[row + (int64_t)r] = (int8_t)split;
  return row + (int64_t)dims[0];
}

static int64_t rows_of(hid_t file, const char *name, hsize_t dims[3])
{
  if (H5Lexists(file, name, H5P_DEFAULT) <= 0) return 0;
  tt_free_at(&(void *){read_all(file, name, H5T_NATIVE_FLOAT, dims)});
  return (int64_t)dims[0];
}

/* Weights [M][P] from datasets prefix/Wl, prefix/bl. */
static double *read_weights(hid_t file, const char *prefix, const tt_model *m, int64_t members)
{
  double *w = NULL;
  TT_CHECK_OK(TT_ALLOC(w, members * m->params));
  for (int l = 0; l < m->layers; l++)
    for (int bias = 0; bias < 2; bias++) {
      char name[64];
      hsize_t dims[3];
      snprintf(name, sizeof name, "%s/%c%d", prefix, bias ? 'b' : 'W', l);
      double *src = read_all(file, name, H5T_NATIVE_DOUBLE, dims);
      int64_t each = (int64_t)(dims[1] * dims[2]);
      int64_t offset = bias ? m->layer[l].bias : m->layer[l].weight;
      for (int64_t i = 0; i < members; i++)
        memcpy(w + i * m->params + offset, src + i * each, (size_t)each * sizeof *w);
      tt_free(src);
    }
  return w;
}

static void near(const char *what, int64_t n, const double *want, const double *got, double bound)
{
  double scale = 0.0, worst = 0.0;
  for (int64_t i = 0; i < n; i++) {
    scale = fmax(scale, fabs(want[i]));
    worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs(got[i] - want[i]));
  }
  fprintf(stderr, "  %-14s largest difference %.2e of %.2e\n", what, worst, scale);
  TT_CHECK(worst, <=, bound * scale);
}

static double *widen(const float *src, int64_t n)
{
  double *dst = NULL;
  TT_CHECK_OK(TT_ALLOC(dst, n));
  for (int64_t i = 0; i < n; i++) dst[i] = (double)src[i];
  return dst;
}

static tt_model shape_of(const char *config, int64_t targets)
{
  int64_t size[8], n = 0;
  char *cursor = strstr(config, "\"sizes\": [") + strlen("\"sizes\": [");
  for (; cursor[-1] != ']'; cursor++) size[n++] = strtoll(cursor, &cursor, 10);
  tt_activation act = strstr(config, "\"tanh\"") ? TT_ACT_tanh : TT_ACT_relu;
  tt_output output = strstr(config, "gnll") ? TT_OUTPUT_mean_variance : TT_OUTPUT_mean;
  tt_model m;
  TT_CHECK_OK(tt_model_plain(size[0], targets, size + 1, n - 2, act, output, &m));
  TT_CHECK(m.outputs, ==, size[n - 1]);
  return m;
}

typedef struct golden {
  hid_t in, out;
  problem p;
  int32_t *order;
} golden;

/* The order in the files numbers their training rows, which are the first rows of the data set. */
static golden golden_open(const char *name, int patience)
{
  golden g = {0};
  char answers[64], config[1024];
  hsize_t dims[3];
  snprintf(answers, sizeof answers, "%s_loop_f8", name);
  g.in = open_file(name);
  g.out = open_file(answers);
  read_config(g.in, config, sizeof config);
  int64_t rows = rows_of(g.in, "x_val", dims) + rows_of(g.in, "x", dims), inputs = (int64_t)dims[1];
  rows_of(g.in, "y", dims);
  int64_t targets = (int64_t)dims[1], hidden = 1;
  g.order = read_all(g.in, "order", H5T_NATIVE_INT32, dims);
  g.p = problem_make(rows, inputs, targets, 1, (int64_t)dims[0], &hidden, 1, TT_ACT_relu,
                     TT_OUTPUT_mean);
  g.p.c.model = shape_of(config, targets);
  g.p.c.loss = strstr(config, "gnll") ? TT_LOSS_gaussian_nll : TT_LOSS_mse;
  g.p.c.nll_beta = 0.0f;
  g.p.c.batch_size = (int64_t)setting(config, "batch");
  g.p.c.max_epochs = (int64_t)setting(config, "epochs");
  tt_free(g.p.c.ensemble[0].column);
  TT_CHECK_OK(TT_ALLOC(g.p.c.ensemble[0].column, targets));
  for (int64_t t = 0; t < targets; t++) g.p.c.ensemble[0].column[t] = (int32_t)t;
  g.p.c.ensemble[0].targets = targets;
  for (int64_t i = 0; i < g.p.c.members; i++) {
    tt_hyper *h = &g.p.c.member[i].hyper;
    h->learning_rate = (float)setting(config, "lr");
    h->l2 = (float)setting(config, "l2");
    h->epochs = (int32_t)g.p.c.max_epochs;
    h->patience = patience;
  }
  int64_t row = take_rows(g.in, "x", "y", TT_TRAIN, 0, g.p.d);
  take_rows(g.in, "x_val", "y_val", TT_VALIDATION, row, g.p.d);
  g.p.replay.order = g.order;
  return g;
}

static void golden_close(golden *g)
{
  problem_free(&g->p);
  tt_free(g->order);
  H5Fclose(g->in);
  H5Fclose(g->out);
}

static tt_state *golden_run(golden *g, way variant)
{
  tt_slice all = everyone(&g->p);
  problem_start(&g->p, variant, all);
  tt_state *s = problem_state(&g->p, all);
  double *init = read_weights(g->in, "init", &g->p.c.model, g->p.c.members);
  for (int64_t k = 0; k < s->count * s->params; k++) TT_FIELD(s, weights)[k] = (float)init[k];
  tt_free(init);
  TT_CHECK_OK(variant.ops->load(g->p.engine, all, s));
  problem_finish(&g->p, 7);
  TT_CHECK_OK(variant.ops->save(g->p.engine, all, s));
  problem_stop(&g->p);
  return s;
}

static void compare(golden *g, const char *dataset, const float *got, int64_t n, double bound)
{
  hsize_t dims[3];
  double *want = read_all(g->out, dataset, H5T_NATIVE_DOUBLE, dims), *mine = widen(got, n);
  TT_CHECK((int64_t)(dims[0] * dims[1] * dims[2]), ==, n);
  near(dataset, n, want, mine, bound);
  tt_free(want);
  tt_free(mine);
}

static void compare_weights(golden *g, const char *prefix, const float *got, double bound)
{
  int64_t n = g->p.c.members * g->p.c.model.params;
  double *want = read_weights(g->out, prefix, &g->p.c.model, g->p.c.members);
  double *mine = widen(got, n);
  near(prefix, n, want, mine, bound);
  tt_free(want);
  tt_free(mine);
}

static void follows_by(const char *name, way variant)
{
  double bound = variant.use.precision == TT_PRECISION_tf32 ? 5e-3 : 1e-4;
  fprintf(stderr, "%s on %s\n", name, variant.name);
  golden g = golden_open(name, 0);
  tt_state *s = golden_run(&g, variant);
  compare(&g, "train_loss", TT_FIELD(s, loss_train), s->count * s->epochs, bound);
  compare_weights(&g, "final", TT_FIELD(s, weights), 10.0 * bound);
  if (H5Lexists(g.out, "val_loss", H5P_DEFAULT) > 0)
    compare(&g, "val_loss", TT_FIELD(s, loss_validation), s->count * s->epochs, bound);
  tt_state_destroy(&s);
  golden_close(&g);
}

static void follows(const char *name, int number)
{
  for (const way *w = every_way(); w->name; w++)
    if (takes(*w, number)) follows_by(name, *w);
}

TT_TEST (mse_follows_float64) {
  follows("mse_yacht", 0);
}
TT_TEST (mse_with_bootstrap_and_l2_follows_float64) {
  follows("mse_boot_l2_energy2", 1);
}
TT_TEST (gaussian_nll_follows_float64) {
  follows("gnll_yacht_short", 2);
}

TT_TEST (steps_on_tensor_cores_follow_float64) {
  way variant[MAX_WAYS];
  for (int i = 0, n = tensor_ways(variant); i < n; i++)
    follows_by("mse_boot_l2_energy2", variant[i]);
}

TT_TEST (early_stopping_keeps_the_best_weights) {
  for (const way *w = every_way(); w->name; w++) {
    if (!takes(*w, 1)) continue;
    golden g = golden_open("mse_yacht", 3);
    hsize_t dims[3];
    int32_t *best = read_all(g.out, "best_epoch", H5T_NATIVE_INT32, dims);
    int32_t *stop = read_all(g.out, "stop_epoch", H5T_NATIVE_INT32, dims);
    tt_state *s = golden_run(&g, *w);
    for (int64_t m = 0; m < s->count; m++) {
      TT_CHECK(TT_FIELD(s, best_epoch)[m], ==, best[m]);
      TT_CHECK(TT_FIELD(s, epoch)[m], ==, stop[m] + 1);
      int ran_out = stop[m] - best[m] >= 3;
      TT_CHECK(TT_FIELD(s, status)[m], ==, ran_out ? TT_STATUS_early_stopped : TT_STATUS_finished);
    }
    compare_weights(&g, "best", TT_FIELD(s, best_weights), 1e-3);
    tt_state_destroy(&s);
    tt_free(best);
    tt_free(stop);
    golden_close(&g);
  }
}

/* Data of sums and products alone: libm is not the same everywhere. */
static void fill_without_libm(tt_dataset *d)
{
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t t = 0; t < d->targets; t++) {
      const float *x = d->x + r * d->inputs;
      d->y[r * d->targets + t] = x[0] * x[1] - (float)t * x[2] + 0.25f * x[1] * x[1];
    }
}

/* Most of what the loops of the cpu engine do; the bits of all members as one number. */
static uint64_t trained_bits(way variant, tt_output output, tt_optimizer optimizer,
                             tt_activation act)
{
  const int64_t hidden[] = {20, 20};
  problem p = problem_make(90, 5, 2, 2, 2, hidden, 2, act, output);
  tt_model_shape shape = usual_shape(5, 1, hidden, 2, act, output);
  shape.layer_norm = optimizer == TT_OPT_adam;
  shape.residual = 1;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  fill_without_libm(p.d);
  fit_labels(p.d, output);
  p.c.optimizer = optimizer;
  p.c.resample = TT_RESAMPLE_bootstrap;
  for (int64_t i = 0; i < p.c.members; i++) {
    p.c.member[i].hyper.dropout = 0.1f * (float)i;
    p.c.member[i].hyper.clip_norm = 0.5f;
    p.c.member[i].hyper.l2 = 1e-3f;
  }
  tt_state *s = problem_run(&p, variant, everyone(&p), 7);
  uint64_t bits = 0;
  for (int64_t i = 0; i < s->count; i++) bits = 31 * bits + tt_state_hash(s, i);
  tt_state_destroy(&s);
  problem_free(&p);
  return bits;
}

/* Numbers of gcc 12; after a deliberate change of a formula, take those that the test prints. */
TT_TEST (every_compiler_makes_the_same_bits) {
  static const struct {
    tt_output output;
    tt_optimizer optimizer;
    tt_activation activation;
    uint64_t fused, unfused;
  } row[] = {
      {TT_OUTPUT_mean, TT_OPT_sgd, TT_ACT_tanh, 0x6a9a27dcd34c7474, 0x5a62aaceb28f7ae6},
      {TT_OUTPUT_mean_variance, TT_OPT_adam, TT_ACT_silu, 0x7a77a39bd515b0c3, 0x89df1612a3a1c77c},
      {TT_OUTPUT_softmax, TT_OPT_rmsprop, TT_ACT_gelu, 0x0a042c8d3794b6b8, 0xda0b791e494e2255},
  };
  way variant[MAX_WAYS];
  int differ = 0;
  for (int i = 0, n = cpu_ways(variant); i < n; i++) {
    const tt_kernels *k;
    TT_CHECK_OK(tt_kernels_get(variant[i].use.simd, &k));
    if (strstr(k->arithmetic, "part fused")) continue;
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
      uint64_t bits = trained_bits(variant[i], row[r].output, row[r].optimizer, row[r].activation);
      fprintf(stderr, "  %-8s case %zu: 0x%016" PRIx64 "\n", variant[i].name, r, bits);
      differ += bits != (strstr(k->arithmetic, "unfused") ? row[r].unfused : row[r].fused);
    }
  }
  TT_CHECK(differ, ==, 0);
}
