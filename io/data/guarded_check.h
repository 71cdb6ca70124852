/* guarded_check.h — look at somebody else's HDF5 file in a process that may crash. Floor 3.
 *
 * The HDF5 library can crash on damaged files. Before the ranks read a file that tutti has not
 * written, one of them lets a child process with small limits open it and touch what will be read.
 * All functions are local. */
#ifndef TT_GUARDED_CHECK_H
#define TT_GUARDED_CHECK_H
#include "core/base/err.h"

/* Run `tutti check-data file dataset...` and wait for it, at most two minutes.
 *   dataset  [n] names; NULL and "" are passed over; "?name" need not be there
 * Where this program is not tutti itself (its file is not named tutti, as with a client of the
 * library), TUTTI_EXE names the program to run; without it nothing is checked, which the log says
 * at debug level. Call it on one rank, then vote.
 * Errors: NOINPUT, DATA (as tt_foreign_check_local says it, or the child died or took too long),
 * MEM. */
tt_err tt_guarded_check_local(const char *file, const char *const *dataset, int n);

/* The child: argv = {tutti, check-data, file, dataset...}. Limits itself, checks, prints the error
 * on stdout, and returns the exit code for main. Must be called before anything else: no MPI. */
int tt_guarded_check_child_local(int argc, char **argv);
#endif
