/* csv.h — a table of text cells from a CSV or TSV file. Floor 0. */
#ifndef TT_CSV_H
#define TT_CSV_H
#include "core/base/err.h"

#include <stdint.h>

/* RFC 4180 with what is met in practice: lines end in LF, CRLF or CR; a UTF-8 byte order mark,
 * empty lines and lines that begin with # are skipped; the separator is the most frequent of comma,
 * tab and semicolon in the first line that counts, which holds the names. Spaces around unquoted
 * cells are dropped. */
typedef struct tt_csv {
  int64_t rows, columns;
  char **name;   /* [columns] */
  char **cell;   /* [rows][columns] */
  int64_t *line; /* [rows] line of the file on which the row begins, from 1 */
  char *text;    /* all names and cells lie in here */
} tt_csv;

/* Read a whole table; memory is linear in the size of the file. Owner: the caller. Local.
 * Errors: NOINPUT, MEM, DATA (a zero byte, a quote that does not end, a row with more or fewer
 * cells than names, two columns of one name, no rows): the message begins with file:line. */
tt_err tt_csv_read(const char *file, tt_csv **out);
void tt_csv_destroy(tt_csv **t);

/* A list given on the command line, "a,b,\"c,d\"": one record, separated by commas.
 *   what  the option, for the message
 *   out   a table of 0 rows whose names are the items. Owner: the caller.
 * Local. Errors: USAGE (empty list or item, unfinished quote), MEM. */
tt_err tt_csv_parse_list(const char *what, const char *list, tt_csv **out);
#endif
