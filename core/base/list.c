/* list.c — see list.h. */
#include "core/base/list.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <string.h>

/* The item at *cursor, in place; *cursor moves behind its comma, NULL: it was the last one. Returns
 * NULL if a quote is not closed, or text follows it. */
static char *next_item(char **cursor)
{
  char *src = *cursor + strspn(*cursor, " "), *item = src, *dst = src;
  if (*src == '"') {
    for (src++; *src && (*src != '"' || src[1] == '"'); *dst++ = *src++) src += *src == '"';
    if (*src++ != '"') return NULL;
    src += strspn(src, " ");
    if (*src && *src != ',') return NULL;
  } else {
    dst = src += strcspn(src, ",");
    while (dst > item && dst[-1] == ' ') dst--;
  }
  *cursor = *src ? src + 1 : NULL;
  *dst = '\0';
  return item;
}

static tt_err parse(const char *what, const char *text, tt_list *l)
{
  int64_t most = 1;
  for (const char *p = text; *p; p++) most += *p == ',';
  TT_TRY(tt_text_set(&l->text, text));
  TT_TRY(TT_ALLOC(l->item, most));
  for (char *cursor = l->text; cursor;) {
    char *item = l->item[l->count++] = next_item(&cursor);
    if (!item)
      return TT_FAIL(USAGE, "%s: a quote is not closed, or text follows a closing quote: %s", what,
                     text);
    if (!*item)
      return TT_FAIL(USAGE, "%s: item %" PRId64 " of '%s' is empty", what, l->count, text);
  }
  return TT_OK;
}

tt_err tt_list_parse(const char *what, const char *text, tt_list **out)
{
  tt_list *l = NULL;
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = parse(what, text, l);
  if (e) tt_list_destroy(&l);
  *out = l;
  return e;
}

void tt_list_destroy(tt_list **l)
{
  if (*l) tt_free_all(&(*l)->item, &(*l)->text, l);
}

tt_err tt_list_add(char **text, const char *item)
{
  size_t old = *text ? strlen(*text) : 0, length = strlen(item);
  int quote = !length || strpbrk(item, ",\"\r\n\t;") || *item == ' ' || item[length - 1] == ' ';
  char *longer = NULL, *dst;
  TT_TRY(tt_alloc_bytes(&longer, (int64_t)(old + 2 * length + 4), 1, "a list"));
  if (old) memcpy(longer, *text, old);
  dst = longer + old;
  if (old) *dst++ = ',';
  if (quote) *dst++ = '"';
  for (const char *p = item; *p; p++) {
    if (*p == '"') *dst++ = '"';
    *dst++ = *p;
  }
  if (quote) *dst++ = '"';
  tt_free(*text);
  *text = longer;
  return TT_OK;
}
