/* log.c — see log.h. */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tt_log_level level = TT_LOG_INFO;
static int my_rank, rank_count = 1;

void tt_log_set_level(tt_log_level new_level) { level = new_level; }

void tt_log_set_rank(int rank, int ranks)
{
  my_rank = rank;
  rank_count = ranks;
}

const char *tt_log_rank_text(void)
{
  static char text[32];
  text[0] = '\0';
  if (rank_count > 1) snprintf(text, sizeof text, "rank %d on ", my_rank);
  return text;
}

static void write_line(tt_log_level at, int with_rank, const char *fmt, va_list ap)
{
  static const char *const level_text[] = {"error: ", "warning: ", "", "debug: "};
  char text[TT_ERR_MESSAGE_SIZE + 64], prefix[48];
  if (with_rank && rank_count > 1)
    snprintf(prefix, sizeof prefix, "tutti[%d]: ", my_rank);
  else
    snprintf(prefix, sizeof prefix, "tutti: ");
  vsnprintf(text, sizeof text, fmt, ap);
  fprintf(stderr, "%s%s%s\n", prefix, level_text[at],
          text); /* one call, so that lines of ranks do not mix */
}

void tt_log_root(tt_log_level at, const char *fmt, ...)
{
  if (at > level || my_rank != 0) return;
  va_list ap;
  va_start(ap, fmt);
  write_line(at, 0, fmt, ap);
  va_end(ap);
}

void tt_log_this_rank(tt_log_level at, const char *fmt, ...)
{
  if (at > level) return;
  va_list ap;
  va_start(ap, fmt);
  write_line(at, 1, fmt, ap);
  va_end(ap);
}

int tt_log_is_terminal(void)
{
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !getenv("SLURM_PROCID") && term && strcmp(term, "dumb") != 0;
}
