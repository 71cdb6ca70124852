/* epoch_end.cu — ends of epochs and evaluation; see layered_internal.cuh.
 *
 * Members of one row set have the same validation rows: these are gathered once for all of them,
 * one pass at a time, and multiplied with one group of members after the other. With kfold,
 * members of an ensemble have different row sets: each row set goes over all members of the
 * ensemble and skips those of the others.
 *
 * With train.parts the sum of each pass is a term of its own, so that engines that train a member
 * together can share the passes. */
#include "cuda/layered/row_stream.cuh"
#include "cuda/layered/rows.cuh"

#include "core/base/mem.h"

#include <math.h>

typedef struct epoch_end_args {
  tt_cuda_state v;
  tt_split split;
  int32_t row_set, ensemble, member; /* of a pass, and its first member */
  int32_t first, rows;               /* rows of the split in the buffers */
  int32_t pass_rows;                 /* rows of a pass at most */
  int32_t best;                      /* 1: use the best weights if there are any */
  int32_t parts;                     /* blocks per member, where there are several */
  float *x, *y, *weight;
  const float *output; /* [members of the pass][rows][heads * O] */
  const int8_t *skip;  /* [M] or NULL */
  int8_t *end, *other_view;
  double *lane;        /* [M][TT_LOSS_PARTIALS] */
  double *mean;        /* [M] */
  float *eval_weights; /* [M][param_stride] */
  const float *w;      /* [M][param_stride] weights to evaluate: those, or the present ones */
  double *term;        /* [M][terms] losses of the passes; NULL: all passes add to `lane` */
  int32_t terms;
  int engines, engine;         /* that share the passes; the number of this one */
  const float *label_variance; /* [N][T] or NULL */
} epoch_end_args;

enum { PART_PARAMS = 4096 }; /* parameters of a block */

static epoch_end_args make_end_args(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  epoch_end_args a = {};
  a.v = e->view;
  a.x = own->x;
  a.y = own->y;
  a.weight = own->weight;
  a.output = own->h[e->cohort->model.layers - 1];
  a.end = own->end;
  a.other_view = own->other_view;
  a.lane = own->lane;
  a.mean = own->mean;
  a.term = own->term;
  a.terms = (int32_t)own->size.terms;
  a.engines = 1;
  a.pass_rows = (int32_t)own->size.split_rows;
  a.eval_weights = own->eval_weights;
  a.w = own->eval_weights;
  a.parts = (int32_t)tt_grid_size(e->view.params, PART_PARAMS);
  a.label_variance = e->shared ? e->shared->label_variance : NULL;
  return a;
}

/* Find the members at the end of an epoch; one thread per member. */
static __global__ void find_epoch_ends(epoch_end_args a)
{
  const tt_cuda_state &v = a.v;
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= v.members) return;
  int at_end =
      v.status[i] == TT_STATUS_training && (int64_t)v.batch[i] * v.batch_size >= v.epoch_rows[i];
  a.end[i] = (int8_t)(at_end ? TT_EPOCH_ENDED : TT_EPOCH_RUNNING);
}

/* Parameters of a block of a launch with `parts` blocks per member. */
typedef struct param_range {
  int64_t member;
  int32_t first, last; /* a thread has four neighbors; what lies behind P stays zero */
} param_range;

static __device__ param_range param_range_of(const epoch_end_args &a)
{
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.parts) * PART_PARAMS;
  param_range r = {(int64_t)(blockIdx.x / (unsigned)a.parts), first + 4 * (int32_t)threadIdx.x,
                   min(a.v.params, first + PART_PARAMS)};
  return r;
}

/* Of the members at the end of an epoch, find those with weights that are not finite. Blocks of a
 * member may store the same value. */
static __global__ void find_divergence(epoch_end_args a)
{
  param_range r = param_range_of(a);
  if (a.end[r.member] == TT_EPOCH_RUNNING) return;
  const float *w = a.v.weights + r.member * a.v.param_stride;
  int non_finite = 0;
  for (int32_t p = r.first; p < r.last; p += 4 * (int32_t)blockDim.x) {
    float4 f = tt_load4(w + p);
    non_finite |= !isfinite(f.x) | !isfinite(f.y) | !isfinite(f.z) | !isfinite(f.w);
  }
  if (non_finite) a.end[r.member] = TT_EPOCH_DIVERGED;
}

/* Gather a pass of rows of a split, once for all members of the row set. */
static __global__ void gather_split(epoch_end_args a)
{
  TT_SHARED_MEMORY(int32_t, row); /* [TT_GATHER_ROWS] */
  int32_t most = tt_gather_tile(a.v.inputs), begin = (int32_t)blockIdx.x * most;
  int32_t tile = min(a.rows - begin, most), t = (int32_t)threadIdx.x;
  if (t < tile) row[t] = a.v.lists[a.row_set].row[a.split][a.first + begin + t];
  __syncthreads();
  tt_gather_target target = {a.x, a.y, a.weight, begin, tile, a.ensemble};
  tt_gather_rows(a.v, row, target);
}

/* Add the losses of a pass: row n of the split goes to partial sum n % TT_LOSS_PARTIALS, however
 * the rows are divided into passes. One block per member, one thread per partial sum. ERRORS as for
 * tt_row_loss. */
template <int ERRORS> static __device__ void add_losses(const epoch_end_args &a)
{
  const tt_cuda_state &v = a.v;
  int32_t m = (int32_t)blockIdx.x, i = a.member + m, lane = (int32_t)threadIdx.x;
  if (a.skip && a.skip[i]) return;
  int32_t r = (lane - a.first % TT_LOSS_PARTIALS + TT_LOSS_PARTIALS) % TT_LOSS_PARTIALS;
  double sum = a.lane[(int64_t)i * TT_LOSS_PARTIALS + lane];
  for (; r < a.rows; r += TT_LOSS_PARTIALS) {
    const float *o = a.output + ((int64_t)m * a.rows + r) * tt_row_outputs(v);
    tt_label_errors errors = {};
    if (ERRORS)
      errors = tt_label_errors_of(v, a.label_variance, v.lists[a.row_set].row[a.split][a.first + r],
                                  a.ensemble);
    double value = tt_row_loss<ERRORS>(v, o, a.y + (int64_t)r * v.targets, 0.0f, NULL, errors);
    sum += v.weighted ? (double)a.weight[r] * value : value;
  }
  a.lane[(int64_t)i * TT_LOSS_PARTIALS + lane] = sum;
}

/* Six blocks of a multiprocessor: 40 registers each. */
static __global__ void __launch_bounds__(TT_LAYERED_THREADS, 6) accumulate_losses(epoch_end_args a)
{
  add_losses<0>(a);
}

static __global__ void accumulate_losses_with_errors(epoch_end_args a) { add_losses<1>(a); }

/* The partial sums of a pass become its term; one block per member of the pass. */
static __global__ void end_pass(epoch_end_args a)
{
  TT_SHARED_MEMORY(double, sums);
  int64_t i = a.member + (int32_t)blockIdx.x, at = i * TT_LOSS_PARTIALS + threadIdx.x;
  if (a.skip && a.skip[i]) return;
  double sum = tt_block_sum(a.lane[at], sums);
  a.lane[at] = 0.0;
  if (threadIdx.x == 0) a.term[i * a.terms + a.first / a.pass_rows] = sum;
}

/* Mean over the rows of the split, the same bits in every thread; NaN without rows. */
static __device__ double split_mean(const epoch_end_args &a, int i, double *sums)
{
  int32_t count = tt_cuda_member_rows(a.v, i).count[a.split];
  double sum = tt_block_sum(a.lane[(int64_t)i * TT_LOSS_PARTIALS + threadIdx.x], sums);
  for (int64_t k = 0; a.term && k * a.pass_rows < count; k++)
    sum += a.term[i * (int64_t)a.terms + k];
  return count ? sum / (double)count : (double)NAN;
}

/* Weights that member i would predict with now if there were no best weights. */
static __device__ const float *current_weights(const tt_cuda_state &v, int64_t i)
{
  return (v.average && v.averaged[i] > 0 ? v.average : v.weights) + i * v.param_stride;
}

/* Add the weights at the end of an epoch to their mean; one block per member. */
static __global__ void update_swa(epoch_end_args a)
{
  const tt_cuda_state &v = a.v;
  int64_t i = (int64_t)blockIdx.x, averaged = v.averaged[i], at = i * v.param_stride;
  if (a.end[i] != TT_EPOCH_ENDED || v.epoch[i] < v.member[i].hyper.average_start) return;
  for (int32_t p = (int32_t)threadIdx.x; p < v.params; p += (int32_t)blockDim.x)
    v.average[at + p] = tt_swa_update(v.average[at + p], v.weights[at + p], averaged);
  __syncthreads(); /* all threads have read the old count */
  if (threadIdx.x == 0) v.averaged[i] = averaged + 1;
}

/* End the epoch of the members that have reached it; one block per member. */
static __global__ void end_epochs(epoch_end_args a)
{
  TT_SHARED_MEMORY(double, sums); /* [TT_MAX_WARPS] */
  const tt_cuda_state &v = a.v;
  int i = (int)blockIdx.x, end = a.end[i];
  if (end == TT_EPOCH_RUNNING) return;
  double loss = split_mean(a, i, sums); /* all threads have read `end` */
  if (threadIdx.x) return;
  if (tt_cuda_end_epoch(v, i, end == TT_EPOCH_ENDED, loss)) a.end[i] = TT_EPOCH_BEST;
}

/* Parameters r of a member. */
static __device__ void copy_range(const epoch_end_args &a, param_range r, float *dst,
                                  const float *src)
{
  int64_t offset = r.member * a.v.param_stride;
  for (int32_t p = r.first; p < r.last; p += 4 * (int32_t)blockDim.x)
    tt_store4(dst + offset + p, tt_load4(src + p));
}

static __global__ void copy_best_weights(epoch_end_args a)
{
  param_range r = param_range_of(a);
  if (a.end[r.member] == TT_EPOCH_BEST)
    copy_range(a, r, a.v.best_weights, current_weights(a.v, r.member));
}

/* Copy the weights to evaluate. */
static __global__ void copy_eval_weights(epoch_end_args a)
{
  const tt_cuda_state &v = a.v;
  param_range r = param_range_of(a);
  if (a.skip && a.skip[r.member]) return;
  const float *src = a.best && v.best_epoch[r.member] >= 0
                         ? v.best_weights + r.member * v.param_stride
                         : current_weights(v, r.member);
  copy_range(a, r, a.eval_weights, src);
}

/* Mark the members that do not have the next row set, or are skipped anyway. */
static __global__ void mark_other_views(epoch_end_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members)
    a.other_view[i] = (a.skip && a.skip[i]) || a.v.view_of_member[i] != a.row_set;
}

static __global__ void mean_losses(epoch_end_args a)
{
  TT_SHARED_MEMORY(double, sums);
  int i = (int)blockIdx.x;
  double mean = split_mean(a, i, sums);
  if (threadIdx.x == 0) a.mean[i] = mean;
}

static tt_err launch_per_member(tt_engine *e, void (*kernel)(epoch_end_args),
                                const epoch_end_args &a)
{
  return tt_launch(kernel, (unsigned)e->slice.count, TT_LAYERED_THREADS, TT_BLOCK_SUM_BYTES,
                   e->dev.stream, a);
}

static tt_err launch_over_params(tt_engine *e, void (*kernel)(epoch_end_args),
                                 const epoch_end_args &a)
{
  return tt_launch(kernel, (unsigned)e->slice.count * (unsigned)a.parts, TT_LAYERED_THREADS, 0,
                   e->dev.stream, a);
}

/* Add the losses of members [begin, end) over the rows in the buffers to the partial sums. */
static tt_err add_group_losses(tt_engine *e, epoch_end_args a, int64_t begin, int64_t end)
{
  int64_t group = tt_layered_of(e)->size.split_group;
  tt_layered_pass pass = {};
  pass.rows = a.rows;
  pass.w = a.w;
  pass.w_stride = a.v.param_stride;
  pass.skip = a.skip;
  for (int64_t first = begin; first < end; first += group) {
    pass.first = a.member = (int32_t)first;
    pass.members = (int32_t)(end - first < group ? end - first : group);
    TT_TRY(tt_layered_forward(e, &pass));
    TT_TRY(tt_launch(a.label_variance ? accumulate_losses_with_errors : accumulate_losses,
                     (unsigned)pass.members, TT_LOSS_PARTIALS, 0, e->dev.stream, a));
    if (a.term)
      TT_TRY(tt_launch(end_pass, (unsigned)pass.members, TT_LOSS_PARTIALS, TT_BLOCK_SUM_BYTES,
                       e->dev.stream, a));
  }
  return TT_OK;
}

/* Load rows [a->first, a->first + a->rows) of the split into the buffers. */
static tt_err load_rows(tt_engine *e, epoch_end_args *a)
{
  const tt_layered *own = tt_layered_of(e);
  if (!own->row_stream)
    return tt_launch(gather_split, tt_grid_size(a->rows, tt_gather_tile(a->v.inputs)),
                     TT_LAYERED_THREADS, TT_GATHER_ROWS * sizeof(int32_t), e->dev.stream, *a);
  TT_TRY(tt_row_stream_load_split(e, a->row_set, a->split, a->first, a->rows));
  a->y = own->y;
  a->weight = own->weight;
  return TT_OK;
}

/* The passes of this engine over a split of `count` rows. */
static tt_slice own_passes(const epoch_end_args &a, int32_t count)
{
  int64_t passes = (count + (int64_t)a.pass_rows - 1) / a.pass_rows;
  return tt_part_slice(passes, a.engines, a.engine);
}

/* Losses of those members of [begin, end) that have the row set, over its whole split, or over the
 * passes of this engine. */
static tt_err evaluate_view(tt_engine *e, epoch_end_args a, int64_t begin, int64_t end)
{
  int32_t count = e->host_lists[a.row_set].count[a.split];
  tt_slice passes = own_passes(a, count);
  if (a.other_view) {
    TT_TRY(tt_launch(mark_other_views, tt_grid_size(e->slice.count, TT_LAYERED_THREADS),
                     TT_LAYERED_THREADS, 0, e->dev.stream, a));
    a.skip = a.other_view;
  }
  for (int64_t k = passes.first; k < passes.first + passes.count; k++) {
    a.first = (int32_t)k * a.pass_rows;
    a.rows = count - a.first < a.pass_rows ? count - a.first : a.pass_rows;
    TT_TRY(load_rows(e, &a));
    TT_TRY(add_group_losses(e, a, begin, end));
    if (tt_layered_of(e)->row_stream) TT_TRY(tt_row_stream_release_buffer(e));
  }
  return TT_OK;
}

/* The same for all row sets that are set in `ending_views` (all, if NULL) and have members here. */
static tt_err evaluate_views(tt_engine *e, epoch_end_args a, const int8_t *ending_views)
{
  const tt_cohort *c = e->cohort;
  int64_t last = e->slice.first + e->slice.count, row_sets = tt_cohort_row_sets(c);
  for (int64_t k = 0; k < row_sets; k++) {
    int64_t number = k / (row_sets / c->ensembles);
    const tt_ensemble *ensemble = &c->ensemble[number];
    int64_t begin = ensemble->first, end = ensemble->first + ensemble->members;
    if (begin < e->slice.first) begin = e->slice.first;
    if (end > last) end = last;
    if (begin >= end || (ending_views && !ending_views[k])) continue;
    a.row_set = (int32_t)k;
    a.ensemble = (int32_t)number;
    TT_TRY(evaluate_view(e, a, begin - e->slice.first, end - e->slice.first));
  }
  return TT_OK;
}

/* Losses of all members with the weights a.w, which are copied if they are not the present ones. */
static tt_err evaluate_weights(tt_engine *e, const epoch_end_args &a, const int8_t *ending_views)
{
  TT_TRY(tt_dev_zero(a.lane, e->slice.count * TT_LOSS_PARTIALS, e->dev.stream));
  if (a.w == a.eval_weights) TT_TRY(launch_over_params(e, copy_eval_weights, a));
  return evaluate_views(e, a, ending_views);
}

static tt_err gather_losses(tt_engine *e, const tt_layered_sharing *sharing, tt_err before)
{
  const tt_layered *own = tt_layered_of(e);
  double *here = own->term + sharing->i * own->size.terms;
  tt_err err = before;
  if (!err) err = tt_dev_download_sync(own->host_term, here, sharing->passes, e->dev.stream);
  sharing->with->gather(sharing->with->with, sharing->passes, own->host_term);
  return err ? err : tt_dev_upload_sync(here, own->host_term, sharing->passes, e->dev.stream);
}

/* Each engine has the averages of the weights of its segment; the others may be any. */
static tt_err gather_averages(tt_engine *e, const tt_layered_sharing *sharing, tt_err before)
{
  const tt_epoch_sharing *other = sharing->with;
  float *here = e->view.average + sharing->i * e->view.param_stride;
  tt_err err = before;
  if (e->view.average_kind == TT_AVERAGE_none) return before;
  if (!err) err = tt_layered_give_values(e, other->scratch, here, e->view.params);
  if (!err) err = tt_stream_synchronize(e->dev.stream);
  other->gather_segments(other->with, other->scratch);
  if (!err) err = tt_layered_take_values(e, here, other->scratch, e->view.params);
  return err ? err : tt_stream_synchronize(e->dev.stream);
}

tt_err tt_layered_gather(tt_engine *e, const tt_layered_sharing *sharing, tt_err before)
{
  tt_err err = gather_averages(e, sharing, before);
  return gather_losses(e, sharing, err);
}

/* Before the validation. */
static tt_err begin_epoch_ends(tt_engine *e, const epoch_end_args &a)
{
  TT_TRY(tt_launch(find_epoch_ends, tt_grid_size(e->slice.count, TT_LAYERED_THREADS),
                   TT_LAYERED_THREADS, 0, e->dev.stream, a));
  TT_TRY(launch_over_params(e, find_divergence, a));
  return a.v.average_kind == TT_AVERAGE_swa ? launch_per_member(e, update_swa, a) : TT_OK;
}

tt_err tt_layered_end_epochs(tt_engine *e, const int8_t *ending_views,
                             const tt_layered_sharing *sharing)
{
  epoch_end_args a = make_end_args(e);
  a.split = TT_VALIDATION;
  a.skip = a.end;
  if (sharing) {
    a.engines = sharing->with->engines;
    a.engine = sharing->with->engine;
  }
  if (a.v.average_kind == TT_AVERAGE_none) a.w = a.v.weights;
  tt_err err = begin_epoch_ends(e, a);
  if (sharing) err = gather_averages(e, sharing, err);
  if (!err) err = evaluate_weights(e, a, ending_views);
  if (sharing) err = gather_losses(e, sharing, err);
  TT_TRY(err);
  TT_TRY(launch_per_member(e, end_epochs, a));
  TT_TRY(launch_over_params(e, copy_best_weights, a));
  return tt_layered_begin_epochs(e);
}

tt_err tt_layered_prediction_weights(tt_engine *e, const float **w)
{
  epoch_end_args a = make_end_args(e);
  a.best = 1;
  *w = a.v.average_kind == TT_AVERAGE_none ? a.v.weights : a.w;
  return *w == a.w ? launch_over_params(e, copy_eval_weights, a) : TT_OK;
}

tt_err tt_layered_evaluate(tt_engine *e, tt_split split, double *loss)
{
  epoch_end_args a = make_end_args(e);
  a.split = split;
  a.best = 1;
  if (!e->slice.count) return TT_OK;
  TT_TRY(evaluate_weights(e, a, NULL));
  TT_TRY(launch_per_member(e, mean_losses, a));
  return tt_dev_download_sync(loss, a.mean, e->slice.count, e->dev.stream);
}
