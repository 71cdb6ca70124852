/* row_stream.cu — see row_stream.cuh. */
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"

/* memory */

static tt_err create_buffer(const tt_layered_sizes *s, tt_staging_buffer *buffer)
{
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&buffer->device.name, count, what));                        \
  if ((count) > 0) TT_TRY(tt_pinned_alloc(&buffer->host.name, count, what));
  TT_STAGING_ARRAYS(X)
#undef X
  TT_TRY(TT_CUDA(cudaEventCreateWithFlags(&buffer->copy_done, cudaEventDisableTiming)));
  return TT_CUDA(cudaEventCreateWithFlags(&buffer->compute_done, cudaEventDisableTiming));
}

static void destroy_buffer(tt_staging_buffer *buffer)
{
#define X(name, ...)                                                                               \
  tt_dev_free(buffer->device.name);                                                                \
  tt_pinned_free(buffer->host.name);
  TT_STAGING_ARRAYS(X)
#undef X
  if (buffer->copy_done) cudaEventDestroy(buffer->copy_done);
  if (buffer->compute_done) cudaEventDestroy(buffer->compute_done);
}

tt_err tt_row_stream_open(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  TT_TRY(TT_ALLOC(own->row_stream, 1));
  own->row_stream->from = {e->cohort,          e->slice,           e->data,        e->host_rows.row,
                           e->host_rows.count, e->host_epoch_rows, e->host_replay, e->threads};
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&own->row_stream->copy_stream, cudaStreamNonBlocking)));
  for (int k = 0; k < TT_STAGING_BUFFERS; k++)
    TT_TRY(create_buffer(&own->size, &own->row_stream->buffer[k]));
  return TT_OK;
}

void tt_row_stream_close(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  tt_row_stream *row_stream = own->row_stream;
  if (!row_stream) return;
  if (row_stream->copy_stream) cudaStreamSynchronize(row_stream->copy_stream);
  cudaStreamSynchronize(e->dev.stream);
  for (int k = 0; k < TT_STAGING_BUFFERS; k++) destroy_buffer(&row_stream->buffer[k]);
  if (row_stream->copy_stream) cudaStreamDestroy(row_stream->copy_stream);
  own->x = own->y = own->weight = NULL; /* they were parts of a buffer */
  tt_free(row_stream);
  own->row_stream = NULL;
}

/* copy of a buffer to the device */

/* Wait until the host may write the next buffer, and return it. */
static tt_err next_free_buffer(tt_row_stream *row_stream, tt_staging_buffer **out)
{
  *out = &row_stream->buffer[row_stream->next];
  return TT_CUDA(cudaEventSynchronize((*out)->copy_done));
}

/* Copy `rows` rows, and make the engine's stream wait for them. */
static tt_err copy_to_device(tt_engine *e, tt_staging_buffer *buffer, int64_t rows)
{
  const tt_model *m = &e->cohort->model;
  tt_layered *own = tt_layered_of(e);
  cudaStream_t copy_stream = own->row_stream->copy_stream;
  TT_TRY(TT_CUDA(cudaStreamWaitEvent(copy_stream, buffer->compute_done, 0)));
  TT_TRY(tt_dev_upload(buffer->device.x, buffer->host.x, rows * m->inputs, copy_stream));
  TT_TRY(tt_dev_upload(buffer->device.y, buffer->host.y, rows * m->targets, copy_stream));
  if (buffer->host.weight)
    TT_TRY(tt_dev_upload(buffer->device.weight, buffer->host.weight, rows, copy_stream));
  TT_TRY(TT_CUDA(cudaEventRecord(buffer->copy_done, copy_stream)));
  own->x = buffer->device.x;
  own->y = buffer->device.y;
  own->weight = buffer->device.weight;
  return TT_CUDA(cudaStreamWaitEvent(e->dev.stream, buffer->copy_done, 0));
}

tt_err tt_row_stream_load_batches(tt_engine *e, const tt_member_positions *positions, int64_t ahead)
{
  tt_layered *own = tt_layered_of(e);
  tt_staging_buffer *buffer;
  TT_TRY(next_free_buffer(own->row_stream, &buffer));
  const tt_batch_choice which = {own->window, ahead, own->batch_part};
  tt_host_batches_fill(&own->row_stream->from, positions, &which, own->size.rows, &buffer->host);
  return copy_to_device(e, buffer, own->window.count * own->size.rows);
}

tt_err tt_row_stream_load_split(tt_engine *e, int64_t row_set, tt_split split, int64_t first,
                                int64_t rows)
{
  tt_layered *own = tt_layered_of(e);
  tt_staging_buffer *buffer;
  TT_TRY(next_free_buffer(own->row_stream, &buffer));
  tt_host_batches_fill_split(&own->row_stream->from, row_set, split, first, rows, &buffer->host);
  return copy_to_device(e, buffer, rows);
}

tt_err tt_row_stream_release_buffer(tt_engine *e)
{
  tt_row_stream *row_stream = tt_layered_of(e)->row_stream;
  TT_TRY(
      TT_CUDA(cudaEventRecord(row_stream->buffer[row_stream->next].compute_done, e->dev.stream)));
  row_stream->next = (row_stream->next + 1) % TT_STAGING_BUFFERS;
  return TT_OK;
}

/* rows of the caller */

tt_batch_buffers tt_row_stream_given_part(tt_engine *e, int64_t k)
{
  const tt_given_rows *g = e->given;
  int64_t rows = tt_layered_of(e)->size.rows, all = e->slice.count * rows;
  tt_batch_buffers part = {g->block + k * (g->batch.stride ? all : rows) * e->view.inputs, NULL,
                           NULL};
  if (g->has_labels) part.y = g->y + k * all * e->view.targets;
  if (g->has_labels && e->view.weighted) part.weight = g->weight + k * all;
  return part;
}

tt_err tt_row_stream_load_given(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  int64_t all = e->slice.count * own->size.rows;
  const tt_batch_buffers part = tt_row_stream_given_part(e, own->batch_part);
  TT_TRY(tt_dev_upload(own->x, part.x, (own->shares_x ? own->size.rows : all) * e->view.inputs,
                       e->dev.stream));
  if (part.y) TT_TRY(tt_dev_upload(own->y, part.y, all * e->view.targets, e->dev.stream));
  return part.weight ? tt_dev_upload(own->weight, part.weight, all, e->dev.stream) : TT_OK;
}
