/* calibration.c — see calibration.h. */
#include "core/stats/calibration.h"

#include "core/base/mem.h"
#include "core/stats/conformal.h"

#include <math.h>

double tt_calibration_std_scale(const tt_calibration *k, int64_t column)
{
  return k->columns ? k->std_scale[column] : 1.0;
}

/* The two levels nearest to the bounds of a central interval. */
static void find_interval_levels(const tt_model *m, double level, int32_t *low, int32_t *high)
{
  *low = *high = 0;
  for (int32_t j = 1; j < m->levels; j++) {
    double candidate = (double)m->level[j], below = 0.5 * (1.0 - level),
           above = 0.5 * (1.0 + level);
    if (fabs(candidate - below) < fabs((double)m->level[*low] - below)) *low = j;
    if (fabs(candidate - above) < fabs((double)m->level[*high] - above)) *high = j;
  }
}

static double std_or_unit(double sd, double unit) { return sd > 0.0 ? sd : unit; }

static void conformal_scores(const tt_model *m, double level, double std_scale,
                             const tt_calibration_data *v, tt_conformal_score *score)
{
  int32_t low, high, q = m->quantities;
  find_interval_levels(m, level, &low, &high);
  for (int64_t r = 0; r < v->rows; r++) {
    const double *place = v->quantity + r * q;
    score[r].weight = v->weight ? v->weight[r] : 1.0;
    score[r].value =
        tt_model_has_quantiles(m)
            ? tt_conformal_outside(v->y[r], place[low], place[high])
            : tt_conformal_residual(v->y[r], place[0], std_or_unit(v->sd[r] * std_scale, 1.0));
  }
}

static double fit_std_scale(const tt_model *m, const tt_calibration_data *v, double *error)
{
  for (int64_t r = 0; r < v->rows; r++) error[r] = v->quantity[r * m->quantities] - v->y[r];
  return tt_recalibration_scale(v->rows, error, v->sd, v->weight);
}

tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first, int recalibrate,
                          const tt_calibration_data *v)
{
  tt_conformal_score *score = NULL;
  double *error = NULL, width, std_scale = 1.0;
  tt_err e = TT_ALLOC(score, v->rows);
  if (!e) e = TT_ALLOC(error, v->rows);
  if (!e && recalibrate) std_scale = fit_std_scale(m, v, error);
  for (int32_t j = 0; !e && j < m->quantities; j++) {
    k->std_scale[first + j] = std_scale;
    k->rows[first + j] = v->rows;
  }
  for (int64_t i = 0; !e && i < k->levels; i++) {
    conformal_scores(m, k->level[i], std_scale, v, score);
    tt_conformal_widths(v->rows, score, 1, &k->level[i], &width);
    for (int32_t j = 0; j < m->quantities; j++) k->width[i * k->columns + first + j] = width;
  }
  tt_free(score);
  tt_free(error);
  return e;
}

void tt_calibration_interval(const tt_calibration *k, const tt_model *m, int64_t level,
                             int64_t column, const double *quantity, double sd, double unit,
                             double *low, double *high)
{
  double width = k->width[level * k->columns + column];
  int32_t a, b;
  if (!tt_model_has_quantiles(m)) {
    *low = quantity[0] - width * std_or_unit(sd, unit);
    *high = quantity[0] + width * std_or_unit(sd, unit);
    return;
  }
  find_interval_levels(m, k->level[level], &a, &b);
  *low = quantity[a] - width * unit;
  *high = quantity[b] + width * unit;
  if (*low > *high) *low = *high = 0.5 * (*low + *high); /* an empty interval becomes its middle */
}
