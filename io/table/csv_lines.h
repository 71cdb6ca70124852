/* csv_lines.h — the records of a CSV file, one after the other. For the files of io/table only. */
#ifndef TT_CSV_LINES_H
#define TT_CSV_LINES_H
#include "io/table/table_internal.h"

/* A position in the file, and a window of its bytes. */
typedef struct tt_csv_lines {
  const char *file;
  tt_bytes *bytes;
  char delimiter, newline;
  char *window; /* [capacity + 1] bytes from `offset` on; window[filled] is a line end */
  size_t capacity, filled, at;
  int64_t offset, line; /* of window[0]; line of window[at], from 1 */
  int at_end;           /* the window reaches the end of the file */
  int has_quotes;       /* the window has a quote */
} tt_csv_lines;

/* Open the file, skip its byte order mark, and find the kind of its line ends. The delimiter is set
 * by the caller after the first record, NUL until then. Errors: NOINPUT, IO, MEM, DATA (not
 * text). */
tt_err tt_csv_lines_open_local(const char *file, tt_csv_lines *l);
void tt_csv_lines_close_local(tt_csv_lines *l);

/* The next record that is not empty and no comment, [*begin, *end) without its line end; **end may
 * be read, and belongs to no cell. NULL at the end of the file. The text may be changed, and lives
 * until the next call.
 *   line  line on which it begins
 * Errors: IO, DATA (a quote that is not closed; a record that is too long), MEM. */
tt_err tt_csv_lines_next_local(tt_csv_lines *l, char **begin, char **end, int64_t *line);

/* Position before the next record, and back to it. */
void tt_csv_lines_tell(const tt_csv_lines *l, int64_t *offset, int64_t *line);
void tt_csv_lines_seek(tt_csv_lines *l, int64_t offset, int64_t line);

/* The byte after the cell that begins at p: a delimiter or `end`. */
char *tt_csv_cell_end(const tt_csv_lines *l, char *p, char *end);

/* Text of the cell [p, end), without quotes and blanks around it, in place; ends in NUL, *end is
 * overwritten. */
char *tt_csv_cell_text(const tt_csv_lines *l, char *p, char *end);
#endif
