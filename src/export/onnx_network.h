/* onnx_network.h — the networks of a cohort in an ONNX graph. Local. U used members, N rows. */
#ifndef TT_ONNX_NETWORK_H
#define TT_ONNX_NETWORK_H
#include "src/export/export_internal.h"
#include "src/export/onnx_graph.h"

/* Outputs of the last layer [U][N][O] from the normalized inputs [N][D]. Errors: USAGE (a row of a
 * table without an expression), MEM. */
tt_err tt_onnx_network(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                       tt_onnx_value in, tt_onnx_value *out);
#endif
