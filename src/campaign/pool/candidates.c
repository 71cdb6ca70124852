/* candidates.c — see candidates.h. */
#include "src/campaign/pool/candidates.h"

#include "core/base/process.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "src/campaign/state/file_names.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"
#include "core/model/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  SEEDS_A_ROUND = 100000, /* the most pool.chunks can be */
  LATER = 75,
  SAID_ROOM = 512,
  FIRST_PAUSE_MS = 2,
  LONGEST_PAUSE_MS = 200
};

/* All chunks of a round, and the call that runs. */
typedef struct maker {
  tt_comm *c;
  const tt_pool_order *o;
  int64_t chunks, made;
  char **file;                                         /* [chunks] */
  char temporary[TT_PATH_ROOM + 8], log[TT_PATH_ROOM]; /* of the call */
  pid_t pid;                                           /* 0 = none runs; rank 0 */
  int status;                                          /* how it ended */
} maker;

static tt_pool_plan plan_of(const tt_pool_order *o, const char *const *file, int64_t files)
{
  const tt_config *cfg = o->cfg;
  return (tt_pool_plan){.file = file,
                        .files = files,
                        .first = o->first,
                        .inputs = cfg->pool_inputs,
                        .labels = *cfg->pool_labels ? cfg->pool_labels : NULL,
                        .exclude = *cfg->pool_exclude ? cfg->pool_exclude : NULL,
                        .width = o->width,
                        .targets = o->targets};
}

/* ---- one call, on rank 0 -----------------------------------------------------------------------
 */

/* A bijection: no two calls of the first 21,000 rounds share a seed. */
static uint32_t seed_of(const tt_pool_order *o, int64_t chunk)
{
  const uint32_t n = (uint32_t)1 << 31;
  tt_shuffle s = tt_shuffle_make(n, (uint64_t)o->cfg->run_seed, 0, TT_FOR_POOL, 0);
  return tt_shuffle_at(&s, (uint32_t)((uint64_t)(o->round * SEEDS_A_ROUND + chunk) % n));
}

static tt_err start_local(maker *m, int64_t chunk)
{
  char round[24], number[24], seed[24], **argv = NULL;
  const tt_word word[] = {
      {"output", m->temporary}, {"round", round}, {"chunk", number}, {"seed", seed}};
  const tt_text_list *command = &m->o->cfg->pool_command;
  snprintf(round, sizeof round, "%" PRId64, m->o->round);
  snprintf(number, sizeof number, "%" PRId64, chunk);
  snprintf(seed, sizeof seed, "%" PRIu32, seed_of(m->o, chunk));
  TT_TRY(tt_file_temporary_local(m->file[chunk], m->temporary));
  strcat(m->temporary, ".h5"); /* some writers look at the end of a name */
  snprintf(m->log, sizeof m->log, "%.*slog", (int)strlen(m->file[chunk]) - 2, m->file[chunk]);
  TT_TRY(tt_argv_make(command->value, command->count, word, 4, &argv));
  const tt_child_order order = {argv, m->o->cfg->directory, m->log};
  int why = tt_child_start(&order, &m->pid);
  tt_free(argv);
  if (!why) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "pool.command: %s cannot be started in %s: %s", command->value[0],
                 m->o->cfg->directory, strerror(why));
}

/* The last line it printed, "" if none. */
static void last_words(const char *log, char said[SAID_ROOM])
{
  said[0] = '\0';
  FILE *f = fopen(log, "rb");
  if (!f) return;
  if (fseek(f, -(SAID_ROOM - 1), SEEK_END)) rewind(f);
  size_t n = fread(said, 1, SAID_ROOM - 1, f);
  fclose(f);
  while (n > 0 && strchr("\r\n \t", said[n - 1]))
    n--;
  said[n] = '\0';
  char *line = strrchr(said, '\n');
  if (line) memmove(said, line + 1, strlen(line));
}

/* The file becomes chunk `chunk` if it is good. */
static tt_err take_local(const maker *m, int64_t chunk)
{
  const char *const file[] = {m->temporary};
  tt_pool_plan plan = plan_of(m->o, file, 1);
  if (access(m->temporary, F_OK))
    return TT_FAIL(DATA,
                   "pool.command (chunk %" PRId64 " of round %" PRId64 ") ended with exit code 0, "
                   "but wrote no file {output}; what it printed is in %s",
                   chunk, m->o->round, m->log);
  tt_err e = tt_pool_look_local(&plan);
  if (e == TT_E_DATA || e == TT_E_NOINPUT)
    return TT_FAIL(DATA,
                   "pool.command (chunk %" PRId64 " of round %" PRId64 ", seed %" PRIu32 ") wrote "
                   "what cannot be used, and it was removed: %s",
                   chunk, m->o->round, seed_of(m->o, chunk), tt_err_last());
  if (!e) e = tt_file_sync_local(m->temporary);
  return e ? e : tt_file_publish_local(m->temporary, m->file[chunk]);
}

/* Of a call that has ended. */
static tt_err judge_local(maker *m, int64_t chunk)
{
  char said[SAID_ROOM], how[64];
  int code = WIFEXITED(m->status) ? WEXITSTATUS(m->status) : -1;
  if (code == 0) {
    tt_err e = take_local(m, chunk);
    if (e) unlink(m->temporary);
    if (!e) unlink(m->log);
    return e;
  }
  unlink(m->temporary);
  if (code == LATER)
    return TT_FAIL(STOPPED,
                   "pool.command said later (exit code 75) for chunk %" PRId64 " of round %" PRId64
                   "; chunks that are there stay: run again to go on",
                   chunk, m->o->round);
  last_words(m->log, said);
  if (code > 0)
    snprintf(how, sizeof how, "ended with exit code %d", code);
  else
    snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(m->status),
             strsignal(WTERMSIG(m->status)));
  return TT_FAIL(UNAVAILABLE,
                 "pool.command: %s %s for chunk %" PRId64 " of round %" PRId64 "%s%s; what it "
                 "printed is in %s; correct it and run again: chunks that are there stay",
                 m->o->cfg->pool_command.value[0], how, chunk, m->o->round, *said ? ": " : "", said,
                 m->log);
}

/* ---- all of them -------------------------------------------------------------------------------
 */

/* What killed lives left behind. */
static void sweep_local(const char *directory)
{
  char name[256], path[TT_PATH_ROOM];
  DIR *d = opendir(directory);
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
    size_t n = strlen(e->d_name);
    if (n < 4 || n >= sizeof name || strcmp(e->d_name + n - 3, ".h5")) continue;
    snprintf(name, sizeof name, "%.*s", (int)n - 3, e->d_name);
    if (!tt_file_is_stale_local(directory, name)) continue;
    if (snprintf(path, sizeof path, "%s/%s", directory, e->d_name) < TT_PATH_ROOM) unlink(path);
  }
  if (d) closedir(d);
}

static tt_err prepare_local(maker *m)
{
  const tt_config *cfg = m->o->cfg;
  char path[TT_PATH_ROOM], name[32];
  TT_TRY(TT_ALLOC(m->file, m->chunks));
  for (int64_t i = 0; i < m->chunks; i++) {
    snprintf(name, sizeof name, "pool-%04" PRId64 ".h5", i);
    tt_round_path(cfg->campaign_directory, m->o->round, name, path);
    TT_TRY(tt_text_set(&m->file[i], path));
  }
  tt_round_path(cfg->campaign_directory, m->o->round, "", path);
  if (tt_comm_is_root(m->c)) sweep_local(path);
  return TT_OK;
}

static void sleep_ms(int64_t ms)
{
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

typedef enum call_state { ENDED, SIGNALLED, RUNS } call_state;

/* The same on all ranks. SIGNALLED once, when the call was ended by a signal: Slurm may have meant
 * it for us too. */
static call_state look(maker *m)
{
  int64_t state = m->pid ? RUNS : ENDED;
  if (m->pid && tt_child_has_ended(m->pid, &m->status)) {
    m->pid = 0;
    state = WIFSIGNALED(m->status) ? SIGNALLED : ENDED;
  }
  tt_max_i64(m->c, &state, 1);
  return (call_state)state;
}

/* End the call that runs, if any; nothing of it stays. */
static void end_call(maker *m)
{
  if (!m->pid) return;
  tt_child_kill(m->pid);
  m->pid = 0;
  unlink(m->temporary);
  unlink(m->log);
}

static tt_err give_up(maker *m, int64_t chunk, tt_stop why)
{
  end_call(m);
  return TT_FAIL(STOPPED,
                 "stopped by %s while pool.command made chunk %" PRId64 " of round %" PRId64
                 "; run again to go on",
                 tt_stop_text(why), chunk, m->o->round);
}

/* Wait for the call on rank 0, all ranks in the same pauses: waiting inside MPI would keep their
 * processors busy. */
static tt_err wait_for_call(maker *m, int64_t chunk)
{
  int64_t pause = FIRST_PAUSE_MS;
  for (call_state state = look(m); state != ENDED; state = look(m)) {
    tt_watchdog_alive_local("waiting for pool.command");
    if (state == SIGNALLED) sleep_ms(LONGEST_PAUSE_MS);
    tt_stop why = tt_stop_agreed(m->c, m->o->deadline, m->o->cfg->campaign_directory);
    if (why) return give_up(m, chunk, why);
    if (state == RUNS) sleep_ms(pause);
    if (pause < LONGEST_PAUSE_MS) pause *= 2;
  }
  return TT_OK;
}

static tt_err make_chunk(maker *m, int64_t chunk)
{
  int root = tt_comm_is_root(m->c);
  int64_t there = root && access(m->file[chunk], F_OK) == 0;
  tt_max_i64(m->c, &there, 1);
  if (there) return TT_OK;
  tt_err e = tt_agree(m->c, root ? start_local(m, chunk) : TT_OK);
  if (e) return e;
  if (!m->made++)
    tt_log_once(TT_LOG_INFO, "round %" PRId64 ": pool.command makes chunks %" PRId64 " to %" PRId64,
                m->o->round, chunk, m->chunks - 1);
  e = wait_for_call(m, chunk);
  return tt_agree(m->c, e || !root ? e : judge_local(m, chunk));
}

static tt_err generate(maker *m, tt_pool **out)
{
  tt_err e = tt_agree(m->c, prepare_local(m));
  for (int64_t i = 0; !e && i < m->chunks; i++) {
    tt_watchdog_alive_local("making the pool");
    e = make_chunk(m, i);
  }
  if (e) return e;
  tt_pool_plan plan = plan_of(m->o, (const char *const *)m->file, m->chunks);
  plan.looked = 1;
  return tt_pool_open(m->c, &plan, out);
}

tt_err tt_pool_make(tt_comm *c, const tt_pool_order *o, tt_pool **out)
{
  maker m = {.c = c, .o = o, .chunks = o->cfg->pool_chunks};
  *out = NULL;
  tt_watchdog_alive_local("opening the pool");
  if (!o->cfg->pool_command.count) {
    const char *const file[] = {o->cfg->pool_file};
    const tt_pool_plan plan = plan_of(o, file, 1);
    return tt_pool_open(c, &plan, out);
  }
  tt_err e = generate(&m, out);
  end_call(&m);
  for (int64_t i = 0; m.file && i < m.chunks; i++)
    tt_free(m.file[i]);
  tt_free(m.file);
  return e;
}
