/* cluster.cu — the cluster path: a cluster of thread blocks trains a whole member, so that few
 * members can fill a large GPU. As in the block path, one launch does all steps of a call and
 * clusters take members from a queue. */
#include "cuda/cluster/cluster_train.cuh"

#include "cuda/common/engine_functions.cuh"
#include "cuda/common/fused_path.cuh"

/* Rank 0 takes the next member from the queue and sends its index to the other ranks. After the
 * first barrier, all ranks run and have read the context of the previous member. A rank ends
 * only after the second barrier, after which no rank accesses the memory of another one. */
template <class KIND>
static __global__ void __launch_bounds__(TT_BLOCK_MAX_WARPS *TT_WARP_SIZE, 1)
    cluster_train(tt_cluster_args a)
{
#if TT_HAS_CLUSTERS
  TT_SHARED_MEMORY(float, shared);
  tt_block_context *ctx = tt_block_context_of(shared);
  tt_cluster_exchange *exchange = tt_cluster_exchange_of(a, shared);
  tt_cluster_team<KIND> team = {a, shared};
  tt_block_zero(tt_block_gradient_array(a.block, shared),
                a.block.plan.copies * a.block.plan.params);
  for (;;) {
    tt_cluster_sync();
    if (tt_cluster_rank() == 0 && threadIdx.x == 0) {
      int member = tt_cuda_take_member(a.block.queue);
      for (int r = 0; r < a.ranks; r++) tt_cluster_map_shared(exchange, r)->member = member;
    }
    tt_cluster_sync();
    int member = exchange->member;
    if (member < 0) return;
    if (threadIdx.x == 0) ctx->member = member;
    __syncthreads();
    if (a.block.view.status[member] == TT_STATUS_training) tt_block_train_member(team);
  }
#endif
}

typedef void (*cluster_kernel)(tt_cluster_args);

template <int LARGEST> static cluster_kernel kernel_instance()
{
  return cluster_train<tt_cluster_kernel_config<LARGEST>>;
}

static cluster_kernel select_kernel(const tt_cluster_plan *p)
{
  switch (p->part.largest_tile) {
  case TT_BLOCK_TILE_8x8: return kernel_instance<TT_BLOCK_TILE_8x8>();
  case TT_BLOCK_TILE_8x4: return kernel_instance<TT_BLOCK_TILE_8x4>();
  default: return kernel_instance<TT_BLOCK_TILE_4x4>();
  }
}

/* Number of clusters that run at the same time, or 0. */
static tt_err max_active_clusters(const tt_cluster_plan *p, int *most)
{
  cluster_kernel kernel = select_kernel(p);
  cudaLaunchAttribute size;
  cudaLaunchConfig_t config = tt_cluster_launch_config(
      p->ranks, (unsigned)p->ranks, (unsigned)p->part.threads, (size_t)p->bytes, &size);
  TT_TRY(TT_CUDA(tt_allow_shared_memory(kernel, (size_t)p->bytes)));
  return TT_CUDA(cudaOccupancyMaxActiveClusters(most, kernel, &config));
}

tt_err tt_cuda_cluster_places(const tt_engine *e, int ranks, int *out)
{
  tt_cluster_plan p;
  *out = 0;
  return tt_cluster_plan_make(e->cohort, e->dev.shared_bytes, ranks, &p)
             ? max_active_clusters(&p, out)
             : TT_OK;
}

struct cluster_path {
  typedef tt_cluster_plan plan;

  static int make_plan(const tt_engine *e, tt_cluster_plan *out)
  {
    return tt_cluster_plan_make(e->cohort, e->dev.shared_bytes, e->cluster_ranks, out);
  }

  static int64_t scratch_floats(const tt_cluster_plan *) { return 0; }

  static tt_err count_units(const tt_engine *e, const tt_cluster_plan *p, unsigned *out)
  {
    int most = 0;
    TT_TRY(max_active_clusters(p, &most));
    if (most < 1)
      return TT_FAIL(UNAVAILABLE,
                     "%s: no room for a cluster of %d blocks, perhaps because this is a part of a "
                     "GPU; remove TUTTI_GPU_PATH",
                     tt_cuda_location(), (int)p->ranks);
    *out = tt_fused_units(e->slice.count, most);
    return TT_OK;
  }

  static int64_t members_of_unit(const tt_cluster_plan *) { return 1; }

  static tt_err launch(tt_engine *e, const tt_fused_data<plan> *d, const tt_member_queue &queue,
                       int64_t steps)
  {
    const tt_cluster_plan *p = &d->plan;
    tt_cluster_args args = {
        {e->view, p->part, steps, queue, NULL}, p->ranks, p->slice, p->slots, p->slot, p->exchange};
    return tt_launch_cluster(select_kernel(p), p->ranks, d->units * (unsigned)p->ranks,
                             (unsigned)p->part.threads, (size_t)p->bytes, e->dev.stream, args);
  }
};
typedef tt_fused_path<cluster_path> cluster_host;

extern const tt_cuda_path tt_cuda_cluster = cluster_host::make("cluster", tt_cuda_block_arithmetic);
