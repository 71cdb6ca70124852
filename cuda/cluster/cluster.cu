/* cluster.cu — the cluster path: a cluster of thread blocks trains a whole member, so that few
 * members keep a large GPU busy. Otherwise as the block path: one launch does all steps of a call,
 * clusters take members from a queue. Floor 3. */
#include "cuda/cluster/cluster_train.cuh"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* Rank 0 takes the next member and tells the others. The first barrier says that all ranks are
 * there and done with the member before, whose notes they have read; a rank ends behind the second
 * one, after which nobody touches the memory of others. */
template <class KIND>
static __global__ void __launch_bounds__(TT_BLOCK_MAX_WARPS *TT_WARP_SIZE, 1)
    cluster_train(tt_cluster_args a)
{
#if TT_HAS_CLUSTERS
  TT_SHARED_MEMORY(float, shared);
  tt_block_context *note = tt_block_context_of(shared);
  tt_cluster_exchange *exchange = tt_cluster_exchange_of(a, shared);
  tt_block_zero(tt_block_gradient_array(a.block, shared), a.block.plan.params);
  for (;;) {
    tt_cluster_sync();
    if (tt_cluster_rank() == 0 && threadIdx.x == 0) {
      int member = atomicAdd(a.block.next, 1);
      for (int r = 0; r < a.ranks; r++) tt_cluster_map_shared(exchange, r)->member = member;
    }
    tt_cluster_sync();
    int member = exchange->member;
    if (member >= a.block.view.members) return;
    if (threadIdx.x == 0) note->member = member;
    __syncthreads();
    if (a.block.view.status[member] == TT_STATUS_training) tt_cluster_train_member<KIND>(a, shared);
  }
#endif
}

typedef struct tt_cluster_path_data {
  tt_cluster_plan plan;
  unsigned clusters; /* of a launch */
  int32_t *next;     /* device */
} tt_cluster_path_data;

typedef void (*cluster_kernel)(tt_cluster_args);

template <int LARGEST> static cluster_kernel kernel_instance()
{
  return cluster_train<tt_block_kernel_config<LARGEST, TT_PRECISION_fp32>>;
}

static cluster_kernel select_kernel(const tt_cluster_plan *p)
{
  switch (p->part.largest_tile) {
  case TT_BLOCK_TILE_8x8: return kernel_instance<TT_BLOCK_TILE_8x8>();
  case TT_BLOCK_TILE_8x4: return kernel_instance<TT_BLOCK_TILE_8x4>();
  default: return kernel_instance<TT_BLOCK_TILE_4x4>();
  }
}

static const char *unsupported_reason(const tt_cohort *cohort, tt_precision precision,
                                      int64_t shared_bytes)
{
  static char why[160];
  tt_cluster_plan plan;
  if (precision != TT_PRECISION_fp32) return "it trains in fp32 alone";
  if (tt_cluster_plan_make(cohort, shared_bytes, &plan)) return NULL;
  snprintf(why, sizeof why,
           "weights and gradient of a member and its activations for %d rows take %" PRId64
           " bytes; a block has %" PRId64,
           TT_BLOCK_TILE_ROWS, tt_cluster_min_bytes(cohort), shared_bytes);
  return why;
}

static void release(tt_engine *e)
{
  tt_cluster_path_data *own = static_cast<tt_cluster_path_data *>(e->own);
  if (!own) return;
  tt_dev_free(own->next);
  tt_free(own);
  e->own = NULL;
}

/* As many clusters as run at the same time, or one for each member if they are fewer. */
static tt_err count_clusters(const tt_engine *e, const tt_cluster_plan *p, unsigned *out)
{
  int most = 0;
  cluster_kernel kernel = select_kernel(p);
  cudaLaunchAttribute size;
  cudaLaunchConfig_t config = tt_cluster_launch_config(
      p->ranks, (unsigned)p->ranks, (unsigned)p->part.threads, (size_t)p->bytes, &size);
  TT_TRY(TT_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)p->bytes)));
  TT_TRY(TT_CUDA(cudaOccupancyMaxActiveClusters(&most, kernel, &config)));
  if (most < 1)
    return TT_FAIL(UNAVAILABLE,
                   "%s: no room for a cluster of %d blocks, perhaps because this is a part of a "
                   "GPU; use run.gpu_path: auto",
                   tt_cuda_location(), (int)p->ranks);
  *out = (unsigned)(e->slice.count < most ? e->slice.count : most);
  return TT_OK;
}

static tt_err allocate(tt_engine *e, tt_cluster_path_data *own)
{
  if (!tt_cluster_plan_make(e->cohort, e->dev.shared_bytes, &own->plan))
    return TT_FAIL(INTERNAL, "cluster path: %s",
                   unsupported_reason(e->cohort, e->precision, e->dev.shared_bytes));
  TT_TRY(count_clusters(e, &own->plan, &own->clusters));
  return tt_dev_alloc(&own->next, 1, "queue of members");
}

static tt_err prepare(tt_engine *e)
{
  tt_cluster_path_data *own = NULL;
  if (e->own || e->slice.count < 1) return TT_OK; /* nothing here depends on the data */
  TT_TRY(TT_ALLOC(own, 1));
  e->own = own;
  tt_err err = allocate(e, own);
  if (err) release(e);
  return err;
}

static tt_err train(tt_engine *e, int64_t steps)
{
  tt_cluster_path_data *own = static_cast<tt_cluster_path_data *>(e->own);
  if (!own) return TT_OK;
  const tt_cluster_plan *p = &own->plan;
  tt_cluster_args args = {
      {e->view, p->part, steps, own->next, NULL}, p->ranks, p->slice, p->slots, p->slot, p->note};
  TT_TRY(tt_dev_zero(own->next, 1, e->dev.stream));
  TT_TRY(tt_launch_cluster(select_kernel(p), p->ranks, own->clusters * (unsigned)p->ranks,
                           (unsigned)p->part.threads, (size_t)p->bytes, e->dev.stream, args));
  return tt_stream_synchronize(e->dev.stream);
}

static void arithmetic(const tt_engine *e, char *text, size_t room)
{
  tt_cluster_plan p;
  uint32_t groups = 0;
  if (!tt_cluster_plan_make(e->cohort, e->dev.shared_bytes, &p)) return;
  for (int l = 0; l < p.part.layers; l++) groups = groups * 31 + (uint32_t)p.part.layer[l].groups;
  snprintf(text, room, "c%d r%d w%d g%" PRIx32, (int)p.ranks, (int)p.part.rows,
           p.part.threads / TT_WARP_SIZE, groups);
}

extern const tt_cuda_path tt_cuda_cluster = {"cluster", unsupported_reason, NULL, prepare, train,
                                             release,   arithmetic,         NULL, NULL,    NULL};
