/* onnx_parts.h — activations and weights of a cohort in an ONNX graph. All functions are local. */
#ifndef TT_ONNX_PARTS_H
#define TT_ONNX_PARTS_H
#include "src/export/export_internal.h"
#include "src/export/onnx_graph.h"

/* f(x) in place of x. Errors: USAGE. */
tt_err tt_onnx_activate(tt_onnx *g, const tt_export_model *x, tt_activation a, tt_onnx_value *v);

/* Parameters of the used members from `offset` on, in double: [U] and the other axes.
 *   dim  [ndims] dim[0] = U */
tt_onnx_value tt_onnx_weights(tt_onnx *g, const tt_export_cohort *k, int64_t offset, int ndims,
                              const int64_t *dim);
#endif
