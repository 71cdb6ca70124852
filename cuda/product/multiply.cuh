/* multiply.cuh — the products of product.cuh by kind, the choice of a tile, and what follows a
 * backward product alone. */
#ifndef TT_MULTIPLY_CUH
#define TT_MULTIPLY_CUH
#include "cuda/product/product.cuh"

#include "core/config/choices.h"

/* The tile with the shortest expected time, in fp32 or tf32. */
int tt_choose_product_tile(int64_t m, int64_t n, int64_t members, int multiprocessors,
                           tt_precision precision);

/* The same for gradients in chunks: the number for tt_multiply_chunks. */
int tt_choose_chunk_tile(const tt_gradients &g, int64_t members, int multiprocessors,
                         tt_precision precision);

/* Multiply for `members` members in one launch, with tile number `tile`. Asynchronous, may be
 * captured. Errors: INTERNAL. */
tt_err tt_multiply(tt_product_kind kind, int tile, const tt_product_args &args, int64_t members,
                   cudaStream_t stream);

/* What follows a backward product, for dL/d(output) that no product computes. Asynchronous, may be
 * captured. Errors: INTERNAL. */
tt_err tt_multiply_finish_backward(tt_product_args args, int64_t members, cudaStream_t stream);
#endif
