/* mixture.h — the predicted distribution of an ensemble: a mixture of Gaussians or of Poisson
 * distributions. All in double.
 *
 * n components with weights w >= 0, which need not add up to 1; a component of weight 0 is not
 * read. Results are NaN if no weight is above 0. */
#ifndef TT_MIXTURE_H
#define TT_MIXTURE_H
#include "core/base/host_device.h"
#include "core/formulas/transform.h"

#include <stdint.h>
TT_BEGIN_C

/* Recalibrate a mixture of Gaussians: multiply its standard deviation by `factor` > 0, add the
 * variance `noise` and keep its mean. With g = min(factor, 1), mu = sum w mean / sum w,
 * E = sum w (mean - mu)^2 / sum w:
 *   mean     <- mu + g (mean - mu)
 *   variance <- factor^2 variance + (factor^2 - g^2) E + noise
 * The changes are continuous, and none for factor 1 and noise 0. A factor above 1 says that the
 * components are too narrow, and makes them wider: means that move apart would leave gaps between
 * components of little variance, and none at all for points. Returns (factor^2 - g^2) E. */
double tt_gaussian_mixture_recalibrate(double factor, double noise, int64_t n, const double *w,
                                       double *mean, double *variance);

/* P(X <= y); variance 0 is a point mass. */
double tt_gaussian_mixture_cdf(int64_t n, const double *w, const double *mean,
                               const double *variance, double y);

/* Smallest x with P(X <= x) >= q, q in (0, 1), by bisection to a relative 1e-12. */
double tt_gaussian_mixture_quantile(int64_t n, const double *w, const double *mean,
                                    const double *variance, double q);

/* -ln of the density at y; NaN if a component is a point mass. */
double tt_gaussian_mixture_nll(int64_t n, const double *w, const double *mean,
                               const double *variance, double y);

/* CRPS of N(y + error, variance); variance 0 is a point mass. Gneiting et al. 2005, eq. 5. */
double tt_crps_gaussian(double error, double variance);

/* CRPS of a mixture of Gaussians: E|X - y| - E|X - X'| / 2 (Grimit, Gneiting, Berrocal & Johnson
 * 2006, eq. 5), exact up to rounding. The second term is the closed form over all pairs, or, if
 * that takes fewer operations, the integral of F (1 - F) by the trapezoidal rule with steps of half
 * the smallest standard deviation: for analytic functions its error decreases exponentially, here
 * to exp(-4 pi^2) = 7e-18 of the integral. Points are sorted.
 *   scratch  [2][n] for more than TT_CRPS_PAIRS components */
enum { TT_CRPS_PAIRS = 128 };
double tt_crps_mixture(int64_t n, const double *w, const double *mean, const double *variance,
                       double y, double *scratch);

/* CRPS of X = f^-1(T) at y, where T is the mixture and f the transform: the integral of
 * (F(x) - [x >= y])^2 over x, as an integral over t with the slope of f. Gauss-Legendre rules of 8
 * points on pieces of at most two of the smallest standard deviations (at most TT_CRPS_PIECES on
 * each side of y). At least one component has a variance above 0. */
enum { TT_CRPS_PIECES = 256 };
double tt_crps_transformed_mixture(int64_t n, const double *w, const double *mean,
                                   const double *variance, tt_transform transform, double lambda,
                                   double y);

/* P(X <= k) of a Poisson distribution with this rate: the regularized incomplete gamma function
 * Q(floor(k) + 1, rate), by its series or its continued fraction (Abramowitz & Stegun 6.5.29 and
 * 6.5.31); from a rate of 1e8 on by the normal approximation, with an error below 1e-7. 0 for k <
 * 0. */
double tt_poisson_cdf(double rate, double k);
double tt_poisson_mixture_cdf(int64_t n, const double *w, const double *rate, double k);

/* Smallest whole number k with P(X <= k) >= q, q in (0, 1). */
double tt_poisson_mixture_quantile(int64_t n, const double *w, const double *rate, double q);

/* -ln of the mean of rate^y e^-rate / y!, y >= 0, also a fraction. */
double tt_poisson_mixture_nll(int64_t n, const double *w, const double *rate, double y);
TT_END_C
#endif
