/* transfer.h — by_transfer: one training with the rows of all groups, whose members those of the
 * groups begin with. */
#ifndef TT_TRANSFER_H
#define TT_TRANSFER_H
#include "core/base/directory.h"
#include "src/job/job.h"

typedef struct tt_transfer {
  tt_job *job; /* of this training */
  tt_dataset data;
  tt_ensemble_config ensemble;
  char directory[TT_PATH_MAX];
} tt_transfer;

/* Create a job for the folder `transfer` of the run directory of `job`, which has been loaded. Its
 * rows are those of all groups, which its data set borrows: in the same parts, with the normalized
 * targets of each group. Close it before `job`. Local. Errors: CANTCREAT, MEM. */
tt_err tt_transfer_open_local(const tt_job *job, tt_transfer *t);
void tt_transfer_close(tt_transfer *t); /* accepts a zeroed one */

/* Collective. After the training: the members of `job` begin with its weights. Errors: of
 * tt_initial_model_apply. */
tt_err tt_transfer_apply(tt_comm *c, const tt_transfer *t, tt_job *job);
#endif
