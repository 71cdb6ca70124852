/* thread_block_cluster.cuh — thread-block clusters in device code: blocks that run at the same time
 * and can access one another's shared memory.
 *
 * Start the kernel with tt_launch_cluster. A block may access the memory of another block after
 * the first tt_cluster_sync, and must not end before a tt_cluster_sync that follows the last
 * access. Clusters need capability 9.0; for older GPUs the code compiles and a cluster has one
 * block. */
#ifndef TT_THREAD_BLOCK_CLUSTER_CUH
#define TT_THREAD_BLOCK_CLUSTER_CUH
#include "cuda/common/device.cuh"

#if defined(TT_CUDA_DOUBLE)
#define TT_HAS_CLUSTERS 1
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TT_HAS_CLUSTERS 1
#else
#define TT_HAS_CLUSTERS 0
#endif

/* Number of this block in its cluster. */
__device__ __forceinline__ int tt_cluster_rank()
{
#if defined(TT_CUDA_DOUBLE)
  return tt_double_cluster_rank();
#elif TT_HAS_CLUSTERS
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
#else
  return 0;
#endif
}

/* Barrier of all threads of all blocks of the cluster. After it, every thread sees what any
 * thread wrote before it to shared and device memory: arrive releases and wait acquires, which is
 * the default; the PTX of CUDA 11.8 has no modifiers that say so. */
#if defined(TT_CUDA_DOUBLE)
#define tt_cluster_sync() tt_double_cluster_sync()
#else
__device__ __forceinline__ void tt_cluster_sync()
{
#if TT_HAS_CLUSTERS
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
#endif
}
#endif

/* Map `place`, an address in this block's shared memory, to the same place in the shared memory of
 * rank `rank`. */
template <class T> __device__ __forceinline__ T *tt_cluster_map_shared(T *place, int rank)
{
#if defined(TT_CUDA_DOUBLE)
  return static_cast<T *>(tt_double_cluster_map(place, rank));
#elif TT_HAS_CLUSTERS
  T *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
  return there;
#else
  (void)rank;
  return place;
#endif
}
#endif
