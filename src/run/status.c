/* status.c — see status.h. */
#include "run/status.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The text as JSON: quotes and backslashes escaped, control characters as blanks. */
static void quote(FILE *f, const char *text)
{
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', f);
    fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
  }
  fputc('"', f);
}

static void print(FILE *f, const tt_run_status *s)
{
  char when[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  fprintf(f, "{\n  \"state\": \"%s\",\n  \"reason\": ", s->state);
  quote(f, s->reason);
  fprintf(f, ",\n  \"exit_code\": %d,\n  \"generation\": %" PRId64 ",\n", s->exit_code,
          s->generation);
  fprintf(f,
          "  \"members\": %" PRId64 ",\n  \"training\": %" PRId64 ",\n  \"finished\": %" PRId64
          ",\n  \"early_stopped\": %" PRId64 ",\n  \"diverged\": %" PRId64 ",\n",
          s->members, s->training, s->finished, s->early_stopped, s->diverged);
  fprintf(f, "  \"epoch\": %" PRId64 ",\n  \"seconds\": %.3f,\n  \"time\": \"%s\",\n", s->epoch,
          s->seconds, when);
  fprintf(f, "  \"pid\": %ld\n}\n", (long)getpid());
}

tt_err tt_status_write_local(const char *directory, const tt_run_status *s)
{
  char path[PATH_MAX], temporary[PATH_MAX];
  snprintf(path, sizeof path, "%s/status.json", directory);
  int n = snprintf(temporary, sizeof temporary, "%s/.tmp-status-%ld", directory, (long)getpid());
  if (n >= (int)sizeof temporary) return TT_FAIL(IO, "%s: path is too long", directory);
  FILE *f = fopen(temporary, "w");
  if (!f) return TT_FAIL(IO, "%s: %s", temporary, strerror(errno));
  print(f, s);
  int bad = ferror(f);
  if (fclose(f) || bad || rename(temporary, path)) {
    int why = errno;
    unlink(temporary);
    return TT_FAIL(IO, "%s: %s", path, strerror(why));
  }
  return TT_OK;
}
