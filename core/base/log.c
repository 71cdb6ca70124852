/* log.c — see log.h. */
#include "core/base/log.h"

#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void write_line(tt_log_level level, int with_rank, const char *fmt, va_list ap)
{
  static const char *const level_text[] = {"error: ", "warning: ", "", "debug: "};
  static const char *const colors[] = {"\033[1;31m", "\033[1;33m", "", ""}; /* red, yellow */
  char text[TT_ERR_MESSAGE_SIZE + 64], prefix[48];
  if (with_rank && settings.ranks > 1)
    snprintf(prefix, sizeof prefix, "tutti[%d]: ", settings.rank);
  else
    snprintf(prefix, sizeof prefix, "tutti: ");
  vsnprintf(text, sizeof text, fmt, ap);
  tt_text_make_printable(text, "\n\t");
  int color = *colors[level] && has_color();
  fprintf(own_stream ? own_stream : stderr, "%s%s%s%s%s\n", prefix, color ? colors[level] : "",
          level_text[level], color ? "\033[0m" : "",
          text); /* one call: a line stays whole if several ranks print */
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
