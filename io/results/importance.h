/* importance.h — how much each input matters for the predictions of a model: the file of
 * `tutti explain` (schema tutti-importance-1.0). */
#ifndef TT_IMPORTANCE_H
#define TT_IMPORTANCE_H
#include "core/model/trained_ensemble.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* In the user's units. C columns, G members, D inputs; K is the largest number of targets of a
 * member. Standard deviations between members have the weights of the members. */
typedef struct tt_importance {
  int64_t columns, members, targets, inputs;
  int64_t rows, repeats;       /* used rows; permutations of each input */
  const char **metric;         /* [C] name of the error, borrowed */
  double *error;               /* [C] of the rows as they are */
  double *permutation;         /* [C][D] mean increase of the error by permutations of an input */
  double *permutation_std;     /* [C][D] between the permutations */
  double *permutation_between; /* [C][D] standard deviation between the members */
  double *member_permutation;  /* [G][K][D] increase of a member's own error; NaN beyond its
                                 * targets, and for members without weight */
  char **metric_text, **input_name; /* of a file: [C] in the place of metric, [D] */
} tt_importance;

/* All arrays are NaN. Owner: the caller, tt_importance_free. Local. Errors: MEM. */
tt_err tt_importance_create(const tt_trained_ensembles *all, tt_importance *out);
void tt_importance_free(tt_importance *i); /* accepts a zeroed one */

/* Collective; `i` is read on rank 0. Errors: CANTCREAT, IO, MEM. */
tt_err tt_importance_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                           const tt_importance *i, const tt_provenance *provenance);
/* Read the increases of the ensembles, the only arrays that are set. Owner: the caller. Local.
 * Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_importance_read_local(const char *file, tt_importance *out);
#endif
