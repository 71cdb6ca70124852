/* stop_request.h — requests to stop a run, and the agreement of all ranks on them. */
#ifndef TT_STOP_REQUEST_H
#define TT_STOP_REQUEST_H
#include "mpi/comm.h"

/* In ascending priority: requests of a person outrank those of the scheduler. */
typedef enum tt_stop_reason {
  TT_STOP_none,
  TT_STOP_time,
  TT_STOP_signal,    /* SIGUSR1, SIGTERM */
  TT_STOP_interrupt, /* SIGINT */
  TT_STOP_file
} tt_stop_reason;

/* SIGTERM, SIGUSR1 and SIGINT request a stop at the next tt_stop_agreed; a second SIGINT ends the
 * process at once. Handlers only set a flag. An earlier request is forgotten. Local; the caller of
 * tt_train and tt_campaign_run installs the handlers. */
void tt_stop_install_handlers_local(void);

/* Put back the handlers that the process had before tt_stop_install_handlers_local. Returns the
 * last signal that was received in between, 0 = none. Local. */
int tt_stop_restore_handlers_local(void);

/* In this thread the stop at tt_stop_agreed is what the function says, 1 = stop, in place of a
 * signal. NULL: no function. Local. */
void tt_stop_ask_local(int (*function)(void *), void *context);

/* Whether this rank has received one of these signals. Local. */
int tt_stop_signaled_local(void);
/* The name of that signal, NULL if none was received. Local. */
const char *tt_stop_signal_local(void);

/* Collective. The reason with the highest priority on any rank; the same result on all ranks.
 *   deadline   seconds, tt_monotonic_seconds; <= 0 = none
 *   directory  a file named STOP in it is a request too (checked by rank 0); NULL = none */
tt_stop_reason tt_stop_agreed(tt_comm *c, double deadline, const char *directory);

/* Remove the file STOP of a directory: the request has been obeyed, so the next start continues. A
 * run calls it at its end, after the last status; not at its start, because a file created while a
 * job waits in the queue, or reads its data, is a request to this start. Nothing is removed if
 * another start owns the directory; any other error is logged. Local, on one rank. */
void tt_stop_remove_file_local(const char *directory);

/* Text for status.json: "", "time", "signal", "interrupt", "file". */
const char *tt_stop_name(tt_stop_reason why);

/* "the time limit", "SIGUSR1", "the file STOP". On ranks without a signal of their own: "a signal".
 */
const char *tt_stop_text(tt_stop_reason why);
#endif
