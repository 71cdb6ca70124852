/* train.c — see tutti.h: training in the process of another program. */
#include "src/train/trainer.h"

#include "io/hdf5/h5.h"
#include "src/api/call.h"
#include "src/api/tutti.h"
#include "src/host/stop_request.h"

#include <signal.h>

static tt_err check_job(const char *job, const char *const *set, int nset)
{
  if (!job) return TT_FAIL(USAGE, "job is NULL: give the path of a YAML file");
  for (int i = 0; i < nset; i++)
    if (!set || !set[i])
      return TT_FAIL(USAGE, "text %d of the %d in set is NULL", set ? i : 0, nset);
  return TT_OK;
}

typedef struct training {
  tt_comm *c;
  tt_train_options o;
} training;

static tt_err train(void *call)
{
  const training *t = call;
  return tt_train(t->c, &t->o);
}

/*   *signal_number  received and not answered by a stop; 0 = none */
static tt_err train_with_signals(training *t, int *signal_number)
{
  tt_stop_install_handlers_local();
  tt_err e = tt_comm_begin(&t->c);
  if (!e) e = tt_h5_call_as_guest_local(train, t);
  tt_comm_end(&t->c);
  *signal_number = tt_stop_restore_handlers_local();
  if (e == TT_E_STOPPED) *signal_number = 0;
  return e;
}

int tutti_train(const char *job, const char *const *set, int nset)
{
  tt_call caller;
  int signal_number = 0;
  training t = {.o = {.job = {.file = job, .set = set, .nset = nset}, .no_scores = 1}};
  tt_call_begin(&caller);
  tt_err e = check_job(job, set, nset);
  if (!e) e = train_with_signals(&t, &signal_number);
  int code = tt_call_end(&caller, e);
  if (signal_number) raise(signal_number); /* to the handler of the program */
  return code;
}
