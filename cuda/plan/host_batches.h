/* host_batches.h — batches whose rows are on the host, which gathers them: of a data set that is
 * too large for the GPU, or of a caller. Plain C, no CUDA. Local. */
#ifndef TT_HOST_BATCHES_H
#define TT_HOST_BATCHES_H
#include "core/engine/engine.h"
TT_BEGIN_C

/* Source of the rows; all pointers are borrowed. M members of the slice, E epochs. */
typedef struct tt_host_batches {
  const tt_cohort *cohort;
  tt_slice slice;
  const tt_dataset *data;
  int32_t *const *row;       /* [row sets * TT_SPLITS] rows of the data set: tt_cohort_rows */
  const int64_t *count;      /* [row sets * TT_SPLITS] */
  const int32_t *epoch_rows; /* [M] */
  const int32_t *replay;     /* [M][E][rows of an epoch] or NULL */
  int threads;
} tt_host_batches;

/* Positions of the members in their training: as in the state, [M] each. */
typedef struct tt_member_positions {
  const int8_t *status;
  const int32_t *epoch, *batch, *attempt;
} tt_member_positions;

/* Buffers for rows: [rows][D], [rows][K], [rows]; weight may be NULL. */
typedef struct tt_batch_buffers {
  float *x, *y, *weight;
} tt_batch_buffers;

/* Which rows of which members. */
typedef struct tt_batch_choice {
  tt_slice members;    /* of the slice, counted from its first one */
  int64_t ahead, part; /* steps from now on; part of the batch (core/model/parts.h) */
} tt_batch_choice;

/* Fill the batch that members use `ahead` steps from now, or a part of it: `rows` rows per member,
 * zeros where it has fewer, labels with the member's own noise. No epoch may end in between.
 * Members that are not training are skipped. */
void tt_host_batches_fill(const tt_host_batches *s, const tt_member_positions *positions,
                          const tt_batch_choice *which, int64_t rows, const tt_batch_buffers *dst);

/* The same with rows of the caller, whose arrays s->data has, from part `part` of the batch: `rows`
 * rows of x for each member, or of the first one if all have the same; y and weight may be NULL. */
void tt_host_batches_fill_given(const tt_host_batches *s, const tt_batch *batch, int64_t part,
                                int64_t rows, const tt_batch_buffers *dst);

/* Fill rows [first, first + rows) of a split of a row set. */
void tt_host_batches_fill_split(const tt_host_batches *s, int64_t row_set, tt_split split,
                                int64_t first, int64_t rows, const tt_batch_buffers *dst);
TT_END_C
#endif
