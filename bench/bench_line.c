/* bench_line.c — see bench_line.h. */
#include "bench/bench_line.h"

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/model/epoch_end.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_CALL = 1 << 20, /* steps of one call of train */
  RUN_STEPS = 1 << 22  /* steps of a run; then it is restarted */
};
static const double SHORTEST_CALL = 0.1; /* seconds: makes the overhead of a call negligible */

struct bench_run {
  bench_workload load;
  bench_setting set;
  tt_cohort *cohort;
  tt_dataset *data;
  tt_engine *engine;
  tt_engine_info info;
  int64_t bytes; /* of this run alone */
  int64_t steps_per_call;
  int64_t left; /* steps left until the end of training */
  double prepare_s, warm_up_s;
  int64_t member[BENCH_CHECKED], checked;
  double loss[BENCH_CHECKED * BENCH_STEPS];
  double difference; /* from the reference; NaN without one */
};

/* The cuda engine reports the device memory of the whole program, so its runs share one number. */
static int64_t device_bytes;

/* paths and precisions */

const char *const *const bench_precisions = tt_choice_precision;

/* Largest accepted difference of losses, relative to the largest loss. */
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
      int devices = 0;
      *out = tt_engines[i];
      return (*out)->count(&devices); /* it opens the library of an engine */
    }
  return TT_FAIL(USAGE, "there is no engine '%s' in this program", name);
}

/* prepare */

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

/* Loss sum of member `i` in the running epoch, and the mean loss of its finished epochs. */
static tt_err look(bench_run *r, int64_t i, tt_state **s)
{
  tt_slice one = {i, 1};
  TT_TRY(tt_state_create(one, tt_cohort_state_shape(r->cohort), s));
  return r->set.ops->save(r->engine, one, *s);
}

/* Mean loss of the last step of a member; `sum` is the loss sum of its epoch before this step. */
static tt_err loss_of_step(bench_run *r, int64_t i, double *sum, double *loss)
{
  tt_state *s = NULL;
  double rows = (double)bench_train_rows(&r->load);
  tt_err e = look(r, i, &s);
  if (!e) {
    int32_t epoch = TT_FIELD(s, epoch)[0];
    int over = TT_FIELD(s, batch)[0] == 0;
    double after =
        over ? (double)tt_last_epoch_loss(TT_FIELD(s, loss_train), s->epochs, 0, epoch) * rows
             : TT_FIELD(s, loss_sum)[0];
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
                   "losses of %d steps differ from the reference by %.3g, more than %.3g: wrong "
                   "results, not timed",
                   BENCH_STEPS, r->difference, tolerance(&r->set));
  return TT_OK;
}

/* Double the steps of a call until it takes long enough; this is also the warm-up. */
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
    return TT_FAIL(UNAVAILABLE, "the cpu engine computes in fp32 only");
  r->set.use.precision = (tt_precision)r->set.precision;
  if (r->set.ops != &tt_engine_cpu) r->set.use.path = (tt_gpu_path)r->set.way;
  TT_TRY(start_engine(r));
  TT_TRY(take_losses(r));
  if (folder) TT_TRY(compare(r, folder));
  TT_TRY(warm_up(r));
  TT_TRY(r->set.ops->info(r->engine, &r->info));
  if (r->set.ops == &tt_engine_cpu) {
    tt_slice all = {0, r->load.members};
    r->bytes = tt_engine_cpu.host_bytes(r->cohort, all, r->data->rows, NULL, &r->set.use);
  } else {
    r->bytes = r->info.device_bytes - device_bytes;
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

/* A run with too few steps left is restarted before the timing. */
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

/* lines of JSON */

static void print_line(json_t *line)
{
  if (tt_json_print(line, 0)) fprintf(stderr, "%s\n", tt_err_last());
}

static json_t *names(const char *const *list)
{
  json_t *all = json_array();
  for (int i = 0; list[i]; i++) json_array_append_new(all, json_string(list[i]));
  return all;
}

void bench_print_list(const tt_engine_ops *ops)
{
  print_line(json_pack("{s:o, s:o}", "ways", names(bench_ways(ops)), "precisions",
                       names(bench_precisions)));
}

static json_t *describe(const bench_workload *load, const bench_setting *set)
{
  json_t *widths = json_pack("[I]", load->inputs);
  for (int64_t i = 0; i < load->hidden_layers; i++)
    json_array_append_new(widths, json_integer(load->hidden[i]));
  int64_t each = tt_outputs_per_target(tt_loss_output_head(load->loss), 0);
  json_array_append_new(widths, json_integer(load->targets * each));
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:o, s:I}", "program", "tutti", "workload",
                   load->name, "way", bench_ways(set->ops)[set->way], "precision",
                   bench_precisions[set->precision], "engine", set->ops->name, "threads",
                   set->use.threads, "members", load->members, "widths", widths, "batch",
                   load->batch);
}

static json_t *describe_run(const bench_run *r)
{
  json_t *line = describe(&r->load, &r->set), *losses = json_array();
  for (int64_t i = 0; i < r->checked; i++)
    json_array_append_new(losses, tt_json_number(r->loss[(i + 1) * BENCH_STEPS - 1]));
  json_object_update_new(
      line, json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:f, s:i, s:o}", "device",
                      r->info.device, "arithmetic", r->info.arithmetic, "bytes", r->bytes,
                      "steps_per_call", r->steps_per_call, "prepare_s",
                      tt_json_number(r->prepare_s), "warm_up_s", tt_json_number(r->warm_up_s),
                      "check_difference", tt_json_number(r->difference), "check_tolerance",
                      tolerance(&r->set), "check_steps", BENCH_STEPS, "check_losses", losses));
  return line;
}

void bench_print_ready(const bench_run *run) { print_line(describe_run(run)); }

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
  json_t *line = describe_run(r);
  json_object_update_new(
      line, json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:I, s:f}", "us_per_step", us, "us_min",
                      us_per_step(&each[0]), "us_max", us_per_step(&each[repeats - 1]), "repeats",
                      repeats, "member_steps_per_s", 1e6 * (double)r->load.members / us, "gflops",
                      1e-3 * flops / us, "members_timed", r->load.members, "seconds", seconds));
  tt_json_set(&line, "roof_gflops", tt_json_number(1e-9 * r->set.roof));
  tt_json_set(&line, "roof_percent", tt_json_number(1e8 * flops / us / r->set.roof));
  print_line(line);
}

void bench_print_time(const bench_time *t)
{
  print_line(json_pack("{s:I, s:f}", "steps", t->steps, "seconds", t->seconds));
}

void bench_print_refusal(const bench_workload *load, const bench_setting *set)
{
  json_t *line = describe(load, set);
  tt_json_set(&line, "refused", tt_json_text(tt_err_last()));
  print_line(line);
}

void bench_print_error(void)
{
  print_line(json_pack("{s:s, s:o}", "program", "tutti", "error", tt_json_text(tt_err_last())));
}

void bench_print_done(void) { print_line(json_object()); }
