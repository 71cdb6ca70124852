/* status_file.c — see status_file.h. */
#include "src/host/status_file.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/files/files.h"
#include "io/files/memory.h"
#include "io/files/owner.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 3 };

void tt_run_status_to_json(json_t **object, const tt_run_status *s)
{
#define X(name) tt_json_set(object, #name, tt_json_text(s->name));
  TT_RUN_STATUS_TEXTS(X)
#undef X
#define X(name) tt_json_set(object, #name, json_integer(s->name));
  TT_RUN_STATUS_INTEGERS(X)
#undef X
#define X(name) tt_json_set(object, #name, tt_json_number(round(1e3 * s->name) / 1e3));
  TT_RUN_STATUS_REALS(X)
#undef X
}

static tt_err format_status(const tt_run_status *s, char **text)
{
  char when[32];
  tt_run_status written = *s;
  json_t *object = json_object();
  written.time = tt_utc_text(when);
  tt_run_status_to_json(&object, &written);
  tt_json_set(&object, "pid", json_integer(getpid()));
  return tt_json_format(object, 2, text);
}

static const char spare_name[] = TT_OWNER_TEMPORARY "status";

static tt_err join(const char *directory, const char *name, char path[TT_PATH_MAX])
{
  return snprintf(path, TT_PATH_MAX, "%s/%s", directory, name) < TT_PATH_MAX
             ? TT_OK
             : TT_FAIL(IO, "%s: path is too long", directory);
}

/* The error is that of the first way. */
static tt_err replace(const char *path, const char *text, const char *spare)
{
  tt_err e = tt_file_replace_local(path, text);
  const tt_err_record kept = *tt_err_record_of_thread();
  if (!e || e == TT_E_STOPPED) return e;
  if (!access(spare, F_OK) && !tt_file_replace_by_spare_local(path, text, spare)) return TT_OK;
  *tt_err_record_of_thread() = kept;
  return e;
}

tt_err tt_status_file_write_local(const char *directory, const tt_run_status *s)
{
  char path[TT_PATH_MAX], spare[TT_PATH_MAX], *text = NULL;
  TT_TRY(join(directory, "status.json", path));
  TT_TRY(join(directory, spare_name, spare));
  TT_TRY(format_status(s, &text));
  int in_memory = tt_memory_is_path(path);
  tt_err e = in_memory ? tt_memory_put_text(path, text) : replace(path, text, spare);
  if (!e && !in_memory && s->exit_code >= 0) unlink(spare);
  tt_free(text);
  return e;
}

void tt_status_file_report_local(const char *directory, const tt_run_status *s)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  char spare[TT_PATH_MAX];
  tt_err e = TT_E_IO;
  for (int i = 0; i < ATTEMPTS && e && e != TT_E_STOPPED; i++)
    e = tt_status_file_write_local(directory, s);
  if (e && e != TT_E_STOPPED) tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
  if (!e && s->exit_code < 0 && !tt_memory_is_path(directory) &&
      !join(directory, spare_name, spare))
    (void)tt_file_create_spare_local(spare);
  *tt_err_record_of_thread() = kept;
}

/* Append a text to f->text, of which *used bytes are used; "" if the value is not a string. */
static const char *keep_text(tt_status_file *f, size_t *used, const json_t *value)
{
  char *dst = f->text + *used;
  size_t capacity = sizeof f->text - *used;
  const char *text = json_string_value(value);
  size_t bytes = (size_t)snprintf(dst, capacity, "%s", text ? text : "") + 1;
  tt_text_make_printable(dst, "\n");
  *used += bytes < capacity ? bytes : capacity - 1;
  return dst;
}

/* Missing fields become "" or 0. */
static void read_fields(const json_t *object, tt_status_file *f)
{
  size_t used = 0;
  tt_run_status *s = &f->status;
#define X(name) s->name = keep_text(f, &used, json_object_get(object, #name));
  TT_RUN_STATUS_TEXTS(X)
#undef X
#define X(name) s->name = json_integer_value(json_object_get(object, #name));
  TT_RUN_STATUS_INTEGERS(X)
#undef X
#define X(name) s->name = json_number_value(json_object_get(object, #name));
  TT_RUN_STATUS_REALS(X)
#undef X
  f->pid = json_integer_value(json_object_get(object, "pid"));
}

tt_err tt_status_file_read_local(const char *directory, tt_status_file *out)
{
  char path[TT_PATH_MAX];
  struct stat info;
  json_t *object = NULL;
  int exists = 0;
  TT_TRY(join(directory, "status.json", path));
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists || stat(path, &info))
    return TT_FAIL(NOINPUT,
                   "%s: %s: no run has started in this directory (run.directory or "
                   "campaign.directory of the file)",
                   path, strerror(errno));
  TT_TRY(tt_json_read_file(path, &object));
  out->age = (int64_t)(time(NULL) - info.st_mtime);
  read_fields(object, out);
  json_decref(object);
  out->job = out->restart = 0;
  sscanf(out->status.incarnation, "%" SCNd64 ".%" SCNd64, &out->job, &out->restart);
  if (!*out->status.state) return TT_FAIL(DATA, "%s: not the status file of a run", path);
  return TT_OK;
}

tt_err tt_status_file_update_local(const char *directory, const char *incarnation,
                                   const char *state, const char *reason, int exit_code)
{
  static tt_status_file f; /* a watchdog's stack is small */
  if (tt_status_file_read_local(directory, &f))
    f.status = (tt_run_status){.incarnation = incarnation};
  if (strcmp(f.status.incarnation, incarnation) != 0) return TT_OK;
  f.status.state = state;
  f.status.reason = reason;
  f.status.exit_code = exit_code;
  return tt_status_file_write_local(directory, &f.status);
}
