/* requeue.c — see requeue.h. */
#include "slurm/requeue.h"

#include "core/base/clock.h"
#include "core/base/directory.h"
#include "core/base/log.h"
#include "slurm/query.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char waiting[] = "label_jobs"; /* stopped_by of a start that waits for label jobs */

static const char starts_name[] = "starts.tsv";

static int is(const char *text, const char *word) { return !strcmp(text, word); }

/* Whether another start can continue the run: not if it is done, failed, or made no progress. */
static int can_resume(const tt_slurm_start *s, char *why, size_t capacity)
{
  if (is(s->state, "hung") || s->waits_for_jobs) return 1;
  if (is(s->state, "stopped")) {
    if (is(s->stopped_by, "time") || is(s->stopped_by, "signal") || is(s->stopped_by, "oracle"))
      return 1;
    snprintf(why, capacity, "a person stopped it: sbatch the job to resume");
    return 0;
  }
  if (is(s->state, "done")) {
    snprintf(why, capacity, "it is done");
  } else if (is(s->state, "failed")) {
    snprintf(why, capacity, "it failed with exit code %d: another start would fail too",
             s->exit_code);
  } else if (!*s->state && *s->other_incarnation) {
    snprintf(why, capacity,
             "the last status in the directory is of another start, %.96s: see the messages above",
             s->other_incarnation);
  } else if (!*s->state && s->launcher_code == tt_err_exit_code(TT_E_STOPPED)) {
    return 1; /* stopped before it claimed the directory */
  } else if (!*s->state) {
    snprintf(why, capacity, "this start wrote no status, exit code %d: see the messages above",
             s->launcher_code);
  } else { /* "training", but the launcher has returned: the run was killed */
    if (s->generation > s->resumed || s->stage_progress > s->stage_progress_resumed) return 1;
    snprintf(why, capacity, "it died, exit code %d, before it could write a checkpoint",
             s->launcher_code);
  }
  return 0;
}

int tt_requeue_is_allowed(const tt_slurm_start *s, char *why, size_t capacity)
{
  if (!can_resume(s, why, capacity)) return 0;
  if (!s->waits_for_jobs && s->stuck >= TT_REQUEUE_MAX_STUCK) {
    snprintf(why, capacity,
             "%d starts have ended at this checkpoint: raise the time limit of the job or lower "
             "checkpoint.every (waiting for labels: raise label.max_wait), then sbatch the job",
             TT_REQUEUE_MAX_STUCK);
    return 0;
  }
  if (!s->waits_for_jobs && s->restarts - s->waits >= s->max_restarts) {
    snprintf(why, capacity,
             "this was restart %" PRId64 " of at most %" PRId64 ": sbatch the job to resume, or "
             "raise --max-restarts",
             s->restarts - s->waits, s->max_restarts);
    return 0;
  }
  snprintf(why, capacity, "queued again");
  return 1;
}

/* starts.tsv: time, job, restart, checkpoint, state, stop, decision. */

/* Count the last starts of this job that ended at the key of `s`, and all that only waited for
 * label jobs. Starts of other jobs do not count: a person submitted this job after them. */
static void count_starts(const char *directory, const char *job, tt_slurm_start *s)
{
  char line[1024], logged_job[64], logged_key[64], stopped_by[64];
  char path[TT_PATH_MAX];
  FILE *f = NULL;
  tt_path_join(directory, starts_name, path);
  s->stuck = 1;
  if (tt_file_open_stream(path, &f)) return; /* the first start */
  while (fgets(line, sizeof line, f)) {
    int n = sscanf(line, "%*[^\t]\t%63[^\t]\t%*[^\t]\t%63[^\t]\t%*[^\t]\t%63[^\t]", logged_job,
                   logged_key, stopped_by);
    if (n < 2 || !is(logged_job, job)) continue;
    int waited = n == 3 && is(stopped_by, waiting);
    s->waits += waited;
    if (!waited) s->stuck = is(logged_key, s->key) ? s->stuck + 1 : 1;
  }
  fclose(f);
}

/* Only warn on errors: without this file the job is still requeued at most max_restarts times. A
 * start that ended before it created the directory has nothing to record. */
static void append_start(const char *directory, const char *job, const tt_slurm_start *s,
                         const char *why)
{
  char when[32], path[TT_PATH_MAX];
  if (access(directory, F_OK)) return;
  tt_path_join(directory, starts_name, path);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "a");
  if (f && lseek(fd, 0, SEEK_END) == 0)
    fputs("#time\tjob\trestart\tcheckpoint\tstate\tstopped_by\tdecision\n", f);
  if (f)
    fprintf(f, "%s\t%s\t%" PRId64 "\t%s\t%s\t%s\t%s\n", tt_utc_text(when), job, s->restarts, s->key,
            *s->state ? s->state : "none", s->stopped_by, why);
  if (!f || fclose(f)) tt_log_root(TT_LOG_WARN, "%s: %s", path, strerror(errno));
}

tt_err tt_requeue_decide_local(const char *directory, tt_slurm_start *s, int *code)
{
  char why[256], job[64];
  if (!tt_slurm_job_id_local(job, sizeof job))
    return TT_FAIL(USAGE, "this is not a job of Slurm (SLURM_JOB_ID is not set): call it in a "
                          "batch script, after srun");
  *code = s->exit_code >= 0 ? s->exit_code : s->launcher_code;
  s->restarts = tt_slurm_restarts_local();
  if (s->waits_for_jobs) s->stopped_by = waiting;
  count_starts(directory, job, s);
  int again = tt_requeue_is_allowed(s, why, sizeof why);
  append_start(directory, job, s, why);
  printf("tutti: job %s, restart %" PRId64 ": %s %s%s%s%s: %s\n", job, s->restarts,
         *s->state ? s->state : "ended", s->place, *s->reason ? " (" : "", s->reason,
         *s->reason ? ")" : "", why);
  fflush(stdout);
  if (!again && *code == 0 && !is(s->state, "done")) *code = tt_err_exit_code(TT_E_INTERNAL);
  if (!again) return TT_OK;
  if (s->waits_for_jobs) signal(SIGTERM, SIG_IGN); /* Slurm ends this script on the requeue */
  return tt_slurm_requeue_local(job, s->waits_for_jobs ? s->jobs : "");
}
