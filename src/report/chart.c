/* chart.c — see chart.h. */
#include "src/report/chart.h"

#include "src/report/chart_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  WIDTH = 360, /* in pixels, as all lengths */
  LEFT = 62,   /* ends of the plot */
  RIGHT = 346,
  HEIGHT = 248, /* of the plot */
  TICKS = 5,
  MOST_TICKS = 24,
  NUMBER = 32, /* characters at a tick */
  LEGEND = 20, /* height of a line of the legend */
  BELOW = 58,  /* tick labels and label of the x axis */
  GAP = 12,
  KEY = 36,               /* sample of a line in the legend, and the space after it */
  SPACE = 16,             /* between entries of the legend */
  MAX_MARKED_POINTS = 80, /* a line with more points has no marks */
  MOST_POINTS = 240       /* of a series: more are thinned evenly */
};
static const double character_width = 7.2; /* average */

/* Axes */

typedef struct axis {
  double low, high;
  int is_log, ticks;
  double tick[MOST_TICKS];
} axis;

static const double log_scale_ratio = 5.0; /* of the largest to the smallest value */

static void extend(axis *a, double value)
{
  if (!isfinite(value)) return;
  a->low = fmin(a->low, value);
  a->high = fmax(a->high, value);
}

static double fraction(const axis *a, double value)
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

static void make_linear(axis *a, double least_step)
{
  double pad = a->high > a->low ? 0 : a->low != 0 ? 0.1 * fabs(a->low) : 1;
  double step = nice_step((a->high - a->low + 2 * pad) / TICKS);
  if (step < least_step) step = least_step;
  double low = floor((a->low - pad) / step + 1e-9), to = ceil((a->high + pad) / step - 1e-9);
  a->low = low * step;
  a->high = to * step;
  for (double i = low; i <= to && a->ticks < MOST_TICKS; i++) a->tick[a->ticks++] = i * step;
}

/* Ticks at 1, 2, 5 of each decade; with more than three decades, at powers of ten. */
static void make_log(axis *a)
{
  static const double nice[] = {1, 2, 5};
  double first = floor(log10(a->low)), last = ceil(log10(a->high));
  double step = last - first > 3 ? ceil((last - first) / 10) : 1;
  int each = last - first > 3 ? 1 : 3;
  double tick[MOST_TICKS];
  int n = 0, lowest = 0;
  for (double d = first; d <= last && n < MOST_TICKS; d += step)
    for (int i = 0; i < each && n < MOST_TICKS; i++) tick[n++] = nice[i] * pow(10, d);
  while (lowest + 1 < n && tick[lowest + 1] <= a->low) lowest++;
  for (int i = lowest; i < n && (a->ticks < 2 || a->tick[a->ticks - 1] < a->high); i++)
    a->tick[a->ticks++] = tick[i];
  a->low = fmin(a->tick[0], a->low);
  a->high = fmax(a->tick[a->ticks - 1], a->high);
}

/* Choose about TICKS ticks, at least `least_step` apart, and widen the range to end at ticks. The
 * axis becomes logarithmic if `may_be_log` and all values are positive and span more than a factor
 * of 5. An axis without values gets the range 0 to 1. */
static void make_ticks(axis *a, double least_step, int may_be_log)
{
  if (a->low > a->high) *a = (axis){.low = 0, .high = 1};
  a->is_log = may_be_log && a->low > 0 && a->high > log_scale_ratio * a->low;
  if (a->is_log)
    make_log(a);
  else
    make_linear(a, least_step);
}

/* If the axis reaches 10000 or 1e7: in thousands, 40k, or millions, 40M. */
static void number_text(const axis *a, double tick, char text[NUMBER])
{
  double most = fmax(fabs(a->low), fabs(a->high)), size = a->is_log ? fabs(tick) : most;
  const char *unit = size < 1e4 || size >= 1e10 ? "" : size < 1e7 ? "k" : "M";
  double value = tick / (*unit == 'k' ? 1e3 : *unit == 'M' ? 1e6 : 1);
  if (fabs(tick) < 1e-12 * most)
    snprintf(text, NUMBER, "0");
  else
    snprintf(text, NUMBER, "%.6g%s", value, unit);
}

typedef struct panel {
  FILE *f;
  const tt_chart *c;
  axis x, y;
  double top, bottom; /* of the plot */
  int64_t points;
} panel;

static double x_of(const panel *p, double value)
{
  return LEFT + (RIGHT - LEFT) * fraction(&p->x, value);
}

static double y_of(const panel *p, double value)
{
  return p->bottom + (p->top - p->bottom) * fraction(&p->y, value);
}

/* Ends of the error bar or band at a point. */
static double low_of(const tt_chart_series *s, int64_t i) { return s->low ? s->low[i] : s->y[i]; }
static double high_of(const tt_chart_series *s, int64_t i)
{
  return s->high ? s->high[i] : s->y[i];
}

static int is_drawn(const tt_chart_series *s, int64_t i)
{
  int inside = isfinite(s->x[i]) && isfinite(low_of(s, i)) && isfinite(high_of(s, i));
  return inside && (s->mark == TT_CHART_BAND || isfinite(s->y[i]));
}

static void extend_axes(panel *p, const tt_chart_series *s, int64_t i)
{
  extend(&p->x, s->x[i]);
  extend(&p->y, low_of(s, i));
  extend(&p->y, high_of(s, i));
  if (s->mark != TT_CHART_BAND) extend(&p->y, s->y[i]);
  p->points++;
}

static void make_axes(panel *p)
{
  p->x = p->y = (axis){.low = INFINITY, .high = -INFINITY};
  for (int64_t k = 0; k < p->c->count; k++)
    for (int64_t i = 0; i < p->c->series[k].points; i++)
      if (is_drawn(&p->c->series[k], i)) extend_axes(p, &p->c->series[k], i);
  if (p->c->is_square) {
    extend(&p->x, p->y.low);
    extend(&p->x, p->y.high);
    p->y = p->x;
  }
  make_ticks(&p->x, p->c->least_x_step, 0);
  make_ticks(&p->y, 0, !p->c->is_square);
}

/* Series */

static void put_segment(FILE *f, const char *name, double x1, double y1, double x2, double y2)
{
  fprintf(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", name, x1, y1,
          x2, y2);
}

static void begin_line(FILE *f, int style)
{
  static const char *const dashes[] = {"", "7 4", "2 4", "10 4 2 4", "4 2", "7 4"};
  fprintf(f, "<path class=\"line s%d%s\" stroke-dasharray=\"%s\" d=\"", style,
          style == 0 ? " bold" : "", *dashes[style] ? dashes[style] : "none");
}

/* The point that is drawn after point i; the last one always is. */
static int64_t next(const tt_chart_series *s, int64_t i)
{
  int64_t step = (s->points + MOST_POINTS - 1) / MOST_POINTS;
  return i + step < s->points || i == s->points - 1 ? i + step : s->points - 1;
}

/* A round dot is a line of length 0: one path for all points. */
static void put_dots(const panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"dots s%d\" d=\"", s->style);
  for (int64_t i = 0; i < s->points; i = next(s, i))
    if (is_drawn(s, i)) fprintf(p->f, "M%.1f %.1fh0", x_of(p, s->x[i]), y_of(p, s->y[i]));
  fputs("\"/>\n", p->f);
}

static void put_line(const panel *p, const tt_chart_series *s)
{
  int pen = 0;
  begin_line(p->f, s->style);
  fputs("M0 0", p->f); /* an empty path is not valid */
  for (int64_t i = 0; i < s->points; i = next(s, i)) {
    int drawn = is_drawn(s, i);
    if (drawn) fprintf(p->f, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(p, s->x[i]), y_of(p, s->y[i]));
    pen = drawn;
  }
  fputs("\"/>\n", p->f);
  if (s->points <= MAX_MARKED_POINTS && s->style != TT_CHART_REFERENCE) put_dots(p, s);
}

/* One path: a quadrangle between each point and the next one. */
static void put_area(const panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"area m%d\" d=\"M0 0", s->style);
  for (int64_t i = 0, j; i < s->points; i = j) {
    j = next(s, i);
    if (j < s->points && is_drawn(s, i) && is_drawn(s, j))
      fprintf(p->f, "M%.1f %.1fL%.1f %.1fV%.1fL%.1f %.1fZ", x_of(p, s->x[i]),
              y_of(p, high_of(s, i)), x_of(p, s->x[j]), y_of(p, high_of(s, j)),
              y_of(p, low_of(s, j)), x_of(p, s->x[i]), y_of(p, low_of(s, i)));
  }
  fputs("\"/>\n", p->f);
}

/* One path for all error bars. */
static void put_points(const panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"bar s%d\" d=\"M0 0", s->style);
  for (int64_t i = 0; s->low && i < s->points; i = next(s, i))
    if (is_drawn(s, i))
      fprintf(p->f, "M%.1f %.1fV%.1f", x_of(p, s->x[i]), y_of(p, s->low[i]), y_of(p, s->high[i]));
  fputs("\"/>\n", p->f);
  put_dots(p, s);
}

static void put_series(const panel *p, const tt_chart_series *s)
{
  static void (*const put[])(const panel *, const tt_chart_series *) = {
      [TT_CHART_LINE] = put_line, [TT_CHART_BAND] = put_area, [TT_CHART_POINTS] = put_points};
  if (s->points > 0) put[s->mark](p, s);
}

/* Text */

static void put_axis_labels(const panel *p)
{
  char turned[96];
  double x = 15, y = (p->top + p->bottom) / 2;
  snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", x,
           y);
  tt_chart_put_fitted(p->f, x, y, turned, character_width, p->bottom - p->top + 2 * GAP,
                      p->c->y_label);
  tt_chart_put_fitted(p->f, (LEFT + RIGHT) / 2, p->bottom + 44, "text-anchor=\"middle\"",
                      character_width, WIDTH - LEFT + WIDTH - RIGHT, p->c->x_label);
}

/* A number below a tick of the x axis; the last one ends inside the frame. */
static void put_x_number(const panel *p, double x, const char *number)
{
  double half = character_width * (double)strlen(number) / 2;
  tt_chart_put_label(p->f, fmin(x, WIDTH - half), p->bottom + 20, "text-anchor=\"middle\"", number);
}

static void put_y_number(const panel *p, double y, const char *number)
{
  tt_chart_put_fitted(p->f, LEFT - 8, y + 4.5, "text-anchor=\"end\"", character_width, LEFT - 28,
                      number);
}

static void put_axes(const panel *p)
{
  char text[NUMBER];
  for (int i = 0; i < p->y.ticks; i++) {
    double y = y_of(p, p->y.tick[i]);
    number_text(&p->y, p->y.tick[i], text);
    put_segment(p->f, "grid", LEFT, y, RIGHT, y);
    put_y_number(p, y, text);
  }
  for (int i = 0; i < p->x.ticks; i++) {
    double x = x_of(p, p->x.tick[i]);
    number_text(&p->x, p->x.tick[i], text);
    put_segment(p->f, "axis", x, p->bottom, x, p->bottom + 5);
    put_x_number(p, x, text);
  }
  put_segment(p->f, "axis", LEFT, p->bottom, RIGHT, p->bottom);
  put_segment(p->f, "axis", LEFT, p->top, LEFT, p->bottom);
  put_axis_labels(p);
}

/* The sample of a series in the legend: its middle is at height y. */
static void put_key(FILE *f, const tt_chart_series *s, double x, double y)
{
  if (s->mark == TT_CHART_LINE) {
    begin_line(f, s->style);
    fprintf(f, "M%.1f %.1fh%d\"/>\n", x, y, KEY - 8);
  } else
    fprintf(f, "<circle class=\"mark m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.0\"/>\n", s->style,
            x + (KEY - 8) / 2.0, y);
}

static double entry_width(const tt_chart_series *s)
{
  return KEY + character_width * tt_chart_count_characters(s->name) + SPACE;
}

/* Write the entries in lines from left to right; returns the number of lines. p->f NULL: write
 * nothing. */
static int put_legend(const panel *p)
{
  int lines = 0;
  double x = LEFT, end = RIGHT;
  for (int64_t k = 0; k < p->c->count; k++) {
    const tt_chart_series *s = &p->c->series[k];
    if (!s->name) continue;
    if (lines == 0 || x + entry_width(s) - SPACE > end) {
      lines++;
      x = LEFT;
    }
    double y = LEGEND * (lines - 0.5);
    if (p->f) put_key(p->f, s, x, y);
    if (p->f) tt_chart_put_label(p->f, x + KEY, y + 4.5, "", s->name);
    x += entry_width(s);
  }
  return lines;
}

void tt_chart_put_inline(FILE *f, const tt_chart *c)
{
  panel own = {.c = c};
  int lines = put_legend(&own);
  if (lines == 0) lines = 1; /* the plots of a row begin at the same height */
  make_axes(&own);
  own.top = LEGEND * lines + GAP;
  own.bottom = own.top + HEIGHT;
  fprintf(f, "<svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", WIDTH,
          own.bottom + BELOW);
  tt_chart_put_text(f, c->title, TT_CHART_MAX_CHARACTERS);
  fputs("\">\n", f);
  own.f = f;
  put_legend(&own);
  put_axes(&own);
  for (int64_t k = c->count - 1; k >= 0; k--) put_series(&own, &c->series[k]);
  if (own.points == 0)
    tt_chart_put_label(f, (LEFT + RIGHT) / 2, (own.top + own.bottom) / 2, "text-anchor=\"middle\"",
                       "no data yet");
  fputs("</svg>\n", f);
}

const char tt_chart_style[] =
    "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;"
    "fill:#24292f}\n"
    ".grid{stroke:#e1e4e8;stroke-width:1}\n"
    ".axis{stroke:#57606a;stroke-width:1.2}\n.line{fill:none;stroke-width:2}\n"
    ".bold{stroke-width:3}\n.bar{stroke-width:1.5;opacity:0.55}\n"
    ".mark{stroke:#ffffff;stroke-width:1}\n.area{opacity:0.25}\n"
    ".s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#cc79a7}"
    ".s4{stroke:#b58900}.s5{stroke:#6e7781}\n"
    ".m0{fill:#0072b2}.m1{fill:#d55e00}.m2{fill:#009e73}.m3{fill:#cc79a7}"
    ".m4{fill:#b58900}.m5{fill:#6e7781}\n"
    ".dots{fill:none;stroke-width:6;stroke-linecap:round;opacity:0.75}\n"
    "@media screen and (prefers-color-scheme:dark){text{fill:#e6edf3}"
    ".grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}"
    ".s0{stroke:#56b4e9}.m0{fill:#56b4e9}.s5{stroke:#9198a1}.m5{fill:#9198a1}}\n";
