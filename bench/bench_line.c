/* bench_line.c — see bench_line.h. */
#include "bench/bench_line.h"

#include "core/base/clock.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_CALL = 1 << 20, /* steps of one call of train */
  RUN_STEPS = 1 << 22  /* a run has epochs for so many; it starts anew when they are used up */
};
static const double SHORTEST_CALL = 0.1; /* seconds: what a call costs besides is lost in it */

struct bench_run {
  bench_workload load;
  bench_setting set;
  tt_cohort *cohort;
  tt_dataset *data;
  tt_engine *engine;
  tt_engine_info info;
  int64_t bytes; /* of this run alone */
  int64_t steps_per_call;
  int64_t left; /* steps until the members have had all their epochs */
  double prepare_s, warm_up_s;
  int64_t member[BENCH_CHECKED], checked;
  double loss[BENCH_CHECKED * BENCH_STEPS];
  double difference; /* from the reference; NaN where there is none */
};

/* Of all runs with the cuda engine, which tells what the whole program holds. */
static int64_t device_bytes;

/* ---- ways and precisions ---- */

const char *const *const bench_precisions = tt_choice_precision;

/* Largest difference of losses, relative to the largest loss, that counts as the same maths. */
static double tolerance(const bench_setting *set)
{
  return set->precision == TT_PRECISION_tf32 ? 5e-4 : 1e-5;
}

const char *const *bench_ways(const tt_engine_ops *ops)
{
  static const char *const cpu_alone[] = {"cpu", NULL};
  return ops == &tt_engine_cpu ? cpu_alone : tt_choice_gpu_kernel;
}

tt_err bench_engine_find(const char *name, const tt_engine_ops **out)
{
  for (int i = 0; tt_engines[i]; i++)
    if (!strcmp(tt_engines[i]->name, name)) {
      *out = tt_engines[i];
      return TT_OK;
    }
  return TT_FAIL(USAGE, "there is no engine '%s' in this program", name);
}

/* ---- prepare ---- */

static int64_t steps_of_run(const bench_run *r)
{
  return r->cohort->max_epochs * (bench_train_rows(&r->load) / r->load.batch);
}

static tt_err restart(bench_run *r)
{
  r->left = steps_of_run(r);
  return r->set.ops->init(r->engine);
}

static tt_err train(bench_run *r, int64_t steps)
{
  tt_progress p;
  if (steps > r->left) TT_TRY(restart(r));
  TT_TRY(r->set.ops->train(r->engine, steps, &p));
  r->left -= steps;
  if (p.member_steps != steps * r->load.members)
    return TT_FAIL(INTERNAL, "%" PRId64 " of %" PRId64 " members train", p.training,
                   r->load.members);
  return TT_OK;
}

/* The sum of the running epoch's losses, of member `i` as it is now, and the whole epochs' mean. */
static tt_err look(bench_run *r, int64_t i, tt_state **s)
{
  tt_slice one = {i, 1};
  TT_TRY(tt_state_create(one, tt_cohort_state_shape(r->cohort), s));
  return r->set.ops->save(r->engine, one, *s);
}

/* Mean loss of the step that a member has just taken; `sum` is that of its running epoch before. */
static tt_err loss_of_step(bench_run *r, int64_t i, double *sum, double *loss)
{
  tt_state *s = NULL;
  double rows = (double)bench_train_rows(&r->load);
  tt_err e = look(r, i, &s);
  if (!e) {
    int32_t epoch = TT_FIELD(s, epoch)[0];
    int over = TT_FIELD(s, batch)[0] == 0;
    double after =
        over ? (double)TT_FIELD(s, loss_train)[epoch - 1] * rows : TT_FIELD(s, loss_sum)[0];
    *loss = (after - *sum) / (double)r->load.batch;
    *sum = over ? 0.0 : after;
  }
  tt_state_destroy(&s);
  return e;
}

/* The losses of every step, one step at a time. */
static tt_err take_losses(bench_run *r)
{
  double sum[BENCH_CHECKED] = {0.0};
  r->checked = bench_checked(&r->load, r->member);
  for (int step = 0; step < BENCH_STEPS; step++) {
    TT_TRY(train(r, 1));
    for (int64_t i = 0; i < r->checked; i++)
      TT_TRY(loss_of_step(r, r->member[i], &sum[i], &r->loss[i * BENCH_STEPS + step]));
  }
  return TT_OK;
}

static tt_err compare(bench_run *r, const char *folder)
{
  double want[BENCH_CHECKED * BENCH_STEPS], worst = 0.0, size = 0.0;
  TT_TRY(bench_reference(folder, r->checked, want));
  for (int64_t i = 0; i < r->checked * BENCH_STEPS; i++) {
    double gap = fabs(r->loss[i] - want[i]);
    worst = fmax(worst, isnan(gap) ? INFINITY : gap);
    size = fmax(size, fabs(want[i]));
  }
  r->difference = worst / size;
  if (!(r->difference <= tolerance(&r->set)))
    return TT_FAIL(DATA,
                   "losses of %d steps differ from the reference by %.3g, more than %.3g: not "
                   "the same maths, not timed",
                   BENCH_STEPS, r->difference, tolerance(&r->set));
  return TT_OK;
}

/* Double the steps of a call until it takes long enough; this is the warm-up too. */
static tt_err warm_up(bench_run *r)
{
  double first = tt_monotonic_seconds();
  for (r->steps_per_call = 1;; r->steps_per_call *= 2) {
    double begin = tt_monotonic_seconds();
    TT_TRY(train(r, r->steps_per_call));
    if (tt_monotonic_seconds() - begin > SHORTEST_CALL || r->steps_per_call == MOST_CALL) break;
    if (2 * r->steps_per_call > steps_of_run(r)) break;
  }
  r->warm_up_s = tt_monotonic_seconds() - first;
  return TT_OK;
}

static tt_err start_engine(bench_run *r)
{
  tt_slice all = {0, r->load.members};
  double begin = tt_monotonic_seconds();
  TT_TRY(bench_cohort(&r->load, RUN_STEPS, &r->cohort));
  TT_TRY(bench_data(&r->load, &r->data));
  TT_TRY(r->set.ops->create(r->cohort, all, &r->set.use, &r->engine));
  TT_TRY(r->set.ops->set_data(r->engine, r->data, NULL));
  TT_TRY(restart(r));
  r->prepare_s = tt_monotonic_seconds() - begin;
  return TT_OK;
}

static tt_err prepare(bench_run *r, const char *folder)
{
  r->difference = NAN;
  if (r->set.ops == &tt_engine_cpu && r->set.precision != TT_PRECISION_fp32)
    return TT_FAIL(UNAVAILABLE, "the cpu engine computes in fp32 alone");
  r->set.use.precision = (tt_precision)r->set.precision;
  if (r->set.ops != &tt_engine_cpu) r->set.use.path = (tt_gpu_path)r->set.way;
  TT_TRY(start_engine(r));
  TT_TRY(take_losses(r));
  if (folder) TT_TRY(compare(r, folder));
  TT_TRY(warm_up(r));
  TT_TRY(r->set.ops->info(r->engine, &r->info));
  r->bytes = r->info.bytes;
  if (r->set.ops != &tt_engine_cpu) {
    r->bytes -= device_bytes;
    device_bytes += r->bytes;
  }
  return TT_OK;
}

tt_err bench_prepare(const bench_workload *load, const bench_setting *set, const char *folder,
                     bench_run **out)
{
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->load = *load;
  (*out)->set = *set;
  return prepare(*out, folder);
}

void bench_drop(bench_run **run)
{
  bench_run *r = *run;
  if (!r) return;
  if (r->set.ops != &tt_engine_cpu) device_bytes -= r->bytes;
  r->set.ops->destroy(&r->engine);
  tt_dataset_destroy(&r->data);
  tt_cohort_destroy(&r->cohort);
  tt_free(*run);
}

int bench_is(const bench_run *run, const bench_setting *set)
{
  return run->set.ops == set->ops && run->set.way == set->way &&
         run->set.precision == set->precision;
}

/* A run that has too few steps left starts anew before the clock does. */
tt_err bench_time_steps(bench_run *r, double seconds, bench_time *out)
{
  tt_err e = TT_OK;
  if (r->left < steps_of_run(r) / 2) TT_TRY(restart(r));
  *out = (bench_time){0};
  double begin = tt_monotonic_seconds();
  do {
    e = train(r, r->steps_per_call);
    out->steps += r->steps_per_call;
    out->seconds = tt_monotonic_seconds() - begin;
  } while (!e && out->seconds < seconds);
  return e;
}

/* ---- lines of JSON ---- */

/* A text without what JSON would take for its own. */
static void print_text(const char *name, const char *text)
{
  printf(", \"%s\": \"", name);
  for (; *text; text++)
    putchar(*text == '"' ? '\'' : *text == '\\' ? '/' : *text < ' ' ? ' ' : *text);
  putchar('"');
}

static void print_names(const char *name, const char *const *list)
{
  printf("\"%s\": [", name);
  for (int i = 0; list[i]; i++) printf("%s\"%s\"", i ? ", " : "", list[i]);
  printf("]");
}

/* Infinity and NaN are no JSON. */
static void print_number(const char *name, double value)
{
  if (isfinite(value))
    printf(", \"%s\": %.9g", name, value);
  else
    printf(", \"%s\": null", name);
}

void bench_print_list(const tt_engine_ops *ops)
{
  printf("{");
  print_names("ways", bench_ways(ops));
  printf(", ");
  print_names("precisions", bench_precisions);
  printf("}\n");
}

static void print_who(const bench_workload *load, const bench_setting *set)
{
  printf("{\"program\": \"tutti\"");
  print_text("workload", load->name);
  print_text("way", bench_ways(set->ops)[set->way]);
  print_text("precision", bench_precisions[set->precision]);
  print_text("engine", set->ops->name);
  printf(", \"threads\": %d, \"members\": %" PRId64, set->use.threads, load->members);
  printf(", \"widths\": [%" PRId64, load->inputs);
  for (int64_t i = 0; i < load->hidden_layers; i++) printf(", %" PRId64, load->hidden[i]);
  printf(", %" PRId64 "], \"batch\": %" PRId64, load->outputs, load->batch);
}

static void print_run(const bench_run *r)
{
  print_who(&r->load, &r->set);
  print_text("device", r->info.device);
  print_text("arithmetic", r->info.arithmetic);
  printf(", \"bytes\": %" PRId64 ", \"steps_per_call\": %" PRId64, r->bytes, r->steps_per_call);
  print_number("prepare_s", r->prepare_s);
  print_number("warm_up_s", r->warm_up_s);
  print_number("check_difference", r->difference);
  print_number("check_tolerance", tolerance(&r->set));
  printf(", \"check_steps\": %d, \"check_losses\": [", BENCH_STEPS);
  for (int64_t i = 0; i < r->checked; i++)
    printf("%s%.9g", i ? ", " : "", r->loss[(i + 1) * BENCH_STEPS - 1]);
  printf("]");
}

void bench_print_ready(const bench_run *run)
{
  print_run(run);
  printf("}\n");
}

static int by_speed(const void *a, const void *b)
{
  const bench_time *s = a, *t = b;
  double x = s->seconds / (double)s->steps, y = t->seconds / (double)t->steps;
  return (x > y) - (x < y);
}

static double us_per_step(const bench_time *t) { return 1e6 * t->seconds / (double)t->steps; }

void bench_print_summary(const bench_run *r, int repeats, bench_time *each)
{
  double seconds = 0.0;
  qsort(each, (size_t)repeats, sizeof *each, by_speed);
  for (int i = 0; i < repeats; i++) seconds += each[i].seconds;
  double us = us_per_step(&each[repeats / 2]);
  double flops = tt_model_flops(&r->cohort->model, r->load.batch) * (double)r->load.members;
  print_run(r);
  print_number("us_per_step", us);
  print_number("us_min", us_per_step(&each[0]));
  print_number("us_max", us_per_step(&each[repeats - 1]));
  printf(", \"repeats\": %d", repeats);
  print_number("member_steps_per_s", 1e6 * (double)r->load.members / us);
  print_number("gflops", 1e-3 * flops / us);
  if (r->set.ops != &tt_engine_cpu) print_number("roof_percent", 1e8 * flops / us / r->set.roof);
  printf(", \"members_timed\": %" PRId64, r->load.members);
  print_number("seconds", seconds);
  printf("}\n");
}

void bench_print_time(const bench_time *t)
{
  printf("{\"steps\": %" PRId64, t->steps);
  print_number("seconds", t->seconds);
  printf("}\n");
}

void bench_print_refusal(const bench_workload *load, const bench_setting *set)
{
  print_who(load, set);
  print_text("refused", tt_err_last());
  printf("}\n");
}

void bench_print_error(void)
{
  printf("{\"program\": \"tutti\"");
  print_text("error", tt_err_last());
  printf("}\n");
}

void bench_print_done(void) { printf("{}\n"); }
