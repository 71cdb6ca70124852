/* chart_axis.c — see chart_internal.h. */
#include "src/report/chart_internal.h"

#include <math.h>
#include <stdio.h>

static const double log_scale_ratio = 5.0; /* of the largest to the smallest value */

tt_axis tt_axis_empty(void) { return (tt_axis){.low = INFINITY, .high = -INFINITY}; }

void tt_axis_extend(tt_axis *a, double value)
{
  if (!isfinite(value)) return;
  a->low = fmin(a->low, value);
  a->high = fmax(a->high, value);
}

double tt_axis_fraction(const tt_axis *a, double value)
{
  if (a->is_log) return (log(value) - log(a->low)) / (log(a->high) - log(a->low));
  return (value - a->low) / (a->high - a->low);
}

/* The smallest of 1, 2, 5, 10, 20, ... times a power of ten that is at least v. */
static double nice_step(double v)
{
  static const double nice[] = {1, 2, 5, 10};
  double power = pow(10, floor(log10(v) + 1e-9));
  for (int i = 0; i < 4; i++)
    if (nice[i] * power >= v * (1 - 1e-9)) return nice[i] * power;
  return 10 * power;
}

static void make_linear(tt_axis *a, int ticks, double least_step)
{
  double pad = a->high > a->low ? 0 : a->low != 0 ? 0.1 * fabs(a->low) : 1;
  double step = nice_step((a->high - a->low + 2 * pad) / ticks);
  if (step < least_step) step = least_step;
  double low = floor((a->low - pad) / step + 1e-9), to = ceil((a->high + pad) / step - 1e-9);
  a->low = low * step;
  a->high = to * step;
  for (double i = low; i <= to && a->ticks < TT_AXIS_TICKS; i++) a->tick[a->ticks++] = i * step;
}

/* Ticks at 1, 2, 5 of each decade; with more than three decades, at powers of ten. */
static void make_log(tt_axis *a)
{
  static const double nice[] = {1, 2, 5};
  double first = floor(log10(a->low)), last = ceil(log10(a->high));
  double step = last - first > 3 ? ceil((last - first) / 10) : 1;
  int each = last - first > 3 ? 1 : 3;
  double tick[TT_AXIS_TICKS];
  int n = 0, lowest = 0;
  for (double d = first; d <= last && n < TT_AXIS_TICKS; d += step)
    for (int i = 0; i < each && n < TT_AXIS_TICKS; i++) tick[n++] = nice[i] * pow(10, d);
  while (lowest + 1 < n && tick[lowest + 1] <= a->low) lowest++;
  for (int i = lowest; i < n && (a->ticks < 2 || a->tick[a->ticks - 1] < a->high); i++)
    a->tick[a->ticks++] = tick[i];
  a->low = fmin(a->tick[0], a->low);
  a->high = fmax(a->tick[a->ticks - 1], a->high);
}

void tt_axis_make_ticks(tt_axis *a, int ticks, double least_step, int may_be_log)
{
  if (a->low > a->high) *a = (tt_axis){.low = 0, .high = 1};
  a->is_log = may_be_log && a->low > 0 && a->high > log_scale_ratio * a->low;
  if (a->is_log)
    make_log(a);
  else
    make_linear(a, ticks, least_step);
}

void tt_axis_number(const tt_axis *a, double tick, char text[TT_AXIS_NUMBER])
{
  double most = fmax(fabs(a->low), fabs(a->high)), size = a->is_log ? fabs(tick) : most;
  const char *unit = size < 1e4 || size >= 1e10 ? "" : size < 1e7 ? "k" : "M";
  double value = tick / (*unit == 'k' ? 1e3 : *unit == 'M' ? 1e6 : 1);
  if (fabs(tick) < 1e-12 * most)
    snprintf(text, TT_AXIS_NUMBER, "0");
  else
    snprintf(text, TT_AXIS_NUMBER, "%.6g%s", value, unit);
}
