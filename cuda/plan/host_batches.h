/* host_batches.h — rows of a data set that is too large for the GPU: it stays on the host, which
 * puts the rows of every batch together. Floor 3; plain C, no CUDA. Local, over threads. */
#ifndef TT_HOST_BATCHES_H
#define TT_HOST_BATCHES_H
#include "core/model/cohort.h"
#include "core/model/partition.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Where rows come from; everything is borrowed. M members of the slice, E epochs. */
typedef struct tt_host_batches {
  const tt_cohort *cohort;
  tt_slice slice;
  const tt_dataset *data;
  int32_t *const *row;       /* [views * TT_SPLITS] rows of the data set: tt_cohort_rows */
  const int64_t *count;      /* [views * TT_SPLITS] */
  const int32_t *epoch_rows; /* [M] */
  const int32_t *replay;     /* [M][E][rows of an epoch] or NULL */
  int threads;
} tt_host_batches;

/* Where members stand: as in the state, [M] each. */
typedef struct tt_member_positions {
  const int8_t *status;
  const int32_t *epoch, *batch, *attempt;
} tt_member_positions;

/* Room for rows: [rows][D], [rows][K], [rows]; weight may be NULL. */
typedef struct tt_batch_buffers {
  float *x, *y, *weight;
} tt_batch_buffers;

/* The batch that every member meets `ahead` steps from now, `rows` rows a member, zeros where it
 * has fewer, labels with the member's own noise. No epoch ends in between. Members that are not
 * training are passed over. */
void tt_host_batches_fill(const tt_host_batches *s, const tt_member_positions *at, int64_t ahead,
                          int64_t rows, const tt_batch_buffers *to);

/* Rows [first, first + rows) of a split of a view. */
void tt_host_batches_fill_split(const tt_host_batches *s, int64_t row_set, tt_split split,
                                int64_t first, int64_t rows, const tt_batch_buffers *to);
#ifdef __cplusplus
}
#endif
#endif
