/* jobs.h — the self-check of a GPU: small jobs that together use every row of the tables
 * of formulas are computed on a path of the cuda engine, and by the cpu engine, in memory. This
 * runs in a child process of tt_self_check_gpu (src/host/self_check.h), as it may hang or crash. */
#ifndef TT_SELF_CHECK_JOBS_H
#define TT_SELF_CHECK_JOBS_H

/* The child: argv = {tutti, check-device, GPU number, way (TT_GPU_PATH_WAY)}. Prints a line:
 *   passed N jobs steps are those of the cpu engine within the tolerance of verify.h; losses,
 *                 validation and predictions too; the bits are the same in one call of train, and
 *                 for a member alone
 *   failed TEXT   the GPU computes something else, or there is an error
 *   unknown TEXT  no memory, or no engine
 *   none          the GPU does not have this path in this precision
 * Returns the exit code for main. */
int tt_self_check_child_local(int argc, char **argv);
#endif
