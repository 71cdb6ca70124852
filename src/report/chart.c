/* chart.c — see chart.h. */
#include "src/report/chart.h"

#include "src/report/chart_internal.h"
#include "src/report/chart_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  HEIGHT = 248, /* of the plot */
  TICKS = 5,
  LEGEND = 20, /* height of a line of the legend */
  BELOW = 58,  /* tick labels and label of the x axis */
  GAP = 12,
  KEY = 36,  /* sample of a line in the legend, and the space after it */
  SPACE = 16 /* between entries of the legend */
};
static const double character_width = 7.2; /* average */

static void extend_axes(tt_panel *p, const tt_chart_series *s, int64_t i)
{
  tt_axis_extend(&p->x, s->x[i]);
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
  tt_axis_make_ticks(&p->x, TICKS, p->c->least_x_step, p->c->may_be_log_x);
  tt_axis_make_ticks(&p->y, TICKS, 0, !p->c->is_square && !p->c->is_linear);
}

static void put_axis_labels(const tt_panel *p)
{
  char turned[96];
  double x = 15, y = (p->top + p->bottom) / 2;
  snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", x,
           y);
  tt_chart_put_fitted(p->f, x, y, turned, character_width, p->bottom - p->top + 2 * GAP,
                      p->c->y_label);
  tt_chart_put_fitted(p->f, (TT_CHART_LEFT + TT_CHART_RIGHT) / 2, p->bottom + 44,
                      "text-anchor=\"middle\"", character_width,
                      TT_CHART_WIDTH - TT_CHART_LEFT + TT_CHART_WIDTH - TT_CHART_RIGHT,
                      p->c->x_label);
}

/* A number below a tick of the x axis; the last one ends inside the frame. */
static void put_x_number(const tt_panel *p, double x, const char *number)
{
  double half = character_width * (double)strlen(number) / 2;
  tt_chart_put_label(p->f, fmin(x, TT_CHART_WIDTH - half), p->bottom + 20, "text-anchor=\"middle\"",
                     number);
}

static void put_y_number(const tt_panel *p, double y, const char *number)
{
  tt_chart_put_fitted(p->f, TT_CHART_LEFT - 8, y + 4.5, "text-anchor=\"end\"", character_width,
                      TT_CHART_LEFT - 28, number);
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
    tt_panel_put_segment(p->f, "grid", TT_CHART_LEFT, y, TT_CHART_RIGHT, y);
    put_y_number(p, y, text);
  }
  for (int i = 0; i < p->x.ticks; i++) {
    double x = tt_panel_x(p, p->x.tick[i]);
    tt_axis_number(&p->x, p->x.tick[i], text);
    tt_panel_put_segment(p->f, "axis", x, p->bottom, x, p->bottom + 5);
    if (has_number(&p->x, p->x.tick[i])) put_x_number(p, x, text);
  }
  tt_panel_put_segment(p->f, "axis", TT_CHART_LEFT, p->bottom, TT_CHART_RIGHT, p->bottom);
  tt_panel_put_segment(p->f, "axis", TT_CHART_LEFT, p->top, TT_CHART_LEFT, p->bottom);
  put_axis_labels(p);
}

static double entry_width(const tt_chart_series *s)
{
  return KEY + character_width * tt_chart_count_characters(s->name) + SPACE;
}

/* Write the entries in lines from left to right; returns the number of lines. p->f NULL: write
 * nothing. */
static int put_legend(const tt_panel *p)
{
  int lines = 0;
  double x = TT_CHART_LEFT, end = TT_CHART_RIGHT;
  for (int64_t k = 0; k < p->c->count; k++) {
    const tt_chart_series *s = &p->c->series[k];
    if (!s->name) continue;
    if (lines == 0 || x + entry_width(s) - SPACE > end) {
      lines++;
      x = TT_CHART_LEFT;
    }
    double y = LEGEND * (lines - 0.5);
    if (p->f) tt_panel_put_key(p, s, x, y, KEY - 8);
    if (p->f) tt_chart_put_label(p->f, x + KEY, y + 4.5, "", s->name);
    x += entry_width(s);
  }
  return lines;
}

void tt_chart_put_inline(FILE *f, const tt_chart *c)
{
  tt_panel own = {.c = c};
  int lines = put_legend(&own);
  if (lines == 0) lines = 1; /* the plots of a row begin at the same height */
  make_axes(&own);
  own.top = LEGEND * lines + GAP;
  own.bottom = own.top + HEIGHT;
  fprintf(f, "<svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"",
          TT_CHART_WIDTH, own.bottom + BELOW);
  tt_chart_put_text(f, c->title, TT_CHART_MAX_CHARACTERS);
  fputs("\">\n", f);
  own.f = f;
  put_legend(&own);
  put_axes(&own);
  for (int64_t k = c->count - 1; k >= 0; k--) tt_panel_put_series(&own, &c->series[k]);
  if (own.points == 0)
    tt_chart_put_label(f, (TT_CHART_LEFT + TT_CHART_RIGHT) / 2, (own.top + own.bottom) / 2,
                       "text-anchor=\"middle\"", "no data yet");
  fputs("</svg>\n", f);
}

const char tt_chart_style[] =
    "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;"
    "fill:#24292f}\n"
    ".note{fill:#57606a}\n.grid{stroke:#e1e4e8;stroke-width:1}\n"
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
    ".grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}"
    ".s0{stroke:#56b4e9}.m0{fill:#56b4e9}.s5{stroke:#9198a1}.m5{fill:#9198a1}}\n";
