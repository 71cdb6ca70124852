/* retry.h — diverged members start again (train.on_diverged). Floor 4. */
#ifndef TT_RETRY_H
#define TT_RETRY_H
#include "src/train/shard.h"

/* After a call of train: every diverged member that has retries left becomes as new, with initial
 * weights and orders of the next attempt, its learning rate times retry_lr_scale once more. What it
 * was is dropped. Depends on nothing but the member itself. shard->local_progress counts it as
 * training again. Looks only when there are new diverged ones. Local. Errors: MEM, of the engine.
 */
tt_err tt_retry_diverged_local(tt_shard *w);
#endif
