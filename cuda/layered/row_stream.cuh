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
/* rows of the caller: given_rows.cu */

enum {
  TT_GIVEN_STEP,
  TT_GIVEN_FORWARD,
  TT_GIVEN_PREDICT,
  TT_GIVEN_BACKWARD,
  TT_GIVEN_UPDATE,
  TT_GIVEN_CALLS
};

/* The graph of a kind of call, for batches of one shape. */
typedef struct tt_call_graph {
  cudaGraphExec_t graph;
  int64_t shape, last; /* of the graph; of the last call */
} tt_call_graph;

typedef struct tt_given_rows {
  tt_batch batch;
  tt_dataset data; /* its arrays; nothing else is set */
  tt_host_batches from;
  /* Page-locked: x [parts][M or 1][rows][D], and then what the call returns; y [parts][M][rows][K];
   * weight [parts][M][rows]; dL/d(output); the losses of a step [M] */
  float *block, *y, *weight, *delta;
  double *loss;
  tt_call_graph call[TT_GIVEN_CALLS];
  int has_labels;   /* 1: the rows have been gathered with y */
  int is_summed;    /* 1: the gradient is that of a call of backward */
  int has_forward;  /* 1: the layers have the outputs of a forward pass of this batch */
  int gives_inputs; /* 1: backward computes dL/d(input) */
  int is_current;   /* 1: the device has the hyper-parameters of the members, and the host their
                        batch and epoch */
} tt_given_rows;

/* Where part k of the gathered rows is; y and weight are NULL without labels. */
tt_batch_buffers tt_row_stream_given_part(tt_engine *e, int64_t k);

/* Copy the rows of part own->batch_part into own->x, y, weight. Asynchronous, may be captured.
 * Errors: INTERNAL. */
tt_err tt_row_stream_load_given(tt_engine *e);
#endif
