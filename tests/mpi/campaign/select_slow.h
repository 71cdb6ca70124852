/* select_slow.h — queries selected from all candidates at once, for test_select.c: the same
 * formulas without passes, pieces or ranks. */
#ifndef TT_SELECT_SLOW_H
#define TT_SELECT_SLOW_H
#include "tests/support/check.h"

#include "core/stats/selection.h"
#include "src/campaign/select/select.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 1200, LARGE = 140001, D = 3, FIRST = 500, LISTS = 3, MOST = 2 * ROWS, LABELED = 7 };
static tt_config cfg;
static tt_scaler scaler;
static float x[ROWS * D];
static double labeled[LABELED * D];
static float score[LISTS * ROWS]; /* as pool_scores.h5 */

/* The queries that the slow selection of this file gives. */
static int64_t want[ROWS], wanted, asked;
static double want_score[ROWS];

static float joint_of(int64_t lists, int64_t i)
{
  float best = NAN;
  for (int64_t l = 0; l < lists; l++) {
    float s = score[l * ROWS + i];
    if (isnan(best) || s > best) best = s;
  }
  return best;
}

static int ascending(const void *a, const void *b)
{
  float p = *(const float *)a, q = *(const float *)b;
  return (p > q) - (p < q);
}

static double threshold(int64_t lists, const char *text)
{
  static float sorted[ROWS];
  int64_t n = 0;
  if (!*text) return NAN;
  if (*text != 'q') return atof(text);
  for (int64_t i = 0; i < ROWS; i++)
    if (!isnan(joint_of(lists, i))) sorted[n++] = joint_of(lists, i);
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  return (double)sorted[(int64_t)(atof(text + 1) * (double)n)];
}

static tt_trust_window window_of(int64_t lists)
{
  return (tt_trust_window){threshold(lists, cfg.select_lower), threshold(lists, cfg.select_upper)};
}

static void want_best(const double *value, int64_t max_queries)
{
  int8_t got[ROWS] = {0};
  for (int64_t k = 0; k < wanted; k++) got[want[k]] = 1;
  for (int64_t n = 0; n < max_queries; n++) {
    int64_t best = -1;
    for (int64_t i = 0; i < ROWS; i++)
      if (!got[i] && !isnan(value[i]) && (best < 0 || value[i] > value[best])) best = i;
    if (best < 0) return;
    got[best] = 1;
    want[wanted++] = best;
  }
}

/* Are the inputs those of one of want[from .. to)? */
static int is_repeated(int64_t i, int64_t begin, int64_t end)
{
  for (int64_t k = begin; k < end; k++)
    if (!memcmp(x + i * D, x + want[k] * D, D * sizeof *x)) return 1;
  return 0;
}

/* The best with other inputs than what is wanted already. */
static void want_distinct(const double *own, int64_t max_queries)
{
  static double value[ROWS];
  int64_t compared = 0, last = wanted + max_queries;
  memcpy(value, own, sizeof value);
  while (wanted < last) {
    for (int64_t i = 0; i < ROWS; i++)
      if (is_repeated(i, compared, wanted)) value[i] = NAN;
    compared = wanted;
    want_best(value, 1);
    if (wanted == compared) break;
  }
}

static float normal(const float *src, int64_t d)
{
  return (float)(((double)src[d] - scaler.x_mean[d]) / scaler.x_scale[d]);
}

static double far(const float *a, const float *b)
{
  float sum = 0.0f;
  for (int d = 0; d < D; d++) sum += (normal(a, d) - normal(b, d)) * (normal(a, d) - normal(b, d));
  return (double)sum;
}

static double nearest(int64_t i)
{
  double near = INFINITY;
  float row[D];
  for (int64_t k = 0; k < wanted; k++) near = fmin(near, far(x + i * D, x + want[k] * D));
  for (int64_t k = 0; k < LABELED && cfg.select_method == TT_SELECT_kcenter; k++) {
    for (int d = 0; d < D; d++) row[d] = (float)labeled[k * D + d];
    near = fmin(near, far(x + i * D, row));
  }
  return near;
}

/* own [ROWS], scores; NaN = no candidate. Takes the best by score; of these, in turn, the furthest
 * one or the one with the largest gain. */
static void want_apart(const double *own, int64_t max_queries)
{
  static double value[ROWS], near[ROWS];
  int64_t list[ROWS], before = wanted;
  int64_t m = cfg.select_prefilter > 0 ? cfg.select_prefilter : 100 * asked;
  double lowest = 0.0, unit = D * cfg.select_length_scale * cfg.select_length_scale;
  want_best(own, m > max_queries ? m : max_queries);
  int64_t count = wanted - before;
  for (int64_t k = 0; k < count; k++) {
    list[k] = want[before + k];
    lowest = fmin(lowest, own[list[k]]);
  }
  wanted = before;
  for (int64_t k = 0; k < count; k++) near[k] = nearest(list[k]);
  for (int64_t n = 0; n < max_queries; n++) {
    for (int64_t i = 0; i < ROWS; i++) value[i] = NAN;
    for (int64_t k = 0; k < count; k++) {
      double gain = (own[list[k]] - lowest) * -expm1(-near[k] / unit);
      value[list[k]] = cfg.select_method == TT_SELECT_kcenter ? near[k] : (double)(float)gain;
    }
    int64_t so_far = wanted;
    want_best(value, 1);
    if (wanted == so_far) break;
    for (int64_t k = 0; k < count; k++)
      near[k] = fmin(near[k], far(x + list[k] * D, x + want[so_far] * D));
  }
  for (count = wanted, wanted = before; before < count; before++)
    if (!is_repeated(want[before], 0, wanted)) want[wanted++] = want[before];
}

static double median_of(const double *own)
{
  static float sorted[ROWS];
  int64_t n = 0;
  for (int64_t i = 0; i < ROWS; i++)
    if (!isnan(own[i])) sorted[n++] = (float)own[i];
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  return n ? (double)sorted[n / 2] : NAN;
}

static void want_by_score(int64_t lists, int64_t l, int64_t round, int64_t max_queries)
{
  static double own[ROWS], value[ROWS];
  tt_trust_window w = window_of(lists);
  for (int64_t i = 0; i < ROWS; i++) {
    float joint = joint_of(lists, i);
    int out = isnan(joint) || tt_trust_window_classify(&w, joint) != TT_TRUST_CANDIDATE;
    own[i] = out ? NAN : (double)score[l * ROWS + i];
  }
  double t = median_of(own);
  t = cfg.select_temperature * (t != 0.0 ? fabs(t) : 1.0);
  for (int64_t i = 0; i < ROWS; i++)
    value[i] = isnan(own[i]) ? NAN : tt_gumbel_score(own[i], t, 42, round, l, FIRST + i);
  int64_t before = wanted;
  if (cfg.select_method == TT_SELECT_top)
    want_distinct(own, max_queries);
  else if (tt_select_options[cfg.select_method] & TT_SELECT_PREFILTER)
    want_apart(own, max_queries);
  else
    want_distinct(value, max_queries);
  for (int64_t k = before; k < wanted; k++) want_score[k] = own[want[k]];
}

/* Draw at random; then fill the part of each list; append the drawn ones. Returns how many were
 * drawn. */
static int64_t want_all(int64_t lists, int64_t round, int64_t max_queries)
{
  static double value[ROWS];
  int64_t part[LISTS] = {0}, kept[ROWS];
  double kept_score[ROWS];
  wanted = 0;
  asked = max_queries;
  for (int64_t i = 0; i < ROWS; i++)
    value[i] =
        isnan(joint_of(lists, i)) ? NAN : (double)(tt_random_key(42, round, FIRST + i) >> 11);
  if (max_queries > ROWS) max_queries = ROWS;
  want_distinct(value, (int64_t)floor(cfg.select_random_fraction * (double)max_queries + 0.5));
  int64_t drawn = wanted;
  TT_CHECK_OK(
      tt_apportion(max_queries - drawn, lists, lists > 1 ? cfg.score_weights.value : NULL, part));
  for (int64_t l = 0; l < lists; l++) want_by_score(lists, l, round, part[l]);
  for (int64_t k = 0; k < drawn; k++) want_score[k] = NAN;
  memcpy(kept, want, sizeof kept);
  memcpy(kept_score, want_score, sizeof kept_score);
  for (int64_t k = 0; k < wanted; k++) {
    want[k] = kept[(k + drawn) % wanted];
    want_score[k] = kept_score[(k + drawn) % wanted];
  }
  return drawn;
}
#endif
