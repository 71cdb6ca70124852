/* workload.c — see workload.h. */
#include "bench/workload.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PLAIN TT_ACT_relu, TT_LOSS_mse
const bench_workload bench_workloads[] = {
    {"A", 16, 8, {32, 32, 0}, 2, 1, 256, 1, PLAIN},
    {"B", 128, 8, {64, 64, 0}, 2, 1, 256, 1, PLAIN},
    {"C", 1000, 16, {128, 128, 0}, 2, 1, 256, 1, PLAIN},
    {"D", 100, 32, {256, 256, 256}, 3, 10, 512, 1, PLAIN},
    {"E", 4096, 4, {16, 0, 0}, 1, 1, 64, 1, PLAIN},
    {"F", 100, 8, {64, 64, 0}, 2, 1, 32, 1, TT_ACT_silu, TT_LOSS_gaussian_nll},
    {"U1", 50, 8, {64, 64, 0}, 2, 1, 256, 1, PLAIN},
    {"U2", 5, 16, {192, 192, 0}, 2, 1, 512, 1, PLAIN},
    {"U3", 10000, 4, {16, 16, 0}, 2, 1, 32, 1, PLAIN},
    {"L", 1, 64, {512, 512, 0}, 2, 1, 1024, 1, PLAIN},
    {NULL, 0, 0, {0, 0, 0}, 0, 0, 0, 0, PLAIN},
};
#undef PLAIN

enum {
  HISTORY_BYTES = 1 << 26, /* an engine stores two losses per member and epoch */
  PATH_ROOM = 1024
};
/* Small enough that float32 follows double to 1e-5 of the loss for BENCH_STEPS steps, large enough
 * that a wrong formula does not: with 1e-3 the rounding of any program grows to 7e-4 in D. */
static const float LEARNING_RATE = 3e-5f;
static const float BETA1 = 0.9f, BETA2 = 0.999f, EPSILON = 1e-8f;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

tt_err bench_find(const char *name, int64_t members, bench_workload *out)
{
  for (const bench_workload *w = bench_workloads; w->name; w++)
    if (!strcmp(w->name, name)) {
      *out = *w;
      if (members) out->members = members;
      return TT_OK;
    }
  return TT_FAIL(USAGE, "there is no workload '%s'", name);
}

int64_t bench_train_rows(const bench_workload *load)
{
  return BENCH_ROWS / load->batch * load->batch;
}

int64_t bench_checked(const bench_workload *load, int64_t member[BENCH_CHECKED])
{
  int64_t n = lesser(BENCH_CHECKED, load->members);
  for (int64_t i = 0; i < n; i++) member[i] = n > 1 ? i * (load->members - 1) / (n - 1) : 0;
  return n;
}

static tt_err make_members(tt_cohort *c)
{
  TT_TRY(TT_ALLOC(c->member, c->members));
  for (int64_t i = 0; i < c->members; i++) {
    tt_member *m = &c->member[i];
    m->index = (int32_t)i;
    m->stream = (uint64_t)i;
    m->hyper.learning_rate = LEARNING_RATE;
    m->hyper.beta1 = BETA1;
    m->hyper.beta2 = BETA2;
    m->hyper.epsilon = EPSILON;
    m->hyper.epochs = (int32_t)c->max_epochs;
    m->hyper.init_scale = 1.0f;
  }
  return TT_OK;
}

static tt_err make_ensemble(const bench_workload *load, tt_cohort *c)
{
  TT_TRY(TT_ALLOC(c->ensemble, 1));
  c->ensembles = 1;
  tt_ensemble *e = &c->ensemble[0];
  TT_TRY(tt_text_set(&e->name, "bench"));
  TT_TRY(TT_ALLOC(e->column, load->targets));
  for (int64_t k = 0; k < load->targets; k++) e->column[k] = (int32_t)k;
  e->members = load->members;
  e->targets = load->targets;
  return TT_OK;
}

tt_err bench_cohort(const bench_workload *load, int64_t steps, tt_cohort **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  tt_cohort *c = *out;
  TT_TRY(make_ensemble(load, c));
  const tt_model_shape shape = {.inputs = load->inputs,
                                .targets = load->targets,
                                .hidden = load->hidden,
                                .layers = load->hidden_layers,
                                .activation = load->activation,
                                .output = tt_loss_output_head(load->loss)};
  TT_TRY(tt_model_lay_out(&shape, &c->model));
  c->init = TT_INIT_fan_in_uniform;
  c->loss = load->loss;
  c->variance_floor = 1e-6f;
  c->optimizer = TT_OPT_adam;
  c->batch_size = load->batch;
  c->parts = load->parts;
  c->resample = TT_RESAMPLE_none;
  c->subsample = 1.0;
  c->seed = 1;
  c->members = load->members;
  c->max_epochs = lesser(steps / (bench_train_rows(load) / load->batch) + 1,
                         HISTORY_BYTES / (8 * load->members));
  return make_members(c);
}

/* x uniform in [-1.7, 1.7): variance 1, as after standardization; y smooth functions of it. */
tt_err bench_data(const bench_workload *load, tt_dataset **out)
{
  TT_TRY(tt_dataset_create(BENCH_ROWS, load->inputs, load->targets, 0, out));
  tt_dataset *d = *out;
  for (int64_t n = 0; n < BENCH_ROWS; n++) {
    float sum = 0.0f;
    for (int64_t i = 0; i < load->inputs; i++) {
      tt_random4 r = tt_random(7, (uint64_t)n, TT_PURPOSE_INIT, 0, (uint32_t)i);
      d->x[n * load->inputs + i] = 3.4f * tt_uniform(r.v[0]) - 1.7f;
      sum += d->x[n * load->inputs + i];
    }
    for (int64_t k = 0; k < load->targets; k++) d->y[n * load->targets + k] = sinf(sum + (float)k);
    d->split[n] = n < bench_train_rows(load) ? TT_TRAIN : TT_UNUSED_ROW;
  }
  return TT_OK;
}

/* the folder for other programs */

static tt_err open_in(const char *folder, const char *name, const char *mode, FILE **out)
{
  char path[PATH_ROOM];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
    return TT_FAIL(USAGE, "%s: the path is too long", folder);
  *out = fopen(path, mode);
  if (*out) return TT_OK;
  return *mode == 'r' ? TT_FAIL(NOINPUT, "%s cannot be read; peers/reference.py makes it", path)
                      : TT_FAIL(CANTCREAT, "%s cannot be created", path);
}

static tt_err close_written(FILE *f, const char *folder)
{
  int bad = ferror(f);
  if (fclose(f) || bad) return TT_FAIL(IO, "%s: writing failed", folder);
  return TT_OK;
}

static tt_err put_array(const char *folder, const char *name, const void *data, int64_t bytes)
{
  FILE *f;
  TT_TRY(open_in(folder, name, "wb", &f));
  fwrite(data, 1, (size_t)bytes, f);
  return close_written(f, folder);
}

static tt_err put_weights(const tt_cohort *c, const char *folder)
{
  FILE *f;
  float *w = NULL;
  TT_TRY(TT_ALLOC(w, c->model.params));
  tt_err e = open_in(folder, "weights.f4", "wb", &f);
  for (int64_t i = 0; !e && i < c->members; i++) {
    tt_model_init_weights(&c->model, c->init, c->seed, c->member[i].stream, w);
    fwrite(w, sizeof *w, (size_t)c->model.params, f);
  }
  tt_free(w);
  return e ? e : close_written(f, folder);
}

/* Rows are the first ones of the data set, so a slot's number is the row's. */
static tt_err put_order(const tt_cohort *c, int64_t rows, const char *folder)
{
  FILE *f;
  int64_t slots = BENCH_STEPS * c->batch_size;
  int32_t *row = NULL;
  TT_TRY(TT_ALLOC(row, slots));
  tt_err e = open_in(folder, "order.i4", "wb", &f);
  for (int64_t i = 0; !e && i < c->members; i++) {
    tt_sampler order;
    for (int64_t s = 0; s < slots; s++) {
      if (s % rows == 0) order = tt_member_sampler(c, &c->member[i], 0, rows, s / rows);
      row[s] = (int32_t)tt_sampler_at(&order, (uint32_t)(s % rows));
    }
    fwrite(row, sizeof *row, (size_t)slots, f);
  }
  tt_free(row);
  return e ? e : close_written(f, folder);
}

static void put_list(FILE *f, const char *name, int64_t n, const int64_t *value)
{
  fprintf(f, "  \"%s\": [", name);
  for (int64_t i = 0; i < n; i++) fprintf(f, "%s%" PRId64, i ? ", " : "", value[i]);
  fprintf(f, "],\n");
}

static tt_err put_sizes(const bench_workload *load, const tt_cohort *c, const char *folder)
{
  FILE *f;
  const tt_model *m = &c->model;
  int64_t widths[TT_MAX_LAYERS + 1] = {m->inputs}, weight[TT_MAX_LAYERS], bias[TT_MAX_LAYERS];
  int64_t checked[BENCH_CHECKED];
  for (int l = 0; l < m->layers; l++) {
    widths[l + 1] = m->layer[l].out;
    weight[l] = m->layer[l].weight;
    bias[l] = m->layer[l].bias;
  }
  TT_TRY(open_in(folder, "case.json", "w", &f));
  fprintf(f, "{\n  \"workload\": \"%s\",\n", load->name);
  put_list(f, "widths", m->layers + 1, widths);
  put_list(f, "weight_at", m->layers, weight);
  put_list(f, "bias_at", m->layers, bias);
  put_list(f, "checked", bench_checked(load, checked), checked);
  fprintf(f, "  \"members\": %" PRId64 ", \"batch\": %" PRId64 ", \"params\": %" PRId64 ",\n",
          c->members, c->batch_size, m->params);
  fprintf(f, "  \"targets\": %" PRId64 ", \"activation\": \"%s\", \"loss\": \"%s\",\n",
          load->targets, tt_choice_activation[load->activation], tt_choice_loss[load->loss]);
  fprintf(f, "  \"variance_floor\": %.9g,\n", (double)c->variance_floor);
  fprintf(f, "  \"rows\": %d, \"steps\": %d, \"flops\": %.17g,\n", BENCH_ROWS, BENCH_STEPS,
          tt_model_flops(m, load->batch) * (double)c->members);
  fprintf(f, "  \"learning_rate\": %.9g, \"beta1\": %.9g, \"beta2\": %.9g, \"epsilon\": %.9g\n}\n",
          (double)LEARNING_RATE, (double)BETA1, (double)BETA2, (double)EPSILON);
  return close_written(f, folder);
}

static tt_err put_all(const bench_workload *load, const tt_cohort *c, const tt_dataset *d,
                      const char *folder)
{
  int64_t bytes = (int64_t)sizeof(float) * d->rows;
  mkdir(folder, 0777); /* an existing directory is fine */
  TT_TRY(put_array(folder, "x.f4", d->x, bytes * d->inputs));
  TT_TRY(put_array(folder, "y.f4", d->y, bytes * d->targets));
  TT_TRY(put_weights(c, folder));
  TT_TRY(put_order(c, bench_train_rows(load), folder));
  return put_sizes(load, c, folder);
}

tt_err bench_export(const bench_workload *load, const char *folder)
{
  tt_cohort *c = NULL;
  tt_dataset *d = NULL;
  tt_err e = bench_cohort(load, BENCH_STEPS, &c);
  if (!e) e = bench_data(load, &d);
  if (!e) e = put_all(load, c, d, folder);
  tt_dataset_destroy(&d);
  tt_cohort_destroy(&c);
  return e;
}

tt_err bench_reference(const char *folder, int64_t checked, double *losses)
{
  FILE *f;
  TT_TRY(open_in(folder, "reference.f8", "rb", &f));
  size_t n = (size_t)checked * BENCH_STEPS, got = fread(losses, sizeof *losses, n, f);
  fclose(f);
  if (got != n) return TT_FAIL(NOINPUT, "%s/reference.f8 is too short", folder);
  return TT_OK;
}
