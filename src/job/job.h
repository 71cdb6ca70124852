/* job.h — a job in memory: configuration, data, cohorts, engine. */
#ifndef TT_JOB_H
#define TT_JOB_H
#include "core/engine/engine.h"
#include "core/model/cohort.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* The job file and the options of the command line. Texts are borrowed. */
typedef struct tt_job_options {
  const char *file;
  const char *const *set; /* [nset] "section.name=value" */
  int nset;
  const char *command; /* the command line, for provenance */
} tt_job_options;

typedef struct tt_job {
  const struct tt_job *base; /* owner of the values of cfg and of `original`, or NULL */
  tt_config *cfg;
  char *original, *resolved; /* text of the job file; YAML with the value of every option */
  int64_t bytes;
  const char *command;
  tt_dataset *data; /* NULL until tt_job_load */
  tt_cohorts cohorts;
  const tt_engine_ops *ops;
  tt_resources use;
} tt_job;

/* Collective. Rank 0 reads the file; all ranks parse the same bytes. Errors: NOINPUT, CONFIG. */
tt_err tt_job_open(tt_comm *c, const tt_job_options *o, tt_job **out);

/* Local. A job like `base` with another run.directory and run.seed, on the engine and resources
 * of `base`. `base` and `directory` are borrowed: close the derived job before `base`. Errors: MEM.
 */
tt_err tt_job_derive_local(const tt_job *base, char *directory, int64_t seed, tt_job **out);

/* Collective. Read the data, create the cohorts, choose the engine. job->data, or job->ops and
 * job->use, may be set before; they are kept.
 * Errors: of tt_data_read, tt_cohorts_create, tt_resources_for_job. */
tt_err tt_job_load(tt_comm *c, tt_job *job);
void tt_job_close(tt_job **job);

/* Provenance for the output files of this job; borrows from its arguments. Local. */
tt_provenance tt_job_provenance(const tt_job *job, const char *device, const char *arithmetic,
                                int ranks, double seconds);
#endif
