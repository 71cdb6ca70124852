/* fence.c — see checkpoint.h: the owner and the files of a run directory. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

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
static tt_err make_incarnation(char *text, size_t room)
{
  char host[256] = "host";
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    return TT_FAIL(CANTCREAT, "no random number for the owner file: %s", strerror(errno));
  gethostname(host, sizeof host - 1);
  snprintf(text, room, "%.16s.%.8s.%.40s.%016" PRIx64, getenv_or("SLURM_JOB_ID", "0"),
           getenv_or("SLURM_RESTART_COUNT", "0"), host, random);
  return TT_OK;
}

/* Read the owner file, without the line end. */
static tt_err read_owner(const char *directory, char *text, int64_t room)
{
  char path[TT_PATH_MAX];
  TT_TRY(join_path(directory, "owner", path));
  TT_TRY(tt_file_read_text(path, text, room));
  text[strcspn(text, "\n")] = 0;
  return TT_OK;
}

tt_err tt_ckpt_check_owner_local(const char *directory, const char *incarnation)
{
  char owner[256];
  tt_err e = read_owner(directory, owner, sizeof owner);
  if (e == TT_E_IO) return e;
  if (!e && !strcmp(owner, incarnation)) return TT_OK;
  return TT_FAIL(
      STOPPED,
      "%s: another start of this run (%s) has taken the directory over from this start (%s); this "
      "start stops and has changed nothing",
      directory, e ? "unknown: the owner file is gone" : owner, incarnation);
}

/* Files of the directory */

tt_err tt_ckpt_file_path_local(const char *directory, int64_t generation, char path[TT_PATH_MAX])
{
  char name[64];
  snprintf(name, sizeof name, "ckpt-g%06" PRId64 ".h5", generation);
  return join_path(directory, name, path);
}

tt_err tt_ckpt_list_local(const char *directory, int64_t **list, int64_t *count)
{
  return tt_directory_list_numbers(directory, "ckpt-g", 6, ".h5", list, count);
}

/* Prefixes of temporary files. A start that still writes one no longer owns the directory. */
static int is_temporary_of_run(const char *name)
{
  static const char *const prefix[] = {".tmp-ckpt-g", ".tmp-owner-", ".tmp-model.h5-",
                                       ".tmp-results.h5-", ".tmp-status-"};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (!strncmp(name, prefix[i], strlen(prefix[i]))) return 1;
  return 0;
}

static int is_leftover(const char *directory, const char *name)
{
  return is_temporary_of_run(name) || tt_file_is_stale_local(directory, name);
}

static int is_checkpoint(const char *directory, const char *name)
{
  return tt_numbered_name_parse(name, "ckpt-g", 6, ".h5") > 0 || is_leftover(directory, name);
}

static int is_owner(const char *directory, const char *name)
{
  (void)directory;
  return !strcmp(name, "owner");
}

/* Collective */

static tt_err claim_local(const char *directory, tt_run_id *id)
{
  char path[TT_PATH_MAX], text[sizeof id->incarnation + 1], previous_owner[256] = "";
  TT_TRY(make_incarnation(id->incarnation, sizeof id->incarnation));
  if (tt_directory_create(directory))
    return TT_FAIL(CANTCREAT, "%s; choose another run.directory", tt_err_last());
  TT_TRY(join_path(directory, "owner", path));
  if (read_owner(directory, previous_owner, sizeof previous_owner) == TT_OK)
    tt_log_root(TT_LOG_DEBUG, "%s: taken over from %s", directory, previous_owner);
  snprintf(text, sizeof text, "%s\n", id->incarnation);
  TT_TRY(tt_file_write_atomic_local(path, text));
  return tt_directory_remove_files(directory, is_leftover);
}

tt_err tt_ckpt_claim(tt_comm *c, const char *directory, tt_run_id *id)
{
  tt_err e = tt_comm_is_root(c) ? claim_local(directory, id) : TT_OK;
  if (e) e = TT_FAIL(CANTCREAT, "%s", tt_err_last());
  e = tt_agree(c, e);
  if (!e) tt_bcast(c, id->incarnation, sizeof id->incarnation);
  return e;
}

/* Remove the owner file last, so that a start after a kill still finds the owner of the rest. */
static tt_err remove_all_local(const char *directory)
{
  TT_TRY(tt_directory_remove_files(directory, is_checkpoint));
  return tt_directory_remove_files(directory, is_owner);
}

tt_err tt_ckpt_remove_all(tt_comm *c, const char *directory)
{
  return tt_agree(c, tt_comm_is_root(c) ? remove_all_local(directory) : TT_OK);
}
