/* split_step.cu — a step of the layered path in two parts; in between, the caller computes the
 * loss from the outputs of several members; see engine.h. Nothing else may run on the engine in
 * between: the second part uses the buffers that the first part fills. */
#include "cuda/layered/layered_internal.cuh"

#include "core/base/mem.h"

/* Rows from the host are used if the data set does not fit: then row numbers are not on the
 * device. */
static tt_err check_data_on_device(const tt_engine *e)
{
  if (!e->data) return TT_OK;
  return TT_FAIL(MEM, "train.method: fusion needs the whole data set on the GPU, but it does not "
                      "fit: use more ranks, fewer rows, or run.device: cpu");
}

/* Copy the batch of each member, `width` bytes per row; the caller's array has B rows per
 * member. */
static tt_err copy_batches(tt_engine *e, void *dst, const void *src, size_t width, int down)
{
  size_t device = (size_t)tt_layered_of(e)->size.rows * width;
  size_t host = (size_t)e->cohort->batch_size * width;
  return TT_CUDA(cudaMemcpy2DAsync(
      dst, down ? host : device, src, down ? device : host, device, (size_t)e->slice.count,
      down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, e->dev.stream));
}

tt_err tt_layered_step_forward(tt_engine *e, float *output, int32_t *row)
{
  const tt_layered *own = tt_layered_of(e);
  int64_t batch = e->cohort->batch_size, outputs = e->cohort->model.outputs;
  TT_TRY(check_data_on_device(e));
  for (int64_t k = 0; k < e->slice.count * batch; k++) row[k] = -1;
  for (int64_t k = 0; k < e->slice.count * batch * outputs; k++) output[k] = 0.0f;
  TT_TRY(tt_layered_begin_epochs(e));
  TT_TRY(tt_layered_forward_batch(e));
  const float *last = own->h[e->cohort->model.layers - 1];
  TT_TRY(copy_batches(e, output, last, (size_t)outputs * sizeof *output, 1));
  TT_TRY(copy_batches(e, row, own->row, sizeof *row, 1));
  TT_TRY(tt_layered_download_progress(e));
  for (int64_t i = 0; i < e->slice.count; i++)
    for (int64_t k = 0; own->status[i] != TT_STATUS_training && k < batch; k++)
      row[i * batch + k] = -1;
  return TT_OK;
}

tt_err tt_layered_end_finished_epochs(tt_engine *e, int *ended)
{
  int8_t *ending_views = NULL;
  int64_t row_sets = tt_cohort_row_sets(e->cohort);
  *ended = 0;
  TT_TRY(TT_ALLOC(ending_views, row_sets));
  tt_layered_find_ending_views(e, 1, ending_views);
  for (int64_t k = 0; k < row_sets; k++) *ended |= ending_views[k];
  tt_err err = *ended ? tt_layered_end_epochs(e, ending_views, NULL) : TT_OK;
  if (!err && e->view.ensemble_stopping) err = tt_layered_resume_members(e);
  tt_free(ending_views);
  return err;
}

tt_err tt_layered_step_apply(tt_engine *e, const float *delta, const double *loss)
{
  tt_layered *own = tt_layered_of(e);
  size_t width = (size_t)e->cohort->model.outputs * sizeof *delta;
  int ended;
  TT_TRY(check_data_on_device(e));
  TT_TRY(tt_layered_download_progress(e));
  TT_TRY(copy_batches(e, own->delta[0], delta, width, 0));
  TT_TRY(tt_dev_upload(own->mean, loss, e->slice.count, e->dev.stream));
  TT_TRY(tt_layered_record_losses(e, 1));
  TT_TRY(tt_layered_update(e));
  TT_TRY(tt_layered_end_finished_epochs(e, &ended));
  return tt_stream_synchronize(e->dev.stream);
}
