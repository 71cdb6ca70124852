/* onnx_front.h — the front of the networks of a cohort in an ONNX graph. Local.
 *
 * U used members, N rows. Before the first weights the axis of the members has size 1, because all
 * members have the same values. */
#ifndef TT_ONNX_FRONT_H
#define TT_ONNX_FRONT_H
#include "src/export/export_internal.h"
#include "src/export/onnx_graph.h"

/* The features of the front [U or 1][N][F] from the normalized inputs [N][D]. Errors: USAGE (a row
 * of a table without an expression), MEM. */
tt_err tt_onnx_front(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                     tt_onnx_value in, tt_onnx_value *out);
#endif
