/* result_details.h — what results.h5 holds beyond the losses and test rows of tt_results: members,
 * scores and provenance, for reports. Local. */
#ifndef TT_RESULT_DETAILS_H
#define TT_RESULT_DETAILS_H
#include "core/config/sweep.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "io/results/results.h"

/* NaN, or NULL, where the file has no value. G members, C columns, T targets of the job. */
typedef struct tt_result_details {
  int64_t members, columns, targets, coverage_levels;
  double *status;                                                         /* [G] tt_status */
  double *best_epoch, *best_loss, *epochs_done, *attempts, *index, *head; /* [G] */
  double *weight; /* [G]; NaN: all members that did not diverge have the same weight */
  double *hyper[TT_HYPER_COUNT];                         /* [G] */
  double *member_score[TT_METRIC_COUNT];                 /* [G][T] on the test rows */
  double *score[TT_METRIC_COUNT], *oob[TT_METRIC_COUNT]; /* [C] of the ensembles; out of bag */
  double *baseline[TT_BASELINE_COUNT];                   /* [C] rmse on the test rows */
  double *correlation, *test_rows, *oob_rows;            /* [C] */
  double *coverage_level, *coverage;                     /* [levels], [levels][C] */
  char **target;                                         /* [T] names */
  char **label;                                          /* [C] or NULL */
  char **network;   /* [G] of each member; NULL: all members have one network */
  tt_trials trials; /* of a search */
  char *origin[TT_ORIGIN_COUNT];
  char *resolved;   /* the resolved configuration as YAML */
  int recalibrated; /* 1: with calibration.recalibrate: all */
  double seed, ranks, threads, wall_seconds, epochs_planned, epochs_trained;
  double repeated_rows, seen_rows; /* as in tt_dataset */
} tt_result_details;

/* `results` is the same file, already read. Owner: the caller. Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_result_details_read_local(const char *file, const tt_results *results,
                                    tt_result_details **out);
void tt_result_details_destroy(tt_result_details **d);

/* The score of a member for a column, NaN = none. */
double tt_result_member_score(const tt_results *k, const tt_result_details *d, tt_metric metric,
                              int64_t member, int64_t column);
/* 1 if a member predicts the noise of a column: it has a likelihood on the test rows. */
int tt_result_predicts_noise(const tt_results *k, const tt_result_details *d, int64_t column);
#endif
