/* trainer.h — `tutti train`: from a job to model.h5 and results.h5, through stops and restarts.
 * Floor 4. */
#ifndef TT_TRAINER_H
#define TT_TRAINER_H
#include "src/job/job.h"
#include "src/train/warm_start.h"

typedef enum tt_resume { TT_RESUME_auto, TT_RESUME_never, TT_RESUME_must } tt_resume;

typedef struct tt_train_options {
  tt_job_options job;
  tt_job *prepared; /* a job of the caller, instead of `job`; NULL = none */
  tt_resume resume;
  int any_device;  /* resume from another arithmetic: no longer the same bits */
  double max_time; /* seconds, 0 = what the job says */
  int quiet;       /* part of something larger: no tables, lines on long trainings alone */
  const char *stop_directory; /* where a file STOP asks for a stop; NULL = run.directory */
  tt_warm_start warm;         /* weights of an earlier run; all zero = none */
} tt_train_options;

/* Collective. Train all members of the job, or go on from its last checkpoint; write model.h5 and
 * results.h5 in run.directory. Prints the ensembles' scores on rank 0.
 * Errors: those of reading the job and the data; STOPPED (a signal, the time limit or a STOP file:
 * checkpointed, run again); DIVERGED (files are written, but more than train.max_diverged of the
 * members diverged); IO, CANTCREAT; NOINPUT (resume must without a checkpoint). */
tt_err tt_train(tt_comm *c, const tt_train_options *o);
#endif
