/* train.c — see tutti.h: training in the process of another program. */
#include "src/train/trainer.h"

#include "core/base/log.h"
#include "io/files/memory.h"
#include "io/hdf5/h5.h"
#include "src/api/call.h"
#include "src/api/model.h"
#include "src/host/stop_request.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static char *all_options;
static void list_options(void)
{
  tt_call caller = tt_call_begin();
  tt_call_end(caller, tt_config_options_text(1, &all_options));
}

const char *tutti_options(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, list_options);
  return all_options;
}

static tt_err check_job(const char *job, const char *const *set, int nset)
{
  if (!job) return TT_FAIL(USAGE, "job is NULL: give the path of a YAML file");
  return tt_call_check_set(set, nset);
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

/* One call of tutti_train_in_memory. */
typedef struct memory_training {
  const tutti_training *t;
  FILE *lines; /* logged since the last call of poll */
  char *text;
  size_t size;
  tt_memory_files files;
} memory_training;

static tt_err open_lines(memory_training *m)
{
  m->lines = open_memstream(&m->text, &m->size);
  tt_log_use_stream(m->lines, m->t->live);
  return m->lines ? TT_OK : TT_FAIL(MEM, "out of host memory for messages");
}

/* Give the lines to the caller. This is not done under the lock on HDF5 (tt_call_hdf5), because the
 * caller may wait for another thread that needs the lock. */
static int poll_caller(void *training)
{
  memory_training *m = training;
  if (fclose(m->lines)) m->size = 0;
  int stop = m->t->poll && m->t->poll(m->t->context, m->size ? m->text : "");
  free(m->text);
  m->text = NULL;
  return open_lines(m) || stop;
}

static tt_err check_training(const tutti_training *t)
{
  if (!t) return TT_FAIL(USAGE, "training is NULL");
  TT_TRY(tt_call_check_size("tutti_training", "training->size", t->size, sizeof *t, sizeof *t));
  return check_job(t->job, t->set, t->nset);
}

static tt_err take_files(memory_training *m)
{
  for (int i = 0; i < m->t->files; i++) {
    char path[TT_PATH_MAX];
    const tutti_file *f = &m->t->file[i];
    tt_path_join(TT_MEMORY_ROOT, f->name, path);
    TT_TRY(tt_memory_put(path, f->bytes, f->size, NULL));
  }
  return TT_OK;
}

static tt_err train_in_memory(memory_training *m)
{
  const tutti_training *t = m->t;
  tt_comm *alone = NULL;
  const tt_train_options o = {
      .job = {.file = TT_MEMORY_ROOT "job.yaml", .text = t->job, .set = t->set, .nset = t->nset},
      .no_scores = 1,
      .guard = tt_call_hdf5};
  TT_TRY(tt_comm_alone_local(&alone));
  tt_memory_use(&m->files);
  tt_stop_ask_local(poll_caller, m);
  tt_err e = open_lines(m);
  if (!e) e = take_files(m);
  if (!e) e = tt_train(alone, &o);
  if (m->lines) poll_caller(m);
  tt_stop_ask_local(NULL, NULL);
  tt_memory_use(NULL);
  tt_log_use_stream(NULL, 0);
  if (m->lines) fclose(m->lines);
  free(m->text);
  tt_comm_end(&alone);
  return e;
}

int tutti_train_in_memory(const tutti_training *training)
{
  memory_training m = {.t = training};
  tt_call caller = tt_call_begin();
  tt_err e = check_training(training);
  if (!e) e = train_in_memory(&m);
  for (int i = 0; i < m.files.count; i++)
    if (m.files.file[i].owned && training->store)
      training->store(training->context, &(tutti_file){m.files.file[i].name, m.files.file[i].bytes,
                                                       m.files.file[i].size});
  tt_memory_free(&m.files);
  return tt_call_end(caller, e);
}

int tutti_train(const char *job, const char *const *set, int nset)
{
  int signal_number = 0;
  training t = {.o = {.job = {.file = job, .set = set, .nset = nset}, .no_scores = 1}};
  tt_call caller = tt_call_begin();
  tt_err e = check_job(job, set, nset);
  if (!e) e = train_with_signals(&t, &signal_number);
  int code = tt_call_end(caller, e);
  if (signal_number) raise(signal_number); /* to the handler of the program */
  return code;
}
