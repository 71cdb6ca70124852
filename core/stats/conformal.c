/* conformal.c — see conformal.h. */
#include "core/stats/conformal.h"
#include "core/base/sort.h"

#include <math.h>
#include <stdlib.h>

double tt_recalibration_scale(int64_t n, const double *error, const double *sd)
{
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) sum += error[i] * error[i] / (sd[i] * sd[i]);
  double scale = n > 0 ? sqrt(sum / (double)n) : 1.0;
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

void tt_conformal_widths(int64_t n, double *score, int64_t levels, const double *level,
                         double *width)
{
  if (n > 0) qsort(score, (size_t)n, sizeof *score, tt_compare_f64);
  for (int64_t i = 0; i < levels; i++) {
    int64_t rank = n > 0 ? tt_conformal_rank(n, level[i]) : 0;
    width[i] = rank > 0 ? score[rank - 1] : (double)INFINITY;
  }
}

double tt_conformal_residual(double y, double mean, double sd) { return fabs(y - mean) / sd; }

double tt_conformal_outside(double y, double low, double high) { return fmax(low - y, y - high); }
