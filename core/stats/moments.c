/* moments.c — see moments.h. */
#include "core/stats/moments.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

tt_err tt_moments_create(int64_t rows, int64_t columns, tt_moments **out)
{
  tt_moments *m = NULL;
  TT_TRY(TT_ALLOC(m, 1));
  m->rows = rows;
  m->columns = columns;
  tt_err e = TT_ALLOC(m->weight, columns);
  if (!e) e = TT_ALLOC(m->mean, rows * columns);
  if (!e) e = TT_ALLOC(m->between, rows * columns);
  if (!e) e = TT_ALLOC(m->within, rows * columns);
  if (e) tt_moments_destroy(&m);
  *out = m;
  return e;
}

void tt_moments_destroy(tt_moments **m)
{
  if (!*m) return;
  tt_free_all(&(*m)->weight, &(*m)->mean, &(*m)->between, &(*m)->within, m);
}

void tt_moments_clear(tt_moments *m)
{
  size_t cells = (size_t)(m->rows * m->columns) * sizeof(double);
  memset(m->weight, 0, (size_t)m->columns * sizeof(double));
  memset(m->mean, 0, cells);
  memset(m->between, 0, cells);
  memset(m->within, 0, cells);
}

void tt_moments_set_weights(tt_moments *m, const tt_trained_ensemble *c)
{
  int64_t column = 0;
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t k = 0; k < tt_trained_ensemble_width(c); k++, column++) {
      m->weight[column] = 0.0;
      for (int64_t i = 0; i < c->ensemble[e].members; i++) {
        double w = c->weight[c->ensemble[e].first + i];
        m->weight[column] += w > 0.0 ? w : 0.0;
      }
    }
}

void tt_moments_add(tt_moments *m, int64_t column, int64_t k, double w, const float *mean,
                    const float *variance, int64_t stride)
{
  if (w <= 0.0) return;
  for (int64_t j = 0; j < k; j++) {
    int64_t c = column + j;
    double sum = m->weight[c] += w;
    for (int64_t i = 0; i < m->rows; i++) {
      int64_t cell = i * m->columns + c;
      double mu = (double)mean[j * stride + i], step = mu - m->mean[cell];
      m->mean[cell] += step * (w / sum);
      m->between[cell] += w * step * (mu - m->mean[cell]);
      if (variance) m->within[cell] += w * (double)variance[j * stride + i];
    }
  }
}

void tt_moments_mix(tt_moments *m, const tt_trained_ensemble *c, const float *members)
{
  int64_t width = tt_trained_ensemble_width(c);
  tt_moments_clear(m);
  for (int64_t e = 0; e < c->ensembles; e++) {
    const tt_ensemble *own = &c->ensemble[e];
    for (int64_t i = own->first; i < own->first + own->members; i++) {
      const float *mean = members + tt_prediction_place(width, m->rows, i, 0, 0);
      tt_moments_add(m, e * width, width, c->weight[i], mean, mean + width * m->rows, m->rows);
    }
  }
}

void tt_moments_of_used(tt_moments *m, const tt_ensemble_prediction *p, const tt_ensemble *e,
                        int64_t r, tt_uses_member *uses, void *context, int64_t row)
{
  int64_t rows = p->moments->rows;
  tt_moments_clear(m);
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    if (p->m->weight[i] <= 0.0 || !uses(context, row, i)) continue;
    const float *place = p->members + tt_prediction_place(p->width, rows, i, 0, r);
    tt_moments_add(m, 0, p->width, p->m->weight[i], place, place + p->width * rows, rows);
  }
}

tt_uncertainty tt_moments_at(const tt_moments *m, int64_t row, int64_t column)
{
  int64_t cell = row * m->columns + column;
  double sum = m->weight[column];
  if (sum <= 0.0) return (tt_uncertainty){NAN, NAN, NAN, NAN};
  double aleatoric = m->within[cell] / sum, epistemic = m->between[cell] / sum;
  if (epistemic < 0.0) epistemic = 0.0; /* rounding, where one member has almost all the weight */
  return (tt_uncertainty){m->mean[cell], sqrt(aleatoric + epistemic), sqrt(aleatoric),
                          sqrt(epistemic)};
}
