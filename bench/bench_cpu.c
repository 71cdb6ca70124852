/* bench_cpu.c — training speed of the CPU engine on synthetic data: one line of JSON. Works as a user
 * of the library would: it fills cohort and data set itself and reads no file.
 *
 *   bench_cpu --workload A|B|C|E [--threads N] [--seconds S] [--simd auto|avx512|avx2|generic]
 *
 * The maths, data sizes and JSON fields are those of peers/torch_peers.py. */
#include "base/mem.h"
#include "engine/engine.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* name, members, inputs, hidden widths, batch; one output. The same table is in torch_peers.py. */
typedef struct workload {
  const char *name;
  int64_t members, inputs, hidden[2], hidden_layers, batch;
} workload;
static const workload workloads[] = {
    {"A", 16, 8, {32, 32}, 2, 256},
    {"B", 128, 8, {64, 64}, 2, 256},
    {"C", 1000, 16, {128, 128}, 2, 256},
    {"E", 4096, 4, {16, 0}, 1, 64},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

enum {
  ROWS = 10000,
  TRAIN_ROWS = 9984, /* 39 * 256 = 156 * 64: every step has a whole batch */
  HISTORY_BYTES = 1 << 26, /* the engine keeps two losses per member and epoch */
  MOST_EPOCHS = 20000,
  MOST_STEPS = 4096 /* of one call of train */
};

typedef struct bench_options {
  const workload *load;
  tt_resources use;
  double seconds;
} bench_options;

typedef struct measurement {
  int64_t member_steps, steps_per_call;
  double seconds;
} measurement;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static tt_err make_members(const workload *load, tt_cohort *c)
{
  TT_TRY(TT_ALLOC(c->member, load->members));
  c->members = load->members;
  c->max_epochs = least(MOST_EPOCHS, HISTORY_BYTES / (8 * load->members));
  for (int64_t i = 0; i < load->members; i++) {
    tt_member *m = &c->member[i];
    m->index = (int32_t)i;
    m->stream = (uint64_t)i;
    m->hyper.learning_rate = 1e-3f;
    m->hyper.beta1 = 0.9f;
    m->hyper.beta2 = 0.999f;
    m->hyper.epsilon = 1e-8f;
    m->hyper.epochs = (int32_t)c->max_epochs;
  }
  return TT_OK;
}

/* `out` is complete enough for tt_cohort_destroy, also on error. */
static tt_err make_cohort(const workload *load, tt_cohort **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  tt_cohort *c = *out;
  TT_TRY(TT_ALLOC(c->ensemble, 1));
  c->ensembles = 1;
  tt_ensemble *e = &c->ensemble[0];
  TT_TRY(tt_text_set(&e->name, "bench"));
  TT_TRY(TT_ALLOC(e->column, 1));
  e->members = load->members;
  e->targets = 1;
  TT_TRY(tt_model_build(load->inputs, 1, load->hidden, load->hidden_layers, TT_ACT_relu,
                        TT_OUTPUT_mean, &c->model));
  c->init = TT_INIT_fan_in_uniform;
  c->loss = TT_LOSS_mse;
  c->variance_floor = 1e-6f;
  c->optimizer = TT_OPT_adam;
  c->batch_size = load->batch;
  c->batches = TT_BATCHES_own;
  c->resample = TT_RESAMPLE_none;
  c->subsample = 1.0;
  c->seed = 1;
  return make_members(load, c);
}

/* x uniform in [-1.7, 1.7): variance 1, as after standardisation; y a smooth function of it. */
static tt_err make_data(const workload *load, tt_dataset **out)
{
  TT_TRY(tt_dataset_create(ROWS, load->inputs, 1, 0, out));
  tt_dataset *d = *out;
  for (int64_t n = 0; n < ROWS; n++) {
    float sum = 0.0f;
    for (int64_t i = 0; i < load->inputs; i++) {
      tt_random4 r = tt_random(7, (uint64_t)n, TT_FOR_INIT, 0, (uint32_t)i);
      d->x[n * load->inputs + i] = 3.4f * tt_unit(r.v[0]) - 1.7f;
      sum += d->x[n * load->inputs + i];
    }
    d->y[n] = sinf(sum);
    d->split[n] = n < TRAIN_ROWS ? TT_TRAIN : TT_UNUSED_ROW;
  }
  return TT_OK;
}

/* Double the steps of a call until it takes half a second; this is the warm-up too. */
static tt_err find_steps_per_call(tt_engine *e, int64_t *out)
{
  tt_progress p;
  int64_t steps = 1;
  for (;;) {
    double begin = now();
    TT_TRY(tt_engine_cpu.train(e, steps, &p));
    if (now() - begin > 0.5 || steps == MOST_STEPS) break;
    steps *= 2;
  }
  *out = steps;
  return TT_OK;
}

/* Whole calls until the time is over. */
static tt_err measure(tt_engine *e, const workload *load, double seconds, measurement *out)
{
  tt_progress p;
  TT_TRY(find_steps_per_call(e, &out->steps_per_call));
  out->member_steps = 0;
  double begin = now();
  do {
    TT_TRY(tt_engine_cpu.train(e, out->steps_per_call, &p));
    out->member_steps += p.member_steps;
    out->seconds = now() - begin;
  } while (out->seconds < seconds && p.training == load->members);
  if (p.training != load->members)
    return TT_FAIL(USAGE, "only %" PRId64 " of %" PRId64 " members still train: shorten --seconds",
                   p.training, load->members);
  return TT_OK;
}

static void print_json(const bench_options *o, const tt_model *model, const measurement *m,
                       const tt_engine_info *info)
{
  const workload *load = o->load;
  double rate = (double)m->member_steps / m->seconds;
  double gflops = rate * tt_model_flops(model, load->batch) * 1e-9;
  printf("{\"program\": \"tutti\", \"workload\": \"%s\", \"way\": \"cpu\", ", load->name);
  printf("\"threads\": %d, \"members\": %" PRId64 ", ", o->use.threads, load->members);
  printf("\"widths\": [%" PRId64 ", ", load->inputs);
  for (int64_t i = 0; i < load->hidden_layers; i++) printf("%" PRId64 ", ", load->hidden[i]);
  printf("1], \"batch\": %" PRId64 ", ", load->batch);
  printf("\"device\": \"%s\", \"arithmetic\": \"%s\", ", info->device, info->arithmetic);
  printf("\"engine_bytes\": %" PRId64 ", ", info->bytes);
  printf("\"steps_per_call\": %" PRId64 ", ", m->steps_per_call);
  printf("\"member_steps_per_s\": %.6g, \"gflops\": %.6g, ", rate, gflops);
  printf("\"members_timed\": %" PRId64 ", \"seconds\": %.6g}\n", load->members, m->seconds);
}

static tt_err run(const bench_options *o, tt_cohort *c, const tt_dataset *d, tt_engine **engine)
{
  const tt_engine_ops *cpu = &tt_engine_cpu;
  tt_slice all = {0, c->members};
  measurement m;
  tt_engine_info info;
  TT_TRY(cpu->create(c, all, &o->use, engine));
  TT_TRY(cpu->set_data(*engine, d, NULL));
  TT_TRY(cpu->init(*engine));
  TT_TRY(measure(*engine, o->load, o->seconds, &m));
  TT_TRY(cpu->info(*engine, &info));
  print_json(o, &c->model, &m, &info);
  return TT_OK;
}

static const workload *find_workload(const char *name)
{
  for (int i = 0; i < WORKLOADS; i++)
    if (!strcmp(workloads[i].name, name)) return &workloads[i];
  return NULL;
}

static tt_err parse(int argc, char **argv, bench_options *o)
{
  static const struct option table[] = {{"workload", required_argument, NULL, 'w'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"seconds", required_argument, NULL, 's'},
                                        {"simd", required_argument, NULL, 'i'},
                                        {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    if (c == 'w') o->load = find_workload(optarg);
    if (c == 't') o->use.threads = atoi(optarg);
    if (c == 's') o->seconds = atof(optarg);
    if (c == 'i') {
      int i = 0;
      while (i < TT_SIMD_COUNT && strcmp(tt_choice_simd[i], optarg) != 0) i++;
      o->use.simd = (tt_simd)i;
    }
  }
  if (!o->load || o->use.threads < 1 || !(o->seconds > 0) || o->use.simd >= TT_SIMD_COUNT)
    return TT_FAIL(USAGE, "bench_cpu --workload A|B|C|E [--threads N] [--seconds S] "
                          "[--simd auto|avx512|avx2|generic]");
  return TT_OK;
}

int main(int argc, char **argv)
{
  bench_options o = {.use = {.threads = 2, .simd = TT_SIMD_auto}, .seconds = 5.0};
  tt_cohort *c = NULL;
  tt_dataset *d = NULL;
  tt_engine *engine = NULL;
  tt_err e = parse(argc, argv, &o);
  if (!e) e = make_cohort(o.load, &c);
  if (!e) e = make_data(o.load, &d);
  if (!e) e = run(&o, c, d, &engine);
  if (e) fprintf(stderr, "bench_cpu: %s\n", tt_err_last());
  tt_engine_cpu.destroy(&engine);
  tt_dataset_destroy(&d);
  tt_cohort_destroy(&c);
  return tt_err_exit_code(e);
}
