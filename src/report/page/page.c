/* page.c — see page.h. */
#include "src/report/page/page.h"

#include "core/base/directory.h"
#include "io/files/files.h"
#include "src/report/chart_text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define MARK "<meta name=\"generator\" content=\"tutti report"

/* Lines and tabs stay. A per cent sign stays on the line of its number. */
static void put_escaped(FILE *f, const char *p, int superscripts)
{
  while (*p)
    if (*p == '\n' || *p == '\t')
      fputc(*p++, f);
    else if (superscripts && p[0] == ' ' && p[1] == '%') {
      fputs("\xC2\xA0", f);
      p++;
    } else
      p += tt_chart_put_character(f, p, superscripts);
}

void tt_page_element(FILE *f, const char *before, const char *text, const char *after)
{
  fputs(before, f);
  put_escaped(f, text, 1);
  fputs(after, f);
}

static void print_list(FILE *f, const char *format, va_list ap)
{
  char text[1024];
  vsnprintf(text, sizeof text, format, ap);
  put_escaped(f, text, 1);
}

void tt_page_print(FILE *f, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  print_list(f, format, ap);
  va_end(ap);
}

/* A page and how its main part is written. */
typedef struct page {
  const char *title, *about;
  tt_err (*put)(FILE *f, void *context);
  void *context;
} page;

static tt_err put_page(FILE *f, void *data)
{
  const page *p = data;
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" MARK
        " " TUTTI_VERSION "\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        f);
  put_escaped(f, p->title, 1);
  fprintf(f,
          "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<header>\n<p class=\"kind\">tutti"
          " report</p>\n<h1>",
          tt_chart_style, tt_page_style);
  put_escaped(f, p->title, 1);
  tt_page_element(f, "</h1>\n<p class=\"lead\">", p->about, "</p>\n</header>\n<main>\n");
  tt_err e = p->put(f, p->context);
  fputs("</main>\n</body>\n</html>\n", f);
  return e;
}

/* Whether the file begins as a page. */
static int is_page(const char *path)
{
  char text[513];
  FILE *f = NULL;
  if (tt_file_open_stream(path, &f)) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = '\0';
  return strstr(text, MARK) != NULL;
}

tt_err tt_page_check_place(const char *path, int force)
{
  struct stat info;
  if (force || lstat(path, &info)) return TT_OK; /* publish reports an error of the path */
  if (S_ISREG(info.st_mode) && is_page(path)) return TT_OK;
  return TT_FAIL(CANTCREAT, "%s exists and was not written by tutti; --force replaces it", path);
}

tt_err tt_page_write(const char *title, const char *about, const char *file, int force,
                     tt_err (*put)(FILE *f, void *context), void *context)
{
  TT_TRY(tt_page_check_place(file, force));
  return tt_file_print_local(file, put_page, &(page){title, about, put, context});
}

void tt_page_section(FILE *f, const char *title, const char *about)
{
  tt_page_element(f, "<h2>", title, "</h2>\n");
  if (about) tt_page_element(f, "<p class=\"about\">", about, "</p>\n");
}

void tt_page_begin_pairs(FILE *f) { fputs("<dl>\n", f); }
void tt_page_end_pairs(FILE *f) { fputs("</dl>\n", f); }

void tt_page_pair(FILE *f, const char *name, const char *format, ...)
{
  va_list ap;
  tt_page_element(f, "<dt>", name, "</dt><dd>");
  va_start(ap, format);
  print_list(f, format, ap);
  va_end(ap);
  fputs("</dd>\n", f);
}

void tt_page_head(FILE *f, const char *name, int is_number)
{
  tt_page_element(f, is_number ? "<th class=\"number\">" : "<th>", name, "</th>");
}

void tt_page_begin_table(FILE *f, const char *heads)
{
  char text[256];
  snprintf(text, sizeof text, "%s", heads);
  fputs("<div class=\"wide\"><table>\n<tr>", f);
  for (char *rest, *name = strtok_r(text, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
    tt_page_head(f, name + (*name == '#'), *name == '#');
}

void tt_page_next_row(FILE *f) { fputs("</tr>\n<tr>", f); }
void tt_page_end_table(FILE *f) { fputs("</tr>\n</table></div>\n", f); }
void tt_page_text_cell(FILE *f, const char *text) { tt_page_element(f, "<td>", text, "</td>"); }

void tt_page_number_cell(FILE *f, double value)
{
  if (isfinite(value))
    fprintf(f, "<td class=\"number\">%.4g</td>", value);
  else
    fputs("<td></td>", f);
}

void tt_page_begin_charts(FILE *f) { fputs("<div class=\"charts\">\n", f); }
void tt_page_end_charts(FILE *f) { fputs("</div>\n", f); }

void tt_page_chart(FILE *f, const tt_chart *c)
{
  const tt_chart_series *s = c->series;
  int64_t i = 0;
  while (i < s->points && !(isfinite(s->x[i]) && isfinite(s->y[i]))) i++;
  if (i == s->points) return;
  tt_page_element(f, "<figure>\n<figcaption><b>", c->title, "</b>");
  if (c->note && *c->note) tt_page_element(f, " <span>", c->note, "</span>");
  fputs("</figcaption>\n", f);
  tt_chart_put_inline(f, c);
  fputs("</figure>\n", f);
}

void tt_page_begin_verdict(FILE *f) { fputs("<section class=\"verdict\">\n", f); }
void tt_page_end_verdict(FILE *f) { fputs("</section>\n", f); }

void tt_page_verdict(FILE *f, const char *question, const char *figure, const tt_sentences *words)
{
  tt_page_element(f, "<div>\n<h2>", question, "</h2>\n");
  if (figure && *figure) tt_page_element(f, "<p class=\"figure\">", figure, "</p>\n");
  for (int64_t i = 0; i < words->count; i++) tt_page_element(f, "<p>", words->text[i], "</p>\n");
  fputs("</div>\n", f);
}

/* Sections that the pages of a run and of a campaign have */

void tt_page_put_config(FILE *f, const char *text)
{
  fputs("<details><summary>Configuration with the values of all options</summary><pre>", f);
  put_escaped(f, text, 0);
  fputs("</pre></details>\n", f);
}

void tt_page_put_origin(FILE *f, char *const origin[TT_ORIGIN_COUNT])
{
  static const char *const label[] = {
#define X(name, text) text,
      TT_ORIGIN_TEXTS(X)
#undef X
  };
  for (int i = 0; i < TT_ORIGIN_COUNT; i++) {
    const char *text = origin[i] ? origin[i] : "";
    int is_zero = strspn(text, "0") == strlen(text); /* no hash, no Slurm job */
    if (!is_zero) tt_page_pair(f, label[i], "%s", text);
  }
}
