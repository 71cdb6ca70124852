/* job.h — a job in memory: configuration, data, cohorts, engine. */
#ifndef TT_JOB_H
#define TT_JOB_H
#include "core/engine/engine.h"
#include "core/model/cohort.h"
#include "core/model/trained_ensemble.h"
#include "io/data/data.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

/* The job file and the options of the command line. Texts are borrowed. */
typedef struct tt_job_options {
  const char *file;
  const char *text;       /* of the job file, which is not read then; NULL: it is */
  const char *const *set; /* [nset] "section.name=value" */
  int nset;
} tt_job_options;

typedef struct tt_job {
  const struct tt_job *base; /* owner of the values of cfg and of `original`, or NULL */
  tt_config *cfg;
  char *original, *resolved; /* text of the job file; YAML with the value of every option */
  int64_t bytes;
  tt_dataset *data;    /* NULL until tt_job_load */
  tt_dataset training; /* tt_dataset_for_training of it */
  tt_cohorts cohorts;
  tt_trained_ensembles initial; /* model of train.init_from; the cohorts point to its weights */
  const tt_engine_ops *ops;
  tt_resources use;
} tt_job;

/* Collective. Rank 0 reads the file; all ranks parse the same bytes, each with its own overrides;
 * the values of all options must be the same on all ranks. Errors: NOINPUT, CONFIG. */
tt_err tt_job_open(tt_comm *c, const tt_job_options *o, tt_job **out);

/* Local. A job like `base` with another run.directory and run.seed, on the engine and resources
 * of `base`. `base` and `directory` are borrowed: close the derived job before `base`. Errors: MEM.
 */
tt_err tt_job_derive_local(const tt_job *base, char *directory, int64_t seed, tt_job **out);

/* Collective. Choose the engine, read the data, create the cohorts, and give their members the
 * initial weights of train.init_from (initial_model.h). job->data, or job->ops and
 * job->use, may be set before; they are kept.
 *   hook  called when the engine and the shape of the data are known; may be NULL
 * Errors: of tt_data_read, tt_cohorts_create, tt_resources_for_job,
 * tt_initial_model_apply, of the hook. */
tt_err tt_job_load(tt_comm *c, tt_job *job, const tt_data_hook *hook);
void tt_job_close(tt_job **job);

/* Check that the commands of a campaign (pool.command, label.command) and label.script exist,
 * before hours of training. Local. Errors: UNAVAILABLE (no such program, not executable), NOINPUT.
 * */
tt_err tt_job_check_commands_local(const tt_config *cfg);

/* Provenance for the output files of this job; borrows from its arguments. Local. */
tt_provenance tt_job_provenance(const tt_job *job, const char *device, const char *arithmetic,
                                int ranks, double seconds);
#endif
