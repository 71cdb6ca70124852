/* lives.c — see lives.h. */
#include "run/lives.h"

#include "base/log.h"
#include "base/mem.h"
#include "run/slurm.h"
#include "run/status.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int is(const char *text, const char *word) { return !strcmp(text, word); }

/* Did it end in a way that another life can mend? */
static int can_go_on(const tt_life *l, char *why, size_t room)
{
  if (is(l->state, "hung")) return 1;
  if (is(l->state, "stopped")) {
    if (is(l->stop, "time") || is(l->stop, "signal")) return 1;
    snprintf(why, room, "a person stopped it: sbatch the job to go on");
    return 0;
  }
  if (is(l->state, "done")) {
    snprintf(why, room, "it is done");
  } else if (is(l->state, "failed")) {
    snprintf(why, room, "it failed with exit code %d: another life would too", l->exit_code);
  } else if (!*l->state && *l->other) {
    snprintf(why, room,
             "the directory's last status is of another start, %.96s: the reason is above",
             l->other);
  } else if (!*l->state) {
    snprintf(why, room, "this life has left no status, exit code %d: the reason is above",
             l->launch_code);
  } else { /* it says "training", but its launcher has returned */
    if (l->generation > l->resumed) return 1;
    snprintf(why, room, "it died, exit code %d, before it could write a checkpoint",
             l->launch_code);
  }
  return 0;
}

int tt_life_again(const tt_life *l, char *why, size_t room)
{
  if (!can_go_on(l, why, room)) return 0;
  if (l->stuck >= TT_LIVES_STUCK) {
    snprintf(why, room,
             "%d lives have ended at this checkpoint: give a life more time, or checkpoint.every "
             "less, then sbatch the job to go on",
             TT_LIVES_STUCK);
    return 0;
  }
  if (l->restarts >= l->most) {
    snprintf(why, room,
             "this was restart %" PRId64 " of at most %" PRId64 ": sbatch the job to go on, or "
             "raise --max-restarts",
             l->restarts, l->most);
    return 0;
  }
  snprintf(why, room, "queued again");
  return 1;
}

/* ---- lives.tsv: time, job, restart, checkpoint, state, stop, decision --------------------------
 */

static FILE *open_lives(const char *directory, const char *mode)
{
  char path[PATH_MAX];
  int n = snprintf(path, sizeof path, "%s/lives.tsv", directory);
  return n < (int)sizeof path ? fopen(path, mode) : NULL;
}

/* Earlier lives of this job. Another job's are no sign of being stuck: somebody has looked. */
static void recall(const char *directory, const char *job, tt_life *l)
{
  char line[1024], of[64];
  int64_t restart, generation;
  FILE *f = open_lives(directory, "r");
  l->stuck = 1;
  while (f && fgets(line, sizeof line, f)) {
    int n = sscanf(line, "%*[^\t]\t%63[^\t]\t%" SCNd64 "\t%" SCNd64, of, &restart, &generation);
    if (n != 3 || !is(of, job)) continue;
    l->stuck = generation == l->generation ? l->stuck + 1 : 1;
  }
  if (f) fclose(f);
}

/* Best effort: without the record a job might be queued too often, but only up to its cap. */
static void record(const char *directory, const char *job, const tt_life *l, const char *why)
{
  char when[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  FILE *f = open_lives(directory, "a");
  if (f && ftell(f) == 0)
    fputs("#time\tjob\trestart\tcheckpoint\tstate\tstopped_by\tdecision\n", f);
  if (f)
    fprintf(f, "%s\t%s\t%" PRId64 "\t%" PRId64 "\t%s\t%s\t%s\n", when, job, l->restarts,
            l->generation, *l->state ? l->state : "none", l->stop, why);
  if (!f || fclose(f)) tt_log_once(TT_LOG_WARN, "%s/lives.tsv: %s", directory, strerror(errno));
}

static tt_err decide(const char *directory, const char *job, tt_life *l, int *code)
{
  static tt_status_file f;
  char why[256];
  l->state = l->stop = l->other = "";
  *code = l->launch_code;
  tt_err e = tt_status_read_local(directory, &f);
  if (!e && tt_slurm_is_this_life_local(f.status.incarnation)) {
    l->state = f.status.state;
    l->stop = f.status.stop;
    l->generation = f.status.generation;
    l->resumed = f.status.resumed;
    l->exit_code = (int)f.status.exit_code;
    if (l->exit_code >= 0) *code = l->exit_code;
  } else if (!e) {
    l->other = f.status.incarnation;
  }
  recall(directory, job, l);
  int again = tt_life_again(l, why, sizeof why);
  record(directory, job, l, why);
  const char *reason = *l->state ? f.status.reason : "";
  printf("tutti: job %s, restart %" PRId64 ": %s at checkpoint %" PRId64 "%s%s%s: %s\n", job,
         l->restarts, *l->state ? l->state : "ended", l->generation, *reason ? " (" : "", reason,
         *reason ? ")" : "", why);
  fflush(stdout);
  if (!again && *code == 0 && !is(l->state, "done")) *code = tt_err_exit_code(TT_E_INTERNAL);
  return again ? tt_slurm_requeue_local(job) : TT_OK;
}

tt_err tt_lives_next_local(const tt_job_options *o, int64_t most, int launch_code, int *code)
{
  char job[64], *text = NULL;
  int64_t bytes = 0;
  tt_config *cfg = NULL;
  if (!tt_slurm_job_local(job, sizeof job))
    return TT_FAIL(USAGE, "this is not a job of Slurm (SLURM_JOB_ID is not set): it belongs into a "
                          "batch script, after srun");
  tt_err e = tt_config_read_file_local(o->file, &text, &bytes);
  if (!e) e = tt_config_parse(o->file, text, bytes, o->set, o->nset, &cfg);
  tt_life life = {.restarts = tt_slurm_restarts_local(), .most = most, .launch_code = launch_code};
  if (!e) e = decide(cfg->run_directory, job, &life, code);
  tt_config_destroy(&cfg);
  tt_free(text);
  return e;
}
