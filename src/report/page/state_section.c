/* state_section.c — see run_page_internal.h: a run that has no results yet. */
#include "core/base/directory.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUANTITIES = 4, LINE = 1024 };
static const char *const quantity[QUANTITIES] = {"epoch", "loss_q25", "loss_q50", "loss_q75"};

/* The lines of metrics.jsonl: value[quantity][line], NaN = unknown. */
typedef struct progress_lines {
  int64_t n, capacity;
  double *value[QUANTITIES];
} progress_lines;

/* A start that went back to a checkpoint repeats epochs: its lines replace the earlier ones. */
static void add_line(progress_lines *p, const char *text)
{
  json_t *row = json_loads(text, 0, NULL);
  double epoch = json_number_value(json_object_get(row, quantity[0]));
  while (row && p->n > 0 && p->value[0][p->n - 1] >= epoch) p->n--;
  for (int i = 0; row && i < QUANTITIES; i++) {
    const json_t *v = json_object_get(row, quantity[i]);
    p->value[i][p->n] = json_is_number(v) ? json_number_value(v) : (double)NAN;
  }
  p->n += row != NULL;
  json_decref(row);
}

/* A line of the file has more than 100 bytes. */
static tt_err read_lines(const char *path, progress_lines *p)
{
  char text[LINE];
  FILE *f = NULL;
  struct stat info;
  if (stat(path, &info) || tt_file_open_stream(path, &f)) return TT_OK;
  p->capacity = info.st_size / 100 + 1;
  tt_err e = TT_OK;
  for (int i = 0; !e && i < QUANTITIES; i++) e = TT_ALLOC(p->value[i], p->capacity);
  while (!e && p->n < p->capacity && fgets(text, sizeof text, f))
    if (strchr(text, '\n')) add_line(p, text); /* else it is being written */
  fclose(f);
  return e;
}

static void put_losses(FILE *f, const progress_lines *p)
{
  tt_chart_series s[] = {
      tt_chart_points(TT_CHART_LINE, 0, "median of the members", p->n, p->value[0], p->value[2]),
      tt_chart_ranges(TT_CHART_BAND, 0, NULL, p->n, p->value[0], NULL, p->value[1], p->value[3])};
  tt_page_begin_charts(f);
  tt_page_chart(f, &(tt_chart){"Training so far", "band: half of the members",
                               "epoch that every member has done", "training loss", 2, s,
                               .least_x_step = 1});
  tt_page_end_charts(f);
}

static void put_config(FILE *f, const char *path)
{
  enum { ROOM = 1 << 20 };
  char *text = NULL;
  if (access(path, F_OK) || TT_ALLOC(text, ROOM)) return;
  if (!tt_file_read_text(path, text, ROOM))
    tt_page_put_folded(f, "Configuration with the values of all options", text);
  tt_free(text);
}

static void put_pairs(const tt_run_page *p)
{
  const tt_run_status *s = p->status;
  tt_page_begin_pairs(p->f);
  tt_page_pair(p->f, "state", "%s", s->state);
  tt_page_pair(p->f, "updated", "%s", s->time);
  tt_page_pair(p->f, "members",
               "%" PRId64 ": %" PRId64 " in training, %" PRId64 " finished, %" PRId64
               " stopped early, %" PRId64 " diverged",
               s->members, s->training, s->finished, s->early_stopped, s->diverged);
  if (s->generation) tt_page_pair(p->f, "last checkpoint", "%" PRId64, s->generation);
  if (s->rate > 0) tt_page_pair(p->f, "rate", "%.3g member-steps/s", s->rate);
  tt_page_end_pairs(p->f);
}

tt_err tt_run_page_put_state(const tt_run_page *p)
{
  char path[TT_PATH_MAX];
  progress_lines lines = {0};
  tt_err e = TT_OK;
  tt_page_begin_section(p->f, "State", NULL);
  put_pairs(p);
  if (snprintf(path, sizeof path, "%s/metrics.jsonl", p->directory) < TT_PATH_MAX)
    e = read_lines(path, &lines);
  if (!e && lines.n > 1) put_losses(p->f, &lines);
  if (snprintf(path, sizeof path, "%s/config.yaml", p->directory) < TT_PATH_MAX)
    put_config(p->f, path);
  tt_page_end_section(p->f);
  for (int i = 0; i < QUANTITIES; i++) tt_free(lines.value[i]);
  return e;
}
