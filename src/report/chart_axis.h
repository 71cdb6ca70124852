/* chart_axis.h — range and ticks of an axis of a chart. Local. */
#ifndef TT_CHART_AXIS_H
#define TT_CHART_AXIS_H

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
#endif
