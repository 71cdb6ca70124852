/* log.h — what the program says to people: narration goes to stderr, results to stdout. Floor 0. */
#ifndef TT_LOG_H
#define TT_LOG_H
#include "core/base/err.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum tt_log_level { TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_DEBUG } tt_log_level;

/* Messages above this level are dropped (default TT_LOG_INFO; -q = WARN, -v = DEBUG). */
void tt_log_set_level(tt_log_level level);

/* Tell the log which rank this is. Ranks other than 0 are silent in tt_log_root. Before MPI starts
 * the program is its own rank 0. */
void tt_log_set_rank(int rank, int ranks);

/* Which rank this is, for messages of errors that belong to one: "rank 1 on ", or "" if there is
 * one rank only. */
const char *tt_log_rank_text(void);

/* One line from rank 0 only, "tutti: text" / "tutti: warning: text" / "tutti: error: text".
 * Not collective: it only looks at the rank number. */
void tt_log_root(tt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One line from this rank, prefixed with its number when there are several. */
void tt_log_this_rank(tt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* True if a progress bar may redraw its line: stderr is a terminal, TERM is not dumb and Slurm did
 * not start us (srun -u hands out pseudo-terminals in batch jobs). */
int tt_log_is_terminal(void);
#ifdef __cplusplus
}
#endif
#endif
