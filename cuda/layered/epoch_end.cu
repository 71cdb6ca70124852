/* epoch_end.cu — ends of epochs and evaluation; see layered_internal.cuh.
 *
 * Members of one view have the same validation rows: these are gathered once for all of them, a
 * pass at a time, and multiplied with one group of members after the other. With kfold the views of
 * an ensemble alternate: each goes over all of its members and skips those of the others. */
#include "cuda/layered/rows.cuh"
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"

#include <math.h>

typedef struct end_args {
  tt_view v;
  tt_split split;
  int32_t view, ensemble, member; /* of a pass, and its first member */
  int32_t first, rows;        /* rows of the split in the buffers */
  int32_t room;               /* rows that these have room for */
  int32_t best;               /* pick: the best weights, where there are any */
  float *x, *y, *weight;
  const float *output;        /* [members of the pass][room][O] */
  const int8_t *skip;         /* [M] or NULL */
  int8_t *end, *apart;
  double *lane;               /* [M][TT_LOSS_LANES] */
  double *mean;               /* [M] */
  float *picked;              /* [M][picked_step] */
  int64_t picked_step;
} end_args;

static end_args args_of(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  end_args a = {};
  a.v = e->view;
  a.x = own->x;
  a.y = own->y;
  a.weight = own->weight;
  a.output = own->h[e->cohort->model.layers - 1];
  a.end = own->end;
  a.apart = own->apart;
  a.lane = own->lane;
  a.mean = own->mean;
  a.room = (int32_t)own->split_rows;
  a.picked = own->picked;
  a.picked_step = tt_picked_step(&e->cohort->model);
  return a;
}

/* Who is at the end of an epoch, and with what weights; a block has one member. */
static __global__ void find_ends(end_args a)
{
  TT_SHARED(int, sums);
  const tt_view &v = a.v;
  int i = (int)blockIdx.x, bad = 0;
  int at_end = v.status[i] == TT_STATUS_training &&
               (int64_t)v.batch[i] * v.batch_size >= v.epoch_rows[i];
  const float *w = v.weights + (int64_t)i * v.params;
  for (int32_t p = (int32_t)threadIdx.x; at_end && p < v.params; p += (int32_t)blockDim.x)
    bad += !isfinite(w[p]);
  bad = tt_block_sum(bad, sums);
  int end = !at_end ? TT_END_NOT : bad ? TT_END_UNSOUND : TT_END_SOUND;
  if (threadIdx.x == 0) a.end[i] = (int8_t)end;
}

/* A pass of rows of a split, once for all members of the view. */
static __global__ void gather_split(end_args a)
{
  TT_SHARED(int32_t, row); /* [TT_GATHER_ROWS] */
  int32_t begin = (int32_t)blockIdx.x * TT_GATHER_ROWS, t = (int32_t)threadIdx.x;
  int32_t tile = a.rows - begin < TT_GATHER_ROWS ? a.rows - begin : TT_GATHER_ROWS;
  if (t < tile) row[t] = a.v.lists[a.view].row[a.split][a.first + begin + t];
  __syncthreads();
  tt_gather_to to = {a.x, a.y, a.weight, begin, tile, a.ensemble};
  tt_gather_rows(a.v, row, to);
}

/* Add the losses of a pass: row n of the split to lane n % TT_LOSS_LANES, whatever the passes. A
 * block has one member, a thread one lane. */
static __global__ void add_losses(end_args a)
{
  const tt_view &v = a.v;
  int32_t m = (int32_t)blockIdx.x, i = a.member + m, lane = (int32_t)threadIdx.x;
  if (a.skip && a.skip[i]) return;
  int32_t r = (lane - a.first % TT_LOSS_LANES + TT_LOSS_LANES) % TT_LOSS_LANES;
  double sum = a.lane[(int64_t)i * TT_LOSS_LANES + lane];
  for (; r < a.rows; r += TT_LOSS_LANES) {
    const float *o = a.output + ((int64_t)m * a.room + r) * v.outputs;
    float value = tt_row_loss(v, o, a.y + (int64_t)r * v.targets, 0.0f, NULL);
    sum += v.weighted ? (double)a.weight[r] * (double)value : (double)value;
  }
  a.lane[(int64_t)i * TT_LOSS_LANES + lane] = sum;
}

/* Mean over the rows of the split, the same bits in every thread; NaN without rows. */
static __device__ double mean_of(const end_args &a, int i, double *sums)
{
  int32_t count = tt_view_lists(a.v, i).count[a.split];
  double sum = tt_block_sum(a.lane[(int64_t)i * TT_LOSS_LANES + threadIdx.x], sums);
  return count ? sum / (double)count : (double)NAN;
}

/* What member i would predict with now, were it not for best weights. */
static __device__ const float *present(const tt_view &v, int64_t i)
{
  return (v.average && v.averaged[i] > 0 ? v.average : v.weights) + i * v.params;
}

static __device__ void copy_params(const tt_view &v, float *to, const float *from)
{
  for (int32_t p = (int32_t)threadIdx.x; p < v.params; p += (int32_t)blockDim.x) to[p] = from[p];
}

/* The weights at the end of an epoch go into their mean; a block has one member. */
static __global__ void average_ends(end_args a)
{
  const tt_view &v = a.v;
  int64_t i = (int64_t)blockIdx.x, averaged = v.averaged[i], at = i * v.params;
  if (a.end[i] != TT_END_SOUND || v.epoch[i] < v.member[i].hyper.average_start) return;
  for (int32_t p = (int32_t)threadIdx.x; p < v.params; p += (int32_t)blockDim.x)
    v.average[at + p] = tt_average_swa(v.average[at + p], v.weights[at + p], averaged);
  __syncthreads(); /* all have read how many there were */
  if (threadIdx.x == 0) v.averaged[i] = averaged + 1;
}

/* At the ends of equal parts of a member's epochs; a block has one member. */
static __global__ void take_snapshots(end_args a)
{
  const tt_view &v = a.v;
  int64_t i = (int64_t)blockIdx.x;
  int32_t cycle = v.member[i].hyper.epochs / v.snapshot_count, done = v.epoch[i] + 1;
  if (a.end[i] != TT_END_SOUND || cycle < 1 || done % cycle) return;
  int64_t which = done / cycle - 1;
  if (which >= v.snapshot_count) return;
  copy_params(v, v.snapshots + (i * v.snapshot_count + which) * v.params,
              v.weights + i * v.params);
}

static __global__ void end_epochs(end_args a)
{
  TT_SHARED(double, sums); /* [TT_MAX_WARPS], and who is the best */
  const tt_view &v = a.v;
  int i = (int)blockIdx.x, end = a.end[i];
  if (end == TT_END_NOT) return;
  double loss = mean_of(a, i, sums);
  if (threadIdx.x == 0) {
    sums[TT_MAX_WARPS] = (double)tt_view_end_epoch(v, i, end == TT_END_SOUND, loss);
    if (v.joint && v.status[i] == TT_STATUS_training) v.status[i] = TT_STATUS_WAITS;
  }
  __syncthreads();
  if (sums[TT_MAX_WARPS] == 0.0) return;
  copy_params(v, v.best_weights + (int64_t)i * v.params, present(v, i));
}

/* The weights to evaluate, and no losses yet. */
static __global__ void pick_weights(end_args a)
{
  const tt_view &v = a.v;
  int64_t i = (int64_t)blockIdx.x;
  a.lane[i * TT_LOSS_LANES + threadIdx.x] = 0.0;
  if (a.skip && a.skip[i]) return;
  int best = a.best && v.best_epoch[i] >= 0;
  copy_params(v, a.picked + i * a.picked_step,
              best ? v.best_weights + i * v.params : present(v, i));
}

/* Who is not of the view that comes next, or is skipped anyway. */
static __global__ void set_apart(end_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members) a.apart[i] = (a.skip && a.skip[i]) || a.v.list_of[i] != a.view;
}

static __global__ void mean_losses(end_args a)
{
  TT_SHARED(double, sums);
  int i = (int)blockIdx.x;
  double mean = mean_of(a, i, sums);
  if (threadIdx.x == 0) a.mean[i] = mean;
}

static tt_err each_member(tt_engine *e, void (*kernel)(end_args), const end_args &a)
{
  return tt_launch(kernel, (unsigned)e->slice.count, TT_LAYERED_THREADS, TT_SUMS_BYTES,
                   e->dev.stream, a);
}

/* Losses of members [begin, end) over the rows in the buffers, into the lanes. */
static tt_err all_groups(tt_engine *e, end_args a, int64_t begin, int64_t end)
{
  int64_t group = tt_layered_of(e)->group;
  tt_pass pass = {};
  pass.rows = a.room;
  pass.w = a.picked;
  pass.w_step = a.picked_step;
  pass.skip = a.skip;
  for (int64_t first = begin; first < end; first += group) {
    pass.first = a.member = (int32_t)first;
    pass.members = (int32_t)(end - first < group ? end - first : group);
    TT_TRY(tt_layered_forward(e, &pass));
    TT_TRY(tt_launch(add_losses, (unsigned)pass.members, TT_LOSS_LANES, 0, e->dev.stream, a));
  }
  return TT_OK;
}

/* Rows [a->first, a->first + a->rows) of the split into the buffers. */
static tt_err get_rows(tt_engine *e, end_args *a)
{
  const tt_layered *own = tt_layered_of(e);
  if (!own->lots)
    return tt_launch(gather_split, tt_blocks(a->rows, TT_GATHER_ROWS), TT_LAYERED_THREADS,
                     TT_GATHER_ROWS * sizeof(int32_t), e->dev.stream, *a);
  TT_TRY(tt_lots_split(e, a->view, a->split, a->first, a->rows));
  a->y = own->y;
  a->weight = own->weight;
  return TT_OK;
}

/* Losses of members [begin, end), as far as they are of the view, over its whole split. */
static tt_err one_view(tt_engine *e, end_args a, int64_t begin, int64_t end)
{
  int32_t count = e->host_lists[a.view].count[a.split];
  if (a.apart) {
    TT_TRY(tt_launch(set_apart, tt_blocks(e->slice.count, TT_LAYERED_THREADS), TT_LAYERED_THREADS,
                     0, e->dev.stream, a));
    a.skip = a.apart;
  }
  for (a.first = 0; a.first < count; a.first += a.room) {
    a.rows = count - a.first < a.room ? count - a.first : a.room;
    TT_TRY(get_rows(e, &a));
    TT_TRY(all_groups(e, a, begin, end));
    if (tt_layered_of(e)->lots) TT_TRY(tt_lots_used(e));
  }
  return TT_OK;
}

/* The same for all views that are `due` (all, if NULL) and have members here. */
static tt_err all_views(tt_engine *e, end_args a, const int8_t *due)
{
  const tt_cohort *c = e->cohort;
  int64_t last = e->slice.first + e->slice.count, views = tt_cohort_views(c);
  for (int64_t k = 0; k < views; k++) {
    int64_t number = k / (views / c->ensembles);
    const tt_ensemble *ensemble = &c->ensemble[number];
    int64_t begin = ensemble->first, end = ensemble->first + ensemble->members;
    if (begin < e->slice.first) begin = e->slice.first;
    if (end > last) end = last;
    if (begin >= end || (due && !due[k])) continue;
    a.view = (int32_t)k;
    a.ensemble = (int32_t)number;
    TT_TRY(one_view(e, a, begin - e->slice.first, end - e->slice.first));
  }
  return TT_OK;
}

tt_err tt_layered_end(tt_engine *e, const int8_t *due)
{
  end_args a = args_of(e);
  a.split = TT_VALIDATION;
  a.skip = a.end;
  TT_TRY(each_member(e, find_ends, a));
  if (a.v.average_kind == TT_AVERAGE_swa) TT_TRY(each_member(e, average_ends, a));
  if (a.v.snapshot_count) TT_TRY(each_member(e, take_snapshots, a));
  TT_TRY(each_member(e, pick_weights, a));
  TT_TRY(all_views(e, a, due));
  TT_TRY(each_member(e, end_epochs, a));
  return tt_layered_begin(e);
}

tt_err tt_layered_evaluate(tt_engine *e, tt_split split, double *loss)
{
  end_args a = args_of(e);
  a.split = split;
  a.best = 1;
  if (!e->slice.count) return TT_OK;
  TT_TRY(each_member(e, pick_weights, a));
  TT_TRY(all_views(e, a, NULL));
  TT_TRY(each_member(e, mean_losses, a));
  return tt_dev_download_now(loss, a.mean, e->slice.count, e->dev.stream);
}
