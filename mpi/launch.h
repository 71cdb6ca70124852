/* launch.h — the launcher (mpirun, srun), by its environment, before MPI starts. All local. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H
#include "core/base/err.h"

/* Number of processes that the launcher has started together with this one. 1 without a launcher,
 * and where another program stands between this process and the launcher: that program has the same
 * environment, and may use MPI itself. */
int tt_launch_ranks_local(void);

/* Check that this build can start as the launcher asks. Errors: UNAVAILABLE (several processes of a
 * build without MPI; Open MPI under srun without PMIx; the message says what to do). */
tt_err tt_launch_check_local(void);
#endif
