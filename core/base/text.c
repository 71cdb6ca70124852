/* text.c — see text.h. */
#include "core/base/text.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int tt_utf8_char_bytes(const char *text)
{
  static const struct {
    unsigned char low, high, second_low, second_high;
    int bytes;
  } form[] = {
      {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
      {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
      {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
  };
  const unsigned char *p = (const unsigned char *)text;
  for (int i = 0; i < (int)(sizeof form / sizeof *form); i++) {
    if (p[0] < form[i].low || p[0] > form[i].high) continue;
    if (form[i].bytes > 1 && (p[1] < form[i].second_low || p[1] > form[i].second_high)) return 0;
    for (int k = 2; k < form[i].bytes; k++)
      if ((p[k] & 0xC0) != 0x80) return 0;
    return form[i].bytes;
  }
  return 0;
}

const char *tt_duration_text(double seconds, char text[32])
{
  int64_t s = (int64_t)(seconds + 0.5), d = s / 86400;
  int h = (int)(s / 3600 % 24), m = (int)(s / 60 % 60);
  if (seconds < 0.0)
    snprintf(text, 32, "?");
  else if (d > 0)
    snprintf(text, 32, "%" PRId64 "-%02d:%02d:%02d", d, h, m, (int)(s % 60));
  else if (h > 0)
    snprintf(text, 32, "%d:%02d:%02d", h, m, (int)(s % 60));
  else
    snprintf(text, 32, "%d:%02d", m, (int)(s % 60));
  return text;
}

tt_err tt_text_set(char **text, const char *value)
{
  char *copy = NULL;
  size_t bytes = strlen(value) + 1;
  TT_TRY(TT_ALLOC(copy, (int64_t)bytes));
  memcpy(copy, value, bytes);
  tt_free(*text);
  *text = copy;
  return TT_OK;
}
