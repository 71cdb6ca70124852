/* chart.h — pictures that stand alone: one chart, or several in rows. SVG 1.1, read by every
 * browser and editor, on its own light ground, or a dark one where the reader prefers that.
 * Floor 5, but needs floor 0 and files alone; local. */
#ifndef TT_CHART_H
#define TT_CHART_H
#include "core/base/err.h"

#include <stdint.h>

typedef enum tt_chart_mark {
  TT_CHART_LINE,    /* a line; its points are marked where they are few */
  TT_CHART_BAND,    /* the area between low and high */
  TT_CHART_POINTS,  /* points, with error bars from low to high unless those are NULL */
  TT_CHART_DENSITY, /* the number of points in the cells of a grid */
  TT_CHART_COUNT,   /* in a strip of its own below the plot: the area from 0 to y */
  TT_CHART_MARKS
} tt_chart_mark;

/* A reference to compare with: thin, grey, without marks. */
enum { TT_CHART_REFERENCE = 5 };

typedef struct tt_chart_series {
  const char
      *name;      /* for the legend, NULL = not there; any bytes, shortened beyond 80 characters */
  int64_t points; /* of lines and bands in the order of x */
  const double *x, *y;      /* [points]; what is not finite is left out and interrupts a line */
  const double *low, *high; /* [points] of a band or of error bars, else NULL; a band has no y */
  tt_chart_mark mark;
  int style; /* colour and dashes: 0 = boldest, 1, 2, ..., TT_CHART_REFERENCE */
} tt_chart_series;

typedef struct tt_chart {
  const char *title, *note; /* note: a second line, or NULL */
  const char *x_label, *y_label;
  int64_t count;
  const tt_chart_series *series; /* [count] the first is drawn last */
  int is_square;                 /* both axes have the same range */
  double least_x_step;           /* between ticks: 1 for counts */
} tt_chart;

/* Write charts in rows of `columns`. The y axis of a chart that is not square is logarithmic where
 * all values are positive and span more than a factor of 5. A chart without a finite point has axes
 * and says so.
 *   title  above several charts; one chart has its own alone
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_charts_write_local(const char *file, const char *title, int columns, int64_t charts,
                             const tt_chart *chart);
#endif
