/* retry.h — diverged members start again (train.on_diverged). Floor 4. */
#ifndef TT_RETRY_H
#define TT_RETRY_H
#include "run/crew.h"

/* Every diverged member of w->mine (just saved) that has retries left becomes as new: initial
 * weights and orders of the next attempt, its learning rate times retry_rate once more. What it was
 * is dropped. Depends on nothing but the member itself.
 *   restarted  how many; their states must go back into the engine (tt_crew_load_local)
 * Local. Errors: MEM. */
tt_err tt_retry_state_local(const tt_crew *w, int64_t *restarted);

/* The same for the members in the engine, after a call of train: w->here counts them as training
 * again. Looks only when there are new diverged ones. Local. Errors: MEM, of the engine. */
tt_err tt_retry_local(tt_crew *w);
#endif
