/* onnx_transforms.h — the transforms of inputs and targets (core/formulas/transform.h) in an ONNX
 * graph. U used members, W = K q columns of an ensemble, N rows. */
#ifndef TT_ONNX_TRANSFORMS_H
#define TT_ONNX_TRANSFORMS_H
#include "src/export/export_internal.h"
#include "src/export/onnx_graph.h"

/* in [N][inputs]: each input becomes t = f(input). Errors: USAGE (a transform without an
 * expression), MEM. */
tt_err tt_onnx_transform_inputs(tt_onnx *g, const tt_export_model *x, tt_onnx_value *in);

/* Means and variances of the members, [U][N][W], normalized, are recalibrated and converted to the
 * user's units, as by tt_denormalize_mixture.
 *   center, apart  mean and variance of the means of the ensemble of the member
 *   added          what recalibration adds to the variance
 * Errors: as above. */
tt_err tt_onnx_undo_targets(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                            tt_onnx_value center, tt_onnx_value apart, tt_onnx_value *mean,
                            tt_onnx_value *variance, tt_onnx_value *added);
/* The columns x [N][D] become the inputs of the networks [N][F], before transforms: levels and
 * indicators are 0 or 1, missing amounts have their fill. Errors: MEM. */
tt_err tt_onnx_net_inputs(tt_onnx *g, const tt_export_model *x, tt_onnx_value *in);
#endif
