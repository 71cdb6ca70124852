/* choices.c — see choices.h. */
#include "core/config/choices.h"

#include <stddef.h>

#define NAME(P, name) #name,
#define X(type, P, list, values) const char *const tt_choice_##list[] = {values(NAME, P) NULL};
TT_CHOICES(X)
#undef X

#define X(name) #name,
const char *const tt_choice_target_reduction[] = {TT_TARGET_REDUCTIONS(X) NULL};
const char *const tt_choice_ensemble_reduction[] = {TT_ENSEMBLE_REDUCTIONS(X) NULL};
const char *const tt_choice_goal[] = {TT_GOALS(X) NULL};
#undef X

const char *const tt_choice_activation[] = {TT_ACTIVATIONS(TT_ROW_NAME) NULL};
const char *const tt_choice_gpu_kernel[] = {"auto", TT_GPU_PATHS(TT_ROW_NAME) NULL};
const char *const tt_choice_init[] = {TT_INITS(TT_ROW_NAME) NULL};
const char *const tt_choice_loss[] = {TT_LOSSES(TT_ROW_NAME) NULL};
const char *const tt_choice_optimizer[] = {TT_OPTIMIZERS(TT_ROW_NAME) NULL};
const char *const tt_choice_normalize[] = {TT_NORMALIZES(TT_ROW_NAME) NULL};
const char *const tt_choice_missing[] = {TT_MISSINGS(TT_ROW_NAME) NULL};
const char *const tt_choice_categories[] = {TT_CATEGORIES(TT_ROW_NAME) NULL};
const char *const tt_choice_output[] = {TT_OUTPUTS(TT_ROW_NAME) NULL};
const char *const tt_choice_average[] = {TT_AVERAGES(TT_ROW_NAME) NULL};
const char *const tt_choice_schedule[] = {TT_SCHEDULES(TT_ROW_NAME) NULL};
const char *const tt_choice_acquisition[] = {TT_ACQUISITIONS(TT_ROW_NAME) NULL};
const char *const tt_choice_delimiter[] = {TT_DELIMITERS(TT_ROW_NAME) NULL};
const char *const tt_choice_search[] = {TT_SEARCHES(TT_ROW_NAME) NULL};
const char *const tt_choice_select[] = {TT_SELECTS(TT_ROW_NAME) NULL};

const unsigned tt_select_options[] = {
#define X(name, options) options,
    TT_SELECTS(X)
#undef X
};

const char *tt_choice_of_character(const char *text)
{
  static const struct {
    char character;
    const char *name;
  } of[] = {
#define X(name, character) {character, #name},
      TT_DELIMITERS(X)
#undef X
          {'.', "point"}};
  for (size_t i = 0; text && *text && !text[1] && i < sizeof of / sizeof *of; i++)
    if (of[i].character == *text) return of[i].name;
  return text;
}
