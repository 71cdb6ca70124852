/* chart.h — lines over x, as a picture that stands alone: SVG 1.1, read by every browser and
 * editor, on its own light ground, or a dark one where the reader prefers that. Floor 5, but needs
 * floor 0 and files alone; local. */
#ifndef TT_CHART_H
#define TT_CHART_H
#include "core/base/err.h"

#include <stdint.h>

typedef struct tt_chart_line {
  const char *name;    /* for the legend; any bytes, shortened beyond 80 characters */
  int64_t points;      /* in the order of x */
  const double *x, *y; /* [points]; a y that is not finite interrupts the line */
} tt_chart_line;

typedef struct tt_chart {
  const char *title, *x_label, *y_label;
  int64_t lines;
  const tt_chart_line *line; /* [lines] the first is drawn boldest */
} tt_chart;

/* y is logarithmic where all values are positive and span more than a factor of 5. A chart without
 * a finite point has axes and says so. Errors: CANTCREAT, IO, MEM. */
tt_err tt_chart_write_local(const char *file, const tt_chart *c);
#endif
