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
#endif
