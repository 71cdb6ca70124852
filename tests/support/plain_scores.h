/* plain_scores.h — a second implementation of every row of the table of scores, computed from the
 * predictions of the members as its source defines it: slow, in double, without code of
 * core/formulas/acquisition.h. */
#ifndef TT_PLAIN_SCORES_H
#define TT_PLAIN_SCORES_H
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

/* Predictions of the members for one target. Numbers: mean and variance; classes: p
 * [members][classes]. */
typedef struct plain {
  int members, classes;
  const double *w, *mean, *variance, *p;
  double target_zero, best, floor, kappa;
  int minimize;
} plain;

static inline double plain_shares(const plain *o)
{
  double all = 0.0;
  for (int i = 0; i < o->members; i++) all += o->w[i];
  return all;
}

static inline double plain_mean(const plain *o, const double *value)
{
  double sum = 0.0;
  for (int i = 0; i < o->members; i++) sum += o->w[i] > 0.0 ? o->w[i] * value[i] : 0.0;
  return sum / plain_shares(o);
}

static inline double plain_epistemic(const plain *o)
{
  double mean = plain_mean(o, o->mean), sum = 0.0;
  for (int i = 0; i < o->members; i++)
    sum += o->w[i] > 0.0 ? o->w[i] * (o->mean[i] - mean) * (o->mean[i] - mean) : 0.0;
  return sqrt(sum / plain_shares(o));
}

static inline double plain_total(const plain *o)
{
  return sqrt(pow(plain_epistemic(o), 2.0) + plain_mean(o, o->variance));
}

static inline double plain_mean_p(const plain *o, int c)
{
  double sum = 0.0;
  for (int i = 0; i < o->members; i++)
    sum += o->w[i] > 0.0 ? o->w[i] * o->p[i * o->classes + c] : 0.0;
  return sum / plain_shares(o);
}

static inline double plain_term(double p) { return p > 0.0 ? -p * log(p) : 0.0; }

static inline double plain_entropy(const plain *o)
{
  double sum = 0.0;
  for (int c = 0; c < o->classes; c++) sum += plain_term(plain_mean_p(o, c));
  return sum;
}

static inline double plain_own_entropy(const plain *o)
{
  double sum = 0.0;
  for (int i = 0; i < o->members; i++)
    for (int c = 0; c < o->classes; c++)
      sum += o->w[i] > 0.0 ? o->w[i] * plain_term(o->p[i * o->classes + c]) : 0.0;
  return sum / plain_shares(o);
}

static inline double plain_disagreement(const plain *o)
{
  double most = 0.0, mean = o->classes ? 0.0 : plain_mean(o, o->mean);
  for (int i = 0; i < o->members; i++) {
    double d = 0.0;
    if (!(o->w[i] > 0.0)) continue;
    for (int c = 0; c < o->classes; c++) {
      double p = o->p[i * o->classes + c];
      if (p > 0.0) d += p * log(p / plain_mean_p(o, c));
    }
    if (!o->classes) d = fabs(o->mean[i] - mean);
    most = fmax(most, d);
  }
  return most;
}

static inline double plain_votes(const plain *o)
{
  double sum = 0.0;
  for (int c = 0; c < o->classes; c++) {
    double votes = 0.0;
    for (int i = 0; i < o->members; i++) {
      int best = 0;
      for (int k = 1; k < o->classes; k++)
        if (o->p[i * o->classes + k] > o->p[i * o->classes + best]) best = k;
      if (best == c) votes += o->w[i];
    }
    sum += plain_term(votes / plain_shares(o));
  }
  return sum;
}

/* The integral of the gain over a Gaussian, by Simpson's rule on both sides of `best`. */
static inline double plain_improvement(const plain *o)
{
  double sd = plain_total(o), mean = plain_mean(o, o->mean), sum = 0.0;
  double gain = o->minimize ? o->best - mean : mean - o->best;
  enum { STEPS = 1000 };
  double h = 14.0 / STEPS, from = gain > 14.0 * sd ? 14.0 : gain / sd;
  if (sd == 0.0) return fmax(gain, 0.0);
  for (int k = 0; k <= STEPS; k++) { /* z from -from on: gain + z sd > 0 */
    double z = -from + k * h * (from + 14.0) / 14.0;
    double value = (gain + z * sd) * exp(-0.5 * z * z) / sqrt(2.0 * acos(-1.0));
    sum += value * (k == 0 || k == STEPS ? 1.0 : k % 2 ? 4.0 : 2.0);
  }
  return from < -14.0 ? 0.0 : sum * h * (from + 14.0) / 14.0 / 3.0;
}

/* Whether a score grows with the noise of the labels. */
static inline int plain_grows_with_noise(const char *name)
{
  return !strcmp(name, "total_std") || !strcmp(name, "entropy") ||
         !strcmp(name, "expected_improvement") || !strcmp(name, "confidence_bound");
}

static inline double plain_score(const char *name, const plain *o)
{
  if (!strcmp(name, "epistemic_std")) return plain_epistemic(o);
  if (!strcmp(name, "relative_std"))
    return plain_epistemic(o) / (fabs(plain_mean(o, o->mean) - o->target_zero) + o->floor);
  if (!strcmp(name, "total_std")) return plain_total(o);
  if (!strcmp(name, "disagreement")) return plain_disagreement(o);
  if (!strcmp(name, "entropy")) return plain_entropy(o);
  if (!strcmp(name, "bald")) return plain_entropy(o) - plain_own_entropy(o);
  if (!strcmp(name, "vote_entropy")) return plain_votes(o);
  if (!strcmp(name, "expected_improvement")) return plain_improvement(o);
  if (!strcmp(name, "confidence_bound"))
    return (o->minimize ? -1.0 : 1.0) * plain_mean(o, o->mean) + o->kappa * plain_total(o);
  if (!strcmp(name, "epistemic_improvement") || !strcmp(name, "epistemic_bound")) {
    double none[64] = {0}; /* members without noise */
    plain quiet = *o;
    quiet.variance = none;
    return plain_score(strstr(name, "bound") ? "confidence_bound" : "expected_improvement", &quiet);
  }
  fprintf(stderr, "score %s has no plain formula yet\n", name);
  fail();
  return NAN;
}
#endif
