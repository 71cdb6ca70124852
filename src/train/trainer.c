/* trainer.c — see trainer.h. The heart is train_chunks. */
#include "src/train/trainer.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/checkpoint/checkpoint.h"
#include "src/train/shard.h"
#include "src/train/shard_train.h"
#include "src/train/training_cost.h"
#include "src/train/write_outputs.h"
#include "src/host/time_limit.h"
#include "src/host/progress_display.h"
#include "src/host/status_file.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <stdio.h>

/* Chunks of about this long at most: signals are heard between them. */
static const double chunk_seconds = 0.5;
static const double status_seconds = 10.0; /* status.json is renewed so often */
enum { MOST_FAILED_WRITES = 3 };

typedef struct tt_run {
  tt_comm *c;
  const tt_train_options *o;
  tt_job *job;
  tt_crews crews;
  tt_ckpt_part *part; /* [crews] their members on the way to and from files */
  tt_warm_source *earlier; /* whose weights members begin with; NULL = nobody's */
  tt_run_id id;
  int64_t generation, resumed; /* the last checkpoint, and the one this life began with */
  int failed_writes;
  int claimed; /* the run directory is ours */
  double started, saved, told;
  tt_limit limit;
  tt_stop why; /* it stops; TT_STOP_no while it goes on */
  tt_meter meter;
  tt_progress at; /* of all ranks and crews */
  int64_t epochs; /* whole of at.epoch_min */
  int64_t members; /* that train, of all cohorts */
} tt_run;

static const char *directory(const tt_run *r) { return r->job->cfg->run_directory; }
static const char *stop_directory(const tt_run *r)
{
  return r->o->stop_directory ? r->o->stop_directory : directory(r);
}

/* Best effort: a status that cannot be written must not end a run. Whoever has lost the directory
 * keeps quiet: the file is the other's. */
static void tell(tt_run *r, const char *state, const char *reason, int exit_code)
{
  if (!r->claimed || !tt_comm_is_root(r->c)) return;
  if (tt_ckpt_owner_local(directory(r), r->id.incarnation)) return;
  r->told = tt_clock_local();
  tt_run_status s = {.state = state,
                     .reason = reason,
                     .stop = tt_stop_word(r->why),
                     .incarnation = r->id.incarnation,
                     .exit_code = exit_code,
                     .generation = r->generation,
                     .resumed = r->resumed,
                     .members = r->members,
                     .training = r->at.training,
                     .finished = r->at.finished,
                     .early_stopped = r->at.early_stopped,
                     .diverged = r->at.diverged,
                     .epoch = r->at.epoch_min,
                     .epochs = r->epochs,
                     .rate = tt_meter_rate(&r->meter),
                     .eta = tt_meter_eta(&r->meter, &r->at, r->epochs),
                     .seconds = tt_clock_local() - r->started};
  if (tt_status_write_local(directory(r), &s)) tt_log_once(TT_LOG_WARN, "%s", tt_err_last());
}

static tt_err create_crews_local(tt_run *r)
{
  TT_TRY(tt_crews_create_local(r->job, tt_comm_ranks(r->c), tt_comm_rank(r->c), &r->crews));
  TT_TRY(TT_ALLOC(r->part, r->crews.count));
  for (int64_t i = 0; i < r->crews.count; i++)
    r->part[i] = (tt_ckpt_part){r->crews.at[i].cohort->members, r->crews.at[i].mine};
  return TT_OK;
}

/* What a rank computes on; one without members only says which engine. */
static const char *device(const tt_run *r)
{
  for (int64_t i = 0; i < r->crews.count; i++)
    if (r->crews.at[i].engine) return r->crews.at[i].info.device;
  return r->job->ops->name;
}

static tt_err save_all_local(tt_run *r)
{
  for (int64_t i = 0; i < r->crews.count; i++) TT_TRY(tt_crew_save_local(&r->crews.at[i]));
  return TT_OK;
}

static tt_err load_all_local(tt_run *r)
{
  for (int64_t i = 0; i < r->crews.count; i++) TT_TRY(tt_crew_load_local(&r->crews.at[i]));
  return TT_OK;
}

/* From now on the watchdog may write the status of this start. */
static tt_err watch(const tt_run *r)
{
  return tt_agree(r->c, tt_watchdog_start_local(directory(r), r->id.incarnation,
                                                tt_comm_rank(r->c), r->job->cfg->run_watchdog));
}

/* Where the last life of this run stopped, or the beginning. */
static tt_err resume(tt_run *r)
{
  tt_err e = TT_OK;
  if (r->o->resume == TT_RESUME_never) {
    e = tt_ckpt_remove_all(r->c, directory(r)); /* the mark that the directory is ours goes too */
    if (!e) e = tt_ckpt_claim(r->c, directory(r), &r->id);
    return e ? e : watch(r);
  }
  e = tt_ckpt_read(r->c, directory(r), &r->id, r->o->any_device, r->crews.count, r->part,
                   &r->generation);
  if (e) return e;
  r->resumed = r->generation;
  if (r->generation == 0 && r->o->resume == TT_RESUME_must)
    return tt_agree(
        r->c, TT_FAIL(NOINPUT, "%s: no checkpoint to resume; use --resume auto", directory(r)));
  if (r->generation > 0) e = tt_agree(r->c, load_all_local(r));
  if (!e && r->generation > 0)
    tt_log_once(TT_LOG_INFO, "resumed generation %" PRId64 " of %s", r->generation, directory(r));
  return e;
}

/* Make this moment a generation. A write that fails keeps the run alive: the next one may succeed.
 */
static tt_err save(tt_run *r, int must)
{
  const tt_config *cfg = r->job->cfg;
  double before = tt_clock_local();
  tt_watchdog_alive_local("writing a checkpoint");
  tt_err e = tt_agree(r->c, save_all_local(r));
  if (!e)
    e = tt_ckpt_write(r->c, directory(r), &r->id, r->generation + 1, cfg->checkpoint_keep,
                      r->crews.count, r->part);
  r->saved = tt_clock_local();
  tt_limit_saved_local(&r->limit, r->saved - before);
  if (!e) {
    r->generation++;
    r->failed_writes = 0;
    tt_log_once(TT_LOG_DEBUG, "checkpoint %" PRId64, r->generation);
  } else if (!must && (e == TT_E_IO || e == TT_E_CANTCREAT) &&
             ++r->failed_writes < MOST_FAILED_WRITES) {
    tt_log_once(TT_LOG_WARN,
                "checkpoint %" PRId64 " was not written, going on with the one before: %s",
                r->generation + 1, tt_err_last());
    e = TT_OK;
  }
  tell(r, "training", "", -1);
  return e;
}

/* Is a checkpoint due? Rank 0's clock decides. */
static int due(tt_run *r)
{
  int64_t yes = tt_clock_local() - r->saved >= r->job->cfg->checkpoint_every;
  tt_bcast(r->c, &yes, sizeof yes);
  return (int)yes;
}

static tt_err train_chunks(tt_run *r)
{
  double every = r->job->cfg->checkpoint_every;
  double aim = every < chunk_seconds ? every : chunk_seconds;
  tt_err e = TT_OK;
  do {
    tt_watchdog_alive_local("training");
    e = tt_crews_train(r->c, &r->crews, aim);
    if (e) break;
    r->at = tt_crews_progress(&r->crews, &r->epochs);
    tt_meter_show_local(&r->meter, r->c, &r->at, r->epochs, 0);
    r->why = tt_stop_agreed(r->c, tt_limit_deadline_local(&r->limit), stop_directory(r));
    if (r->at.training == 0) r->why = TT_STOP_no;
    if (r->why || r->at.training == 0 || due(r)) e = save(r, r->why != TT_STOP_no);
    if (!e && tt_clock_local() - r->told > status_seconds) tell(r, "training", "", -1);
  } while (!e && !r->why && r->at.training > 0);
  return e;
}

static tt_err check_diverged(const tt_run *r)
{
  int64_t members = r->members;
  double most = r->job->cfg->train_max_failed;
  if ((double)r->at.diverged <= most * (double)members) return TT_OK;
  return TT_FAIL(DIVERGED,
                 "%" PRId64 " of %" PRId64 " members diverged, more than train.max_failed = %g "
                 "allows; try a smaller learning_rate or clip_norm",
                 r->at.diverged, members, most);
}

/* What the independence of members is given up for; NULL: they are independent. */
static const char *dependence(const tt_run *r)
{
  static const char *const says[] = {
      NULL, "train.stop: ensemble: the end and best epoch of a member depend on its ensemble",
      "train.method: fusion: a member depends on the other members of its ensemble",
      "train.method: fusion, train.stop: ensemble: a member depends on others of its ensemble"};
  int stop = 0, fusion = 0;
  for (int64_t i = 0; i < r->job->cohorts.count; i++) {
    const tt_cohort *c = r->job->cohorts.at[i];
    if (c->method == TT_METHOD_fusion)
      fusion = 2;
    else if (c->stop == TT_STOP_AT_ensemble)
      stop = 1;
  }
  return says[fusion + stop];
}

/* Model, scores and results of a run whose members are all done. */
static tt_err finish(tt_run *r)
{
  tt_watchdog_alive_local("writing results");
  tt_err e = tt_agree(r->c, save_all_local(r));
  tt_provenance from =
      tt_job_provenance(r->job, &r->o->job, device(r), r->id.arithmetic, tt_comm_ranks(r->c),
                        tt_clock_local() - r->started);
  if (e) return e;
  tt_effort effort = tt_effort_count(r->c, &r->crews);
  if (!r->o->brief)
    tt_effort_show_local(&effort, r->meter.steps, tt_clock_local() - r->meter.started);
  from.epochs_planned = effort.planned;
  from.epochs_trained = effort.trained;
  from.dependence = dependence(r);
  e = tt_agree(r->c, tt_crews_take_snapshots_local(r->job, &r->crews));
  if (!e) e = tt_finish(r->c, r->job, &r->crews, &from, r->o->brief);
  return e ? e : check_diverged(r);
}

static void announce_cohort(const tt_cohort *c, int64_t number)
{
  char widths[256] = "";
  size_t used = 0;
  for (int l = 0; l < c->model.layers && used + 1 < sizeof widths; l++)
    used += (size_t)snprintf(widths + used, sizeof widths - used, "-%" PRId64,
                             c->model.layer[l].out);
  tt_log_once(TT_LOG_INFO,
              "cohort %" PRId64 ": %" PRId64 " members in %" PRId64 " ensembles, network %" PRId64
              "%s, %" PRId64 " parameters each",
              number, c->members, c->ensembles, c->model.inputs, widths, c->model.params);
}

static void announce(const tt_run *r)
{
  const tt_cohorts *all = &r->job->cohorts;
  int ranks = tt_comm_ranks(r->c);
  const char *s = ranks > 1 ? "s" : "";
  if (all->count == 1) {
    const tt_cohort *c = all->at[0];
    tt_log_once(TT_LOG_INFO,
                "%" PRId64 " members in %" PRId64 " ensembles, %" PRId64
                " parameters each, %d rank%s, %s",
                c->members, c->ensembles, c->model.params, ranks, s, device(r));
    return;
  }
  tt_log_once(TT_LOG_INFO, "%" PRId64 " members in %" PRId64 " cohorts, %d rank%s, %s",
              tt_cohorts_members(all), all->count, ranks, s, device(r));
  for (int64_t i = 0; i < all->count; i++) announce_cohort(all->at[i], i);
}

/* Everything between the job and the first step. */
static tt_err prepare(tt_run *r)
{
  const tt_config *cfg = r->job->cfg;
  double limit = r->o->max_time > 0.0 ? r->o->max_time : cfg->run_max_time;
  tt_err e =
      tt_agree(r->c, tt_watchdog_start_local(NULL, NULL, tt_comm_rank(r->c), cfg->run_watchdog));
  tt_watchdog_alive_local("reading data");
  r->job->ops = r->o->ops;
  r->job->use = r->o->use;
  if (!e) e = tt_job_load(r->c, r->job);
  if (!e) e = tt_warm_open(r->c, &r->o->warm, &r->earlier);
  if (!e) e = tt_agree(r->c, tt_warm_match_local(r->earlier, r->job));
  if (!e) r->members = tt_cohorts_members(&r->job->cohorts);
  if (!e) e = tt_agree(r->c, create_crews_local(r));
  if (!e) e = tt_crews_same_bits(r->c, &r->crews, r->o->any_device, r->id.arithmetic);
  if (e) return e;
  tt_limit_begin(r->c, limit, cfg->run_reserve, r->started, &r->limit);
  r->id.science = tt_config_science_hash(cfg) ^ tt_warm_source_hash(r->earlier);
  r->id.data = r->job->data->hash;
  e = tt_ckpt_claim(r->c, directory(r), &r->id);
  r->claimed = !e;
  if (!e) e = watch(r);
  if (!e) e = resume(r);
  if (!e && r->generation == 0) e = tt_warm_begin(r->c, r->earlier, &r->crews);
  tt_warm_close(&r->earlier);
  return e;
}

static tt_err train(tt_run *r)
{
  tt_err e = prepare(r);
  if (e) return e;
  if (!r->o->brief) announce(r);
  if (dependence(r) && !r->o->brief) tt_log_once(TT_LOG_INFO, "%s", dependence(r));
  tell(r, "training", "", -1);
  /* a call of no steps: where the members stand, without moving them */
  e = tt_crews_stand(r->c, &r->crews);
  if (e) return e;
  r->at = tt_crews_progress(&r->crews, &r->epochs);
  tt_meter_start(&r->meter, r->epochs, r->at.epoch_min);
  r->saved = tt_clock_local();
  if (r->at.training > 0) e = train_chunks(r);
  if (e) return e;
  if (!r->o->brief) tt_meter_show_local(&r->meter, r->c, &r->at, r->epochs, 1);
  if (!r->why) return finish(r);
  return TT_FAIL(STOPPED,
                 "stopped by %s at checkpoint %" PRId64 " after %.0f s: run again to go on",
                 tt_stop_text(r->why), r->generation, tt_clock_local() - r->started);
}

static void say_end(tt_run *r, tt_err e)
{
  const char *state = !e || e == TT_E_DIVERGED ? "done" : e == TT_E_STOPPED ? "stopped" : "failed";
  tell(r, state, e ? tt_err_last() : "", tt_err_exit_code(e));
}

tt_err tt_train(tt_comm *c, const tt_train_options *o)
{
  tt_run r = {.c = c, .o = o, .started = tt_clock_local()};
  tt_stop_listen_local();
  tt_err e = tt_job_open(c, &o->job, &r.job);
  if (!e) e = train(&r);
  if (r.job) say_end(&r, e);
  tt_watchdog_stop_local();
  tt_crews_destroy(&r.crews);
  tt_free(r.part);
  tt_warm_close(&r.earlier);
  tt_job_close(&r.job);
  return e;
}
