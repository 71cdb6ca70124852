/* axis_labels.h — labels of the axes member and column in results.h5 and in prediction files:
 * members with the names of their ensembles, predicted columns with ensemble, target and units. */
#ifndef TT_AXIS_LABELS_H
#define TT_AXIS_LABELS_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/schema.h"

/* Of all cohorts of a model, one after the other. Texts are borrowed from the model, except the
 * labels. */
typedef struct tt_axis_labels {
  const tt_trained_ensembles *all;   /* borrowed */
  int64_t members, columns, targets; /* G, C, targets T of the job */
  int64_t groups;                    /* of `by`; C are the columns of one group; 0: none */
  int64_t most_targets, width;       /* the largest K; the most columns of one member */
  double *by_target; /* [G][T] room for tt_axis_labels_by_target; NULL before _reserve */
  int32_t *place;    /* [G][width] room for tt_axis_labels_write_places */
  int64_t *member;   /* [G] 0, 1, 2, ... */
  int32_t *cohort, *index, *head; /* [G] cohort, number in the ensemble, head or 0 */
  int heads;                      /* whether any member is a head */
  const char **owner;             /* [G] name of the member's ensemble */
  const char **network;           /* [G] "64-64 silu"; NULL if all have one network */
  int64_t networks;
  char **network_text;                      /* [networks] owned */
  const char **ensemble, **target, **units; /* [C] of each column */
  char **label;                             /* [C] tt_trained_ensemble_column_name, owned */
  const char *common_units; /* of all columns if they are the same and known, else NULL */
  int64_t text;             /* bytes of the longest of these texts */
} tt_axis_labels;

/* Local. Errors: MEM. tt_axis_labels_free accepts a zeroed struct. */
tt_err tt_axis_labels_create(const tt_trained_ensembles *all, tt_axis_labels *out);
void tt_axis_labels_free(tt_axis_labels *o);

/* write_columns: dimensions column and name_strlen with column_ensemble, _target, _label, _units;
 * with groups of `by` the dimension group_index with group, and small_group, small_group_rows.
 * write_targets: dimension target with target_name and target_units: all targets of the job.
 * write_members: dimension member with ensemble, cohort and member_index of each member, network if
 * there are several, and head if any member is a head.
 * write_places: a new dimension with the places of the numbers that a member predicts within its
 * own ensemble: ensemble_target [most_targets], or with several numbers of a target quantity
 * [width]; and the variable member_column, the column of each place. Returns the name of
 * the dimension. All collective. */
void tt_axis_labels_write_columns(tt_schema *s, const tt_axis_labels *o);
void tt_axis_labels_write_targets(tt_schema *s, const tt_axis_labels *o);
void tt_axis_labels_write_members(tt_schema *s, const tt_axis_labels *o);
const char *tt_axis_labels_write_places(tt_schema *s, const tt_axis_labels *o);

tt_err tt_axis_labels_reserve(tt_axis_labels *o); /* Local. Errors: MEM. */
/* Move numbers of members from the places within their ensembles, of_place [G][most_targets], to
 * the targets of the job. Returns by_target [G][T]: NaN where a member does not have the target,
 * everywhere if of_place is NULL. */
const double *tt_axis_labels_by_target(const tt_axis_labels *o, const double *of_place);

/* Variables that label these axes, for the attribute coordinates. */
#define TT_COLUMN_COORDINATES "column_ensemble column_target column_label column_units"
#define TT_MEMBER_COORDINATES "ensemble"
#define TT_GROUP_AXIS "group_index" /* its coordinate `group` has the names */
#define TT_TARGET_COORDINATES "target_name target_units"
#endif
