/* log.c — see log.h. */
#include "core/base/log.h"

#include "core/base/text.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static tt_log_settings settings = {TT_LOG_INFO, 0, 1};
static _Thread_local FILE *own_stream; /* NULL: stderr */
static _Thread_local int own_live;

tt_log_settings tt_log_get_settings(void) { return settings; }
void tt_log_set_level(tt_log_level level) { settings.level = level; }

void tt_log_set_rank(int rank, int ranks)
{
  settings.rank = rank;
  settings.ranks = ranks;
}

const char *tt_log_rank_text(void)
{
  static char text[32];
  text[0] = '\0';
  if (settings.ranks > 1) snprintf(text, sizeof text, "rank %d on ", settings.rank);
  return text;
}

/* Whether messages have colors: on a terminal, unless NO_COLOR is set and not empty
 * (https://no-color.org). */
static int has_color(void)
{
  const char *no = getenv("NO_COLOR");
  return (!no || !*no) && tt_log_is_terminal();
}

/* Whether the parent process is an mpirun. Its name is in /proc/PID/comm. */
static int is_launched(const char *comm)
{
  static const char *const launcher[] = {"mpirun", "mpiexec", "orterun", "prterun"};
  char name[32] = "";
  FILE *f = fopen(comm, "r");
  if (!f) return 0;
  if (fgets(name, sizeof name, f)) name[strcspn(name, ".\n")] = '\0'; /* mpirun.openmpi */
  fclose(f);
  for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++)
    if (!strcmp(name, launcher[i])) return 1;
  return 0;
}

/* Behind mpirun, messages go through a pipe to its standard error. Returns a descriptor of that if
 * it is a terminal, else -1. The caller closes it. */
static int open_launcher_terminal(void)
{
  char path[48];
  snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
  if (!is_launched(path)) return -1;
  snprintf(path, sizeof path, "/proc/%ld/fd/2", (long)getppid());
  int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || isatty(fd)) return fd;
  close(fd);
  return -1;
}

/* Columns of the terminal that shows the messages; 0 = no terminal, or not known. */
static int count_columns(void)
{
  enum { LEAST = 40 };
  struct winsize size;
  if (own_stream) return 0;
  int own = tt_log_is_terminal(), fd = own ? STDERR_FILENO : open_launcher_terminal();
  int known = fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0;
  if (!own && fd >= 0) close(fd);
  return known && size.ws_col >= LEAST ? size.ws_col : 0;
}

/* Copy `text` and break its lines at blanks, so that they fit into `columns`.
 *   column  where its first character will stand */
static void wrap_lines(const char *text, int column, int columns, char *out, size_t capacity)
{
  enum { INDENT = 7 };     /* of a continued line, as after "tutti: " */
  size_t n = 0, blank = 0; /* the last blank of this line, 0 = none */
  for (; *text && n + INDENT + 2 < capacity; text++, column++) {
    if (*text == ' ') blank = n;
    out[n++] = *text;
    if (*text == '\n') {
      column = -1;
      blank = 0;
    }
    if (column < columns || blank == 0) continue;
    size_t moved = n - blank - 1;
    memmove(out + blank + 1 + INDENT, out + blank + 1, moved);
    out[blank] = '\n';
    memset(out + blank + 1, ' ', INDENT);
    n += INDENT;
    column = INDENT + (int)moved - 1;
    blank = 0;
  }
  out[n] = '\0';
}

static void write_line(tt_log_level level, int with_rank, const char *fmt, va_list ap)
{
  static const char *const level_text[] = {"error: ", "warning: ", "", "debug: "};
  static const char *const colors[] = {"\033[1;31m", "\033[1;33m", "", ""}; /* red, yellow */
  char text[TT_ERR_MESSAGE_SIZE + 64], wrapped[2 * sizeof text], prefix[48];
  const char *shown = text;
  if (with_rank && settings.ranks > 1)
    snprintf(prefix, sizeof prefix, "tutti[%d]: ", settings.rank);
  else
    snprintf(prefix, sizeof prefix, "tutti: ");
  vsnprintf(text, sizeof text, fmt, ap);
  tt_text_make_printable(text, "\n\t");
  int color = *colors[level] && has_color(), columns = count_columns();
  if (columns) {
    int column = (int)(strlen(prefix) + strlen(level_text[level]));
    wrap_lines(text, column, columns, wrapped, sizeof wrapped);
    shown = wrapped;
  }
  fprintf(own_stream ? own_stream : stderr, "%s%s%s%s%s\n", prefix, color ? colors[level] : "",
          level_text[level], color ? "\033[0m" : "",
          shown); /* one call: a line stays whole if several ranks print */
}

void tt_log_root(tt_log_level level, const char *fmt, ...)
{
  if (level > settings.level || settings.rank != 0) return;
  va_list ap;
  va_start(ap, fmt);
  write_line(level, 0, fmt, ap);
  va_end(ap);
}

void tt_log_this_rank(tt_log_level level, const char *fmt, ...)
{
  if (level > settings.level) return;
  va_list ap;
  va_start(ap, fmt);
  write_line(level, 1, fmt, ap);
  va_end(ap);
}

void tt_log_use_stream(FILE *stream, int live)
{
  own_stream = stream;
  own_live = live;
}

int tt_log_is_live(void) { return own_stream ? own_live : tt_log_is_terminal(); }

int tt_log_is_terminal(void)
{
  const char *term = getenv("TERM");
  return !own_stream && isatty(STDERR_FILENO) && !getenv("SLURM_PROCID") && term &&
         strcmp(term, "dumb") != 0;
}
