/* metrics_file.h — metrics.jsonl in the run directory: the progress of training, one JSON object in
 * each line, for programs that draw it while the run goes on. All local, on rank 0. */
#ifndef TT_METRICS_FILE_H
#define TT_METRICS_FILE_H
#include "core/engine/engine.h"

/* What a line says beside the progress. */
typedef struct tt_metrics_line {
  const char *start; /* incarnation of this start of the program */
  int64_t epochs;    /* largest number of epochs of a member */
  int64_t steps;     /* member-steps of this start */
  double seconds;    /* since this start */
  double rate;       /* member-steps per second, 0 = not known */
} tt_metrics_line;

/* Lines of one start. A zeroed struct has written nothing. */
typedef struct tt_metrics_file {
  double written; /* seconds of the last line */
  int64_t lines;
  int failed; /* a line could not be written: no more lines follow */
} tt_metrics_file;

/* Remove the file: training begins again. Errors: CANTCREAT (a FIFO or a device), IO, STOPPED. */
tt_err tt_metrics_file_remove_local(const char *directory);

/* Append a line if it is time for one (after a second, or a thousandth of the time so far), or if
 * `now` is set. A run does not end because of this file: an error is a warning, once. Nothing is
 * written if another start owns the directory. */
void tt_metrics_file_append_local(tt_metrics_file *f, const char *directory,
                                  const tt_progress *progress, const tt_metrics_line *line,
                                  int now);
#endif
