/* shard.c — see shard.h. */
#include "src/train/shard/shard.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/engine/progress.h"
#include "core/model/epoch_end.h"
#include "core/model/load_balance.h"
#include "core/model/snapshot.h"
#include "src/host/resources.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*   own  NULL, or the segment of the state */
static tt_err open_engine(tt_shard *shard, tt_slice slice, const tt_slice *own, tt_engine **out)
{
  tt_resources use = *shard->use;
  use.own = own;
  use.device_exchange = shard->team.on_device;
  TT_TRY(shard->ops->create(shard->cohort, slice, &use, out));
  TT_TRY(shard->ops->set_data(*out, shard->data, NULL));
  return shard->ops->info(*out, &shard->info);
}

static tt_err create_engine(tt_shard *shard, tt_slice slice, const tt_slice *own, tt_engine **out)
{
  TT_TRY(tt_set_up_check(shard->use->stop));
  TT_TRY(open_engine(shard, slice, own, out));
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

/* What an engine says about itself does not depend on its members. */
static tt_err find_info(tt_shard *shard)
{
  tt_engine *engine = NULL;
  tt_slice one = {shard->slice.first, 1};
  tt_err e = shard->ops->create(shard->cohort, one, shard->use, &engine);
  if (!e) e = shard->ops->info(engine, &shard->info);
  if (engine) shard->ops->destroy(&engine);
  return e;
}

/* Initial state of all members of a shard that has no engine yet. */
static tt_err init_members(tt_shard *shard)
{
  TT_TRY(tt_members_init_weights(shard->cohort, shard->slice, shard->use->stop,
                                 TT_FIELD(shard->state, weights)));
  return shard->slice.count > 0 ? find_info(shard) : TT_OK;
}

static tt_err create_shard(const tt_job *job, const tt_cohort *cohort, tt_slice slice,
                           tt_team *team, int stages, int in_waves, tt_shard *shard)
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
  TT_TRY(tt_state_create_stored(own, tt_cohort_state_shape(cohort), &shard->state));
  if (in_waves) return init_members(shard);
  shard->wave = own;
  if (team && cohort->parts > 1) return join_team(shard, team, stages, slice);
  return own.count > 0 ? create_engine(shard, own, NULL, &shard->engine) : TT_OK;
}

static int64_t training_rows(const tt_dataset *d)
{
  int64_t rows = 0;
  for (int64_t i = 0; i < d->rows; i++) rows += d->split[i] == TT_TRAIN;
  return rows;
}

static tt_err open_shards(tt_shards *all, const tt_slice *slice)
{
  for (int64_t i = 0; i < all->count; i++) {
    tt_shard *shard = &all->at[i];
    shard->wave = tt_wave_slice(&all->waves, slice, i, all->wave);
    if (shard->wave.count > 0) TT_TRY(open_engine(shard, shard->wave, NULL, &shard->engine));
    TT_TRY(tt_shard_load_local(shard));
  }
  return TT_OK;
}

tt_err tt_shards_open_wave_local(tt_shards *all, int64_t wave)
{
  tt_slice *slice = NULL;
  TT_TRY(TT_ALLOC(slice, all->count));
  for (int64_t i = 0; i < all->count; i++) slice[i] = all->at[i].slice;
  all->wave = wave;
  tt_err e = open_shards(all, slice);
  tt_free(slice);
  return e;
}

static tt_err create_all(const tt_job *job, const tt_slice *slice, tt_team *team, int stages,
                         tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++)
    TT_TRY(create_shard(job, job->cohorts.at[i], slice[i], team, stages, all->waves.count > 1,
                        &all->at[i]));
  return all->waves.count > 1 ? tt_shards_open_wave_local(all, 0) : TT_OK;
}

tt_err tt_shards_create_local(const tt_job *job, int ranks, int rank, tt_team *team, int stages,
                              int64_t wave_members, tt_shards *out)
{
  tt_shards all = {.count = job->cohorts.count};
  tt_slice *slice = NULL;
  tt_err e = TT_ALLOC(slice, all.count);
  if (!e) e = TT_ALLOC(all.at, all.count);
  if (!e) e = tt_load_balance(&job->cohorts, training_rows(job->data), ranks, rank, slice);
  if (!e) all.waves = tt_wave_list_of(slice, all.count, wave_members);
  if (!e) e = create_all(job, slice, team, stages, &all);
  tt_free(slice);
  if (e) tt_shards_destroy(&all);
  *out = all;
  return e;
}

void tt_shards_destroy(tt_shards *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++) {
    tt_shard *shard = &all->at[i];
    leave_team(shard);
    if (shard->engine) shard->ops->destroy(&shard->engine);
    tt_state_destroy(&shard->state);
  }
  tt_free(all->at);
  *all = (tt_shards){.count = 0};
}

void tt_shards_release_engines_local(tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++) {
    tt_shard *shard = &all->at[i];
    leave_team(shard);
    if (shard->engine) shard->ops->destroy(&shard->engine);
    shard->wave.count = 0;
  }
}

tt_err tt_shard_save_local(tt_shard *shard)
{
  if (shard->team.incomplete)
    return TT_FAIL(INTERNAL, "the state of members of a team is saved before it is collected");
  tt_ckpt_wait_local(shard->reader);
  return shard->engine ? shard->ops->save(shard->engine, shard->wave, shard->state) : TT_OK;
}

/* Whether all waves train in turn, one epoch each, so that no member waits for the end of another
 * wave. */
static int in_turn(const tt_shard *shard)
{
  return shard->cohort->stop == TT_EARLY_STOPPING_ensemble;
}

/* shard->others from the state. */
static tt_err update_others(tt_shard *shard)
{
  const tt_state *s = shard->state;
  int64_t n = 0, skip = shard->wave.first - shard->slice.first;
  tt_member_progress *progress = NULL;
  shard->others = (tt_progress){.waiting = 0};
  if (shard->wave.count == shard->slice.count) return TT_OK;
  TT_TRY(TT_ALLOC(progress, shard->slice.count));
  for (int64_t i = 0; i < shard->slice.count; i++) {
    if (i >= skip && i < skip + shard->wave.count) continue;
    int32_t epoch = TT_FIELD(s, epoch)[i];
    progress[n++] = (tt_member_progress){
        .epoch = epoch,
        .status = TT_FIELD(s, status)[i],
        .loss = tt_last_epoch_loss(TT_FIELD(s, loss_train), s->epochs, i, epoch)};
  }
  tt_progress_from_members(n, progress, shard->cohort->max_epochs, &shard->others);
  if (!in_turn(shard)) shard->others.waiting = shard->others.training;
  tt_free(progress);
  return TT_OK;
}

tt_err tt_shard_load_local(tt_shard *shard)
{
  shard->team.outdated = shard->team.ranks && shard->engine;
  TT_TRY(update_others(shard));
  return shard->engine ? shard->ops->load(shard->engine, shard->wave, shard->state) : TT_OK;
}

static void add_others(tt_shard *shard)
{
  tt_progress *all = &shard->local_progress;
  const tt_progress *more = &shard->others;
  if (shard->wave.count == shard->slice.count) return;
  all->training += more->training;
  all->finished += more->finished;
  all->early_stopped += more->early_stopped;
  all->diverged += more->diverged;
  all->waiting += more->waiting;
  if (in_turn(shard) && more->epoch_min < all->epoch_min) all->epoch_min = more->epoch_min;
  if (!shard->engine) memcpy(all->loss, more->loss, sizeof all->loss);
}

tt_err tt_shard_train_local(tt_shard *shard, int64_t steps)
{
  shard->local_progress = (tt_progress){.epoch_min = shard->cohort->max_epochs,
                                        .loss = {(double)NAN, (double)NAN, (double)NAN}};
  if (shard->engine) TT_TRY(shard->ops->train(shard->engine, steps, &shard->local_progress));
  add_others(shard);
  return TT_OK;
}

static tt_err expand_snapshots(tt_cohort **cohort, tt_shard *shard)
{
  tt_cohort *expanded = NULL;
  tt_state *members = NULL;
  TT_TRY(tt_snapshot_expand(*cohort, shard->state, &expanded, &members));
  tt_state_destroy(&shard->state);
  tt_cohort_destroy(cohort);
  *cohort = expanded;
  shard->cohort = expanded;
  shard->state = members;
  shard->slice = (tt_slice){members->first, members->count};
  return TT_OK;
}

tt_err tt_shards_expand_snapshots_local(tt_job *job, tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (tt_cohort_expansion(all->at[i].cohort) > 1 ||
        all->at[i].cohort->method == TT_METHOD_snapshot)
      TT_TRY(expand_snapshots(&job->cohorts.at[i], &all->at[i]));
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
    sum.waiting += shard->progress.waiting;
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
