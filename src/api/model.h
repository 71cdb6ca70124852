/* model.h — what tutti_open has read. Floor 5. */
#ifndef TT_API_MODEL_H
#define TT_API_MODEL_H
#include "io/results/axis_labels.h"
#include "src/api/tutti.h"
#include "src/cpu/single_row.h"

struct tutti_model {
  tt_trained_ensembles all;
  tt_axis_labels labels;
  int64_t width, levels;
  int classes;
  tt_single_row **single; /* [all.count]; NULL if one of them does not fit, or if targets are
                             transformed */
};

/* A model of these trained ensembles, which move into it; after an error they are destroyed.
 * Errors: MEM. */
tt_err tt_model_create(tt_trained_ensembles *all, tutti_model **out);

/* Call a function that uses HDF5: one at a time in this process, as a guest of the program.
 * Errors: of the function, UNAVAILABLE. */
tt_err tt_call_hdf5(tt_err (*function)(void *), void *argument);
#endif
