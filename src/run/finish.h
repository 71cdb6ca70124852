/* finish.h — what a finished run leaves: model.h5, results.h5 and a table. Floor 4. */
#ifndef TT_FINISH_H
#define TT_FINISH_H
#include "run/job.h"
#include "spec/state.h"

/* Collective. Write model.h5 and results.h5 into run.directory, print the scores.
 *   mine  state of this rank's members `slice`, all done
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_finish(tt_comm *c, const tt_job *job, tt_slice slice, const tt_state *mine,
                 const tt_provenance *from);
#endif
