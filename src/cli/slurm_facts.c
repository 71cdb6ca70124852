/* slurm_facts.c — see slurm_facts.h. */
#include "src/cli/slurm_facts.h"

#include "core/stats/history.h"
#include "slurm/jobs.h"
#include "slurm/query.h"
#include "src/campaign/state/file_names.h"
#include "src/host/status_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *text, const char *word) { return !strcmp(text, word); }

/* Progress within the present stage of a campaign: the last checkpoint of training, or the number
 * of labeled groups. A training that hangs writes its state only into the directory of its round.
 */
static void read_round_status(const char *directory, tt_slurm_start *s)
{
  static tt_status_file f;
  char path[TT_PATH_MAX];
  tt_label_progress labels = {0};
  int64_t round = s->generation / TT_STAGE_COUNT + 1, stage = s->generation % TT_STAGE_COUNT;
  if (stage == TT_STAGE_label) {
    if (!tt_label_progress_read_local(directory, round, &labels))
      s->stage_progress = labels.labeled;
    tt_round_path(directory, round, "label", path);
    tt_slurm_job_numbers_local(path, s->jobs, sizeof s->jobs);
    s->waits_for_jobs = *s->jobs && is(s->stopped_by, "oracle");
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

/* Read the status of this start, or the incarnation of another start that wrote the file. */
static tt_err read_status(const char *directory, int is_campaign, tt_slurm_start *s)
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
  if (is_campaign) read_round_status(directory, s);
  return TT_OK;
}

/* Key "37", of a campaign "12.4"; place "at checkpoint 37", "in round 3, score". */
static void describe_position(int is_campaign, tt_slurm_start *s)
{
  int64_t round = s->generation / TT_STAGE_COUNT + 1, stage = s->generation % TT_STAGE_COUNT;
  if (!is_campaign) {
    snprintf(s->key, sizeof s->key, "%" PRId64, s->generation);
    snprintf(s->place, sizeof s->place, "at checkpoint %" PRId64, s->generation);
    return;
  }
  snprintf(s->key, sizeof s->key, "%" PRId64 ".%" PRId64, s->generation, s->stage_progress);
  int n =
      snprintf(s->place, sizeof s->place, "in round %" PRId64 ", %s", round, tt_stage_name[stage]);
  if (stage == TT_STAGE_train)
    snprintf(s->place + n, sizeof s->place - (size_t)n, ", at checkpoint %" PRId64,
             s->stage_progress);
  else if (stage == TT_STAGE_label)
    snprintf(s->place + n, sizeof s->place - (size_t)n, ", %" PRId64 " group%s done",
             s->stage_progress, s->stage_progress == 1 ? "" : "s");
}

tt_err tt_slurm_start_read_local(const tt_job_options *o, tt_slurm_start *start,
                                 char directory[TT_PATH_MAX])
{
  tt_config *cfg = NULL;
  TT_TRY(tt_config_load(o->file, o->set, o->nset, &cfg));
  const char *place = cfg->campaign ? cfg->campaign_directory : cfg->run_directory;
  tt_err e = snprintf(directory, TT_PATH_MAX, "%s", place) < TT_PATH_MAX
                 ? TT_OK
                 : TT_FAIL(CONFIG, "%.100s...: the path is too long", place);
  if (!e) e = read_status(directory, cfg->campaign, start);
  if (!e) describe_position(cfg->campaign, start);
  tt_config_destroy(&cfg);
  return e;
}
