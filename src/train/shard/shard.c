/* shard.c — see shard.h. */
#include "src/train/shard/shard.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/engine/progress.h"
#include "core/model/epoch_end.h"
#include "core/model/heads.h"
#include "core/model/load_balance.h"
#include "src/host/resources.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*   own  NULL, or the segment of the state */
static tt_err create_engine(tt_shard *shard, tt_slice slice, const tt_slice *own, tt_engine **out)
{
  tt_resources use = *shard->use;
  TT_TRY(tt_set_up_check(use.stop));
  use.own = own;
  use.device_exchange = shard->team.on_device;
  TT_TRY(shard->ops->create(shard->cohort, slice, &use, out));
  TT_TRY(shard->ops->set_data(*out, shard->data, NULL));
  TT_TRY(shard->ops->info(*out, &shard->info));
  return shard->ops->init(*out);
}

/* What the ranks of a team need of their engine. */
static tt_err check_team(const tt_shard *shard)
{
  if (!shard->ops->team)
    return TT_FAIL(UNAVAILABLE,
                   "the %s engine cannot train a member on several ranks; use run.device: cpu, or "
                   "run.ranks_per_member: 1",
                   shard->ops->name);
  return TT_OK;
}

/* The members of a team, on the rank whose shard has them, and on the others. Their state there has
 * one member at a time. */
static tt_err join_team(tt_shard *shard, tt_team *team, int stages, tt_slice slice)
{
  const tt_cohort *c = shard->cohort;
  const tt_pipeline_grid grid = tt_pipeline_grid_of(&c->model, stages, tt_team_ranks(team));
  const tt_slice own = tt_pipeline_place_of(&c->model, grid, c->parts, tt_team_rank(team)).segment;
  TT_TRY(check_team(shard));
  shard->team =
      (tt_shard_team){.ranks = team,
                      .stages = stages,
                      .slice = slice,
                      .on_device = shard->use->device_exchange && shard->ops->team->device_scratch};
  if (slice.count == 0) return TT_OK;
  if (shard->slice.count > 0) {
    TT_TRY(create_engine(shard, slice, &own, &shard->engine));
    shard->team.engine = shard->engine;
    shard->team.state = shard->state;
    return TT_OK;
  }
  TT_TRY(tt_state_create_segment((tt_slice){slice.first, 1}, tt_cohort_state_shape(c), own,
                                 &shard->team.state));
  return create_engine(shard, slice, &own, &shard->team.engine);
}

/* After leave_team the engine and the state of the shard remain. */
static void leave_team(tt_shard *shard)
{
  tt_shard_team *t = &shard->team;
  if (t->engine && t->engine != shard->engine) shard->ops->destroy(&t->engine);
  if (t->state != shard->state) tt_state_destroy(&t->state);
  tt_free(t->buffers);
  *t = (tt_shard_team){0};
}

static tt_err create_shard(const tt_job *job, const tt_cohort *cohort, tt_slice slice,
                           tt_team *team, int stages, tt_shard *shard)
{
  tt_slice own = slice;
  if (team && tt_team_rank(team) > 0) own.count = 0;
  *shard = (tt_shard){.cohort = cohort,
                      .ops = job->ops,
                      .use = &job->use,
                      .data = &job->training,
                      .slice = own,
                      .steps = 1};
  TT_TRY(tt_set_up_check(job->use.stop));
  TT_TRY(tt_state_create(own, tt_cohort_state_shape(cohort), &shard->state));
  if (team && cohort->parts > 1) return join_team(shard, team, stages, slice);
  return own.count > 0 ? create_engine(shard, own, NULL, &shard->engine) : TT_OK;
}

int64_t tt_shard_training_rows(const tt_dataset *d)
{
  int64_t rows = 0;
  for (int64_t i = 0; i < d->rows; i++) rows += d->split[i] == TT_TRAIN;
  return rows;
}

static tt_err create_all(const tt_job *job, const tt_slice *slice, tt_team *team, int stages,
                         tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++)
    TT_TRY(create_shard(job, job->cohorts.at[i], slice[i], team, stages, &all->at[i]));
  return TT_OK;
}

tt_err tt_shards_create_local(const tt_job *job, int ranks, int rank, tt_team *team, int stages,
                              tt_shards *out)
{
  tt_shards all = {.count = job->cohorts.count};
  tt_slice *slice = NULL;
  tt_err e = TT_ALLOC(slice, all.count);
  if (!e) e = TT_ALLOC(all.at, all.count);
  if (!e) e = tt_load_balance(&job->cohorts, tt_shard_training_rows(job->data), ranks, rank, slice);
  if (!e) e = create_all(job, slice, team, stages, &all);
  tt_free(slice);
  if (e) tt_shards_destroy(&all);
  *out = all;
  return e;
}

static void release_engine(tt_shard *shard)
{
  leave_team(shard);
  if (shard->engine) shard->ops->destroy(&shard->engine);
}

void tt_shards_destroy(tt_shards *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++) {
    tt_shard *shard = &all->at[i];
    release_engine(shard);
    tt_state_destroy(&shard->state);
  }
  tt_free(all->at);
  *all = (tt_shards){.count = 0};
}

void tt_shards_release_engines_local(tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++) release_engine(&all->at[i]);
}

tt_err tt_shard_replace_local(const tt_job *job, const tt_cohort *cohort, tt_shard *shard,
                              tt_shards *out)
{
  const tt_shard_team team = shard->team;
  release_engine(shard);
  TT_TRY(TT_ALLOC(out->at, 1));
  out->count = 1;
  return create_shard(job, cohort, team.ranks ? team.slice : shard->slice, team.ranks, team.stages,
                      &out->at[0]);
}

tt_err tt_shard_save_local(tt_shard *shard)
{
  if (shard->team.incomplete)
    return TT_FAIL(INTERNAL, "the state of members of a team is saved before it is collected");
  tt_ckpt_wait_local(shard->reader);
  return shard->engine ? shard->ops->save(shard->engine, shard->slice, shard->state) : TT_OK;
}

tt_err tt_shard_load_local(tt_shard *shard)
{
  shard->team.outdated = shard->team.ranks && shard->engine;
  return shard->engine ? shard->ops->load(shard->engine, shard->slice, shard->state) : TT_OK;
}

tt_err tt_shard_train_local(tt_shard *shard, int64_t steps)
{
  shard->local_progress = (tt_progress){.epoch_min = shard->cohort->max_epochs,
                                        .loss = {(double)NAN, (double)NAN, (double)NAN}};
  tt_err e =
      shard->engine ? shard->ops->train(shard->engine, steps, &shard->local_progress) : TT_OK;
  if (shard->held) shard->local_progress.training = 0;
  return e;
}

tt_err tt_shard_restart_local(tt_shard *shard)
{
  if (!shard->engine) return TT_OK;
  shard->ops->destroy(&shard->engine);
  TT_TRY(create_engine(shard, shard->slice, NULL, &shard->engine));
  return tt_shard_load_local(shard);
}

static tt_err expand_heads(tt_cohort **cohort, tt_shard *shard)
{
  tt_cohort *expanded = NULL;
  tt_state *members = NULL;
  TT_TRY(tt_heads_expand(*cohort, shard->state, &expanded, &members));
  tt_state_destroy(&shard->state);
  tt_cohort_destroy(cohort);
  *cohort = expanded;
  shard->cohort = expanded;
  shard->state = members;
  shard->slice = (tt_slice){members->first, members->count};
  return TT_OK;
}

tt_err tt_shards_expand_heads_local(tt_job *job, tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (tt_cohort_expansion(all->at[i].cohort) > 1)
      TT_TRY(expand_heads(&job->cohorts.at[i], &all->at[i]));
  return TT_OK;
}

static double fraction_done(const tt_shard *shard)
{
  return shard->cohort->max_epochs
             ? (double)shard->progress.epoch_min / (double)shard->cohort->max_epochs
             : 1.0;
}

tt_progress tt_shards_total_progress(const tt_shards *all, int64_t *max_epochs)
{
  const tt_shard *last = &all->at[0];
  tt_progress sum = {0};
  for (int64_t i = 0; i < all->count; i++) {
    const tt_shard *shard = &all->at[i];
    sum.training += shard->progress.training;
    sum.finished += shard->progress.finished;
    sum.early_stopped += shard->progress.early_stopped;
    sum.diverged += shard->progress.diverged;
    sum.member_steps += shard->progress.member_steps;
    sum.restarted += shard->progress.restarted;
    if (fraction_done(shard) < fraction_done(last)) last = shard;
  }
  sum.epoch_min = last->progress.epoch_min;
  memcpy(sum.loss, last->progress.loss, sizeof sum.loss);
  *max_epochs = last->cohort->max_epochs;
  return sum;
}

tt_err tt_shards_check_arithmetic(tt_comm *c, const tt_shards *all, int warn_only,
                                  char text[TT_ARITHMETIC_LIST_SIZE])
{
  tt_err e = TT_OK;
  text[0] = '\0';
  for (int64_t i = 0; !e && i < all->count; i++) {
    const tt_shard *shard = &all->at[i];
    char first[TT_ARITHMETIC_SIZE] = "";
    e = tt_resources_check_arithmetic(c, shard->info.arithmetic, warn_only, first);
    if (!e && !strstr(text, first)) tt_text_append(text, TT_ARITHMETIC_LIST_SIZE, "; ", first);
  }
  return e;
}
