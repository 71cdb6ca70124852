/* product.cuh — the products of a layer for all members at once, with what follows them:
 *   forward   Y [rows][out] = f(X W^T + b), and the slope f'(z) where it does not follow from Y
 *   backward  dL/dz of the layer before = (D W) * slope, where D [rows][out] is dL/dz
 *   gradient  D^T X [out][in], and the sums of the columns of D for the biases
 *
 * A result is one chain of fused multiply-adds in ascending order of the inner index, in the
 * registers of one thread; forward begins with the bias. So its bits depend neither on the tile of
 * a block, nor on the number of members, nor on the GPU, and the tile is chosen by speed alone. In
 * tf32 the same holds, for GPUs whose tensor cores add alike: the chain has eight products at a
 * time, of factors that are rounded where they are read.
 *
 * The gradient of a layer with few weights has few blocks, whose chains are as long as the batch.
 * Its rows are divided into chunks (cuda/plan/layered_sizes.h): each has a chain of its own, and
 * these sums are added in the order of the rows, ((c0 + c1) + c2) + c3. Either one block computes
 * all chunks of a tile, or each chunk has a block, and the optimizer adds: the same bits. */
#ifndef TT_PRODUCT_CUH
#define TT_PRODUCT_CUH
#include "cuda/common/device.cuh"

#include "core/formulas/elementwise.h"

/* A factor of a product: one row-major matrix per member. */
typedef struct tt_factor {
  const float *at;
  int64_t step;   /* from one member to the next */
  int32_t ld;     /* from one row to the next */
  int32_t vector; /* 1: every row of every member begins at a multiple of 16 bytes */
} tt_factor;

/* 1 if every row of every member begins at a multiple of 16 bytes. */
static inline int tt_has_vectors(const float *place, int64_t step, int64_t ld)
{
  return (reinterpret_cast<uintptr_t>(place) / sizeof(float) | (uint64_t)step | (uint64_t)ld) % 4 ==
         0;
}

/* result [m x n] = sum over k; forward: m rows, n outputs, k inputs; backward: m rows, n inputs, k
 * outputs; gradient: m outputs, n inputs, k rows. Arrays of the shape of the result have its
 * strides. */
typedef struct tt_product_args {
  const int8_t *skip; /* [members] members with a value other than 0 are skipped; or NULL */
  tt_factor left, right;
  int32_t m, n, k;
  int32_t across, parts; /* tiles side by side, and all tiles; set by the launch */
  float *result;
  int64_t step;   /* of the result */
  int32_t vector; /* 1: as in tt_factor, for the result */
  tt_activation activation;
  const float *bias; /* forward: of the first member */
  int64_t bias_step;
  float *slope;          /* forward: f'(z) is stored here; backward: multiplied; or NULL */
  const float *h;        /* backward, without slope: f(z), from which f'(z) follows; or NULL */
  const float *residual; /* backward: added before the slope; or NULL */
  float *before_slope;   /* backward: the result without the slope; or NULL */
  float *bias_gradient;  /* gradient: of the first member, as far apart as the results */
} tt_product_args;

typedef enum tt_product_kind {
  TT_PRODUCT_FORWARD,
  TT_PRODUCT_BACKWARD,
  TT_PRODUCT_GRADIENT,
  TT_PRODUCT_KINDS
} tt_product_kind;

enum { TT_GRADIENT_LAYERS = 3 };

/* The gradients of some layers in chunks, in one launch. */
typedef struct tt_gradients {
  tt_product_args layer[TT_GRADIENT_LAYERS];
  int32_t first[TT_GRADIENT_LAYERS]; /* block of a layer; set by the launch */
  int32_t layers;
  int32_t chunk;     /* rows of a chunk: a multiple of 32, or all rows */
  int32_t copies;    /* 1: a block computes all chunks; else the number of chunks */
  int64_t copy_step; /* from the gradient of one chunk to that of the next */
} tt_gradients;

/* Tiles of a block: X(TM, TN, DOWN, WARPS_DOWN, WARPS_ACROSS, STAGES, alone, full). A thread has
 * TM x TN results, a warp DOWN threads below each other; STAGES panels are in shared memory. The
 * last two numbers are for the choice: the share of a multiprocessor's multiply-adds that one block
 * reaches, and that many blocks reach, in per cent; they are estimates from the instructions and
 * the reads of shared memory per multiply-add, mended where an H100 took another tile as long
 * (bench/kit/tiles.cu and convs.cu). Those of eight warps of 64 x 64 and those of 16 rows on tensor
 * cores are not measured yet. */
#define TT_PRODUCT_TILES(X)                                                                        \
  X(8, 8, 4, 4, 2, 2, 65, 88) /* 128 x 128 */                                                      \
  X(8, 8, 4, 4, 1, 2, 45, 86) /* 128 x 64 */                                                       \
  X(4, 4, 8, 4, 1, 3, 30, 60) /* 128 x 16 */                                                       \
  X(4, 4, 4, 1, 4, 3, 30, 60) /* 16 x 128 */                                                       \
  TT_CHUNK_TILES(X)
/* Those of gradients in chunks, which need registers for two sums. */
#define TT_CHUNK_TILES(X)                                                                          \
  X(8, 4, 4, 2, 2, 2, 40, 85) /* 64 x 64 */                                                        \
  X(4, 4, 8, 2, 4, 2, 75, 75) /* 64 x 64 of eight warps */                                         \
  X(4, 4, 4, 2, 1, 3, 18, 65) /* 32 x 32 */                                                        \
  X(2, 2, 8, 1, 2, 4, 6, 33)  /* 16 x 16 */
/* The same on tensor cores: X(M, N, WARPS_DOWN, WARPS_ACROSS, STAGES, alone, full). A warp has
 * M x N fragments of 16 x 8 results. The first one is too large for the two sums of chunks. */
#define TT_TENSOR_TILES(X)                                                                         \
  X(4, 4, 2, 4, 2, 65, 85) /* 128 x 128 */                                                         \
  X(1, 4, 1, 4, 3, 18, 35) /* 16 x 128 */                                                          \
  TT_TENSOR_CHUNK_TILES(X)
#define TT_TENSOR_CHUNK_TILES(X)                                                                   \
  X(2, 4, 2, 2, 3, 38, 54) /* 64 x 64 */                                                           \
  X(2, 2, 2, 4, 3, 50, 50) /* 64 x 64 of eight warps */                                            \
  X(1, 4, 1, 2, 3, 9, 32)  /* 16 x 64 */                                                           \
  X(2, 2, 1, 2, 3, 10, 32) /* 32 x 32 */
enum {
#define X(...) +1
  TT_PRODUCT_TILE_COUNT = TT_PRODUCT_TILES(X),
  TT_CHUNK_TILE_COUNT = TT_CHUNK_TILES(X),
  TT_TENSOR_TILE_COUNT = TT_TENSOR_TILES(X),
  TT_TENSOR_CHUNK_TILE_COUNT = TT_TENSOR_CHUNK_TILES(X),
#undef X
  TT_ALL_TILE_COUNT = TT_PRODUCT_TILE_COUNT + TT_TENSOR_TILE_COUNT
};

/* Multiply for `members` members in one launch, with tile number `tile`: of TT_PRODUCT_TILES, after
 * them of TT_TENSOR_TILES. Asynchronous, may be captured. Errors: INTERNAL. */
tt_err tt_multiply_forward(int tile, const tt_product_args &args, int64_t members,
                           cudaStream_t stream);
tt_err tt_multiply_backward(int tile, const tt_product_args &args, int64_t members,
                            cudaStream_t stream);
tt_err tt_multiply_gradient(int tile, const tt_product_args &args, int64_t members,
                            cudaStream_t stream);

/* The gradients, with tile number `tile` of TT_CHUNK_TILES, after them of TT_TENSOR_CHUNK_TILES.
 * Asynchronous, may be captured. Errors:
 * INTERNAL. */
tt_err tt_multiply_chunks(int tile, tt_gradients g, int64_t members, cudaStream_t stream);
#endif
