/* member_weights.c — see member_weights.h. */
#include "core/stats/member_weights.h"

#include "core/base/mem.h"
#include "core/stats/ensemble_loss.h"

#include <math.h>
#include <string.h>

static int is_bernoulli(const tt_model *m)
{
  return tt_output_forecast(m->output) == TT_FORECAST_bernoulli;
}

static int is_categorical(const tt_model *m)
{
  return tt_output_forecast(m->output) == TT_FORECAST_categorical;
}

int32_t tt_member_prediction_size(const tt_model *m)
{
  if (tt_output_has_variance(m->output) || is_bernoulli(m)) return 2;
  return tt_model_has_quantiles(m) ? m->levels : 1;
}

void tt_member_prediction_pack(const tt_model *m, const float *mean, const float *variance,
                               int64_t step, double y, float *part)
{
  int32_t n = tt_member_prediction_size(m);
  if (is_categorical(m)) {
    int32_t right = tt_class_index((float)y, m->levels);
    part[0] = right < 0 ? 0.0f : mean[right * step];
  } else if (tt_output_has_variance(m->output)) {
    part[0] = mean[0];
    part[1] = variance[0];
  } else if (is_bernoulli(m)) { /* p and 1 - p, which rounds to 0 if it is computed from p */
    part[0] = mean[0];
    part[1] = (float)tt_bernoulli_complement((double)mean[0], (double)variance[0]);
  } else {
    for (int32_t j = 0; j < n; j++) part[j] = mean[j * step];
  }
}

/* Size of the sums over a set of members: of the parts, and, for a Gaussian, of the squared means;
 * in double, because of the subtraction in the variance. */
static int32_t sum_size(const tt_model *m)
{
  return tt_member_prediction_size(m) + (tt_output_has_variance(m->output));
}

static void add_prediction(const tt_member_predictions *s, int64_t cell, int64_t member,
                           double share, double *sum)
{
  int32_t n = tt_member_prediction_size(s->model);
  const float *part = s->part + (cell * s->stride + member) * n;
  for (int32_t j = 0; j < n; j++) sum[j] += share * (double)part[j];
  if (sum_size(s->model) > n) sum[n] += share * (double)part[0] * (double)part[0];
}

static int64_t units(const tt_member_predictions *s) { return s->units ? s->units : s->members; }

static tt_slice unit(const tt_member_predictions *s, int64_t u)
{
  return s->units ? (tt_slice){s->unit[u], s->unit[u + 1] - s->unit[u]} : (tt_slice){u, 1};
}

static int64_t unit_size(const tt_member_predictions *s, int64_t u)
{
  tt_slice own = unit(s, u);
  int64_t alive = 0;
  for (int64_t i = own.first; i < own.first + own.count; i++) alive += s->alive[i] != 0;
  return alive;
}

static int is_used(const tt_member_predictions *s, int64_t cell, int64_t i)
{
  return s->alive[i] &&
         !isnan(s->part[(cell * s->stride + i) * tt_member_prediction_size(s->model)]);
}

/* Add a unit; NaN if none of its members is used. */
static void add_unit(const tt_member_predictions *s, int64_t cell, int64_t u, double *sum)
{
  tt_slice own = unit(s, u);
  int64_t used = 0;
  for (int64_t i = own.first; i < own.first + own.count; i++) used += is_used(s, cell, i);
  if (!used) sum[0] = NAN;
  for (int64_t i = own.first; i < own.first + own.count; i++)
    if (is_used(s, cell, i)) add_prediction(s, cell, i, 1.0 / (double)used, sum);
}

/* Loss of a set of members in a cell, from their sum[sum_size] and the sum of their weights `all`.
 */
static double loss_at(const tt_member_predictions *s, int64_t cell, const double *sum, double all)
{
  double mean[TT_MAX_CLASSES + 1], variance[TT_MAX_CLASSES + 1];
  double y = s->y[cell];
  int32_t n = tt_member_prediction_size(s->model);
  int32_t first = is_categorical(s->model) ? tt_class_index((float)y, s->model->levels) : 0;
  if (first < 0) return NAN;
  for (int32_t j = 0; j < n; j++) mean[first + j] = sum[j] / all;
  if (tt_output_has_variance(s->model->output))
    variance[0] = (sum[1] + sum[2]) / all - mean[0] * mean[0];
  if (is_bernoulli(s->model)) variance[0] = mean[0] * mean[1];
  return tt_ensemble_loss(s->model, s->loss, s->args, mean, variance, y);
}

static double weight_of(const tt_member_predictions *s, int64_t cell)
{
  return s->weight ? (double)s->weight[cell] : 1.0;
}

/* Sums over cells of the loss of the set with each unit added to it: loss[units].
 *   chosen  [cells][sum_size] sums over the set so far, of `size` units */
static void losses_with_each_added(const tt_member_predictions *s, const double *chosen,
                                   int64_t size, double *loss)
{
  int32_t n = sum_size(s->model);
  double sum[TT_MAX_QUANTILES + 1];
  for (int64_t u = 0; u < units(s); u++) loss[u] = unit_size(s, u) ? 0.0 : INFINITY;
  for (int64_t c = 0; c < s->cells; c++) {
    if (isnan(s->y[c])) continue;
    for (int64_t u = 0; u < units(s); u++) {
      if (!(loss[u] < INFINITY)) continue;
      memcpy(sum, chosen + c * n, (size_t)n * sizeof *sum);
      add_unit(s, c, u, sum);
      loss[u] += weight_of(s, c) * loss_at(s, c, sum, (double)(size + 1));
    }
  }
}

static int64_t argmin(int64_t count, const double *loss)
{
  int64_t best = -1;
  for (int64_t i = 0; i < count; i++)
    if (loss[i] < INFINITY && (best < 0 || loss[i] < loss[best])) best = i;
  return best;
}

static void add(const tt_member_predictions *s, int64_t u, double *chosen)
{
  for (int64_t c = 0; c < s->cells; c++) add_unit(s, c, u, chosen + c * sum_size(s->model));
}

/* count[units]: the current set; share[units]: the best set so far. */
static void greedy_selection(const tt_combine_options *rule, const tt_member_predictions *s,
                             double *chosen, double *loss, double *count, double *share)
{
  double best = INFINITY;
  for (int64_t round = 0; round < rule->rounds; round++) {
    losses_with_each_added(s, chosen, round, loss);
    int64_t next = argmin(units(s), loss);
    if (next < 0) return;
    add(s, next, chosen);
    count[next] += 1.0;
    if (!(loss[next] < best)) continue;
    best = loss[next];
    memcpy(share, count, (size_t)units(s) * sizeof *share);
  }
}

static void choose_top_k(int64_t units, int64_t k, double *loss, double *share)
{
  memset(share, 0, (size_t)units * sizeof *share);
  for (int64_t n = 0; n < k; n++) {
    int64_t best = argmin(units, loss);
    if (best < 0) return;
    share[best] = 1.0;
    loss[best] = INFINITY;
  }
}

void tt_weights_from_losses(const tt_combine_options *rule, int64_t n, double *loss, double *share)
{
  int64_t first = argmin(n, loss);
  double least = first < 0 ? 0.0 : loss[first];
  if (rule->method == TT_COMBINE_top_k) {
    choose_top_k(n, rule->k, loss, share);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    share[i] = first < 0 ? 0.0 : exp(-(loss[i] - least) / rule->temperature);
}

/* Sum of the sample weights of all labeled cells. */
static double all_weight(const tt_member_predictions *s)
{
  double sum = 0.0;
  for (int64_t c = 0; c < s->cells; c++) sum += isnan(s->y[c]) ? 0.0 : weight_of(s, c);
  return sum;
}

/* share[units] */
static void compute_weights(const tt_combine_options *rule, const tt_member_predictions *s,
                            double *chosen, double *loss, double *count, double *share)
{
  double all = all_weight(s);
  if (rule->method == TT_COMBINE_mean || !(all > 0.0)) return;
  losses_with_each_added(s, chosen, 0, loss);
  int64_t first = argmin(units(s), loss);
  if (first < 0) return;
  if (rule->method == TT_COMBINE_greedy) {
    greedy_selection(rule, s, chosen, loss, count, share);
    return;
  }
  double least = loss[first]; /* loss becomes the mean over rows, less that of the best unit */
  for (int64_t i = 0; i < units(s) && rule->method == TT_COMBINE_weights; i++)
    loss[i] = (loss[i] - least) * (double)s->model->targets / all;
  tt_weights_from_losses(rule, units(s), loss, share);
}

static double loss_of(const tt_member_predictions *s, const double *share)
{
  double total = 0.0;
  for (int64_t c = 0; c < s->cells; c++) {
    double sum[TT_MAX_QUANTILES + 1] = {0}, shares = 0.0;
    if (isnan(s->y[c])) continue;
    for (int64_t i = 0; i < s->members; i++) {
      if (!(share[i] > 0.0) || !is_used(s, c, i)) continue;
      add_prediction(s, c, i, share[i], sum);
      shares += share[i];
    }
    total += weight_of(s, c) * loss_at(s, c, sum, shares);
  }
  return total * (double)s->model->targets / all_weight(s);
}

/* Share out the weight of a unit among its members. */
static void share_out(const tt_member_predictions *s, int64_t u, double weight, double *share)
{
  tt_slice own = unit(s, u);
  int64_t size = unit_size(s, u);
  for (int64_t i = own.first; i < own.first + own.count; i++)
    share[i] = s->alive[i] ? weight / (double)size : 0.0;
}

tt_err tt_member_weights_compute(const tt_combine_options *rule, const tt_member_predictions *s,
                                 double *share, double *best)
{
  double *chosen = NULL, *loss = NULL, *count = NULL, *of_unit = NULL;
  tt_err e = TT_ALLOC(chosen, s->cells * sum_size(s->model));
  if (!e) e = TT_ALLOC(loss, s->members);
  if (!e) e = TT_ALLOC(count, s->members);
  if (!e) e = TT_ALLOC(of_unit, units(s));
  for (int64_t u = 0; !e && u < units(s); u++) of_unit[u] = unit_size(s, u) > 0;
  if (!e) compute_weights(rule, s, chosen, loss, count, of_unit);
  for (int64_t u = 0; !e && u < units(s); u++) share_out(s, u, of_unit[u], share);
  if (!e && best) *best = loss_of(s, share);
  tt_free_all(&chosen, &loss, &count, &of_unit);
  return e;
}
