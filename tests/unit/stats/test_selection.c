/* test_selection.c — laws of selection: every search and list equals the result of a full sort. */
#include "tests/support/check.h"

#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/stats/k_center.h"
#include "core/stats/selection.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static uint32_t word(uint32_t series, uint32_t i)
{
  return tt_random(7, series, TT_PURPOSE_LABEL_NOISE, 0, i).v[0];
}

/* Scores of every kind: ties, zeros of both signs, tiny, huge, infinite, negative. */
static float odd_score(uint32_t i)
{
  static const float special[] = {0.0f,    -0.0f,    FLT_MIN,  -FLT_MIN,  1e-44f, -1e-44f,
                                  FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, 1.0f,   1.0000001f};
  uint32_t w = word(1, i);
  if (w % 4 == 0) return special[(w >> 8) % (sizeof special / sizeof *special)];
  if (w % 4 == 1) return (float)((w >> 8) % 16) / 8.0f - 1.0f;
  return ldexpf(tt_uniform(w) - 0.5f, (int)(w % 61) - 30);
}

static int ascending(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

TT_TEST (ordered_bits_compare_as_their_numbers) {
  for (uint32_t i = 0; i < 300; i++) {
    float a = odd_score(i);
    TT_CHECK(tt_f32_of_sortable(tt_sortable_f32(a)), ==, a);
    for (uint32_t j = 0; j < 300; j++) {
      float b = odd_score(j);
      TT_CHECK(tt_sortable_f32(a) < tt_sortable_f32(b), ==, a < b);
      TT_CHECK(tt_sortable_f32(a) == tt_sortable_f32(b), ==, a == b);
      TT_CHECK(tt_sortable_f64((double)a) < tt_sortable_f64((double)b), ==, a < b);
    }
  }
}

/* The search sees the scores in two parts, as two ranks would, and adds up the counts. */
static float searched(const float *score, int64_t n, int64_t rank)
{
  static int64_t bin[TT_RADIX_BINS];
  tt_radix_select find = {.rank = rank};
  for (int pass = 0; pass < TT_RADIX_PASSES; pass++) {
    memset(bin, 0, sizeof bin);
    for (int64_t i = 0; i < n; i++) tt_radix_select_count(&find, score[(i + n / 3) % n], bin);
    tt_radix_select_narrow(&find, bin);
  }
  return tt_f32_of_sortable(find.known);
}

TT_TEST (an_order_statistic_is_that_of_a_sort) {
  enum { N = 400 };
  float score[N], sorted[N];
  for (uint32_t i = 0; i < N; i++) score[i] = sorted[i] = odd_score(i);
  qsort(sorted, N, sizeof *sorted, ascending);
  for (int64_t rank = 0; rank < N; rank += 7) TT_CHECK(searched(score, N, rank), ==, sorted[rank]);
  TT_CHECK(searched(score, N, N - 1), ==, sorted[N - 1]);
  TT_CHECK(searched(score, 1, 0), ==, score[0]);
}

/* For every q = k / n exactly k scores are below the quantile; q = 1 is above all. */
TT_TEST (a_quantile_has_its_fraction_below_it) {
  for (int64_t n = 1; n <= 200; n++)
    for (int64_t k = 0; k <= n; k++) TT_CHECK(tt_quantile_rank((double)k / (double)n, n), ==, k);
  TT_CHECK(tt_quantile_rank(0.29, 100), ==, 29);
  TT_CHECK(tt_quantile_rank(0.9, 15), ==, 13);
  TT_CHECK(tt_quantile_rank(0.999, 100000000000), ==, 99900000000);
  TT_CHECK(tt_quantile_rank(0.5, 0), ==, 0);
}

TT_TEST (every_score_is_below_inside_or_above_the_window) {
  tt_trust_window open = {NAN, NAN}, both = {0.5, 2.0}, crossed = {2.0, 0.5};
  for (uint32_t i = 0; i < 300; i++) {
    float s = odd_score(i);
    TT_CHECK((int)tt_trust_window_classify(&open, s), ==, TT_TRUST_CANDIDATE);
    TT_CHECK((int)tt_trust_window_classify(&both, s), ==,
             s < 0.5f   ? TT_TRUST_ACCURATE
             : s < 2.0f ? TT_TRUST_CANDIDATE
                        : TT_TRUST_FAILED);
    TT_CHECK((int)tt_trust_window_classify(&crossed, s), ==,
             s < 2.0f ? TT_TRUST_ACCURATE : TT_TRUST_FAILED);
  }
  TT_CHECK((int)tt_trust_window_classify(&both, 0.5f), ==, TT_TRUST_CANDIDATE);
  TT_CHECK((int)tt_trust_window_classify(&both, 2.0f), ==, TT_TRUST_FAILED);
}

/* lists of the best */

enum { ROWS = 500 };

static tt_top_k_item ranked(uint32_t i, int kind)
{
  float s = odd_score(i);
  uint64_t key = kind == 0   ? tt_sortable_f32(s)
                 : kind == 1 ? (uint64_t)word(2, i) << 32 | word(3, i)
                 : kind == 2 ? (uint64_t)(word(4, i) % 3) << 61
                             : 5;
  return (tt_top_k_item){key, ((int64_t)word(5, i) << 20) + i, (double)s};
}

static void sorted_rows(int kind, tt_top_k_item item[ROWS])
{
  for (uint32_t i = 0; i < ROWS; i++) item[i] = ranked(i, kind);
  for (int64_t i = 1; i < ROWS; i++)
    for (int64_t j = i; j > 0; j--) {
      int less = item[j - 1].key < item[j].key ||
                 (item[j - 1].key == item[j].key && item[j - 1].row > item[j].row);
      if (!less) break;
      tt_top_k_item kept = item[j];
      item[j] = item[j - 1];
      item[j - 1] = kept;
    }
}

TT_TEST (a_best_list_is_the_head_of_a_sort) {
  static const int64_t capacities[] = {0, 1, 2, 7, 100, ROWS, ROWS + 5};
  static tt_top_k_item wanted[ROWS];
  for (int kind = 0; kind < 4; kind++) {
    sorted_rows(kind, wanted);
    for (size_t r = 0; r < sizeof capacities / sizeof *capacities; r++) {
      tt_top_k top;
      TT_CHECK_OK(tt_top_k_create(capacities[r], &top));
      for (uint32_t i = 0; i < ROWS; i++) tt_top_k_push(&top, ranked((i * 7) % ROWS, kind));
      tt_top_k_sort(&top);
      TT_CHECK(top.count, ==, capacities[r] < ROWS ? capacities[r] : ROWS);
      for (int64_t i = 0; i < top.count; i++) TT_CHECK(top.item[i].row, ==, wanted[i].row);
      tt_top_k_free(&top);
    }
  }
}

/* Lists of several ranks, each cut to its best, contain exactly the best of all. */
static void check_cut(const tt_top_k_item *wanted, int kind, int lists, int64_t keep)
{
  tt_top_k top[4];
  tt_global_top_k cut[4];
  int64_t total = 0;
  int again = 1;
  for (int l = 0; l < lists; l++) {
    TT_CHECK_OK(tt_top_k_create(keep, &top[l]));
    for (uint32_t i = 0; i < ROWS; i++)
      if ((int)(word(6, i) % 4) % lists == l) tt_top_k_push(&top[l], ranked(i, kind));
    tt_top_k_sort(&top[l]);
    cut[l] = tt_global_top_k_begin(&top[l], keep);
  }
  while (again) {
    int64_t sum[TT_GLOBAL_TOP_K_BINS] = {0}, bin[TT_GLOBAL_TOP_K_BINS];
    for (int l = 0; l < lists; l++) {
      tt_global_top_k_count(&top[l], &cut[l], bin);
      for (int i = 0; i < TT_GLOBAL_TOP_K_BINS; i++) sum[i] += bin[i];
    }
    for (int l = 0; l < lists; l++) again = tt_global_top_k_narrow(&top[l], &cut[l], sum);
  }
  for (int l = 0; l < lists; l++) {
    total += cut[l].lo;
    for (int64_t i = 0; i < cut[l].lo; i++)
      TT_CHECK(tt_top_k_item_before(&wanted[keep - 1], &top[l].item[i]), ==, 0);
    tt_top_k_free(&top[l]);
  }
  TT_CHECK(total, ==, keep < ROWS ? keep : ROWS);
}

TT_TEST (the_best_of_all_ranks_are_found_by_counting) {
  static tt_top_k_item wanted[ROWS];
  for (int kind = 0; kind < 4; kind++) {
    sorted_rows(kind, wanted);
    for (int lists = 1; lists <= 4; lists++)
      for (int64_t keep = 1; keep <= ROWS; keep += 83) check_cut(wanted, kind, lists, keep);
  }
}

/* random keys */

/* Draw one of six by softmax, 20000 times: frequencies within 5 standard deviations. Also of the
 * second draw without replacement, given the first. */
TT_TEST (gumbel_keys_draw_by_softmax) {
  enum { N = 6, DRAWS = 20000 };
  static const double score[N] = {0.1, 0.5, 0.9, 0.5, 2.0, -1.0};
  const double temperature = 0.7;
  double p[N], sum = 0.0;
  int64_t first[N] = {0}, second[N] = {0}, after = 0;
  for (int i = 0; i < N; i++) sum += p[i] = exp(score[i] / temperature);
  for (int64_t round = 1; round <= DRAWS; round++) {
    tt_top_k top;
    TT_CHECK_OK(tt_top_k_create(2, &top));
    for (int64_t i = 0; i < N; i++) {
      double v = tt_gumbel_score(score[i], temperature, 11, round, 0, i + ((int64_t)1 << 33));
      tt_top_k_push(&top, (tt_top_k_item){tt_sortable_f64(v), i, 0.0});
    }
    tt_top_k_sort(&top);
    first[top.item[0].row]++;
    if (top.item[0].row == 4) after++, second[top.item[1].row]++;
    tt_top_k_free(&top);
  }
  for (int i = 0; i < N; i++) {
    double q = p[i] / sum, r = i == 4 ? 0.0 : p[i] / (sum - p[4]);
    TT_CHECK(fabs((double)first[i] - DRAWS * q), <=, 5.0 * sqrt(DRAWS * q * (1.0 - q)));
    TT_CHECK(fabs((double)second[i] - (double)after * r), <=,
             5.0 * sqrt((double)after * r * (1.0 - r)));
  }
}

/* Each of 20 rows is among the 5 drawn in a quarter of the rounds; each pair of rows, round, list
 * and seed has its own keys. */
TT_TEST (draws_are_uniform_and_keyed) {
  enum { N = 20, DRAWS = 8000 };
  int64_t drawn[N] = {0};
  for (int64_t round = 1; round <= DRAWS; round++) {
    tt_top_k top;
    TT_CHECK_OK(tt_top_k_create(5, &top));
    for (int64_t i = 0; i < N; i++)
      tt_top_k_push(&top, (tt_top_k_item){tt_random_key(3, round, i), i, 0.0});
    for (int64_t i = 0; i < 5; i++) drawn[top.item[i].row]++;
    tt_top_k_free(&top);
  }
  for (int i = 0; i < N; i++)
    TT_CHECK(fabs((double)drawn[i] - DRAWS / 4.0), <=, 5.0 * sqrt(DRAWS * 3.0 / 16.0));
  TT_CHECK(tt_random_key(3, 1, 0), !=, tt_random_key(3, 1, (int64_t)1 << 32));
  TT_CHECK(tt_random_key(3, 1, 0), !=, tt_random_key(4, 1, 0));
  TT_CHECK(tt_gumbel_score(0, 1, 3, 1, 0, 5), !=, tt_gumbel_score(0, 1, 3, 1, 1, 5));
  TT_CHECK(tt_gumbel_score(0, 1, 3, 1, 0, 5), !=, tt_gumbel_score(0, 1, 3, 2, 0, 5));
}

/* parts */

TT_TEST (parts_add_up_and_follow_the_weights) {
  static const double weight[][4] = {
      {1, 1, 1, 1}, {0, 1, 0, 2}, {1, 2, 3, 4}, {0.1, 0.1, 0.1, 1e9}};
  for (size_t w = 0; w < sizeof weight / sizeof *weight; w++)
    for (int64_t most = 0; most <= 40; most++) {
      int64_t part[4], total = 0;
      double sum = weight[w][0] + weight[w][1] + weight[w][2] + weight[w][3];
      TT_CHECK_OK(tt_apportion(most, 4, w ? weight[w] : NULL, part));
      for (int i = 0; i < 4; i++) {
        total += part[i];
        TT_CHECK(fabs((double)part[i] - (double)most * weight[w][i] / sum), <, 1.0);
        if (weight[w][i] == 0.0) TT_CHECK(part[i], ==, 0);
      }
      TT_CHECK(total, ==, most);
    }
  int64_t part[3];
  TT_CHECK_OK(tt_apportion(4, 3, NULL, part));
  TT_CHECK(part[0], ==, 2); /* of equal remainders, the first is rounded up */
}

/* k-center */

enum { CANDIDATES = 700, D = 3, CENTERS = 4, PICKS = 40 };

/* On a coarse grid, so that there are equal points and equal distances. */
static float input(uint32_t series, int64_t i, int64_t d)
{
  return (float)(word(series, (uint32_t)(i * D + d)) % 12) / 4.0f;
}

static double distance(const float *a, const float *b)
{
  float sum = 0.0f;
  for (int d = 0; d < D; d++) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return (double)sum;
}

/* The next query of the selection, computed again from the distances of all pairs of rows. */
static int64_t slow_next(const float *x, const double *score, double length, const float *center,
                         int64_t centers, const int8_t *taken)
{
  int64_t best = -1;
  float most = -1.0f;
  for (int64_t i = 0; i < CANDIDATES; i++) {
    double nearest_sq = INFINITY;
    for (int64_t k = 0; k < centers; k++)
      nearest_sq = fmin(nearest_sq, distance(x + i * D, center + k * D));
    float value =
        score ? (float)(score[i] * -expm1(-nearest_sq / (D * length * length))) : (float)nearest_sq;
    if (!taken[i] && value > most) most = value, best = i;
  }
  return best;
}

static void check_apart(int penalty, int64_t centers, int parts)
{
  static float x[CANDIDATES * D], center[(CENTERS + PICKS) * D];
  static double score[CANDIDATES];
  int8_t taken[CANDIDATES] = {0};
  tt_k_center a[3];
  for (int64_t i = 0; i < CANDIDATES * D; i++) x[i] = input(8, i / D, i % D);
  for (int64_t i = 0; i < CANDIDATES; i++) score[i] = (double)(word(9, (uint32_t)i) % 50);
  for (int64_t i = 0; i < centers * D; i++) center[i] = input(10, i / D, i % D);
  for (int p = 0; p < parts; p++) {
    int64_t begin = CANDIDATES * p / parts, to = CANDIDATES * (p + 1) / parts;
    TT_CHECK_OK(tt_k_center_create(begin, to - begin, D, penalty ? score + begin : NULL, &a[p]));
    tt_k_center_load(&a[p], 0, 50, x + begin * D);
    tt_k_center_load(&a[p], 50, to - begin - 50, x + (begin + 50) * D);
    tt_k_center_add_centers(&a[p], center, centers);
  }
  for (int64_t n = 0; n < PICKS; n++) {
    int64_t key = TT_K_CENTER_NONE, owners = 0;
    for (int p = 0; p < parts; p++) {
      int64_t its = penalty ? tt_k_center_penalized(&a[p], 0.5) : tt_k_center_farthest(&a[p]);
      key = its > key ? its : key;
    }
    int64_t offset = tt_k_center_position(key);
    float *new = center + (centers + n) * D;
    TT_CHECK(offset, ==, slow_next(x, penalty ? score : NULL, 0.5, center, centers + n, taken));
    taken[offset] = 1;
    for (int p = 0; p < parts; p++) owners += tt_k_center_choose(&a[p], offset, new);
    TT_CHECK(owners, ==, 1);
    TT_CHECK(memcmp(new, x + offset * D, D * sizeof *new), ==, 0);
    for (int p = 0; p < parts; p++) tt_k_center_add_centers(&a[p], new, 1);
  }
  for (int p = 0; p < parts; p++) tt_k_center_free(&a[p]);
}

TT_TEST (kcenter_equals_a_search_over_all_pairs) {
  for (int parts = 1; parts <= 3; parts++)
    for (int64_t centers = 0; centers <= CENTERS; centers += CENTERS) {
      check_apart(0, centers, parts);
      check_apart(1, centers, parts);
    }
}

TT_TEST (an_empty_part_gives_no_query) {
  tt_k_center a;
  float x[2] = {1.0f, 2.0f}, at[2];
  TT_CHECK_OK(tt_k_center_create(5, 0, 2, NULL, &a));
  TT_CHECK(tt_k_center_farthest(&a), ==, TT_K_CENTER_NONE);
  tt_k_center_free(&a);
  TT_CHECK_OK(tt_k_center_create(5, 1, 2, NULL, &a));
  tt_k_center_load(&a, 0, 1, x);
  TT_CHECK(tt_k_center_position(tt_k_center_farthest(&a)), ==, 5);
  TT_CHECK(tt_k_center_choose(&a, 4, at) + tt_k_center_choose(&a, 6, at), ==, 0);
  TT_CHECK(tt_k_center_choose(&a, 5, at), ==, 1);
  TT_CHECK(tt_k_center_farthest(&a), ==, TT_K_CENTER_NONE);
  tt_k_center_free(&a);
}
