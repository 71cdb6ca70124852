/* trainer.h — `tutti train`: from a job to model.h5 and results.h5, with stops and restarts. */
#ifndef TT_TRAINER_H
#define TT_TRAINER_H
#include "src/job/job.h"
#include "src/train/shard/shard.h"
#include "src/train/time_estimate.h"

typedef enum tt_resume { TT_RESUME_auto, TT_RESUME_never, TT_RESUME_must } tt_resume;

typedef struct tt_train_options {
  tt_job_options job;
  tt_job *prepared; /* opened by the caller, used instead of `job`; NULL = none */
  tt_resume resume;
  int any_device;  /* resume with another arithmetic: results are not bit-identical */
  double max_time; /* seconds, 0 = run.max_time of the job */
  int quiet;       /* no tables; progress lines only of long trainings. For campaigns and tuning */
  int no_scores;   /* print no scores on standard output */
  /* On one rank, of a run in memory: train only so long as it takes to fill this in; NULL: to the
   * end */
  tt_time_estimate *estimate;
  const char *stop_directory; /* directory of the file STOP; NULL = run.directory */
  /* Of a run in memory: called with each part that uses HDF5. NULL: these are called directly */
  tt_err (*guard)(tt_err (*part)(void *), void *run);
} tt_train_options;

/* Collective. Train all members of the job, from the last checkpoint if there is one; write
 * model.h5 and results.h5 to run.directory, which may be in memory (io/files/memory.h). Prints the
 * ensembles' scores on rank 0.
 *
 * Errors: those of reading the job and the data; STOPPED (a signal, the time limit or a STOP file:
 * a checkpoint is written, run again to continue); DIVERGED (model.h5 and results.h5 are written,
 * but the fraction of diverged members is above train.max_diverged); IO, CANTCREAT; NOINPUT
 * (TT_RESUME_must without a checkpoint). */
tt_err tt_train(tt_comm *c, const tt_train_options *o);
#endif
