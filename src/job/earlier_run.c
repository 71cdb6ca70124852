/* earlier_run.c — see earlier_run.h. */
#include "src/job/earlier_run.h"

#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/hdf5/h5.h"
#include "src/host/status_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

tt_err tt_earlier_run_save_config_local(const tt_job *job)
{
  static const char *const output[] = {"model.h5", "results.h5", "status.json"};
  char path[TT_PATH_MAX];
  for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
    tt_path_join(job->cfg->run_directory, output[i], path);
    TT_TRY(tt_file_check_replaceable(path));
  }
  tt_path_join(job->cfg->run_directory, "config.yaml", path);
  return tt_file_replace_local(path, job->resolved);
}

void tt_earlier_run_difference_local(const tt_job *job, char *text, int64_t size)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  char path[TT_PATH_MAX];
  tt_config *before = NULL;
  *text = '\0';
  tt_path_join(job->cfg->run_directory, "config.yaml", path);
  if (access(path, F_OK) == 0 && !tt_config_load(path, NULL, 0, &before))
    tt_config_difference(before, job->cfg, text, size);
  tt_config_destroy(&before);
  *tt_err_record_of_thread() = kept;
}

/* Whether a text of /provenance, an attribute or a dataset, is `want`. */
static int has_text(tt_h5_reader *r, const char *name, const char *want)
{
  char *text = NULL, path[64];
  tt_err e;
  snprintf(path, sizeof path, "provenance/%s", name);
  if (tt_h5_has_attr_local(r, "provenance", name))
    e = tt_h5_read_attr_text_local(r, "provenance", name, &text);
  else if (tt_h5_has_local(r, path))
    e = tt_h5_read_text_local(r, path, &text);
  else
    return 0;
  int same = !e && !strcmp(text, want);
  tt_free(text);
  return same;
}

static int is_of_job(const tt_job *job, const char *path)
{
  char hash[20];
  tt_h5_reader *r = NULL;
  snprintf(hash, sizeof hash, "%016" PRIx64, job->data->hash);
  if (access(path, F_OK) || tt_h5_open_local(path, &r)) return 0;
  int same = has_text(r, "resolved_config", job->resolved) && has_text(r, "data_hash_xxh3", hash) &&
             has_text(r, "version", "tutti " TUTTI_VERSION);
  tt_h5_close_local(&r);
  return same;
}

int tt_earlier_run_is_complete_local(const tt_job *job)
{
  static tt_status_file file;
  char model[TT_PATH_MAX], results[TT_PATH_MAX];
  const tt_err_record kept = *tt_err_record_of_thread();
  tt_path_join(job->cfg->run_directory, "model.h5", model);
  tt_path_join(job->cfg->run_directory, "results.h5", results);
  int complete = !tt_status_file_read_local(job->cfg->run_directory, &file) &&
                 !strcmp(file.status.state, "done") && file.status.exit_code == 0 &&
                 is_of_job(job, model) && is_of_job(job, results);
  *tt_err_record_of_thread() = kept;
  return complete;
}
