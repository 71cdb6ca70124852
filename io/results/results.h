/* results.h — results.h5 (schema tutti-result-1.0) and the files of `tutti predict`.
 * Flat at the root, dimension scales everywhere: opens directly in xarray (both engines), h5py,
 * MATLAB, Julia. Errors of all functions: CANTCREAT, IO, MEM. */
#ifndef TT_RESULTS_H
#define TT_RESULTS_H
#include "core/model/cohort.h"
#include "core/model/state.h"
#include "core/model/trained_ensemble.h"
#include "core/stats/baselines.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "io/results/trials.h"
#include "mpi/comm.h"

/* Scores on some rows (core/stats/metrics.h), in the user's units. C columns as in
 * tt_trained_ensemble_columns: all columns of one target have the score of the target, except
 * pinball, which belongs to the level of the column; a member has scores of its own K targets. NaN
 * where there is no score. */
typedef struct tt_scores {
  int64_t members, targets, columns;
  unsigned forecasts;                /* set of TT_FORECAST_BIT */
  double *member[TT_METRIC_COUNT];   /* [G][K] of each metric */
  double *ensemble[TT_METRIC_COUNT]; /* [C] */
  double *calibration_curve; /* [TT_INTERVALS][C] fraction of rows inside the central intervals */
  double *interval_coverage; /* [TT_COVERAGE_LEVELS][C] the same for tt_coverage_level */
  double *diversity;         /* [C] mean correlation of the errors of two members */
  double *baseline; /* [TT_BASELINE_COUNT][C] rmse of simple predictors, NaN: not computed */
  int baselines;    /* 1: some are */
  int64_t *rows;    /* [C] rows scored */
  int64_t levels;   /* of conformal intervals */
  double *level;    /* [levels] */
  double *inside;   /* [levels][C] fraction of rows inside them */
  int64_t groups;   /* of `by`: all have C / groups columns; 0: none */
} tt_scores;
/* Central intervals of interval_coverage, as arguments of tt_interval_level: 50, 90, 95 %.
 */
enum { TT_COVERAGE_LEVELS = 3 };
extern const int tt_coverage_level[TT_COVERAGE_LEVELS];

tt_err tt_scores_create(int64_t members, int64_t targets, int64_t columns, tt_scores **out);
/* Allocate the arrays of conformal intervals. Errors: MEM. */
tt_err tt_scores_add_conformal(tt_scores *s, int64_t levels, const double *level);
void tt_scores_destroy(tt_scores **s);

/* Join the scores of several trained ensembles: members and columns one after the other, targets
 * the largest K, NaN where a member has fewer targets or a trained ensemble has no scores (part[i]
 * NULL; at least one is not NULL). Local; owner: the caller. Errors: MEM. */
tt_err tt_scores_concat(const tt_trained_ensembles *all, const tt_scores *const *part,
                        tt_scores **out);

/* The tables of tt_scores with one column per predicted column. field, rows */
#define TT_SCORE_TABLES(X)                                                                         \
  X(calibration_curve, TT_INTERVALS)                                                               \
  X(interval_coverage, TT_COVERAGE_LEVELS)                                                         \
  X(diversity, 1)                                                                                  \
  X(baseline, TT_BASELINE_COUNT)

/* Labels and predictions of the test rows: one row is an array [rows][C] and a variable of
 * results.h5.
 * field, variable, tt_metric_units, meaning */
#define TT_TEST_VARIABLES(X)                                                                       \
  X(y, "y_true", TARGET, "measured value")                                                         \
  TT_PREDICTION_COLUMNS(X)                                                                         \
  X(pit, "y_pit", DIMENSIONLESS,                                                                   \
    "probability integral transform: predicted probability of at most the measured value; for "    \
    "counts the mean of that and of the probability of less")                                      \
  X(z, "y_z_score", DIMENSIONLESS, "(measured value - mean) / standard deviation")
#define TT_PREDICTION_COLUMNS(X)                                                                   \
  X(mean, "y_pred_mean", TARGET, "predicted mean")                                                 \
  X(total, "y_pred_std", TARGET, "standard deviation")                                             \
  X(aleatoric, "y_pred_std_aleatoric", TARGET, "standard deviation of the noise in the data")      \
  X(epistemic, "y_pred_std_epistemic", TARGET, "standard deviation between the members")

enum {
#define X(field, ...) TT_TEST_##field,
  TT_TEST_VARIABLES(X)
#undef X
      TT_TEST_VARIABLE_COUNT
};

/* In the user's units, on rank 0 only; NaN where there is no value (pit and z of quantiles and
 * classes).
 *   row  [rows] row numbers in the data file */
typedef struct tt_test_predictions {
  int64_t rows;
  int64_t *row;
  int32_t *group;        /* [rows] of `by`; NULL: none */
  const tt_row_ids *ids; /* of all rows of the data, borrowed; NULL: none */
#define X(field, ...) double *field;
  TT_TEST_VARIABLES(X)
#undef X
} tt_test_predictions;
/* The arrays in the order of the table. */
void tt_test_predictions_arrays(tt_test_predictions *t, double **array[TT_TEST_VARIABLE_COUNT]);
void tt_test_predictions_free(tt_test_predictions *t);

/* Join the predictions of several cohorts for the same rows, except out->row, which is not set.
 * Arrays that are NULL (not on rank 0) stay NULL. Local; owner: the caller. Errors: MEM. */
tt_err tt_test_predictions_concat(const tt_trained_ensembles *all, const tt_test_predictions *part,
                                  tt_test_predictions *out);

/* Members of a cohort that stand together in the files, and this rank's states of the cohort. */
typedef struct tt_result_shard {
  const tt_cohort *cohort;
  const tt_state *mine; /* this rank's slice of the cohort */
  tt_slice members;     /* these members, numbered within the cohort */
  tt_slice own;         /* those of them on this rank, numbered from members.first on */
} tt_result_shard;
/* Number of the first own member in the state. */
static inline int64_t tt_result_shard_first(const tt_result_shard *s)
{
  return s->own.count ? s->members.first + s->own.first - s->mine->first : 0;
}

/* Collective. Write results.h5: history, status and best epoch of each member from the states;
 * hyper-parameters, scores and predictions of the test rows from the other arguments (same on all
 * ranks). All histories have the length of the longest, NaN after the last epoch of a cohort.
 *   file    NULL: a file in memory without data (tt_h5_create)
 *   shard   [tt_trained_ensembles_networks]
 *   scores  of all cohorts; NULL if there are no test rows
 *   oob     scores of the training rows by the members that were not trained on them, or NULL
 *   test    of all cohorts, or NULL
 *   trials  of a search, or NULL */
tt_err tt_results_write(tt_comm *c, const char *file, const tt_result_shard *shard,
                        const tt_trained_ensembles *all, const tt_scores *scores,
                        const tt_scores *oob, const tt_test_predictions *test,
                        const tt_trials *trials, const tt_provenance *provenance);

/* Collective. Write only the scores, of all cohorts: the file of `tutti evaluate --output`
 * (schema tutti-score-1.0). */
tt_err tt_scores_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                       const tt_scores *scores, const tt_provenance *provenance);

/* Predictions, written in pieces: every rank writes its own rows of a file whose size is known at
 * create. create and close are collective; close verifies, votes and renames; destroy without close
 * removes the temporary file. */
typedef struct tt_prediction_file tt_prediction_file;
typedef struct tt_prediction_shape {
  int64_t rows, columns, quantiles;
  const double *quantile;      /* [quantiles] */
  int members;                 /* also write every member's mean and variance */
  int jacobian;                /* also write the derivatives of mean and standard deviations */
  int extrapolation;           /* also write the distance from the training rows */
  int leverage;                /* also write the epistemic part compared with training rows */
  int no_entropy;              /* compute no entropy of classes */
  const tt_row_ids *ids;       /* of the rows, on rank 0; zeroed: none */
  int64_t groups;              /* different values of the columns of `by` in the rows; 0: no `by` */
  const int32_t *group_of_row; /* [rows] */
  const char *const *group_name; /* [groups] on rank 0 */
  const int8_t *group_own;       /* [groups] on rank 0; 1: the group has an ensemble of its own */
  const char *by_columns;        /* list of these columns */
} tt_prediction_shape;
tt_err tt_prediction_file_create(tt_comm *c, const char *file, const tt_trained_ensembles *model,
                                 const tt_prediction_shape *shape, const tt_provenance *provenance,
                                 tt_prediction_file **out);
/* Derivatives by the D inputs, in units of the column per unit of the input: arrays [rows][C][D]
 * with the names of TT_PREDICTION_COLUMNS. */
typedef struct tt_jacobian {
  double *mean, *total, *aleatoric, *epistemic;
} tt_jacobian;
/* Predictions of rows [first, first + rows) of the file, in the user's units; NULL = not predicted.
 * W is the largest tt_trained_ensemble_width. */
typedef struct tt_prediction_block {
  int64_t first, rows, columns;                 /* C columns */
  const int64_t *row;                           /* [rows] row numbers in the data file, borrowed */
  double *mean, *total, *aleatoric, *epistemic; /* [rows][C] */
  int64_t quantiles;
  const double *probability; /* [Q] borrowed */
  double *quantile;          /* [Q][rows][C] of the mixture of the members */
  int64_t levels;
  double *lower, *upper;                /* [levels][rows][C] conformal intervals */
  double *entropy, *mutual_information; /* [rows][C] in nats; NaN where there are no classes */
  int64_t width;
  double *member_mean, *member_variance; /* [G][rows][W] NaN beyond a member's own width */
  tt_jacobian jacobian;                  /* [rows][C][D] */
  double *extrapolation; /* [rows] largest distance of an input beyond the range of the training
                          * rows, in units of the range */
  double *leverage;      /* [rows][C] epistemic standard deviation / that of training rows */
} tt_prediction_block;

/* Collective: each rank passes its own rows, possibly none. Arrays that the shape and the model of
 * the file do not have are ignored. */
tt_err tt_prediction_file_write(tt_prediction_file *f, const tt_prediction_block *b);
tt_err tt_prediction_file_close(tt_prediction_file **f);
void tt_prediction_file_destroy(tt_prediction_file **f);
#endif
