/* model_file.h — model.h5: trained members (schema tutti-model-1.1, docs/files.md). */
#ifndef TT_MODEL_FILE_H
#define TT_MODEL_FILE_H
#include "core/model/partition.h"
#include "core/model/trained_ensemble.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* This rank's members of one cohort, which are those of one network, and their weights. */
typedef struct tt_model_shard {
  tt_slice slice;
  const float *w; /* [slice.count][P] */
} tt_model_shard;

/* Collective. Write model.h5 (unique temporary name, contiguous, read back, voted, renamed).
 *   file   NULL: a file in memory without data (tt_h5_create)
 *   all    shapes, ensembles, names, scales, member weights and status of all members (same on all
 *          ranks); w of all members is not used
 *   shard  [tt_trained_ensembles_networks]
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_model_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                      const tt_model_shard *shard, const tt_provenance *provenance);

/* Collective. Rank 0 reads and broadcasts: all ranks get all members. A model with groups (`by`) is
 * an error. Owner: the caller. Errors: NOINPUT, DATA (not a model file, damaged), USAGE, MEM. */
tt_err tt_model_read(tt_comm *c, const char *file, tt_trained_ensembles *out);
/* The same for one process, without MPI. Local. */
tt_err tt_model_read_local(const char *file, tt_trained_ensembles *out);

/* What to read of a model with groups. */
typedef struct tt_model_choice {
  const char *group; /* only its ensemble, and for a small group that of all rows; NULL: none */
  int whole;         /* 1: with group NULL, read all groups; 0: that is an error */
} tt_model_choice;
/* The same with a choice; bytes NULL: read the file. Errors: also USAGE (no such group). */
tt_err tt_model_read_group(tt_comm *c, const char *file, tt_model_choice choice,
                           tt_trained_ensembles *out);
tt_err tt_model_read_group_local(const char *file, const void *bytes, int64_t size,
                                 tt_model_choice choice, tt_trained_ensembles *out);
#endif
