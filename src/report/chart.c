/* chart.c — see chart.h. */
#include "src/report/chart.h"

#include "io/hdf5/files.h"
#include "src/report/chart_axis.h"
#include "src/report/chart_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PAGE_TITLE = 40,
  TITLE = 26, /* heights of the lines above a plot */
  NOTE = 18,
  LEGEND = 20,
  BELOW = 58, /* tick labels and label of the x axis */
  STRIP = 34, /* height of the strip of counts */
  GAP = 12,
  STRIP_GAP = 22,         /* room for the labels at the ends of two axes */
  KEY = 36,               /* sample of a line in the legend, and the space after it */
  SPACE = 16,             /* between entries of the legend */
  STYLES = 6,             /* colours; further series repeat them with other dashes */
  MAX_MARKED_POINTS = 80, /* a line with more points has no marks */
  CELLS = 52              /* cells of a density along each axis */
};
/* Average widths of characters: text, title of a chart, title of the page. */
static const double character_width = 7.2, title_character_width = 8.6, page_character_width = 10.4;

/* Sizes in pixels, of a single chart and of several charts in rows. */
typedef struct frame {
  double width, left, right, plot_height, radius;
  int ticks;
} frame;
static const frame alone = {760, 78, 22, 330, 3.5, 7}, in_rows = {328, 66, 14, 248, 3, 5};

typedef struct picture {
  FILE *f;
  const char *title;
  int columns;
  int64_t charts;
  const tt_chart *chart;
  const frame *frame;
} picture;

/* One chart of the picture; all positions in pixels. */
typedef struct panel {
  FILE *f;
  const frame *frame;
  const tt_chart *c;
  tt_axis x, y;
  double left, right, top, bottom; /* of the plot */
  double base;                     /* position of the x axis: below the strip of counts */
  double count;                    /* largest count in the strip; 0 = no strip */
  int64_t points;
} panel;

static double pixel_x(const panel *p, double v)
{
  return p->left + (p->right - p->left) * tt_axis_fraction(&p->x, v);
}

static double pixel_y(const panel *p, double v)
{
  return p->bottom + (p->top - p->bottom) * tt_axis_fraction(&p->y, v);
}

/* Lower and upper end of the error bar or band at point i. */
static double low_at(const tt_chart_series *s, int64_t i) { return s->low ? s->low[i] : s->y[i]; }
static double high_at(const tt_chart_series *s, int64_t i)
{
  return s->high ? s->high[i] : s->y[i];
}

static int is_drawn(const tt_chart_series *s, int64_t i)
{
  int inside = isfinite(s->x[i]) && isfinite(low_at(s, i)) && isfinite(high_at(s, i));
  return inside && (s->mark == TT_CHART_BAND || isfinite(s->y[i]));
}

static void extend_axes(panel *p, const tt_chart_series *s, int64_t i)
{
  tt_axis_extend(&p->x, s->x[i]);
  if (s->mark == TT_CHART_COUNT) {
    p->count = fmax(p->count, s->y[i]);
    return;
  }
  tt_axis_extend(&p->y, low_at(s, i));
  tt_axis_extend(&p->y, high_at(s, i));
  if (s->mark != TT_CHART_BAND) tt_axis_extend(&p->y, s->y[i]);
  p->points++;
}

static void make_axes(panel *p)
{
  p->x = p->y = tt_axis_empty();
  for (int64_t k = 0; k < p->c->count; k++)
    for (int64_t i = 0; i < p->c->series[k].points; i++)
      if (is_drawn(&p->c->series[k], i)) extend_axes(p, &p->c->series[k], i);
  if (p->c->is_square) {
    tt_axis_extend(&p->x, p->y.low);
    tt_axis_extend(&p->x, p->y.high);
    p->y = p->x;
  }
  tt_axis_make_ticks(&p->x, p->frame->ticks, p->c->least_x_step, 0);
  tt_axis_make_ticks(&p->y, p->frame->ticks, 0, !p->c->is_square);
}

static void put_segment(FILE *f, const char *name, double x1, double y1, double x2, double y2)
{
  fprintf(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", name, x1, y1,
          x2, y2);
}

static void put_axis_labels(const panel *p)
{
  char turned[96];
  double x = p->left - p->frame->left + 15, y = (p->top + p->bottom) / 2;
  snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", x,
           y);
  tt_chart_put_fitted(p->f, x, y, turned, character_width, p->bottom - p->top + 2 * GAP,
                      p->c->y_label);
  tt_chart_put_fitted(p->f, (p->left + p->right) / 2, p->base + 44, "text-anchor=\"middle\"",
                      character_width, p->right - p->left + 2 * p->frame->right, p->c->x_label);
}

/* A number below a tick of the x axis; the last one ends inside the frame. */
static void put_x_number(const panel *p, double x, const char *number)
{
  double half = character_width * (double)strlen(number) / 2;
  tt_chart_put_label(p->f, fmin(x, p->right + p->frame->right - half), p->base + 20,
                     "text-anchor=\"middle\"", number);
}

static void put_y_number(const panel *p, double y, const char *number)
{
  tt_chart_put_fitted(p->f, p->left - 8, y + 4.5, "text-anchor=\"end\"", character_width,
                      p->frame->left - 28, number);
}

static void put_axes(const panel *p)
{
  char text[TT_AXIS_NUMBER];
  for (int i = 0; i < p->y.ticks; i++) {
    double y = pixel_y(p, p->y.tick[i]);
    tt_axis_number(&p->y, p->y.tick[i], text);
    put_segment(p->f, "grid", p->left, y, p->right, y);
    put_y_number(p, y, text);
  }
  for (int i = 0; i < p->x.ticks; i++) {
    double x = pixel_x(p, p->x.tick[i]);
    tt_axis_number(&p->x, p->x.tick[i], text);
    put_segment(p->f, "axis", x, p->base, x, p->base + 5);
    put_x_number(p, x, text);
  }
  put_segment(p->f, "axis", p->left, p->base, p->right, p->base);
  put_segment(p->f, "axis", p->left, p->top, p->left, p->bottom);
  put_axis_labels(p);
}

static void put_line_style(FILE *f, int style)
{
  static const char *const dashes[] = {"", "7 4", "2 4", "10 4 2 4", "4 2", "1 3"};
  int reference = style == TT_CHART_REFERENCE, dash = (style + style / STYLES) % STYLES;
  fprintf(f, "class=\"line s%d%s\"", style % STYLES, style ? reference ? " thin" : "" : " bold");
  if (*dashes[dash]) fprintf(f, " stroke-dasharray=\"%s\"", dashes[reference ? 1 : dash]);
}

static void put_mark(const panel *p, const tt_chart_series *s, double x, double y, double radius)
{
  fprintf(p->f, "<circle class=\"mark m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n",
          s->style % STYLES, x, y, radius);
}

static void put_line(const panel *p, const tt_chart_series *s)
{
  int pen = 0;
  fputs("<path ", p->f);
  put_line_style(p->f, s->style);
  fputs(" d=\"M0 0", p->f); /* an empty path is not valid */
  for (int64_t i = 0; i < s->points; i++) {
    int drawn = is_drawn(s, i);
    if (drawn)
      fprintf(p->f, "%c%.1f %.1f", pen ? 'L' : 'M', pixel_x(p, s->x[i]), pixel_y(p, s->y[i]));
    pen = drawn;
  }
  fputs("\"/>\n", p->f);
  if (s->points > MAX_MARKED_POINTS || s->style == TT_CHART_REFERENCE) return;
  for (int64_t i = 0; i < s->points; i++)
    if (is_drawn(s, i))
      put_mark(p, s, pixel_x(p, s->x[i]), pixel_y(p, s->y[i]),
               p->frame->radius * (s->style ? 1 : 1.25));
}

/* Fill the area between two lines over points [from, to). */
static void put_area(const panel *p, const tt_chart_series *s, int64_t from, int64_t to)
{
  int is_count = s->mark == TT_CHART_COUNT;
  double scale = is_count ? STRIP / fmax(p->count, 1) : 0;
  fprintf(p->f, "<path class=\"area m%d\" d=\"", s->style % STYLES);
  for (int64_t i = from; i < to; i++)
    fprintf(p->f, "%c%.1f %.1f", i > from ? 'L' : 'M', pixel_x(p, s->x[i]),
            is_count ? p->base - scale * fmax(s->y[i], 0) : pixel_y(p, high_at(s, i)));
  for (int64_t i = to - 1; i >= from; i--)
    fprintf(p->f, "L%.1f %.1f", pixel_x(p, s->x[i]), is_count ? p->base : pixel_y(p, low_at(s, i)));
  fputs("Z\"/>\n", p->f);
}

static void put_areas(const panel *p, const tt_chart_series *s)
{
  for (int64_t from = 0, to; from < s->points; from = to + 1) {
    for (to = from; to < s->points && is_drawn(s, to);) to++;
    if (to > from) put_area(p, s, from, to);
  }
}

static void put_counts(const panel *p, const tt_chart_series *s)
{
  put_areas(p, s);
  if (s->name)
    tt_chart_put_label(p->f, p->left + 8, p->base - STRIP / 2.0 + 4.5, "class=\"note\"", s->name);
}

static void put_points(const panel *p, const tt_chart_series *s)
{
  char style[32];
  snprintf(style, sizeof style, "bar s%d", s->style % STYLES);
  for (int64_t i = 0; s->low && i < s->points; i++)
    if (is_drawn(s, i)) {
      double x = pixel_x(p, s->x[i]);
      put_segment(p->f, style, x, pixel_y(p, s->low[i]), x, pixel_y(p, s->high[i]));
    }
  for (int64_t i = 0; i < s->points; i++)
    if (is_drawn(s, i)) put_mark(p, s, pixel_x(p, s->x[i]), pixel_y(p, s->y[i]), p->frame->radius);
}

static int cell_of(double fraction)
{
  int cell = (int)(fraction * CELLS);
  return cell < 0 ? 0 : cell < CELLS ? cell : CELLS - 1;
}

static void put_density(const panel *p, const tt_chart_series *s)
{
  static int64_t count[CELLS][CELLS];
  double width = (p->right - p->left) / CELLS, height = (p->bottom - p->top) / CELLS, most = 0;
  memset(count, 0, sizeof count);
  for (int64_t i = 0; i < s->points; i++) {
    if (!is_drawn(s, i)) continue;
    int64_t *at = &count[cell_of(tt_axis_fraction(&p->y, s->y[i]))]
                        [cell_of(tt_axis_fraction(&p->x, s->x[i]))];
    most = fmax(most, (double)++*at);
  }
  for (int row = 0; row < CELLS; row++)
    for (int column = 0; column < CELLS; column++)
      if (count[row][column])
        fprintf(p->f,
                "<rect class=\"m%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" "
                "opacity=\"%.2f\"/>\n",
                s->style % STYLES, p->left + column * width, p->bottom - (row + 1) * height, width,
                height, 0.15 + 0.85 * log1p((double)count[row][column] - 1) / log1p(most));
}

static void put_series(const panel *p, const tt_chart_series *s)
{
  static void (*const put[])(const panel *,
                             const tt_chart_series *) = {[TT_CHART_LINE] = put_line,
                                                         [TT_CHART_BAND] = put_areas,
                                                         [TT_CHART_POINTS] = put_points,
                                                         [TT_CHART_DENSITY] = put_density,
                                                         [TT_CHART_COUNT] = put_counts};
  put[s->mark](p, s);
}

/* Ticks of the strip of counts. */
static void put_strip_axis(const panel *p)
{
  char text[32];
  if (p->base <= p->bottom) return;
  snprintf(text, sizeof text, "%.6g", p->count);
  put_segment(p->f, "grid", p->left, p->base - STRIP, p->right, p->base - STRIP);
  put_y_number(p, p->base - STRIP, text);
  put_y_number(p, p->base, "0");
}

static double entry_width(const tt_chart_series *s)
{
  return KEY + character_width * tt_chart_count_characters(s->name) + SPACE;
}

static void put_key(const panel *p, const tt_chart_series *s, double x, double y)
{
  double middle = x + (KEY - 8) / 2.0;
  char style[32];
  snprintf(style, sizeof style, "bar s%d", s->style % STYLES);
  if (s->mark == TT_CHART_LINE) {
    fputs("<path ", p->f);
    put_line_style(p->f, s->style);
    fprintf(p->f, " d=\"M%.1f %.1fh%d\"/>\n", x, y, KEY - 8);
  } else if (s->mark == TT_CHART_POINTS) {
    if (s->low) put_segment(p->f, style, middle, y - 8, middle, y + 8);
    put_mark(p, s, middle, y, p->frame->radius);
  } else
    fprintf(p->f, "<rect class=\"area m%d\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"12\"/>\n",
            s->style % STYLES, x, y - 6, KEY - 8);
}

/* Write the entries in lines from left to right; returns the number of lines. p->f NULL: write
 * nothing. */
static int put_legend(const panel *p, double top)
{
  int lines = 0;
  double x = p->left, end = p->left + p->frame->width - p->frame->left - p->frame->right;
  for (int64_t k = 0; k < p->c->count; k++) {
    const tt_chart_series *s = &p->c->series[k];
    if (!s->name || s->mark == TT_CHART_COUNT) continue;
    if (lines == 0 || x + entry_width(s) - SPACE > end) {
      lines++;
      x = p->left;
    }
    double y = top + LEGEND * (lines - 0.5);
    if (p->f) put_key(p, s, x, y);
    if (p->f) tt_chart_put_label(p->f, x + KEY, y + 4.5, "", s->name);
    x += entry_width(s);
  }
  return lines;
}

/* Lines of notes and of the legend above the plots of the row that begins with chart `first`. */
static void measure_row(const picture *p, int64_t first, int *notes, int *lines)
{
  *notes = *lines = 0;
  for (int64_t i = first; i < first + p->columns && i < p->charts; i++) {
    panel own = {.frame = p->frame, .c = &p->chart[i]};
    int n = put_legend(&own, 0);
    if (n > *lines) *lines = n;
    if (p->chart[i].note) *notes = 1;
  }
}

/* Write chart i of a row whose top is at `top`; its parts from the back to the front. */
static void put_chart(const picture *p, int64_t i, double top, int notes, int lines)
{
  const frame *m = p->frame;
  const tt_chart *c = &p->chart[i];
  panel own = {.f = p->f, .frame = m, .c = c};
  own.left = m->width * (double)(i % p->columns) + m->left;
  own.right = own.left + m->width - m->left - m->right;
  double width = m->width - m->left;
  tt_chart_put_fitted(p->f, own.left, top + 18, "class=\"title\"", title_character_width, width,
                      c->title);
  if (c->note)
    tt_chart_put_fitted(p->f, own.left, top + TITLE + 10, "class=\"note\"", character_width, width,
                        c->note);
  top += TITLE + NOTE * notes;
  put_legend(&own, top);
  own.top = top + LEGEND * lines + GAP;
  own.base = own.bottom = own.top + m->plot_height;
  make_axes(&own);
  if (own.count > 0) own.bottom -= STRIP + STRIP_GAP;
  put_axes(&own);
  put_strip_axis(&own);
  for (int64_t k = c->count - 1; k >= 0; k--) put_series(&own, &c->series[k]);
  if (own.points == 0)
    tt_chart_put_label(p->f, (own.left + own.right) / 2, (own.top + own.bottom) / 2,
                       "text-anchor=\"middle\"", "no data yet");
}

static void put_header(const picture *p, double width, double height)
{
  static const char *const style =
      "<style>\n"
      "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;"
      "fill:#24292f}\n"
      ".page{font-size:18px;font-weight:600}\n.title{font-size:15px;font-weight:600}\n.note{fill:#"
      "57606a}\n"
      ".ground{fill:#ffffff}\n.grid{stroke:#e1e4e8;stroke-width:1}\n"
      ".axis{stroke:#57606a;stroke-width:1.2}\n.line{fill:none;stroke-width:2}\n"
      ".bold{stroke-width:3}\n.thin{stroke-width:1.5}\n.bar{stroke-width:1.5;opacity:0.55}\n"
      ".mark{stroke:#ffffff;stroke-width:1}\n.area{opacity:0.25}\n"
      ".s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#cc79a7}"
      ".s4{stroke:#b58900}.s5{stroke:#6e7781}\n"
      ".m0{fill:#0072b2}.m1{fill:#d55e00}.m2{fill:#009e73}.m3{fill:#cc79a7}"
      ".m4{fill:#b58900}.m5{fill:#6e7781}\n"
      "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}"
      ".ground{fill:#0d1117}"
      ".grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}"
      ".s0{stroke:#56b4e9}.m0{fill:#56b4e9}.s5{stroke:#9198a1}.m5{fill:#9198a1}}\n"
      "</style>\n";
  fprintf(p->f,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
          width, height, width, height);
  tt_chart_put_text(p->f, p->title, TT_CHART_MAX_CHARACTERS);
  fprintf(p->f, "</title>\n%s<rect class=\"ground\" width=\"%.0f\" height=\"%.0f\"/>\n", style,
          width, height);
}

/* Write all rows of charts and return their height. p->f NULL: write nothing. */
static double put_rows(const picture *p)
{
  double top = p->charts > 1 ? PAGE_TITLE : GAP;
  for (int64_t first = 0; first < p->charts; first += p->columns) {
    int notes, lines;
    measure_row(p, first, &notes, &lines);
    for (int64_t i = first; p->f && i < first + p->columns && i < p->charts; i++)
      put_chart(p, i, top, notes, lines);
    top += TITLE + NOTE * notes + LEGEND * lines + GAP + p->frame->plot_height + BELOW + GAP;
  }
  return top;
}

static void put_picture(picture *p)
{
  FILE *f = p->f;
  p->f = NULL;
  double height = put_rows(p), width = p->frame->width * p->columns;
  p->f = f;
  put_header(p, width, height);
  if (p->charts > 1)
    tt_chart_put_fitted(f, p->frame->left, 26, "class=\"page\"", page_character_width,
                        width - p->frame->left, p->title);
  put_rows(p);
  fputs("</svg>\n", f);
}

tt_err tt_charts_write_local(const char *file, const char *title, int columns, int64_t charts,
                             const tt_chart *chart)
{
  char *text = NULL;
  size_t size = 0;
  int single = charts == 1;
  picture p = {.f = open_memstream(&text, &size),
               .title = single ? chart->title : title,
               .columns = single ? 1 : columns,
               .charts = charts,
               .chart = chart,
               .frame = single ? &alone : &in_rows};
  if (!p.f) return TT_FAIL(MEM, "%s: %s", file, strerror(errno));
  put_picture(&p);
  int bad = ferror(p.f);
  bad |= fclose(p.f) != 0;
  tt_err e = bad ? TT_FAIL(MEM, "%s: out of memory for the picture", file)
                 : tt_file_write_atomic_local(file, text);
  free(text);
  return e;
}
