/* fit.c — see fit.h. */
#include "io/columns/fit.h"

#include "core/base/mem.h"
#include "core/base/sort.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Over the labeled training rows of one block, one column; of transformed values. */
typedef struct sums {
  double rows, sum, squares; /* squares of the deviations from the mean */
  double low, high;
} sums;

void tt_fit_block(const tt_fit_rows *r, int64_t block, int64_t *first, int64_t *count)
{
  int64_t end = (block + 1) * TT_FIT_BLOCK_ROWS;
  *first = block * TT_FIT_BLOCK_ROWS;
  *count = (end < r->count ? end : r->count) - *first;
}

static double transformed(const tt_fitted *f, int64_t k, double v)
{
  return tt_transform_apply(tt_fit_transform(f, k), f->lambda[k], v);
}

/* Add the rows of this rank's block `block` to s[columns]; `again`: the second pass, with the means
 * of the first. */
static void add_block(const tt_fit_rows *r, const tt_fitted *f, int64_t block, int again, sums *s)
{
  int64_t first, count;
  tt_fit_block(r, block, &first, &count);
  for (int64_t k = 0; k < r->columns && !again; k++) s[k] = (sums){0, 0, 0, INFINITY, -INFINITY};
  for (int64_t i = first; i < first + count; i++) {
    if (r->split[r->first + i] != TT_TRAIN) continue;
    for (int64_t k = 0; k < r->columns; k++) {
      double v = r->own[i * r->columns + k];
      if (isnan(v)) continue;
      v = transformed(f, k, v);
      if (again) {
        s[k].squares += (v - f->mean[k]) * (v - f->mean[k]);
        continue;
      }
      s[k].rows++;
      s[k].sum += v;
      s[k].low = fmin(s[k].low, v);
      s[k].high = fmax(s[k].high, v);
    }
  }
}

/* mine [own blocks][columns] -> all [blocks][columns], the same on every rank. Collective. */
static void gather_sums(tt_comm *c, const tt_fit_rows *r, const tt_fitted *f, int again, sums *mine,
                        sums *all)
{
  for (int64_t b = 0; b < r->block.count; b++) add_block(r, f, b, again, mine + b * r->columns);
  tt_allgatherv(c, mine, r->block.count * r->columns * (int64_t)sizeof *mine, all, NULL);
}

/* Column k over all blocks, in their order. */
static sums sum_blocks(const tt_fit_rows *r, const sums *all, int64_t k)
{
  sums s = {0, 0, 0, INFINITY, -INFINITY};
  for (int64_t b = 0; b < r->blocks; b++) {
    const sums *one = &all[b * r->columns + k];
    s.rows += one->rows;
    s.sum += one->sum;
    s.squares += one->squares;
    s.low = fmin(s.low, one->low);
    s.high = fmax(s.high, one->high);
  }
  return s;
}

/* The mean of a constant column is exactly its value; a rounded sum might differ. */
static void compute_means(const tt_fit_rows *r, const sums *all, double *mean)
{
  for (int64_t k = 0; k < r->columns; k++) {
    sums s = sum_blocks(r, all, k);
    mean[k] = s.rows == 0 ? 0 : s.low == s.high ? s.low : s.sum / s.rows;
  }
}

static tt_err impossible_scale(const tt_fit_rows *r, int64_t k, const sums *s, double mean,
                               double scale)
{
  const char *name = r->names ? r->names->name[k] : "";
  return TT_FAIL(DATA,
                 "%s: dataset '%s', column %" PRId64
                 " ('%s'): mean %g, scale %g: values from %g to "
                 "%g cannot be normalized; use other units",
                 r->file, r->dataset, k, name, mean, scale, s->low, s->high);
}

/* quartile [columns][3] */
static tt_err fit_columns(const tt_fit_rows *r, const sums *all, const double *quartile,
                          const tt_fitted *f)
{
  for (int64_t k = 0; k < r->columns; k++) {
    sums s = sum_blocks(r, all, k);
    const double *q = quartile + 3 * k;
    const tt_column_stats stats = {
        s.rows, f->mean[k], sqrt(s.squares / s.rows), s.low, s.high, q[0], q[1], q[2]};
    tt_normalize_fit((tt_normalize)f->by[k], &stats, &f->mean[k], &f->scale[k]);
    if (f->is_target && s.rows > 0.0 && s.low == s.high && f->by[k] != TT_NORMALIZE_none)
      f->scale[k] = tt_normalize_constant(f->mean[k]);
    if (!isfinite(f->mean[k]) || !isfinite(f->scale[k]) || f->scale[k] == 0)
      return impossible_scale(r, k, &s, f->mean[k], f->scale[k]);
  }
  return TT_OK;
}

/* Columns whose normalization needs all values at once */

/* Collective. The values of column k in all training rows, in their order.
 *   mine  [own rows], all [capacity]: allocated on all ranks */
static int64_t gather_values(tt_comm *c, const tt_fit_rows *r, int64_t k, double *mine, double *all)
{
  int64_t n = 0, total;
  for (int64_t i = 0; i < r->count; i++) {
    double v = r->own[i * r->columns + k];
    if (r->split[r->first + i] == TT_TRAIN && !isnan(v)) mine[n++] = v;
  }
  total = n;
  tt_allreduce_sum_i64(c, &total, 1);
  tt_allgatherv(c, mine, n * (int64_t)sizeof *mine, all, NULL);
  return total;
}

/* Log-likelihood of lambda, without constants. */
static double likelihood(int64_t n, const double *v, double lambda, double slopes)
{
  double mean = 0.0, squares = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double t = tt_yeo_johnson(v[i], lambda), away = t - mean;
    mean += away / (double)(i + 1);
    squares += away * (t - mean);
  }
  return -0.5 * (double)n * log(squares / (double)n) + (lambda - 1.0) * slopes;
}

double tt_fit_yeo_johnson(int64_t n, const double *v)
{
  static const double ratio = 0.6180339887498949, precision = 1e-8;
  double low = 0.0, high = 2.0, slopes = 0.0, first = INFINITY, last = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    slopes += copysign(log1p(fabs(v[i])), v[i]);
    first = fmin(first, v[i]);
    last = fmax(last, v[i]);
  }
  if (!(last > first)) return 1.0;
  double a = high - ratio * (high - low), b = low + ratio * (high - low);
  double at_a = likelihood(n, v, a, slopes), at_b = likelihood(n, v, b, slopes);
  while (high - low > precision)
    if (at_a >= at_b) {
      high = b, b = a, at_b = at_a;
      a = high - ratio * (high - low);
      at_a = likelihood(n, v, a, slopes);
    } else {
      low = a, a = b, at_a = at_b;
      b = low + ratio * (high - low);
      at_b = likelihood(n, v, b, slopes);
    }
  return 0.5 * (low + high);
}

/* Collective. Parameter and quartiles [3] of column k. */
static void fit_values(tt_comm *c, const tt_fit_rows *r, int64_t k, const tt_fitted *f,
                       double *mine, double *all, double *quartile)
{
  int64_t n = gather_values(c, r, k, mine, all);
  if (n == 0) return;
  if (tt_fit_transform(f, k) == TT_TRANSFORM_yeo_johnson && !f->keeps_lambda)
    f->lambda[k] = tt_fit_yeo_johnson(n, all);
  qsort(all, (size_t)n, sizeof *all, tt_compare_f64);
  for (int i = 0; i < 3; i++)
    quartile[i] = transformed(f, k, tt_sorted_quantile(n, all, 0.25 * (i + 1)));
}

/* Collective. Parameters of transforms; quartile [columns][3] where a normalization needs them. */
static tt_err prepare(tt_comm *c, const tt_fit_rows *r, const tt_fitted *f, double *quartile)
{
  double *mine = NULL, *all = NULL;
  int needed = 0;
  for (int64_t k = 0; k < r->columns; k++) {
    if (!f->keeps_lambda) f->lambda[k] = 1.0;
    needed |= tt_normalize_needs_values((tt_normalize)f->by[k]);
  }
  if (!needed) return TT_OK;
  tt_err e = TT_ALLOC(mine, r->count);
  if (!e) e = TT_ALLOC(all, r->blocks * TT_FIT_BLOCK_ROWS);
  e = tt_agree(c, e);
  for (int64_t k = 0; !e && k < r->columns; k++)
    if (tt_normalize_needs_values((tt_normalize)f->by[k]))
      fit_values(c, r, k, f, mine, all, quartile + 3 * k);
  tt_free(mine);
  tt_free(all);
  return e;
}

tt_err tt_fit_scales(tt_comm *c, const tt_fit_rows *r, const tt_fitted *f)
{
  sums *mine = NULL, *all = NULL;
  double *quartile = NULL;
  tt_err e = TT_ALLOC(mine, r->block.count * r->columns);
  if (!e) e = TT_ALLOC(all, r->blocks * r->columns);
  if (!e) e = TT_ALLOC(quartile, 3 * r->columns);
  e = tt_agree(c, e);
  if (!e) e = prepare(c, r, f, quartile);
  if (!e) {
    gather_sums(c, r, f, 0, mine, all);
    compute_means(r, all, f->mean);
    gather_sums(c, r, f, 1, mine, all);
    e = tt_agree(c, fit_columns(r, all, quartile, f));
  }
  tt_free_all(&mine, &all, &quartile);
  return e;
}

/* Collective. The median of column k, which has a value. */
static double find_median(tt_comm *c, const tt_fit_rows *r, int64_t k, double *mine, double *all)
{
  int64_t n = gather_values(c, r, k, mine, all);
  qsort(all, (size_t)n, sizeof *all, tt_compare_f64);
  return tt_sorted_quantile(n, all, 0.5);
}

/* Collective. fill [columns] holds the means. */
static tt_err choose_fills(tt_comm *c, const tt_fit_rows *r, const sums *blocks,
                           const int8_t *missing, double *mine, double *all, double *fill)
{
  tt_err e = TT_OK;
  for (int64_t k = 0; k < r->columns; k++) {
    tt_missing rule = (tt_missing)missing[k];
    tt_column_stats s = {.rows = sum_blocks(r, blocks, k).rows, .mean = fill[k]};
    fill[k] = NAN;
    if (rule == TT_MISSING_error) continue;
    if (s.rows > 0.0 && tt_missing_needs_values(rule)) s.median = find_median(c, r, k, mine, all);
    fill[k] = tt_missing_value(rule, &s);
    if (s.rows == 0.0 && !e)
      e = TT_FAIL(DATA,
                  "%s: dataset '%s': no training row has a value of '%s'; leave the column out",
                  r->file, r->dataset, r->names->name[k]);
  }
  return e;
}

tt_err tt_fit_fills(tt_comm *c, const tt_fit_rows *r, const int8_t *missing, double *fill)
{
  sums *own = NULL, *blocks = NULL;
  double *mine = NULL, *all = NULL, *lambda = NULL;
  int8_t *none = NULL;
  tt_err e = TT_ALLOC(own, r->block.count * r->columns);
  if (!e) e = TT_ALLOC(blocks, r->blocks * r->columns);
  if (!e) e = TT_ALLOC(mine, r->count);
  if (!e) e = TT_ALLOC(all, r->blocks * TT_FIT_BLOCK_ROWS);
  if (!e) e = TT_ALLOC(lambda, r->columns);
  if (!e) e = TT_ALLOC(none, r->columns); /* zeros: none */
  e = tt_agree(c, e);
  if (!e) {
    gather_sums(c, r, &(tt_fitted){.by = none, .lambda = lambda, .mean = fill}, 0, own, blocks);
    compute_means(r, blocks, fill);
    e = tt_agree(c, choose_fills(c, r, blocks, missing, mine, all, fill));
  }
  tt_free_all(&own, &blocks, &mine, &all, &lambda, &none);
  return e;
}
