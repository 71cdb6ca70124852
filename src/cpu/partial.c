/* partial.c — steps of a member that several engines train together; see engine.h. */
#include "src/cpu/cpu_internal.h"

#include <math.h>
#include <string.h>

/* Threads that compute some parts; 1 without parts, to update a segment of the parameters. */
static int threads_for(tt_slice parts, int threads)
{
  int64_t most = parts.count < threads ? parts.count : threads;
  return most < 1 ? 1 : (int)most;
}

tt_err tt_cpu_partial_reserve(tt_engine *e, tt_slice parts)
{
  return tt_cpu_reserve_sums(e, parts, threads_for(parts, e->threads));
}

tt_err tt_cpu_partial(tt_engine *e, int64_t m, tt_slice parts, int *training,
                      float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS])
{
  tt_cpu_buffers *b = e->buffers[0];
  tt_cpu_batch batch;
  int64_t i = m - e->slice.first;
  int threads = threads_for(parts, e->threads);
  *training = TT_FIELD(e->state, status)[i] == TT_STATUS_training;
  if (!*training) return TT_OK;
  TT_TRY(tt_cpu_partial_reserve(e, parts));
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  unsigned mode = tt_cpu_flush_denormals();
  tt_cpu_next_batch(e, b, &ctx, 1, &batch);
  (void)tt_cpu_gradient(e, b, &ctx, &batch, parts, threads, sum, loss);
  tt_cpu_restore_denormals(mode);
  return TT_OK;
}

tt_err tt_cpu_squares(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double *block)
{
  tt_cpu_member ctx = tt_cpu_member_begin(e, e->buffers[0], m - e->slice.first);
  unsigned mode = tt_cpu_flush_denormals();
  for (int64_t p = 0; ctx.member->hyper.clip_norm > 0.0f && p < segment.count; p += TT_NORM_BLOCK) {
    tt_slice some = {segment.first + p, tt_min_i64(TT_NORM_BLOCK, segment.count - p)};
    block[p / TT_NORM_BLOCK] = tt_cpu_square_sum(e, some, gradient + p);
  }
  tt_cpu_restore_denormals(mode);
  return TT_OK;
}

tt_err tt_cpu_advance(tt_engine *e, int64_t m, tt_slice segment, float *gradient, double squares,
                      float *w)
{
  tt_cpu_member ctx = tt_cpu_member_begin(e, e->buffers[0], m - e->slice.first);
  unsigned mode = tt_cpu_flush_denormals();
  tt_cpu_update u;
  tt_cpu_update_begin(e, &ctx, &u);
  tt_cpu_clip_update(&u, squares);
  tt_cpu_update_weights(&u, segment, gradient);
  tt_cpu_restore_denormals(mode);
  if (w) memcpy(w, ctx.w + segment.first, (size_t)segment.count * sizeof *w);
  return TT_OK;
}

tt_err tt_cpu_accept(tt_engine *e, int64_t m, tt_slice slice, const float *w, double loss,
                     const tt_epoch_sharing *share, int *epoch_ended)
{
  int64_t i = m - e->slice.first;
  *epoch_ended = 0;
  if (!isfinite(loss)) {
    TT_FIELD(e->state, status)[i] = TT_STATUS_diverged;
    return TT_OK;
  }
  tt_cpu_member ctx = tt_cpu_member_begin(e, e->buffers[0], i);
  unsigned mode = tt_cpu_flush_denormals();
  ctx.share = share;
  ctx.threads = e->threads;
  if (slice.count) memcpy(ctx.w + slice.first, w, (size_t)slice.count * sizeof *w);
  tt_cpu_average_weights(e, &ctx, e->own);
  tt_cpu_end_step(e, &ctx, loss);
  *epoch_ended = tt_cpu_end_epoch_if_due(e, e->buffers[0], &ctx);
  tt_cpu_restore_denormals(mode);
  return TT_OK;
}
