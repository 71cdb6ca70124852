/* chart_series.c — see chart_internal.h: the marks of each kind of series. */
#include "src/report/chart_internal.h"

#include "src/report/chart_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  MAX_MARKED_POINTS = 80, /* a line with more points has no marks */
  MOST_POINTS = 240,      /* of a line or an area: more are thinned evenly */
  CELLS = 52,             /* cells of a density along each axis */
  SHADES = 8              /* of cells */
};

tt_chart_series tt_chart_ranges(tt_chart_mark mark, int style, const char *name, int64_t points,
                                const double *x, const double *y, const double *low,
                                const double *high)
{
  return (tt_chart_series){name, points, x, y, low, high, mark, style};
}

tt_chart_series tt_chart_points(tt_chart_mark mark, int style, const char *name, int64_t points,
                                const double *x, const double *y)
{
  return tt_chart_ranges(mark, style, name, points, x, y, NULL, NULL);
}

double tt_chart_low(const tt_chart_series *s, int64_t i) { return s->low ? s->low[i] : s->y[i]; }
double tt_chart_high(const tt_chart_series *s, int64_t i) { return s->high ? s->high[i] : s->y[i]; }

int tt_chart_is_drawn(const tt_chart_series *s, int64_t i)
{
  int inside = isfinite(s->x[i]) && isfinite(tt_chart_low(s, i)) && isfinite(tt_chart_high(s, i));
  return inside && (s->mark == TT_CHART_BAND || isfinite(s->y[i]));
}

double tt_panel_x(const tt_panel *p, double v)
{
  return TT_CHART_LEFT + (TT_CHART_RIGHT - TT_CHART_LEFT) * tt_axis_fraction(&p->x, v);
}

double tt_panel_y(const tt_panel *p, double v)
{
  return p->bottom + (p->top - p->bottom) * tt_axis_fraction(&p->y, v);
}

void tt_panel_put_segment(FILE *f, const char *name, double x1, double y1, double x2, double y2)
{
  fprintf(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", name, x1, y1,
          x2, y2);
}

static void put_line_style(FILE *f, int style)
{
  static const char *const dashes[] = {"", "7 4", "2 4", "10 4 2 4", "4 2", "1 3"};
  int reference = style == TT_CHART_REFERENCE,
      dash = (style + style / TT_CHART_STYLES) % TT_CHART_STYLES;
  fprintf(f, "class=\"line s%d%s\"", style % TT_CHART_STYLES,
          style ? reference ? " thin" : "" : " bold");
  if (*dashes[dash]) fprintf(f, " stroke-dasharray=\"%s\"", dashes[reference ? 1 : dash]);
}

/* Distance of the points that are drawn of a line or area. */
static int64_t stride(const tt_chart_series *s)
{
  return s->points > MOST_POINTS ? (s->points + MOST_POINTS - 1) / MOST_POINTS : 1;
}

/* The next, and the previous, point of an area: its first and its last point are always drawn. */
static int64_t next_within(const tt_chart_series *s, int64_t i, int64_t end)
{
  int64_t step = stride(s);
  return i + step < end || i == end - 1 ? i + step : end - 1;
}

static int64_t back_within(const tt_chart_series *s, int64_t i, int64_t begin)
{
  int64_t step = stride(s);
  return i - step > begin || i == begin ? i - step : begin;
}

static int64_t next(const tt_chart_series *s, int64_t i) { return next_within(s, i, s->points); }

/* A round dot is a line of length 0: one path for all points. */
static void put_dots(const tt_panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"dots s%d\" d=\"", s->style % TT_CHART_STYLES);
  for (int64_t i = 0; i < s->points; i = next(s, i))
    if (tt_chart_is_drawn(s, i))
      fprintf(p->f, "M%.1f %.1fh0", tt_panel_x(p, s->x[i]), tt_panel_y(p, s->y[i]));
  fputs("\"/>\n", p->f);
}

/* A trace may leave the plot. */
static int is_inside(const tt_panel *p, const tt_chart_series *s, int64_t i)
{
  double height = tt_axis_fraction(&p->y, s->y[i]);
  return s->mark != TT_CHART_TRACE || (height >= 0 && height <= 1);
}

static void put_path(const tt_panel *p, const tt_chart_series *s)
{
  int pen = 0;
  for (int64_t i = 0; i < s->points; i = next(s, i)) {
    int drawn = tt_chart_is_drawn(s, i) && is_inside(p, s, i);
    if (drawn)
      fprintf(p->f, "%c%.1f %.1f", pen ? 'L' : 'M', tt_panel_x(p, s->x[i]), tt_panel_y(p, s->y[i]));
    pen = drawn;
  }
  fputs("\"/>\n", p->f);
}

static void put_line(const tt_panel *p, const tt_chart_series *s)
{
  fputs("<path ", p->f);
  put_line_style(p->f, s->style);
  fputs(" d=\"M0 0", p->f); /* an empty path is not valid */
  put_path(p, s);
  if (s->points <= MAX_MARKED_POINTS && s->style != TT_CHART_REFERENCE) put_dots(p, s);
}

static void put_trace(const tt_panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"trace s%d\" d=\"M0 0", s->style % TT_CHART_STYLES);
  put_path(p, s);
}

/* Fill the area between two lines over points [from, to). */
static void put_area(const tt_panel *p, const tt_chart_series *s, int64_t begin, int64_t end)
{
  fprintf(p->f, "<path class=\"area m%d\" d=\"", s->style % TT_CHART_STYLES);
  for (int64_t i = begin; i < end; i = next_within(s, i, end))
    fprintf(p->f, "%c%.1f %.1f", i > begin ? 'L' : 'M', tt_panel_x(p, s->x[i]),
            tt_panel_y(p, tt_chart_high(s, i)));
  for (int64_t i = end - 1; i >= begin; i = back_within(s, i, begin))
    fprintf(p->f, "L%.1f %.1f", tt_panel_x(p, s->x[i]), tt_panel_y(p, tt_chart_low(s, i)));
  fputs("Z\"/>\n", p->f);
}

static void put_areas(const tt_panel *p, const tt_chart_series *s)
{
  for (int64_t begin = 0, to; begin < s->points; begin = to + 1) {
    for (to = begin; to < s->points && tt_chart_is_drawn(s, to);) to++;
    if (to > begin) put_area(p, s, begin, to);
  }
}

/* One path for all error bars. */
static void put_bars(const tt_panel *p, const tt_chart_series *s)
{
  fprintf(p->f, "<path class=\"bar s%d\" d=\"M0 0", s->style % TT_CHART_STYLES);
  for (int64_t i = 0; i < s->points; i = next(s, i))
    if (tt_chart_is_drawn(s, i))
      fprintf(p->f, "M%.1f %.1fV%.1f", tt_panel_x(p, s->x[i]), tt_panel_y(p, s->low[i]),
              tt_panel_y(p, s->high[i]));
  fputs("\"/>\n", p->f);
}

static void put_points(const tt_panel *p, const tt_chart_series *s)
{
  if (s->low) put_bars(p, s);
  put_dots(p, s);
}

static int cell_of(double fraction)
{
  int cell = (int)(fraction * CELLS);
  return cell < 0 ? 0 : cell < CELLS ? cell : CELLS - 1;
}

/* Number of points in each cell; returns the largest number. */
static int64_t count_cells(const tt_panel *p, const tt_chart_series *s, int64_t count[CELLS][CELLS])
{
  int64_t most = 0;
  memset(count, 0, CELLS * sizeof *count);
  for (int64_t i = 0; i < s->points; i++) {
    if (!tt_chart_is_drawn(s, i)) continue;
    int64_t *drawn = &count[cell_of(tt_axis_fraction(&p->y, s->y[i]))]
                           [cell_of(tt_axis_fraction(&p->x, s->x[i]))];
    if (++*drawn > most) most = *drawn;
  }
  return most;
}

static double opacity(int64_t count, int64_t most)
{
  return 0.15 + 0.85 * log1p((double)count - 1) / log1p((double)most);
}

/* One path for all cells whose opacity is that of the shade. */
static void put_shade(const tt_panel *p, int style, int64_t count[CELLS][CELLS], int64_t most,
                      int shade)
{
  double width = (TT_CHART_RIGHT - TT_CHART_LEFT) / (double)CELLS,
         height = (p->bottom - p->top) / CELLS;
  fprintf(p->f, "<path class=\"m%d\" opacity=\"%.2f\" d=\"M0 0", style % TT_CHART_STYLES,
          0.15 + 0.85 * (shade + 0.5) / SHADES);
  for (int row = 0; row < CELLS; row++)
    for (int column = 0; column < CELLS; column++) {
      int64_t n = count[row][column];
      if (!n || (int)fmin((opacity(n, most) - 0.15) / 0.85 * SHADES, SHADES - 1) != shade) continue;
      fprintf(p->f, "M%.1f %.1fh%.1fv%.1fh-%.1fz", TT_CHART_LEFT + column * width,
              p->bottom - (row + 1) * height, width, height, width);
    }
  fputs("\"/>\n", p->f);
}

static void put_density(const tt_panel *p, const tt_chart_series *s)
{
  static int64_t count[CELLS][CELLS];
  int64_t most = count_cells(p, s, count);
  for (int shade = 0; shade < SHADES; shade++) put_shade(p, s->style, count, most, shade);
}

void tt_panel_put_series(const tt_panel *p, const tt_chart_series *s)
{
  static void (*const put[])(const tt_panel *,
                             const tt_chart_series *) = {[TT_CHART_LINE] = put_line,
                                                         [TT_CHART_TRACE] = put_trace,
                                                         [TT_CHART_BAND] = put_areas,
                                                         [TT_CHART_POINTS] = put_points,
                                                         [TT_CHART_DENSITY] = put_density};
  put[s->mark](p, s);
}

void tt_panel_put_key(const tt_panel *p, const tt_chart_series *s, double x, double y, double width)
{
  double middle = x + width / 2;
  char style[32];
  snprintf(style, sizeof style, "bar s%d", s->style % TT_CHART_STYLES);
  if (s->mark == TT_CHART_LINE) {
    fputs("<path ", p->f);
    put_line_style(p->f, s->style);
    fprintf(p->f, " d=\"M%.1f %.1fh%.0f\"/>\n", x, y, width);
  } else if (s->mark == TT_CHART_POINTS) {
    if (s->low) tt_panel_put_segment(p->f, style, middle, y - 8, middle, y + 8);
    fprintf(p->f, "<circle class=\"mark m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.0\"/>\n",
            s->style % TT_CHART_STYLES, middle, y);
  } else
    fprintf(p->f, "<rect class=\"area m%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"12\"/>\n",
            s->style % TT_CHART_STYLES, x, y - 6, width);
}
