/* choices.c — see choices.h. */
#include "core/config/choices.h"

#include <stddef.h>

#define X(name) #name,
const char *const tt_choice_batch_order[] = {TT_BATCH_ORDERS(X) NULL};
const char *const tt_choice_resample[] = {TT_RESAMPLES(X) NULL};
const char *const tt_choice_method[] = {TT_METHODS(X) NULL};
const char *const tt_choice_normalize_inputs[] = {TT_NORMALIZE_INPUT_ROWS(X) NULL};
const char *const tt_choice_normalize_folds[] = {TT_NORMALIZE_FOLDS(X) NULL};
const char *const tt_choice_partial_labels[] = {TT_PARTIAL_LABELS(X) NULL};
const char *const tt_choice_early_stopping[] = {TT_EARLY_STOPPINGS(X) NULL};
const char *const tt_choice_combine[] = {TT_COMBINES(X) NULL};
const char *const tt_choice_device[] = {TT_DEVICES(X) NULL};
const char *const tt_choice_simd[] = {TT_SIMDS(X) NULL};
const char *const tt_choice_precision[] = {TT_PRECISIONS(X) NULL};
const char *const tt_choice_exchange[] = {TT_EXCHANGES(X) NULL};
const char *const tt_choice_target_reduction[] = {TT_TARGET_REDUCTIONS(X) NULL};
const char *const tt_choice_ensemble_reduction[] = {TT_ENSEMBLE_REDUCTIONS(X) NULL};
const char *const tt_choice_goal[] = {TT_GOALS(X) NULL};
const char *const tt_choice_warm_start[] = {TT_WARM_STARTS(X) NULL};
const char *const tt_choice_label[] = {TT_LABELS(X) NULL};
const char *const tt_choice_format[] = {TT_FORMATS(X) NULL};
const char *const tt_choice_decimal[] = {TT_DECIMALS(X) NULL};
#undef X

#define X(name, ...) #name,
const char *const tt_choice_activation[] = {TT_ACTIVATIONS(X) NULL};
const char *const tt_choice_gpu_kernel[] = {"auto", TT_GPU_PATHS(X) NULL};
const char *const tt_choice_init[] = {TT_INITS(X) NULL};
const char *const tt_choice_loss[] = {TT_LOSSES(X) NULL};
const char *const tt_choice_optimizer[] = {TT_OPTIMIZERS(X) NULL};
const char *const tt_choice_normalize[] = {TT_NORMALIZES(X) NULL};
const char *const tt_choice_missing[] = {TT_MISSINGS(X) NULL};
const char *const tt_choice_categories[] = {TT_CATEGORIES(X) NULL};
const char *const tt_choice_output[] = {TT_OUTPUTS(X) NULL};
const char *const tt_choice_average[] = {TT_AVERAGES(X) NULL};
const char *const tt_choice_schedule[] = {TT_SCHEDULES(X) NULL};
const char *const tt_choice_acquisition[] = {TT_ACQUISITIONS(X) NULL};
const char *const tt_choice_delimiter[] = {TT_DELIMITERS(X) NULL};
const char *const tt_choice_select[] = {TT_SELECTS(X) NULL};
#undef X

const unsigned tt_select_options[] = {
#define X(name, options) options,
    TT_SELECTS(X)
#undef X
};
