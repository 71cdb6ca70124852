/* shard_train.c — see shard_train.h. */
#include "src/train/shard_train.h"

#include "src/host/progress_display.h"
#include "src/host/stop_request.h"
#include "src/train/ensemble_training.h"
#include "src/train/fusion.h"
#include "src/train/retry.h"

static tt_err meet(tt_comm *c, tt_crews *all)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < all->count; i++)
    e = tt_progress_merge(c, &all->at[i].here, &all->at[i].at);
  return e;
}

/* Steps that will take about `aim` seconds on this rank, from how long the last ones took. */
static int64_t next_steps(int64_t steps, double seconds, double aim)
{
  double want = (double)steps * aim / (seconds > 1e-6 ? seconds : 1e-6);
  double most = 8.0 * (double)steps;
  if (want > most) want = most;
  return want < 1.0 ? 1 : (int64_t)want;
}

/* Whether its members look at each other while they train: every call is collective. */
static int is_joint(const tt_crew *w)
{
  return w->cohort->method == TT_METHOD_fusion || w->cohort->stop == TT_STOP_AT_ensemble;
}

static tt_err train_apart_local(tt_crews *all, double seconds)
{
  for (int64_t i = 0; i < all->count; i++) {
    tt_crew *w = &all->at[i];
    double before = tt_clock_local();
    if (is_joint(w)) continue;
    TT_TRY(tt_crew_train_local(w, w->steps));
    TT_TRY(tt_retry_local(w));
    w->steps = next_steps(w->steps, tt_clock_local() - before, seconds);
  }
  return TT_OK;
}

static tt_err train_joint(tt_comm *c, tt_crew *w, double seconds)
{
  double before = tt_clock_local();
  tt_err e = TT_OK;
  w->here.member_steps = w->here.restarted = 0;
  if (w->at.training == 0) return TT_OK;
  if (w->cohort->method == TT_METHOD_fusion)
    e = tt_fusion_train(c, w, w->steps);
  else
    e = tt_together_train(c, w);
  w->steps = next_steps(w->steps, tt_clock_local() - before, seconds);
  return e;
}

tt_err tt_crews_train(tt_comm *c, tt_crews *all, double seconds)
{
  int64_t active = 0;
  for (int64_t i = 0; i < all->count; i++) active += all->at[i].at.training > 0;
  double each = seconds / (double)(active > 1 ? active : 1);
  tt_err e = tt_agree(c, train_apart_local(all, each));
  for (int64_t i = 0; !e && i < all->count; i++)
    if (is_joint(&all->at[i])) e = train_joint(c, &all->at[i], each);
  return e ? e : meet(c, all);
}

static tt_err stand_local(tt_crews *all)
{
  for (int64_t i = 0; i < all->count; i++) TT_TRY(tt_crew_train_local(&all->at[i], 0));
  return TT_OK;
}

tt_err tt_crews_stand(tt_comm *c, tt_crews *all)
{
  tt_err e = tt_agree(c, stand_local(all));
  return e ? e : meet(c, all);
}
