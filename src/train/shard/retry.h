/* retry.h — restart of diverged members (train.on_diverged). */
#ifndef TT_RETRY_H
#define TT_RETRY_H
#include "src/train/shard/shard.h"

/* Call after each call of train. Restart every diverged member that has retries left: initial
 * weights and row order of the next attempt, learning rate * retry_lr_scale^attempt. The old state
 * is discarded. The new state depends only on the member and its attempt. shard->local_progress
 * counts a restarted member as training. Does nothing unless further members diverged since the
 * last call. Local. Errors: MEM, of the engine. */
tt_err tt_retry_diverged_local(tt_shard *shard);
#endif
