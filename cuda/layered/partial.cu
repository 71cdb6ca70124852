/* partial.cu — steps of a member that several engines train together (engine.h); see
 * layered_internal.cuh. Gradients and weights are exchanged through host memory, or, with
 * tt_engine.device_exchange, where they are on the device. */
#include "cuda/layered/layered_internal.cuh"

#include "core/base/mem.h"

#include <math.h>

void tt_layered_begin_member(tt_engine *e, int64_t i) { tt_layered_of(e)->window = {i, 1}; }

tt_err tt_layered_end_member(tt_engine *e, tt_err before)
{
  tt_err err = tt_stream_synchronize(e->dev.stream);
  tt_layered_of(e)->window = {0, e->slice.count};
  return before ? before : err;
}

tt_err tt_layered_reserve_sums(tt_engine *e, int most, int left)
{
  tt_layered *own = tt_layered_of(e);
  for (int k = own->size.sums; k < most; k++)
    if (!own->sum[k])
      TT_TRY(tt_dev_alloc(&own->sum[k], e->view.param_stride, "gradients of the weights"));
  if (e->device_exchange || left <= own->host_sums) return TT_OK;
  tt_pinned_free(own->host_sum);
  own->host_sums = 0;
  TT_TRY(tt_pinned_alloc(&own->host_sum, left * (int64_t)e->view.params, "gradients to exchange"));
  own->host_sums = left;
  return TT_OK;
}

tt_err tt_layered_check_path(const tt_engine *e)
{
  if (e->path == &tt_cuda_layered) return TT_OK;
  return TT_FAIL(INTERNAL, "the %s path cannot train a part of a batch", e->path->name);
}

/* Where the caller finds sum k. */
static tt_err give_sum(tt_engine *e, int k, float **sum)
{
  *sum = tt_layered_sum(e, k);
  if (e->device_exchange) return TT_OK;
  *sum = tt_layered_of(e)->host_sum + k * (int64_t)e->view.params;
  return tt_dev_download(*sum, tt_layered_sum(e, k), e->view.params, e->dev.stream);
}

static tt_err give_sums(tt_engine *e, int count, float *sum[TT_MAX_PART_SUMS],
                        double loss[TT_MAX_PART_SUMS])
{
  for (int k = 0; k < count; k++) {
    TT_TRY(give_sum(e, k, &sum[k]));
    TT_TRY(tt_dev_download(&loss[k], tt_layered_sum_loss(e, k), 1, e->dev.stream));
  }
  return TT_OK;
}

tt_err tt_layered_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                          float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS])
{
  const int64_t i = m - e->slice.first;
  int most;
  tt_part_sums sums = tt_part_sums_of(e->cohort->parts, parts, &most);
  TT_TRY(tt_layered_check_path(e));
  TT_TRY(tt_layered_download_progress(e));
  *training = tt_layered_of(e)->status[i] == TT_STATUS_training;
  if (!*training) return TT_OK;
  TT_TRY(tt_layered_reserve_sums(e, most, sums.count));
  tt_layered_begin_member(e, i);
  tt_err err = tt_layered_begin_epochs(e);
  if (!err) err = tt_layered_add_parts(e, parts);
  if (!err) err = give_sums(e, sums.count, sum, loss);
  return tt_layered_end_member(e, err);
}

static int is_clipped(const tt_engine *e, int64_t i)
{
  return e->cohort->member[e->slice.first + i].hyper.clip_norm > 0.0f;
}

/* The gradient of a segment to sum [0], of the member of the window. */
static tt_err take_gradient(tt_engine *e, tt_slice segment, const float *gradient)
{
  return tt_layered_take_values(e, tt_layered_sum(e, 0) + segment.first, gradient, segment.count);
}

/* Sums of squares of the member of the window. */
static double *squares_of(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  return own->squares + own->window.first * tt_norm_blocks(e->view.params);
}

tt_err tt_layered_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block)
{
  const int64_t i = m - e->slice.first;
  if ((!e->device_exchange && !is_clipped(e, i)) || !segment.count) return TT_OK;
  tt_layered_begin_member(e, i);
  tt_err err = take_gradient(e, segment, gradient);
  if (!err && is_clipped(e, i)) err = tt_layered_segment_squares(e, segment);
  if (!err && is_clipped(e, i))
    err = tt_dev_download(block, squares_of(e), tt_norm_blocks(segment.count), e->dev.stream);
  return tt_layered_end_member(e, err);
}

tt_err tt_layered_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient,
                          double squares, float *w)
{
  const int64_t i = m - e->slice.first;
  if (!segment.count) return TT_OK;
  tt_layered_begin_member(e, i);
  tt_err err = e->device_exchange ? TT_OK : take_gradient(e, segment, gradient);
  if (!err && is_clipped(e, i)) err = tt_dev_upload(squares_of(e), &squares, 1, e->dev.stream);
  if (!err) err = tt_layered_segment_advance(e, segment);
  if (!err && w)
    err = tt_layered_give_values(e, w, e->view.weights + i * e->view.param_stride + segment.first,
                                 segment.count);
  return tt_layered_end_member(e, err);
}

/* The step of member i ends with the weights w of the parameters `slice`. */
static tt_err accept_step(tt_engine *e, int64_t i, tt_slice slice, const float *w, double loss)
{
  tt_layered_begin_member(e, i);
  float *weights = e->view.weights + i * e->view.param_stride + slice.first;
  tt_err err = slice.count ? tt_layered_take_values(e, weights, w, slice.count) : TT_OK;
  if (!err) err = tt_dev_upload(tt_layered_sum_loss(e, 0), &loss, 1, e->dev.stream);
  if (!err) err = tt_layered_accept_weights(e);
  return tt_layered_end_member(e, err);
}

static tt_err diverge(tt_engine *e, int64_t i)
{
  const int8_t diverged = TT_STATUS_diverged;
  return tt_dev_upload_sync(e->view.status + i, &diverged, 1, e->dev.stream);
}

/* Member i is at the end of its epoch, unless `before` is an error. */
static tt_err end_epoch(tt_engine *e, int64_t i, const tt_epoch_sharing *share, tt_err before)
{
  const tt_cohort *c = e->cohort;
  int64_t view = tt_member_row_set(c, &c->member[e->slice.first + i]);
  int64_t each = tt_layered_of(e)->size.split_rows, rows = e->host_lists[view].count[TT_VALIDATION];
  const tt_layered_sharing sharing = {share, i, tt_ceil_div(rows, each)};
  const tt_layered_sharing *other = share && rows ? &sharing : NULL;
  int8_t *ending_views = NULL;
  tt_err err = before;
  if (!err) err = TT_ALLOC(ending_views, tt_cohort_row_sets(c));
  if (err) return other ? tt_layered_gather(e, other, err) : err;
  ending_views[view] = 1;
  err = tt_layered_end_epochs(e, ending_views, other);
  tt_err wait = tt_stream_synchronize(e->dev.stream);
  tt_free(ending_views);
  return err ? err : wait;
}

tt_err tt_layered_accept(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                         const tt_epoch_sharing *share, int *epoch_ended)
{
  const int64_t i = m - e->slice.first;
  const tt_cohort *c = e->cohort;
  int64_t done = (tt_layered_of(e)->batch[i] + (int64_t)1) * c->batch_size;
  *epoch_ended = isfinite(loss) && done >= e->host_epoch_rows[i];
  if (!isfinite(loss)) return diverge(e, i);
  tt_err err = accept_step(e, i, slice, w, loss);
  return *epoch_ended ? end_epoch(e, i, share, err) : err;
}

/* The memory begins with zeros: kernels read whole float4, also what no message fills. */
tt_err tt_layered_device_scratch(tt_engine *e, int64_t count, float **out)
{
  tt_layered *own = tt_layered_of(e);
  TT_TRY(tt_layered_check_path(e));
  if (count) TT_TRY(tt_dev_alloc(&own->incoming, count, "gradients of other engines"));
  *out = own->incoming;
  return TT_OK;
}

tt_err tt_layered_device_add(tt_engine *e, int64_t m, float *dst, const float *src, int64_t count)
{
  const int64_t i = m - e->slice.first;
  int64_t before =
      (int64_t)(reinterpret_cast<uintptr_t>(dst) / sizeof *dst % 4); /* of the float4 */
  tt_layered_begin_member(e, i);
  tt_err err = count ? tt_layered_add_values(e, dst - before, src - before, before + count) : TT_OK;
  tt_layered_of(e)->window = {0, e->slice.count}; /* the next call waits */
  return err;
}

tt_err tt_layered_device_copy(tt_engine *e, float *dst, const float *src, int64_t count)
{
  if (count && dst != src) TT_TRY(tt_dev_copy(dst, src, count, e->dev.stream));
  return tt_stream_synchronize(e->dev.stream);
}
