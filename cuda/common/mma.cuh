/* mma.cuh — products of a warp on tensor cores, and how a float becomes TF32. Device code.
 *
 * TF32 has the exponent of a float and 11 bits of its mantissa, the leading one among them; a
 * product of two of them is exact, sums are floats.
 *
 * Fragments of mma.sync.m16n8k8 (PTX ISA), for a lane with row = lane / 4, pair = lane % 4:
 *   A [16][8]  (row, k) (row + 8, k) (row, l) (row + 8, l)
 *   B [8][8]   (k, row) (l, row)
 *   C [16][8]  (row, 2 pair) (row, 2 pair + 1) (row + 8, 2 pair) (row + 8, 2 pair + 1)
 * where k = pair, l = pair + 4. Other (k, l) work too if all lanes use the same ones for A and B.
 */
#ifndef TT_MMA_CUH
#define TT_MMA_CUH
#include "cuda/common/device.cuh"

#include "core/config/choices.h"

enum { TT_MMA_ROWS = 16, TT_MMA_COLUMNS = 8, TT_MMA_INNER = 8 };

/* To the nearest TF32, ties to even: one instruction from capability 9.0 on; cvt.rna, which rounds
 * ties away from zero, takes four. */
__device__ __forceinline__ float tt_round_to_tf32(float x)
{
#if defined(TT_CUDA_DOUBLE)
  return tt_double_tf32(x);
#elif __CUDA_ARCH__ >= 900
  unsigned bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  unsigned bits = __float_as_uint(x);
  if (fabsf(x) < INFINITY) bits += 0xFFFu + (bits >> 13 & 1u);
  return __uint_as_float(bits & 0xFFFFE000u);
#endif
}

/* A fragment of N TF32 numbers. */
template <int N> struct tt_mma_fragment {
  float v[N];
};

/* c += a b, of TF32 numbers. All lanes of the warp take part. */
__device__ __forceinline__ void tt_mma(float (&c)[4], const float (&a)[4], const float (&b)[2])
{
#ifdef TT_CUDA_DOUBLE
  tt_double_mma(c, a, b);
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
                 "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])),
                 "r"(__float_as_uint(b[1])));
#endif
}

/* c += a b for M x N fragments of C. Products that add to the same fragment are as far apart as
 * possible, so that they do not wait for each other. */
template <int M, int N>
__device__ __forceinline__ void tt_mma_multiply_add(float (&c)[M][N][4],
                                                    const tt_mma_fragment<4> (&a)[M],
                                                    const tt_mma_fragment<2> (&b)[N])
{
#pragma unroll
  for (int j = 0; j < N; j++)
#pragma unroll
    for (int i = 0; i < M; i++) tt_mma(c[i][j], a[i].v, b[j].v);
}
#endif
