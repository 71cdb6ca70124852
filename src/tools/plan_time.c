/* plan_time.c — see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/load_balance.h"
#include "src/host/memory_limits.h"
#include "src/host/resources.h"

#include <math.h>

/* Work of a rank in seconds of one thread. */
typedef struct rank_work {
  double epoch, training;
  double longest_epoch, longest_training; /* of one member: a thread each, at least */
} rank_work;

/* Rows on which a member trains and validates, with labels for all of them. */
static void rows_of(const tt_job_plan *p, const tt_cohort *c, int64_t *train, int64_t *validation)
{
  *train = p->rows.part[TT_TRAIN];
  *validation = p->rows.part[TT_VALIDATION];
  if (c->resample == TT_RESAMPLE_kfold) {
    *validation = *train / c->folds;
    *train -= *validation;
  }
  *train = tt_cohort_epoch_rows(c, *train);
}

static double epoch_of_member(const tt_step_seconds *s, const tt_job_plan *p, const tt_cohort *c,
                              const tt_hyper *h)
{
  int64_t train, validation, b = c->batch_size;
  rows_of(p, c, &train, &validation);
  double seconds = (double)(train / b) * tt_step_estimate(s, c, h, b);
  if (train % b) seconds += tt_step_estimate(s, c, h, train % b);
  seconds += (double)(validation / b) * tt_step_estimate_forward(s, c, b);
  return seconds + tt_step_estimate_forward(s, c, validation % b);
}

static void add_slice(const tt_step_seconds *s, const tt_job_plan *p, const tt_cohort *c,
                      tt_slice slice, rank_work *w)
{
  for (int64_t i = slice.first; i < slice.first + slice.count; i++) {
    const tt_hyper *h = &c->member[i].hyper;
    double epoch = epoch_of_member(s, p, c, h), all = epoch * (double)h->epochs;
    w->epoch += epoch;
    w->training += all;
    w->longest_epoch = fmax(w->longest_epoch, epoch);
    w->longest_training = fmax(w->longest_training, all);
  }
}

static tt_err add_ranks(const tt_job_plan *p, int ranks, tt_plan_time *t)
{
  tt_slice *slice = NULL;
  TT_TRY(TT_ALLOC(slice, p->all.count));
  tt_err e = TT_OK;
  for (int r = 0; !e && r < ranks; r++) {
    rank_work w = {0};
    e = tt_load_balance(&p->all, tt_plan_training_rows(p), ranks, r, slice);
    for (int64_t i = 0; !e && i < p->all.count; i++)
      add_slice(&t->machine.seconds, p, p->all.at[i], slice[i], &w);
    t->epoch = fmax(t->epoch, fmax(w.epoch / t->threads, w.longest_epoch));
    t->training = fmax(t->training, fmax(w.training / t->threads, w.longest_training));
  }
  tt_free(slice);
  return e;
}

tt_err tt_plan_time_estimate(const tt_job_plan *p, int ranks, tt_plan_time *out)
{
  char path[TT_ERR_MESSAGE_SIZE];
  tt_plan_time t = {.error = (double)NAN, .checkpoint = (double)NAN};
  t.threads = p->cfg->run_threads > 0 ? (int)p->cfg->run_threads : tt_resources_cores_local();
  for (int64_t i = 0; i < p->all.count; i++)
    t.checkpoint_bytes += (double)p->all.at[i]->members *
                          (double)tt_state_member_bytes(tt_cohort_state_shape(p->all.at[i]));
  tt_err e = tt_machine_path(path, sizeof path);
  if (!e) e = tt_machine_read(path, &t.machine);
  if (e) {
    t.epoch = t.training = (double)NAN;
    snprintf(t.why, sizeof t.why, "%s",
             e == TT_E_NOINPUT ? "`tutti doctor --calibrate` measures this machine"
                               : tt_err_last());
    *out = t;
    return TT_OK;
  }
  t.known = 1;
  t.error = t.machine.error;
  t.checkpoint = t.checkpoint_bytes / t.machine.write_rate;
  TT_TRY(add_ranks(p, ranks, &t));
  *out = t;
  return TT_OK;
}

void tt_plan_time_print(const tt_plan_time *t, FILE *out)
{
  char bytes[32];
  if (!t->known) {
    fprintf(out, "time       not known: %s\n", t->why);
    return;
  }
  fprintf(out,
          "time       %.3g s per epoch, at most %.3g s in all, +- %.0f %%\n"
          "           on %d thread%s of the CPU\n",
          t->epoch, t->training, 100.0 * t->error, t->threads, tt_plural(t->threads));
  fprintf(out, "           a checkpoint of %s takes %.2g s, while training goes on\n",
          tt_memory_text(t->checkpoint_bytes, bytes), t->checkpoint);
  fprintf(out, "           measured on %s, %.10s, with %d busy thread%s\n", t->machine.host,
          t->machine.date, t->machine.threads, tt_plural(t->machine.threads));
}

void tt_plan_time_to_json(const tt_plan_time *t, json_t **plan)
{
  tt_json_set(plan, "seconds_per_epoch", tt_json_number(t->epoch));
  tt_json_set(plan, "seconds", tt_json_number(t->training));
  tt_json_set(plan, "seconds_error", tt_json_number(t->error));
  tt_json_set(plan, "checkpoint_bytes", tt_json_number(t->checkpoint_bytes));
  tt_json_set(plan, "checkpoint_seconds", tt_json_number(t->checkpoint));
}
