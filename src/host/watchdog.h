/* watchdog.h — a thread per rank that ends the process when the rank makes no progress: a stopped
 * or looping rank would leave the others waiting for ever. Never calls MPI. Floor 4; all local. */
#ifndef TT_WATCHDOG_H
#define TT_WATCHDOG_H
#include "core/base/err.h"

/* Start watching: when no tt_watchdog_heartbeat comes for `seconds`, print rank and phase, write
 * the status file of `directory` if it is of `incarnation`, and _exit(75). Starting again changes
 * limit and directory. directory may be NULL. Errors: INTERNAL (no thread). */
tt_err tt_watchdog_start_local(const char *directory, const char *incarnation, int rank,
                               double seconds);

/* Progress was made; `phase` says what comes next (a string constant). */
void tt_watchdog_heartbeat_local(const char *phase);

/* Stop watching; accepts that none was started. */
void tt_watchdog_stop_local(void);
#endif
