/* chart.h — a chart as an SVG element of an HTML page. Light background, or dark if the browser
 * prefers it. Local. */
#ifndef TT_CHART_H
#define TT_CHART_H
#include "core/base/err.h"

#include <stdint.h>
#include <stdio.h>

typedef enum tt_chart_mark {
  TT_CHART_LINE,   /* a line; its points have marks if there are at most 80 */
  TT_CHART_BAND,   /* filled area between low and high */
  TT_CHART_POINTS, /* points, with error bars from low to high if they are not NULL */
  TT_CHART_MARKS
} tt_chart_mark;

/* Style of a reference line: gray, without marks. */
enum { TT_CHART_REFERENCE = 5 };

typedef struct tt_chart_series {
  const char *name;    /* in the legend, NULL = no entry; any bytes; cut after 80 characters */
  int64_t points;      /* lines and bands: sorted by x */
  const double *x, *y; /* [points]; a point that is not finite is not drawn and interrupts a line */
  const double *low, *high; /* [points] of a band or error bars, else NULL; a band has no y */
  tt_chart_mark mark;
  int style; /* color and dashes: 0 = boldest, 1 to 4, TT_CHART_REFERENCE */
} tt_chart_series;

typedef struct tt_chart {
  const char *title, *note; /* note: second line, or NULL */
  const char *x_label, *y_label;
  int64_t count;
  const tt_chart_series *series; /* [count] the first is drawn on top */
  int is_square;                 /* both axes have the same range */
  double least_x_step;           /* smallest distance of ticks: 1 for counts */
} tt_chart;

/* Write a chart without its title and note. The y axis of a chart that is not square is logarithmic
 * if all values are positive and span more than a factor of 5. A chart without a finite point shows
 * "no data yet". Of a longer series at most 240 points are drawn, evenly. The
 * colors are in tt_chart_style, a style sheet that the page has once. */
void tt_chart_put_inline(FILE *f, const tt_chart *c);
extern const char tt_chart_style[];
#endif
