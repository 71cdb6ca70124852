/* together.c — see together.h. */
#include "run/together.h"

#include "base/mem.h"
#include "run/judge.h"
#include "run/retry.h"

#include <string.h>

/* One call: where the members stood before and stand after it. */
typedef struct call {
  tt_comm *c;
  tt_crew *w;
  tt_stand *before, *after; /* [G] */
  int64_t *front;           /* [ensembles] before */
  int8_t *due;              /* [ensembles] */
  int catching;             /* some members are behind: only they move */
  int64_t steps, restarted; /* here */
} call;

static int is_behind(const call *x, int64_t member)
{
  const tt_stand *at = &x->before[member];
  int32_t ensemble = x->w->cohort->member[member].ensemble;
  return at->status == TT_STATUS_training && at->epoch < x->front[ensemble];
}

/* Members that must wait are finished for as long as the engine moves the others. */
static tt_err hold_local(call *x)
{
  tt_state *s = x->w->mine;
  for (int64_t i = 0; i < s->count; i++)
    if (TT_FIELD(s, status)[i] == TT_STATUS_training && !is_behind(x, s->first + i))
      TT_FIELD(s, status)[i] = TT_STATUS_finished;
  return tt_crew_load_local(x->w);
}

static void release_local(const call *x)
{
  tt_state *s = x->w->mine;
  for (int64_t i = 0; i < s->count; i++)
    if (x->before[s->first + i].status == TT_STATUS_training && !is_behind(x, s->first + i))
      TT_FIELD(s, status)[i] = TT_STATUS_training;
}

static tt_err move_local(call *x)
{
  if (x->catching) TT_TRY(hold_local(x));
  TT_TRY(tt_crew_train_local(x->w, INT64_MAX));
  x->steps = x->w->here.member_steps;
  TT_TRY(tt_crew_save_local(x->w));
  if (x->catching) release_local(x);
  return tt_retry_state_local(x->w, &x->restarted);
}

/* A member on its way to the others keeps its weights of their best epoch, and ends with them. */
static void follow_local(const call *x, int64_t i)
{
  tt_state *s = x->w->mine;
  const tt_cohort *c = x->w->cohort;
  const tt_ensemble *e = &c->ensemble[c->member[s->first + i].ensemble];
  int64_t front = x->front[c->member[s->first + i].ensemble], epoch = TT_FIELD(s, epoch)[i];
  int8_t *status = &TT_FIELD(s, status)[i];
  const tt_stand *one = x->before + e->first;
  if (*status == TT_STATUS_diverged || epoch == 0) return;
  while (!tt_stand_counts(one, front)) one++;
  int here = epoch == one->best_epoch + 1;
  int over = *status == TT_STATUS_finished && epoch <= one->best_epoch;
  if (here || over) {
    int averaged = s->averages && TT_FIELD(s, averaged)[i] > 0;
    const float *from = averaged ? TT_FIELD(s, average) : TT_FIELD(s, weights);
    memcpy(TT_FIELD(s, best_weights) + i * s->params, from + i * s->params,
           (size_t)s->params * sizeof *from);
    TT_FIELD(s, best_epoch)[i] = (int32_t)one->best_epoch;
    TT_FIELD(s, best_loss)[i] = one->best_loss;
  }
  for (int64_t m = e->first; m < e->first + e->members; m++)
    if (x->before[m].status == TT_STATUS_early_stopped && epoch == front &&
        *status == TT_STATUS_training)
      *status = TT_STATUS_early_stopped;
}

static tt_err judge_or_follow(call *x)
{
  const tt_cohort *c = x->w->cohort;
  if (!x->catching) {
    for (int64_t i = 0; i < c->ensembles; i++)
      x->due[i] = tt_front_of(&c->ensemble[i], x->after) > x->front[i];
    return tt_judge(x->c, x->w, x->after, x->due);
  }
  for (int64_t i = 0; i < x->w->slice.count; i++)
    if (is_behind(x, x->w->slice.first + i)) follow_local(x, i);
  return TT_OK;
}

static tt_err give_back_local(const call *x)
{
  TT_TRY(tt_crew_load_local(x->w));
  TT_TRY(tt_crew_train_local(x->w, 0)); /* where they stand now */
  x->w->here.member_steps = x->steps;
  x->w->here.restarted = x->restarted;
  return TT_OK;
}

static void find_behind(call *x)
{
  const tt_cohort *c = x->w->cohort;
  for (int64_t i = 0; i < c->ensembles; i++) x->front[i] = tt_front_of(&c->ensemble[i], x->before);
  for (int64_t m = 0; m < c->members; m++) x->catching |= is_behind(x, m);
}

tt_err tt_together_train(tt_comm *c, tt_crew *w)
{
  call x = {.c = c, .w = w};
  tt_err e = tt_crew_save_local(w);
  if (!e) e = TT_ALLOC(x.due, w->cohort->ensembles);
  if (!e) e = TT_ALLOC(x.front, w->cohort->ensembles);
  e = tt_agree(c, e);
  if (!e) e = tt_stands_gather(c, w, &x.before);
  if (!e) find_behind(&x);
  if (!e) e = tt_agree(c, move_local(&x));
  if (!e) e = tt_stands_gather(c, w, &x.after);
  if (!e) e = judge_or_follow(&x);
  if (!e) e = tt_agree(c, give_back_local(&x));
  tt_free(x.before);
  tt_free(x.after);
  tt_free(x.due);
  tt_free(x.front);
  return e;
}
