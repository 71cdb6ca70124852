/* fatal.h — the end of all ranks after an error after which they cannot communicate: an error of
 * MPI or MPI-IO, or a broken invariant. Prints rank, host and reason, removes the temporary file
 * that is being written, calls the hook (it updates status.json), and calls MPI_Abort with the exit
 * code of the error. All local. */
#ifndef TT_FATAL_H
#define TT_FATAL_H
#include "core/base/err.h"

/* The file that MPI-IO writes from now on; NULL, NULL = none any more. The texts are borrowed.
 *   path       name for messages
 *   temporary  file to remove if all ranks end */
void tt_fatal_set_file_local(const char *path, const char *temporary);

/* Set the function that is called before all ranks end, on the rank that has the error. It must not
 * call MPI. NULL = none. */
void tt_fatal_set_hook_local(void (*hook)(const char *reason, int exit_code));

/* End all ranks with exit code 70. Does not return. */
_Noreturn void tt_panic(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#ifdef TT_COMM_MPI /* defined only by files of mpi/ and io/ */
#include <mpi.h>
/* After MPI_Init, before any HDF5 call: errors of MPI-IO end all ranks with exit code 74 (if one
 * rank returned an error to HDF5 1.10, the others would wait in HDF5 for ever), errors of
 * communication on `comm` and its duplicates with 75: another rank has ended. HDF5 takes the errors
 * of its own duplicate itself. */
void tt_fatal_install_handlers(MPI_Comm comm);
#endif
#endif
