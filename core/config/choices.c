/* choices.c — see choices.h. */
#include "core/config/choices.h"

#include <stddef.h>

#define NAME(P, name) #name,
#define X(type, P, list, values) const char *const tt_choice_##list[] = {values(NAME, P) NULL};
TT_CHOICES(X)
#undef X

#define X(list, names) const char *const tt_choice_##list[] = {names(TT_ROW_NAME) NULL};
TT_NAME_TABLES(X)
#undef X

#define X(name) #name,
const char *const tt_choice_target_reduction[] = {TT_TARGET_REDUCTIONS(X) NULL};
const char *const tt_choice_ensemble_reduction[] = {TT_ENSEMBLE_REDUCTIONS(X) NULL};
const char *const tt_choice_goal[] = {TT_GOALS(X) NULL};
#undef X
const char *const tt_choice_gpu_kernel[] = {"auto", TT_GPU_PATHS(TT_ROW_NAME) NULL};

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
