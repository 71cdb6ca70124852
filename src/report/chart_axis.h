/* chart_axis.h — range and ticks of an axis of a picture. Floor 4, but needs floor 0 alone; local.
 */
#ifndef TT_CHART_AXIS_H
#define TT_CHART_AXIS_H

enum { TT_AXIS_TICKS = 24 };
typedef struct tt_axis {
  double low, high;
  int is_log, ticks;
  double tick[TT_AXIS_TICKS];
} tt_axis;

/* An axis without values, and with one more; a value that is not finite changes nothing. */
tt_axis tt_axis_empty(void);
void tt_axis_extend(tt_axis *a, double value);

/* Choose ticks and widen the range to whole ticks: about `ticks` of them, at least `least_step`
 * apart; logarithmic if `may_be_log`, all values are positive and span more than a factor of 5.
 * An axis without values goes from 0 to 1. */
void tt_axis_make_ticks(tt_axis *a, int ticks, double least_step, int may_be_log);

/* Where a value lies: 0 = low end, 1 = high end. */
double tt_axis_fraction(const tt_axis *a, double value);
#endif
