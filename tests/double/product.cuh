/* product.cuh — the three products of a layer on tensor cores as kernels of their own, for
 * test_mma.cpp; nvcc compiles them too. All arrays are in device memory. */
#ifndef TT_DOUBLE_PRODUCT_CUH
#define TT_DOUBLE_PRODUCT_CUH
#include "cuda/block/products_mma.cuh"

typedef struct product_args {
  tt_block_layer layer;
  const float *w;               /* padded parameters */
  float *x, *z, *slope, *h, *g; /* [R][x_ld], [R][z_ld], [R][x_ld], [R][x_ld], as w */
  int x_ld, z_ld, rows;
} product_args;

/* h = (z W) * slope and the gradient from z as dL/dz, then z = x W^T + b. */
template <int N> static __global__ void products(product_args a)
{
  tt_block_matrix x = {a.x, a.x_ld}, z = {a.z, a.z_ld}, h = {a.h, a.x_ld};
  int half = (a.rows + 1) / 2;
  tt_block_matrix x2 = {a.x + half * a.x_ld, a.x_ld}, z2 = {a.z + half * a.z_ld, a.z_ld};
  tt_block_mma_backward<N>(a.layer, a.w, z, h, a.slope, a.rows, 0);
  tt_block_gradient<tt_block_mma_weight_gradient_tile<N>>(a.layer, z, x, half, a.g, 0, 1);
  __syncthreads();
  tt_block_gradient<tt_block_mma_weight_gradient_tile<N>>(a.layer, z2, x2, a.rows - half, a.g, 0,
                                                          0);
  __syncthreads();
  tt_block_mma_forward<N>(a.layer, a.w, x, z, a.rows, 0);
}
#endif
