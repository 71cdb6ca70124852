/* net_inputs.h — which inputs of a network the columns of a table become: an amount is one input,
 * each level of a category is one (1 if the row has this level, else 0), and with data.missing:
 * indicator there is one more (1 where the value is missing, else 0). An amount is a number that
 * can be large or small; a category has levels, such as names of materials.
 *
 * The value of a category in memory is a number: the level itself if all levels are numbers, else
 * the place of its text in the sorted list of levels, 0, 1, ... */
#ifndef TT_NET_INPUTS_H
#define TT_NET_INPUTS_H
#include "core/base/err.h"
#include "core/base/text.h"
#include "core/formulas/categories.h"

#include <stddef.h>
#include <stdint.h>
TT_BEGIN_C

typedef enum tt_net_input_kind {
  TT_NET_INPUT_amount,
  TT_NET_INPUT_level,
  TT_NET_INPUT_missing,
  TT_NET_INPUT_KINDS
} tt_net_input_kind;

typedef struct tt_net_input {
  int32_t column, kind; /* column of the table; tt_net_input_kind */
  double level;         /* of a level: the value that the column has in its rows */
  int32_t is_text;      /* 1: the level is a text in files, 0: a number */
  char *name;           /* of the level, owned; else NULL */
} tt_net_input;

/* D columns become F inputs of the network, in the order of the columns; those of one column: the
 * amount or the levels, ascending, then the indicator. */
typedef struct tt_net_inputs {
  int64_t columns, count; /* D, F */
  tt_net_input *at;       /* [F] */
  int64_t *first;         /* [D + 1] inputs of column d: [first[d], first[d + 1]) */
  int8_t *categories;     /* [D] tt_categories */
} tt_net_inputs;

/* What is known of one column. Everything is borrowed. */
typedef struct tt_net_column {
  tt_categories categories;
  int indicator;
  int64_t levels;
  const double *level; /* [levels] ascending */
  char *const *text;   /* [levels], NULL: levels are numbers */
} tt_net_column;

/*   column  [columns]; NULL: all are amounts
 * Owner: the caller. Errors: MEM. */
tt_err tt_net_inputs_create(int64_t columns, const tt_net_column *column, tt_net_inputs *out);
tt_err tt_net_inputs_copy(const tt_net_inputs *src, tt_net_inputs *out);
void tt_net_inputs_free(tt_net_inputs *n); /* accepts a zeroed struct */

/* pack writes all of it to bytes[] and returns the number of bytes; with bytes NULL it only returns
 * the number. unpack makes *out from what pack has written, of which it reads *used bytes.
 * Errors: MEM. */
int64_t tt_net_inputs_pack(const tt_net_inputs *n, char *bytes);
tt_err tt_net_inputs_unpack(const char *bytes, tt_net_inputs *out, int64_t *used);

/* 1 if each column is one amount. */
int tt_net_inputs_are_amounts(const tt_net_inputs *n);
/* 1 if both have the same columns, levels and indicators. */
int tt_net_inputs_are_same(const tt_net_inputs *a, const tt_net_inputs *b);
int tt_net_inputs_is_category(const tt_net_inputs *n, int64_t column);
/* Number of levels; 0: amounts. */
int64_t tt_net_inputs_levels(const tt_net_inputs *n, int64_t column);
int tt_net_inputs_levels_are_texts(const tt_net_inputs *n, int64_t column);
/* 1 if an input of the network says that the value is missing. */
int tt_net_inputs_has_indicator(const tt_net_inputs *n, int64_t column);
/* Text of the level with this value; NULL: there is none, or levels are numbers. */
const char *tt_net_inputs_text(const tt_net_inputs *n, int64_t column, double value);
/* 1 if the value is a level of the column. */
int tt_net_inputs_has_level(const tt_net_inputs *n, int64_t column, double value);

/* "te", "material=steel" or "te is missing"; name is that of the column. Returns text. */
const char *tt_net_input_name(const tt_net_input *i, const char *name, char *text, size_t capacity);
/* "brass, steel, ..." Returns text. */
const char *tt_net_inputs_list_levels(const tt_net_inputs *n, int64_t column, char *text,
                                      size_t capacity);
TT_END_C
#endif
