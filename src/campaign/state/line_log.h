/* line_log.h — a file of lines that is appended to and synced, never changed. Local.
 *
 * An incomplete last line (the process was killed while writing it) does not count: a writer cuts
 * it off. */
#ifndef TT_LINE_LOG_H
#define TT_LINE_LOG_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tt_line_log tt_line_log;

/* Takes line number `line` (1, 2, ...); its message names the file and the line. */
typedef tt_err tt_line_log_take(void *owner, const char *text, size_t bytes, int64_t line);

typedef enum tt_line_log_use {
  TT_LINE_LOG_read,   /* the file is not created or changed; another process may write to it */
  TT_LINE_LOG_append, /* add lines to the file */
  TT_LINE_LOG_replace /* the same, after its complete lines are copied to a new file that replaces
                         it: a process that has the old file open cannot add lines */
} tt_line_log_use;

/* Read all complete lines; a missing file has none.
 * Errors: those of `take`; CANTCREAT, IO, MEM, STOPPED (another start owns the directory). */
tt_err tt_line_log_open_local(const char *file, tt_line_log_use use, tt_line_log_take *take,
                              void *owner, tt_line_log **out);
void tt_line_log_close_local(tt_line_log **l); /* accepts NULL */

/* Append `text`, which ends in a newline, and sync the file. Errors: IO (disk full: nothing is
 * appended; the size of the file has changed: another process writes to it), STOPPED (another
 * process has replaced the file: the line may be lost). */
tt_err tt_line_log_append_local(tt_line_log *l, const char *text);

/* Number of lines so far. */
int64_t tt_line_log_lines(const tt_line_log *l);
#endif
