/* stop_request.h — who says that a run should stop, and how all ranks hear it at the same place.
 * Floor 4. */
#ifndef TT_STOP_REQUEST_H
#define TT_STOP_REQUEST_H
#include "mpi/comm.h"

/* Ascending: what a scheduler wants, then what a person wants, who outranks it. */
typedef enum tt_stop_reason {
  TT_STOP_none,
  TT_STOP_time,
  TT_STOP_signal,    /* SIGUSR1, SIGTERM */
  TT_STOP_interrupt, /* SIGINT */
  TT_STOP_file
} tt_stop_reason;

/* SIGTERM, SIGUSR1 and SIGINT ask for a stop at the next chunk; a second SIGINT ends the process at
 * once. Handlers only set a flag. Local. */
void tt_stop_install_handlers_local(void);

/* Collective: one answer for all ranks, the strongest reason of any.
 *   deadline  on tt_monotonic_seconds's clock; <= 0 = none
 *   file      a file named STOP in this directory asks too (rank 0 looks); NULL = none */
tt_stop_reason tt_stop_agreed(tt_comm *c, double deadline, const char *directory);

/* One word for status.json: "", "time", "signal", "interrupt", "file". */
const char *tt_stop_name(tt_stop_reason why);

/* "the time limit", "SIGUSR1", "the file STOP". On ranks that had no signal themselves: "a signal".
 */
const char *tt_stop_text(tt_stop_reason why);
#endif
