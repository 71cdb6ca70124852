/* file_names.c — see file_names.h. */
#include "src/campaign/state/file_names.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A truncated path would name another file. */
static void clear_if_truncated(int length, char path[TT_PATH_MAX])
{
  if (length < 0 || length >= TT_PATH_MAX) path[0] = '\0';
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

tt_err tt_label_groups_list_local(const char *label, int64_t **number, int64_t *count)
{
  return tt_directory_list_numbers(label, "", 4, "", number, count);
}

void tt_label_group_directory(const char *label, int64_t number, char path[TT_PATH_MAX])
{
  clear_if_truncated(snprintf(path, TT_PATH_MAX, "%s/%04" PRId64, label, number), path);
}

tt_err tt_label_group_ended_local(const char *group, int *labeled, int *failed)
{
  char path[TT_PATH_MAX];
  tt_path_join(group, TT_LABEL_ACCEPTED_FILE, path);
  TT_TRY(tt_file_exists(path, labeled));
  tt_path_join(group, TT_LABEL_FAILED_FILE, path);
  return tt_file_exists(path, failed);
}

tt_err tt_label_progress_read_local(const char *directory, int64_t round, tt_label_progress *out)
{
  char label[TT_PATH_MAX], group[TT_PATH_MAX];
  int64_t *number = NULL;
  *out = (tt_label_progress){0};
  tt_round_path(directory, round, "label", label);
  TT_TRY(tt_label_groups_list_local(label, &number, &out->groups));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < out->groups; i++) {
    int labeled = 0, failed = 0;
    tt_label_group_directory(label, number[i], group);
    e = tt_label_group_ended_local(group, &labeled, &failed);
    out->labeled += labeled;
    out->failed += failed && !labeled;
  }
  tt_free(number);
  return e;
}
