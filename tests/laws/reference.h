/* reference.h — networks, losses and optimizers written again from the textbook, in double and as
 * plainly as possible: what the laws hold the engines to. Gradients are finite differences. */
#ifndef TT_REFERENCE_H
#define TT_REFERENCE_H
#include "problem.h"

static inline double ref_softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }

static inline double ref_activation(tt_activation a, double x)
{
  switch (a) {
  case TT_ACT_identity: return x;
  case TT_ACT_relu: return fmax(x, 0.0);
  case TT_ACT_leaky_relu: return fmax(x, 0.01 * x);
  case TT_ACT_tanh: return tanh(x);
  case TT_ACT_sigmoid: return 1.0 / (1.0 + exp(-x));
  case TT_ACT_silu: return x / (1.0 + exp(-x));
  case TT_ACT_gelu: return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
  case TT_ACT_softplus: return ref_softplus(x);
  case TT_ACT_elu: return x > 0.0 ? x : expm1(x);
  default: break;
  }
  fprintf(stderr, "no textbook formula for activation %s\n", tt_choice_activation[a]);
  fail();
  return NAN;
}

/* One target: o0 the mean, o1 the raw variance; 1 / K = share. */
static inline double ref_loss(tt_loss l, double o0, double o1, double y, double floor, double share)
{
  double v = ref_softplus(o1) + floor, e = y - o0;
  switch (l) {
  case TT_LOSS_mse: return e * e * share;
  case TT_LOSS_gaussian_nll: return 0.5 * (log(v) + e * e / v);
  default: break;
  }
  fprintf(stderr, "no textbook formula for loss %s\n", tt_choice_loss[l]);
  fail();
  return NAN;
}

static inline tt_output ref_output(tt_loss loss)
{
  switch (loss) {
#define X(name, output, source) \
  case TT_LOSS_##name: return TT_OUTPUT_##output;
    TT_LOSSES(X)
#undef X
  default: return TT_OUTPUT_mean;
  }
}

enum { REF_WIDEST = 64 };

/* Outputs of the network with weights w[P] for one row. */
static inline void ref_forward(const tt_model *m, const double *w, const float *x, double *out)
{
  double in[REF_WIDEST];
  for (int64_t i = 0; i < m->inputs; i++) in[i] = (double)x[i];
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    for (int64_t o = 0; o < layer->out; o++) {
      double z = w[layer->bias + o];
      for (int64_t i = 0; i < layer->in; i++) z += w[layer->weight + o * layer->in + i] * in[i];
      out[o] = ref_activation(layer->activation, z);
    }
    memcpy(in, out, (size_t)layer->out * sizeof *in);
  }
}

/* Weighted loss of some rows of the problem for its ensemble e, divided by their number. */
static inline double ref_batch_loss(const problem *p, int64_t e, const double *w,
                                    const int32_t *row, int64_t rows)
{
  const tt_model *m = &p->c.model;
  double sum = 0.0, out[REF_WIDEST];
  for (int64_t r = 0; r < rows; r++) {
    double l = 0.0, weight = p->d->weight ? (double)p->d->weight[row[r]] : 1.0;
    ref_forward(m, w, p->d->x + row[r] * p->d->inputs, out);
    for (int64_t k = 0; k < m->targets; k++) {
      double y = (double)p->d->y[row[r] * p->d->targets + p->c.ensemble[e].column[k]];
      double o1 = m->output == TT_OUTPUT_mean_variance ? out[m->targets + k] : 0.0;
      l += ref_loss(p->c.loss, out[k], o1, y, (double)p->c.variance_floor,
                    1.0 / (double)m->targets);
    }
    sum += weight * l;
  }
  return sum / (double)rows;
}

/* Central differences of fourth order: error about 1e-11 for smooth networks. */
static inline void ref_gradient(const problem *p, int64_t e, double *w, const int32_t *row,
                                int64_t rows, double *g)
{
  const double h = 1e-4;
  for (int64_t i = 0; i < p->c.model.params; i++) {
    double keep = w[i], near, far;
    w[i] = keep + h, near = ref_batch_loss(p, e, w, row, rows);
    w[i] = keep - h, near -= ref_batch_loss(p, e, w, row, rows);
    w[i] = keep + 2 * h, far = ref_batch_loss(p, e, w, row, rows);
    w[i] = keep - 2 * h, far -= ref_batch_loss(p, e, w, row, rows);
    w[i] = keep;
    g[i] = (8.0 * near - far) / (12.0 * h);
  }
}

/* One step t (from 1) of one member by the book; s is [2][P], zero at first. */
static inline void ref_step(const tt_cohort *c, const tt_hyper *h, int64_t t, double *w, double *g,
                            double *s)
{
  int64_t n = c->model.params;
  double norm = 0.0, clip = (double)h->clip_norm, lr = (double)h->learning_rate;
  double b1 = (double)h->beta1, b2 = (double)h->beta2;
  for (int64_t i = 0; i < n; i++) norm += g[i] * g[i];
  norm = sqrt(norm) + 1e-6;
  for (int64_t i = 0; i < n; i++) {
    double *m = &s[i], *v = &s[n + i], decay = lr * (double)h->weight_decay;
    double gi = g[i] * (clip > 0.0 && norm > clip ? clip / norm : 1.0) + (double)h->l2 * w[i];
    switch (c->optimizer) {
    case TT_OPT_sgd:
      *m = (double)h->momentum * *m + gi;
      w[i] -= lr * (c->nesterov ? gi + (double)h->momentum * *m : *m);
      continue;
    case TT_OPT_adamw:
      w[i] -= decay * w[i];
      break;
    case TT_OPT_adam: break;
    default:
      fprintf(stderr, "no textbook optimizer %s\n", tt_choice_optimizer[c->optimizer]);
      fail();
    }
    *m = b1 * *m + (1.0 - b1) * gi;
    *v = b2 * *v + (1.0 - b2) * gi * gi;
    double correct1 = 1.0 - pow(b1, (double)t), correct2 = 1.0 - pow(b2, (double)t);
    w[i] -= lr * (*m / correct1) / (sqrt(*v / correct2) + (double)h->epsilon);
  }
}
#endif
