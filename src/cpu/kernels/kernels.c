/* kernels.c — choice of the kernel table at run time; the order of a sum of losses. */
#include "src/cpu/kernels/kernels.h"

static const tt_kernels *find(tt_simd simd)
{
#if defined(__x86_64__)
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx512 && (simd == TT_SIMD_avx512 || simd == TT_SIMD_auto)) return &tt_kernels_avx512;
  if (avx2 && (simd == TT_SIMD_avx2 || simd == TT_SIMD_auto)) return &tt_kernels_avx2;
#endif
  return simd == TT_SIMD_generic || simd == TT_SIMD_auto ? &tt_kernels_generic : NULL;
}

tt_err tt_kernels_get(tt_simd simd, const tt_kernels **out)
{
  *out = find(simd);
  if (!*out)
    return TT_FAIL(UNAVAILABLE,
                   "TUTTI_SIMD: this processor does not support %s; remove the variable",
                   tt_choice_simd[simd]);
  return TT_OK;
}

double tt_kernels_add_terms(double sum, int64_t count, const double *term)
{
  for (int64_t r = 0; r < count; r++) sum += term[r];
  return sum;
}

double tt_kernels_add_losses(tt_loss kind, int64_t rows, const double *term)
{
  double sum = 0.0;
  if (tt_loss_is_multi_output(kind)) return tt_kernels_add_terms(0.0, rows, term);
  for (int64_t r = 0; r < rows; r += TT_LOSS_CHUNK)
    sum += tt_kernels_add_terms(0.0, rows - r < TT_LOSS_CHUNK ? rows - r : TT_LOSS_CHUNK, term + r);
  return sum;
}
