/* job.h — a job file made ready: configuration, data, cohorts, engine choice. Floor 4. */
#ifndef TT_JOB_H
#define TT_JOB_H
#include "core/engine/engine.h"
#include "core/model/cohort.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* What the command line adds to a job file. Borrowed texts. */
typedef struct tt_job_options {
  const char *file;
  const char *const *set; /* [nset] "section.name=value" */
  int nset;
  const char *command; /* the command line, for provenance */
} tt_job_options;

typedef struct tt_job {
  const struct tt_job *base; /* of a derived job: owns the values of cfg, and `original` */
  tt_config *cfg;
  char *original, *resolved; /* the file's text, and every option spelled out */
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
 * that base has. `base` and `directory` are borrowed: close the derived job first. Errors: MEM. */
tt_err tt_job_derive_local(const tt_job *base, char *directory, int64_t seed, tt_job **out);

/* Collective. Data, cohorts, engine; job->data, or job->ops and use, may be set already.
 * Errors: of tt_data_read, tt_cohorts_create, tt_resources_for_job. */
tt_err tt_job_load(tt_comm *c, tt_job *job);
void tt_job_close(tt_job **job);

/* What every output of this job says of its origin; borrows from its arguments. */
tt_provenance tt_job_provenance(const tt_job *job, const char *device, const char *arithmetic,
                                int ranks, double seconds);
#endif
