/* device_matmul.cuh — products of many matrices of one shape by cuBLASLt, with the same bits for a
 * matrix whatever the number of matrices and its place among them. C++17, for .cu files only.
 *
 * cuBLAS chooses its algorithm, and so the order of a sum, by the sizes of a product, the alignment
 * of its operands and the number of matrices. Here the algorithm is chosen once for a shape, for a
 * number of matrices that the caller fixes, and runs for every number of matrices. Two conditions
 * of the choice leave no other way for that number to enter a sum (cublasLt.h of CUDA 13):
 *   - reduction scheme NONE: "dot-product shall be performed in one sequence". The other schemes
 *     divide a sum among blocks.
 *   - no workspace: parts of a sum in other blocks, and counters of their order, would be there.
 * So one block computes an element from its row and its column, in the order of the algorithm; the
 * number of matrices is the number of such blocks. */
#ifndef TT_DEVICE_MATMUL_CUH
#define TT_DEVICE_MATMUL_CUH
#include "cuda/common/device.cuh"

/* c [m x n] = op(a) [m x k] op(b) [k x n] for matrices in column-major order. Whole
 * numbers only: shapes are compared byte by byte. */
typedef struct tt_matmul_shape {
  int64_t m, n, k;
  int64_t transposed_a, transposed_b; /* 1: op is the transpose */
  int64_t ld_a, ld_b, ld_c;           /* between columns, as stored */
  int64_t step_a, step_b, step_c;     /* between matrices */
  int64_t align_a, align_b, align_c;  /* bytes; every matrix begins at a multiple */
  int64_t tf32;                       /* 1: cuBLAS rounds the factors to TF32 */
  int64_t typical;                    /* number of matrices for which the algorithm is chosen */
} tt_matmul_shape;

/* The products of one device: a cuBLASLt handle, and the algorithm of each shape so far. */
typedef struct tt_blas tt_blas;

/* Create d->blas. Errors: MEM, INTERNAL. */
tt_err tt_dev_open_blas(tt_dev *d);

/* Alignment in bytes, at most 16, of all matrices from `place` on that are `step` floats apart. */
int64_t tt_matmul_alignment(const float *place, int64_t step);

/* Multiply `count` matrices on d's stream. Asynchronous, may be captured. Errors: MEM, INTERNAL
 * (cuBLAS has no algorithm for the shape). */
tt_err tt_dev_multiply(tt_dev *d, const tt_matmul_shape *shape, const float *a, const float *b,
                       float *c, int64_t count);
#endif
