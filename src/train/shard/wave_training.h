/* wave_training.h — the change from one wave to the next (wave.h). */
#ifndef TT_WAVE_TRAINING_H
#define TT_WAVE_TRAINING_H
#include "src/train/shard/shard.h"

/* After the shards have trained: if no member of the wave trains any more, save it, and open the
 * next one that has a member in training; if there is none, no engine is left. Updates
 * local_progress. Local. Errors: of the engine, MEM. */
tt_err tt_wave_advance_local(tt_shards *all);
#endif
