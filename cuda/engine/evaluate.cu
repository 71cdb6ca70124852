/* evaluate.cu — mean loss of every member over a split, one block per member, for paths without
 * sums of their own; and memory for the tiles of evaluation and prediction. */
#include "cuda/common/engine_functions.cuh"

#include "core/base/mem.h"
#include "cuda/common/forward_tile.cuh"

#include <math.h>

static const int64_t max_scratch_blocks = 1024; /* several per multiprocessor */

tt_err tt_tile_plan_make(const tt_dev *dev, const tt_model *model, int64_t work, size_t reserved,
                         tt_tile_plan *out)
{
  *out = {};
  out->floats = tt_tile_floats(model);
  out->blocks = work;
  out->shared_bytes = reserved + (size_t)out->floats * sizeof(float);
  if ((int64_t)out->shared_bytes <= dev->shared_bytes) return TT_OK;
  out->shared_bytes = reserved ? reserved : sizeof(float); /* a kernel needs some shared memory */
  out->blocks = work < max_scratch_blocks ? work : max_scratch_blocks;
  return tt_dev_alloc(&out->scratch, out->blocks * out->floats, "activations of wide layers");
}

void tt_tile_plan_free(tt_tile_plan *plan) { tt_dev_free(plan->scratch); }

typedef struct mean_loss_args {
  tt_cuda_state v;
  int32_t split;
  int64_t floats;
  float *scratch; /* [blocks][floats] or NULL */
  double *loss;   /* [M] */
} mean_loss_args;

/* Loss of one row, times its weight. */
static __device__ double row_loss(const tt_cuda_state &v, int i, int32_t row, const float *out,
                                  int32_t r)
{
  const int32_t *column = v.column + (int64_t)v.member[i].ensemble * v.targets;
  float sum = 0.0f;
  for (int32_t k = 0; k < v.targets; k++) {
    float o1 = v.outputs > v.targets ? out[(v.targets + k) * TT_TILE_ROWS + r] : 0.0f;
    float y = v.y[(int64_t)row * v.columns + column[k]];
    sum += tt_loss_two_outputs(v.loss, out[k * TT_TILE_ROWS + r], o1, y, v.loss_args).value;
  }
  return v.weight ? (double)v.weight[row] * (double)sum : (double)sum;
}

/* Sum over all rows: each of the first TT_TILE_ROWS threads adds its row of each tile, in order. */
static __device__ double member_loss(const mean_loss_args &a, int i, float *tile, double *sums)
{
  const tt_cuda_state &v = a.v;
  const tt_dev_row_lists &list = v.lists[v.member[i].ensemble];
  const int32_t *row = list.row[a.split];
  const float *w = tt_cuda_prediction_weights(v, i);
  int32_t r = (int32_t)threadIdx.x;
  double sum = 0.0;
  for (int32_t first = 0; first < list.count[a.split]; first += TT_TILE_ROWS) {
    int32_t left = list.count[a.split] - first, rows = left < TT_TILE_ROWS ? left : TT_TILE_ROWS;
    tt_tile_load(v.x, v.inputs, row + first, rows, tile);
    const float *out = tt_tile_forward(*v.model, w, tile, a.floats);
    if (r < rows) sum += row_loss(v, i, row[first + r], out, r);
    __syncthreads();
  }
  return tt_block_sum(sum, sums);
}

template <bool SCRATCH> static __global__ void mean_loss(mean_loss_args a)
{
  TT_SHARED_MEMORY(double, sums);
  float *tile =
      SCRATCH ? a.scratch + blockIdx.x * a.floats : reinterpret_cast<float *>(sums + TT_MAX_WARPS);
  for (int i = (int)blockIdx.x; i < a.v.members; i += (int)gridDim.x) {
    double sum = member_loss(a, i, tile, sums);
    int32_t rows = a.v.lists[a.v.member[i].ensemble].count[a.split];
    if (threadIdx.x == 0) a.loss[i] = rows ? sum / (double)rows : (double)NAN;
  }
}

static tt_err evaluate_split(tt_engine *e, tt_split split, const tt_tile_plan *plan, double *loss)
{
  mean_loss_args a = {e->view, (int32_t)split, plan->floats, plan->scratch, NULL};
  TT_TRY(tt_dev_alloc(&a.loss, e->slice.count, "losses of the members"));
  tt_err err = tt_launch(plan->scratch ? mean_loss<true> : mean_loss<false>, (unsigned)plan->blocks,
                         TT_TILE_THREADS, plan->shared_bytes, e->dev.stream, a);
  if (!err) err = tt_dev_download_sync(loss, a.loss, e->slice.count, e->dev.stream);
  tt_dev_free(a.loss);
  return err;
}

tt_err tt_cuda_evaluate(tt_engine *e, tt_split split, double *loss)
{
  tt_tile_plan plan;
  if (!e->slice.count) return TT_OK;
  if (e->path->evaluate) return e->path->evaluate(e, split, loss);
  tt_err err = tt_tile_plan_make(&e->dev, &e->cohort->model, e->slice.count,
                                 TT_MAX_WARPS * sizeof(double), &plan);
  if (!err) err = evaluate_split(e, split, &plan, loss);
  tt_tile_plan_free(&plan);
  return err;
}
