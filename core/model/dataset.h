/* dataset.h — samples in memory: normalized inputs and targets with their names, units, scales and
 * split. No files, no MPI (io/data/data.h reads them). */
#ifndef TT_DATASET_H
#define TT_DATASET_H
#include "core/base/err.h"
#include "core/base/text.h"
#include "core/columns/net_inputs.h"
#include "core/columns/row_ids.h"
#include "core/config/choices.h"
#include "core/model/partition.h"

#include <stdint.h>
TT_BEGIN_C

/* Names and units of columns; each text is owned. Missing names become x0, x1, ... y0, ... */
typedef struct tt_columns {
  int64_t count;
  char **name;    /* [count] */
  char **units;   /* [count], "" = none */
  int given;      /* 1 = all names come from the user, 0 = the program made some of them */
  char *id;       /* of inputs: the column with the ids of the rows (data.id), owned; NULL: none */
  char **classes; /* [count] of targets: names of the classes as a list (core/base/list.h), "" =
                   * none: they are numbers */
  int64_t errors; /* of labels: the last ones are error bars sd_NAME of as many targets before */
} tt_columns;

/* The columns of labels: these targets and their error bars. Owner: the caller. Errors: MEM. */
tt_err tt_columns_with_errors(const tt_columns *target, tt_columns *out);

/* How columns of one file fit those of another. */
typedef enum tt_columns_fit {
  TT_COLUMNS_FIT_same,      /* the same names in the same order */
  TT_COLUMNS_FIT_reordered, /* the same names, each once, in another order */
  TT_COLUMNS_FIT_unnamed,   /* as many columns, but one side has no names from the user */
  TT_COLUMNS_FIT_different  /* another number of columns, or other names */
} tt_columns_fit;

/* f(user value) = normalized value * scale + mean, per column; in double, from the training rows:
 * data.normalize (core/formulas/normalization.h). f is the transform of the normalization, with
 * parameter lambda. The columns of the inputs become net.count inputs of a network. */
typedef struct tt_scaler {
  int64_t inputs, targets; /* D, T columns */
  tt_net_inputs net;
  double *x_mean, *x_scale;          /* [D] */
  double *y_mean, *y_scale;          /* [T] */
  int8_t *x_normalize, *y_normalize; /* [D], [T] tt_normalize */
  double *x_lambda, *y_lambda;       /* [D], [T] */
  double *x_fill; /* [D] what replaces a missing amount (data.missing); NaN: nothing */
  /* Principal components of the normalized targets (data.targets_pca): a normalized target is
   * component_mean + sum over l of amplitude_l * component[l] + a residual. */
  int64_t components;     /* L; 0: networks predict the targets themselves */
  double *component;      /* [L][T]; amplitudes have variance 1 over the training rows */
  double *component_mean; /* [T] */
  double *residual;       /* [T] variance that the L components do not hold */
} tt_scaler;

typedef enum tt_split { TT_TRAIN, TT_VALIDATION, TT_TEST, TT_SPLITS } tt_split;
enum { TT_UNUSED_ROW = -1 };

/* Name of the group that has all rows. Its ensemble predicts rows of small and unknown groups. */
#define TT_BY_POOLED "(pooled)"

/* In tt_dataset.unit, for all rows of a group: the group has no units, but other groups have. */
#define TT_BY_NO_UNIT UINT64_MAX

/* The groups of `by`. Group g is ensemble g of the only cohort, and of the only model. The group of
 * all rows is the first one, if there is one; the others are in the order of tt_by_compare. */
typedef struct tt_by_groups {
  char *columns;          /* names of the columns of `by`, a list (core/base/list.h) */
  char *ensemble;         /* name of the ensemble of the job */
  int64_t count;          /* E groups that have an ensemble */
  int pooled;             /* 1: group 0 is TT_BY_POOLED */
  char **name;            /* [E] value of the column, or list of the values of several */
  tt_slice *rows;         /* [E] rows of the data set; a model has zeros here */
  tt_scaler *scaler;      /* [E] */
  double *x_low, *x_high; /* [E][F] as in tt_trained_ensemble; only in a model */
  int64_t small;          /* number of groups that have too few rows for an ensemble */
  char **small_name;      /* [small] */
  int64_t *small_rows;    /* [small] number of rows */
} tt_by_groups;

/* Allocate the arrays; names are NULL and scalers are empty. Owner: the caller.
 *   inputs  F of the networks
 * Errors: MEM. */
tt_err tt_by_groups_create(int64_t count, int64_t small, int64_t inputs, tt_by_groups **out);
void tt_by_groups_destroy(tt_by_groups **g); /* accepts NULL */

typedef struct tt_dataset {
  int64_t rows, inputs, targets; /* N, F inputs of a network, T */
  float *x;                      /* [N][F] normalized */
  float *y;                      /* [N][T] normalized; NaN = unlabeled */
  float *amplitude;      /* [N][L] of the components of the targets, NaN = unlabeled; NULL: none */
  float *weight;         /* [N] sample weights with mean 1 over the training rows, or NULL */
  float *label_variance; /* [N][T] known variance of the error of each label, normalized as y; NULL:
                          * not known (data.sigma) */
  int partial_labels; /* 1: a row with some of the labels of an ensemble trains it; 0: with all */
  int8_t *split;      /* [N] tt_split or TT_UNUSED_ROW; NULL: the data set has only labels */
  int64_t repeated_rows; /* rows with the inputs of an earlier row */
  int64_t seen_rows;     /* validation and test rows with the inputs of a training row */
  uint64_t *unit; /* [N] rows with the same number are in one fold (equal inputs, data.split.group),
                   * or the place of the row in an order (data.split.order); NULL: each row for
                   * itself */
  int unit_ordered; /* 1: folds are blocks of ascending units */
  int64_t selections;
  int8_t *selected; /* [selections][N] 1 = the selection contains the row (ensembles[].rows) */
  tt_columns input, target; /* D and T columns of the file */
  tt_row_ids ids;           /* of the N rows, on rank 0; zeroed: none */
  tt_scaler scaler;
  tt_by_groups *groups; /* of `by`, owned; NULL: none. With groups, `scaler` is the one of group 0,
                         * and all rows of a group follow each other */
  int64_t *origin;      /* [N] with groups: numbers of the rows in the file; NULL: 0 to N - 1 */
  uint64_t hash;        /* XXH3 of the values as read; it does not depend on the number of ranks */
} tt_dataset;

/* Allocate all arrays of a data set (weight only if `weighted`); each input is a column, scalers
 * have mean 0 and scale 1, names are empty. Owner: the caller. Local. Errors: MEM. */
tt_err tt_dataset_create(int64_t rows, int64_t inputs, int64_t targets, int weighted,
                         tt_dataset **out);
void tt_dataset_destroy(tt_dataset **d);
/* Name the columns of the file, D and T, which become the net->count inputs of the networks that
 * the data set was created with; *net moves into its scaler. Errors: MEM. */
tt_err tt_dataset_set_columns(tt_dataset *d, const tt_columns *input, const tt_columns *target,
                              tt_net_inputs *net);

/* The data set that networks are trained on: `d` itself, or with components the same with their
 * amplitudes as targets. Borrows everything from `d`; do not destroy it. */
tt_dataset tt_dataset_for_training(const tt_dataset *d);

tt_err tt_columns_create(int64_t count, tt_columns *out);
tt_err tt_columns_copy(const tt_columns *src, tt_columns *out);
void tt_columns_free(tt_columns *c);
/* Compare the columns `here` with the `wanted` ones.
 *   src   [wanted->count] receives the column of `here` for each wanted one: by its name, or by its
 *         position if `unnamed`; not set if `different`
 * Local. Errors: MEM. */
tt_err tt_columns_compare(const tt_columns *wanted, const tt_columns *here, int64_t *src,
                          tt_columns_fit *fit);
/* "a, b, c"; a long list ends in ", ...". Returns text. */
const char *tt_columns_list(const tt_columns *c, char *text, int64_t capacity);
/* All columns: amounts, none, mean 0, scale 1, not missing. */
tt_err tt_scaler_create(int64_t inputs, int64_t targets, tt_scaler *out);
tt_err tt_scaler_copy(const tt_scaler *src, tt_scaler *out);
void tt_scaler_free(tt_scaler *s);
/* Allocate arrays for `components` components, filled with zeros. Errors: MEM. */
tt_err tt_scaler_add_components(tt_scaler *s, int64_t components);
/* 1 if the column may be missing: it has a value for this, or an indicator. */
int tt_scaler_may_miss(const tt_scaler *s, int64_t column);
/* 1 if any column may be missing. */
int tt_scaler_fills(const tt_scaler *s);
/* The first target that has another transform than the identity; -1: none. */
int64_t tt_scaler_transformed_target(const tt_scaler *s);
/* raw [rows][D] -> x [rows][F], the inputs of a network; computed in double, then rounded to float.
 * Every amount is accepted by the transform of its column, or missing (NaN) where that is allowed.
 */
void tt_scaler_normalize_inputs(const tt_scaler *s, int64_t rows, const double *raw, float *x);
/* Inputs x [F] of the network for one row raw [D]. */
void tt_scaler_net_inputs(const tt_scaler *s, const double *raw, double *x);
/* One amount of an input, one value of a target, and the opposite direction. */
double tt_scaler_normalize_input(const tt_scaler *s, int64_t input, double value);
double tt_scaler_normalize_target(const tt_scaler *s, int64_t target, double value);
double tt_scaler_denormalize_target(const tt_scaler *s, int64_t target, double normalized);
/* variance[count][T] of the errors of normalized labels, to first order of their transforms; 0
 * where there is no label.
 *   y, sigma  [count][T] in the user's units */
void tt_scaler_label_variance(const tt_scaler *s, int64_t count, const double *y,
                              const double *sigma, float *variance);
/* Derivative of the transform of an input, before the scale; 0 where the input is missing, and of a
 * category. */
double tt_scaler_input_slope(const tt_scaler *s, int64_t input, double value);

/* Fill split[N]: in a random order, the first round(fraction * rows) rows go to training, the next
 * to validation, then to test; the rest is unused. Depends on fractions, seed and rows only.
 * Local. Errors: DATA (no row to train on). */
tt_err tt_split_fractions(int64_t rows, const double fraction[TT_SPLITS], uint64_t seed,
                          int8_t *split);

/* The rows of one split that are labeled in all of the `k` target columns, with partial_labels in
 * at least one of them, in ascending order.
 *   among  the rows to look at; count 0: all
 *   row    owned by the caller, tt_free; [*count]
 * Local. Errors: MEM. */
tt_err tt_dataset_rows(const tt_dataset *d, tt_split which, tt_slice among, const int32_t *column,
                       int64_t k, int32_t **row, int64_t *count);

/* 1 if the row has some of the labels in the `k` target columns, but not all. */
int tt_dataset_row_is_partial(const tt_dataset *d, int64_t row, const int32_t *column, int64_t k);
TT_END_C
#endif
