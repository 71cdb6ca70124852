/* axis_labels.h — who is who in results.h5 and in prediction files: members with the names of their
 * ensembles, predicted columns with ensemble, target and units. Floor 3, for the files of io/. */
#ifndef TT_OUTLINE_H
#define TT_OUTLINE_H
#include "io/hdf5/schema.h"
#include "core/model/trained_ensemble.h"

/* Of all committees of a model, one after the other. Texts are borrowed from them, but the labels.
 */
typedef struct tt_outline {
  int64_t members, columns, targets; /* G, C, the largest K */
  int64_t *member;                   /* [G] 0, 1, 2, ... */
  int32_t *cohort, *index, *snapshot; /* [G] its committee, its number in its ensemble */
  int snapshots;                     /* whether any member is one */
  const char **owner;                /* [G] name of the member's ensemble */
  const char **ensemble, **target, **units; /* [C] of each column */
  char **label;                      /* [C] tt_committee_label, owned */
  const char *common_units;          /* of all columns if they are the same and known, else NULL */
  int64_t text;                      /* bytes of the longest of these texts */
} tt_outline;

/* Local. Errors: MEM. tt_outline_free accepts a zeroed outline. */
tt_err tt_outline_make(const tt_committees *all, tt_outline *out);
void tt_outline_free(tt_outline *o);

/* Dimensions column and name_strlen with column_ensemble, _target, _label, _units; and, second,
 * dimensions member and target with ensemble, cohort and member_index of each member, and snapshot
 * where some are snapshots. Collective. */
void tt_outline_write_columns(tt_schema *s, const tt_outline *o);
void tt_outline_write_members(tt_schema *s, const tt_outline *o);

/* Variables that label these axes, for the attribute coordinates. */
#define TT_OUTLINE_COLUMN "column_ensemble column_target column_label column_units"
#define TT_OUTLINE_MEMBER "ensemble"
#endif
