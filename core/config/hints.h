/* hints.h — words of other programs, and what a job file has instead. Floor 1, local. */
#ifndef TT_HINTS_H
#define TT_HINTS_H
#include "core/config/config_internal.h"

/* The option that other programs call by this name, or NULL; *element: of an ensemble, else -1. */
const tt_option *tt_hint_option(const char *word, int64_t *element);
/* The value of an option that other programs call by this name ("mse_loss": "mse"), or NULL: it
 * need not be a value of the option in question. What is behind a colon is ignored: "cuda:0". */
const char *tt_hint_value(const char *word);
/* What to write instead of a row of model.front that begins with such a word; or NULL. */
const char *tt_hint_front_row(const char *row);
#endif
