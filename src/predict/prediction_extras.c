/* prediction_extras.c — see prediction_extras.h. */
#include "src/predict/prediction_extras.h"

#include "core/base/mem.h"
#include "core/formulas/acquisition.h"

#include <math.h>

static int is_classifier(const tt_trained_ensemble *m)
{
  return m->model.output == TT_OUTPUT_softmax || m->model.output == TT_OUTPUT_sigmoid;
}

int tt_prediction_extras_need_members(const tt_trained_ensemble *m)
{
  return m->model.output == TT_OUTPUT_sigmoid;
}

tt_err tt_prediction_extras_create(const tt_trained_ensembles *all, int64_t rows,
                                   tt_prediction_extras *out)
{
  out->columns = tt_trained_ensembles_columns(all);
  for (int64_t i = 0; i < all->count; i++) {
    const tt_calibration *k = &all->at[i]->calibration;
    out->levels = k->levels > out->levels ? k->levels : out->levels;
    out->classes |= is_classifier(all->at[i]);
  }
  TT_TRY(TT_ALLOC(out->lower, out->levels * rows * out->columns));
  TT_TRY(TT_ALLOC(out->upper, out->levels * rows * out->columns));
  if (!out->classes) return TT_OK;
  TT_TRY(TT_ALLOC(out->entropy, rows * out->columns));
  return TT_ALLOC(out->mutual_information, rows * out->columns);
}

void tt_prediction_extras_free(tt_prediction_extras *x)
{
  tt_free(x->lower);
  tt_free(x->upper);
  tt_free(x->entropy);
  tt_free(x->mutual_information);
}

/* Entropy of p and 1 - p. */
static double bernoulli_entropy(double p)
{
  double both[2] = {p, 1.0 - p};
  return tt_entropy(2, both, 1);
}

/* Mean entropy of the members of an ensemble that say probabilities, in their shares. */
static double mean_bernoulli_entropy(const tt_trained_ensemble *m, const tt_ensemble *e, int64_t k,
                                     int64_t r, int64_t rows, const float *members)
{
  double sum = 0.0, all = 0.0;
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    if (m->weight[i] <= 0.0) continue;
    sum +=
        m->weight[i] *
        bernoulli_entropy((double)members[(i * 2 * tt_trained_ensemble_width(m) + k) * rows + r]);
    all += m->weight[i];
  }
  return sum / all;
}

double tt_prediction_extras_member_entropy(const tt_trained_ensemble *m, const tt_ensemble *e,
                                           int64_t k, int64_t r, int64_t rows, const double *mean,
                                           const float *members)
{
  if (m->model.output == TT_OUTPUT_sigmoid)
    return mean_bernoulli_entropy(m, e, k, r, rows, members);
  return mean[m->model.levels];
}

/* Target k of an ensemble in row r; mean its first column's. */
static void decompose_entropy(const tt_trained_ensemble *m, const tt_ensemble *e, int64_t k,
                              int64_t r, int64_t rows, const double *mean, const float *members,
                              double *entropy, double *mutual_information)
{
  double own = tt_prediction_extras_member_entropy(m, e, k, r, rows, mean, members);
  double whole = m->model.output == TT_OUTPUT_sigmoid ? bernoulli_entropy(mean[0])
                                                      : tt_entropy(m->model.levels, mean, 1);
  *entropy = whole;
  *mutual_information = whole > own ? whole - own : 0.0;
}

static void fill_classes(tt_prediction_extras *x, const tt_trained_ensemble *m, int64_t number,
                         int64_t k, int64_t column, int64_t rows, const double *mean,
                         const float *members)
{
  int32_t q = m->model.quantities;
  for (int64_t r = 0; r < rows; r++) {
    int64_t cell = r * x->columns + column;
    double entropy = NAN, mutual_information = NAN;
    if (is_classifier(m))
      decompose_entropy(m, &m->ensemble[number], k, r, rows, mean + cell, members, &entropy,
                        &mutual_information);
    for (int32_t j = 0; j < q; j++) {
      x->entropy[cell + j] = entropy;
      x->mutual_information[cell + j] = mutual_information;
    }
  }
}

static void fill_intervals(tt_prediction_extras *x, const tt_trained_ensemble *m, int64_t own,
                           double unit, int64_t column, int64_t rows, const double *mean,
                           const double *total)
{
  int32_t q = m->model.quantities;
  for (int64_t l = 0; l < x->levels; l++)
    for (int64_t r = 0; r < rows; r++) {
      int64_t cell = r * x->columns + column, to = l * rows * x->columns + cell;
      double low = NAN, high = NAN;
      if (l < m->calibration.levels)
        tt_calibration_interval(&m->calibration, &m->model, l, own, mean + cell, total[cell], unit,
                                &low, &high);
      for (int32_t j = 0; j < q; j++) {
        x->lower[to + j] = low;
        x->upper[to + j] = high;
      }
    }
}

void tt_prediction_extras_fill(tt_prediction_extras *x, const tt_trained_ensemble *m,
                               int64_t column, int64_t rows, const double *mean,
                               const double *total, const float *members)
{
  int64_t own = 0;
  for (int64_t e = 0; e < m->ensembles; e++)
    for (int64_t k = 0; k < m->model.targets; k++, own += m->model.quantities) {
      double unit = m->scaler.y_scale[m->ensemble[e].column[k]];
      fill_intervals(x, m, own, unit, column + own, rows, mean, total);
      if (x->classes) fill_classes(x, m, e, k, column + own, rows, mean, members);
    }
}
