/* shared_steps.cu — steps of a member that several engines train together (engine.h): the functions
 * of the path. */
#include "cuda/common/engine_functions.cuh"

/* train.parts needs a path with these functions. */
static tt_err check_parts(const tt_engine *e)
{
  if (e->path->partial) return TT_OK;
  return TT_FAIL(INTERNAL, "the %s path cannot train a part of a batch", e->path->name);
}

tt_err tt_cuda_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                      float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS])
{
  TT_TRY(check_parts(e));
  return e->path->partial(e, m - e->slice.first, parts, training, sum, loss);
}

tt_err tt_cuda_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block)
{
  TT_TRY(check_parts(e));
  return e->path->squares(e, m - e->slice.first, segment, gradient, block);
}

tt_err tt_cuda_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                      float *w)
{
  TT_TRY(check_parts(e));
  return e->path->advance(e, m - e->slice.first, segment, gradient, squares, w);
}

tt_err tt_cuda_accept(tt_engine *e, int64_t m, tt_slice of, const float *w, double loss,
                     const tt_epoch_sharing *share, int *epoch_ended)
{
  TT_TRY(check_parts(e));
  return e->path->accept(e, m - e->slice.first, of, w, loss, share, epoch_ended);
}

tt_err tt_cuda_device_room(tt_engine *e, int64_t count, float **out)
{
  TT_TRY(check_parts(e));
  return e->path->device_room(e, count, out);
}

tt_err tt_cuda_device_add(tt_engine *e, int64_t m, float *to, const float *from, int64_t count)
{
  return e->path->device_add(e, m - e->slice.first, to, from, count);
}

tt_err tt_cuda_device_copy(tt_engine *e, float *to, const float *from, int64_t count)
{
  return e->path->device_copy(e, to, from, count);
}

tt_err tt_cuda_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *stage, tt_slice parts,
                           int64_t window, tt_pipeline_step *out)
{
  TT_TRY(check_parts(e));
  return e->path->stage_begin(e, m - e->slice.first, stage, parts, window, out);
}

tt_err tt_cuda_stage_forward(tt_engine *e, int64_t part, const float *in, float *out)
{
  return e->path->stage_forward(e, part, in, out);
}

tt_err tt_cuda_stage_backward(tt_engine *e, int64_t part, const float *in, float *out)
{
  return e->path->stage_backward(e, part, in, out);
}
