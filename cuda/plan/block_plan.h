/* block_plan.h — whether and how a member fits into one thread block: shared memory, rows at a
 * time, register tiles, threads. Plain C, no CUDA.
 *
 * A plan depends only on the shape, the batch size, the optimizer, the precision and the shared
 * memory of the device, never on the number of members. It decides the order of all sums, hence
 * the bits; a cluster of blocks follows this order (tt_block_plan_make_rank). */
#ifndef TT_BLOCK_PLAN_H
#define TT_BLOCK_PLAN_H
#include "cuda/plan/path_verdict.h"
TT_BEGIN_C

/* Register tiles: rows and columns of a product that one lane of a warp sums at a time. The 32
 * lanes cover 32 rows and (rows of a lane * columns of a lane) columns. Tiles of tensor cores:
 * the columns that a warp covers with 32 rows. Ascending: a kernel contains the tiles of its own
 * kind up to its largest one, and the first two. */
#define TT_BLOCK_TILES(X) X(1, 1) X(4, 4) X(8, 4) X(8, 8)
#define TT_BLOCK_MMA_TILES(X) X(16) X(32) X(64)
typedef enum tt_block_tile {
#define X(rows, columns) TT_BLOCK_TILE_##rows##x##columns,
  TT_BLOCK_TILES(X)
#undef X
#define X(columns) TT_BLOCK_TILE_mma##columns,
      TT_BLOCK_MMA_TILES(X)
#undef X
          TT_BLOCK_TILE_COUNT
} tt_block_tile;

enum {
  TT_BLOCK_TILE_ROWS = 32,     /* of a warp's tile; R is a multiple */
  TT_BLOCK_CHUNKS = 8,         /* chunks of rows in a piece of a batch */
  TT_BLOCK_MAX_ROWS = 256,     /* R at most */
  TT_BLOCK_MAX_WARPS = 8,      /* most warps of a block */
  TT_BLOCK_MMA_MIN_WIDTH = 8,  /* least inputs and outputs of a layer for tensor cores */
  TT_BLOCK_HEADER_FLOATS = 160 /* floats in front of the arrays, for tt_block_context */
};

/* Parameters of a member up to which auto prefers a block to the layered path. On an H100 on
 * 2026-11-22, 5 members of 16-192-192-1 with 40,513 took 942 us a step in blocks, 160 layered. */
enum { TT_PATH_BLOCK_MAX_PARAMS = 30000 };

/* One layer. Offsets and strides in floats. */
typedef struct tt_block_layer {
  int32_t in, out;
  int32_t source;        /* of W in the parameters [P]; b follows it */
  int32_t weight, bias;  /* in the padded parameters [Q] */
  int32_t stride;        /* between rows of W in [Q] */
  int32_t output, slope; /* in shared memory, [R][ld] each: z, then f(z), then dL/dz; and f'(z) */
  int32_t ld;
  int8_t forward, backward, gradient; /* tt_block_tile */
  int8_t groups; /* groups of rows of a piece, summed separately for the gradient of the layer */
  int16_t share; /* rows of a group: one or more chunks */
} tt_block_layer;

/* Parameters are padded inside a block, so that four neighbors can be read at once and eight rows
 * of W are in different banks: Q floats, the padding is zero.
 *
 * The order of sums over the rows of a batch, which a block and the ranks of a cluster share: a
 * batch has pieces of TT_BLOCK_CHUNKS chunks of `chunk` rows. The gradient of a layer is summed
 * over groups of `share` rows, each from zero, and the groups are added in the order of their
 * rows. The losses are summed over chunks, and over as many parts of a batch as a piece has
 * chunks. */
typedef struct tt_block_plan {
  int64_t bytes;  /* of shared memory */
  int64_t cycles; /* of a step, by the model in block_plan.c */
  int32_t rows;   /* R: rows for which there is memory */
  int32_t chunk;
  int32_t piece;  /* rows of a batch at a time, at most R: a piece, or all rows of a rank */
  int32_t pieces; /* of a full batch */
  int32_t ranks;  /* blocks of the cluster of which this is one, or 0 */
  int32_t copies; /* of the gradient: 1, or for a rank of a cluster the most groups of a layer */
  int32_t threads;
  int32_t largest_tile;    /* tt_block_tile in use */
  int32_t params;          /* Q */
  int32_t slots;           /* of the optimizer */
  int32_t slots_shared;    /* the first ones are in shared memory, the others in device memory */
  int32_t gradient_shared; /* 1: the gradient is in shared memory */
  int32_t stores_slope;    /* 1: f'(z) has its own arrays */
  int32_t weights, gradient, slot; /* offsets of [Q], [Q], [slots_shared][Q] in shared memory */
  int32_t x, x_ld;                 /* [R][x_ld] */
  int32_t y, weight, row;          /* [R][K], [R] weights of rows, [R] numbers of rows */
  int32_t layers;
  tt_block_layer layer[TT_MAX_LAYERS];
  int32_t precision; /* tt_precision of the kernel; fp32 if no layer can use tensor cores */
} tt_block_plan;

/* Floats of device memory per block for arrays that do not fit in shared memory: [scratch]. */
TT_HD int64_t tt_block_scratch_floats(const tt_block_plan *p)
{
  return (int64_t)p->params * (p->slots - p->slots_shared + (p->gradient_shared ? 0 : 1));
}

/* Bytes of shared memory of the smallest plan: weights and the fewest rows. */
int64_t tt_block_min_bytes(const tt_cohort *c, tt_precision precision);

/* Write into out->why that a member needs `bytes` of shared memory. */
void tt_block_too_large(int64_t bytes, const tt_path_context *context, tt_path_verdict *out);

/* Plan for the cohort if a block can have `shared_bytes`. Returns 1; 0 if the cohort does not
 * fit: *out is unchanged, and tt_block_min_bytes gives the bytes needed. Local. */
int tt_block_plan_make(const tt_cohort *c, tt_precision precision, int64_t shared_bytes,
                       tt_block_plan *out);

/* The same for one of `ranks` blocks of a cluster that compute the rows of a batch, with the
 * sums of the block whose plan is `alone`: no optimizer and no slots, a gradient for each group
 * in shared memory, and one block per multiprocessor. Returns 1; 0 if a rank would have a part
 * of a group, more than a piece, or more than `shared_bytes`: *out is unchanged. */
int tt_block_plan_make_rank(const tt_cohort *c, const tt_block_plan *alone, int ranks,
                            int64_t shared_bytes, tt_block_plan *out);

/* Floats of one of TT_BLOCK_CHUNKS slices of Q parameters, whole float4: the sum of the squares
 * of a gradient is that of the slices. */
TT_HD int32_t tt_block_slice_floats(int32_t params)
{
  return 4 * ((params / 4 + TT_BLOCK_CHUNKS - 1) / TT_BLOCK_CHUNKS);
}
TT_END_C
#endif
