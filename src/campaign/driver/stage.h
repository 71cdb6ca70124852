/* stage.h — a stage is done once: its journal line holds the hash of all it depends on and of the
 * files it left, and where both still hold it is not done again. Floor 5; of the driver alone. */
#ifndef TT_STAGE_H
#define TT_STAGE_H
#include "src/campaign/driver/driver_internal.h"

/* What a stage depends on and leaves. */
typedef struct tt_stage_io {
  uint64_t inputs;
  const char *file[2]; /* names in the round's directory, up to the first NULL */
} tt_stage_io;
typedef tt_err tt_stage_function(tt_campaign *k, const tt_stage_io *w);

/* Collective. Do the stage, unless the journal says that it is done; then note it.
 *   seconds  what it took, then or now
 * Errors: of the stage, IO. */
tt_err tt_run_stage(tt_campaign *k, tt_stage stage_id, const tt_stage_io *w,
                    tt_stage_function *function, double *seconds);

/* The stages, in order. Collective; each takes what the one before has left in memory or files.
 * train: model, columns, a round at the end of the history.   score: pool, taken.
 * choose: picks (none if a rule of section stop ends the campaign).   ask: answers.
 * merge: the round committed. Errors: as tt_campaign_run. */
tt_err tt_run_train_stage(tt_campaign *k);
tt_err tt_run_score_stage(tt_campaign *k);
tt_err tt_run_select_stage(tt_campaign *k);
tt_err tt_run_label_stage(tt_campaign *k);
tt_err tt_run_merge_stage(tt_campaign *k);
#endif
