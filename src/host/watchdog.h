/* watchdog.h — a thread per rank that ends the process when the rank makes no progress, because the
 * other ranks would wait for ever. It never calls MPI. While it runs, it also writes state "failed"
 * into status.json when an error of MPI ends all ranks (mpi/fatal.h). All local. */
#ifndef TT_WATCHDOG_H
#define TT_WATCHDOG_H
#include "core/base/err.h"

/* Start the thread. After `seconds` without tt_watchdog_heartbeat_local it prints rank and phase,
 * updates status.json in `directory` if that is of `incarnation`, and calls _exit(75). A second
 * call changes only limit, rank, directory and incarnation. directory and incarnation may be NULL.
 * Errors: INTERNAL (the thread cannot be created). */
tt_err tt_watchdog_start_local(const char *directory, const char *incarnation, int rank,
                               double seconds);

/* Report progress; `phase` names the next phase (a string constant). */
void tt_watchdog_heartbeat_local(const char *phase);

/* Stop the thread; does nothing if it is not running. */
void tt_watchdog_stop_local(void);
#endif
