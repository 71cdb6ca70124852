/* cluster_sample.cuh — small kernels in clusters of blocks, right ones and deliberately wrong ones;
 * nvcc compiles them too. One float of shared memory per thread. */
#ifndef TT_DOUBLE_CLUSTER_SAMPLE_CUH
#define TT_DOUBLE_CLUSTER_SAMPLE_CUH
#include "cuda/common/thread_block_cluster.cuh"
#include "tests/double/sample.cuh"

/* The number of ranks; out[] has one value per thread of the grid. */
typedef struct ring_args {
  float *out;
  const float *in;
  int ranks, steps;
} ring_args;

/* In each of `steps` steps, every thread adds the value of the same thread in the next rank. The
 * second barrier keeps a fast rank from overwriting values that a slow one has not read yet. */
template <bool SECOND_BARRIER> __global__ void ring(ring_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)threadIdx.x, at = (int)(blockIdx.x * blockDim.x) + t;
  int next = (tt_cluster_rank() + 1) % a.ranks;
  float mine = a.in[at];
  for (int step = 0; step < a.steps; step++) {
    value[t] = mine;
    tt_cluster_sync();
    mine = 0.75f * mine + 0.25f * *tt_cluster_map_shared(value + t, next);
    if (SECOND_BARRIER) tt_cluster_sync();
  }
  a.out[at] = mine;
  tt_cluster_sync();
}

/* Ranks pass different numbers of block barriers, and find their memory poisoned. */
TT_SAMPLE_KERNEL void independent_ranks(ring_args a)
{
  TT_SHARED_MEMORY(float, value);
  int t = (int)threadIdx.x, at = (int)(blockIdx.x * blockDim.x) + t;
  int right = (t + 1) % (int)blockDim.x;
  int fresh = value[t] != value[t]; /* the double's poison is NaN */
  for (int step = 0; step < tt_cluster_rank(); step++) {
    value[t] = (float)(t + step);
    __syncthreads();
    float seen = value[right];
    __syncthreads();
    fresh += seen == (float)(right + step);
  }
  a.out[at] = (float)(100 * tt_cluster_rank() + fresh);
}

/* Rank 1 reads from rank 0, which does not wait for it. */
TT_SAMPLE_KERNEL void ends_too_early(ring_args a)
{
  TT_SHARED_MEMORY(float, value);
  value[threadIdx.x] = 1.0f;
  tt_cluster_sync();
  if (tt_cluster_rank() == 0) return;
  for (int step = 0; step < a.steps; step++) __syncthreads();
  a.out[threadIdx.x] = *tt_cluster_map_shared(value + threadIdx.x, 0);
}

/* The same for a write to an address that was mapped before. */
TT_SAMPLE_KERNEL void writes_late(ring_args a)
{
  TT_SHARED_MEMORY(float, value);
  float *there = tt_cluster_map_shared(value + threadIdx.x, 0);
  tt_cluster_sync();
  if (tt_cluster_rank() == 0) return;
  for (int step = 0; step < a.steps; step++) __syncthreads();
  *there = 1.0f;
}

/* Ranks at two barriers of the cluster. */
TT_SAMPLE_KERNEL void two_cluster_barriers(ring_args)
{
  if (tt_cluster_rank() == 0)
    tt_cluster_sync();
  else
    tt_cluster_sync();
}

/* Half of rank 0 waits for the cluster, the other half for its block. */
TT_SAMPLE_KERNEL void half_a_rank(ring_args)
{
  if (tt_cluster_rank() == 0 && threadIdx.x < blockDim.x / 2)
    __syncthreads();
  else
    tt_cluster_sync();
}

/* Invalid addresses: in the memory of another rank, and of a rank that does not exist. */
TT_SAMPLE_KERNEL void maps_wrongly(ring_args a)
{
  TT_SHARED_MEMORY(float, value);
  float *there = tt_cluster_map_shared(value, a.steps);
  a.out[threadIdx.x] = there == tt_cluster_map_shared(there, 0) ? 1.0f : 0.0f;
  tt_cluster_sync();
}
#endif
