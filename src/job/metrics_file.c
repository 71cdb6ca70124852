/* metrics_file.c — see metrics_file.h. */
#include "src/job/metrics_file.h"

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/files/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tt_err make_path(const char *directory, char path[TT_PATH_MAX])
{
  if (snprintf(path, TT_PATH_MAX, "%s/metrics.jsonl", directory) >= TT_PATH_MAX)
    return TT_FAIL(IO, "%s: the path is too long", directory);
  return tt_file_check_replaceable(path);
}

tt_err tt_metrics_file_remove_local(const char *directory)
{
  char path[TT_PATH_MAX];
  TT_TRY(make_path(directory, path));
  TT_TRY(tt_owner_check_local(path));
  if (!unlink(path) || errno == ENOENT) return TT_OK;
  return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(errno));
}

static tt_err format_line(const tt_progress *p, const tt_metrics_line *line, char **text)
{
  static const char *const loss[] = {"loss_q25", "loss_q50", "loss_q75"};
  char when[32];
  json_t *object = json_object();
  tt_json_set(&object, "time", tt_json_text(tt_utc_text(when)));
  tt_json_set(&object, "start", tt_json_text(line->start));
  tt_json_set(&object, "seconds", tt_json_number(round(1e3 * line->seconds) / 1e3));
  tt_json_set(&object, "steps", json_integer(line->steps));
  tt_json_set(&object, "epoch", json_integer(p->training ? p->epoch_min : line->epochs));
  tt_json_set(&object, "epochs", json_integer(line->epochs));
  for (int i = 0; i < 3; i++) tt_json_set(&object, loss[i], tt_json_number(p->loss[i]));
  tt_json_set(&object, "training", json_integer(p->training));
  tt_json_set(&object, "finished", json_integer(p->finished));
  tt_json_set(&object, "early_stopped", json_integer(p->early_stopped));
  tt_json_set(&object, "diverged", json_integer(p->diverged));
  tt_json_set(&object, "rate", tt_json_number(round(line->rate)));
  return tt_json_format(object, 0, text);
}

/* A kill may have left a line without its end: it gets one. */
static int ends_in_newline(int fd)
{
  char last = '\n';
  off_t size = lseek(fd, 0, SEEK_END);
  return size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

static tt_err append(const char *directory, const char *text)
{
  char path[TT_PATH_MAX];
  TT_TRY(make_path(directory, path));
  TT_TRY(tt_owner_check_local(path));
  int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno));
  size_t n = strlen(text);
  int bad = !ends_in_newline(fd) && write(fd, "\n", 1) != 1;
  bad |= write(fd, text, n) != (ssize_t)n;
  bad |= close(fd) != 0;
  return bad ? TT_FAIL(IO, "%s: cannot be written: %s", path, strerror(errno)) : TT_OK;
}

void tt_metrics_file_append_local(tt_metrics_file *f, const char *directory,
                                  const tt_progress *progress, const tt_metrics_line *line, int now)
{
  const tt_err_record kept = *tt_err_record_of_thread();
  char *text = NULL;
  double interval = fmax(1.0, line->seconds / 1000.0);
  if (f->failed || (!now && f->lines && line->seconds - f->written < interval)) return;
  tt_err e = format_line(progress, line, &text);
  if (!e) e = append(directory, text);
  if (e && e != TT_E_STOPPED)
    tt_log_root(TT_LOG_WARN, "no more metrics are written: %s", tt_err_last());
  f->failed = e != TT_OK;
  f->written = line->seconds;
  f->lines++;
  tt_free(text);
  *tt_err_record_of_thread() = kept;
}
