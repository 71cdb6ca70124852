/* memory_plan.h — the memory that training a job takes on a rank, before anything is allocated. */
#ifndef TT_MEMORY_PLAN_H
#define TT_MEMORY_PLAN_H
#include "core/engine/engine.h"
#include "cuda/plan/device_sizes.h"
#include "io/data/data.h"
#include "src/job/job.h"

/* Bytes on one rank. The largest of `reading`, `members` and `members` + `outputs` decides the
 * peak: they are needed one after the other. */
typedef struct tt_memory_plan {
  double program; /* the program, MPI and HDF5 with their buffers */
  double data;    /* the data set, and the model of train.init_from */
  double reading; /* copies of this rank's rows while the data set is read */
  double members; /* description of all members; state of this rank's members, buffers of engine */
  double files;   /* copy of the state of this rank's members, for files; buffers of a file */
  double outputs; /* at the end: the model of all members, scores, arrays for results.h5 */
  double peak;    /* of all together */
  double device;  /* on the GPU, with the data set */
} tt_memory_plan;

/* What the plan depends on. Borrowed. */
typedef struct tt_memory_job {
  const tt_config *cfg;
  const tt_cohorts *cohorts;
  const tt_data_shape *shape;
  const tt_engine_ops *ops;
  const tt_resources *use;
  const tt_path_context *gpu; /* NULL: none, or not known */
  double gpu_bytes;           /* of its memory that this rank may use */
} tt_memory_job;

/* Part of the memory of a GPU for members and data; the rest is for the context of CUDA and the
 * libraries. */
#define TT_GPU_MEMORY_PART 0.94

/* The memory of a rank. Local. Errors: MEM. */
tt_err tt_memory_plan_rank(const tt_memory_job *job, int ranks, int rank, tt_memory_plan *out);

/* The data set on the GPU; 0: it is too large and stays on the host. */
double tt_memory_device_data(const tt_memory_job *job);

/* GPU memory of the engine of a rank of a team for the members `slice` of a cohort, at most; 0 if
 * the GPU cannot train them.
 *   ranks  of the team; 1: no team */
double tt_memory_device_bytes(const tt_memory_job *job, const tt_cohort *c, tt_slice slice,
                              int ranks);

/* GPU memory of a rank of a team for what it exchanges of the members of a cohort, at most; 0 if
 * the cohort has no parts.
 *   stages, ranks  run.stages, or 0; ranks of the team */
double tt_memory_exchange_bytes(const tt_cohort *c, int stages, int ranks);

/* What tt_memory_check_job gets and finds. */
typedef struct tt_memory_check_args {
  tt_job *job; /* its engine is chosen */
  tt_memory_plan plan;
} tt_memory_check_args;

/* The hook of tt_job_load; args is a tt_memory_check_args. Collective. Check that the job fits into
 * run.memory, into the memory of each node and of its GPUs, before anything is allocated. Data that
 * are already in memory are not counted in the second check. Also check that the outputs can be
 * written (check_outputs.h). Errors: MEM (the message has both numbers), those of
 * tt_cohorts_create, CONFIG. */
tt_err tt_memory_check_job(tt_comm *c, const tt_data_shape *shape, void *args);
#endif
