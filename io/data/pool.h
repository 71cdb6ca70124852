/* pool.h — the candidates of a campaign in HDF5 files, too many for memory. Floor 3.
 *
 * A pool is one or more files, one after the other, each with a dataset of inputs (rows x features,
 * as data.h reads them). Candidates have numbers: `first` is that of the first row. Readers are
 * serial; memory is O(chunk), but for 1 bit a row where rows are excluded. */
#ifndef TT_POOL_H
#define TT_POOL_H
#include "mpi/comm.h"

#include <stdint.h>

typedef struct tt_pool tt_pool;

typedef struct tt_pool_options {
  const char *const *file; /* [files] */
  int64_t files;
  int64_t first;       /* number of the first row of the first file */
  const char *inputs;  /* dataset */
  const char *labels;  /* dataset rows x targets, or NULL */
  const char *exclude; /* dataset of row numbers or of a byte a row; NULL = none; one file only */
  int64_t width, targets; /* features the model takes; targets of the data */
  int checked;            /* the files were looked at when they were made: not again */
} tt_pool_options;

/* Collective. Rank 0 first lets io/data/guarded_check.h look at the files, and reads their shapes
 * for all. Every rank keeps its own reader, of one file at a time. The plan is copied. Owner: the
 * caller. Errors: NOINPUT, DATA (not HDF5; no such dataset; no rows; another width: file, dataset,
 * both numbers; excluded rows out of range or twice), MEM. */
tt_err tt_pool_open(tt_comm *c, const tt_pool_options *options, tt_pool **out);
void tt_pool_close_local(tt_pool **p); /* accepts NULL */

/* Local: look at the files of a plan as tt_pool_open does, in a process that may crash first, and
 * at every value in them; `exclude` and `looked` do not count. Errors: as tt_pool_open and
 * tt_pool_read_local. */
tt_err tt_pool_check_local(const tt_pool_options *options);

int64_t tt_pool_first(const tt_pool *p);
int64_t tt_pool_rows(const tt_pool *p);
int tt_pool_is_excluded(const tt_pool *p, int64_t row);
/* XXH3 of the shapes, of what is excluded, and of 64 blocks of rows (with their labels) spread
 * evenly: the same on all ranks, whatever the files are called. */
uint64_t tt_pool_hash(const tt_pool *p);

/* x [count][D] of candidates [row, row + count), as they stand in the file. Local.
 * Errors: NOINPUT, DATA (a value that is not finite: file, dataset, row and column in that file;
 * candidates that the pool does not have; another file than at the start), IO, MEM. */
tt_err tt_pool_read_local(tt_pool *p, int64_t row, int64_t count, double *x);

/* The same of `count` single candidates, ascending; y [count][T] too, NaN = unlabelled, all NaN if
 * the pool has no labels. Candidates that are near each other in the file are read in one go. x or
 * y may be NULL. */
tt_err tt_pool_read_rows_local(tt_pool *p, const int64_t *row, int64_t count, double *x, double *y);
#endif
