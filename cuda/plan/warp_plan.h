/* warp_plan.h — whether and how a member fits into one warp: its part of a block's shared memory,
 * rows at a time, which lane sums which weights. Plain C, no CUDA.
 *
 * Like a block's plan, a warp's plan depends only on the shape, the batch size, the optimizer
 * and the shared memory of the device, and decides the order of all sums, hence the bits. */
#ifndef TT_WARP_PLAN_H
#define TT_WARP_PLAN_H
#include "cuda/plan/path_verdict.h"
TT_BEGIN_C

enum {
  TT_WARP_MAX_LAYERS = 5, /* hidden layers and the output layer */
  TT_WARP_MAX_WIDTH = 64, /* inputs or outputs of a layer */
  TT_WARP_MAX_PARAMS = 1024,
  TT_WARP_LANES = 32,
  TT_WARP_MAX_ROWS = 64, /* R at most: two rows a lane */
  TT_WARP_PADDING = 4,   /* floats between features: an odd number of float4 from one to the next */
  TT_WARP_PREFETCH_ROWS = 256,     /* slots of the epoch whose rows are computed at a time */
  TT_WARP_HEADER_FLOATS = 32,      /* floats in front of the arrays, for the order of the epoch */
  TT_WARPS_PER_BLOCK = 4,          /* maximum of warps per block, one member per warp */
  TT_WARPS_PER_MULTIPROCESSOR = 12 /* warps per multiprocessor that hide each other's latency */
};

/* Multiply-adds of one forward pass over a batch, P B, up to which one warp is faster than a
 * block: a step takes a warp about as many cycles as multiply-adds, and a block about 3,000
 * cycles for its barriers. A multiprocessor holds TT_WARPS_PER_MULTIPROCESSOR such members,
 * which do not wait for each other. */
enum { TT_PATH_WARP_MAX_MACS = 32768 };

/* One layer. Offsets and strides in floats. */
typedef struct tt_warp_layer {
  int32_t in, out;
  int32_t source;        /* of W in the parameters [P]; b follows it */
  int32_t weight, bias;  /* in the padded parameters [Q] */
  int32_t stride;        /* between rows of W in [Q] */
  int32_t input, output; /* [in][ld], [out][ld]: z, then f(z), then dL/dz */
  int32_t slope;         /* [out][ld]: f'(z), if it is stored */
  int32_t by_output; /* 1: a lane sums the gradient for the weights of an output, 0: of an input */
  int32_t across;    /* neighboring lanes, a power of two; the other lanes take other rows */
} tt_warp_layer;

/* Arrays of a batch are feature-major, so that a lane needs only its own rows in the forward and
 * backward pass: only the gradient of the weights combines lanes. Features are an odd number of
 * float4 apart: eight of them are in different banks. */
typedef struct tt_warp_plan {
  int64_t bytes;                   /* shared memory of one warp */
  int32_t warps;                   /* per block */
  int32_t rows;                    /* R: rows of a batch at a time, 32 or 64 */
  int32_t ld;                      /* between features */
  int32_t params;                  /* Q: rows of W padded to float4, the padding is zero */
  int32_t slots;                   /* of the optimizer */
  int32_t stores_slope;            /* 1: f'(z) has its own arrays */
  int32_t weights, gradient, slot; /* offsets of [Q], [Q], [slots][Q] */
  int32_t x, y;                    /* [D][ld], [K][ld] */
  int32_t row;                     /* [TT_WARP_PREFETCH_ROWS] numbers of rows */
  int32_t step; /* [2][32] bias corrections of 32 steps; lr_varies: [3][32], and learning rates */
  int32_t lr_varies; /* tt_cohort_lr_varies */
  int32_t layers;
  tt_warp_layer layer[TT_WARP_MAX_LAYERS];
} tt_warp_plan;

/* Plan for the cohort if a block can have `shared_bytes`, in fp32.
 *   out  unchanged if the cohort does not fit
 *   why  [capacity] the reason if the cohort does not fit
 * Returns 1, or 0 if the cohort does not fit. Local. */
int tt_warp_plan_make(const tt_cohort *c, int64_t shared_bytes, tt_warp_plan *out, char *why,
                      size_t capacity);
TT_END_C
#endif
