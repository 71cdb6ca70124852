/* results_read.h — what results.h5 holds, for tables, figures and reports. Local. */
#ifndef TT_RESULTS_READ_H
#define TT_RESULTS_READ_H
#include "core/config/sweep.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "io/results/results.h"

/* NaN, or NULL, where the file has no value. G members, E epochs, C columns, T targets of the job.
 */
typedef struct tt_results {
  char *title; /* of the job, or NULL */
  int64_t members, epochs, columns, targets;
  int64_t rows;                        /* 0 = no test rows */
  char **owner;                        /* [G] name of the member's ensemble */
  char **network;                      /* [G]; NULL: all members have one network */
  char **ensemble, **target, **units;  /* [C] of each column */
  char **label;                        /* [C] or NULL */
  char **target_name;                  /* [T] */
  float *loss_train, *loss_validation; /* [G][E] NaN after the last epoch */
  tt_test_predictions test;
  double *rmse;   /* [C] of the ensembles on the test rows; for classes the square root of the Brier
                   score */
  int64_t levels; /* of central intervals; 0 = no test rows */
  double *level, *calibration; /* [levels]; [levels][C] fraction of test rows inside */
  int64_t coverage_levels;
  double *coverage_level, *coverage;                    /* the same */
  double *status;                                       /* [G] tt_status */
  double *best_epoch, *best_loss, *epochs_done, *index; /* [G] */
  double *weight; /* [G]; NaN: all members that did not diverge have the same weight */
  double *hyper[TT_HYPER_COUNT];                         /* [G] */
  double *member_score[TT_METRIC_COUNT];                 /* [G][T] on the test rows */
  double *score[TT_METRIC_COUNT], *oob[TT_METRIC_COUNT]; /* [C] of the ensembles; out of bag */
  double *baseline[TT_BASELINE_COUNT];                   /* [C] rmse on the test rows */
  double *test_rows, *oob_rows;                          /* [C] */
  tt_trials trials;                                      /* of a search */
  char *origin[TT_ORIGIN_COUNT];
  char *resolved;   /* the resolved configuration as YAML */
  int recalibrated; /* 1: with calibration.recalibrate: all */
  double seed, ranks, threads, wall_seconds;
  double repeated_rows, seen_rows; /* as in tt_dataset */
} tt_results;
/* Owner: the caller. Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_results_read_local(const char *file, tt_results **out);
void tt_results_destroy(tt_results **r);

/* The end of the ensemble of member `first`: the members of an ensemble are consecutive. */
int64_t tt_results_ensemble_end(const tt_results *k, int64_t first);
/* The score of a member for a column, NaN = none. */
double tt_results_member_score(const tt_results *k, tt_metric metric, int64_t member,
                               int64_t column);
/* 1 if a member predicts the noise of a column: it has a likelihood on the test rows. */
int tt_results_predict_noise(const tt_results *k, int64_t column);
#endif
