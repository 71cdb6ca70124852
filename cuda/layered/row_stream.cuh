/* row_stream.cuh — rows from the host for the layered path, where the data set does not fit on
 * the device: two lots of buffers in turn, so that the host fills one, and the copy of one runs,
 * while the device computes with the other. Floor 3.
 *
 * A lot holds one batch of every member, or one pass of a split. The rest of the path sees it as
 * the buffers x, y and weight. */
#ifndef TT_LAYERED_STREAM_CUH
#define TT_LAYERED_STREAM_CUH
#include "cuda/layered/layered_internal.cuh"
#include "cuda/plan/host_batches.h"

enum { TT_LOTS = 2 };

typedef struct tt_lot {
  tt_stream_room host, device; /* [capacity] rows; pinned; host.weight NULL without weights */
  cudaEvent_t copied, used;    /* the host, the device part may be written again */
} tt_lot;

typedef struct tt_lots {
  tt_stream from;
  tt_lot lot[TT_LOTS];
  int next;
  cudaStream_t copies;
} tt_lots;

/* Lots of own->capacity rows. Errors: MEM, UNAVAILABLE. */
tt_err tt_lots_open(tt_engine *e);
/* Accepts NULL in own->lots. Waits for what is under way. */
void tt_lots_close(tt_engine *e);

/* The batch of every member `ahead` steps from where `at` says they stand, to own->x, y, weight.
 * What is put on the engine's stream from now on finds it there. Errors: INTERNAL. */
tt_err tt_lots_batches(tt_engine *e, const tt_stream_at *at, int64_t ahead);
/* Likewise rows [first, first + rows) of a split of a view. */
tt_err tt_lots_split(tt_engine *e, int64_t view, tt_split split, int64_t first, int64_t rows);
/* What reads the lot is on the stream: it may be filled again after that. Errors: INTERNAL. */
tt_err tt_lots_used(tt_engine *e);
#endif
