/* describe_file.h — `tutti info`: the contents of an HDF5 file of tutti (or any other). Local. */
#ifndef TT_DESCRIBE_FILE_H
#define TT_DESCRIBE_FILE_H
#include "core/base/err.h"

/* Print kind, origin and datasets of a file on standard output.
 *   config  print only the resolved configuration of the job that wrote the file
 *   json    print one JSON object (docs/json.md)
 * Errors: NOINPUT, DATA (not HDF5; damaged; no configuration in it). */
tt_err tt_describe_file_local(const char *file, int config, int json);
#endif
