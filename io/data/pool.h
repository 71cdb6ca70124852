/* pool.h — the candidates of a campaign in HDF5 files, which may be larger than memory.
 *
 * A pool is one or more files, one after the other, each with a dataset of inputs (rows x features,
 * as in data.h). Candidates are numbered from `first`, the number of the first row. Readers are
 * serial; memory is O(chunk), plus 1 bit per row if rows are excluded. */
#ifndef TT_POOL_H
#define TT_POOL_H
#include "core/model/dataset.h"
#include "io/table/table.h"
#include "mpi/comm.h"

#include <stdint.h>

typedef struct tt_pool tt_pool;

typedef struct tt_pool_options {
  const char *const *file; /* [files] */
  int64_t files;
  int64_t first;       /* number of the first row of the first file */
  const char *inputs;  /* dataset */
  const char *labels;  /* dataset rows x targets, or NULL */
  const char *exclude; /* dataset of 0 and 1, one per row; NULL = none; one file only */
  const tt_columns *input, *target; /* columns of data.file: those of a pool are matched by name */
  const tt_net_inputs *net;      /* levels of the inputs; NULL = all are amounts. Borrowed until the
                                  * pool is closed, as the format */
  const tt_table_format *format; /* of CSV files; NULL = usual */
  int checked;                   /* the files were checked before: do not check them again */
} tt_pool_options;

/* Collective. Rank 0 first checks the files with io/hdf5/guarded_check.h, reads their shapes and
 * broadcasts them. Every rank keeps its own reader, of one file at a time. The options are copied.
 * Owner: the caller. Errors: NOINPUT, DATA (not HDF5; no such dataset; no rows; other columns: as
 * tt_data_reader_match_local; exclusions that are neither 0 nor 1), MEM. */
tt_err tt_pool_open(tt_comm *c, const tt_pool_options *options, tt_pool **out);
void tt_pool_close_local(tt_pool **p); /* accepts NULL */

/* Local. Check the files of a pool as tt_pool_open does, first in a child process, and every value
 * in them; `exclude` and `checked` are ignored. Errors: as tt_pool_open and tt_pool_read_local. */
tt_err tt_pool_check_local(const tt_pool_options *options);

int64_t tt_pool_first(const tt_pool *p);
int64_t tt_pool_rows(const tt_pool *p);
int tt_pool_is_excluded(const tt_pool *p, int64_t row);
/* XXH3 of the shapes, the excluded rows, and 64 blocks of rows (with their labels) spread
 * evenly: the same on all ranks; it does not depend on the file names. */
uint64_t tt_pool_hash(const tt_pool *p);

/* x [count][D] of candidates [row, row + count), not normalized, in the order of `input`. Local.
 * Texts are the numbers of their levels.
 * Errors: NOINPUT, DATA (a value that is not finite, or no level where data.categories says error:
 * the message has file, dataset, row and column; candidates out of range; a file that has changed
 * since tt_pool_open), IO, MEM. */
tt_err tt_pool_read_local(tt_pool *p, int64_t row, int64_t count, double *x);

/* The same for `count` single candidates, in any order; y [count][T] too, NaN = unlabeled, all NaN
 * if the pool has no labels. Candidates that are close to each other in the file are read in one
 * call. x or y may be NULL. */
tt_err tt_pool_read_rows_local(tt_pool *p, const int64_t *row, int64_t count, double *x, double *y);

/* The ids of candidates (data.id; its name is in `input` of the options), as many as `row`; none,
 * and *out zeroed, if a file of the pool does not have the column. They may be equal. Local.
 * Owner: the caller, tt_row_ids_free. Errors: NOINPUT, DATA (missing, no whole number), IO, MEM. */
tt_err tt_pool_read_ids_local(tt_pool *p, const int64_t *row, int64_t count, tt_row_ids *out);

/* The text of an input that has levels, for the oracle: data.categories: zeros accepts texts that
 * are no level, and x then has -1. *text lives until the next call. Local. Errors: as above; DATA
 * (the column has numbers, or more than TT_MAX_LEVELS texts). */
tt_err tt_pool_read_text_local(tt_pool *p, int64_t row, int64_t column, const char **text);
#endif
