/* chart.c — see chart.h. */
#include "src/report/chart.h"

#include "core/base/text.h"
#include "io/hdf5/files.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  WIDTH = 760,
  LEFT = 78,
  RIGHT = 22,
  PLOT = 330, /* height of the plot */
  TITLE = 44,
  LEGEND = 20, /* height of a line of the legend */
  BELOW = 58,
  TICKS = 24,
  MAX_NAME_CHARACTERS = 80,
  STYLES = 6,            /* colours; then they begin again, with other dashes */
  MAX_MARKED_POINTS = 80 /* points that are marked: more of them would be a caterpillar */
};
static const double log_scale_ratio = 5.0; /* largest over smallest */

typedef struct axis {
  double low, high;
  int is_log, ticks;
  double tick[TICKS];
} axis;

typedef struct picture {
  FILE *f;
  const tt_chart *c;
  axis x, y;
  int points;
  double top; /* of the plot */
} picture;

/* ---- Axes --------------------------------------------------------------------------------------
 */

static double axis_fraction(const axis *a, double v)
{
  if (a->is_log) return (log(v) - log(a->low)) / (log(a->high) - log(a->low));
  return (v - a->low) / (a->high - a->low);
}

static double pixel_x(const picture *p, double v)
{
  return LEFT + (WIDTH - LEFT - RIGHT) * axis_fraction(&p->x, v);
}

static double pixel_y(const picture *p, double v)
{
  return p->top + PLOT * (1 - axis_fraction(&p->y, v));
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
  double step = nice_step((a->high - a->low + 2 * pad) / 7);
  if (step < least_step) step = least_step;
  double from = floor((a->low - pad) / step + 1e-9), to = ceil((a->high + pad) / step - 1e-9);
  a->low = from * step;
  a->high = to * step;
  for (double i = from; i <= to && a->ticks < TICKS; i++) a->tick[a->ticks++] = i * step;
}

/* Ticks at 1, 2, 5 of each decade, or at some powers of ten where there are many decades. */
static void make_log(axis *a)
{
  static const double nice[] = {1, 2, 5};
  double first = floor(log10(a->low)), last = ceil(log10(a->high));
  double by = last - first > 3 ? ceil((last - first) / 10) : 1;
  int each = last - first > 3 ? 1 : 3;
  double tick[TICKS];
  int n = 0, from = 0;
  for (double d = first; d <= last && n < TICKS; d += by)
    for (int i = 0; i < each && n < TICKS; i++) tick[n++] = nice[i] * pow(10, d);
  while (from + 1 < n && tick[from + 1] <= a->low) from++;
  for (int i = from; i < n && (a->ticks < 2 || a->tick[a->ticks - 1] < a->high); i++)
    a->tick[a->ticks++] = tick[i];
  a->low = fmin(a->tick[0], a->low);
  a->high = fmax(a->tick[a->ticks - 1], a->high);
}

static int is_drawn(const tt_chart_line *l, int64_t i)
{
  return isfinite(l->x[i]) && isfinite(l->y[i]);
}

static void extend_axis(axis *a, double v)
{
  a->low = fmin(a->low, v);
  a->high = fmax(a->high, v);
}

static void make_axes(picture *p)
{
  p->x = p->y = (axis){.low = INFINITY, .high = -INFINITY};
  for (int64_t k = 0; k < p->c->lines; k++)
    for (int64_t i = 0; i < p->c->line[k].points; i++) {
      if (!is_drawn(&p->c->line[k], i)) continue;
      extend_axis(&p->x, p->c->line[k].x[i]);
      extend_axis(&p->y, p->c->line[k].y[i]);
      p->points++;
    }
  if (p->points == 0) p->x.low = p->y.low = 0, p->x.high = p->y.high = 1;
  p->y.is_log = p->y.low > 0 && p->y.high > log_scale_ratio * p->y.low;
  make_linear(&p->x, 1);
  if (p->y.is_log)
    make_log(&p->y);
  else
    make_linear(&p->y, 0);
}

/* ---- Text --------------------------------------------------------------------------------------
 */

/* At most MAX_NAME_CHARACTERS characters that XML may hold. */
static void put_text(FILE *f, const char *text)
{
  int n = 0;
  for (const char *p = text; *p; n++) {
    int bytes = tt_utf8_char_bytes(p);
    int no_character = bytes == 3 && !memcmp(p, "\xEF\xBF", 2) && (unsigned char)p[2] >= 0xBE;
    if (n == MAX_NAME_CHARACTERS) {
      fputs("\xE2\x80\xA6", f);
      return;
    }
    if (*p == '&')
      fputs("&amp;", f);
    else if (*p == '<')
      fputs("&lt;", f);
    else if (*p == '>')
      fputs("&gt;", f);
    else if (!bytes || no_character || (unsigned char)*p < 0x20 || *p == 0x7F)
      fputc('?', f);
    else
      fwrite(p, 1, (size_t)bytes, f);
    p += bytes ? bytes : 1;
  }
}

static void put_label(FILE *f, double x, double y, const char *how, const char *text)
{
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, how);
  put_text(f, text);
  fputs("</text>\n", f);
}

/* ---- Parts of the picture ----------------------------------------------------------------------
 */

static void put_header(const picture *p, double height)
{
  static const char *const style =
      "<style>\n"
      "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:13px;"
      "fill:#24292f}\n"
      ".title{font-size:16px;font-weight:600}\n"
      ".ground{fill:#ffffff}\n.grid{stroke:#e1e4e8;stroke-width:1}\n"
      ".axis{stroke:#57606a;stroke-width:1.2}\n.line{fill:none;stroke-width:2}\n"
      ".bold{stroke-width:3}\n.mark{stroke:#ffffff;stroke-width:1}\n"
      ".s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#cc79a7}"
      ".s4{stroke:#b58900}.s5{stroke:#6e7781}\n"
      ".m0{fill:#0072b2}.m1{fill:#d55e00}.m2{fill:#009e73}.m3{fill:#cc79a7}"
      ".m4{fill:#b58900}.m5{fill:#6e7781}\n"
      "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}"
      ".grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{stroke:#0d1117}"
      ".s0{stroke:#56b4e9}.m0{fill:#56b4e9}}\n"
      "</style>\n";
  fprintf(p->f,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
          "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>",
          WIDTH, height, WIDTH, height);
  put_text(p->f, p->c->title);
  fprintf(p->f, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%.0f\"/>\n", style, WIDTH,
          height);
  put_label(p->f, LEFT, 28, "class=\"title\"", p->c->title);
}

static void put_segment(FILE *f, const char *name, double x1, double y1, double x2, double y2)
{
  fprintf(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", name, x1, y1,
          x2, y2);
}

static void put_axes(const picture *p)
{
  char text[64], turned[96];
  double bottom = p->top + PLOT, right = WIDTH - RIGHT, middle = p->top + PLOT / 2.0;
  for (int i = 0; i < p->y.ticks; i++) {
    double y = pixel_y(p, p->y.tick[i]);
    snprintf(text, sizeof text, "%.6g", fabs(p->y.tick[i]) < 1e-12 * p->y.high ? 0 : p->y.tick[i]);
    put_segment(p->f, "grid", LEFT, y, right, y);
    put_label(p->f, LEFT - 8, y + 4.5, "text-anchor=\"end\"", text);
  }
  for (int i = 0; i < p->x.ticks; i++) {
    double x = pixel_x(p, p->x.tick[i]);
    snprintf(text, sizeof text, "%.9g", p->x.tick[i]);
    put_segment(p->f, "axis", x, bottom, x, bottom + 5);
    put_label(p->f, x, bottom + 20, "text-anchor=\"middle\"", text);
  }
  put_segment(p->f, "axis", LEFT, bottom, right, bottom);
  put_segment(p->f, "axis", LEFT, p->top, LEFT, bottom);
  put_label(p->f, (LEFT + right) / 2, bottom + 44, "text-anchor=\"middle\"", p->c->x_label);
  snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 18 %.1f)\"",
           middle);
  put_label(p->f, 18, middle, turned, p->c->y_label);
}

/* Colour and dashes of line k. */
static void put_style(FILE *f, int64_t k)
{
  static const char *const dashes[] = {"", "7 4", "2 4", "10 4 2 4", "4 2", "1 3"};
  fprintf(f, "class=\"line s%d%s\"", (int)(k % STYLES), k ? "" : " bold");
  int dash = (int)((k + k / STYLES) % STYLES);
  if (*dashes[dash]) fprintf(f, " stroke-dasharray=\"%s\"", dashes[dash]);
}

static void put_line(const picture *p, int64_t k)
{
  const tt_chart_line *l = &p->c->line[k];
  int pen = 0;
  fputs("<path ", p->f);
  put_style(p->f, k);
  fputs(" d=\"M0 0", p->f); /* a path may not be empty */
  for (int64_t i = 0; i < l->points; i++) {
    int drawn = is_drawn(l, i);
    if (drawn)
      fprintf(p->f, "%c%.1f %.1f", pen ? 'L' : 'M', pixel_x(p, l->x[i]), pixel_y(p, l->y[i]));
    pen = drawn;
  }
  fputs("\"/>\n", p->f);
  for (int64_t i = 0; i < l->points && l->points <= MAX_MARKED_POINTS; i++)
    if (is_drawn(l, i))
      fprintf(p->f, "<circle class=\"mark m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>\n",
              (int)(k % STYLES), pixel_x(p, l->x[i]), pixel_y(p, l->y[i]), k ? "3.5" : "4.5");
}

static void put_legend(const picture *p)
{
  for (int64_t k = 0; k < p->c->lines; k++) {
    double y = TITLE + LEGEND * (double)k + LEGEND / 2.0;
    fputs("<path ", p->f);
    put_style(p->f, k);
    fprintf(p->f, " d=\"M%d %.1fH%d\"/>\n", LEFT, y, LEFT + 34);
    put_label(p->f, LEFT + 42, y + 4.5, "", p->c->line[k].name);
  }
}

static void draw(picture *p)
{
  p->top = TITLE + LEGEND * (double)p->c->lines + 12;
  make_axes(p);
  put_header(p, p->top + PLOT + BELOW);
  put_axes(p);
  for (int64_t k = p->c->lines - 1; k >= 0; k--) put_line(p, k);
  put_legend(p);
  if (p->points == 0)
    put_label(p->f, WIDTH / 2.0, p->top + PLOT / 2.0, "text-anchor=\"middle\"",
              "nothing to show yet");
  fputs("</svg>\n", p->f);
}

tt_err tt_chart_write_local(const char *file, const tt_chart *c)
{
  char *text = NULL;
  size_t size = 0;
  picture p = {.f = open_memstream(&text, &size), .c = c};
  if (!p.f) return TT_FAIL(MEM, "%s: %s", file, strerror(errno));
  draw(&p);
  int bad = ferror(p.f);
  bad |= fclose(p.f) != 0;
  tt_err e = bad ? TT_FAIL(MEM, "%s: no memory for the picture", file)
                 : tt_file_write_atomic_local(file, text);
  free(text);
  return e;
}
