/* pool_io.h — the candidates of a campaign in HDF5 files, too many for memory. Floor 3.
 *
 * A pool is one or more files, one after the other, each with a dataset of inputs (rows x features,
 * as data_io.h reads them). Candidates have numbers: `first` is that of the first row. Readers are
 * serial; memory is O(chunk), but for 1 bit a row where rows are excluded. */
#ifndef TT_POOL_IO_H
#define TT_POOL_IO_H
#include "mpi/comm.h"

#include <stdint.h>

typedef struct tt_pool tt_pool;

typedef struct tt_pool_plan {
  const char *const *file; /* [files] */
  int64_t files;
  int64_t first;       /* number of the first row of the first file */
  const char *inputs;  /* dataset */
  const char *labels;  /* dataset rows x targets, or NULL */
  const char *exclude; /* dataset of row numbers or of a byte a row; NULL = none; one file only */
  int64_t width, targets; /* features the model takes; targets of the data */
} tt_pool_plan;

/* Collective. Rank 0 first lets io/data_check.h look at the files. Every rank keeps its own
 * readers. Owner: the caller. Errors: NOINPUT, DATA (not HDF5; no such dataset; another width:
 * file, dataset, both numbers; excluded rows out of range or twice), MEM. */
tt_err tt_pool_open(tt_comm *c, const tt_pool_plan *plan, tt_pool **out);
void tt_pool_close_local(tt_pool **p); /* accepts NULL */

int64_t tt_pool_first(const tt_pool *p);
int64_t tt_pool_rows(const tt_pool *p);
int tt_pool_is_excluded(const tt_pool *p, int64_t row);
/* XXH3 of the shapes and of 64 blocks of rows spread evenly: the same on all ranks. */
uint64_t tt_pool_hash(const tt_pool *p);

/* x [count][D] of candidates [row, row + count), as they stand in the file. Local.
 * Errors: DATA (a value that is not finite: file, dataset, row and column in that file), IO. */
tt_err tt_pool_read_local(tt_pool *p, int64_t row, int64_t count, double *x);

/* The same of `count` single candidates, ascending; y [count][T] too if there are labels. Reads
 * runs of neighbours, and whole blocks where many of their rows are wanted. x or y may be NULL. */
tt_err tt_pool_pick_local(tt_pool *p, const int64_t *row, int64_t count, double *x, double *y);
#endif
