/* requeue.c — see requeue.h. */
#include "src/slurm/requeue.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/stats/history.h"
#include "src/campaign/state/file_names.h"
#include "src/host/slurm_query.h"
#include "src/host/status_file.h"

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

static int is(const char *text, const char *word) { return !strcmp(text, word); }

/* Whether another start can continue the run: not if it is done, failed, or made no progress. */
static int can_resume(const tt_slurm_start *s, char *why, size_t room)
{
  if (is(s->state, "hung") || s->waits_for_jobs) return 1;
  if (is(s->state, "stopped")) {
    if (is(s->stopped_by, "time") || is(s->stopped_by, "signal") || is(s->stopped_by, "oracle"))
      return 1;
    snprintf(why, room, "a person stopped it: sbatch the job to resume");
    return 0;
  }
  if (is(s->state, "done")) {
    snprintf(why, room, "it is done");
  } else if (is(s->state, "failed")) {
    snprintf(why, room, "it failed with exit code %d: another start would fail too", s->exit_code);
  } else if (!*s->state && *s->other_incarnation) {
    snprintf(why, room,
             "the last status in the directory is of another start, %.96s: see the messages above",
             s->other_incarnation);
  } else if (!*s->state && s->launcher_code == tt_err_exit_code(TT_E_STOPPED)) {
    return 1; /* stopped before it claimed the directory */
  } else if (!*s->state) {
    snprintf(why, room, "this start wrote no status, exit code %d: see the messages above",
             s->launcher_code);
  } else { /* "training", but the launcher has returned: the run was killed */
    if (s->generation > s->resumed || s->stage_progress > s->stage_progress_resumed) return 1;
    snprintf(why, room, "it died, exit code %d, before it could write a checkpoint",
             s->launcher_code);
  }
  return 0;
}

int tt_requeue_is_allowed(const tt_slurm_start *s, char *why, size_t room)
{
  if (!can_resume(s, why, room)) return 0;
  if (!s->waits_for_jobs && s->stuck >= TT_REQUEUE_MAX_STUCK) {
    snprintf(why, room,
             "%d starts have ended at this checkpoint: raise the time limit of the job or lower "
             "checkpoint.every (waiting for labels: raise label.max_wait), then sbatch the job",
             TT_REQUEUE_MAX_STUCK);
    return 0;
  }
  if (!s->waits_for_jobs && s->restarts - s->waits >= s->max_restarts) {
    snprintf(why, room,
             "this was restart %" PRId64 " of at most %" PRId64 ": sbatch the job to resume, or "
             "raise --max-restarts",
             s->restarts - s->waits, s->max_restarts);
    return 0;
  }
  snprintf(why, room, "queued again");
  return 1;
}

/* Progress within the present stage of a campaign: the last checkpoint of training, or the number
 * of labelled groups. A training that hangs writes its state only into the directory of the round.
 *   jobs  [room] receives the numbers of jobs that label the round, "" = none */
static void read_round_status(const char *directory, tt_slurm_start *s, char *jobs, int64_t room)
{
  static tt_status_file f;
  char path[TT_PATH_MAX];
  tt_label_progress labels = {0};
  int64_t round = s->generation / TT_STAGE_COUNT + 1, stage = s->generation % TT_STAGE_COUNT;
  if (stage == TT_STAGE_label) {
    if (!tt_label_progress_read_local(directory, round, &labels))
      s->stage_progress = labels.labelled;
    tt_label_job_numbers_local(directory, round, jobs, room);
    s->waits_for_jobs = *jobs && is(s->stopped_by, "oracle");
    if (s->waits_for_jobs) s->stopped_by = waiting;
    return;
  }
  tt_round_path(directory, round, "", path);
  if (stage != TT_STAGE_train || tt_status_file_read_local(path, &f)) return;
  int mine = tt_slurm_is_this_start_local(f.status.incarnation);
  s->stage_progress = f.status.generation;
  s->stage_progress_resumed = mine ? f.status.resumed : s->stage_progress;
  if (mine && s->exit_code < 0 && is(f.status.state, "hung")) {
    s->state = f.status.state;
    s->reason = f.status.reason;
    s->exit_code = (int)f.status.exit_code;
  }
}

/* Read the status of this start, or the incarnation of another start that wrote the file.
 *   jobs  [room] receives the numbers of jobs that label the present round */
static tt_err read_status(const char *directory, tt_slurm_start *s, char *jobs, int64_t room)
{
  static tt_status_file f;
  s->state = s->stopped_by = s->other_incarnation = s->reason = "";
  s->exit_code = -1;
  tt_err e = tt_status_file_read_local(directory, &f);
  if (e) return e == TT_E_IO ? e : TT_OK;
  if (!tt_slurm_is_this_start_local(f.status.incarnation)) {
    int stopped_early = s->launcher_code == tt_err_exit_code(TT_E_STOPPED) &&
                        tt_slurm_is_this_job_local(f.status.incarnation);
    if (!stopped_early) s->other_incarnation = f.status.incarnation;
    if (stopped_early) s->generation = s->resumed = f.status.generation;
    return TT_OK;
  }
  s->state = f.status.state;
  s->stopped_by = f.status.stop;
  s->reason = f.status.reason;
  s->generation = f.status.generation;
  s->resumed = f.status.resumed;
  s->exit_code = (int)f.status.exit_code;
  if (s->is_campaign) read_round_status(directory, s, jobs, room);
  return TT_OK;
}

/* key "37", for a campaign "12.4"; text "at checkpoint 37", "in round 3, score". */
static void describe_position(const tt_slurm_start *s, char key[64], char text[128])
{
  int64_t round = s->generation / TT_STAGE_COUNT + 1, stage = s->generation % TT_STAGE_COUNT;
  if (!s->is_campaign) {
    snprintf(key, 64, "%" PRId64, s->generation);
    snprintf(text, 128, "at checkpoint %" PRId64, s->generation);
    return;
  }
  snprintf(key, 64, "%" PRId64 ".%" PRId64, s->generation, s->stage_progress);
  int n = snprintf(text, 128, "in round %" PRId64 ", %s", round, tt_stage_name[stage]);
  if (stage == TT_STAGE_train)
    snprintf(text + n, 128 - (size_t)n, ", at checkpoint %" PRId64, s->stage_progress);
  else if (stage == TT_STAGE_label)
    snprintf(text + n, 128 - (size_t)n, ", %" PRId64 " group%s done", s->stage_progress,
             s->stage_progress == 1 ? "" : "s");
}

/* starts.tsv: time, job, restart, checkpoint, state, stop, decision. */

static void starts_path(const char *directory, char path[TT_PATH_MAX])
{
  tt_campaign_path(directory, "starts.tsv", path);
}

/* Count the last starts of this job that ended at `place`, and all that only waited for label jobs.
 * Starts of other jobs do not count: a person submitted this job after them. */
static void count_starts(const char *directory, const char *job, const char *place,
                         tt_slurm_start *s)
{
  char line[1024], of[64], at[64], stopped_by[64];
  char path[TT_PATH_MAX];
  FILE *f = NULL;
  starts_path(directory, path);
  s->stuck = 1;
  if (tt_file_open_stream(path, &f)) return; /* the first start */
  while (fgets(line, sizeof line, f)) {
    int n =
        sscanf(line, "%*[^\t]\t%63[^\t]\t%*[^\t]\t%63[^\t]\t%*[^\t]\t%63[^\t]", of, at, stopped_by);
    if (n < 2 || !is(of, job)) continue;
    int waited = n == 3 && is(stopped_by, waiting);
    s->waits += waited;
    if (!waited) s->stuck = is(at, place) ? s->stuck + 1 : 1;
  }
  fclose(f);
}

/* Only warn on errors: without this file the job is still requeued at most max_restarts times. A
 * start that ended before it created the directory has nothing to record. */
static void append_start(const char *directory, const char *job, const char *place,
                         const tt_slurm_start *s, const char *why)
{
  char when[32], path[TT_PATH_MAX];
  if (access(directory, F_OK)) return;
  starts_path(directory, path);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "a");
  if (f && lseek(fd, 0, SEEK_END) == 0)
    fputs("#time\tjob\trestart\tcheckpoint\tstate\tstopped_by\tdecision\n", f);
  if (f)
    fprintf(f, "%s\t%s\t%" PRId64 "\t%s\t%s\t%s\t%s\n", tt_utc_text(when), job, s->restarts, place,
            *s->state ? s->state : "none", s->stopped_by, why);
  if (!f || fclose(f)) tt_log_root(TT_LOG_WARN, "%s: %s", path, strerror(errno));
}

static tt_err decide(const char *directory, const char *job, tt_slurm_start *s, int *code)
{
  char why[256], place[64], where[128], jobs[512] = "";
  TT_TRY(read_status(directory, s, jobs, sizeof jobs));
  *code = s->exit_code >= 0 ? s->exit_code : s->launcher_code;
  describe_position(s, place, where);
  count_starts(directory, job, place, s);
  int again = tt_requeue_is_allowed(s, why, sizeof why);
  append_start(directory, job, place, s, why);
  printf("tutti: job %s, restart %" PRId64 ": %s %s%s%s%s: %s\n", job, s->restarts,
         *s->state ? s->state : "ended", where, *s->reason ? " (" : "", s->reason,
         *s->reason ? ")" : "", why);
  fflush(stdout);
  if (!again && *code == 0 && !is(s->state, "done")) *code = tt_err_exit_code(TT_E_INTERNAL);
  if (!again) return TT_OK;
  if (!s->waits_for_jobs) return tt_slurm_requeue_local(job, "");
  signal(SIGTERM, SIG_IGN); /* Slurm ends this script when the job is requeued */
  return tt_slurm_requeue_local(job, jobs);
}

tt_err tt_requeue_decide_local(const tt_job_options *o, int64_t max_restarts, int launcher_code,
                               int *code)
{
  char job[64];
  tt_config *cfg = NULL;
  if (!tt_slurm_job_id_local(job, sizeof job))
    return TT_FAIL(USAGE, "this is not a job of Slurm (SLURM_JOB_ID is not set): call it in a "
                          "batch script, after srun");
  TT_TRY(tt_config_load(o->file, o->set, o->nset, &cfg));
  tt_slurm_start start = {.restarts = tt_slurm_restarts_local(),
                          .max_restarts = max_restarts,
                          .launcher_code = launcher_code,
                          .is_campaign = cfg->campaign};
  tt_err e =
      decide(cfg->campaign ? cfg->campaign_directory : cfg->run_directory, job, &start, code);
  tt_config_destroy(&cfg);
  return e;
}
