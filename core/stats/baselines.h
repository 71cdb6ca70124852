/* baselines.h — simple predictors of a number, for comparison with the networks: trained on the
 * same rows, scored on the same rows. Floor 1: no files, no MPI. */
#ifndef TT_BASELINES_H
#define TT_BASELINES_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

/* label, name in a sentence, advice if it is better than the networks */
#define TT_BASELINES(X)                                                                            \
  X(mean, "the mean of the training labels",                                                       \
    "The inputs may say nothing about the target, or there are too few rows")                      \
  X(ridge, "a ridge regression",                                                                   \
    "The target is nearly linear in the inputs: try model.hidden: [] or train.weight_decay")       \
  X(neighbor, "the nearest training row",                                                          \
    "The target has steps or fast oscillations: try model.front: [ple 48], or data.categories")    \
  X(gaussian_process, "a Gaussian process",                                                        \
    "It suits few rows and a smooth target: try model: auto, or use a Gaussian process")

typedef enum tt_baseline {
#define X(label, ...) TT_BASELINE_##label,
  TT_BASELINES(X)
#undef X
      TT_BASELINE_COUNT
} tt_baseline;
typedef struct tt_baseline_text {
  const char *label, *name, *advice;
} tt_baseline_text;
extern const tt_baseline_text tt_baseline_table[TT_BASELINE_COUNT];

/* Rows of normalized numbers. */
typedef struct tt_baseline_rows {
  int64_t train, test, inputs; /* n, m, D */
  const double *x, *y;         /* [n][D], [n] */
  const double *x_test;        /* [m][D] */
} tt_baseline_rows;

/* 0: there are fewer than 2 training rows, or it would take more than about 4e9 products. Only the
 * numbers of rows and inputs are read. */
int tt_baseline_is_possible(tt_baseline baseline, const tt_baseline_rows *rows);

/* Predict the test rows with a possible baseline: prediction[m]; NaN if it cannot be fitted.
 *   neighbor  by the Euclidean distance of the normalized inputs
 *   ridge     with a constant; the strength has the lowest leave-one-out error
 *   gaussian_process  squared exponential kernel with a length for each of at most 32 inputs, and a
 *             noise, by the marginal likelihood of at most 300 training rows; for at most 2,000
 * Local. Errors: MEM. */
tt_err tt_baseline_predict(tt_baseline baseline, const tt_baseline_rows *rows, double *prediction);

/* Bytes that the possible baselines allocate at most, one after the other. */
double tt_baseline_bytes(const tt_baseline_rows *rows);
TT_END_C
#endif
