/* test_waves.c — laws of waves on a GPU with little memory: the planned bytes are those that an engine
 * allocates, and a job of ten times the memory trains in waves with the same bits, within it. */
#include "tests/support/settings.h"

#include "src/train/memory_plan.h"
#include "src/train/shard/wave_training.h"
#include "tests/support/memory_hook.h"

enum { MEMBERS = 40, MOST_CALLS = 2000 };

static tt_path_context gpu_of(way variant)
{
  tt_device_info info = {0};
  TT_CHECK_OK(variant.ops->describe(0, &info));
  return (tt_path_context){.shared_bytes = info.shared_bytes,
                           .precision = variant.use.precision,
                           .capability = info.capability,
                           .multiprocessors = info.multiprocessors};
}

static int64_t data_bytes(const tt_dataset *d)
{
  int64_t columns = d->inputs + d->targets + (d->weight ? 1 : 0);
  return (int64_t)sizeof(float) * d->rows * columns;
}

/* All rows have labels, so that the lists of rows have the planned lengths. */
static void fill_in(tt_dataset *d)
{
  for (int64_t i = 0; i < d->rows * d->targets; i++)
    if (isnan(d->y[i])) d->y[i] = 1.0f;
}

static tt_device_need need_of(const problem *p, way variant, tt_slice slice, int streamed)
{
  const tt_path_context gpu = gpu_of(variant);
  const tt_device_job job = {.cohort = &p->c,
                             .slice = slice,
                             .rows = p->d->rows,
                             .weighted = p->d->weight != NULL,
                             .streamed = streamed,
                             .context = &gpu,
                             .wanted = variant.use.path};
  tt_device_need need;
  TT_CHECK_OK(tt_device_need_of(&job, &need));
  return need;
}

/* Bytes of structs and of lists with an element for a member or a row set. */
enum { FEW_BYTES = 12288 };

static void planned_bytes_are_allocated(setting v, way variant, int streamed)
{
  const int64_t id[ENSEMBLES] = {0, 1};
  problem p = cast(v, id, ENSEMBLES, 0, EACH);
  tt_engine_info info;
  fill_in(p.d);
  p.by = variant;
  if (suits(variant, &p.c)) {
    const tt_device_need need = need_of(&p, variant, everyone(&p), streamed);
    int64_t pinned = tt_double_count().pinned_bytes, host = tt_hook_held();
    tt_hook_begin_peak();
    TT_CHECK_OK(variant.ops->create(&p.c, everyone(&p), &variant.use, &p.engine));
    if (streamed) tt_double_fail_alloc(1); /* the first one for the data set on the device */
    TT_CHECK_OK(variant.ops->set_data(p.engine, p.d, NULL));
    TT_CHECK_OK(variant.ops->info(p.engine, &info));
    TT_CHECK(strstr(info.device, "rows come from the host") != NULL, ==, streamed);
    int64_t held = info.device_bytes - (streamed ? 0 : data_bytes(p.d));
    fprintf(stderr, held > need.device ? "%s, setting %d\n" : "", variant.name, v.number);
    int64_t left_out = p.c.resample == TT_RESAMPLE_kfold ? 256 : 0; /* rows in no list */
    TT_CHECK(held, <=, need.device);
    TT_CHECK(need.device - held, <=, left_out);
    TT_CHECK(tt_double_count().pinned_bytes - pinned, ==, need.pinned);
    TT_CHECK(tt_hook_peak() - host, >=, need.lists);
    TT_CHECK(tt_hook_peak() - host, <=, need.lists + FEW_BYTES);
  }
  problem_free(&p);
}

TT_TEST (engines_allocate_the_planned_bytes) {
  tt_double_set_memory(INT64_C(1) << 33);
  for (const way *w = every_way(); w->name; w++)
    for (int number = 0; number < SETTINGS; number++)
      for (int streamed = 0; streamed <= (w->use.path == TT_GPU_PATH_layered); streamed++)
        if (has_turn(*w, number)) planned_bytes_are_allocated(setting_of(number), *w, streamed);
}

/* The waves of a job on a GPU with so many bytes. */
static int64_t plan_waves(problem *p, way variant, double bytes)
{
  const char *text = "data: {file: a.h5}\nensembles: [{name: one}]\n";
  tt_config *cfg = NULL;
  tt_cohort *cohort = &p->c;
  const tt_cohorts cohorts = {1, &cohort};
  const tt_path_context gpu = gpu_of(variant);
  const tt_data_shape shape = {.rows = p->d->rows,
                               .inputs = p->d->inputs,
                               .net_inputs = p->d->inputs,
                               .targets = p->d->targets};
  tt_wave_plan wave;
  tt_memory_plan plan;
  TT_CHECK_OK(tt_config_parse("job.yaml", text, (int64_t)strlen(text), NULL, 0, &cfg));
  cfg->gpu_path = (int)variant.use.path;
  const tt_memory_job job = {.cfg = cfg,
                             .cohorts = &cohorts,
                             .shape = &shape,
                             .ops = variant.ops,
                             .use = &variant.use,
                             .gpu = &gpu,
                             .gpu_bytes = bytes};
  TT_CHECK_OK(tt_memory_plan_waves(&job, 1, 0, (double)INFINITY, (double)INFINITY, &wave, &plan));
  TT_CHECK(wave.stored, ==, 0);
  TT_CHECK(plan.device, <=, bytes);
  tt_config_destroy(&cfg);
  return wave.members;
}

static void train_within(problem *p, way variant, int64_t wave, int64_t limit, const tt_state *want)
{
  tt_cohort *cohort = &p->c;
  tt_shards all;
  tt_engine_info info;
  int64_t calls = 0, most = 0;
  const tt_job job = {.ops = variant.ops,
                      .use = variant.use,
                      .cohorts = {1, &cohort},
                      .data = p->d,
                      .training = *p->d};
  TT_CHECK_OK(tt_shards_create_local(&job, 1, 0, NULL, 0, wave, &all));
  TT_CHECK(all.waves.count, >=, 10);
  do {
    TT_CHECK_OK(tt_shard_train_local(all.at, 20));
    TT_CHECK_OK(variant.ops->info(all.at->engine, &info));
    most = info.device_bytes > most ? info.device_bytes : most;
    TT_CHECK_OK(tt_wave_advance_local(&all));
    TT_CHECK(++calls, <, MOST_CALLS);
  } while (all.at->local_progress.training > 0);
  TT_CHECK(most, <=, limit);
  TT_CHECK(most, >, limit / 2);
  for (int64_t m = 0; m < p->c.members; m++) same_member(want, all.at->state, m, variant.name);
  tt_shards_destroy(&all);
}

TT_TEST (a_job_of_ten_times_the_memory_has_the_same_bits) {
  const int64_t hidden[] = {13};
  way variant[MAX_WAYS];
  for (int i = 0, n = ways(variant); i < n; i++) {
    if (variant[i].schedule != i % SCHEDULES) continue;
    problem p = problem_make(ROWS, INPUTS, 1, 1, MEMBERS, hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean);
    int64_t whole, one, data = data_bytes(p.d);
    whole = need_of(&p, variant[i], everyone(&p), 0).device;
    one = need_of(&p, variant[i], (tt_slice){0, 1}, 0).device;
    tt_double_set_memory(INT64_C(1) << 33);
    tt_state *want = problem_run(&p, variant[i], everyone(&p), 1000);
    int64_t limit = data + one + (whole - one) / 14; /* the members need more than ten times it */
    tt_double_set_memory(limit);
    tt_engine *none = NULL;
    tt_err e = variant[i].ops->create(&p.c, everyone(&p), &variant[i].use, &none);
    if (!e) e = variant[i].ops->set_data(none, p.d, NULL);
    TT_CHECK((int)e, ==, TT_E_MEM); /* all at once do not fit */
    variant[i].ops->destroy(&none);
    train_within(&p, variant[i], plan_waves(&p, variant[i], (double)limit), limit, want);
    tt_double_set_memory(INT64_C(1) << 33);
    tt_state_destroy(&want);
    problem_free(&p);
  }
  tt_double_reset();
}
