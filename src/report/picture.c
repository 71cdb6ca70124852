/* picture.c — see picture.h. */
#include "src/report/picture.h"

#include "core/base/mem.h"
#include "src/report/target_charts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TARGETS = 24, CHARTS_OF_TARGET = 3 };

/* Charts to draw for each target, set[0], set[1], ...; returns their number. */
static int choose_charts(const tt_results *k, int set[CHARTS_OF_TARGET])
{
  int n = 0, has_calibration = 0;
  for (int64_t i = 0; i < k->levels * k->columns; i++)
    has_calibration |= isfinite(k->calibration[i]);
  if (k->rows > 0) set[n++] = TT_TARGET_PREDICTED;
  set[n++] = TT_TARGET_HISTORY;
  if (k->rows > 0 && has_calibration) set[n++] = TT_TARGET_INTERVALS;
  return n;
}

static tt_err write_picture(const tt_results *k, const char *file, int64_t targets,
                            tt_target_charts *t, tt_chart *chart)
{
  char title[2 * TT_TARGET_TEXT];
  int set[CHARTS_OF_TARGET], each = choose_charts(k, set);
  int64_t n = 0, first = 0, all = 0;
  for (int64_t c = 0; c < k->columns; c = tt_target_end(k, c)) all++;
  for (int64_t i = 0; i < targets; i++, first = tt_target_end(k, first)) {
    TT_TRY(tt_target_charts_create(k, first, i ? &t[i - 1] : NULL, &t[i]));
    for (int j = 0; j < each; j++) chart[n++] = t[i].chart[set[j]];
    if (k->rows == 0) chart[n - 1].title = t[i].title;
  }
  snprintf(title, sizeof title, "%.*s", TT_TARGET_TEXT, k->title ? k->title : "Results");
  if (all > targets) {
    size_t used = strlen(title);
    snprintf(title + used, sizeof title - used, " (%" PRId64 " of %" PRId64 " targets)", targets,
             all);
  }
  return tt_charts_write_local(file, title, each, n, chart);
}

tt_err tt_report_picture_local(const tt_results *k, const char *file)
{
  int64_t targets = 0;
  tt_target_charts *t = NULL;
  tt_chart *chart = NULL;
  for (int64_t c = 0; c < k->columns && targets < MAX_TARGETS; c = tt_target_end(k, c)) targets++;
  tt_err e = TT_ALLOC(t, targets);
  if (!e) e = TT_ALLOC(chart, targets * CHARTS_OF_TARGET);
  if (!e) e = write_picture(k, file, targets, t, chart);
  for (int64_t i = 0; t && i < targets; i++) tt_target_charts_free(&t[i]);
  tt_free(t);
  tt_free(chart);
  return e;
}
