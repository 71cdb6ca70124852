/* progress_display.c — see progress_display.h. */
#include "src/host/progress_display.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Median over ranks of one quartile; ranks without members are excluded.
 *   all     [ranks][3]
 *   sorted  [ranks] scratch */
static double median(const double *all, int ranks, int which, double *sorted)
{
  int n = 0;
  for (int r = 0; r < ranks; r++)
    if (!isnan(all[3 * r + which])) sorted[n++] = all[3 * r + which];
  qsort(sorted, (size_t)n, sizeof *sorted, tt_compare_f64);
  return n ? sorted[(n - 1) / 2] : (double)NAN;
}

tt_err tt_progress_merge(tt_comm *c, const tt_progress *mine, tt_progress *all)
{
  int64_t sums[6] = {mine->training, mine->finished,     mine->early_stopped,
                     mine->diverged, mine->member_steps, mine->restarted};
  int64_t minus_epoch_min = -mine->epoch_min;
  int ranks = tt_comm_ranks(c);
  double *loss = NULL; /* [ranks][3], then scratch [ranks]; on rank 0 only */
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? TT_ALLOC(loss, 4 * (int64_t)ranks) : TT_OK);
  if (!e) {
    tt_allreduce_sum_i64(c, sums, 6);
    tt_allreduce_max_i64(c, &minus_epoch_min, 1);
    tt_gatherv(c, mine->loss, sizeof mine->loss, loss, NULL);
    *all = (tt_progress){.training = sums[0],
                         .finished = sums[1],
                         .early_stopped = sums[2],
                         .diverged = sums[3],
                         .member_steps = sums[4],
                         .restarted = sums[5],
                         .epoch_min = -minus_epoch_min};
    for (int q = 0; loss && q < 3; q++) all->loss[q] = median(loss, ranks, q, loss + 3 * ranks);
    tt_bcast(c, all->loss, sizeof all->loss);
  }
  tt_free(loss);
  return e;
}

/* Part of the work that is done: epochs of the slowest member. */
static double fraction_done(const tt_progress *all, int64_t epochs)
{
  return epochs ? (double)all->epoch_min / (double)epochs : 1.0;
}

void tt_progress_meter_start(tt_progress_meter *m, const tt_progress *all, int64_t epochs)
{
  *m = (tt_progress_meter){.started = tt_monotonic_seconds()};
  m->last_printed = m->started;
  m->fraction_at_start = epochs ? fraction_done(all, epochs) : 0.0;
}

double tt_progress_meter_rate(const tt_progress_meter *m)
{
  double seconds = tt_monotonic_seconds() - m->started;
  return m->started > 0.0 && seconds > 0.0 ? (double)m->steps / seconds : 0.0;
}

double tt_progress_meter_eta(const tt_progress_meter *m, const tt_progress *all, int64_t epochs)
{
  double fraction = fraction_done(all, epochs);
  double done = fraction - m->fraction_at_start, seconds = tt_monotonic_seconds() - m->started;
  int64_t ended = all->finished + all->early_stopped + all->diverged;
  if (all->training == 0) return ended > 0 ? 0.0 : -1.0;
  return done > 0.0 && m->started > 0.0 ? seconds * (1.0 - fraction) / done : -1.0;
}

/* Append ", word" unless the line would be too long. */
static void append_field(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append_field(char *line, const char *format, ...)
{
  char word[80];
  va_list ap;
  va_start(ap, format);
  vsnprintf(word, sizeof word, format, ap);
  va_end(ap);
  if (strlen(line) + strlen(", ") + strlen(word) > TT_PROGRESS_COLUMNS) return;
  if (line[0]) strcat(line, ", ");
  strcat(line, word);
}

/* 1234567 as 1.23M */
static void append_rate(char *line, double rate)
{
  static const char *const unit[] = {"", "k", "M", "G", "T"};
  int u = 0;
  for (; rate >= 999.5 && u < 4; u++) rate /= 1000.0;
  append_field(line, "%.3g%s steps/s", rate, unit[u]);
}

void tt_progress_text_local(const tt_progress *all, int64_t epochs, int64_t restarts, double left,
                            double rate, char text[TT_PROGRESS_COLUMNS + 1])
{
  char time[32];
  const struct {
    int64_t count;
    const char *what;
  } members[] = {{all->diverged, "diverged"},
                 {all->training, "training"},
                 {all->early_stopped, "stopped early"},
                 {all->finished, "finished"},
                 {restarts, "restarted"}};
  text[0] = '\0';
  append_field(text, "epoch %" PRId64 "/%" PRId64, all->training ? all->epoch_min : epochs, epochs);
  append_field(text, "loss %.3g %.3g %.3g", all->loss[0], all->loss[1], all->loss[2]);
  if (all->training) append_field(text, "ETA %s", tt_duration_text(left, time));
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if (members[i].count) append_field(text, "%" PRId64 " %s", members[i].count, members[i].what);
  append_rate(text, rate);
}

double tt_progress_interval(double elapsed, int is_terminal)
{
  return is_terminal ? 0.2 : fmax(30.0, elapsed / 100.0);
}

void tt_progress_meter_print_local(tt_progress_meter *m, const tt_comm *c, const tt_progress *all,
                                   int64_t epochs, int now)
{
  double clock = tt_monotonic_seconds(), since = clock - m->last_printed;
  int bar = tt_log_is_terminal();
  m->steps += all->member_steps;
  m->restarts += all->restarted;
  if (!tt_comm_is_root(c)) return;
  if (!now && since < tt_progress_interval(clock - m->started, tt_log_is_live())) return;
  char line[TT_PROGRESS_COLUMNS + 1];
  double rate = since > 0.0 ? (double)(m->steps - m->steps_at_last_print) / since : 0.0;
  tt_progress_text_local(all, epochs, m->restarts, tt_progress_meter_eta(m, all, epochs),
                         now ? tt_progress_meter_rate(m) : rate, line);
  if (m->lines++ == 0)
    tt_log_root(TT_LOG_INFO,
                "loss: quartiles of the members' training losses; steps: of all members");
  if (bar) fputs("\r\033[K", stderr); /* not in tt_log, which makes control characters visible */
  if (bar && !now)
    fputs(line, stderr);
  else
    tt_log_root(TT_LOG_INFO, "%s", line);
  m->last_printed = clock;
  m->steps_at_last_print = m->steps;
}
