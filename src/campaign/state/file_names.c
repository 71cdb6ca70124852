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
static void mark_cut(int length, char path[TT_PATH_ROOM])
{
  if (length < 0 || length >= TT_PATH_ROOM) path[0] = '\0';
}

void tt_campaign_path(const char *directory, const char *name, char path[TT_PATH_ROOM])
{
  mark_cut(snprintf(path, TT_PATH_ROOM, "%s/%s", directory, name), path);
}

void tt_round_path(const char *directory, int64_t round, const char *name, char path[TT_PATH_ROOM])
{
  const char *slash = *name ? "/" : "";
  mark_cut(
      snprintf(path, TT_PATH_ROOM, "%s/round-%04" PRId64 "%s%s", directory, round, slash, name),
      path);
}

static tt_err make_one(const char *path)
{
  struct stat is;
  if (mkdir(path, 0777) == 0) return TT_OK;
  int why = errno;
  if (stat(path, &is) == 0) {
    if (S_ISDIR(is.st_mode)) return TT_OK;
    why = ENOTDIR;
  }
  return TT_FAIL(CANTCREAT, "%s: directory cannot be made: %s", path, strerror(why));
}

tt_err tt_make_directory_local(const char *path)
{
  char part[TT_PATH_ROOM];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part)
    return TT_FAIL(CANTCREAT, "'%.80s': no name for a directory (%zu characters)", path, n);
  for (size_t i = 1; i < n; i++) {
    if (path[i] != '/' || path[i - 1] == '/') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    TT_TRY(make_one(part));
  }
  return make_one(path);
}

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at)
{
  (void)is, (void)at;
  return (type == FTW_DP ? rmdir(path) : unlink(path)) && errno != ENOENT ? errno : 0;
}

tt_err tt_remove_directory_local(const char *path)
{
  int why = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  if (why < 0) why = errno;
  if (why && why != ENOENT) return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(why));
  return TT_OK;
}

tt_err tt_round_remove_local(const char *directory, int64_t round)
{
  char path[TT_PATH_ROOM];
  tt_round_path(directory, round, "", path);
  return tt_remove_directory_local(path);
}

tt_err tt_put_beside_local(const char *directory, const char *name)
{
  char from[TT_PATH_ROOM], beside[TT_PATH_ROOM + 32], to[TT_PATH_ROOM];
  tt_campaign_path(directory, name, from);
  for (int n = 1; n < 100000; n++) {
    snprintf(beside, sizeof beside, "%s.before-%d", directory, n);
    tt_campaign_path(beside, name, to);
    if (*to && !access(to, F_OK)) continue;
    TT_TRY(tt_make_directory_local(beside));
    if (rename(from, to))
      return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
    return TT_OK;
  }
  return TT_FAIL(IO, "%s: too many of its kind are put aside already; remove some", from);
}
