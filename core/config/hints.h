/* hints.h — names of options in other programs, and what a job file has instead. Floor 1, local. */
#ifndef TT_HINTS_H
#define TT_HINTS_H
#include "core/config/config_internal.h"

/* The option that other programs call by this name, or NULL; *element: of an ensemble, else -1. */
const tt_option *tt_hint_option(const char *word, int64_t *element);
#endif
