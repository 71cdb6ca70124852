/* ensemble_training.c — see ensemble_training.h. */
#include "src/train/ensemble_training.h"

#include "core/base/mem.h"
#include "src/train/ensemble_early_stopping.h"

/* One call: where the members stood before and stand after it. */
typedef struct call {
  tt_stand *before, *after; /* [G] */
  int8_t *due;              /* [ensembles] whose members are an epoch further */
  int64_t steps;            /* here */
} call;

static tt_err move_local(tt_crew *w, call *x)
{
  TT_TRY(tt_crew_train_local(w, INT64_MAX));
  x->steps = w->here.member_steps;
  return tt_crew_save_local(w);
}

static tt_err judge(tt_comm *c, tt_crew *w, call *x)
{
  const tt_cohort *cohort = w->cohort;
  for (int64_t i = 0; i < cohort->ensembles; i++) {
    const tt_ensemble *e = &cohort->ensemble[i];
    x->due[i] = tt_front_of(e, x->after) > tt_front_of(e, x->before);
  }
  return tt_judge(c, w, x->after, x->due);
}

static tt_err give_back_local(tt_crew *w, const call *x)
{
  TT_TRY(tt_crew_load_local(w));
  TT_TRY(tt_crew_train_local(w, 0)); /* where they stand now */
  w->here.member_steps = x->steps;
  return TT_OK;
}

tt_err tt_together_train(tt_comm *c, tt_crew *w)
{
  call x = {0};
  tt_err e = tt_crew_save_local(w);
  if (!e) e = TT_ALLOC(x.due, w->cohort->ensembles);
  e = tt_agree(c, e);
  if (!e) e = tt_stands_gather(c, w, &x.before);
  if (!e) e = tt_agree(c, move_local(w, &x));
  if (!e) e = tt_stands_gather(c, w, &x.after);
  if (!e) e = judge(c, w, &x);
  if (!e) e = tt_agree(c, give_back_local(w, &x));
  tt_free(x.before);
  tt_free(x.after);
  tt_free(x.due);
  return e;
}
