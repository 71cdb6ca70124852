/* calibration.h — the group /calibration of model.h5. Private to io/. */
#ifndef TT_CALIBRATION_FILE_H
#define TT_CALIBRATION_FILE_H
#include "core/model/trained_ensemble.h"
#include "io/hdf5/schema.h"

/* Calibrations of all committees as one over all their columns; stays zeroed if none has any.
 * Local; owner: the caller, tt_calibration_free. Errors: MEM. */
tt_err tt_calibration_concat(const tt_trained_ensembles *all, tt_calibration *out);

/* Collective. Nothing for a zeroed one. */
void tt_calibration_write(tt_schema *s, const tt_calibration *k);

/* Local. Into the committees, if the file has it. Errors: DATA, IO, MEM. */
tt_err tt_calibration_read_local(tt_h5_reader *r, tt_trained_ensembles *all);
#endif
