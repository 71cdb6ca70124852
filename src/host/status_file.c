/* status_file.c — see status_file.h. */
#include "src/host/status_file.h"

#include "core/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void write_string(FILE *f, const char *key, const char *text)
{
  fprintf(f, "  \"%s\": ", key);
  tt_json_write_string(f, text);
  fputs(",\n", f);
}

static void write_json(FILE *f, const tt_run_status *s)
{
  char when[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  fputs("{\n", f);
  write_string(f, "state", s->state);
  write_string(f, "reason", s->reason);
  write_string(f, "stop", s->stop);
  write_string(f, "incarnation", s->incarnation);
  write_string(f, "time", when);
#define X(name) fprintf(f, "  \"" #name "\": %" PRId64 ",\n", s->name);
  TT_RUN_STATUS_INTEGERS(X)
#undef X
#define X(name) fprintf(f, "  \"" #name "\": %.3f,\n", s->name);
  TT_RUN_STATUS_REALS(X)
#undef X
  fprintf(f, "  \"pid\": %ld\n}\n", (long)getpid());
}

tt_err tt_status_file_write_local(const char *directory, const tt_run_status *s)
{
  char path[PATH_MAX], temporary[PATH_MAX];
  snprintf(path, sizeof path, "%s/status.json", directory);
  int n = snprintf(temporary, sizeof temporary, "%s/.tmp-status-%ld", directory, (long)getpid());
  if (n >= (int)sizeof temporary) return TT_FAIL(IO, "%s: path is too long", directory);
  FILE *f = fopen(temporary, "w");
  if (!f) return TT_FAIL(IO, "%s: %s", temporary, strerror(errno));
  write_json(f, s);
  int bad = ferror(f);
  if (fclose(f) || bad || rename(temporary, path)) {
    int why = errno;
    unlink(temporary);
    return TT_FAIL(IO, "%s: %s", path, strerror(why));
  }
  return TT_OK;
}

/* The value of a key, which begins a line; NULL if it is not there. No value holds a line end. */
static char *find_value(char *text, const char *key)
{
  char pattern[64];
  int n = snprintf(pattern, sizeof pattern, "\n  \"%s\": ", key);
  char *at = strstr(text, pattern);
  return at ? at + n : NULL;
}

/* Cut a quoted value out of the text, in place; "" if there is none. */
static const char *unquote(char *value)
{
  if (!value || *value != '"') return "";
  char *to = value, *from = value + 1;
  for (; *from && *from != '"' && *from != '\n'; from++) {
    if (*from == '\\' && from[1]) from++;
    *to++ = *from;
  }
  *to = '\0';
  return value;
}

static void parse_fields(tt_status_file *f)
{
  tt_run_status *s = &f->status;
  const char *at;
  /* numbers first: texts are cut in place, and the end of one would be the end of the file */
#define X(name) s->name = (at = find_value(f->text, #name)) ? strtoll(at, NULL, 10) : 0;
  TT_RUN_STATUS_INTEGERS(X)
#undef X
#define X(name) s->name = (at = find_value(f->text, #name)) ? strtod(at, NULL) : 0.0;
  TT_RUN_STATUS_REALS(X)
#undef X
  char *value[] = {find_value(f->text, "state"), find_value(f->text, "reason"),
                   find_value(f->text, "stop"), find_value(f->text, "incarnation"),
                   find_value(f->text, "time")};
  s->state = unquote(value[0]);
  s->reason = unquote(value[1]);
  s->stop = unquote(value[2]);
  s->incarnation = unquote(value[3]);
  s->time = unquote(value[4]);
}

tt_err tt_status_file_read_local(const char *directory, tt_status_file *out)
{
  char path[PATH_MAX];
  struct stat at;
  if (snprintf(path, sizeof path, "%s/status.json", directory) >= (int)sizeof path)
    return TT_FAIL(IO, "%s: path is too long", directory);
  FILE *f = fopen(path, "r");
  if (!f)
    return TT_FAIL(NOINPUT, "%s: %s: no run has begun in this directory (run.directory of the job)",
                   path, strerror(errno));
  size_t n = fread(out->text, 1, sizeof out->text - 1, f);
  int bad = ferror(f) || fstat(fileno(f), &at);
  fclose(f);
  if (bad) return TT_FAIL(IO, "%s: cannot be read", path);
  out->text[n] = '\0';
  out->age = (int64_t)(time(NULL) - at.st_mtime);
  parse_fields(out);
  if (!*out->status.state) return TT_FAIL(DATA, "%s: is not the status file of a run", path);
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
