/* file_names.c — see file_names.h. */
#include "src/campaign/state/file_names.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name that was cut would be another file. */
static void clear_if_truncated(int length, char path[TT_PATH_MAX])
{
  if (length < 0 || length >= TT_PATH_MAX) path[0] = '\0';
}

void tt_campaign_path(const char *directory, const char *name, char path[TT_PATH_MAX])
{
  clear_if_truncated(snprintf(path, TT_PATH_MAX, "%s/%s", directory, name), path);
}

void tt_round_path(const char *directory, int64_t round, const char *name, char path[TT_PATH_MAX])
{
  const char *slash = *name ? "/" : "";
  clear_if_truncated(
      snprintf(path, TT_PATH_MAX, "%s/round-%04" PRId64 "%s%s", directory, round, slash, name),
      path);
}

static tt_err make_one_directory(const char *path)
{
  struct stat is;
  if (mkdir(path, 0777) == 0) return TT_OK;
  int error_number = errno;
  if (stat(path, &is) == 0) {
    if (S_ISDIR(is.st_mode)) return TT_OK;
    error_number = ENOTDIR;
  }
  return TT_FAIL(CANTCREAT, "%s: directory cannot be made: %s", path, strerror(error_number));
}

tt_err tt_make_directories_local(const char *path)
{
  char part[TT_PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part)
    return TT_FAIL(CANTCREAT, "'%.80s': no name for a directory (%zu characters)", path, n);
  for (size_t i = 1; i < n; i++) {
    if (path[i] != '/' || path[i - 1] == '/') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    TT_TRY(make_one_directory(part));
  }
  return make_one_directory(path);
}

static int remove_entry(const char *path, const struct stat *is, int type, struct FTW *at)
{
  (void)is, (void)at;
  return (type == FTW_DP ? rmdir(path) : unlink(path)) && errno != ENOENT ? errno : 0;
}

tt_err tt_remove_tree_local(const char *path)
{
  int error_number = nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  if (error_number < 0) error_number = errno;
  if (error_number && error_number != ENOENT)
    return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(error_number));
  return TT_OK;
}

tt_err tt_round_remove_local(const char *directory, int64_t round)
{
  char path[TT_PATH_MAX];
  tt_round_path(directory, round, "", path);
  return tt_remove_tree_local(path);
}

tt_err tt_backup_entry_local(const char *directory, const char *name)
{
  char from[TT_PATH_MAX], beside[TT_PATH_MAX + 32], to[TT_PATH_MAX];
  tt_campaign_path(directory, name, from);
  for (int n = 1; n < 100000; n++) {
    snprintf(beside, sizeof beside, "%s.before-%d", directory, n);
    tt_campaign_path(beside, name, to);
    if (*to && !access(to, F_OK)) continue;
    TT_TRY(tt_make_directories_local(beside));
    if (rename(from, to))
      return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
    return TT_OK;
  }
  return TT_FAIL(IO, "%s: too many of its kind are put aside already; remove some", from);
}
