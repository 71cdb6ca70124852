/* foreign_check.h — is a foreign HDF5 file one that can be read safely. Floor 3. Local. */
#ifndef TT_FOREIGN_CHECK_H
#define TT_FOREIGN_CHECK_H
#include "core/base/err.h"

/* Open `file` without loading filter plugins and touch the first and last rows of each dataset, and
 * the texts that name its columns.
 *   dataset  [n] names; "?name" need not be there
 * Errors: NOINPUT, DATA (not HDF5, truncated, damaged; a dataset that is not there or not of
 * numbers; external links, external or virtual storage, variable-length values; filters other than
 * deflate, shuffle and fletcher32), IO, MEM. */
tt_err tt_foreign_check_local(const char *file, const char *const *dataset, int n);
#endif
