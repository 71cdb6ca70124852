/* calibration.h — the group /calibration of model.h5. Private to io/. */
#ifndef TT_MODEL_CALIBRATION_H
#define TT_MODEL_CALIBRATION_H
#include "io/hdf5/schema.h"
#include "core/model/trained_ensemble.h"

/* Calibrations of all committees as one over all their columns; stays zeroed if none has any.
 * Local; owner: the caller, tt_calibration_free. Errors: MEM. */
tt_err tt_model_calibration_join(const tt_committees *all, tt_calibration *out);

/* Collective. Nothing for a zeroed one. */
void tt_model_calibration_write(tt_schema *s, const tt_calibration *k);

/* Local. Into the committees, if the file has it. Errors: DATA, IO, MEM. */
tt_err tt_model_calibration_read(tt_h5_reader *r, tt_committees *all);
#endif
