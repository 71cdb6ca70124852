/* test_rng.c — the random numbers: known answers of the generator; the shuffle is a bijection for
 * every length and its orders are uniform; every key gives its own order.
 *
 * Chi-square statistics with k degrees of freedom must be below k + 4 sqrt(2 k) + 10. A correct
 * generator exceeds this bound with probability 5e-5 at most (k = 1: 4.5e-5, large k: 3e-5). All
 * draws are deterministic: the bound is met or not, for ever. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

static void below_chance(const char *what, double chi2, double freedom)
{
  double bound = freedom + 4.0 * sqrt(2.0 * freedom) + 10.0;
  fprintf(stderr, "  %-34s chi-square %.1f, %.0f degrees, bound %.1f\n", what, chi2, freedom,
          bound);
  TT_CHECK(chi2, <=, bound);
}

static double chi_square(const int64_t *count, int64_t cells, double expected)
{
  double sum = 0.0;
  for (int64_t i = 0; i < cells; i++) {
    double d = (double)count[i] - expected;
    sum += d * d / expected;
  }
  return sum;
}

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
TT_TEST (philox_gives_the_known_answers) {
  static const uint32_t kat[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
       0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1},
  };
  for (int i = 0; i < 3; i++) {
    const uint32_t *v = kat[i];
    philox4x32_ctr_t c = {{v[0], v[1], v[2], v[3]}};
    philox4x32_key_t k = {{v[4], v[5]}};
    philox4x32_ctr_t r = philox4x32(c, k);
    for (int j = 0; j < 4; j++) TT_CHECK(r.v[j], ==, v[6 + j]);
  }
}

/* The same words through tt_random: which argument enters which word is part of reproducibility. */
TT_TEST (every_argument_enters_the_counter_or_the_key) {
  uint64_t seed = 0x13198a2e03707344u, stream = 0xa4093822299f31d0u;
  uint64_t key = seed + TT_PURPOSE_SPLIT * 0x9E3779B97F4A7C15ull;
  philox4x32_ctr_t c = {{7, 6, (uint32_t)stream, (uint32_t)(stream >> 32)}};
  philox4x32_key_t k = {{(uint32_t)key, (uint32_t)(key >> 32)}};
  philox4x32_ctr_t want = philox4x32(c, k);
  tt_random4 got = tt_random(seed, stream, TT_PURPOSE_SPLIT, 6, 7);
  for (int j = 0; j < 4; j++) TT_CHECK(got.v[j], ==, want.v[j]);
}

static void bijective(uint32_t n, uint64_t seed)
{
  char *seen = NULL;
  TT_CHECK_OK(TT_ALLOC(seen, n));
  tt_shuffle s = tt_shuffle_make(n, seed, 1, TT_PURPOSE_SHUFFLE, 2);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t place = tt_shuffle_at(&s, i);
    TT_CHECK(place, <, n);
    TT_CHECK(seen[place], ==, 0);
    seen[place] = 1;
  }
  tt_free(seen);
}

TT_TEST (a_shuffle_is_a_bijection) {
  for (uint32_t n = 1; n <= 2050; n++) bijective(n, n);
  const uint32_t large[] = {4095, 4096, 4097, 65535, 65536, 65537, 1000003};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) bijective(large[i], 3);
}

/* The largest length: every result is below it, and distinct slots give distinct results. */
TT_TEST (a_shuffle_of_all_32_bits_works) {
  tt_shuffle s = tt_shuffle_make(UINT32_MAX, 1, 2, TT_PURPOSE_SHUFFLE, 0);
  uint32_t last = tt_shuffle_at(&s, 0);
  for (uint32_t i = 1; i < 1000; i++) {
    uint32_t now = tt_shuffle_at(&s, i);
    TT_CHECK(now, <, UINT32_MAX);
    TT_CHECK(now, !=, last);
    last = now;
  }
}

/* Place x value over many epochs: each value is equally likely at each place. Rows and columns of
 * the table are fixed by the bijection, hence (n - 1)^2 degrees of freedom. */
static void uniform_places(uint32_t n, uint32_t epochs)
{
  int64_t *count = NULL;
  char what[64];
  TT_CHECK_OK(TT_ALLOC(count, (int64_t)n * n));
  for (uint32_t e = 0; e < epochs; e++) {
    tt_shuffle s = tt_shuffle_make(n, 11, 22, TT_PURPOSE_SHUFFLE, e);
    for (uint32_t i = 0; i < n; i++) count[i * n + tt_shuffle_at(&s, i)]++;
  }
  snprintf(what, sizeof what, "place x value, n = %u", n);
  /* a count has the variance (1 - 1/n) expected, hence the factor */
  double chi2 = chi_square(count, (int64_t)n * n, (double)epochs / n) * (n - 1.0) / n;
  below_chance(what, chi2, (n - 1.0) * (n - 1.0));
  tt_free(count);
}

TT_TEST (every_value_is_equally_likely_at_every_place) {
  for (uint32_t n = 2; n <= 17; n++) uniform_places(n, 10000);
  uniform_places(100, 10000);
  uniform_places(1000, 1000);
}

/* Number of a permutation in [0, n!). */
static int64_t rank_of(const uint32_t *p, uint32_t n)
{
  int64_t rank = 0;
  for (uint32_t i = 0; i < n; i++) {
    int64_t smaller = 0;
    for (uint32_t j = i + 1; j < n; j++) smaller += p[j] < p[i];
    rank = rank * (n - i) + smaller;
  }
  return rank;
}

static void uniform_orders(uint32_t n, int64_t orders, uint32_t keys)
{
  int64_t *count = NULL;
  char what[64];
  TT_CHECK_OK(TT_ALLOC(count, orders));
  for (uint32_t k = 0; k < keys; k++) {
    uint32_t p[8];
    tt_shuffle s = tt_shuffle_make(n, 5, k, TT_PURPOSE_SHUFFLE, 0);
    for (uint32_t i = 0; i < n; i++) p[i] = tt_shuffle_at(&s, i);
    count[rank_of(p, n)]++;
  }
  snprintf(what, sizeof what, "all orders of %u", n);
  below_chance(what, chi_square(count, orders, (double)keys / (double)orders),
               (double)orders - 1.0);
  tt_free(count);
}

TT_TEST (every_order_of_a_few_is_equally_likely) {
  uniform_orders(2, 2, 60000);
  uniform_orders(3, 6, 60000);
  uniform_orders(4, 24, 60000);
  uniform_orders(5, 120, 60000);
  uniform_orders(6, 720, 60000);
  uniform_orders(7, 5040, 100000);
}

/* Values of neighboring places: each ordered pair of different values occurs equally often. */
static void uniform_pairs(uint32_t n, uint32_t epochs, uint32_t apart)
{
  int64_t *count = NULL;
  char what[64];
  TT_CHECK_OK(TT_ALLOC(count, (int64_t)n * n));
  for (uint32_t e = 0; e < epochs; e++) {
    tt_shuffle s = tt_shuffle_make(n, 3, 4, TT_PURPOSE_SHUFFLE, e);
    uint32_t a = tt_shuffle_at(&s, e % (n - apart)), b = tt_shuffle_at(&s, e % (n - apart) + apart);
    count[(int64_t)a * n + b]++;
  }
  double expected = (double)epochs / ((double)n * (n - 1.0)), sum = 0.0;
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < n; b++) {
      double d = (double)count[a * n + b] - expected;
      if (a != b) sum += d * d / expected;
    }
  snprintf(what, sizeof what, "pairs %u apart, n = %u", apart, n);
  below_chance(what, sum, n * (n - 1.0) - 1.0);
  tt_free(count);
}

TT_TEST (neighbors_are_not_correlated) {
  const uint32_t lengths[] = {4, 5, 8, 10, 16, 33, 100};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    uniform_pairs(lengths[i], 100000, 1);
    uniform_pairs(lengths[i], 100000, 2);
  }
}

/* Consecutive epochs: the place of a value in the next epoch is uniform. */
TT_TEST (epochs_are_not_correlated) {
  enum { N = 10, EPOCHS = 40000 };
  int64_t count[N * N] = {0};
  for (uint32_t e = 0; e < EPOCHS; e++) {
    tt_shuffle now = tt_shuffle_make(N, 3, 4, TT_PURPOSE_SHUFFLE, e);
    tt_shuffle next = tt_shuffle_make(N, 3, 4, TT_PURPOSE_SHUFFLE, e + 1);
    count[tt_shuffle_at(&now, e % N) * N + tt_shuffle_at(&next, e % N)]++;
  }
  below_chance("epoch x next epoch, n = 10", chi_square(count, N * N, (double)EPOCHS / (N * N)),
               N * N - 1.0);
}

static void differ(const char *what, tt_shuffle a, tt_shuffle b)
{
  int64_t same = 0;
  for (uint32_t i = 0; i < a.n; i++) same += tt_shuffle_at(&a, i) == tt_shuffle_at(&b, i);
  fprintf(stderr, "  other %-9s %d of %u places equal\n", what, (int)same, a.n);
  TT_CHECK(same, <=, 8); /* Poisson with mean 1 */
}

TT_TEST (every_key_gives_its_own_order) {
  enum { N = 1000 };
  tt_shuffle one = tt_shuffle_make(N, 1, 1, TT_PURPOSE_SHUFFLE, 1);
  differ("seed", one, tt_shuffle_make(N, 2, 1, TT_PURPOSE_SHUFFLE, 1));
  differ("member", one, tt_shuffle_make(N, 1, 2, TT_PURPOSE_SHUFFLE, 1));
  differ("ensemble", one, tt_shuffle_make(N, 1, 1 | 1ull << 32, TT_PURPOSE_SHUFFLE, 1));
  differ("epoch", one, tt_shuffle_make(N, 1, 1, TT_PURPOSE_SHUFFLE, 2));
  differ("purpose", one, tt_shuffle_make(N, 1, 1, TT_PURPOSE_SPLIT, 1));
}

TT_TEST (whole_numbers_below_n_are_uniform) {
  const uint32_t bounds[] = {2, 3, 7, 10, 100, 1000};
  for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
    enum { DRAWS = 100000 };
    int64_t count[1000] = {0};
    for (uint32_t i = 0; i < DRAWS; i++) {
      tt_random4 r = tt_random(1, 2, TT_PURPOSE_RESAMPLE, 0, i);
      uint32_t v = tt_uniform_below(r.v[0], r.v[1], bounds[b]);
      TT_CHECK(v, <, bounds[b]);
      count[v]++;
    }
    below_chance("below n", chi_square(count, bounds[b], (double)DRAWS / bounds[b]),
                 bounds[b] - 1.0);
  }
  TT_CHECK(tt_uniform_below(UINT32_MAX, UINT32_MAX, 7), ==, 6u);
  TT_CHECK(tt_uniform_below(0, 0, 7), ==, 0u);
  TT_CHECK(tt_uniform_below(UINT32_MAX, UINT32_MAX, UINT32_MAX), ==, UINT32_MAX - 1);
}

TT_TEST (units_lie_in_0_1_and_are_uniform) {
  int64_t count[64] = {0};
  for (uint32_t i = 0; i < 100000; i++)
    for (int j = 0; j < 4; j++)
      count[(int)(tt_uniform(tt_random(8, 1, TT_PURPOSE_INIT, 0, i).v[j]) * 64.0f)]++;
  below_chance("unit in 64 parts", chi_square(count, 64, 4e5 / 64.0), 63.0);
  TT_CHECK(tt_uniform(0), ==, 0.0f);
  TT_CHECK(tt_uniform(UINT32_MAX), <, 1.0f);
}
