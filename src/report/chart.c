/* chart.c — see chart.h. */
#include "src/report/chart.h"

#include "io/hdf5/files.h"
#include "src/report/chart_internal.h"
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
  GAP = 12,
  STRIP_GAP = 22, /* room for the labels at the ends of two axes */
  KEY = 36,       /* sample of a line in the legend, and the space after it */
  SPACE = 16      /* between entries of the legend */
};
/* Average widths of characters: text, title of a chart, title of the page. */
static const double character_width = 7.2, title_character_width = 8.6, page_character_width = 10.4;

static const tt_chart_frame alone = {760, 78, 22, 330, 3.5, 7, 0, 0};
static const tt_chart_frame in_rows = {328, 66, 14, 248, 3, 5, 0, 0};
static const tt_chart_frame in_page = {360, 62, 14, 248, 3, 5, 240, 1};

typedef struct picture {
  FILE *f;
  const char *title;
  int columns;
  int64_t charts;
  const tt_chart *chart;
  const tt_chart_frame *frame;
} picture;

static void extend_axes(tt_panel *p, const tt_chart_series *s, int64_t i)
{
  tt_axis_extend(&p->x, s->x[i]);
  if (s->mark == TT_CHART_COUNT) {
    p->count = fmax(p->count, s->y[i]);
    return;
  }
  if (s->mark == TT_CHART_TRACE) return; /* one member must not decide the range */
  tt_axis_extend(&p->y, tt_chart_low(s, i));
  tt_axis_extend(&p->y, tt_chart_high(s, i));
  if (s->mark != TT_CHART_BAND) tt_axis_extend(&p->y, s->y[i]);
  p->points++;
}

static void make_axes(tt_panel *p)
{
  p->x = p->y = tt_axis_empty();
  for (int64_t k = 0; k < p->c->count; k++)
    for (int64_t i = 0; i < p->c->series[k].points; i++)
      if (tt_chart_is_drawn(&p->c->series[k], i)) extend_axes(p, &p->c->series[k], i);
  if (p->c->is_square) {
    tt_axis_extend(&p->x, p->y.low);
    tt_axis_extend(&p->x, p->y.high);
    p->y = p->x;
  }
  tt_axis_make_ticks(&p->x, p->frame->ticks, p->c->least_x_step, p->c->may_be_log_x);
  tt_axis_make_ticks(&p->y, p->frame->ticks, 0, !p->c->is_square && !p->c->is_linear);
}

static void put_axis_labels(const tt_panel *p)
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
static void put_x_number(const tt_panel *p, double x, const char *number)
{
  double half = character_width * (double)strlen(number) / 2;
  tt_chart_put_label(p->f, fmin(x, p->right + p->frame->right - half), p->base + 20,
                     "text-anchor=\"middle\"", number);
}

static void put_y_number(const tt_panel *p, double y, const char *number)
{
  tt_chart_put_fitted(p->f, p->left - 8, y + 4.5, "text-anchor=\"end\"", character_width,
                      p->frame->left - 28, number);
}

/* On a logarithmic x axis with many ticks only powers of ten have room for a number. */
static int has_number(const tt_axis *x, double tick)
{
  double power = log10(fabs(tick));
  return !x->is_log || x->ticks <= 7 || fabs(power - round(power)) < 1e-6;
}

static void put_axes(const tt_panel *p)
{
  char text[TT_AXIS_NUMBER];
  for (int i = 0; i < p->y.ticks; i++) {
    double y = tt_panel_y(p, p->y.tick[i]);
    tt_axis_number(&p->y, p->y.tick[i], text);
    tt_panel_put_segment(p->f, "grid", p->left, y, p->right, y);
    put_y_number(p, y, text);
  }
  for (int i = 0; i < p->x.ticks; i++) {
    double x = tt_panel_x(p, p->x.tick[i]);
    tt_axis_number(&p->x, p->x.tick[i], text);
    tt_panel_put_segment(p->f, "axis", x, p->base, x, p->base + 5);
    if (has_number(&p->x, p->x.tick[i])) put_x_number(p, x, text);
  }
  tt_panel_put_segment(p->f, "axis", p->left, p->base, p->right, p->base);
  tt_panel_put_segment(p->f, "axis", p->left, p->top, p->left, p->bottom);
  put_axis_labels(p);
}

/* Ticks of the strip of counts. */
static void put_strip_axis(const tt_panel *p)
{
  char text[32];
  if (p->base <= p->bottom) return;
  snprintf(text, sizeof text, "%.6g", p->count);
  tt_panel_put_segment(p->f, "grid", p->left, p->base - TT_CHART_STRIP, p->right,
                       p->base - TT_CHART_STRIP);
  put_y_number(p, p->base - TT_CHART_STRIP, text);
  put_y_number(p, p->base, "0");
}

static double entry_width(const tt_chart_series *s)
{
  return KEY + character_width * tt_chart_count_characters(s->name) + SPACE;
}

/* Write the entries in lines from left to right; returns the number of lines. p->f NULL: write
 * nothing. */
static int put_legend(const tt_panel *p, double top)
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
    if (p->f) tt_panel_put_key(p, s, x, y, KEY - 8);
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
    tt_panel own = {.frame = p->frame, .c = &p->chart[i]};
    int n = put_legend(&own, 0);
    if (n > *lines) *lines = n;
    if (p->chart[i].note) *notes = 1;
  }
}

/* Write the plot, its axes and its legend below `top`; its parts from the back to the front. */
static void put_plot(tt_panel *own, double top, int lines)
{
  const tt_chart *c = own->c;
  put_legend(own, top);
  own->top = top + LEGEND * lines + GAP;
  own->base = own->bottom = own->top + own->frame->plot_height;
  make_axes(own);
  if (own->count > 0) own->bottom -= TT_CHART_STRIP + STRIP_GAP;
  put_axes(own);
  put_strip_axis(own);
  for (int64_t k = c->count - 1; k >= 0; k--) tt_panel_put_series(own, &c->series[k]);
  if (own->points == 0)
    tt_chart_put_label(own->f, (own->left + own->right) / 2, (own->top + own->bottom) / 2,
                       "text-anchor=\"middle\"", "no data yet");
}

static tt_panel make_panel(FILE *f, const tt_chart_frame *m, const tt_chart *c, int64_t column)
{
  tt_panel own = {.f = f, .frame = m, .c = c};
  own.left = m->width * (double)column + m->left;
  own.right = own.left + m->width - m->left - m->right;
  return own;
}

/* Write chart i of a row whose top is at `top`. */
static void put_chart(const picture *p, int64_t i, double top, int notes, int lines)
{
  const tt_chart *c = &p->chart[i];
  tt_panel own = make_panel(p->f, p->frame, c, i % p->columns);
  double width = p->frame->width - p->frame->left;
  tt_chart_put_fitted(p->f, own.left, top + 18, "class=\"title\"", title_character_width, width,
                      c->title);
  if (c->note)
    tt_chart_put_fitted(p->f, own.left, top + TITLE + 10, "class=\"note\"", character_width, width,
                        c->note);
  put_plot(&own, top + TITLE + NOTE * notes, lines);
}

/* The range of an axis as a script reads it: pixels of both ends, values there, 1 = logarithmic. */
static void put_range(FILE *f, const char *name, double from, double to, const tt_axis *a)
{
  fprintf(f, " data-%s=\"%.1f %.1f %.9g %.9g %d\"", name, from, to, a->low, a->high, a->is_log);
}

void tt_chart_put_inline(FILE *f, const tt_chart *c)
{
  const tt_chart_frame *m = &in_page;
  tt_panel own = make_panel(NULL, m, c, 0);
  int lines = put_legend(&own, 0);
  if (lines == 0) lines = 1; /* the plots of a row begin at the same height */
  double top = LEGEND * lines + GAP, bottom = top + m->plot_height;
  tt_panel axes = own;
  make_axes(&axes);
  fprintf(f, "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", m->width,
          bottom + BELOW);
  tt_chart_put_text(f, c->title, TT_CHART_MAX_CHARACTERS);
  fputc('"', f);
  put_range(f, "x", own.left, own.right, &axes.x);
  put_range(f, "y", axes.count > 0 ? bottom - TT_CHART_STRIP - STRIP_GAP : bottom, top, &axes.y);
  fputs(">\n", f);
  own.f = f;
  put_plot(&own, 0, lines);
  fputs("</svg>\n", f);
}

const char tt_chart_style[] =
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
    ".dots{fill:none;stroke-width:6;stroke-linecap:round;opacity:0.75}\n"
    ".trace{fill:none;stroke-width:0.8;opacity:0.16}\n"
    "@media screen and (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}"
    ".ground{fill:#0d1117}"
    ".grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}"
    ".s0{stroke:#56b4e9}.m0{fill:#56b4e9}.s5{stroke:#9198a1}.m5{fill:#9198a1}}\n";

static void put_header(const picture *p, double width, double height)
{
  fprintf(p->f,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
          width, height, width, height);
  tt_chart_put_text(p->f, p->title, TT_CHART_MAX_CHARACTERS);
  fprintf(p->f,
          "</title>\n<!-- written by tutti report -->\n<style>\n%s</style>\n"
          "<rect class=\"ground\" width=\"%.0f\" height=\"%.0f\"/>\n",
          tt_chart_style, width, height);
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
