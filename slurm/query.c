/* query.c — see query.h. */
#include "slurm/query.h"

#include "core/base/log.h"
#include "core/base/process.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double command_timeout = 10.0; /* seconds */

static const char *env_or_empty(const char *name)
{
  const char *value = getenv(name);
  return value ? value : "";
}

int64_t tt_slurm_time_seconds(const char *text)
{
  int64_t days = 0, part[3] = {0};
  int n = 0, end = 0;
  const char *dash = strchr(text, '-'), *at = dash ? dash + 1 : text;
  if (dash && (sscanf(text, "%6" SCNd64 "-%n", &days, &end) != 1 || text + end != at)) return -1;
  while (n < 3 && sscanf(at, "%9" SCNd64 "%n", &part[n], &end) == 1 && part[n] >= 0) {
    n++;
    at += end;
    if (*at != ':') break;
    at++;
  }
  if (!n || *at || days < 0 || at[-1] == ':') return -1;
  if (dash || n == 3) return 86400 * days + 3600 * part[0] + 60 * part[1] + part[2];
  return 60 * part[0] + part[1];
}

tt_err tt_slurm_parse_time(const char *text, double *seconds)
{
  static const char *const unlimited[] = {"UNLIMITED", "NOT_SET", "INVALID", "N/A"};
  *seconds = -1.0;
  for (size_t i = 0; i < sizeof unlimited / sizeof *unlimited; i++)
    if (!strcmp(text, unlimited[i])) return TT_OK;
  int64_t whole = strchr(text, ':') ? tt_slurm_time_seconds(text) : -1;
  if (whole < 0) return TT_FAIL(DATA, "'%s' is not a Slurm time", text);
  *seconds = (double)whole;
  return TT_OK;
}

tt_err tt_slurm_seconds_left_local(double *seconds)
{
  char text[64];
  const char *job = env_or_empty("SLURM_JOB_ID"), *end = env_or_empty("SLURM_JOB_END_TIME");
  *seconds = -1.0;
  if (!*job) return TT_OK;
  if (*end && strtoll(end, NULL, 10) > 0) {
    double left = (double)(strtoll(end, NULL, 10) - (int64_t)time(NULL));
    *seconds = left > 0.0 ? left : 0.0;
    return TT_OK;
  }
  char *argv[] = {"squeue", "-h", "-j", (char *)(uintptr_t)job, "-o", "%L", NULL};
  tt_process_result c = tt_process_run("squeue", argv, command_timeout, text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  if (tt_process_exit_code(&c) == 0 && tt_slurm_parse_time(text, seconds) == TT_OK) return TT_OK;
  return TT_FAIL(UNAVAILABLE,
                 "the end time of Slurm job %s is unknown (%s%s): set run.max_time, or "
                 "#SBATCH --signal=USR1@300",
                 job,
                 c.failed      ? "squeue cannot be run: "
                 : c.timed_out ? "squeue timed out"
                               : "squeue printed: ",
                 c.failed      ? strerror(c.failed)
                 : c.timed_out ? ""
                               : text);
}

int tt_slurm_job_id_local(char *text, size_t capacity)
{
  const char *job = env_or_empty("SLURM_JOB_ID"), *array = env_or_empty("SLURM_ARRAY_JOB_ID");
  if (!*job) return 0;
  if (*array) /* SLURM_JOB_ID may be the id of the array: scontrol would requeue all tasks */
    snprintf(text, capacity, "%s_%s", array, env_or_empty("SLURM_ARRAY_TASK_ID"));
  else
    snprintf(text, capacity, "%s", job);
  return 1;
}

int64_t tt_slurm_restarts_local(void)
{
  return strtoll(env_or_empty("SLURM_RESTART_COUNT"), NULL, 10);
}

int tt_slurm_is_this_start_local(const char *incarnation)
{
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%.16s.%" PRId64 ".", env_or_empty("SLURM_JOB_ID"),
           tt_slurm_restarts_local());
  return !strncmp(incarnation, prefix, strlen(prefix));
}

int tt_slurm_is_this_job_local(const char *incarnation)
{
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%.16s.", env_or_empty("SLURM_JOB_ID"));
  return !strncmp(incarnation, prefix, strlen(prefix));
}

/* A requeued job is pending, so it can get a dependency. Only warn on errors: without it the job
 * starts earlier than necessary, and is requeued again. */
static void set_dependency(const char *job, const char *after)
{
  char which[96], dependency[600], text[64];
  char *argv[] = {"scontrol", "update", which, dependency, NULL};
  snprintf(which, sizeof which, "JobId=%s", job);
  snprintf(dependency, sizeof dependency, "Dependency=afterany:%s", after);
  tt_process_result c = tt_process_run("scontrol", argv, command_timeout, text, sizeof text);
  if (tt_process_exit_code(&c) != 0)
    tt_log_root(TT_LOG_WARN, "`scontrol update %s %s` failed: the job does not wait for these jobs",
                which, dependency);
}

tt_err tt_slurm_requeue_local(const char *job, const char *after)
{
  char text[64];
  char *argv[] = {"scontrol", "requeue", (char *)(uintptr_t)job, NULL};
  tt_process_result c = tt_process_run("scontrol", argv, command_timeout, text, sizeof text);
  if (tt_process_exit_code(&c) == 0) {
    if (*after) set_dependency(job, after);
    return TT_OK;
  }
  return TT_FAIL(UNAVAILABLE, "`scontrol requeue %s` failed (%s): submit the job again with sbatch",
                 job,
                 c.failed      ? strerror(c.failed)
                 : c.timed_out ? "timed out"
                               : "see its message above");
}
