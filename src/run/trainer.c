/* trainer.c — see trainer.h. The heart is train_chunks. */
#include "run/trainer.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "run/finish.h"
#include "run/machine.h"
#include "run/progress.h"
#include "run/status.h"
#include "run/stop.h"
#include "run/watchdog.h"

#include <inttypes.h>
#include <stdio.h>

/* Chunks of about this long at most: signals are heard between them. */
static const double chunk_seconds = 0.5;
enum { MOST_FAILED_WRITES = 3 };

typedef struct tt_run {
  tt_comm *c;
  const tt_train_options *o;
  tt_job *job;
  tt_engine *engine;
  tt_engine_info info;
  tt_slice slice; /* this rank's members */
  tt_state *mine; /* their state on its way to and from files */
  tt_run_id id;
  int64_t generation;
  int failed_writes;
  int claimed; /* the run directory is ours */
  double started, deadline, saved;
  tt_meter meter;
  tt_progress at; /* of all ranks */
} tt_run;

static const char *directory(const tt_run *r) { return r->job->cfg->run_directory; }

/* Best effort: a status that cannot be written must not end a run. */
static void tell(const tt_run *r, const char *state, const char *reason, int exit_code)
{
  if (!r->claimed || !tt_comm_is_root(r->c)) return;
  tt_run_status s = {.state = state,
                     .reason = reason,
                     .exit_code = exit_code,
                     .generation = r->generation,
                     .members = r->job->cohort->members,
                     .training = r->at.training,
                     .finished = r->at.finished,
                     .early_stopped = r->at.early_stopped,
                     .diverged = r->at.diverged,
                     .epoch = r->at.epoch_min,
                     .seconds = tt_clock_local() - r->started};
  if (tt_status_write_local(directory(r), &s)) tt_log_once(TT_LOG_WARN, "%s", tt_err_last());
}

static tt_err create_engine_local(tt_run *r)
{
  const tt_cohort *cohort = r->job->cohort;
  const tt_engine_ops *ops = r->job->ops;
  TT_TRY(tt_plan_slice(cohort->members, tt_comm_ranks(r->c), tt_comm_rank(r->c), &r->slice));
  TT_TRY(ops->create(cohort, r->slice, &r->job->use, &r->engine));
  TT_TRY(ops->set_data(r->engine, r->job->data, NULL));
  TT_TRY(ops->init(r->engine));
  TT_TRY(ops->info(r->engine, &r->info));
  return tt_state_create(r->slice, tt_cohort_state_shape(cohort), &r->mine);
}

/* Where the last life of this run stopped, or the beginning. */
static tt_err resume(tt_run *r)
{
  const tt_engine_ops *ops = r->job->ops;
  int64_t members = r->job->cohort->members;
  tt_err e = TT_OK;
  if (r->o->resume == TT_RESUME_never) {
    e = tt_ckpt_remove_all(r->c, directory(r)); /* the mark that the directory is ours goes too */
    return e ? e : tt_ckpt_claim(r->c, directory(r), &r->id);
  }
  e = tt_ckpt_read(r->c, directory(r), &r->id, members, r->o->any_device, r->mine, &r->generation);
  if (e) return e;
  if (r->generation == 0 && r->o->resume == TT_RESUME_must)
    return tt_agree(
        r->c, TT_FAIL(NOINPUT, "%s: no checkpoint to resume; use --resume auto", directory(r)));
  if (r->generation > 0) e = tt_agree(r->c, ops->load(r->engine, r->slice, r->mine));
  if (!e && r->generation > 0)
    tt_log_once(TT_LOG_INFO, "resumed generation %" PRId64 " of %s", r->generation, directory(r));
  return e;
}

/* Make this moment a generation. A write that fails keeps the run alive: the next one may succeed.
 */
static tt_err save(tt_run *r, int must)
{
  const tt_config *cfg = r->job->cfg;
  tt_watchdog_alive_local("writing a checkpoint");
  tt_err e = tt_agree(r->c, r->job->ops->save(r->engine, r->slice, r->mine));
  if (!e)
    e = tt_ckpt_write(r->c, directory(r), &r->id, r->generation + 1, r->job->cohort->members,
                      cfg->checkpoint_keep, r->mine);
  r->saved = tt_clock_local();
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

/* Steps that will take about `aim` seconds on this rank, from how long the last ones took. */
static int64_t next_steps(int64_t steps, double seconds, double aim)
{
  double want = (double)steps * aim / (seconds > 1e-6 ? seconds : 1e-6);
  double most = 8.0 * (double)steps;
  if (want > most) want = most;
  return want < 1.0 ? 1 : (int64_t)want;
}

static tt_err train_chunks(tt_run *r, tt_stop *why)
{
  const tt_engine_ops *ops = r->job->ops;
  double every = r->job->cfg->checkpoint_every;
  double aim = every < chunk_seconds ? every : chunk_seconds;
  tt_err e = TT_OK;
  int64_t steps = 1;
  do {
    tt_progress mine;
    tt_watchdog_alive_local("training");
    double before = tt_clock_local();
    e = tt_agree(r->c, ops->train(r->engine, steps, &mine));
    steps = next_steps(steps, tt_clock_local() - before, aim);
    if (!e) e = tt_progress_merge(r->c, &mine, &r->at);
    if (e) break;
    tt_meter_show_local(&r->meter, r->c, &r->at, 0);
    *why = tt_stop_agreed(r->c, r->deadline, directory(r));
    if (r->at.training == 0) *why = TT_STOP_no;
    if (*why || r->at.training == 0 || due(r)) e = save(r, *why != TT_STOP_no);
  } while (!e && !*why && r->at.training > 0);
  return e;
}

static tt_err check_diverged(const tt_run *r)
{
  int64_t members = r->job->cohort->members;
  double most = r->job->cfg->train_max_failed;
  if ((double)r->at.diverged <= most * (double)members) return TT_OK;
  return TT_FAIL(DIVERGED,
                 "%" PRId64 " of %" PRId64 " members diverged, more than train.max_failed = %g "
                 "allows; try a smaller learning_rate or clip_norm",
                 r->at.diverged, members, most);
}

/* Model, scores and results of a run whose members are all done. */
static tt_err finish(tt_run *r)
{
  tt_watchdog_alive_local("writing results");
  tt_err e = tt_agree(r->c, r->job->ops->save(r->engine, r->slice, r->mine));
  tt_provenance from = tt_job_provenance(r->job, &r->o->job, &r->info, tt_comm_ranks(r->c),
                                         tt_clock_local() - r->started);
  if (!e) e = tt_finish(r->c, r->job, r->slice, r->mine, &from);
  return e ? e : check_diverged(r);
}

static void announce(const tt_run *r)
{
  const tt_cohort *c = r->job->cohort;
  tt_log_once(TT_LOG_INFO,
              "%" PRId64 " members in %" PRId64 " ensembles, %" PRId64
              " parameters each, %d rank%s, %s",
              c->members, c->ensembles, c->model.params, tt_comm_ranks(r->c),
              tt_comm_ranks(r->c) > 1 ? "s" : "", r->info.device);
}

/* Everything between the job and the first step. */
static tt_err prepare(tt_run *r)
{
  const tt_config *cfg = r->job->cfg;
  double limit = r->o->max_time > 0.0 ? r->o->max_time : cfg->run_max_time;
  tt_err e = tt_agree(r->c, tt_watchdog_start_local(NULL, tt_comm_rank(r->c), cfg->run_watchdog));
  tt_watchdog_alive_local("reading data");
  if (!e) e = tt_job_load(r->c, r->job);
  if (!e) e = tt_agree(r->c, create_engine_local(r));
  if (!e) e = tt_machine_same_bits(r->c, r->info.arithmetic, r->o->any_device);
  if (e) return e;
  r->deadline = limit > 0.0 ? r->started + limit : 0.0;
  r->id.science = tt_config_science_hash(cfg);
  r->id.data = r->job->data->hash;
  snprintf(r->id.arithmetic, sizeof r->id.arithmetic, "%s", r->info.arithmetic);
  e = tt_ckpt_claim(r->c, directory(r), &r->id);
  r->claimed = !e;
  if (!e)
    e = tt_agree(r->c,
                 tt_watchdog_start_local(directory(r), tt_comm_rank(r->c), cfg->run_watchdog));
  if (!e) e = resume(r);
  return e;
}

static tt_err train(tt_run *r)
{
  tt_stop why = TT_STOP_no;
  tt_progress none = {0};
  tt_err e = prepare(r);
  if (e) return e;
  announce(r);
  tell(r, "training", "", -1);
  /* a call of no steps: where the members stand, without moving them */
  e = tt_agree(r->c, r->job->ops->train(r->engine, 0, &none));
  if (!e) e = tt_progress_merge(r->c, &none, &r->at);
  if (e) return e;
  tt_meter_start(&r->meter, r->job->cohort->members, r->job->cohort->max_epochs, r->at.epoch_min);
  r->saved = tt_clock_local();
  if (r->at.training > 0) e = train_chunks(r, &why);
  if (e) return e;
  tt_meter_show_local(&r->meter, r->c, &r->at, 1);
  if (!why) return finish(r);
  return TT_FAIL(STOPPED,
                 "stopped by %s at checkpoint %" PRId64 " after %.0f s: run again to go on",
                 tt_stop_text(why), r->generation, tt_clock_local() - r->started);
}

static void say_end(const tt_run *r, tt_err e)
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
  if (r.engine) r.job->ops->destroy(&r.engine);
  tt_state_destroy(&r.mine);
  tt_job_close(&r.job);
  return e;
}
