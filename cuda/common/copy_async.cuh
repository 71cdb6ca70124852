/* copy_async.cuh — copies from device memory to shared memory that run while the thread computes
 * (cp.async of the PTX ISA). Device code.
 *
 * A thread starts copies, closes a group of them with tt_copy_commit, and later waits until all but
 * its newest groups are complete; a barrier then makes them visible to the block. */
#ifndef TT_COPY_ASYNC_CUH
#define TT_COPY_ASYNC_CUH
#include "cuda/common/device.cuh"

/* Start to copy V floats; V is 1 or 4, and both addresses are multiples of 4 V bytes. If `valid` is
 * false, `src` is not read and `dst` becomes zero. */
template <int V>
__device__ __forceinline__ void tt_copy_async(float *dst, const float *src, bool valid)
{
  static_assert(V == 1 || V == 4, "4 or 16 bytes");
#ifdef TT_CUDA_DOUBLE
  tt_double_copy_async(dst, src, V * sizeof(float), valid);
#else
  unsigned shared = (unsigned)__cvta_generic_to_shared(dst);
  int bytes = valid ? V * (int)sizeof(float) : 0;
  if constexpr (V == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(src), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(src), "r"(bytes)
                 : "memory");
#endif
}

/* Close the group of the copies that the thread has started since the last call. */
__device__ __forceinline__ void tt_copy_commit()
{
#ifdef TT_CUDA_DOUBLE
  tt_double_copy_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Wait until the groups that this thread has closed are copied, except for the last GROUPS of
 * them. */
template <int GROUPS> __device__ __forceinline__ void tt_copy_wait()
{
#ifdef TT_CUDA_DOUBLE
  tt_double_copy_wait(GROUPS);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}
#endif
