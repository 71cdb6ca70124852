/* row_stream.cu — see row_stream.cuh. */
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"

/* ---- memory ---- */

static tt_err open_lot(tt_engine *e, tt_lot *lot)
{
  const tt_model *m = &e->cohort->model;
  int64_t rows = tt_layered_of(e)->capacity;
  const char *what = "rows from the host";
  TT_TRY(tt_dev_alloc(&lot->device.x, rows * m->inputs, what));
  TT_TRY(tt_dev_alloc(&lot->device.y, rows * m->targets, what));
  TT_TRY(tt_pinned_alloc(&lot->host.x, rows * m->inputs, what));
  TT_TRY(tt_pinned_alloc(&lot->host.y, rows * m->targets, what));
  if (e->data->weight) {
    TT_TRY(tt_dev_alloc(&lot->device.weight, rows, what));
    TT_TRY(tt_pinned_alloc(&lot->host.weight, rows, what));
  }
  TT_TRY(TT_CUDA(cudaEventCreateWithFlags(&lot->copied, cudaEventDisableTiming)));
  return TT_CUDA(cudaEventCreateWithFlags(&lot->used, cudaEventDisableTiming));
}

static void close_lot(tt_lot *lot)
{
  tt_dev_free(lot->device.x);
  tt_dev_free(lot->device.y);
  tt_dev_free(lot->device.weight);
  tt_pinned_free(lot->host.x);
  tt_pinned_free(lot->host.y);
  tt_pinned_free(lot->host.weight);
  if (lot->copied) cudaEventDestroy(lot->copied);
  if (lot->used) cudaEventDestroy(lot->used);
}

tt_err tt_lots_open(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  TT_TRY(TT_ALLOC(own->lots, 1));
  own->lots->from = {e->cohort,          e->slice,           e->data,        e->host_rows.row,
                     e->host_rows.count, e->host_epoch_rows, e->host_replay, e->threads};
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&own->lots->copies, cudaStreamNonBlocking)));
  for (int k = 0; k < TT_LOTS; k++) TT_TRY(open_lot(e, &own->lots->lot[k]));
  return TT_OK;
}

void tt_lots_close(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  tt_lots *lots = own->lots;
  if (!lots) return;
  if (lots->copies) cudaStreamSynchronize(lots->copies);
  cudaStreamSynchronize(e->dev.stream);
  for (int k = 0; k < TT_LOTS; k++) close_lot(&lots->lot[k]);
  if (lots->copies) cudaStreamDestroy(lots->copies);
  own->x = own->y = own->weight = NULL; /* they were parts of a lot */
  tt_free(lots);
  own->lots = NULL;
}

/* ---- a lot goes to the device ---- */

/* The next lot, once the host may write its part. */
static tt_err take(tt_lots *lots, tt_lot **out)
{
  *out = &lots->lot[lots->next];
  return TT_CUDA(cudaEventSynchronize((*out)->copied));
}

/* Copy `rows` rows, and let the engine's stream wait for them. */
static tt_err send(tt_engine *e, tt_lot *lot, int64_t rows)
{
  const tt_model *m = &e->cohort->model;
  tt_layered *own = tt_layered_of(e);
  cudaStream_t copies = own->lots->copies;
  TT_TRY(TT_CUDA(cudaStreamWaitEvent(copies, lot->used, 0)));
  TT_TRY(tt_dev_upload(lot->device.x, lot->host.x, rows * m->inputs, copies));
  TT_TRY(tt_dev_upload(lot->device.y, lot->host.y, rows * m->targets, copies));
  if (lot->host.weight)
    TT_TRY(tt_dev_upload(lot->device.weight, lot->host.weight, rows, copies));
  TT_TRY(TT_CUDA(cudaEventRecord(lot->copied, copies)));
  own->x = lot->device.x;
  own->y = lot->device.y;
  own->weight = lot->device.weight;
  return TT_CUDA(cudaStreamWaitEvent(e->dev.stream, lot->copied, 0));
}

tt_err tt_lots_batches(tt_engine *e, const tt_stream_at *at, int64_t ahead)
{
  tt_layered *own = tt_layered_of(e);
  tt_lot *lot;
  TT_TRY(take(own->lots, &lot));
  tt_stream_batches(&own->lots->from, at, ahead, own->rows, &lot->host);
  return send(e, lot, e->slice.count * own->rows);
}

tt_err tt_lots_split(tt_engine *e, int64_t view, tt_split split, int64_t first, int64_t rows)
{
  tt_layered *own = tt_layered_of(e);
  tt_lot *lot;
  TT_TRY(take(own->lots, &lot));
  tt_stream_split(&own->lots->from, view, split, first, rows, &lot->host);
  return send(e, lot, rows);
}

tt_err tt_lots_used(tt_engine *e)
{
  tt_lots *lots = tt_layered_of(e)->lots;
  TT_TRY(TT_CUDA(cudaEventRecord(lots->lot[lots->next].used, e->dev.stream)));
  lots->next = (lots->next + 1) % TT_LOTS;
  return TT_OK;
}
