/* target_series.c — see target_charts_internal.h: what the charts of a target have in common. */
#include "src/report/target_charts_internal.h"

#include <stdio.h>
#include <string.h>

tt_chart_series *tt_target_add_series(tt_target_charts *t, tt_target_chart chart, tt_chart_series s)
{
  tt_chart *c = &t->chart[chart];
  c->series = t->series[chart];
  t->series[chart][c->count] = s;
  return &t->series[chart][c->count++];
}

double *tt_target_take(double **scratch, int64_t n)
{
  double *src = *scratch;
  *scratch += n;
  return src;
}

void tt_target_name_units(const char *what, const tt_target_charts *t, char text[TT_TARGET_TEXT])
{
  const char *units = t->k->units[t->first];
  int known = *units && strcmp(units, "1") != 0;
  snprintf(text, TT_TARGET_TEXT, "%s %s%s%s%s", what, t->k->target[t->first], known ? " (" : "",
           known ? units : "", known ? ")" : "");
}

/* A straight line from (low, low) to (high, high). */
void tt_target_add_diagonal(tt_target_charts *t, tt_target_chart chart, double low, double high,
                            double **scratch)
{
  double *place = tt_target_take(scratch, 2);
  place[0] = low;
  place[1] = high;
  tt_target_add_series(t, chart,
                       (tt_chart_series){.name = "ideal",
                                         .points = 2,
                                         .x = place,
                                         .y = place,
                                         .mark = TT_CHART_LINE,
                                         .style = TT_CHART_REFERENCE});
}
