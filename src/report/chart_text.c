/* chart_text.c — see chart_text.h. */
#include "src/report/chart_text.h"

#include "core/base/text.h"

#include <math.h>
#include <string.h>

int tt_chart_put_character(FILE *f, const char *p, int superscripts)
{
  int bytes = tt_utf8_char_bytes(p);
  int no_character = bytes == 3 && !memcmp(p, "\xEF\xBF", 2) && (unsigned char)p[2] >= 0xBE;
  const char *cursor = p;
  if (superscripts && p[0] == '^' && (p[1] == '2' || p[1] == '3')) {
    fputs(p[1] == '2' ? "\xC2\xB2" : "\xC2\xB3", f);
    return 2;
  }
  if (*p == '&')
    fputs("&amp;", f);
  else if (*p == '<')
    fputs("&lt;", f);
  else if (*p == '>')
    fputs("&gt;", f);
  else if (*p == '"')
    fputs("&quot;", f);
  else if (no_character || !tt_utf8_is_printable(tt_utf8_next(&cursor)))
    fputc('?', f);
  else
    fwrite(p, 1, (size_t)bytes, f);
  return bytes ? bytes : 1;
}

void tt_chart_put_text(FILE *f, const char *text, int most)
{
  for (int n = 0; *text && n < most; n++) text += tt_chart_put_character(f, text, 1);
  if (*text) fputs("\xE2\x80\xA6", f);
}

int tt_chart_count_characters(const char *text)
{
  int characters = 0;
  for (const char *p = text; *p && characters <= TT_CHART_MAX_CHARACTERS; characters++) {
    int bytes = tt_utf8_char_bytes(p);
    p += bytes ? bytes : 1;
  }
  return characters;
}

void tt_chart_put_fitted(FILE *f, double x, double y, const char *how, double character,
                         double width, const char *text)
{
  double capacity = width / character;
  int most = (int)fmin(capacity / 0.75, TT_CHART_MAX_CHARACTERS);
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s", x, y, how);
  if (tt_chart_count_characters(text) > capacity)
    fprintf(f, " textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\"", width);
  fputc('>', f);
  tt_chart_put_text(f, text, most);
  fputs("</text>\n", f);
}

void tt_chart_put_label(FILE *f, double x, double y, const char *how, const char *text)
{
  tt_chart_put_fitted(f, x, y, how, 1, INFINITY, text);
}
