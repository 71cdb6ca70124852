/* conformal.c — see conformal.h. */
#include "core/stats/conformal.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>

double tt_recalibration_scale(int64_t n, const double *error, const double *sd,
                              const double *weight)
{
  double sum = 0.0, all = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double w = weight ? weight[i] : 1.0;
    sum += w * (error[i] * error[i] / (sd[i] * sd[i]));
    all += w;
  }
  double scale = all > 0.0 ? sqrt(sum / all) : 1.0;
  return scale > 0.0 && scale < INFINITY ? scale : 1.0;
}

int64_t tt_conformal_rank(int64_t n, double level)
{
  double position = (double)(n + 1) * level;
  int64_t rank =
      (int64_t)ceil(position - 1e-9 * position); /* 0.9 * 10 gives 9 in spite of rounding */
  return rank > n ? 0 : rank < 1 ? 1 : rank;
}

int64_t tt_conformal_min_rows(double level)
{
  int64_t n = (int64_t)floor(level / (1.0 - level)) - 1;
  n = n < 1 ? 1 : n;
  while (tt_conformal_rank(n, level) == 0) n++;
  return n;
}

void tt_conformal_widths(int64_t n, tt_conformal_score *score, int64_t levels, const double *level,
                         double *width)
{
  double all = 0.0;
  if (n > 0) qsort(score, (size_t)n, sizeof *score, tt_compare_f64);
  for (int64_t i = 0; i < n; i++) all += score[i].weight;
  for (int64_t l = 0; l < levels; l++) {
    double least = (all + all / (double)n) * level[l], sum = 0.0;
    width[l] = INFINITY;
    for (int64_t i = 0; i < n && isinf(width[l]); i++)
      if ((sum += score[i].weight) >= least - 1e-9 * least) width[l] = score[i].value;
  }
}

double tt_conformal_residual(double y, double mean, double sd) { return fabs(y - mean) / sd; }

double tt_conformal_outside(double y, double low, double high) { return fmax(low - y, y - high); }
