/* plain_model.h — networks without levels, classes, layer_norm and residual layers. */
#ifndef TT_PLAIN_MODEL_H
#define TT_PLAIN_MODEL_H
#include "core/model/model.h"

#include <string.h>

/* tt_model_lay_out with the same errors. */
static inline tt_err tt_model_plain(int64_t inputs, int64_t targets, const int64_t *hidden,
                                    int64_t layers, tt_activation activation, tt_output output,
                                    tt_model *out)
{
  tt_model_shape shape;
  memset(&shape, 0, sizeof shape);
  shape.inputs = inputs, shape.targets = targets;
  shape.hidden = hidden, shape.layers = layers;
  shape.activation = activation, shape.output = output;
  return tt_model_lay_out(&shape, out);
}
#endif
