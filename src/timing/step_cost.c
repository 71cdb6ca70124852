/* step_cost.c — see step_cost.h. */
#include "src/timing/step_cost.h"

#include <math.h>

enum { LANES = 16, MOST_TERMS = 8, SWEEPS = 20000 };

static double padded(int64_t rows) { return (double)((rows + LANES - 1) / LANES * LANES); }

void tt_step_count(const tt_model *m, int64_t rows, int forward, double count[TT_STEP_COST_COUNT])
{
  double n = padded(rows), values = 0.0, weights = 0.0;
  for (int l = 0; l < m->layers; l++) {
    weights += (double)m->layer[l].out * (double)m->layer[l].in;
    values += (double)m->layer[l].out;
  }
  count[TT_STEP_COST_step] = forward ? 0.0 : 1.0;
  count[TT_STEP_COST_flops] =
      forward ? 2.0 * n * weights : n / (double)rows * tt_model_flops(m, rows);
  count[TT_STEP_COST_values] = n * values * (forward ? 0.5 : 1.0);
  count[TT_STEP_COST_rows] = n * (double)(m->inputs + m->targets);
  count[TT_STEP_COST_params] = forward ? 0.0 : (double)m->params;
}

double tt_step_hidden_values(const tt_model *m, int64_t rows)
{
  double units = 0.0;
  for (int l = 0; l < m->layers - 1; l++) units += (double)m->layer[l].out;
  return units * padded(rows);
}

static double sum_terms(const tt_step_seconds *s, const double count[TT_STEP_COST_COUNT])
{
  double sum = 0.0;
  for (int i = 0; i < TT_STEP_COST_COUNT; i++) sum += s->term[i] * count[i];
  return sum;
}

double tt_step_estimate(const tt_step_seconds *s, const tt_cohort *c, const tt_hyper *h,
                        int64_t rows)
{
  double count[TT_STEP_COST_COUNT], hidden = tt_step_hidden_values(&c->model, rows);
  int norm = c->model.layers > 1 && c->model.layer[0].norm >= 0;
  tt_step_count(&c->model, rows, 0, count);
  double seconds = sum_terms(s, count);
  seconds += hidden * s->activation[tt_model_activation(&c->model)];
  seconds += (double)c->model.params * s->optimizer[c->optimizer];
  if (h->dropout > 0.0f) seconds += hidden * s->dropout;
  if (norm) seconds += hidden * s->layer_norm;
  return seconds;
}

double tt_step_estimate_forward(const tt_step_seconds *s, const tt_cohort *c, int64_t rows)
{
  double count[TT_STEP_COST_COUNT];
  if (rows < 1) return 0.0;
  tt_step_count(&c->model, rows, 1, count);
  return sum_terms(s, count) + 0.5 * tt_step_hidden_values(&c->model, rows) *
                                   s->activation[tt_model_activation(&c->model)];
}

/* Coordinate descent on the normal equations: each step solves for one unknown, and sets it to 0 if
 * it would be negative. */
void tt_step_fit(int64_t cases, int terms, const double *count, const double *value, double *out)
{
  double a[MOST_TERMS][MOST_TERMS] = {{0.0}}, b[MOST_TERMS] = {0.0};
  for (int64_t k = 0; k < cases; k++)
    for (int i = 0; i < terms; i++) {
      double x = count[k * terms + i] / value[k];
      b[i] += x;
      for (int j = 0; j < terms; j++) a[i][j] += x * count[k * terms + j] / value[k];
    }
  for (int i = 0; i < terms; i++) out[i] = 0.0;
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    for (int i = 0; i < terms; i++) {
      double rest = b[i];
      for (int j = 0; j < terms; j++) rest -= j == i ? 0.0 : a[i][j] * out[j];
      out[i] = a[i][i] > 0.0 ? fmax(0.0, rest / a[i][i]) : 0.0;
    }
}
