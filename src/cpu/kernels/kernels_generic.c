/* kernels_generic.c — kernels.h for any processor: plain vectors of 4 floats (SSE2, NEON, ...). */
typedef float tt_vector4 __attribute__((vector_size(16)));

#define WIDTH 4
#define VECTOR tt_vector4
#define FMA(a, b, c) ((a) * (b) + (c)) /* not fused: compiled without contraction */
#define PRODUCT_OUT 4
#define PRODUCT_ROWS 2
#define GRAD_OUT 2
#define GRAD_IN 1
#define GRAD_LINE 2
#define KERNEL_TABLE tt_kernels_generic
#define KERNEL_NAME "generic"
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define ARITHMETIC "cpu part fused 16 lanes"
#else
#define ARITHMETIC "cpu unfused 16 lanes"
#endif
#include "src/cpu/kernels/kernels_body.h"
