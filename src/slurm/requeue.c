/* requeue.c — see requeue.h. */
#include "src/slurm/requeue.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/stats/history.h"
#include "src/campaign/state/file_names.h"
#include "src/host/slurm_query.h"
#include "src/host/status_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *text, const char *word) { return !strcmp(text, word); }

/* Did it end in a way that another life can mend? */
static int can_resume(const tt_slurm_start *l, char *why, size_t room)
{
  if (is(l->state, "hung")) return 1;
  if (is(l->state, "stopped")) {
    if (is(l->stopped_by, "time") || is(l->stopped_by, "signal") || is(l->stopped_by, "oracle"))
      return 1;
    snprintf(why, room, "a person stopped it: sbatch the job to go on");
    return 0;
  }
  if (is(l->state, "done")) {
    snprintf(why, room, "it is done");
  } else if (is(l->state, "failed")) {
    snprintf(why, room, "it failed with exit code %d: another life would too", l->exit_code);
  } else if (!*l->state && *l->other_incarnation) {
    snprintf(why, room,
             "the directory's last status is of another start, %.96s: the reason is above",
             l->other_incarnation);
  } else if (!*l->state) {
    snprintf(why, room, "this life has left no status, exit code %d: the reason is above",
             l->launcher_code);
  } else { /* it says "training", but its launcher has returned */
    if (l->generation > l->resumed || l->stage_progress > l->stage_progress_resumed) return 1;
    snprintf(why, room, "it died, exit code %d, before it could write a checkpoint",
             l->launcher_code);
  }
  return 0;
}

int tt_requeue_is_allowed(const tt_slurm_start *l, char *why, size_t room)
{
  if (!can_resume(l, why, room)) return 0;
  if (l->stuck >= TT_REQUEUE_MAX_STUCK) {
    snprintf(why, room,
             "%d lives have ended at this checkpoint: give a life more time, or checkpoint.every "
             "less (label.max_wait more, where labels are awaited), then sbatch the job to go on",
             TT_REQUEUE_MAX_STUCK);
    return 0;
  }
  if (l->restarts >= l->max_restarts) {
    snprintf(why, room,
             "this was restart %" PRId64 " of at most %" PRId64 ": sbatch the job to go on, or "
             "raise --max-restarts",
             l->restarts, l->max_restarts);
    return 0;
  }
  snprintf(why, room, "queued again");
  return 1;
}

/* ---- where it stands ------------------------------------------------------------------------- */

/* What the stage that a campaign is in has kept: of training its last checkpoint, of labelling the
 * labelled groups. A training that hangs says so only in its own directory. */
static void read_round_status(const char *directory, tt_slurm_start *l)
{
  static tt_status_file f;
  char path[TT_PATH_MAX];
  tt_label_progress labels = {0};
  int64_t round = l->generation / TT_STAGE_COUNT + 1, stage = l->generation % TT_STAGE_COUNT;
  if (stage == TT_STAGE_label) {
    if (!tt_label_progress_read_local(directory, round, &labels))
      l->stage_progress = labels.labelled;
    return;
  }
  tt_round_path(directory, round, "", path);
  if (stage != TT_STAGE_train || tt_status_file_read_local(path, &f)) return;
  int mine = tt_slurm_is_this_start_local(f.status.incarnation);
  l->stage_progress = f.status.generation;
  l->stage_progress_resumed = mine ? f.status.resumed : l->stage_progress;
  if (mine && l->exit_code < 0 && is(f.status.state, "hung")) {
    l->state = f.status.state;
    l->reason = f.status.reason;
    l->exit_code = (int)f.status.exit_code;
  }
}

/* Of this life, or who else's the status file is. */
static void read_status(const char *directory, tt_slurm_start *l)
{
  static tt_status_file f;
  l->state = l->stopped_by = l->other_incarnation = l->reason = "";
  l->exit_code = -1;
  if (tt_status_file_read_local(directory, &f)) return;
  if (!tt_slurm_is_this_start_local(f.status.incarnation)) {
    l->other_incarnation = f.status.incarnation;
    return;
  }
  l->state = f.status.state;
  l->stopped_by = f.status.stop;
  l->reason = f.status.reason;
  l->generation = f.status.generation;
  l->resumed = f.status.resumed;
  l->exit_code = (int)f.status.exit_code;
  if (l->is_campaign) read_round_status(directory, l);
}

/* "37", of a campaign "12.4"; for people "at checkpoint 37", "in round 3, score". */
static void describe_position(const tt_slurm_start *l, char key[64], char text[128])
{
  int64_t round = l->generation / TT_STAGE_COUNT + 1, stage = l->generation % TT_STAGE_COUNT;
  if (!l->is_campaign) {
    snprintf(key, 64, "%" PRId64, l->generation);
    snprintf(text, 128, "at checkpoint %" PRId64, l->generation);
    return;
  }
  snprintf(key, 64, "%" PRId64 ".%" PRId64, l->generation, l->stage_progress);
  int n = snprintf(text, 128, "in round %" PRId64 ", %s", round, tt_stage_name[stage]);
  if (stage == TT_STAGE_train)
    snprintf(text + n, 128 - (size_t)n, ", at checkpoint %" PRId64, l->stage_progress);
  else if (stage == TT_STAGE_label)
    snprintf(text + n, 128 - (size_t)n, ", %" PRId64 " groups answered", l->stage_progress);
}

/* ---- starts.tsv: time, job, restart, checkpoint, state, stop, decision --------------------------
 */

static FILE *open_starts(const char *directory, const char *mode)
{
  char path[PATH_MAX];
  int n = snprintf(path, sizeof path, "%s/starts.tsv", directory);
  return n < (int)sizeof path ? fopen(path, mode) : NULL;
}

/* Earlier lives of this job. Another job's are no sign of being stuck: somebody has looked. */
static void count_stuck(const char *directory, const char *job, const char *place,
                        tt_slurm_start *l)
{
  char line[1024], of[64], at[64];
  FILE *f = open_starts(directory, "r");
  l->stuck = 1;
  while (f && fgets(line, sizeof line, f)) {
    int n = sscanf(line, "%*[^\t]\t%63[^\t]\t%*[^\t]\t%63[^\t]", of, at);
    if (n == 2 && is(of, job)) l->stuck = is(at, place) ? l->stuck + 1 : 1;
  }
  if (f) fclose(f);
}

/* Best effort: without this file a job might be queued too often, but only up to its cap. */
static void append_start(const char *directory, const char *job, const char *place,
                         const tt_slurm_start *l, const char *why)
{
  char when[32];
  FILE *f = open_starts(directory, "a");
  if (f && ftell(f) == 0)
    fputs("#time\tjob\trestart\tcheckpoint\tstate\tstopped_by\tdecision\n", f);
  if (f)
    fprintf(f, "%s\t%s\t%" PRId64 "\t%s\t%s\t%s\t%s\n", tt_utc_text(when), job, l->restarts, place,
            *l->state ? l->state : "none", l->stopped_by, why);
  if (!f || fclose(f)) tt_log_root(TT_LOG_WARN, "%s/starts.tsv: %s", directory, strerror(errno));
}

static tt_err decide(const char *directory, const char *job, tt_slurm_start *l, int *code)
{
  char why[256], place[64], where[128];
  read_status(directory, l);
  *code = l->exit_code >= 0 ? l->exit_code : l->launcher_code;
  describe_position(l, place, where);
  count_stuck(directory, job, place, l);
  int again = tt_requeue_is_allowed(l, why, sizeof why);
  append_start(directory, job, place, l, why);
  printf("tutti: job %s, restart %" PRId64 ": %s %s%s%s%s: %s\n", job, l->restarts,
         *l->state ? l->state : "ended", where, *l->reason ? " (" : "", l->reason,
         *l->reason ? ")" : "", why);
  fflush(stdout);
  if (!again && *code == 0 && !is(l->state, "done")) *code = tt_err_exit_code(TT_E_INTERNAL);
  return again ? tt_slurm_requeue_local(job) : TT_OK;
}

tt_err tt_requeue_decide_local(const tt_job_options *o, int64_t max_restarts, int launcher_code,
                               int *code)
{
  char job[64], *text = NULL;
  int64_t bytes = 0;
  tt_config *cfg = NULL;
  if (!tt_slurm_job_id_local(job, sizeof job))
    return TT_FAIL(USAGE, "this is not a job of Slurm (SLURM_JOB_ID is not set): it belongs into a "
                          "batch script, after srun");
  tt_err e = tt_config_read_file(o->file, &text, &bytes);
  if (!e) e = tt_config_parse(o->file, text, bytes, o->set, o->nset, &cfg);
  tt_slurm_start life = {.restarts = tt_slurm_restarts_local(),
                         .max_restarts = max_restarts,
                         .launcher_code = launcher_code};
  if (!e) {
    life.is_campaign = cfg->campaign;
    e = decide(cfg->campaign ? cfg->campaign_directory : cfg->run_directory, job, &life, code);
  }
  tt_config_destroy(&cfg);
  tt_free(text);
  return e;
}
