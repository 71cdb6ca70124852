/* file_names.c — see file_names.h. */
#include "src/campaign/state/file_names.h"

#include "core/base/json.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A truncated path would name another file. */
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

tt_err tt_label_groups_list_local(const char *label, int64_t **number, int64_t *count)
{
  return tt_directory_list_numbers(label, "", 4, "", number, count);
}

void tt_label_group_directory(const char *label, int64_t number, char path[TT_PATH_MAX])
{
  clear_if_truncated(snprintf(path, TT_PATH_MAX, "%s/%04" PRId64, label, number), path);
}

static tt_err has_file(const char *directory, const char *name, int *exists)
{
  char path[TT_PATH_MAX];
  tt_campaign_path(directory, name, path);
  return tt_file_exists(path, exists);
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
    int labelled = 0, failed = 0;
    tt_label_group_directory(label, number[i], group);
    e = has_file(group, TT_LABEL_ACCEPTED_FILE, &labelled);
    if (!e && !labelled) e = has_file(group, TT_LABEL_FAILED_FILE, &failed);
    out->labelled += labelled;
    out->failed += failed;
  }
  tt_free(number);
  return e;
}

const char *tt_label_job_numbers_local(const char *directory, int64_t round, char *text,
                                       int64_t room)
{
  char path[TT_PATH_MAX];
  json_t *record = NULL, *job;
  size_t i, used = 0, size = (size_t)room;
  text[0] = '\0';
  tt_round_path(directory, round, "label/job.json", path);
  if (tt_json_read_file(path, &record)) return text;
  json_array_foreach(json_object_get(record, "jobs"), i, job)
  {
    json_int_t id = json_integer_value(json_object_get(job, "id"));
    const char *state = json_string_value(json_object_get(job, "state"));
    if (id < 1 || !state || strcmp(state, "submitted") != 0 || used + 24 > size) continue;
    used +=
        (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT, used ? ":" : "", id);
  }
  json_decref(record);
  return text;
}
