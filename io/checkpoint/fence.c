/* fence.c — see checkpoint.h: the owner and the files of a run directory. */
#include "io/checkpoint/checkpoint_internal.h"
#include "io/hdf5/owner.h"

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

static tt_err remove_all_local(const char *directory)
{
  TT_TRY(tt_directory_remove_files(directory, "ckpt-g", is_checkpoint));
  return tt_owner_check_local(directory);
}

static tt_err claim_local(const char *directory, tt_run_id *id)
{
  char path[TT_PATH_MAX], text[sizeof id->incarnation + 1];
  TT_TRY(make_incarnation(id->incarnation, sizeof id->incarnation));
  if (tt_directory_create(directory))
    return TT_FAIL(CANTCREAT, "%s; choose another run.directory", tt_err_last());
  TT_TRY(join_path(directory, "owner", path));
  snprintf(text, sizeof text, "%s\n", id->incarnation);
  tt_owner_end_local(directory); /* an earlier claim of this process */
  TT_TRY(tt_file_write_atomic_local(path, text));
  TT_TRY(tt_owner_begin_local(directory, id->incarnation));
  return tt_ckpt_remove_temporaries_local(directory);
}

tt_err tt_ckpt_claim(tt_comm *c, const char *directory, tt_run_id *id)
{
  tt_err e = tt_comm_is_root(c) ? claim_local(directory, id) : TT_OK;
  if (e == TT_E_IO) e = TT_FAIL(CANTCREAT, "%s", tt_err_last());
  e = tt_agree(c, e);
  if (!e) tt_bcast(c, id->incarnation, sizeof id->incarnation);
  if (!e) e = tt_agree(c, tt_owner_begin_local(directory, id->incarnation));
  if (e) tt_ckpt_release_local(directory);
  return e;
}

void tt_ckpt_release_local(const char *directory) { tt_owner_end_local(directory); }

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
