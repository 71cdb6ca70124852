/* doctor_calibrate.c — see doctor.h. */
#include "src/tools/doctor.h"

#include "core/base/text.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"
#include "src/timing/calibrate.h"

#include <stdio.h>
#include <unistd.h>

static const int trials = 5;
static const double trial_seconds = 0.04;
static const double least_share = 0.85; /* of the cores; on a quiet machine it is about 0.95 */

static void print_rows(const char *title, int count, const char *const *name, const double *ns)
{
  printf("%s\n", title);
  for (int i = 0; i < count; i++) printf("  %-16s %10.4g\n", name[i], 1e9 * ns[i]);
}

static void print_machine(const tt_machine *m, const char *path)
{
  static const char *const term[] = {
#define X(name, what) what,
      TT_STEP_COSTS(X)
#undef X
  };
  char rate[32];
  printf("%s, %s, %d busy thread%s\nnanoseconds of a thread for\n", m->host, m->processor,
         m->threads, tt_plural(m->threads));
  for (int i = 0; i < TT_STEP_COST_COUNT; i++)
    printf("  %-34s %10.4g\n", term[i], 1e9 * m->seconds.term[i]);
  printf("  %-34s %10.4g\n", "dropout, by hidden unit and row", 1e9 * m->seconds.dropout);
  printf("  %-34s %10.4g\n", "layer_norm, the same", 1e9 * m->seconds.layer_norm);
  print_rows("activations, by hidden unit and row, above relu", TT_ACT_COUNT, tt_choice_activation,
             m->seconds.activation);
  print_rows("optimizers, by parameter, above adam", TT_OPT_COUNT, tt_choice_optimizer,
             m->seconds.optimizer);
  printf("error of a step  %.0f %%\nfiles here       %s/s\nwritten to       %s\n", 100.0 * m->error,
         tt_memory_text(m->write_rate, rate), path);
  if (m->cores < least_share * m->threads)
    printf("the threads got %.1f of %d cores: these constants are too large; measure again when no "
           "other program runs\n",
           m->cores, m->threads);
}

static tt_err calibrate(const char *directory)
{
  const tt_engine_ops *cpu;
  const tt_resources use = {.threads = tt_resources_cores_local(), .simd = TT_SIMD_auto};
  char path[TT_ERR_MESSAGE_SIZE];
  tt_machine m;
  TT_TRY(tt_machine_path(path, sizeof path));
  TT_TRY(tt_resources_engine_local(TT_DEVICE_cpu, &cpu));
  TT_TRY(tt_machine_measure(&(tt_timing){cpu, &use, trials, trial_seconds}, directory, &m));
  TT_TRY(tt_machine_write(path, &m));
  print_machine(&m, path);
  return TT_OK;
}

tt_err tt_doctor_calibrate(tt_comm *c, const tt_job_options *o)
{
  tt_job *job = NULL;
  const char *directory = ".";
  if (tt_comm_ranks(c) > 1)
    return TT_FAIL(USAGE, "--calibrate measures one process: start it without mpirun, or with one "
                          "rank");
  if (o->file) TT_TRY(tt_job_open(c, o, &job));
  if (job && access(job->cfg->run_directory, W_OK) == 0) directory = job->cfg->run_directory;
  tt_err e = calibrate(directory);
  tt_job_close(&job);
  return e;
}
