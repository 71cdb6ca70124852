/* checkpointing.c — see checkpointing.h. */
#include "src/train/checkpointing.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/host/watchdog.h"
#include "src/train/shard/team_training.h"

#include <inttypes.h>

enum { MAX_FAILED_WRITES = 3 };

tt_err tt_checkpointing_create_local(tt_checkpointing *k)
{
  TT_TRY(TT_ALLOC(k->part, k->shards->count));
  for (int64_t i = 0; i < k->shards->count; i++)
    k->part[i] = (tt_ckpt_shard){k->shards->at[i].cohort->members, k->shards->at[i].state};
  return TT_OK;
}

tt_err tt_checkpointing_save_states(tt_checkpointing *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; i < k->shards->count; i++) {
    e = tt_team_collect(&k->shards->at[i], e);
    if (!e) e = tt_shard_save_local(&k->shards->at[i]);
  }
  return e;
}

static void set_reader(tt_checkpointing *k, tt_ckpt_writing *reader)
{
  k->writing = reader;
  for (int64_t i = 0; i < k->shards->count; i++) k->shards->at[i].reader = reader;
}

/* A complete checkpoint, or an error that a later write may not have. */
static tt_err record_result(tt_checkpointing *k, tt_err e, int must)
{
  if (!e) {
    k->generation++;
    k->failed_writes = 0;
  } else if (!must && (e == TT_E_IO || e == TT_E_CANTCREAT) &&
             ++k->failed_writes < MAX_FAILED_WRITES) {
    tt_log_root(TT_LOG_WARN, "checkpoint %" PRId64 " was not written, training continues: %s",
                k->generation + 1, tt_err_last());
    e = TT_OK;
  }
  return e;
}

static void log_written(const tt_checkpointing *k, double waited, double seconds)
{
  tt_log_root(TT_LOG_DEBUG, "checkpoint %" PRId64 ": written in %.3f s, training waited %.3f s",
              k->generation + 1, seconds, waited);
}

static tt_err write_and_wait(tt_checkpointing *k, int must)
{
  k->time = tt_monotonic_seconds();
  tt_watchdog_heartbeat_local("writing a checkpoint");
  tt_err e = tt_agree(k->comm, tt_checkpointing_save_states(k));
  if (!e)
    e = tt_ckpt_write(k->comm, k->cfg->run_directory, k->id, k->generation + 1,
                      k->cfg->checkpoint_keep, k->shards->count, k->part);
  double seconds = tt_monotonic_seconds() - k->time;
  tt_time_limit_record_checkpoint_local(k->limit, seconds);
  if (!e) log_written(k, seconds, seconds);
  return record_result(k, e, must);
}

/* From here on a thread reads k->part. */
static tt_err begin(tt_checkpointing *k)
{
  tt_ckpt_writing *writing = NULL;
  k->time = tt_monotonic_seconds();
  tt_watchdog_heartbeat_local("writing a checkpoint");
  tt_err e = tt_agree(k->comm, tt_checkpointing_save_states(k));
  if (!e)
    e = tt_ckpt_begin(k->comm, k->cfg->run_directory, k->id, k->generation + 1, k->shards->count,
                      k->part, &writing);
  if (e) return record_result(k, e, 0);
  set_reader(k, writing);
  k->waited = tt_monotonic_seconds() - k->time;
  return TT_OK;
}

static tt_err end(tt_checkpointing *k, int must)
{
  double before = tt_monotonic_seconds();
  if (!k->writing) return TT_OK;
  tt_watchdog_heartbeat_local("writing a checkpoint");
  tt_ckpt_wait_local(k->writing);
  double seconds = tt_ckpt_seconds_local(k->writing);
  tt_time_limit_record_checkpoint_local(k->limit, seconds);
  tt_err e = tt_ckpt_end(&k->writing, k->cfg->checkpoint_keep);
  set_reader(k, NULL);
  if (!e) log_written(k, k->waited + tt_monotonic_seconds() - before, seconds);
  return record_result(k, e, must);
}

/* Whether the threads of all ranks have ended, or take so long that waiting for them, under the
 * watchdog, is better than training without checkpoints. */
static int is_ready(const tt_checkpointing *k)
{
  int64_t open = !tt_ckpt_is_written_local(k->writing);
  int64_t late = tt_monotonic_seconds() - k->time > k->cfg->run_watchdog;
  int64_t any[] = {open, late};
  tt_allreduce_max_i64(k->comm, any, 2);
  return !any[0] || any[1];
}

/* Rank 0's clock decides, so that all ranks agree. */
static int is_due(const tt_checkpointing *k)
{
  int64_t yes = tt_monotonic_seconds() - k->time >= k->cfg->checkpoint_every;
  tt_bcast(k->comm, &yes, sizeof yes);
  return (int)yes;
}

tt_err tt_checkpointing_update(tt_checkpointing *k)
{
  if (k->writing) return is_ready(k) ? end(k, 0) : TT_OK;
  if (!is_due(k)) return TT_OK;
  int one_node = tt_comm_node_ranks(k->comm) == tt_comm_ranks(k->comm);
  return one_node ? begin(k) : write_and_wait(k, 0);
}

tt_err tt_checkpointing_write(tt_checkpointing *k, int must)
{
  tt_err e = end(k, 0);
  return e && e != TT_E_IO && e != TT_E_CANTCREAT ? e : write_and_wait(k, must);
}

void tt_checkpointing_close(tt_checkpointing *k)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  if (k->writing) (void)end(k, 1);
  tt_free(k->part);
  *tt_err_record_of_thread() = kept;
}
