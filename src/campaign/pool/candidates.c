/* candidates.c — see candidates.h. */
#include "src/campaign/pool/candidates.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "core/base/rng.h"
#include "core/model/dataset.h"
#include "io/data/data.h"
#include "src/campaign/state/file_names.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  SEEDS_A_ROUND = 100000, /* upper limit of pool.chunks */
  EXIT_RETRY_LATER = 75,
  MESSAGE_SIZE = 512,
  MIN_PAUSE_MS = 2,
  MAX_PAUSE_MS = 200
};

/* All chunks of a round, and the running call. */
typedef struct generator {
  tt_comm *c;
  const tt_round_pool_settings *o;
  int64_t chunks, calls_started;
  char **file;                                       /* [chunks] */
  char temporary[TT_PATH_MAX + 8], log[TT_PATH_MAX]; /* of the call */
  pid_t pid;                                         /* of the call, on rank 0; 0 = none runs */
  int status;                                        /* wait status of the last call */
} generator;

static tt_pool_options pool_plan(const tt_round_pool_settings *o, const char *const *file,
                                 int64_t files)
{
  const tt_config *cfg = o->cfg;
  return (tt_pool_options){.file = file,
                           .files = files,
                           .first = o->first,
                           .inputs = cfg->pool_inputs,
                           .labels = *cfg->pool_labels ? cfg->pool_labels : NULL,
                           .exclude = *cfg->pool_exclude ? cfg->pool_exclude : NULL,
                           .input = o->input,
                           .target = o->target,
                           .net = o->net};
}

/* One call, on rank 0 */

/* A permutation of [0, 2^31): no two calls of the first 21,000 rounds share a seed. */
static uint32_t chunk_seed(const tt_round_pool_settings *o, int64_t chunk)
{
  const uint32_t n = (uint32_t)1 << 31;
  tt_shuffle s = tt_shuffle_make(n, (uint64_t)o->cfg->run_seed, 0, TT_PURPOSE_POOL_SEED, 0);
  return tt_shuffle_at(&s, (uint32_t)((uint64_t)(o->round * SEEDS_A_ROUND + chunk) % n));
}

static tt_err start_call_local(generator *m, int64_t chunk)
{
  char round[24], number[24], seed[24], model[TT_PATH_MAX], **argv = NULL;
  const tt_placeholder word[] = {{"output", m->temporary},
                                 {"model", model},
                                 {"round", round},
                                 {"chunk", number},
                                 {"seed", seed}};
  const tt_text_list *command = &m->o->cfg->pool_command;
  snprintf(round, sizeof round, "%" PRId64, m->o->round);
  snprintf(number, sizeof number, "%" PRId64, chunk);
  tt_round_path(m->o->cfg->campaign_directory, m->o->round, "model.h5", model);
  snprintf(seed, sizeof seed, "%" PRIu32, chunk_seed(m->o, chunk));
  TT_TRY(tt_file_temporary_name_local(m->file[chunk], m->temporary));
  strcat(m->temporary, ".h5"); /* some writers choose the format by the suffix */
  snprintf(m->log, sizeof m->log, "%.*slog", (int)strlen(m->file[chunk]) - 2, m->file[chunk]);
  TT_TRY(tt_argv_expand(command->value, command->count, word, 5, &argv));
  const tt_process_options order = {argv, m->o->cfg->directory, m->log, NULL};
  int why = tt_process_start(&order, &m->pid);
  tt_free(argv);
  if (!why) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "pool.command: %s cannot be started in %s: %s", command->value[0],
                 m->o->cfg->directory, strerror(why));
}

/* The last line of the log, "" if the log is empty. */
static void read_last_line(const char *log, char message[MESSAGE_SIZE])
{
  FILE *f = NULL;
  message[0] = '\0';
  if (tt_file_open_stream(log, &f)) return;
  if (fseek(f, -(MESSAGE_SIZE - 1), SEEK_END)) rewind(f);
  size_t n = fread(message, 1, MESSAGE_SIZE - 1, f);
  fclose(f);
  while (n > 0 && strchr("\r\n \t", message[n - 1])) n--;
  message[n] = '\0';
  char *line = strrchr(message, '\n');
  if (line) memmove(message, line + 1, strlen(line));
}

/* Check the file of the call and rename it to that of chunk `chunk`. */
static tt_err publish_chunk_local(const generator *m, int64_t chunk)
{
  const char *const file[] = {m->temporary};
  tt_pool_options plan = pool_plan(m->o, file, 1);
  int exists = 0;
  TT_TRY(tt_file_exists(m->temporary, &exists));
  if (!exists)
    return TT_FAIL(DATA,
                   "pool.command (chunk %" PRId64 " of round %" PRId64 ") ended with exit code 0, "
                   "but wrote no file {output}; its printed output is in %s",
                   chunk, m->o->round, m->log);
  tt_err e = tt_pool_check_local(&plan);
  if (e == TT_E_DATA || e == TT_E_NOINPUT)
    return TT_FAIL(DATA,
                   "pool.command (chunk %" PRId64 " of round %" PRId64 ", seed %" PRIu32 ") wrote "
                   "an invalid file, which was removed: %s",
                   chunk, m->o->round, chunk_seed(m->o, chunk), tt_err_last());
  if (!e) e = tt_file_sync_local(m->temporary);
  return e ? e : tt_file_publish_local(m->temporary, m->file[chunk]);
}

/* Act on the exit code of a call. */
static tt_err handle_exit_local(generator *m, int64_t chunk)
{
  char message[MESSAGE_SIZE], how[64];
  int code = WIFEXITED(m->status) ? WEXITSTATUS(m->status) : -1;
  if (code == 0) {
    tt_err e = publish_chunk_local(m, chunk);
    if (e) unlink(m->temporary);
    if (!e) unlink(m->log);
    return e;
  }
  unlink(m->temporary);
  if (code == EXIT_RETRY_LATER)
    return TT_FAIL(STOPPED,
                   "pool.command asked to retry later (exit code 75) for chunk %" PRId64
                   " of round %" PRId64 "; finished chunks are kept: run again to continue",
                   chunk, m->o->round);
  read_last_line(m->log, message);
  if (code > 0)
    snprintf(how, sizeof how, "ended with exit code %d", code);
  else
    snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(m->status),
             strsignal(WTERMSIG(m->status)));
  return TT_FAIL(UNAVAILABLE,
                 "pool.command: %s %s for chunk %" PRId64 " of round %" PRId64 "%s%s; its printed "
                 "output is in %s; correct the command and run again: finished chunks are kept",
                 m->o->cfg->pool_command.value[0], how, chunk, m->o->round, *message ? ": " : "",
                 message, m->log);
}

/* All calls of a round */

/* A temporary file of a process that was killed. */
static int is_stale(const char *directory, const char *file)
{
  char name[256];
  size_t n = strlen(file);
  if (n < 4 || n >= sizeof name || strcmp(file + n - 3, ".h5")) return 0;
  snprintf(name, sizeof name, "%.*s", (int)n - 3, file);
  return tt_file_is_stale_local(directory, name);
}

static tt_err prepare_local(generator *m)
{
  const tt_config *cfg = m->o->cfg;
  char path[TT_PATH_MAX], name[32];
  TT_TRY(TT_ALLOC(m->file, m->chunks));
  for (int64_t i = 0; i < m->chunks; i++) {
    snprintf(name, sizeof name, "pool-%04" PRId64 ".h5", i);
    tt_round_path(cfg->campaign_directory, m->o->round, name, path);
    TT_TRY(tt_text_set(&m->file[i], path));
  }
  tt_round_path(cfg->campaign_directory, m->o->round, "", path);
  if (tt_comm_is_root(m->c)) (void)tt_directory_remove_files(path, ".tmp-", is_stale);
  return TT_OK;
}

static void sleep_ms(int64_t ms)
{
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

typedef enum call_state { CALL_ENDED, CALL_SIGNALED, CALL_RUNNING } call_state;

/* The same result on all ranks. CALL_SIGNALED is returned once, when a signal has ended the call:
 * Slurm may have sent it to this process too. */
static call_state poll_call(generator *m)
{
  int64_t state = m->pid ? CALL_RUNNING : CALL_ENDED;
  if (m->pid && tt_process_has_exited(m->pid, &m->status)) {
    m->pid = 0;
    state = WIFSIGNALED(m->status) ? CALL_SIGNALED : CALL_ENDED;
  }
  tt_allreduce_max_i64(m->c, &state, 1);
  return (call_state)state;
}

/* Kill the running call, if any, and remove its files. */
static void kill_call(generator *m)
{
  if (!m->pid) return;
  tt_process_kill(m->pid);
  m->pid = 0;
  unlink(m->temporary);
  unlink(m->log);
}

static tt_err stop_call(generator *m, int64_t chunk, tt_stop_reason why)
{
  kill_call(m);
  return TT_FAIL(STOPPED,
                 "stopped by %s while pool.command made chunk %" PRId64 " of round %" PRId64
                 "; run again to continue",
                 tt_stop_text(why), chunk, m->o->round);
}

/* Wait for the call on rank 0. All ranks sleep for the same time: a wait inside MPI would keep
 * their cores busy. */
static tt_err wait_for_call(generator *m, int64_t chunk)
{
  int64_t pause = MIN_PAUSE_MS;
  for (call_state state = poll_call(m); state != CALL_ENDED; state = poll_call(m)) {
    tt_watchdog_heartbeat_local("waiting for pool.command");
    if (state == CALL_SIGNALED) sleep_ms(MAX_PAUSE_MS);
    tt_stop_reason why = tt_stop_agreed(m->c, m->o->deadline, m->o->cfg->campaign_directory);
    if (why) return stop_call(m, chunk, why);
    if (state == CALL_RUNNING) sleep_ms(pause);
    if (pause < MAX_PAUSE_MS) pause *= 2;
  }
  return TT_OK;
}

static tt_err make_chunk(generator *m, int64_t chunk)
{
  int root = tt_comm_is_root(m->c), exists = 0;
  tt_err e = tt_agree(m->c, root ? tt_file_exists(m->file[chunk], &exists) : TT_OK);
  if (e) return e;
  tt_bcast(m->c, &exists, sizeof exists);
  if (exists) return TT_OK;
  e = tt_agree(m->c, root ? start_call_local(m, chunk) : TT_OK);
  if (e) return e;
  if (!m->calls_started++)
    tt_log_root(TT_LOG_INFO, "round %" PRId64 ": pool.command makes chunks %" PRId64 " to %" PRId64,
                m->o->round, chunk, m->chunks - 1);
  e = wait_for_call(m, chunk);
  return tt_agree(m->c, e || !root ? e : handle_exit_local(m, chunk));
}

static tt_err generate(generator *m, tt_pool **out)
{
  tt_err e = tt_agree(m->c, prepare_local(m));
  for (int64_t i = 0; !e && i < m->chunks; i++) {
    tt_watchdog_heartbeat_local("making the pool");
    e = make_chunk(m, i);
  }
  if (e) return e;
  tt_pool_options plan = pool_plan(m->o, (const char *const *)m->file, m->chunks);
  plan.checked = 1;
  return tt_pool_open(m->c, &plan, out);
}

tt_err tt_round_pool_open(tt_comm *c, const tt_round_pool_settings *o, tt_pool **out)
{
  generator m = {.c = c, .o = o, .chunks = o->cfg->pool_chunks};
  *out = NULL;
  tt_watchdog_heartbeat_local("opening the pool");
  if (!o->cfg->pool_command.count) {
    const char *const file[] = {o->cfg->pool_file};
    const tt_table_format format = tt_data_format(o->cfg);
    tt_pool_options plan = pool_plan(o, file, 1);
    plan.format = &format;
    return tt_pool_open(c, &plan, out);
  }
  tt_err e = generate(&m, out);
  kill_call(&m);
  for (int64_t i = 0; m.file && i < m.chunks; i++) tt_free(m.file[i]);
  tt_free(m.file);
  return e;
}
