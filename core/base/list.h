/* list.h — a list of texts in one text: a,b,"c,d". */
#ifndef TT_LIST_H
#define TT_LIST_H
#include "core/base/err.h"

#include <stdint.h>

typedef struct tt_list {
  int64_t count;
  char **item; /* [count] point into `text` */
  char *text;
} tt_list;

/* Split a list at its commas. An item in quotes may have commas, and "" for a quote; spaces around
 * an item are removed.
 *   what  name of the option, for the message
 * Owner of *out: the caller. Local. Errors: USAGE (empty list or item, a quote that is not closed),
 * MEM. */
tt_err tt_list_parse(const char *what, const char *text, tt_list **out);
void tt_list_destroy(tt_list **l); /* accepts NULL */

/* Append an item to such a text, in quotes if it needs them. *text is NULL before the first call;
 * the caller frees it with tt_free. Errors: MEM. */
tt_err tt_list_add(char **text, const char *item);
#endif
