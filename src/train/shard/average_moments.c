/* average_moments.c — see average_moments.h. The pass is a training with a learning rate of 0, by a
 * second engine: then only running values change, on any engine and with any team. */
#include "src/train/shard/average_moments.h"

#include "core/base/mem.h"
#include "src/host/watchdog.h"
#include "src/train/shard/shard_train.h"
#include "src/train/shard/team_training.h"

#include <string.h>

/* Parts of batches after which 0.9^n (TT_BATCH_NORM_MOMENTUM) is below 1e-6. */
enum { PARTS = 132 };
static const double seconds_between_heartbeats = 0.5;

static int has_running_values(const tt_cohort *c)
{
  return tt_model_trained_params(&c->model) < c->model.params;
}

/* The weights of member i that predict, if they are averages; else NULL. */
static float *averaged_weights(const tt_state *s, int64_t i)
{
  int best = TT_FIELD(s, best_epoch)[i] >= 0;
  if (TT_FIELD(s, averaged)[i] == 0 || TT_FIELD(s, status)[i] == TT_STATUS_diverged) return NULL;
  return (best ? TT_FIELD(s, best_weights) : TT_FIELD(s, average)) + i * s->params;
}

/* Training rows of the members that have fewest. */
static tt_err fewest_rows(const tt_cohort *c, const tt_dataset *d, int64_t *fewest)
{
  *fewest = d->rows;
  for (int64_t set = 0; set < tt_cohort_row_sets(c); set++) {
    int32_t *row = NULL;
    int64_t count = 0;
    TT_TRY(tt_cohort_rows(c, d, set, TT_TRAIN, &row, &count));
    tt_free(row);
    if (count < *fewest) *fewest = count;
  }
  if (c->resample == TT_RESAMPLE_subsample) *fewest = (int64_t)((double)*fewest * c->subsample);
  return TT_OK;
}

/* A cohort like `c` whose members only pass their rows. It borrows all but the members. */
static tt_err create_passes(const tt_cohort *c, const tt_dataset *d, tt_cohort *out)
{
  int64_t rows = 0;
  TT_TRY(fewest_rows(c, d, &rows));
  int64_t passes = 1 + PARTS * c->batch_size / (tt_max_i64(rows, 1) * c->parts);
  *out = *c;
  out->average = TT_AVERAGE_none;
  out->schedule = TT_SCHEDULE_constant;
  out->retries = 0;
  out->max_epochs = passes;
  TT_TRY(TT_ALLOC(out->member, c->members));
  for (int64_t i = 0; i < c->members; i++) {
    out->member[i] = c->member[i];
    out->member[i].hyper.epochs = (int32_t)passes;
    out->member[i].hyper.learning_rate = 0.0f;
    out->member[i].hyper.patience = 0;
  }
  return TT_OK;
}

static tt_err load_weights(const tt_state *src, tt_shard *pass)
{
  tt_state *s = pass->state;
  if (pass->slice.count == 0) return TT_OK;
  TT_TRY(tt_shard_save_local(pass));
  for (int64_t i = 0; i < src->count; i++) {
    const float *w = averaged_weights(src, i);
    if (w)
      memcpy(TT_FIELD(s, weights) + i * s->params, w, (size_t)s->params * sizeof *w);
    else
      TT_FIELD(s, status)[i] = TT_STATUS_finished;
  }
  return tt_shard_load_local(pass);
}

static void take_running_values(const tt_model *m, const tt_state *src, const tt_state *dst)
{
  for (int64_t i = 0; i < dst->count; i++) {
    float *w = averaged_weights(dst, i);
    const float *passed = TT_FIELD(src, weights) + i * src->params;
    int running;
    tt_slice same;
    for (int64_t p = 0; w && p < m->params; p += same.count) {
      same = tt_model_same_use(m, p, m->params, &running);
      if (running) memcpy(w + p, passed + p, (size_t)same.count * sizeof *w);
    }
  }
}

static tt_err pass_rows(tt_comm *c, tt_shard *pass)
{
  tt_shards one = {.count = 1, .at = pass};
  tt_err e = tt_shards_update_progress(c, &one);
  while (!e && pass->progress.training > 0) {
    tt_watchdog_heartbeat_local("moments of averaged weights");
    e = tt_shards_train(c, &one, seconds_between_heartbeats);
  }
  if (e) return e;
  e = tt_team_collect(pass, TT_OK);
  return tt_agree(c, e ? e : tt_shard_save_local(pass));
}

static tt_err compute(tt_comm *c, const tt_job *job, tt_shard *shard)
{
  tt_cohort cohort = {0};
  tt_shards pass = {0};
  tt_err e = create_passes(shard->cohort, shard->data, &cohort);
  if (!e) e = tt_shard_replace_local(job, &cohort, shard, &pass);
  if (!e) e = load_weights(shard->state, &pass.at[0]);
  e = tt_agree(c, e);
  if (!e) e = pass_rows(c, &pass.at[0]);
  if (!e) take_running_values(&cohort.model, pass.at[0].state, shard->state);
  tt_shards_destroy(&pass);
  tt_free(cohort.member);
  return e;
}

tt_err tt_average_moments(tt_comm *c, const tt_job *job, tt_shards *all)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < all->count; i++) {
    const tt_cohort *k = all->at[i].cohort;
    if (k->average != TT_AVERAGE_none && has_running_values(k)) e = compute(c, job, &all->at[i]);
  }
  return e;
}
