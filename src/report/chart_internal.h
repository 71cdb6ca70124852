/* chart_internal.h — one chart and its series, for chart.c, chart_axis.c and chart_series.c. */
#ifndef TT_CHART_INTERNAL_H
#define TT_CHART_INTERNAL_H
#include "src/report/chart.h"

#include <stdio.h>

enum {
  TT_CHART_WIDTH = 360, /* in pixels */
  TT_CHART_LEFT = 62,   /* ends of the plot */
  TT_CHART_RIGHT = 346,
  TT_CHART_STYLES = 6 /* colors; further series repeat them with other dashes */
};

/* Axes: range and ticks */

enum { TT_AXIS_TICKS = 24 };
typedef struct tt_axis {
  double low, high;
  int is_log, ticks;
  double tick[TT_AXIS_TICKS];
} tt_axis;

/* An axis without values; extend the range to a value. A value that is not finite is ignored. */
tt_axis tt_axis_empty(void);
void tt_axis_extend(tt_axis *a, double value);

/* Choose about `ticks` ticks, at least `least_step` apart, and widen the range to end at ticks. The
 * axis becomes logarithmic if `may_be_log` and all values are positive and span more than a factor
 * of 5. An axis without values gets the range 0 to 1. */
void tt_axis_make_ticks(tt_axis *a, int ticks, double least_step, int may_be_log);

/* Position of a value on the axis: 0 = low end, 1 = high end. */
double tt_axis_fraction(const tt_axis *a, double value);

/* Number at a tick. If the axis reaches 10000 or 1e7: in thousands, 40k, or millions, 40M. */
enum { TT_AXIS_NUMBER = 32 };
void tt_axis_number(const tt_axis *a, double tick, char text[TT_AXIS_NUMBER]);

/* One chart; all positions in pixels. */
typedef struct tt_panel {
  FILE *f;
  const tt_chart *c;
  tt_axis x, y;
  double top, bottom; /* of the plot */
  int64_t points;
} tt_panel;

double tt_panel_x(const tt_panel *p, double value);
double tt_panel_y(const tt_panel *p, double value);

/* Whether all values of point i are finite; lower and upper end of its error bar or band. */
int tt_chart_is_drawn(const tt_chart_series *s, int64_t i);
double tt_chart_low(const tt_chart_series *s, int64_t i);
double tt_chart_high(const tt_chart_series *s, int64_t i);

void tt_panel_put_segment(FILE *f, const char *name, double x1, double y1, double x2, double y2);
void tt_panel_put_series(const tt_panel *p, const tt_chart_series *s);
/* The sample of a series in the legend: its middle is at height y. */
void tt_panel_put_key(const tt_panel *p, const tt_chart_series *s, double x, double y,
                      double width);
#endif
