/* change_path.cu — memory of the weights, whose size depends on the path; see
 * engine_functions.cuh. */
#include "cuda/common/engine_functions.cuh"

#include <stdio.h>

int64_t tt_cuda_weights_capacity(const tt_engine *e)
{
  int64_t group = e->path->group ? e->path->group(e->cohort) : 1;
  return (e->slice.count + group - 1) / group * group;
}

tt_err tt_cuda_change_path(tt_engine *e, const tt_cuda_path *path, const char *why)
{
  float *more = NULL, *old = e->view.weights;
  e->path->release(e);
  e->path = path;
  snprintf(e->why, sizeof e->why, "%s", why);
  TT_TRY(tt_dev_alloc(&more, tt_cuda_weights_capacity(e) * e->view.param_stride, "weights"));
  e->view.weights = more;
  tt_err err = tt_dev_copy(more, old, e->slice.count * e->view.param_stride, e->dev.stream);
  if (!err) err = tt_stream_synchronize(e->dev.stream);
  tt_dev_free(old);
  return err;
}
