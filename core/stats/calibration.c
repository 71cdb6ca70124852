/* calibration.c — see calibration.h. */
#include "core/stats/calibration.h"

#include "core/base/mem.h"
#include "core/stats/conformal.h"

#include <math.h>

double tt_calibration_std_scale(const tt_calibration *k, int64_t column)
{
  return k->columns ? k->std_scale[column] : 1.0;
}

double tt_calibration_noise(const tt_calibration *k, int64_t column)
{
  return k->columns ? k->noise[column] : 0.0;
}

int tt_calibration_has_noise(const tt_calibration *k, int64_t column)
{
  return tt_calibration_noise(k, column) > 0.0 || tt_calibration_std_scale(k, column) != 1.0;
}

int tt_calibration_needs_noise(const tt_model *m)
{
  return tt_output_forecast(m->output) == TT_FORECAST_gaussian &&
         !tt_output_has_variance(m->output);
}

/* What the likelihood of a share of the spread needs. */
typedef struct noise_rows {
  int64_t n;
  const double *error, *sd, *weight;
  double all, square; /* sum of the weights; mean of error^2 */
} noise_rows;

static double weight_of(const noise_rows *d, int64_t i) { return d->weight ? d->weight[i] : 1.0; }

/* The variances are scale (share sd^2 + (1 - share) square), share = 1 / (1 + e^-t). Returns their
 * best scale, and in *loss twice the mean of -ln of likelihood and prior, up to a constant. */
static double fit_scale(const noise_rows *d, double t, double *loss)
{
  double share = 1.0 / (1.0 + exp(-t)), logs = 0.0, ratios = 0.0;
  for (int64_t i = 0; i < d->n; i++) {
    double v = share * d->sd[i] * d->sd[i] + (1.0 - share) * d->square, w = weight_of(d, i);
    logs += w * log(v) / d->all;
    ratios += w * (d->error[i] * d->error[i] / v) / d->all;
  }
  double scale = d->n < TT_NOISE_ROWS ? 1.0 / share : ratios, prior = log(scale * share);
  *loss = log(scale) + logs + ratios / scale + prior * prior / (2.0 * (double)d->n);
  return scale;
}

static double wider(int64_t chose) { return chose > 0 ? 1.0 + sqrt(2.0 / (double)chose) : 1.0; }

void tt_noise_fit(int64_t n, int64_t chose, const double *error, const double *sd,
                  const double *weight, double *std_scale, double *noise)
{
  static const double golden = 0.6180339887498949, least = -14.0, step = 2.0;
  noise_rows d = {n, error, sd, weight, 0.0, 0.0};
  double best = INFINITY, loss, at = 0.0;
  *std_scale = 1.0;
  *noise = 0.0;
  for (int64_t i = 0; i < n; i++) d.all += weight_of(&d, i);
  for (int64_t i = 0; i < n; i++) d.square += weight_of(&d, i) * error[i] * error[i] / d.all;
  if (!(d.square > 0.0 && d.square < INFINITY)) return;
  for (double t = least; t <= -least; t += step) {
    fit_scale(&d, t, &loss);
    if (loss < best) best = loss, at = t;
  }
  double low = at - step, high = at + step;
  while (high - low > 1e-3) {
    double a = high - golden * (high - low), b = low + golden * (high - low), loss_b;
    fit_scale(&d, a, &loss);
    fit_scale(&d, b, &loss_b);
    if (loss < loss_b)
      high = b;
    else
      low = a;
  }
  double share = 1.0 / (1.0 + exp(-low)), scale = fit_scale(&d, low, &loss);
  *std_scale = wider(chose) * sqrt(scale * share);
  *noise = wider(chose) * sqrt(scale * (1.0 - share) * d.square);
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

static void conformal_scores(const tt_model *m, double level, double std_scale, double noise,
                             const tt_calibration_data *v, tt_conformal_score *score)
{
  int32_t low, high, q = m->quantities;
  find_interval_levels(m, level, &low, &high);
  for (int64_t r = 0; r < v->rows; r++) {
    const double *place = v->quantity + r * q;
    double sd = std_or_unit(hypot(v->sd[r] * std_scale, noise), 1.0);
    score[r].weight = v->weight ? v->weight[r] : 1.0;
    score[r].value = tt_model_has_quantiles(m)
                         ? tt_conformal_outside(v->y[r], place[low], place[high])
                         : tt_conformal_residual(v->y[r], place[0], sd);
  }
}

static void fit_spread(const tt_model *m, tt_recalibrate recalibrate, const tt_calibration_data *v,
                       double *error, double *std_scale, double *noise)
{
  for (int64_t r = 0; r < v->rows; r++) error[r] = v->quantity[r * m->quantities] - v->y[r];
  if (recalibrate != TT_RECALIBRATE_none && tt_calibration_needs_noise(m))
    tt_noise_fit(v->rows, v->chose, error, v->sd, v->weight, std_scale, noise);
  else if (recalibrate == TT_RECALIBRATE_all)
    *std_scale = wider(v->chose) * tt_recalibration_scale(v->rows, error, v->sd, v->weight);
}

tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first,
                          tt_recalibrate recalibrate, const tt_calibration_data *v)
{
  tt_conformal_score *score = NULL;
  double *error = NULL, width, std_scale = 1.0, noise = 0.0;
  tt_err e = TT_ALLOC(score, v->rows);
  if (!e) e = TT_ALLOC(error, v->rows);
  if (!e) fit_spread(m, recalibrate, v, error, &std_scale, &noise);
  for (int32_t j = 0; !e && j < m->quantities; j++) {
    k->std_scale[first + j] = std_scale;
    k->noise[first + j] = noise;
    k->rows[first + j] = v->rows;
  }
  for (int64_t i = 0; !e && i < k->levels; i++) {
    conformal_scores(m, k->level[i], std_scale, noise, v, score);
    tt_conformal_widths(v->rows, score, 1, &k->level[i], &width);
    for (int32_t j = 0; j < m->quantities; j++) k->width[i * k->columns + first + j] = width;
  }
  tt_free_all(&score, &error);
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
