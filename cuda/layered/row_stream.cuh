/* row_stream.cuh — rows from the host for the layered path, where the data set does not fit on
 * the device: two lots of buffers in turn, so that the host fills one, and the copy of one runs,
 * while the device computes with the other. Floor 3.
 *
 * A lot holds one batch of every member, or one pass of a split. The rest of the path sees it as
 * the buffers x, y and weight. */
#ifndef TT_ROW_STREAM_CUH
#define TT_ROW_STREAM_CUH
#include "cuda/layered/layered_internal.cuh"
#include "cuda/plan/host_batches.h"

enum { TT_STAGING_BUFFERS = 2 };

typedef struct tt_staging_buffer {
  tt_batch_buffers host, device; /* [capacity] rows; pinned; host.weight NULL without weights */
  cudaEvent_t copy_done, compute_done; /* the host, the device part may be written again */
} tt_staging_buffer;

typedef struct tt_row_stream {
  tt_host_batches from;
  tt_staging_buffer buffer[TT_STAGING_BUFFERS];
  int next;
  cudaStream_t copy_stream;
} tt_row_stream;

/* Lots of own->capacity rows. Errors: MEM, UNAVAILABLE. */
tt_err tt_row_stream_open(tt_engine *e);
/* Accepts NULL in own->lots. Waits for what is under way. */
void tt_row_stream_close(tt_engine *e);

/* The batch of every member `ahead` steps from where `at` says they stand, to own->x, y, weight.
 * What is put on the engine's stream from now on finds it there. Errors: INTERNAL. */
tt_err tt_row_stream_load_batches(tt_engine *e, const tt_member_positions *at, int64_t ahead);
/* Likewise rows [first, first + rows) of a split of a view. */
tt_err tt_row_stream_load_split(tt_engine *e, int64_t row_set, tt_split split, int64_t first,
                                int64_t rows);
/* What reads the lot is on the stream: it may be filled again after that. Errors: INTERNAL. */
tt_err tt_row_stream_release_buffer(tt_engine *e);
#endif
