/* stage.h — the stages of a round. The journal line of a stage holds a hash of its inputs and of
 * the files it wrote; while both are unchanged, the stage is not run again. Private to the driver.
 */
#ifndef TT_STAGE_H
#define TT_STAGE_H
#include "src/campaign/driver/driver_internal.h"

/* Hash of the inputs of a stage, and the files it writes. */
typedef struct tt_stage_io {
  uint64_t inputs;
  const char *file[2]; /* names in the round's directory, up to the first NULL */
} tt_stage_io;
typedef tt_err tt_stage_function(tt_campaign *k, const tt_stage_io *w);

/* Collective. Run the stage and append it to the journal, unless the journal has it already.
 *   seconds  wall time of the stage, measured now or read from the journal
 * Errors: those of the stage, IO. */
tt_err tt_run_stage(tt_campaign *k, tt_stage stage_id, const tt_stage_io *w,
                    tt_stage_function *function, double *seconds);

/* The stages, in order. Collective. Each uses what the stage before it left in memory or files:
 *   train   sets model, columns, and appends a round to the history
 *   score   sets pool, used_rows
 *   select  sets queries (none if a rule of section stop ends the campaign)
 *   label   sets query_labels
 *   merge   commits the round
 * Errors: as tt_campaign_run. */
tt_err tt_run_train_stage(tt_campaign *k);
tt_err tt_run_score_stage(tt_campaign *k);
tt_err tt_run_select_stage(tt_campaign *k);
tt_err tt_run_label_stage(tt_campaign *k);
tt_err tt_run_merge_stage(tt_campaign *k);
#endif
