/* importance.h — how much each input matters for the predictions of a model: the file of
 * `tutti explain` (schema tutti-importance-1.0). */
#ifndef TT_IMPORTANCE_H
#define TT_IMPORTANCE_H
#include "core/base/sort.h"
#include "core/model/trained_ensemble.h"
#include "core/stats/metrics.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* In the user's units. C columns, D inputs. */
typedef struct tt_importance {
  int64_t columns, inputs;
  int64_t rows, repeats;       /* used rows; permutations of each input */
  const char **metric;         /* [C] name of the error, borrowed */
  double *error;               /* [C] of the rows as they are */
  double *permutation;         /* [C][D] mean increase of the error by permutations of an input */
  double *permutation_between; /* [C][D] standard deviation between the members, with their weights
                                */
  char **metric_text, **input_name; /* of a file: [C] in the place of metric, [D] */
} tt_importance;

/* All arrays are NaN. Owner: the caller, tt_importance_free. Local. Errors: MEM. */
tt_err tt_importance_create(const tt_trained_ensembles *all, tt_importance *out);
void tt_importance_free(tt_importance *i); /* accepts a zeroed one */

/* The inputs of a column, [D]: the most important first; equal ones, and NaN at the end, in their
 * order in the file. Local. */
void tt_importance_rank(const tt_importance *i, int64_t column, tt_ranked *order);

/* Collective; `i` is read on rank 0. Errors: CANTCREAT, IO, MEM. */
tt_err tt_importance_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                           const tt_importance *i, const tt_provenance *provenance);
/* Read the increases of the ensembles, the only arrays that are set. Owner: the caller. Local.
 * Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_importance_read_local(const char *file, tt_importance *out);
#endif
