/* memory_plan.h — the memory that training a job takes on a rank, before anything is allocated. */
#ifndef TT_MEMORY_PLAN_H
#define TT_MEMORY_PLAN_H
#include "core/engine/engine.h"
#include "io/data/data.h"

/* Bytes on one rank. The largest of `reading`, `members` and `members` + `outputs` decides the
 * peak: they are needed one after the other. */
typedef struct tt_memory_plan {
  double program; /* the program, MPI and HDF5 with their buffers */
  double data;    /* the data set */
  double reading; /* copies of this rank's rows while the data set is read */
  double members; /* description of all members; state of this rank's members, buffers of engine */
  double files;   /* copy of the state of this rank's members, for files; buffers of a file */
  double outputs; /* at the end: the model of all members, scores, arrays for results.h5 */
  double peak;    /* of all together */
} tt_memory_plan;

/* What the plan depends on. Borrowed. */
typedef struct tt_memory_job {
  const tt_config *cfg;
  const tt_cohorts *cohorts;
  const tt_data_shape *shape;
  const tt_engine_ops *ops;
  const tt_resources *use;
} tt_memory_job;

/* Local. Errors: MEM. */
tt_err tt_memory_plan_rank(const tt_memory_job *job, int ranks, int rank, tt_memory_plan *out);

/* The hook of tt_job_load; job is a tt_job whose engine is chosen. Collective. Check that the job
 * fits into the memory of each node, before anything is allocated. Data that are already in memory
 * are not counted. Errors: MEM (the message has both numbers), those of tt_cohorts_create. */
tt_err tt_memory_check_job(tt_comm *c, const tt_data_shape *shape, void *job);
#endif
