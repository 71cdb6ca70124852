/* checkpointing.c — see checkpointing.h. */
#include "src/train/checkpointing.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/memory.h"
#include "src/host/watchdog.h"
#include "src/train/shard/team_training.h"

#include <inttypes.h>

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

static void log_written(const tt_checkpointing *k, double waited, double seconds)
{
  tt_log_root(TT_LOG_DEBUG, "checkpoint %" PRId64 ": written in %.3f s, training waited %.3f s",
              k->generation + 1, seconds, waited);
}

static tt_err write_and_wait(tt_checkpointing *k)
{
  k->time = tt_monotonic_seconds();
  tt_watchdog_heartbeat_local("writing a checkpoint");
  tt_err e = tt_agree(k->comm, tt_checkpointing_save_states(k));
  if (!e)
    e = tt_ckpt_write(k->comm, k->cfg->run_directory, k->id, k->generation + 1,
                      k->cfg->checkpoint_keep, k->shards->count, k->part);
  double seconds = tt_monotonic_seconds() - k->time;
  tt_time_limit_record_checkpoint_local(k->limit, seconds);
  if (e) return e;
  log_written(k, seconds, seconds);
  k->generation++;
  return TT_OK;
}

static int is_of_disk(tt_err e) { return e == TT_E_IO || e == TT_E_CANTCREAT; }

/* After a failed attempt try once more, under another temporary name. A run without checkpoints
 * would lose its work at the end, so it ends now, with its last checkpoint. */
static tt_err retry(tt_checkpointing *k, tt_err e)
{
  if (!is_of_disk(e)) return e;
  tt_log_root(TT_LOG_WARN, "checkpoint %" PRId64 " was not written, tutti tries once more: %s",
              k->generation + 1, tt_err_last());
  e = write_and_wait(k);
  return is_of_disk(e) ? TT_FAIL(IO, "checkpoint %" PRId64 " cannot be written: %s",
                                 k->generation + 1, tt_err_last())
                       : e;
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
  if (e) return e;
  set_reader(k, writing);
  k->waited = tt_monotonic_seconds() - k->time;
  return TT_OK;
}

static tt_err end(tt_checkpointing *k)
{
  double before = tt_monotonic_seconds();
  if (!k->writing) return TT_OK;
  tt_watchdog_heartbeat_local("writing a checkpoint");
  tt_ckpt_wait_local(k->writing);
  double seconds = tt_ckpt_seconds_local(k->writing);
  tt_time_limit_record_checkpoint_local(k->limit, seconds);
  tt_err e = tt_ckpt_end(&k->writing, k->cfg->checkpoint_keep);
  set_reader(k, NULL);
  if (e) return e;
  log_written(k, k->waited + tt_monotonic_seconds() - before, seconds);
  k->generation++;
  return TT_OK;
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
  if (tt_memory_is_path(k->cfg->run_directory)) return TT_OK;
  if (k->writing) return is_ready(k) ? retry(k, end(k)) : TT_OK;
  if (!is_due(k)) return TT_OK;
  int one_node = tt_comm_node_ranks(k->comm) == tt_comm_ranks(k->comm);
  return retry(k, one_node ? begin(k) : write_and_wait(k));
}

tt_err tt_checkpointing_write(tt_checkpointing *k, int must)
{
  if (!must && tt_memory_is_path(k->cfg->run_directory)) return TT_OK;
  tt_err e = end(k);
  e = retry(k, e ? e : write_and_wait(k));
  if (must || !is_of_disk(e)) return e;
  tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
  return TT_OK;
}

void tt_checkpointing_close(tt_checkpointing *k)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  if (k->writing) (void)end(k);
  tt_free(k->part);
  *tt_err_record_of_thread() = kept;
}
