/* row_stream.cuh — rows from the host for the layered path, if the data set does not fit on the
 * device: two staging buffers are used alternately, so that the host fills and copies one while the
 * device computes with the other.
 *
 * A buffer holds one batch of every member, or one pass of a split. The rest of the path uses it
 * as the arrays x, y and weight. */
#ifndef TT_ROW_STREAM_CUH
#define TT_ROW_STREAM_CUH
#include "cuda/layered/layered_internal.cuh"
#include "cuda/plan/host_batches.h"

typedef struct tt_staging_buffer {
  tt_batch_buffers host, device; /* [capacity] rows; pinned; host.weight NULL without weights */
  cudaEvent_t copy_done, compute_done; /* then the host, the device part may be overwritten */
} tt_staging_buffer;

typedef struct tt_row_stream {
  tt_host_batches from;
  tt_staging_buffer buffer[TT_STAGING_BUFFERS];
  int next;
  cudaStream_t copy_stream;
} tt_row_stream;

/* Allocate buffers of own->size.capacity rows. Errors: MEM, UNAVAILABLE. */
tt_err tt_row_stream_open(tt_engine *e);
/* Accepts NULL in own->row_stream. Waits for unfinished work. */
void tt_row_stream_close(tt_engine *e);

/* Load the rows of part own->batch_part of the batch of every member of own->window, `ahead` steps
 * after the positions `positions`, into own->x, y, weight. Work submitted to the engine's stream
 * afterwards can use it. Errors: INTERNAL. */
tt_err tt_row_stream_load_batches(tt_engine *e, const tt_member_positions *positions,
                                  int64_t ahead);
/* The same for rows [first, first + rows) of a split of a row set. */
tt_err tt_row_stream_load_split(tt_engine *e, int64_t row_set, tt_split split, int64_t first,
                                int64_t rows);
/* Call it after submitting all work that reads the buffer: the buffer is reused after that work.
 * Errors: INTERNAL. */
tt_err tt_row_stream_release_buffer(tt_engine *e);
#endif
