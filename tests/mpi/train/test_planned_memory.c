/* test_planned_memory.c — law: a run of a job takes the memory that its plan says, on every rank:
 * whole trainings with files. Of a GPU exactly; of the host but for small blocks, and no rank takes
 * more for outputs than the plan says. */
#include "core/base/mem.h"
#include "io/data/data.h"
#include "io/files/files.h"
#include "src/train/memory_plan.h"
#include "src/train/trainer.h"
#include "tests/support/check.h"
#include "tests/support/memory_hook.h"
#include "tests/support/ranks.h"

#include <inttypes.h>
#include <stdio.h>

/* On the double of CUDA only the first jobs, because it is slow. */
#ifdef TT_CUDA_DOUBLE
#include "tests/double/runtime/double.h"
#define ENGINE tt_engine_cuda
#define WIDTH "60"
enum { JOBS = 3 };
#else
#define ENGINE tt_engine_cpu
#define WIDTH "400"
enum { JOBS = 7 };
#endif

enum { ROWS = 400, INPUTS = 432, TARGETS = 2 };

/* Jobs that differ in what they need most memory for. */
static const char *const jobs[] = {
    "model: {hidden: [" WIDTH ", " WIDTH "]}\n" /* states */
    "train: {epochs: 1, batch_size: 120}\n"
    "ensembles: [{name: a, members: 8}]\n",
    "model: {hidden: [" WIDTH "]}\n" /* two cohorts, averages, losses */
    "train: {epochs: 2, batch_size: 120, average: ema}\n"
    "ensembles: [{name: a, members: 5}, {name: b, members: 7, model: {hidden: [50]}}]\n",
    "model: {hidden: [" WIDTH "]}\n" /* members of several ranks */
    "train: {epochs: 1, batch_size: 120, parts: 4}\n"
    "run: {ranks_per_member: 3}\n"
    "ensembles: [{name: a, members: 2}]\n",
    "model: {hidden: [300, 300, 300]}\n" /* buffers of the engine */
    "train: {epochs: 1, batch_size: 240}\n"
    "ensembles: [{name: a, members: 1}]\n",
    "model: {hidden: [30]}\n" /* scores, on test rows and out of bag */
    "train: {epochs: 1, batch_size: 240, resample: bootstrap}\n"
    "ensembles: [{name: a, members: 3000}]\n",
    "model: {hidden: [300, 300], heads: 4}\n" /* heads */
    "train: {epochs: 1, batch_size: 60}\n"
    "ensembles: [{name: a, members: 6}]\n",
    "model:\n" /* a residual network */
    "  image: [3, 12, 12]\n"
    "  front: [conv 32 3, batch_norm, basic 32 times 2, basic 64 stride 2, global_mean]\n"
    "  hidden: []\n"
    "train: {epochs: 1, batch_size: 120}\n"
    "ensembles: [{name: a, members: 2}]\n",
};

static void write_files(const char *text)
{
  char all[2048], *none[INPUTS] = {""};
  char *in[INPUTS], *out[TARGETS] = {"u", "v"};
  static char names[INPUTS][8];
  for (int i = 0; i < INPUTS; i++) {
    snprintf(names[i], sizeof names[i], "x%d", i);
    in[i] = names[i], none[i] = "";
  }
  tt_columns input = {INPUTS, in, none, 1, NULL, NULL, 0},
             target = {TARGETS, out, none, 1, NULL, NULL, 0};
  static double x[ROWS * INPUTS], y[ROWS * TARGETS];
  for (int i = 0; i < ROWS * INPUTS; i++) x[i] = (double)(i * 7 % 11 + i % 5);
  for (int i = 0; i < ROWS * TARGETS; i++) y[i] = x[4 * i] - x[4 * i + 1];
  TT_CHECK_OK(tt_data_write_local(at("d.h5"), ROWS, &input, &target, x, y));
  snprintf(all, sizeof all,
           "data: {file: d.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}\n%s", text);
  TT_CHECK_OK(tt_file_write_atomic_local(at("job.yaml"), all));
}

static tt_job *open_job(void)
{
  tt_job *job = NULL;
  const char *const set[] = {"run.directory=out"};
  const tt_job_options o = {.file = at("job.yaml"), .set = set, .nset = 1};
  TT_CHECK_OK(tt_job_open(comm, &o, &job));
  job->ops = &ENGINE;
  job->use = (tt_resources){.threads = 1};
  return job;
}

static tt_memory_plan plan_of_job(void)
{
  tt_job *job = open_job();
  tt_memory_check_args args = {.job = job};
  const tt_data_hook hook = {tt_memory_check_job, &args};
  TT_CHECK_OK(tt_job_load(comm, job, &hook));
  tt_job_close(&job);
  return args.plan;
}

/* The program itself has small blocks, and a buffer of 1 MiB for files, which the plan counts as
 * `program`: at the end of a job, when less is held unless the job is small. The outputs of the plan
 * are those of the rank that needs most. */
#ifdef TT_CUDA_DOUBLE
enum { SMALL_BYTES = 131072 + (1 << 20) };
#else
enum { SMALL_BYTES = 131072 };
#endif

static void host_memory_is_planned(size_t i, const tt_memory_plan *plan, int64_t taken)
{
  int64_t planned = (int64_t)(plan->peak - plan->program);
  if (taken > planned + SMALL_BYTES)
    fprintf(stderr, "job %zu, rank %d: %" PRId64 " bytes, planned %" PRId64 "\n", i,
            tt_comm_rank(comm), taken, planned);
  TT_CHECK(taken, <=, planned + SMALL_BYTES);
  TT_CHECK(taken, >=, planned - (int64_t)plan->outputs - SMALL_BYTES);
}

#ifdef TT_CUDA_DOUBLE
static void begin_peak(void)
{
  tt_double_begin_peak();
  tt_hook_begin_peak();
}

static void device_memory_is_planned(const tt_memory_plan *plan)
{
  TT_CHECK(tt_double_peak(), ==, (int64_t)plan->device);
}
#else
static void begin_peak(void) { tt_hook_begin_peak(); }
static void device_memory_is_planned(const tt_memory_plan *plan)
{
  TT_CHECK(plan->device, ==, 0.0);
}
#endif

TT_TEST (a_run_takes_the_planned_memory) {
  for (size_t i = 0; i < JOBS; i++) {
    if (tt_comm_is_root(comm)) write_files(jobs[i]);
    tt_barrier(comm);
    const tt_memory_plan plan = plan_of_job();
    tt_job *job = open_job();
    const tt_train_options o = {.prepared = job, .resume = TT_RESUME_never, .quiet = 1};
    int64_t before = tt_hook_held();
    begin_peak();
    TT_CHECK_OK(tt_train(comm, &o));
    host_memory_is_planned(i, &plan, tt_hook_peak() - before);
    device_memory_is_planned(&plan);
    tt_job_close(&job);
  }
}
