/* scores_internal.h — scores as variables of a file. For the files of io/ only. */
#ifndef TT_SCORES_INTERNAL_H
#define TT_SCORES_INTERNAL_H
#include "io/results/axis_labels.h"
#include "io/results/results.h"

/* Text of a metric's units; NULL: none.
 *   of_target  units of the targets, or NULL */
const char *tt_metric_units_text(tt_metric_units kind, const char *of_target);

/* Collective. Write test_* of members and ensemble_* of columns, coverage, calibration, error
 * correlation, conformal intervals. The dimensions of tt_axis_labels must exist. */
void tt_scores_write_variables(tt_schema *s, const tt_scores *k, const tt_axis_labels *o);

/* Collective. Write oob_* of columns.
 *   tested  1 if tt_scores_write_variables has written the coordinate coverage_level */
void tt_scores_write_out_of_bag(tt_schema *s, const tt_scores *k, int tested, const char *units);
#endif
