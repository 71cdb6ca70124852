/* guarded_check.h — check an HDF5 file that tutti has not written, in a child process that may
 * crash.
 *
 * The HDF5 library can crash on damaged files. Before the ranks read a file that tutti has not
 * written, one rank starts a child process with small resource limits, which opens the file and
 * reads from the datasets. All functions are local. */
#ifndef TT_GUARDED_CHECK_H
#define TT_GUARDED_CHECK_H
#include "core/base/err.h"

/* Run `tutti check-data file dataset...` and wait for it, at most two minutes. A table (CSV, arrays
 * of NumPy) is not HDF5: it is not checked.
 *   dataset  [n] names; NULL and "" are ignored; "?name" may be missing
 * If the file of this program is not named tutti (a client of the library), TUTTI_EXE names the
 * program to run; without TUTTI_EXE nothing is checked, and the log has a line at debug level. Call
 * it on one rank, then vote. A child that crashes is run once more before the file counts as
 * damaged. Errors: NOINPUT, DATA (as tt_foreign_check_local, or the child crashed twice or exceeded
 * the time limit), IO, MEM. */
tt_err tt_guarded_check_local(const char *file, const char *const *dataset, int n);

/* "?x" for "x" and "?y" for "y": a file with columns may have other names than the default ones. */
const char *tt_optional_default(const char *text);

/* The child: argv = {tutti, check-data, file, dataset...}. Sets its resource limits, checks the
 * file, prints the error on stdout, and returns the exit code for main. Call it before MPI_Init,
 * and end the process with _exit: a crash of HDF5 at exit says nothing of the file. */
int tt_guarded_check_child_local(int argc, char **argv);
#endif
