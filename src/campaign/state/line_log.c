/* line_log.c — see line_log.h. */
#include "src/campaign/state/line_log.h"

#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/files/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tt_line_log {
  char *file;
  int descriptor;     /* -1 = read-only */
  int64_t bytes;      /* of the file up to the end of its last complete line */
  int64_t torn_bytes; /* of the incomplete last line */
  int64_t lines;
};

/* Reading */

static tt_err read_lines(tt_line_log *l, FILE *f, tt_line_log_take *take, void *owner)
{
  char *text = NULL;
  size_t capacity = 0;
  ssize_t n;
  tt_err e = TT_OK;
  while (!e && (n = getline(&text, &capacity, f)) > 0) {
    if (text[n - 1] != '\n') {
      l->torn_bytes = n;
      break;
    }
    e = take(owner, text, (size_t)n, l->lines + 1);
    l->lines += !e;
    l->bytes += n;
  }
  if (!e && ferror(f)) e = TT_FAIL(IO, "%s: %s", l->file, strerror(errno));
  free(text);
  return e;
}

static tt_err read_file(tt_line_log *l, tt_line_log_take *take, void *owner)
{
  FILE *f = NULL;
  if (access(l->file, F_OK) && errno == ENOENT) return TT_OK;
  if (tt_file_open_stream(l->file, &f)) return TT_FAIL(IO, "%s", tt_err_last());
  tt_err e = read_lines(l, f, take, owner);
  fclose(f);
  return e;
}

/* Copy the complete lines to `temporary`, which becomes the file, and stays open to append. */
static tt_err copy_lines(tt_line_log *l, const char *temporary)
{
  char block[4096];
  int64_t left = l->bytes;
  FILE *f = NULL;
  if (left > 0 && tt_file_open_stream(l->file, &f)) return TT_FAIL(IO, "%s", tt_err_last());
  l->descriptor = open(temporary, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  int bad = l->descriptor < 0;
  while (!bad && left > 0) {
    size_t n = fread(block, 1, left < (int64_t)sizeof block ? (size_t)left : sizeof block, f);
    bad = n == 0 || write(l->descriptor, block, n) != (ssize_t)n;
    left -= (int64_t)n;
  }
  bad = bad || fsync(l->descriptor);
  tt_err e = bad ? TT_FAIL(IO, "%s: cannot be copied: %s", l->file, strerror(errno)) : TT_OK;
  if (f) fclose(f);
  l->torn_bytes = 0;
  return e;
}

static tt_err replace_file(tt_line_log *l)
{
  char temporary[TT_PATH_MAX];
  TT_TRY(tt_file_temporary_name_local(l->file, temporary));
  TT_TRY(tt_file_reserve_local(temporary, l->bytes));
  tt_err e = copy_lines(l, temporary);
  if (!e) e = tt_file_publish_local(temporary, l->file);
  if (e) unlink(temporary);
  return e;
}

static tt_err open_file(tt_line_log *l, tt_line_log_use use)
{
  if (use == TT_LINE_LOG_replace) return replace_file(l);
  l->descriptor = open(l->file, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  return l->descriptor < 0 ? TT_FAIL_ERRNO(CANTCREAT, "%s", l->file) : TT_OK;
}

tt_err tt_line_log_open_local(const char *file, tt_line_log_use use, tt_line_log_take *take,
                              void *owner, tt_line_log **out)
{
  tt_line_log *l = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(l, 1));
  l->descriptor = -1;
  tt_err e = TT_ALLOC(l->file, (int64_t)strlen(file) + 1);
  if (!e) strcpy(l->file, file);
  if (!e) e = read_file(l, take, owner);
  if (!e && use != TT_LINE_LOG_read) e = open_file(l, use);
  if (e) tt_line_log_close_local(&l);
  *out = l;
  return e;
}

void tt_line_log_close_local(tt_line_log **l)
{
  if (!*l) return;
  if ((*l)->descriptor >= 0) close((*l)->descriptor);
  tt_free_all(&(*l)->file, l);
}

int64_t tt_line_log_lines(const tt_line_log *l) { return l->lines; }

/* Appending */

/* Check that no other process has written, and remove an incomplete last line. */
static tt_err truncate_torn_line(tt_line_log *l)
{
  struct stat info;
  if (fstat(l->descriptor, &info)) return TT_FAIL(IO, "%s: %s", l->file, strerror(errno));
  if (info.st_size != l->bytes + l->torn_bytes)
    return TT_FAIL(IO,
                   "%s has %lld bytes instead of %" PRId64 ": another process writes to it; is "
                   "the campaign running twice?",
                   l->file, (long long)info.st_size, l->bytes + l->torn_bytes);
  if (l->torn_bytes && ftruncate(l->descriptor, l->bytes))
    return TT_FAIL(IO, "%s: %s", l->file, strerror(errno));
  l->torn_bytes = 0;
  return TT_OK;
}

/* After an error the file may end in a part of the line: remove it now or at the next start. */
static tt_err write_line(tt_line_log *l, const char *text)
{
  ssize_t n = (ssize_t)strlen(text);
  ssize_t done = write(l->descriptor, text, (size_t)n);
  if (done == n && fsync(l->descriptor) == 0) {
    l->bytes += n;
    return TT_OK;
  }
  int error_number = done >= 0 && done < n ? ENOSPC : errno;
  if (done > 0 && ftruncate(l->descriptor, l->bytes)) l->torn_bytes = done;
  return TT_FAIL(IO, "%s: %s: nothing was added to the file; free some space, and try again",
                 l->file, strerror(error_number));
}

static tt_err check_not_replaced(const tt_line_log *l)
{
  struct stat mine, there;
  if (!fstat(l->descriptor, &mine) && !stat(l->file, &there) && mine.st_ino == there.st_ino &&
      mine.st_dev == there.st_dev)
    return TT_OK;
  TT_TRY(tt_owner_check_local(l->file));
  return TT_FAIL(STOPPED, "%s: another process has replaced the file", l->file);
}

tt_err tt_line_log_append_local(tt_line_log *l, const char *text)
{
  TT_TRY(truncate_torn_line(l));
  TT_TRY(write_line(l, text));
  l->lines++;
  return check_not_replaced(l);
}
