/* trainer_options.h — which options a trainer refuses. Floor 5. */
#ifndef TT_TRAINER_OPTIONS_H
#define TT_TRAINER_OPTIONS_H
#include "src/api/trainer_batch.h"

/* Check the cohorts and epoch_rows of a trainer that is being created. Errors: CONFIG (the message
 * names the option, and what to use). */
tt_err tt_trainer_check_options(const tutti_trainer *t);
#endif
