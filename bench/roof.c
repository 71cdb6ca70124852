/* roof.c — see roof.h. */
#include "bench/roof.h"

#include "core/base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* CHAINS: more than the latency times the units of any processor, and with two constants no more
 * than 16 registers. */
enum { CHAINS = 12, PIECES = 20, MOST_THREADS = 256, MOST_BYTES = CHAINS * 64 };
static const int64_t piece_rounds = 2000000;

typedef double chain(int64_t rounds, void *out); /* returns FLOPs; out [MOST_BYTES] */

#define CHAIN(name, prefix, vector, lanes, set1, multiply_add)                                     \
  prefix static double name(int64_t rounds, void *out)                                             \
  {                                                                                                \
    vector a[CHAINS], b = set1(0.9999f), c = set1(0.5f);                                           \
    for (int i = 0; i < CHAINS; i++) a[i] = set1((float)i);                                        \
    for (int64_t r = 0; r < rounds; r++)                                                           \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] = multiply_add(a[i], b, c);   \
    memcpy(out, a, sizeof a);                                                                      \
    return 2.0 * (lanes)*CHAINS * (double)rounds;                                                  \
  }
#define SAME(x) (x)
CHAIN(one_by_one, , float, 1, SAME, fmaf)
#if defined(__x86_64__)
CHAIN(by_8, __attribute__((target("avx2,fma"))), __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps)
CHAIN(by_16, __attribute__((target("avx512f"))), __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)
#endif

static chain *widest(void)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return by_16;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return by_8;
#endif
  return one_by_one;
}

static void *measure(void *best)
{
  char out[MOST_BYTES];
  double most = 0.0;
  for (int i = 0; i < PIECES; i++) {
    double begin = tt_monotonic_seconds(), flops = widest()(piece_rounds, out);
    double rate = flops / (tt_monotonic_seconds() - begin);
    if (rate > most) most = rate;
  }
  memcpy(best, &most, sizeof most);
  return NULL;
}

double bench_cpu_roof(int threads)
{
  pthread_t id[MOST_THREADS];
  double best[MOST_THREADS] = {0.0}, sum = 0.0;
  int started = 0;
  while (started < threads && started < MOST_THREADS &&
         !pthread_create(&id[started], NULL, measure, &best[started]))
    started++;
  for (int i = 0; i < started; i++) {
    pthread_join(id[i], NULL);
    sum += best[i];
  }
  return started ? sum * threads / started : 0.0;
}
