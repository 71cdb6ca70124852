/* choices.c — see choices.h. */
#include "core/config/choices.h"

#include <stddef.h>

#define X(name) #name,
const char *const tt_choice_normalize[] = {TT_NORMALIZES(X) NULL};
const char *const tt_choice_batches[] = {TT_BATCHES(X) NULL};
const char *const tt_choice_resample[] = {TT_RESAMPLES(X) NULL};
const char *const tt_choice_method[] = {TT_METHODS(X) NULL};
const char *const tt_choice_average[] = {TT_AVERAGES(X) NULL};
const char *const tt_choice_stop[] = {TT_STOPS(X) NULL};
const char *const tt_choice_combine[] = {TT_COMBINES(X) NULL};
const char *const tt_choice_device[] = {TT_DEVICES(X) NULL};
const char *const tt_choice_simd[] = {TT_SIMDS(X) NULL};
const char *const tt_choice_path[] = {TT_PATHS(X) NULL};
const char *const tt_choice_precision[] = {TT_PRECISIONS(X) NULL};
const char *const tt_choice_over[] = {TT_OVERS(X) NULL};
const char *const tt_choice_join[] = {TT_JOINS(X) NULL};
const char *const tt_choice_goal[] = {TT_GOALS(X) NULL};
const char *const tt_choice_warm[] = {TT_WARMS(X) NULL};
const char *const tt_choice_select[] = {TT_SELECTS(X) NULL};
const char *const tt_choice_label[] = {TT_LABELS(X) NULL};
const char *const tt_choice_format[] = {TT_FORMATS(X) NULL};
#undef X

#define X(name, ...) #name,
const char *const tt_choice_activation[] = {TT_ACTIVATIONS(X) NULL};
const char *const tt_choice_init[] = {TT_INITS(X) NULL};
const char *const tt_choice_loss[] = {TT_LOSSES(X) NULL};
const char *const tt_choice_optimizer[] = {TT_OPTIMIZERS(X) NULL};
const char *const tt_choice_output[] = {TT_OUTPUTS(X) NULL};
const char *const tt_choice_schedule[] = {TT_SCHEDULES(X) NULL};
const char *const tt_choice_score[] = {TT_SCORES(X) NULL};
#undef X
