/* kernels_avx2.c — kernels.h for x86-64 with AVX2 and FMA: 16 registers of 8 floats. */
#include "src/cpu/kernels/kernels.h" /* a source must not be empty elsewhere */

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDTH 8
#define VECTOR __m256
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define PRODUCT_OUT 6
#define PRODUCT_ROWS 2
#define GRAD_OUT 3
#define GRAD_IN 2
#define GRAD_LINE 4
#define SUMS_OUT 3
#define KERNEL_TABLE tt_kernels_avx2
#define KERNEL_NAME "avx2"
#define ARITHMETIC "cpu fused 16 lanes"
#include "src/cpu/kernels/kernels_body.h"
#endif
