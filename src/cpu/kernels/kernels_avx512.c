/* kernels_avx512.c — kernels.h for x86-64 with AVX-512: 32 registers of 16 floats. */
#include "src/cpu/kernels/kernels.h" /* a source must not be empty elsewhere */

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDTH 16
#define VECTOR __m512
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define PRODUCT_OUT 6
#define PRODUCT_ROWS 4
#define GRAD_OUT 4
#define GRAD_IN 4
#define GRAD_LINE 16
#define SUMS_OUT 4
#define KERNEL_TABLE tt_kernels_avx512
#define KERNEL_NAME "avx512"
#define ARITHMETIC "cpu fused 16 lanes"
#include "src/cpu/kernels/kernels_body.h"
#endif
