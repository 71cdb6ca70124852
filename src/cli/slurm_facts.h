/* slurm_facts.h — how a start of a Slurm job has ended, for slurm/requeue.h. Local. */
#ifndef TT_CLI_SLURM_FACTS_H
#define TT_CLI_SLURM_FACTS_H
#include "core/base/directory.h"
#include "slurm/requeue.h"
#include "src/job/job.h"

/* Read the facts for the end of a start from the status files of the job and, of a campaign, of its
 * present round.
 *   start      in: launcher_code, max_restarts; texts are valid until the next call
 *   directory  run.directory or campaign.directory
 * Errors: those of reading the job file, IO (the status file cannot be read). */
tt_err tt_slurm_start_read_local(const tt_job_options *o, tt_slurm_start *start,
                                 char directory[TT_PATH_MAX]);
#endif
