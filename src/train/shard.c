/* shard.c — see shard.h. */
#include "src/train/shard.h"

#include "core/base/mem.h"
#include "src/host/resources.h"
#include "core/model/load_balance.h"
#include "core/model/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tt_err create_one(const tt_job *job, const tt_cohort *cohort, tt_slice slice, tt_crew *w)
{
  *w = (tt_crew){.cohort = cohort,
                 .ops = job->ops,
                 .use = &job->use,
                 .data = job->data,
                 .slice = slice,
                 .steps = 1};
  TT_TRY(tt_state_create(slice, tt_cohort_state_shape(cohort), &w->mine));
  if (slice.count == 0) return TT_OK;
  TT_TRY(w->ops->create(cohort, slice, &job->use, &w->engine));
  TT_TRY(w->ops->set_data(w->engine, job->data, NULL));
  TT_TRY(w->ops->init(w->engine));
  return w->ops->info(w->engine, &w->info);
}

static int64_t training_rows(const tt_dataset *d)
{
  int64_t rows = 0;
  for (int64_t i = 0; i < d->rows; i++) rows += d->split[i] == TT_TRAIN;
  return rows;
}

static tt_err create_all(const tt_job *job, const tt_slice *slice, tt_crews *all)
{
  for (int64_t i = 0; i < all->count; i++)
    TT_TRY(create_one(job, job->cohorts.at[i], slice[i], &all->at[i]));
  return TT_OK;
}

tt_err tt_crews_create_local(const tt_job *job, int ranks, int rank, tt_crews *out)
{
  tt_crews all = {.count = job->cohorts.count};
  tt_slice *slice = NULL;
  tt_err e = TT_ALLOC(slice, all.count);
  if (!e) e = TT_ALLOC(all.at, all.count);
  if (!e) e = tt_deal(&job->cohorts, training_rows(job->data), ranks, rank, slice);
  if (!e) e = create_all(job, slice, &all);
  tt_free(slice);
  if (e)
    tt_crews_destroy(&all);
  else
    *out = all;
  return e;
}

void tt_crews_destroy(tt_crews *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++) {
    tt_crew *w = &all->at[i];
    if (w->engine) w->ops->destroy(&w->engine);
    tt_state_destroy(&w->mine);
  }
  tt_free(all->at);
  *all = (tt_crews){0, NULL};
}

tt_err tt_crew_save_local(tt_crew *w)
{
  return w->engine ? w->ops->save(w->engine, w->slice, w->mine) : TT_OK;
}

tt_err tt_crew_load_local(tt_crew *w)
{
  return w->engine ? w->ops->load(w->engine, w->slice, w->mine) : TT_OK;
}

tt_err tt_crew_train_local(tt_crew *w, int64_t steps)
{
  if (w->engine) return w->ops->train(w->engine, steps, &w->here);
  w->here = (tt_progress){.epoch_min = w->cohort->max_epochs,
                          .loss = {(double)NAN, (double)NAN, (double)NAN}};
  return TT_OK;
}

static tt_err take_snapshots(tt_cohort **of, tt_crew *w)
{
  tt_cohort *wide = NULL;
  tt_state *members = NULL;
  TT_TRY(tt_snapshot_expand(*of, w->mine, &wide, &members));
  if (w->engine) w->ops->destroy(&w->engine);
  tt_state_destroy(&w->mine);
  tt_cohort_destroy(of);
  *of = wide;
  w->cohort = wide;
  w->mine = members;
  w->slice = (tt_slice){members->first, members->count};
  return TT_OK;
}

tt_err tt_crews_take_snapshots_local(tt_job *job, tt_crews *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i].cohort->method == TT_METHOD_snapshot)
      TT_TRY(take_snapshots(&job->cohorts.at[i], &all->at[i]));
  return TT_OK;
}

static double part_done(const tt_crew *w)
{
  return w->cohort->max_epochs ? (double)w->at.epoch_min / (double)w->cohort->max_epochs : 1.0;
}

tt_progress tt_crews_progress(const tt_crews *all, int64_t *max_epochs)
{
  const tt_crew *last = &all->at[0];
  tt_progress sum = {0};
  for (int64_t i = 0; i < all->count; i++) {
    const tt_crew *w = &all->at[i];
    sum.training += w->at.training;
    sum.finished += w->at.finished;
    sum.early_stopped += w->at.early_stopped;
    sum.diverged += w->at.diverged;
    sum.member_steps += w->at.member_steps;
    sum.restarted += w->at.restarted;
    if (part_done(w) < part_done(last)) last = w;
  }
  sum.epoch_min = last->at.epoch_min;
  memcpy(sum.loss, last->at.loss, sizeof sum.loss);
  *max_epochs = last->cohort->max_epochs;
  return sum;
}

static void add_text(char text[TT_ARITHMETICS], const char *more)
{
  size_t used = strlen(text);
  if (strstr(text, more)) return;
  snprintf(text + used, TT_ARITHMETICS - used, "%s%s", used ? "; " : "", more);
}

tt_err tt_crews_same_bits(tt_comm *c, const tt_crews *all, int anyhow, char text[TT_ARITHMETICS])
{
  tt_err e = TT_OK;
  text[0] = '\0';
  for (int64_t i = 0; !e && i < all->count; i++) {
    const tt_crew *w = &all->at[i];
    char first[TT_ARITHMETIC_ROOM] = "";
    e = tt_machine_same_bits(c, w->info.arithmetic, anyhow, first);
    if (!e) add_text(text, first);
  }
  return e;
}
