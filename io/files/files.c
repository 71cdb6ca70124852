/* files.c — see files.h. */
#include "io/files/files.h"

#include "core/base/text.h"
#include "io/files/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* A file name has at most 255 bytes in total: prefix, name, host, process and random number. */
enum { NAME_ROOM = 160, RANDOM_DIGITS = 16, STALE_SECONDS = 3600 };

void tt_file_host_name_local(char host[TT_HOST_ROOM])
{
  char full[256] = "host";
  gethostname(full, sizeof full - 1);
  snprintf(host, TT_HOST_ROOM, "%s", full);
}

void tt_file_dirname_local(const char *path, char directory[TT_PATH_MAX])
{
  const char *slash = strrchr(path, '/');
  if (!slash)
    snprintf(directory, TT_PATH_MAX, ".");
  else if (slash == path)
    snprintf(directory, TT_PATH_MAX, "/");
  else
    snprintf(directory, TT_PATH_MAX, "%.*s", (int)(slash - path), path);
}

tt_err tt_file_temporary_name_local(const char *path, char temporary[TT_PATH_MAX])
{
  char host[TT_HOST_ROOM];
  uint64_t random = 0;
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  TT_TRY(tt_file_check_replaceable(path));
  tt_file_host_name_local(host);
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    return TT_FAIL(CANTCREAT, "%s: no random number for a temporary name: %s", path,
                   strerror(errno));
  const char *begin = tt_owner_covers_local(path) ? TT_OWNER_TEMPORARY : ".tmp-";
  int n = snprintf(temporary, TT_PATH_MAX, "%.*s%s%.*s-%s-%ld-%016" PRIx64, (int)(name - path),
                   path, begin, NAME_ROOM, name, host, (long)getpid(), random);
  if (n >= TT_PATH_MAX) return TT_FAIL(CANTCREAT, "%s: the path is too long", path);
  return TT_OK;
}

static tt_err disk_full_error(const char *temporary, int64_t bytes, const char *why)
{
  char directory[TT_PATH_MAX];
  tt_file_dirname_local(temporary, directory);
  return TT_FAIL(IO,
                 "disk full: %.3f MiB do not fit into %s (%s); free some space, or write "
                 "elsewhere",
                 (double)bytes / 1048576.0, directory, why);
}

static tt_err check_space(int fd, const char *temporary, int64_t bytes)
{
  struct statvfs fs;
  char why[96];
  if (fstatvfs(fd, &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes) {
    snprintf(why, sizeof why, "%.3f MiB are free",
             (double)fs.f_bavail * (double)fs.f_frsize / 1048576.0);
    return disk_full_error(temporary, bytes, why);
  }
  /* Not posix_fallocate: where the kernel call is not supported, it would write every block. */
  if (fallocate(fd, 0, 0, bytes) != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    return disk_full_error(temporary, bytes,
                           errno == EFBIG ? "file size limit, ulimit -f" : strerror(errno));
  if (ftruncate(fd, 0) != 0)
    return TT_FAIL(IO, "%s: cannot be truncated: %s", temporary, strerror(errno));
  return TT_OK;
}

/* Remove the last "-part" from `name` and return the part; NULL if there is none. */
static char *split_last(char *name)
{
  char *dash = strrchr(name, '-');
  if (!dash) return NULL;
  *dash = 0;
  return dash + 1;
}

/* The process that created the temporary file `name`: 0 on another host, -1 if it is no name of a
 * temporary file. */
static long process_of(const char *name)
{
  char copy[256], host[TT_HOST_ROOM];
  if (strncmp(name, ".tmp-", 5) != 0 || strlen(name) >= sizeof copy) return -1;
  snprintf(copy, sizeof copy, "%s", name);
  char *random = split_last(copy);
  char *process = random ? split_last(copy) : NULL;
  if (!process || strlen(random) != RANDOM_DIGITS ||
      strspn(random, "0123456789abcdef") != RANDOM_DIGITS)
    return -1;
  long pid = strtol(process, NULL, 10);
  if (pid < 1) return -1;
  tt_file_host_name_local(host);
  size_t tail = strlen(host), all = strlen(copy);
  int ours = all > tail && copy[all - tail - 1] == '-' && !strcmp(copy + all - tail, host);
  return ours ? pid : 0;
}

static int has_ended(long process)
{
  return process > 0 && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

static int is_abandoned(const char *directory, const char *name)
{
  (void)directory;
  return has_ended(process_of(name));
}

/* Remove what killed processes of this host have left of the output that `temporary` will become.
 * In an owned directory, only the claim removes files. An error is left to what comes next. */
static void remove_abandoned(const char *temporary)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  char directory[TT_PATH_MAX], prefix[256];
  const char *slash = strrchr(temporary, '/'), *name = slash ? slash + 1 : temporary;
  if (!strncmp(name, TT_OWNER_TEMPORARY, strlen(TT_OWNER_TEMPORARY))) return;
  snprintf(prefix, sizeof prefix, "%s", name);
  for (int i = 0; i < 2; i++)
    if (!split_last(prefix)) return;
  tt_file_dirname_local(temporary, directory);
  (void)tt_directory_remove_files(directory, prefix, is_abandoned);
  *tt_err_record_of_thread() = kept;
}

tt_err tt_file_reserve_local(const char *temporary, int64_t bytes)
{
  remove_abandoned(temporary);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) {
    char directory[TT_PATH_MAX];
    tt_err full = tt_errno_is_disk(errno) ? TT_E_IO : TT_E_CANTCREAT;
    int why = errno;
    tt_file_dirname_local(temporary, directory);
    return tt_fail_at(__FILE__, __LINE__, full,
                      "cannot create a file in %s: %s; choose another directory", directory,
                      strerror(why));
  }
  tt_err e = bytes > 0 ? check_space(fd, temporary, bytes) : TT_OK;
  close(fd);
  if (e) unlink(temporary);
  return e;
}

tt_err tt_file_sync_local(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return TT_FAIL(IO, "%s: cannot be opened for fsync: %s", path, strerror(errno));
  tt_err e = TT_OK;
  /* Some file systems cannot sync a directory and return EINVAL: no data are lost there. */
  if (fsync(fd) != 0 && errno != EINVAL)
    e = TT_FAIL(IO, "%s: fsync failed, the data may be lost: %s", path, strerror(errno));
  close(fd);
  return e;
}

static tt_err rename_owned(const char *temporary, const char *path)
{
  TT_TRY(tt_owner_check_local(path));
  TT_TRY(tt_file_check_replaceable(path));
  if (rename(temporary, path) == 0) return TT_OK;
  int why = errno;
  TT_TRY(tt_owner_check_local(path)); /* a later owner has removed `temporary` */
  return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", temporary, path, strerror(why));
}

tt_err tt_file_publish_local(const char *temporary, const char *path)
{
  char directory[TT_PATH_MAX];
  TT_TRY(rename_owned(temporary, path));
  tt_file_dirname_local(path, directory);
  return tt_file_sync_local(directory);
}

static tt_err write_all(const char *path, const char *text, size_t left)
{
  int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno));
  while (left > 0) {
    ssize_t n = write(fd, text, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text += n;
    left -= (size_t)n;
  }
  tt_err e = left ? TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno)) : TT_OK;
  if (close(fd) != 0 && !e) e = TT_FAIL(IO, "%s: cannot be closed: %s", path, strerror(errno));
  return e;
}

static tt_err write_temporary(const char *path, const char *text, size_t size, int synced,
                              char temporary[TT_PATH_MAX])
{
  TT_TRY(tt_file_temporary_name_local(path, temporary));
  TT_TRY(tt_file_reserve_local(temporary, 0));
  tt_err e = write_all(temporary, text, size);
  if (!e && synced) e = tt_file_sync_local(temporary);
  if (e) unlink(temporary);
  return e;
}

tt_err tt_file_write_temporary_local(const char *path, const char *text,
                                     char temporary[TT_PATH_MAX])
{
  return write_temporary(path, text, strlen(text), 1, temporary);
}

static tt_err write_file(const char *path, const char *text, size_t size, int synced)
{
  char temporary[TT_PATH_MAX];
  TT_TRY(write_temporary(path, text, size, synced, temporary));
  tt_err e = synced ? tt_file_publish_local(temporary, path) : rename_owned(temporary, path);
  if (e) unlink(temporary);
  return e;
}

tt_err tt_file_write_atomic_local(const char *path, const char *text)
{
  return write_file(path, text, strlen(text), 1);
}

tt_err tt_file_print_local(const char *path, tt_err (*put)(FILE *out, void *context), void *context)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return TT_FAIL(MEM, "%s: out of memory", path);
  tt_err e = put(out, context);
  int bad = ferror(out);
  bad |= fclose(out) != 0;
  if (!e && bad) e = TT_FAIL(MEM, "%s: out of memory", path);
  if (!e) e = write_file(path, text, size, 1);
  free(text);
  return e;
}

tt_err tt_file_replace_local(const char *path, const char *text)
{
  return write_file(path, text, strlen(text), 0);
}

tt_err tt_file_create_spare_local(const char *spare)
{
  static const char blank[TT_FILE_SPARE_BYTES];
  if (!access(spare, F_OK)) return TT_OK;
  TT_TRY(tt_file_reserve_local(spare, 0));
  tt_err e = write_all(spare, blank, sizeof blank);
  if (e) unlink(spare);
  return e;
}

tt_err tt_file_replace_by_spare_local(const char *path, const char *text, const char *spare)
{
  size_t size = strlen(text);
  TT_TRY(tt_owner_check_local(path));
  tt_err e = size > TT_FILE_SPARE_BYTES ? TT_FAIL(IO, "%s: the text is too long", path)
                                        : write_all(spare, text, size);
  if (!e && truncate(spare, (off_t)size))
    e = TT_FAIL(IO, "%s: cannot be truncated: %s", spare, strerror(errno));
  if (!e) e = rename_owned(spare, path);
  if (e) unlink(spare);
  return e;
}

static int is_older_than_an_hour(const char *directory, const char *name)
{
  char path[TT_PATH_MAX];
  struct stat s;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return lstat(path, &s) == 0 && time(NULL) - s.st_mtime > STALE_SECONDS;
}

int tt_file_is_stale_local(const char *directory, const char *name)
{
  long process = process_of(name);
  return process >= 0 && (has_ended(process) || is_older_than_an_hour(directory, name));
}

tt_err tt_h5_check_output_local(const char *output, int force, const char *const input[2])
{
  static const char *const end[] = {".csv", ".tsv", ".txt", ".xlsx", ".npy", ".npz", ".json"};
  TT_TRY(tt_file_check_output(output, force, input));
  for (size_t i = 0; i < sizeof end / sizeof *end; i++)
    if (tt_text_ends_in(output, end[i]))
      return TT_FAIL(
          USAGE,
          "%s: the output is an HDF5 file; give a name that ends in .h5 (tutti predict -o "
          "pred.csv writes a table)",
          output);
  return TT_OK;
}
