/* results.h — results.h5 (schema tutti-result-1.0) and the files of `tutti predict`. Floor 3.
 * Flat at the root, dimension scales everywhere: opens directly in xarray (both engines), h5py,
 * MATLAB, Julia. Errors of all: CANTCREAT, IO, MEM. */
#ifndef TT_RESULTS_H
#define TT_RESULTS_H
#include "core/model/cohort.h"
#include "core/model/state.h"
#include "core/model/trained_ensemble.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* Scores on some rows (core/stats/metrics.h), in the user's units. C columns as in
 * tt_trained_ensemble_columns: of the columns of one target all hold its score, but pinball, which
 * is that of the column's level; a member scores its own K targets. NaN where nothing could be
 * scored. */
typedef struct tt_scores {
  int64_t members, targets, columns;
  unsigned forecasts;                /* set of TT_FORECAST_BIT */
  double *member[TT_METRIC_COUNT];   /* [G][K] of each metric */
  double *ensemble[TT_METRIC_COUNT]; /* [C] */
  double *calibration_curve; /* [TT_INTERVALS][C] share of rows inside the central intervals */
  double *interval_coverage; /* [TT_COVERAGE_LEVELS][C] some of them */
  double *diversity;         /* [C] mean correlation of the errors of two members */
  int64_t *rows;             /* [C] rows scored */
  int64_t levels;            /* of conformal intervals */
  double *level;             /* [levels] */
  double *inside;            /* [levels][C] share of rows inside them */
} tt_scores;
/* Central intervals that have a table of their own, as numbers of tt_interval_level: 50, 90, 95 %.
 */
enum { TT_COVERAGE_LEVELS = 3 };
extern const int tt_coverage_level[TT_COVERAGE_LEVELS];

tt_err tt_scores_create(int64_t members, int64_t targets, int64_t columns, tt_scores **out);
/* Room for conformal intervals. Errors: MEM. */
tt_err tt_scores_add_conformal(tt_scores *s, int64_t levels, const double *level);
void tt_scores_destroy(tt_scores **s);

/* Those of several committees as one, members and columns one after the other, targets the largest
 * K, NaN where a member has fewer or a committee has none (part[i] NULL; one has some). Local;
 * owner: the caller. Errors: MEM. */
tt_err tt_scores_concat(const tt_trained_ensembles *all, const tt_scores *const *part,
                        tt_scores **out);

/* Predictions of the test rows.
 *   row   [rows] row numbers in the data file
 *   y, mean, total, aleatoric, epistemic   [rows][C] in the user's units, on rank 0 only */
typedef struct tt_test_predictions {
  int64_t rows;
  int64_t *row;
  double *y, *mean, *total, *aleatoric, *epistemic;
} tt_test_predictions;
void tt_test_predictions_free(tt_test_predictions *t);

/* The tables of several committees, over the same rows, as one; row numbers excepted. Where they
 * are NULL (not on rank 0) so is the whole. Local; owner: the caller. Errors: MEM. */
tt_err tt_test_predictions_concat(const tt_trained_ensembles *all, const tt_test_predictions *part,
                                  tt_test_predictions *out);

/* What each rank knows of one cohort. */
typedef struct tt_result_shard {
  const tt_cohort *cohort;
  const tt_state *mine; /* this rank's slice */
} tt_result_shard;

/* Collective. Write results.h5: from the states history, status, best epoch of each member; from
 * the rest (same on all ranks) hyper-parameters, scores, and the predictions of the test rows.
 * Histories are as long as the longest, NaN after the end of a member's cohort.
 *   part    [all->count]
 *   scores  of all committees together; NULL if there are no test rows
 *   oob     the same of the training rows, by the members that did not see them, or NULL
 *   test    of all together, or NULL */
tt_err tt_results_write(tt_comm *c, const char *file, const tt_result_shard *part,
                        const tt_trained_ensembles *all, const tt_scores *scores,
                        const tt_scores *oob, const tt_test_predictions *test,
                        const tt_provenance *from);

/* Collective. The scores alone, of all committees together: what `tutti evaluate --output` writes
 * (schema tutti-score-1.0). */
tt_err tt_scores_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                       const tt_scores *scores, const tt_provenance *from);

/* What tables and pictures need of a results.h5. C columns, G members, E epochs. */
typedef struct tt_results {
  char *title;                            /* of the job, or NULL */
  int64_t members, epochs, columns, rows; /* rows 0 = nothing was tested */
  char **owner;                           /* [G] name of the member's ensemble */
  char **ensemble, **target, **units;     /* [C] of each column */
  float *loss_train, *loss_validation;    /* [G][E] NaN after the end */
  tt_test_predictions test;
  double *rmse, *nll; /* [C] of the ensembles on the test rows, NaN = none; rmse of classes: root
                         of the mean squared error of the probabilities, of the Brier score */
  double *brier;      /* [C] NaN = no class */
  int64_t levels;     /* of central intervals; 0 = nothing was tested */
  double *level, *calibration; /* [levels]; [levels][C] share of test rows inside, NaN = none */
} tt_results;
/* Local; owner: the caller. Errors: NOINPUT, DATA, MEM. */
tt_err tt_results_read_local(const char *file, tt_results **out);
void tt_results_destroy(tt_results **r);

/* Predictions, written in pieces: every rank writes its own rows of a file whose size is known from
 * the start. create and close are collective; close verifies, votes and renames; destroy without
 * close leaves nothing behind. */
typedef struct tt_prediction_file tt_prediction_file;
typedef struct tt_prediction_shape {
  int64_t rows, columns, quantiles;
  const double *quantile; /* [quantiles] */
  int members;            /* also write every member's mean and variance */
} tt_prediction_shape;
tt_err tt_prediction_file_create(tt_comm *c, const char *file, const tt_trained_ensembles *model,
                                 const tt_prediction_shape *shape, const tt_provenance *from,
                                 tt_prediction_file **out);
/* Predictions of rows [first, first + rows) of the file, in the user's units; NULL = not predicted.
 * W is the largest tt_trained_ensemble_width. */
typedef struct tt_prediction_block {
  int64_t first, rows, columns;                 /* C columns */
  double *mean, *total, *aleatoric, *epistemic; /* [rows][C] */
  int64_t quantiles;
  const double *probability; /* [Q] borrowed */
  double *quantile;          /* [Q][rows][C] of the mixture of the members */
  int64_t levels;
  double *lower, *upper;                /* [levels][rows][C] conformal intervals */
  double *entropy, *mutual_information; /* [rows][C] in nats; NaN where there are no classes */
  int64_t width;
  float *member_mean, *member_variance; /* [G][rows][W] NaN beyond a member's own width */
} tt_prediction_block;

/* Collective: each rank passes its own rows of this round, perhaps none. What the shape and the
 * model of the file do not have is not read. */
tt_err tt_prediction_file_write(tt_prediction_file *f, const tt_prediction_block *b);
tt_err tt_prediction_file_close(tt_prediction_file **f);
void tt_prediction_file_destroy(tt_prediction_file **f);
#endif
