/* foreign_check.h — check that an HDF5 file of another program can be read safely. Local. */
#ifndef TT_FOREIGN_CHECK_H
#define TT_FOREIGN_CHECK_H
#include "io/hdf5/h5.h"

/* Open `file` without loading filter plugins and read the first and last row of each dataset, and
 * the texts with the names of the columns.
 *   dataset  [n] names; "%name" may be missing, or texts; "?name" may be missing; if it is, or if
 *            a name is a list or a pattern of columns, all datasets are read, and only a crash
 *            counts: what is chosen among them is checked by tt_foreign_check_dataset_local
 * Errors: NOINPUT, DATA (not HDF5, truncated, damaged; a dataset that is missing or not numeric;
 * external links, external or virtual storage, variable-length values; filters other than deflate,
 * shuffle and fletcher32), IO, MEM. */
tt_err tt_foreign_check_local(const char *file, const char *const *dataset, int n);

/* The same for one dataset of an open file. */
tt_err tt_foreign_check_dataset_local(tt_h5_reader *r, const char *path);
#endif
