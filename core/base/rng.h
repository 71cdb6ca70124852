/* rng.h — counter-based random numbers, bit-identical on host and device.
 *
 * Every number is a pure function of (seed, stream, purpose, step, index): there is no state to
 * save, and nothing depends on ranks, threads, time or the order of calls.
 * Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011), from Random123. */
#ifndef TT_RNG_H
#define TT_RNG_H
#include "core/base/host_device.h"

/* Random123 without the headers of x86 vector instructions: Philox does not use them, they take
 * longer to compile than most sources, and nvcc of CUDA 12.4 cannot read those of gcc 13. */
#define R123_USE_SSE 0
#define R123_USE_X86INTRIN_H 0
#include <Random123/philox.h>
#include <stdint.h>

/* What a number is for; different purposes have different keys. Append only: results depend on
 * the values. */
typedef enum tt_random_purpose {
  TT_PURPOSE_INIT = 1,     /* initial weights: step = layer, index = parameter */
  TT_PURPOSE_SHUFFLE = 2,  /* order of rows: step = epoch */
  TT_PURPOSE_RESAMPLE = 3, /* bootstrap or subsample of a member: index = slot */
  TT_PURPOSE_SPLIT = 4,    /* train / validation / test */
  TT_PURPOSE_DROPOUT = 5, /* masks: step = optimizer step (its low 32 bits), index = unit and row */
  TT_PURPOSE_LABEL_NOISE = 6, /* on labels: step = target column, index = row of the data set */
  TT_PURPOSE_SWEEP = 7,       /* hyper-parameters of a member: step = hash of its name */
  TT_PURPOSE_FOLDS = 9,       /* fold of a row */
  TT_PURPOSE_QUERIES =
      10, /* of a campaign: stream = round, step and index = low and high bits of the candidate */
  TT_PURPOSE_WARM_START = 11, /* noise on the initial weights of a round: as TT_PURPOSE_INIT */
  TT_PURPOSE_POOL_SEED = 12,  /* distinct seeds of the calls of pool.command */
  TT_PURPOSE_EXPLAIN = 13, /* tutti explain: stream 0 chooses rows, stream d + 1 permutes input d;
                           * step = number of the repeat */
  TT_PURPOSE_SEARCH = 14   /* configurations of trials: stream = trial, step = hash of the option */
} tt_random_purpose;

typedef struct tt_random4 {
  uint32_t v[4];
} tt_random4;

/* Four independent uniform 32-bit words. */
TT_HD tt_random4 tt_random(uint64_t seed, uint64_t stream, tt_random_purpose purpose, uint32_t step,
                           uint32_t index)
{
  uint64_t key = seed + (uint64_t)purpose * 0x9E3779B97F4A7C15ull; /* golden ratio * 2^64 */
  philox4x32_ctr_t c = {{index, step, (uint32_t)stream, (uint32_t)(stream >> 32)}};
  philox4x32_key_t k = {{(uint32_t)key, (uint32_t)(key >> 32)}};
  philox4x32_ctr_t r = philox4x32(c, k);
  tt_random4 out = {{r.v[0], r.v[1], r.v[2], r.v[3]}};
  return out;
}

/* Uniform in [0, 1), 24 bits: every value is exact in float. */
TT_HD float tt_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

/* Uniform in [0, n), n >= 1, from two words (bias below n / 2^64). */
TT_HD uint32_t tt_uniform_below(uint32_t hi, uint32_t lo, uint32_t n)
{
  uint64_t low = ((uint64_t)lo * n) >> 32;
  return (uint32_t)(((uint64_t)hi * n + low) >> 32);
}

/* A keyed bijection of [0, n): the i-th element of a random order, without storing the order.
 * Balanced Feistel network on the next power of two with cycle walking (Black & Rogaway, CT-RSA
 * 2002); as a shuffle for GPUs: Mitchell et al., "Bandwidth-optimal random shuffling for GPUs",
 * ACM TOPC 2022. The round function is a 32-bit finaliser; tests/unit/base/test_rng.c measures its
 * uniformity. Eight rounds on fewer than 6 bits are clearly not uniform (with 3 bits some orders of
 * five elements are three times as frequent as others), so at least 6 bits are used: for n = 1 one
 * call makes up to 64 passes. */
enum { TT_SHUFFLE_ROUNDS = 8, TT_SHUFFLE_BITS = 6 };
typedef struct tt_shuffle {
  uint32_t n, left_bits, right_bits;
  uint32_t key[TT_SHUFFLE_ROUNDS];
} tt_shuffle;

TT_HD tt_shuffle tt_shuffle_make(uint32_t n, uint64_t seed, uint64_t stream,
                                 tt_random_purpose purpose, uint32_t step)
{
  tt_shuffle s;
  uint32_t bits = TT_SHUFFLE_BITS;
  while (bits < 32 && ((uint64_t)1 << bits) < n) bits++;
  s.n = n;
  s.left_bits = bits / 2;
  s.right_bits = bits - bits / 2;
  for (uint32_t i = 0; i < TT_SHUFFLE_ROUNDS; i += 4) {
    /* index counts down from 2^32 - 1: slots of TT_PURPOSE_RESAMPLE count up from 0 */
    tt_random4 r = tt_random(seed, stream, purpose, step, 0xFFFFFFFFu - i);
    for (uint32_t j = 0; j < 4; j++) s.key[i + j] = r.v[j];
  }
  return s;
}

TT_HD uint32_t tt_mix32(uint32_t x) /* finaliser of MurmurHash3, Appleby 2011 */
{
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}

/* What a round of the Feistel network xors into one half of a number: a function of the other. */
TT_HD uint32_t tt_shuffle_round(uint32_t half, uint32_t key, uint32_t mask)
{
  return (tt_mix32(half ^ key) >> 8) & mask;
}

/* One pass of the Feistel network over the power of two; may return a value >= n. */
TT_HD uint32_t tt_shuffle_pass(const tt_shuffle *s, uint32_t i)
{
  uint32_t left_mask = (1u << s->left_bits) - 1u, right_mask = (1u << s->right_bits) - 1u;
  uint32_t left = i >> s->right_bits, right = i & right_mask;
  for (int r = 0; r < TT_SHUFFLE_ROUNDS; r += 2) {
    left ^= tt_shuffle_round(right, s->key[r], left_mask);
    right ^= tt_shuffle_round(left, s->key[r + 1], right_mask);
  }
  return (left << s->right_bits) | right;
}

/* Element i of the random order, i in [0, n). */
TT_HD uint32_t tt_shuffle_at(const tt_shuffle *s, uint32_t i)
{
  do i = tt_shuffle_pass(s, i);
  while (i >= s->n);
  return i;
}
#endif
