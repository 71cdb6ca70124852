/* trained_ensemble.h — trained members ready to predict: what model.h5 holds. Floor 1. */
#ifndef TT_TRAINED_ENSEMBLE_H
#define TT_TRAINED_ENSEMBLE_H
#include "core/model/calibration.h"
#include "core/model/cohort.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Ensembles share the network shape and the inputs. */
typedef struct tt_trained_ensemble {
  tt_model model;
  float variance_floor;
  int64_t ensembles;
  tt_ensemble *ensemble; /* [ensembles] */
  int64_t members;       /* G */
  float *w;              /* [G][P] */
  double *weight;        /* [G] share in the ensemble's averages; 0 for a diverged member */
  int8_t *status;        /* [G] tt_status */
  int32_t *index;        /* [G] number of the member in its ensemble */
  int32_t *snapshot;     /* [G] 1, 2, ...: which snapshot of it; 0: itself */
  tt_columns input, target;
  tt_scaler scaler;
  tt_calibration calibration; /* of its columns; all zero: none */
} tt_trained_ensemble;

/* Everything allocated but empty; owner: the caller. Local. Errors: MEM. */
tt_err tt_trained_ensemble_create(const tt_model *model, int64_t ensembles, int64_t members,
                                  tt_trained_ensemble **out);
void tt_trained_ensemble_destroy(tt_trained_ensemble **c);

/* Copies ensembles, names, numbers and scales of a job; weights, shares and status stay zero.
 * Errors: MEM. */
tt_err tt_trained_ensemble_from_cohort(const tt_cohort *c, const tt_dataset *d,
                                       tt_trained_ensemble **out);

/* Predicted columns of one ensemble, K q: quantity j of its target k is column k q + j of it. */
int64_t tt_trained_ensemble_width(const tt_trained_ensemble *c);

/* Number of predicted columns, ensemble by ensemble. */
int64_t tt_trained_ensemble_columns(const tt_trained_ensemble *c);

/* What column `column` of [0, K q) of an ensemble is called, at most room - 1 characters: the
 * target
 * ("y"), or the target with its level or class ("y q0.05", "digit=3", "digit entropy"). */
void tt_trained_ensemble_column_name(const tt_trained_ensemble *c, const tt_ensemble *e,
                                     int64_t column, char *text, size_t room);

/* What a job leaves: one committee for each of its cohorts, all with the same inputs, target table
 * and scales. Its members and predicted columns lie one committee after the other. */
typedef struct tt_trained_ensembles {
  int64_t count;
  tt_trained_ensemble **at; /* [count] */
} tt_trained_ensembles;

/* Places for `count` committees, NULL until the caller fills them. Errors: MEM. */
tt_err tt_trained_ensembles_create(int64_t count, tt_trained_ensembles *out);
void tt_trained_ensembles_destroy(tt_trained_ensembles *all); /* accepts a zeroed one */
int64_t tt_trained_ensembles_members(const tt_trained_ensembles *all);
int64_t tt_trained_ensembles_columns(const tt_trained_ensembles *all);
#ifdef __cplusplus
}
#endif
#endif
