/* onnx_transforms.h — the transforms of inputs and targets (core/formulas/transform.h) in an ONNX
 * graph. U used members, W = K q columns of an ensemble, N rows. */
#ifndef TT_ONNX_TRANSFORMS_H
#define TT_ONNX_TRANSFORMS_H
#include "src/export/export_internal.h"
#include "src/export/onnx_graph.h"

/* in [N][inputs]: each input becomes t = f(input). Errors: USAGE (a transform without an
 * expression), MEM. */
tt_err tt_onnx_transform_inputs(tt_onnx *g, const tt_export_model *x, tt_onnx_value *in);

/* Means and variances of the members, [U][N][W], normalised, become those in the user's units:
 * recalibration scales the distance from `centre`, the mean of the ensemble of the member; then the
 * transforms of the targets are undone. Errors: as above. */
tt_err tt_onnx_undo_targets(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                            tt_onnx_value centre, tt_onnx_value *mean, tt_onnx_value *variance);
/* The columns x [N][D] become the inputs of the networks [N][F], before transforms: levels and
 * indicators are 0 or 1, missing amounts have their fill. Errors: MEM. */
tt_err tt_onnx_net_inputs(tt_onnx *g, const tt_export_model *x, tt_onnx_value *in);
#endif
