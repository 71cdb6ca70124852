/* scores_internal.h — scores as variables of a file. Private to io/. */
#ifndef TT_SCORES_INTERNAL_H
#define TT_SCORES_INTERNAL_H
#include "io/hdf5/schema.h"
#include "io/results/results.h"

/* Collective. test_* of members and ensemble_* of columns, coverage, calibration, error
 * correlation, conformal intervals. The outline's dimensions are there. units  of all columns, or
 * NULL */
void tt_scores_write_variables(tt_schema *s, const tt_scores *k, const char *units);

/* Collective. oob_* of columns. */
void tt_scores_write_out_of_bag(tt_schema *s, const tt_scores *k, const char *units);
#endif
