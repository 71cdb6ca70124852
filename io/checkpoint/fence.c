/* fence.c — see checkpoint.h: the owner and the files of a run directory. */
#include "io/checkpoint/checkpoint_internal.h"
#include "io/files/memory.h"
#include "io/files/owner.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
  RUN_ROOM = 512,
  OWNER_ROOM = 1024,
  VISIBLE_POLLS = 60 /* of 50 ms: NFS shows a new file on other nodes after some time */
};

static const char ended_line[] = "ended\n";

static tt_err join_path(const char *directory, const char *name, char path[TT_PATH_MAX])
{
  if (snprintf(path, TT_PATH_MAX, "%s/%s", directory, name) >= TT_PATH_MAX)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  return TT_OK;
}

/* The owner */

static const char *getenv_or(const char *name, const char *otherwise)
{
  const char *value = getenv(name);
  return value && value[0] ? value : otherwise;
}

/* job.restart.host.random of this start of the program. */
static tt_err make_incarnation(char *text, size_t capacity)
{
  char host[TT_HOST_ROOM];
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    return TT_FAIL(CANTCREAT, "no random number for the owner file: %s", strerror(errno));
  tt_file_host_name_local(host);
  snprintf(text, capacity, "%.16s.%.8s.%s.%016" PRIx64, getenv_or("SLURM_JOB_ID", "0"),
           getenv_or("SLURM_RESTART_COUNT", "0"), host, random);
  return TT_OK;
}

/* The run of a start, as text: starts with the same text compute the same bits.
 *   any_device  leave out the arithmetic, which is at the end */
static void describe_run(const tt_run_id *id, int any_device, char text[RUN_ROOM])
{
  snprintf(text, RUN_ROOM, "%s %016" PRIx64 " %016" PRIx64 " %s", TT_CKPT_SCHEMA, id->result_hash,
           id->data, any_device ? "" : id->arithmetic);
}

/* The owner file. Its last line, "ended", is missing while the start runs, and if it was killed. */
typedef struct owner_file {
  char incarnation[128], host[128], run[RUN_ROOM], ended[8];
  long process; /* of rank 0, on `host` */
} owner_file;

static tt_err write_owner(const char *directory, const tt_run_id *id, char temporary[TT_PATH_MAX])
{
  char path[TT_PATH_MAX], host[TT_HOST_ROOM], run[RUN_ROOM], text[OWNER_ROOM];
  TT_TRY(join_path(directory, "owner", path));
  tt_file_host_name_local(host);
  describe_run(id, 0, run);
  snprintf(text, sizeof text, "%s\nprocess %ld on %s\nrun %s\n", id->incarnation, (long)getpid(),
           host, run);
  return tt_file_write_temporary_local(path, text, temporary);
}

/* All zero if there is no such file. */
static tt_err read_owner(const char *directory, owner_file *o)
{
  char path[TT_PATH_MAX], text[OWNER_ROOM];
  *o = (owner_file){.process = 0};
  TT_TRY(join_path(directory, "owner", path));
  if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR)) return TT_OK;
  if (tt_file_read_text(path, text, sizeof text)) return TT_FAIL(CANTCREAT, "%s", tt_err_last());
  sscanf(text, "%127[^\n] process %ld on %127s run %511[^\n] %7s", o->incarnation, &o->process,
         o->host, o->run, o->ended);
  return TT_OK;
}

/* Slurm starts a job again only after its processes have ended. */
static int is_of_requeued_job(const char *theirs, const char *mine)
{
  size_t job = strcspn(mine, ".") + 1, restart = strcspn(mine + job, ".") + 1;
  return strncmp(mine, "0.", job) != 0 && !strncmp(theirs, mine, job) &&
         strncmp(theirs + job, mine + job, restart) != 0;
}

/* What has neither ended nor can be looked up on this machine counts as running. */
static int may_be_running(const owner_file *o, const tt_run_id *id)
{
  char host[TT_HOST_ROOM];
  if (!*o->incarnation || *o->ended || is_of_requeued_job(o->incarnation, id->incarnation))
    return 0;
  tt_file_host_name_local(host);
  if (strcmp(host, o->host) != 0 || o->process < 1) return 1;
  return o->process != getpid() && (kill((pid_t)o->process, 0) == 0 || errno != ESRCH);
}

int tt_ckpt_may_be_running_local(const char *directory)
{
  const tt_run_id outside = {.incarnation = ""};
  owner_file o;
  return read_owner(directory, &o) != TT_OK || may_be_running(&o, &outside);
}

/* Whether this start may take the directory. Below a directory that it owns already, it may. */
static tt_err check_owner(const char *directory, const tt_run_id *id, int any_device, int restart)
{
  owner_file o;
  char run[RUN_ROOM];
  if (tt_owner_covers_local(directory)) return TT_OK;
  TT_TRY(read_owner(directory, &o));
  describe_run(id, any_device, run);
  int same = any_device ? !strncmp(o.run, run, strlen(run)) : !strcmp(o.run, run);
  if (!may_be_running(&o, id) || (same && !restart)) return TT_OK;
  return TT_FAIL(DATA,
                 "%s is in use by a start%s that has not ended: %s (process %ld on %s); wait for "
                 "it, stop it with `touch %s/STOP`, or choose another directory; if it was killed, "
                 "remove %s/owner",
                 directory, same ? "" : " of another run", o.incarnation, o.process, o.host,
                 directory, directory);
}

/* Add the last line to the owner file, if it still is that of this start: a later start replaces
 * the file and does not change it, so the line never gets into another start's file. */
static void record_end(const char *directory)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  char path[TT_PATH_MAX];
  int fd = -1;
  if (!join_path(directory, "owner", path))
    fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0 && !tt_owner_check_local(directory) &&
      write(fd, ended_line, sizeof ended_line - 1) < 0)
    tt_log_root(TT_LOG_WARN, "%s: %s", path, strerror(errno));
  if (fd >= 0) close(fd);
  *tt_err_record_of_thread() = kept;
}

/* Files of the directory */

tt_err tt_ckpt_file_path_local(const char *directory, int64_t generation, char path[TT_PATH_MAX])
{
  char name[64];
  snprintf(name, sizeof name, "ckpt-g%06" PRId64 ".h5", generation);
  return join_path(directory, name, path);
}

/* The newest checkpoint in memory. */
static tt_err list_memory(int64_t **list, int64_t *count)
{
  TT_TRY(TT_ALLOC(*list, 1));
  for (int i = 0; tt_memory_name(i); i++) {
    int64_t number = tt_numbered_name_parse(tt_memory_name(i), "ckpt-g", 6, ".h5");
    if (number > **list) **list = number;
  }
  *count = **list > 0;
  return TT_OK;
}

tt_err tt_ckpt_list_local(const char *directory, int64_t **list, int64_t *count)
{
  if (tt_memory_is_path(directory)) return list_memory(list, count);
  return tt_directory_list_numbers(directory, "ckpt-g", 6, ".h5", list, count);
}

/* A temporary file of an earlier owner, or of a process that has ended. The check of the owner
 * comes after the listing of the name: if this start still owns the directory, the file is not of a
 * later owner. */
static int is_leftover(const char *directory, const char *name)
{
  return (!strncmp(name, TT_OWNER_TEMPORARY, strlen(TT_OWNER_TEMPORARY)) ||
          tt_file_is_stale_local(directory, name)) &&
         tt_owner_check_local(directory) == TT_OK;
}

static int is_checkpoint(const char *directory, const char *name)
{
  return tt_numbered_name_parse(name, "ckpt-g", 6, ".h5") > 0 &&
         tt_owner_check_local(directory) == TT_OK;
}

/* Collective */

tt_err tt_ckpt_remove_temporaries_local(const char *directory)
{
  TT_TRY(tt_directory_remove_files(directory, ".tmp-", is_leftover));
  return tt_owner_check_local(directory);
}

void tt_ckpt_clean_up_local(const char *directory)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  (void)tt_ckpt_remove_temporaries_local(directory);
  *tt_err_record_of_thread() = kept;
}

static tt_err remove_all_local(const char *directory)
{
  TT_TRY(tt_directory_remove_files(directory, "ckpt-g", is_checkpoint));
  return tt_owner_check_local(directory);
}

/* Refuse, or write the new owner file under a temporary name. */
static tt_err prepare_claim(const char *directory, tt_run_id *id, int any_device, int restart,
                            char temporary[TT_PATH_MAX])
{
  TT_TRY(make_incarnation(id->incarnation, sizeof id->incarnation));
  TT_TRY(check_owner(directory, id, any_device, restart));
  if (tt_directory_create(directory))
    return TT_FAIL(CANTCREAT, "%s; choose another run.directory", tt_err_last());
  return write_owner(directory, id, temporary);
}

/* Collective. Look for the file that rank 0 has written, on all ranks, until all find it. */
static tt_err find_temporary(tt_comm *c, const char *directory, const char *temporary)
{
  char path[TT_PATH_MAX], host[TT_HOST_ROOM];
  tt_err e = join_path(directory, strrchr(temporary, '/') + 1, path);
  int missing = 0;
  for (int64_t i = 0, any = 1; any && i < VISIBLE_POLLS; i++) {
    if (i > 0) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    any = missing = e || access(path, F_OK);
    tt_allreduce_max_i64(c, &any, 1);
  }
  tt_file_host_name_local(host);
  if (!e && missing)
    e = TT_FAIL(CANTCREAT,
                "rank %d on %s does not find %s, a file that rank 0 has written: the directory "
                "must be on a file system that all nodes share; choose another run.directory",
                tt_comm_rank(c), host, path);
  return tt_agree(c, e);
}

/* Check again, because another start may have come first; then become the owner. */
static tt_err complete_claim(const char *directory, const tt_run_id *id, int any_device,
                             int restart, const char *temporary)
{
  char path[TT_PATH_MAX];
  TT_TRY(join_path(directory, "owner", path));
  TT_TRY(check_owner(directory, id, any_device, restart));
  tt_owner_end_local(directory); /* an earlier claim of this process */
  TT_TRY(tt_file_publish_local(temporary, path));
  TT_TRY(tt_owner_begin_local(directory, id->incarnation));
  return tt_ckpt_remove_temporaries_local(directory);
}

/* Collective. An error of the disk is one of a directory that cannot be used. */
static tt_err agree_on_claim(tt_comm *c, tt_err e)
{
  return tt_agree(c, e == TT_E_IO ? TT_FAIL(CANTCREAT, "%s", tt_err_last()) : e);
}

tt_err tt_ckpt_claim(tt_comm *c, const char *directory, int any_device, int restart, tt_run_id *id)
{
  char temporary[TT_PATH_MAX] = "";
  int root = tt_comm_is_root(c);
  tt_err e = root ? prepare_claim(directory, id, any_device, restart, temporary) : TT_OK;
  e = agree_on_claim(c, e);
  if (e) return e;
  tt_bcast(c, temporary, sizeof temporary);
  tt_bcast(c, id->incarnation, sizeof id->incarnation);
  e = find_temporary(c, directory, temporary);
  if (!e)
    e = agree_on_claim(c, root ? complete_claim(directory, id, any_device, restart, temporary)
                               : TT_OK);
  if (e && root) unlink(temporary);
  if (!e) e = tt_agree(c, tt_owner_begin_local(directory, id->incarnation));
  if (e) tt_ckpt_release_local(c, directory);
  return e;
}

void tt_ckpt_release_local(const tt_comm *c, const char *directory)
{
  if (tt_comm_is_root(c) && tt_owner_covers_local(directory)) record_end(directory);
  tt_owner_end_local(directory);
}

tt_err tt_ckpt_remove_all(tt_comm *c, const char *directory)
{
  return tt_agree(c, tt_comm_is_root(c) ? remove_all_local(directory) : TT_OK);
}

tt_err tt_ckpt_explain(tt_comm *c, const char *directory, tt_err e)
{
  if (e == TT_OK || e == TT_E_STOPPED) return e;
  const tt_err_record kept = *tt_err_record_of_thread();
  tt_err owner = tt_comm_is_root(c) ? tt_owner_check_local(directory) : TT_OK;
  if (tt_agree(c, owner) == TT_E_STOPPED) return TT_E_STOPPED;
  *tt_err_record_of_thread() = kept;
  return e;
}
