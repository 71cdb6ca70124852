/* calibration.h — the group /calibration of model.h5. For the files of io/ only. */
#ifndef TT_CALIBRATION_FILE_H
#define TT_CALIBRATION_FILE_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/schema.h"

/* Join the calibrations of all cohorts over all columns; *out is not changed if no cohort has one.
 * Local; owner: the caller, tt_calibration_free. Errors: MEM. */
tt_err tt_calibration_concat(const tt_trained_ensembles *all, tt_calibration *out);

/* Collective. Writes nothing if *k is zeroed. */
void tt_calibration_write(tt_schema *s, const tt_calibration *k);

/* Local. Read the calibration into the cohorts, if the file has one. Errors: DATA, IO, MEM. */
tt_err tt_calibration_read_local(tt_h5_reader *r, tt_trained_ensembles *all);
#endif
