/* file_names.c — see file_names.h. */
#include "src/campaign/state/file_names.h"

#include <inttypes.h>
#include <stdio.h>

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

tt_err tt_round_remove_local(const char *directory, int64_t round)
{
  char path[TT_PATH_MAX];
  tt_round_path(directory, round, "", path);
  return tt_directory_remove(path);
}
