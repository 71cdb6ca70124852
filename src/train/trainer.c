/* trainer.c — see trainer.h. Start reading at training_loop. */
#include "src/train/trainer.h"
#include "core/base/clock.h"

#include "core/base/directory.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/load_balance.h"
#include "io/checkpoint/checkpoint.h"
#include "io/files/memory.h"
#include "src/host/memory_limits.h"
#include "src/host/progress_display.h"
#include "src/host/status_file.h"
#include "src/host/stop_request.h"
#include "src/host/time_limit.h"
#include "src/host/watchdog.h"
#include "src/job/earlier_run.h"
#include "src/job/metrics_file.h"
#include "src/train/checkpointing.h"
#include "src/train/job_log.h"
#include "src/train/memory_plan.h"
#include "src/train/search.h"
#include "src/train/shard/average_moments.h"
#include "src/train/shard/shard.h"
#include "src/train/shard/shard_train.h"
#include "src/train/shard/training_cost.h"
#include "src/train/team_link.h"
#include "src/train/transfer.h"
#include "src/train/verify.h"
#include "src/train/write_outputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Seconds of training between two checks for a stop request, at most. */
static const double stop_check_interval = 0.5;
static const double status_interval = 10.0; /* seconds between two writes of status.json, at most */

typedef struct training_run {
  tt_comm *c;
  const tt_train_options *o;
  tt_job *job;
  tt_team *team; /* ranks that train members together with this one; NULL = none */
  tt_shards shards;
  tt_checkpointing checkpoints;
  tt_search search;
  tt_run_id id;
  int64_t resumed;  /* checkpoint this start resumed from; 0 = none */
  int claimed;      /* this start owns the run directory */
  int64_t complete; /* an earlier start has done everything */
  double started, status_time;
  tt_time_limit limit;
  tt_stop_reason stop_reason; /* TT_STOP_none while training continues */
  tt_progress_meter meter;
  tt_metrics_file metrics;
  tt_progress progress; /* of all ranks and shards */
  int64_t epochs;       /* total, of the shard that progress.epoch_min belongs to */
  int64_t members;      /* of all cohorts */
} training_run;

static const char *directory(const training_run *r) { return r->job->cfg->run_directory; }
static int in_memory(const training_run *r) { return tt_memory_is_path(directory(r)); }
static const char *stop_directory(const training_run *r)
{
  if (in_memory(r)) return NULL;
  return r->o->stop_directory ? r->o->stop_directory : directory(r);
}

static void write_status(training_run *r, const char *state, const char *reason, int exit_code)
{
  if (!r->claimed || !tt_comm_is_root(r->c)) return;
  r->status_time = tt_monotonic_seconds();
  tt_run_status s = {.state = state,
                     .reason = reason,
                     .stop = tt_stop_name(r->stop_reason),
                     .incarnation = r->id.incarnation,
                     .exit_code = exit_code,
                     .generation = r->checkpoints.generation,
                     .resumed = r->resumed,
                     .members = r->members,
                     .training = r->progress.training,
                     .finished = r->progress.finished,
                     .early_stopped = r->progress.early_stopped,
                     .diverged = r->progress.diverged,
                     .epoch = r->progress.epoch_min,
                     .epochs = r->epochs,
                     .rate = tt_progress_meter_rate(&r->meter),
                     .eta = tt_progress_meter_eta(&r->meter, &r->progress, r->epochs),
                     .seconds = tt_monotonic_seconds() - r->started};
  tt_status_file_report_local(directory(r), &s);
}

/* Divide the ranks into teams, if members are trained by several ranks. */
static tt_err create_team(training_run *r, int *teams)
{
  int ranks = tt_comm_ranks(r->c);
  const tt_config *cfg = r->job->cfg;
  *teams =
      tt_load_balance_teams(&r->job->cohorts, cfg->run_ranks_per_member, cfg->run_stages, ranks);
  int team = tt_load_balance_place(ranks, *teams, tt_comm_rank(r->c)).team;
  if (*teams == ranks) return TT_OK;
  tt_err e = tt_team_create(r->c, team, &r->team);
  int has_link = cfg->run_exchange == TT_EXCHANGE_nccl && r->job->use.device_exchange;
  if (e || !has_link) return e;
  return tt_agree(r->c,
                  tt_team_ranks(r->team) > 1
                      ? tt_team_link_open(r->team, r->job->ops->team->link, r->job->use.device)
                      : TT_OK);
}

static tt_err create_shards_local(training_run *r, int teams)
{
  int team = tt_load_balance_place(tt_comm_ranks(r->c), teams, tt_comm_rank(r->c)).team;
  int stages = (int)r->job->cfg->run_stages;
  TT_TRY(tt_shards_create_local(r->job, teams, team, r->team, stages > 1 ? stages : 0, &r->shards));
  r->checkpoints.comm = r->c;
  r->checkpoints.cfg = r->job->cfg;
  r->checkpoints.id = &r->id;
  r->checkpoints.shards = &r->shards;
  r->checkpoints.limit = &r->limit;
  return tt_checkpointing_create_local(&r->checkpoints);
}

/* Device of this rank; the name of the engine if the rank has no members. */
static const char *device(const training_run *r)
{
  for (int64_t i = 0; i < r->shards.count; i++)
    if (*r->shards.at[i].info.device) return r->shards.at[i].info.device;
  return r->job->ops->name;
}

static tt_err load_states_local(training_run *r)
{
  for (int64_t i = 0; i < r->shards.count; i++) TT_TRY(tt_shard_load_local(&r->shards.at[i]));
  return TT_OK;
}

/* Start the watchdog, or restart it with the directory: from then on it may write status.json. A
 * run in memory has none, because it would end the program of the caller. */
static tt_err start_watchdog(const training_run *r, const char *path)
{
  if (in_memory(r)) return TT_OK;
  return tt_agree(r->c, tt_watchdog_start_local(path, path ? r->id.incarnation : NULL,
                                                tt_comm_rank(r->c), r->job->cfg->run_watchdog));
}

/* The error of a directory of another run, with the options that differ.
 *   in_use  1 = of the claim, 0 = of a checkpoint */
static tt_err explain_other_run(training_run *r, tt_err e, int in_use)
{
  char differ[TT_ERR_MESSAGE_SIZE / 2];
  tt_err mine = e;
  if (e == TT_E_DATA && tt_comm_is_root(r->c)) {
    tt_earlier_run_difference_local(r->job, differ, sizeof differ);
    if (*differ && in_use)
      mine = TT_FAIL(DATA, "%s; %s", tt_err_last(), differ);
    else if (*differ)
      mine =
          TT_FAIL(DATA,
                  "%s: the checkpoint belongs to another run: %s; restart from the beginning with "
                  "--resume never (removes the checkpoints), or choose another run.directory",
                  directory(r), differ);
  }
  return tt_agree(r->c, mine);
}

static tt_err claim(training_run *r, int restart)
{
  if (in_memory(r)) return TT_OK;
  return explain_other_run(r, tt_ckpt_claim(r->c, directory(r), r->o->any_device, restart, &r->id),
                           1);
}

/* Whether this job has been run to its end: its outputs are in the directory, so nothing is left to
 * do. */
static int is_complete(training_run *r)
{
  int64_t yes = 0;
  if (r->o->prepared || r->o->resume == TT_RESUME_never || in_memory(r)) return 0;
  if (tt_comm_is_root(r->c)) yes = tt_earlier_run_is_complete_local(r->job);
  tt_bcast(r->c, &yes, sizeof yes);
  return (int)yes;
}

/* Read the last checkpoint, if there is a newer one than `newest`. */
static tt_err read_checkpoint(training_run *r, int64_t *newest)
{
  return explain_other_run(r,
                           tt_ckpt_read(r->c, directory(r), &r->id, r->o->any_device,
                                        r->shards.count, r->checkpoints.part, newest,
                                        &r->checkpoints.generation),
                           0);
}

/* Read the last checkpoint, if --resume permits, and become the owner of the run directory. All
 * that can refuse this start comes before: it would stop a start that runs there. */
static tt_err claim_directory(training_run *r)
{
  const int64_t *generation = &r->checkpoints.generation;
  int64_t newest = 0;
  int restart = r->o->resume == TT_RESUME_never;
  tt_err e = restart ? TT_OK : read_checkpoint(r, &newest);
  if (!e && *generation == 0 && r->o->resume == TT_RESUME_must)
    e = tt_agree(r->c,
                 TT_FAIL(NOINPUT, "%s: no checkpoint to resume; use --resume auto", directory(r)));
  if (e) return e;
  e = claim(r, restart);
  r->claimed = !e;
  if (!e) e = start_watchdog(r, directory(r));
  if (e) return e;
  if (restart) return tt_ckpt_remove_all(r->c, directory(r));
  if (!in_memory(r)) e = read_checkpoint(r, &newest); /* the owner before may have written one */
  if (e || *generation == 0) return e;
  r->resumed = *generation;
  e = tt_agree(r->c, load_states_local(r));
  if (!e)
    tt_log_root(TT_LOG_INFO, "resumed from checkpoint %" PRId64 " of %s", *generation,
                directory(r));
  return e;
}

static void write_metrics(training_run *r, int now)
{
  if (!tt_comm_is_root(r->c) || in_memory(r)) return;
  const tt_metrics_line line = {.start = r->id.incarnation,
                                .epochs = r->epochs,
                                .steps = r->meter.steps,
                                .seconds = tt_monotonic_seconds() - r->started,
                                .rate = tt_progress_meter_rate(&r->meter)};
  tt_metrics_file_append_local(&r->metrics, directory(r), &r->progress, &line, now);
}

/* A run that has just begun writes its status after the first steps, and then more and more seldom,
 * so that a person sees soon how long it will take. */
static int status_is_due(const training_run *r)
{
  double age = tt_monotonic_seconds() - r->status_time;
  return age > fmin(r->status_time - r->meter.started, status_interval);
}

static tt_err guarded(training_run *r, tt_err (*part)(void *))
{
  return r->o->guard ? r->o->guard(part, r) : part(r);
}

static tt_err write_checkpoint(void *run)
{
  training_run *r = run;
  return tt_checkpointing_write(&r->checkpoints, r->stop_reason != TT_STOP_none);
}

/* When no member trains, a search has a decision to make; when its time is over, all stop. */
static tt_err advance_search(training_run *r)
{
  int stopped = 0;
  if (!r->search.active) return TT_OK;
  tt_err e = tt_search_stop_in_time(r->c, r->job, &r->shards, &r->search, &stopped);
  if (!e && !stopped && r->progress.training > 0) return TT_OK;
  if (!e && !stopped) e = tt_search_advance(r->c, r->job, &r->shards, &r->search);
  if (!e) e = tt_shards_update_progress(r->c, &r->shards);
  if (!e) r->progress = tt_shards_total_progress(&r->shards, &r->epochs);
  return e;
}

static tt_err training_loop(training_run *r)
{
  double every = r->job->cfg->checkpoint_every;
  double aim = every < stop_check_interval ? every : stop_check_interval;
  tt_err e = TT_OK;
  do {
    tt_watchdog_heartbeat_local("training");
    e = tt_agree(r->c, tt_verify_local(&r->shards, r->job->cfg->run_verify));
    if (!e) e = tt_shards_train(r->c, &r->shards, aim);
    if (e) break;
    r->progress = tt_shards_total_progress(&r->shards, &r->epochs);
    tt_progress_meter_print_local(&r->meter, r->c, &r->progress, r->epochs, 0);
    e = advance_search(r);
    if (e) break;
    if (r->o->estimate) {
      int enough = 0;
      e = tt_time_estimate_update(r->o->estimate, &r->shards, &r->progress,
                                  tt_monotonic_seconds() - r->meter.started, &enough);
      if (e || enough) break;
    }
    r->stop_reason =
        tt_stop_agreed(r->c, tt_time_limit_deadline_local(&r->limit), stop_directory(r));
    if (r->progress.training == 0) r->stop_reason = TT_STOP_none;
    write_metrics(r, r->stop_reason || r->progress.training == 0);
    int64_t before = r->checkpoints.generation;
    if (r->stop_reason || r->progress.training == 0)
      e = guarded(r, write_checkpoint);
    else
      e = tt_checkpointing_update(&r->checkpoints);
    if (r->checkpoints.generation > before || (!e && status_is_due(r)))
      write_status(r, "training", "", -1);
  } while (!e && !r->stop_reason && r->progress.training > 0);
  return e;
}

static tt_err check_diverged(const training_run *r)
{
  int64_t members = r->members;
  double most = r->job->cfg->train_max_diverged;
  if (r->search.active) return TT_OK; /* bad trials are no failure */
  if ((double)r->progress.diverged <= most * (double)members) return TT_OK;
  return TT_FAIL(DIVERGED,
                 "%" PRId64 " of %" PRId64 " members diverged, more than the fraction "
                 "train.max_diverged = %g; try a smaller learning_rate or clip_norm",
                 r->progress.diverged, members, most);
}

/* The option that makes members depend on each other, as text; NULL: members are independent. */
static const char *dependence(const training_run *r)
{
  if (r->search.active) return "search: the end of a member depends on the other trials";
  return NULL;
}

/* What the ranks of all teams have sent to each other in this start. */
static void log_traffic(const training_run *r)
{
  tt_team_traffic sent = r->team ? tt_team_traffic_local(r->team) : (tt_team_traffic){0, 0};
  int64_t sums[] = {sent.messages, sent.bytes};
  tt_allreduce_sum_i64(r->c, sums, 2);
  if (sums[0] > 0)
    tt_log_root(TT_LOG_INFO,
                "ranks of teams sent %" PRId64 " bytes in %" PRId64 " messages for %" PRId64
                " member-steps",
                sums[1], sums[0], r->meter.steps);
}

/* Called when no member trains any more. */
static tt_err finish_run(void *run)
{
  training_run *r = run;
  tt_watchdog_heartbeat_local("writing results");
  tt_err e = tt_agree(r->c, tt_checkpointing_save_states(&r->checkpoints));
  tt_provenance provenance =
      tt_job_provenance(r->job, device(r), r->id.arithmetic, tt_comm_ranks(r->c),
                        tt_monotonic_seconds() - r->started);
  if (e) return e;
  tt_training_cost cost = tt_training_cost_sum(r->c, &r->shards);
  if (!r->o->quiet) log_traffic(r);
  if (!r->o->quiet)
    tt_training_cost_log_local(&cost, r->meter.steps, tt_monotonic_seconds() - r->meter.started);
  provenance.epochs_planned = cost.planned;
  provenance.epochs_trained = cost.trained;
  provenance.dependence = dependence(r);
  e = tt_average_moments(r->c, r->job, &r->shards);
  tt_shards_release_engines_local(&r->shards);
  tt_trials trials = {0};
  if (!e) e = tt_search_finish(r->c, r->job, &r->shards, &r->search, &trials);
  if (!e) e = tt_agree(r->c, tt_shards_expand_heads_local(r->job, &r->shards));
  if (!e)
    e = tt_write_outputs(r->c, r->job, &r->shards, &trials, &provenance, r->o->quiet,
                         r->o->no_scores);
  tt_trials_free(&trials);
  return e ? e : check_diverged(r);
}

static tt_err finish(training_run *r)
{
  tt_time_estimate *t = r->o->estimate;
  double before = tt_monotonic_seconds();
  tt_err e = guarded(r, finish_run);
  if (!t) return e;
  t->outputs += tt_monotonic_seconds() - before;
  t->others += tt_monotonic_seconds() - r->started;
  t->first = 0.0;
  return e;
}

/* by_transfer: train the members that those of the groups begin with. */
static tt_err train_first(training_run *r)
{
  tt_transfer t = {0};
  tt_train_options o = *r->o;
  if (!r->job->data->groups || !r->job->cfg->top_by_transfer) return TT_OK;
  o.quiet = 1;
  o.stop_directory = stop_directory(r);
  tt_err e = tt_agree(r->c, tt_transfer_open_local(r->job, &t));
  o.prepared = t.job;
  if (!e) e = tt_train(r->c, &o);
  if (!e) e = tt_transfer_apply(r->c, &t, r->job);
  tt_transfer_close(&t);
  return e ? e : start_watchdog(r, NULL);
}

static tt_err prepare(void *run)
{
  training_run *r = run;
  const tt_config *cfg = r->job->cfg;
  tt_memory_check_args memory = {.job = r->job};
  const tt_data_hook hook = {tt_memory_check_job, &memory};
  int teams = 0;
  double limit = r->o->max_time > 0.0 ? r->o->max_time : cfg->run_max_time;
  if (r->o->guard && !in_memory(r))
    return TT_FAIL(USAGE, "run.directory is %s: in memory it must be .", directory(r));
  tt_err e = start_watchdog(r, NULL);
  tt_watchdog_heartbeat_local("reading data");
  if (!e) e = tt_job_load(r->c, r->job, &hook);
  if (!e) e = train_first(r);
  if (!e) r->members = tt_cohorts_members(&r->job->cohorts);
  if (!e) e = create_team(r, &teams);
  if (!e && !r->o->quiet)
    tt_job_log_idle_ranks_local(&r->job->cohorts, cfg, tt_comm_ranks(r->c), teams);
  if (!e) e = tt_agree(r->c, create_shards_local(r, teams));
  if (!e) e = tt_shards_check_arithmetic(r->c, &r->shards, r->o->any_device, r->id.arithmetic);
  if (e) return e;
  if (limit > 0.0 || !in_memory(r))
    tt_time_limit_begin(r->c, limit, cfg->run_stop_margin, r->started, &r->limit);
  r->id.result_hash = tt_config_result_hash(cfg);
  r->id.data = r->job->data->hash;
  r->complete = is_complete(r);
  if (r->complete) return TT_OK;
  e = claim_directory(r);
  int saves = tt_comm_is_root(r->c) && !in_memory(r);
  return e ? e : tt_agree(r->c, saves ? tt_earlier_run_save_config_local(r->job) : TT_OK);
}

static tt_err train(training_run *r)
{
  tt_err e = guarded(r, prepare);
  if (e) return e;
  if (r->complete) {
    tt_log_root(
        TT_LOG_INFO,
        "%s/model.h5 and results.h5 are complete and of this job: nothing was done; --resume "
        "never trains again",
        directory(r));
    return TT_OK;
  }
  if (!r->o->quiet)
    tt_job_log_local(&r->job->cohorts, &r->job->data->input, tt_comm_ranks(r->c), device(r));
  e = tt_search_begin(r->c, r->job, &r->shards, r->started, &r->search);
  if (e) return e;
  if (dependence(r) && !r->o->quiet) tt_log_root(TT_LOG_INFO, "%s", dependence(r));
  e = tt_shards_update_progress(r->c, &r->shards);
  if (e) return e;
  r->progress = tt_shards_total_progress(&r->shards, &r->epochs);
  write_status(r, "training", "", -1);
  tt_progress_meter_start(&r->meter, &r->progress, r->epochs);
  if (r->o->estimate)
    r->o->estimate->reading += r->meter.started - r->started - r->o->estimate->others;
  r->checkpoints.time = tt_monotonic_seconds();
  if (tt_comm_is_root(r->c) && r->checkpoints.generation == 0 && !in_memory(r) &&
      tt_metrics_file_remove_local(directory(r)))
    tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
  if (r->progress.training > 0 ||
      r->search.active) { /* a signal during the set-up stops before the first step */
    r->stop_reason = tt_stop_agreed(r->c, 0.0, NULL);
    e = r->stop_reason ? TT_OK : training_loop(r);
  }
  if (e) return e;
  r->progress.member_steps = 0; /* the meter has counted these */
  if (!r->o->quiet) tt_progress_meter_print_local(&r->meter, r->c, &r->progress, r->epochs, 1);
  if (!r->stop_reason) return finish(r);
  return TT_FAIL(
      STOPPED, "stopped by %s at checkpoint %" PRId64 " after %.0f s: run again to continue",
      tt_stop_text(r->stop_reason), r->checkpoints.generation, tt_monotonic_seconds() - r->started);
}

static void write_final_status(training_run *r, tt_err e)
{
  const char *state = !e || e == TT_E_DIVERGED ? "done" : e == TT_E_STOPPED ? "stopped" : "failed";
  write_status(r, state, e ? tt_err_last() : "", tt_err_exit_code(e));
  int obeyed = !e || r->stop_reason == TT_STOP_file;
  if (!r->claimed || !tt_comm_is_root(r->c) || in_memory(r)) return;
  if (obeyed && !r->o->stop_directory) tt_stop_remove_file_local(directory(r));
  tt_ckpt_clean_up_local(directory(r));
}

tt_err tt_train(tt_comm *c, const tt_train_options *o)
{
  training_run r = {.c = c, .o = o, .job = o->prepared, .started = tt_monotonic_seconds()};
  tt_err e = o->prepared ? TT_OK : tt_job_open(c, &o->job, &r.job);
  if (!e) e = train(&r);
  tt_checkpointing_close(&r.checkpoints);
  if (r.claimed) e = tt_ckpt_explain(c, directory(&r), e);
  if (r.job) write_final_status(&r, e);
  int alone = !r.job || !in_memory(&r); /* else other threads may train too */
  if (alone) tt_watchdog_stop_local();
  if (r.claimed) tt_ckpt_release_local(c, directory(&r));
  tt_shards_destroy(&r.shards);
  tt_team_destroy(&r.team);
  if (!o->prepared) tt_job_close(&r.job);
  return e;
}
