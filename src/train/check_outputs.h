/* check_outputs.h — whether the files of a job can be written, before it trains. Local. */
#ifndef TT_CHECK_OUTPUTS_H
#define TT_CHECK_OUTPUTS_H
#include "core/model/cohort.h"
#include "io/data/data.h"

/* Call the functions that write model.h5, results.h5 and checkpoints, for files in memory without
 * data (tt_h5_create): what HDF5 would refuse at the end of the training is refused now.
 *   shape  of the data file
 * Errors: CONFIG (the message names the file, the variable and HDF5's reason), MEM. */
tt_err tt_check_outputs_local(const tt_cohorts *cohorts, int64_t components,
                              const tt_data_shape *shape);
#endif
