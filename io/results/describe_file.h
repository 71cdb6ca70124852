/* describe_file.h — `tutti info`: what an HDF5 file of tutti (or any other) holds. Floor 3; local.
 * */
#ifndef TT_DESCRIBE_FILE_H
#define TT_DESCRIBE_FILE_H
#include "core/base/err.h"

/* Print kind, origin and datasets of a file on standard output.
 *   config  print the resolved configuration of the job it came from instead
 * Errors: NOINPUT, DATA (not HDF5; damaged; no configuration in it). */
tt_err tt_describe_file_local(const char *file, int config);
#endif
