/* log.h — log messages, all to stderr; stdout is for results. Local. */
#ifndef TT_LOG_H
#define TT_LOG_H
#include "core/base/err.h"

#include <stdio.h>
TT_BEGIN_C

typedef enum tt_log_level { TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_DEBUG } tt_log_level;

/* Messages above this level are dropped (default TT_LOG_INFO; -q = WARN, -v = DEBUG). */
void tt_log_set_level(tt_log_level level);

/* Set the rank for tt_log_root, which prints on rank 0 only. Before this call: rank 0 of 1. */
void tt_log_set_rank(int rank, int ranks);

/* The values set above, for a plugin, which has its own copy of this file. */
typedef struct tt_log_settings {
  tt_log_level level;
  int rank, ranks;
} tt_log_settings;
tt_log_settings tt_log_get_settings(void);

/* "rank 1 on ", for messages about an error of one rank; "" if there is one rank only. */
const char *tt_log_rank_text(void);

/* One line from rank 0 only, "tutti: text" / "tutti: warning: text" / "tutti: error: text". On a
 * terminal the words error and warning have colors unless NO_COLOR is set. Not collective. */
void tt_log_root(tt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One line from this rank, with the rank number if there are several ranks. */
void tt_log_this_rank(tt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Messages of this thread go to `stream` instead of stderr, as in a log; NULL: to stderr.
 *   live  the value of tt_log_is_live */
void tt_log_use_stream(FILE *stream, int live);

/* True if a person reads the messages as they come, on a terminal: then progress is reported
 * often. */
int tt_log_is_live(void);

/* True if a progress bar may redraw its line: stderr is a terminal, TERM is not dumb and Slurm did
 * not start the program (srun -u gives batch jobs a pseudo-terminal). */
int tt_log_is_terminal(void);
TT_END_C
#endif
