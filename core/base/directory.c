/* directory.c — see directory.h. */
#include "core/base/directory.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tt_path_join(const char *directory, const char *name, char path[TT_PATH_MAX])
{
  if (snprintf(path, TT_PATH_MAX, "%s/%s", directory, name) >= TT_PATH_MAX) *path = '\0';
}

/* Create and remove. */

static tt_err create_one(const char *path)
{
  struct stat is;
  if (mkdir(path, 0777) == 0) return TT_OK;
  int error_number = errno;
  if (stat(path, &is) == 0) {
    if (S_ISDIR(is.st_mode)) return TT_OK;
    error_number = ENOTDIR;
  } else if (tt_errno_is_disk(errno)) {
    error_number = errno;
  }
  return TT_FAIL(CANTCREAT, "%s: cannot create the directory: %s", path, strerror(error_number));
}

tt_err tt_directory_create(const char *path)
{
  char part[TT_PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part)
    return TT_FAIL(CANTCREAT, "'%.80s' cannot be a directory: the path has %zu characters", path,
                   n);
  for (size_t i = 1; i < n; i++) {
    if (path[i] != '/' || path[i - 1] == '/') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    TT_TRY(create_one(part));
  }
  return create_one(path);
}

static int remove_entry(const char *path, const struct stat *is, int type, struct FTW *at)
{
  (void)is, (void)at;
  return (type == FTW_DP ? rmdir(path) : unlink(path)) && errno != ENOENT ? errno : 0;
}

tt_err tt_directory_remove(const char *path)
{
  int error_number = nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  if (error_number < 0) error_number = errno;
  if (error_number && error_number != ENOENT)
    return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(error_number));
  return TT_OK;
}

/* Entries of a directory. */

/* Call `visit` for every name. A missing directory, or a file in its place, counts as empty. */
static tt_err visit_names(const char *directory, tt_err (*visit)(void *arg, const char *name),
                          void *arg)
{
  DIR *d = opendir(directory);
  if (!d && (errno == ENOENT || errno == ENOTDIR)) return TT_OK;
  if (!d) return TT_FAIL(IO, "%s: cannot be listed: %s", directory, strerror(errno));
  tt_err e = TT_OK;
  errno = 0;
  for (struct dirent *entry = readdir(d); !e && entry; errno = 0, entry = readdir(d))
    e = visit(arg, entry->d_name);
  if (!e && errno) e = TT_FAIL(IO, "%s: cannot be listed: %s", directory, strerror(errno));
  closedir(d);
  return e;
}

typedef struct file_filter {
  const char *directory, *prefix;
  int (*matches)(const char *directory, const char *name);
} file_filter;

static tt_err remove_if_match(void *arg, const char *name)
{
  const file_filter *filter = arg;
  char path[TT_PATH_MAX];
  if (strncmp(name, filter->prefix, strlen(filter->prefix)) != 0 ||
      !filter->matches(filter->directory, name))
    return TT_OK;
  if (snprintf(path, sizeof path, "%s/%s", filter->directory, name) >= TT_PATH_MAX)
    return TT_FAIL(IO, "%s: the path is too long", filter->directory);
  if (unlink(path) != 0 && errno != ENOENT)
    return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(errno));
  return TT_OK;
}

tt_err tt_directory_remove_files(const char *directory, const char *prefix,
                                 int (*matches)(const char *directory, const char *name))
{
  file_filter filter = {directory, prefix, matches};
  return visit_names(directory, remove_if_match, &filter);
}

int64_t tt_numbered_name_parse(const char *name, const char *prefix, int digits, const char *suffix)
{
  char again[256];
  size_t skip = strlen(prefix);
  if (strncmp(name, prefix, skip) != 0 || !isdigit((unsigned char)name[skip])) return -1;
  int64_t number = strtoll(name + skip, NULL, 10);
  int n = snprintf(again, sizeof again, "%s%0*" PRId64 "%s", prefix, digits, number, suffix);
  return n < (int)sizeof again && strcmp(again, name) == 0 ? number : -1;
}

typedef struct number_list {
  const char *prefix, *suffix;
  int digits;
  int64_t count, capacity, *number; /* [count] */
} number_list;

static tt_err append_number(void *arg, const char *name)
{
  number_list *list = arg;
  int64_t value = tt_numbered_name_parse(name, list->prefix, list->digits, list->suffix);
  if (value < 0) return TT_OK;
  TT_TRY(TT_GROW(list->number, list->count, 1, list->capacity));
  list->number[list->count++] = value;
  return TT_OK;
}

tt_err tt_directory_list_numbers(const char *directory, const char *prefix, int digits,
                                 const char *suffix, int64_t **number, int64_t *count)
{
  number_list list = {.prefix = prefix, .suffix = suffix, .digits = digits};
  tt_err e = visit_names(directory, append_number, &list);
  if (e) tt_free(list.number);
  *number = list.number;
  *count = e ? 0 : list.count;
  if (*count) qsort(*number, (size_t)*count, sizeof **number, tt_compare_i64);
  return e;
}

/* Back up, open and read. */

tt_err tt_file_exists(const char *path, int *exists)
{
  struct stat is;
  *exists = stat(path, &is) == 0;
  if (*exists || errno == ENOENT || errno == ENOTDIR) return TT_OK;
  return TT_FAIL(IO, "%s: cannot be read: %s", path, strerror(errno));
}

tt_err tt_backup_name(const char *path, const char *entry, char backup[TT_PATH_MAX])
{
  char name[TT_PATH_MAX];
  int exists = 0;
  for (int n = 1; n < 100000; n++) {
    int length = snprintf(name, sizeof name, "%s.before-%d%s%s", path, n, *entry ? "/" : "", entry);
    if (length >= (int)sizeof name) break;
    TT_TRY(tt_file_exists(name, &exists));
    if (exists) continue;
    memcpy(backup, name, (size_t)length + 1);
    return TT_OK;
  }
  return TT_FAIL(IO, "%s: there are too many backups, or the path is too long; remove old backups",
                 path);
}

tt_err tt_backup(const char *path, const char *entry)
{
  char old[TT_PATH_MAX], backup[TT_PATH_MAX];
  int exists = 1, n = snprintf(old, sizeof old, "%s%s%s", path, *entry ? "/" : "", entry);
  if (n < (int)sizeof old) TT_TRY(tt_file_exists(old, &exists));
  if (!exists) return TT_OK;
  TT_TRY(tt_backup_name(path, entry, backup));
  if (*entry) {
    char *slash = strrchr(backup, '/');
    *slash = '\0';
    TT_TRY(tt_directory_create(backup));
    *slash = '/';
  }
  if (rename(old, backup))
    return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", old, backup, strerror(errno));
  tt_log_root(TT_LOG_INFO, "%s is renamed to %s", old, backup);
  return TT_OK;
}

static const char *kind_of_file(mode_t mode)
{
  return S_ISDIR(mode)    ? "a directory"
         : S_ISFIFO(mode) ? "a FIFO"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

static tt_err wrong_kind(const char *path, mode_t mode)
{
  return TT_FAIL(NOINPUT, "%s is %s, not a regular file; give another file", path,
                 kind_of_file(mode));
}

/* A socket cannot be opened at all: ENXIO. */
tt_err tt_file_open_read(const char *path, int *fd)
{
  struct stat is;
  int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (opened < 0 && errno == ENXIO && stat(path, &is) == 0) return wrong_kind(path, is.st_mode);
  if (opened < 0) return TT_FAIL_ERRNO(NOINPUT, "%s", path);
  tt_err e = fstat(opened, &is)         ? TT_FAIL_ERRNO(NOINPUT, "%s", path)
             : S_ISREG(is.st_mode) == 0 ? wrong_kind(path, is.st_mode)
                                        : TT_OK;
  if (e)
    close(opened);
  else
    *fd = opened;
  return e;
}

tt_err tt_file_open_stream(const char *path, FILE **out)
{
  int fd = -1;
  TT_TRY(tt_file_open_read(path, &fd));
  *out = fdopen(fd, "rb");
  if (*out) return TT_OK;
  close(fd);
  return TT_FAIL(NOINPUT, "%s: %s", path, strerror(errno));
}

tt_err tt_file_read_text(const char *path, char *text, int64_t capacity)
{
  int64_t have = 0;
  int fd = -1;
  TT_TRY(tt_file_open_read(path, &fd));
  ssize_t n = 1;
  while (n > 0 && have < capacity - 1) {
    n = read(fd, text + have, (size_t)(capacity - 1 - have));
    if (n > 0) have += n;
    if (n < 0 && errno == EINTR) n = 1;
  }
  text[have] = 0;
  close(fd);
  return n < 0 ? TT_FAIL(IO, "%s: cannot be read: %s", path, strerror(errno)) : TT_OK;
}

/* The links in /dev and /proc that name open files: a rename would replace /dev/stdout itself. */
static int names_open_file(const char *path)
{
  char target[6];
  return readlink(path, target, sizeof target) == sizeof target &&
         !memcmp(target, "/proc/", sizeof target);
}

tt_err tt_file_check_replaceable(const char *path)
{
  struct stat is;
  int open_file = names_open_file(path);
  if (!open_file && (stat(path, &is) || S_ISREG(is.st_mode))) return TT_OK;
  return TT_FAIL(CANTCREAT, "%s is %s, not a regular file; give another output file", path,
                 open_file ? "a link to an open file" : kind_of_file(is.st_mode));
}

tt_err tt_file_check_output(const char *output, int force, const char *const input[2])
{
  struct stat to, from;
  for (int i = 0; i < 2 && !stat(output, &to); i++)
    if (input[i] && !stat(input[i], &from) && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
      return TT_FAIL(USAGE, "%s is read by this command; give another output file", output);
  TT_TRY(tt_file_check_replaceable(output));
  if (!force && lstat(output, &to) == 0)
    return TT_FAIL(CANTCREAT, "%s exists; give another output file, or --force to replace it",
                   output);
  return TT_OK;
}
