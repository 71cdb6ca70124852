/* plan_data.h — what a plan reads of the samples. */
#ifndef TT_PLAN_DATA_H
#define TT_PLAN_DATA_H
#include "io/data/data.h"

/* The targets of a job, not normalized, if classes must be counted; else *out stays NULL. Owner:
 * the caller. Local. Errors: as tt_data_reader_open_job_local; IO, MEM. */
tt_err tt_plan_read_labels_local(const tt_config *cfg, const tt_data_shape *shape,
                                 tt_dataset **out);
#endif
