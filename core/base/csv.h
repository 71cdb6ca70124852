/* csv.h — a table of text cells from a CSV or TSV file. */
#ifndef TT_CSV_H
#define TT_CSV_H
#include "core/base/err.h"

#include <stdint.h>

/* RFC 4180 with common extensions: lines end in LF, CRLF or CR; a UTF-8 byte order mark, empty
 * lines and lines that begin with # are skipped; the first other line is the header with the column
 * names; the separator is the most frequent of comma, tab and semicolon in the header. Spaces
 * around unquoted cells are removed. */
typedef struct tt_csv {
  int64_t rows, columns;
  char **name;                  /* [columns] */
  char **cell;                  /* [rows][columns] */
  int64_t *line;                /* [rows] line of the file on which the row begins, from 1 */
  char *text;                   /* buffer that name and cell point into */
  struct tt_csv_column *sorted; /* [columns] by name; for tt_csv_find */
} tt_csv;

/* The largest table that is accepted; 0 = no limit. */
typedef struct tt_csv_limit {
  int64_t rows, bytes;
} tt_csv_limit;

/* Read a whole table; memory is linear in the size of the file, time in n log n.
 *   limit  a larger table is refused before its cells are stored; NULL = no limit
 * Owner: the caller. Local. Errors: NOINPUT, MEM, DATA (a zero byte, a quote that is not closed, a
 * row with more or fewer cells than the header, two columns with the same name, no rows, too many
 * rows or bytes): the message begins with file:line. */
tt_err tt_csv_read(const char *file, const tt_csv_limit *limit, tt_csv **out);
void tt_csv_destroy(tt_csv **t);

/* Number of the first column with this name, -1 if there is none. */
int64_t tt_csv_find(const tt_csv *t, const char *name);

/* A list from the command line, "a,b,\"c,d\"": one record, separated by commas.
 *   what  name of the option, for the message
 *   out   a table of 0 rows whose names are the items. Owner: the caller.
 * Local. Errors: USAGE (empty list or item, a quote that is not closed), MEM. */
tt_err tt_csv_parse_list(const char *what, const char *list, tt_csv **out);

/* Append an item to such a list, in quotes if it needs them. *list is NULL before the first call;
 * the caller frees it with tt_free. Errors: MEM. */
tt_err tt_csv_list_add(char **list, const char *item);
#endif
