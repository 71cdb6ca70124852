/* model_io.h — model.h5: trained members (schema tutti-model-1.0, docs/files.md). Floor 3. */
#ifndef TT_MODEL_IO_H
#define TT_MODEL_IO_H
#include "io/provenance.h"
#include "mpi/comm.h"
#include "spec/committee.h"
#include "spec/plan.h"

/* Collective. Write model.h5 (unique temporary name, contiguous, read back, voted, renamed).
 *   all    shape, ensembles, names, scales, shares and status of all G members (same on all ranks);
 *          its w is not used
 *   slice  this rank's members;  w [slice.count][P] their weights
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_model_write(tt_comm *c, const char *file, const tt_committee *all, tt_slice slice,
                      const float *w, const tt_provenance *from);

/* Collective. Every byte is read once, then shared: all ranks get all members. Errors: NOINPUT,
 * DATA (not a model file, damaged), MEM. */
tt_err tt_model_read(tt_comm *c, const char *file, tt_committee **out);
/* The same for one process, without MPI. Local. */
tt_err tt_model_read_local(const char *file, tt_committee **out);
#endif
