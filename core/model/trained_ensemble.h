/* trained_ensemble.h — trained members that are ready to predict: the content of model.h5. */
#ifndef TT_TRAINED_ENSEMBLE_H
#define TT_TRAINED_ENSEMBLE_H
#include "core/model/calibration.h"
#include "core/model/cohort.h"
TT_BEGIN_C

/* Members with the same network. */
typedef struct tt_network {
  tt_model model;
  char label[TT_LABEL_SIZE]; /* of the job that trains it; "": none, or read from a file */
  int64_t first, members;    /* [first, first + members) of the trained ensemble */
  float *w;                  /* [members][P], in its w */
} tt_network;

/* Ensembles whose members have the same network; or one ensemble with members of several networks,
 * which have the same inputs, targets, output and least variance. */
typedef struct tt_trained_ensemble {
  tt_model model;      /* of several networks the first one */
  int64_t networks;    /* 0: all members have `model` */
  tt_network *network; /* [networks] in the order of their members */
  float variance_floor;
  int64_t ensembles;
  tt_ensemble *ensemble; /* [ensembles] */
  int64_t members;       /* G */
  float *w;              /* [G][P]; of several networks, one after the other; NULL: not here */
  double *weight;        /* [G] member weight; 0 = not used (diverged, or by `combine`) */
  int8_t *status;        /* [G] tt_status */
  int32_t *index;        /* [G] number of the member in its ensemble */
  int32_t *head;         /* [G] 1, 2, ...: number of a head; 0: the member has one output layer */
  int32_t *cohort;       /* [G] cohort that trained it */
  tt_columns input, target;
  tt_scaler scaler;
  double *x_low, *x_high;    /* [F] smallest and largest normalized input of the training rows; NaN:
                           * not known (older files) */
  double *typical_epistemic; /* [C] root mean square of the normalized epistemic standard deviation
                              * over training rows; NULL: not known */
  tt_calibration calibration; /* of the columns; all zero: none */
  tt_by_groups *groups; /* of `by`; NULL: none. They have the scales and ranges of each ensemble;
                         * `scaler` is the one of the first ensemble */
} tt_trained_ensemble;

/* Allocate all arrays, filled with zeros, for ensembles of one network or several; network[] gives
 * model and members of each. Owner: the caller. Local. Errors: MEM. */
tt_err tt_trained_ensemble_create_mixed(int64_t networks, const tt_network *network,
                                        int64_t ensembles, tt_trained_ensemble **out);
void tt_trained_ensemble_destroy(tt_trained_ensemble **c);

/* Number of networks, at least 1; and the numbers of all parameters. */
int64_t tt_trained_ensemble_networks(const tt_trained_ensemble *c);
int64_t tt_trained_ensemble_parameters(const tt_trained_ensemble *c);
/* The members of network `number` as a trained ensemble with one network; arrays are those of c.
 *   own  of several networks: the ensemble of the result */
tt_trained_ensemble tt_trained_ensemble_part(const tt_trained_ensemble *c, int64_t number,
                                             tt_ensemble *own);
/* Network `number`, and its first member. */
const tt_model *tt_trained_ensemble_model(const tt_trained_ensemble *c, int64_t number);
int64_t tt_trained_ensemble_first(const tt_trained_ensemble *c, int64_t number);
/* Weights [P] of a member, and the number of its network. */
const float *tt_trained_ensemble_weights(const tt_trained_ensemble *c, int64_t member,
                                         int64_t *number);

/* Copy ensembles, names, member numbers and scales of a part of a cohort, or of the parts of an
 * ensemble of several networks. weight and status stay zero; w is NULL, the ranks have those of
 * their own members. Errors: MEM. */
tt_err tt_trained_ensemble_from_parts(int64_t parts, const tt_cohort_part *part,
                                      const tt_dataset *d, tt_trained_ensemble **out);

/* 1 if the ranges of the inputs are known. */
int tt_trained_ensemble_knows_ranges(const tt_trained_ensemble *c);
/* How far the farthest of the normalized inputs x [F] is beyond its range in the training rows, in
 * units of the range (of an input with one value in all training rows, in units of its scale); 0:
 * all are inside.
 *   input  the farthest one, if it is outside; may be NULL */
double tt_trained_ensemble_outside(const tt_trained_ensemble *c, const float *x, int64_t *input);

/* Number of targets of one ensemble: those of the networks, or with components of the targets
 * (data.targets_pca) all T. */
int64_t tt_trained_ensemble_targets(const tt_trained_ensemble *c);

/* Means and variances of the T normalized targets from those of the amplitudes of the components,
 * which are independent; the residual is added to the variances.
 *   amplitude, variance  [L][stride] with `rows` values each
 *   mean, spread         [T][stride] */
void tt_trained_ensemble_expand(const tt_trained_ensemble *c, int64_t rows, int64_t stride,
                                const float *amplitude, const float *variance, float *mean,
                                float *spread);

/* Number of columns of one ensemble, K q: quantity j of target k is column k q + j of the ensemble.
 */
int64_t tt_trained_ensemble_width(const tt_trained_ensemble *c);

/* Place of a number in predictions [members][2][width][rows], the layout of all engines: the mean
 * of quantity `quantity` of a member in a row; with quantity + width its variance. */
TT_HD int64_t tt_prediction_place(int64_t width, int64_t rows, int64_t member, int64_t quantity,
                                  int64_t row)
{
  return (member * 2 * width + quantity) * rows + row;
}

/* Number of columns of all ensembles; the columns of an ensemble are contiguous. */
int64_t tt_trained_ensemble_columns(const tt_trained_ensemble *c);

/* Replace *text by the name of column `column` of [0, K q) of an ensemble: the target ("y"), or the
 * target with its level or class ("y q0.05", "digit=3", "digit entropy"). Errors: MEM. */
tt_err tt_trained_ensemble_column_name(const tt_trained_ensemble *c, const tt_ensemble *e,
                                       int64_t column, char **text);

/* Result of a job: trained ensembles in the order of the job file, one for each part of
 * tt_cohorts_parts, or for those of an ensemble of several networks; all with the same inputs,
 * target table and scales. Members and columns are numbered one trained ensemble after the other.
 */
typedef struct tt_trained_ensembles {
  int64_t count;
  tt_trained_ensemble **at; /* [count] */
  uint64_t hash;            /* of the content of the file they were read from; 0: none */
} tt_trained_ensembles;

/* Allocate `count` pointers; they are NULL until the caller sets them. Errors: MEM. */
tt_err tt_trained_ensembles_create(int64_t count, tt_trained_ensembles *out);
void tt_trained_ensembles_destroy(tt_trained_ensembles *all); /* accepts a zeroed one */
int64_t tt_trained_ensembles_members(const tt_trained_ensembles *all);
int64_t tt_trained_ensembles_networks(const tt_trained_ensembles *all);
int64_t tt_trained_ensembles_columns(const tt_trained_ensembles *all);

/* Each network of each of them as a trained ensemble with one network. */
typedef struct tt_trained_parts {
  int64_t count;
  tt_trained_ensemble *at; /* [count] */
  tt_ensemble *own;        /* [count] */
} tt_trained_parts;
/* Arrays of `all` are borrowed; owner of the rest: the caller. Errors: MEM. */
tt_err tt_trained_parts_create(const tt_trained_ensembles *all, tt_trained_parts *out);
void tt_trained_parts_free(tt_trained_parts *p); /* accepts a zeroed one */
TT_END_C
#endif
