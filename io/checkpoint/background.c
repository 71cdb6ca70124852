/* background.c — see checkpoint.h: a generation that a thread writes while training goes on. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/clock.h"
#include "core/base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

struct tt_ckpt_writing {
  tt_comm *comm;
  char directory[TT_PATH_MAX];
  int64_t generation, shards;
  const tt_ckpt_shard *shard;
  uint64_t *hash; /* of all members on this rank */
  tt_h5_file *file;
  pthread_t thread;
  int running; /* the thread is not joined yet */
  /* of the thread; read after `ended` */
  atomic_int ended;
  tt_err result;
  tt_err_record record;
  double begun, seconds;
};

static void *write_data(void *arg)
{
  tt_ckpt_writing *w = arg;
  tt_ckpt_hash_fill_local(w->shards, w->shard, w->hash);
  w->result = tt_h5_write_deferred_local(w->file);
  if (w->result) w->record = *tt_err_record_of_thread();
  w->seconds = tt_monotonic_seconds() - w->begun;
  atomic_store(&w->ended, 1);
  return NULL;
}

/* The thread receives no signals: they would interrupt its calls, and their handlers are for the
 * main thread. Where no thread can be started, the data are written here. */
static void start_thread_local(tt_ckpt_writing *w)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  w->running = pthread_create(&w->thread, NULL, write_data, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!w->running) write_data(w);
}

int tt_ckpt_is_written_local(const tt_ckpt_writing *w) { return atomic_load(&w->ended); }

void tt_ckpt_wait_local(tt_ckpt_writing *w)
{
  if (!w || !w->running) return;
  pthread_join(w->thread, NULL);
  w->running = 0;
}

double tt_ckpt_seconds_local(const tt_ckpt_writing *w) { return w->seconds; }

static void destroy(tt_ckpt_writing **w)
{
  if (!*w) return;
  tt_h5_discard(&(*w)->file);
  tt_free((*w)->hash);
  tt_free(*w);
}

tt_err tt_ckpt_begin(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t shards, const tt_ckpt_shard *shard, tt_ckpt_writing **out)
{
  tt_ckpt_writing *w = NULL;
  *out = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(w, 1));
  if (e) {
    tt_free(w);
    return e;
  }
  w->comm = c;
  w->generation = generation;
  w->shards = shards;
  w->shard = shard;
  w->begun = tt_monotonic_seconds();
  snprintf(w->directory, sizeof w->directory, "%s", directory);
  e = tt_ckpt_hash_create_local(shards, shard, &w->hash);
  e = tt_ckpt_fill_file(c, directory, id, generation, shards, shard, w->hash, 1, e, &w->file);
  if (!e) e = tt_h5_close_layout(w->file);
  if (e) {
    destroy(&w);
    return tt_ckpt_explain(c, directory, e);
  }
  start_thread_local(w);
  *out = w;
  return TT_OK;
}

tt_err tt_ckpt_end(tt_ckpt_writing **writing, int64_t keep)
{
  tt_ckpt_writing *w = *writing;
  if (!w) return TT_OK;
  tt_ckpt_wait_local(w);
  if (w->result) *tt_err_record_of_thread() = w->record;
  tt_err e = tt_h5_commit_deferred(&w->file, w->result);
  e = tt_ckpt_explain(w->comm, w->directory, e);
  if (!e && tt_comm_is_root(w->comm)) tt_ckpt_remove_old_local(w->directory, w->generation, keep);
  destroy(writing);
  return e;
}
