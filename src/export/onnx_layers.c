/* onnx_layers.c — see onnx_layers.h. */
#include "src/export/onnx_layers.h"

#include "core/formulas/layer_norm.h"
#include "src/export/onnx_front.h"
#include "src/export/onnx_ops.h"
#include "src/export/onnx_parts.h"

/* [U][1][n] */
static value vector(tt_onnx *g, const tt_export_cohort *k, int64_t offset, int64_t n)
{
  return tt_onnx_weights(g, k, offset, 3, (const int64_t[]){k->members, 1, n});
}

/* [U][in][out], which is stored [out][in]. */
static value matrix(tt_onnx *g, const tt_export_cohort *k, const tt_layer *layer)
{
  const int64_t dim[] = {k->members, layer->out, layer->in};
  value v = tt_onnx_weights(g, k, layer->weight, 3, dim);
  return tt_onnx_node(g, "Transpose", 1, &v, 1, (tt_onnx_attribute){"perm", 1, 3, {0, 2, 1}});
}

static value normalize_layer(tt_onnx *g, const tt_export_cohort *k, const tt_layer *layer, value z)
{
  value d = op2(g, "Sub", z, reduce(g, "ReduceMean", z));
  value variance = reduce(g, "ReduceMean", op2(g, "Mul", d, d));
  value std = op1(g, "Sqrt", plus(g, (double)TT_LAYER_NORM_EPSILON, variance));
  value gain = vector(g, k, layer->norm, layer->out);
  value shift = vector(g, k, layer->norm + layer->out, layer->out);
  return op2(g, "Add", op2(g, "Mul", op2(g, "Div", d, std), gain), shift);
}

tt_err tt_onnx_network(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value in,
                       value *out)
{
  if (k->m->model.front.layers) TT_TRY(tt_onnx_front(g, x, k, in, &in));
  for (int l = 0; l < k->m->model.layers; l++) {
    const tt_layer *layer = &k->m->model.layer[l];
    value z = op2(g, "MatMul", in, matrix(g, k, layer));
    z = op2(g, "Add", z, vector(g, k, layer->bias, layer->out));
    if (layer->norm >= 0) z = normalize_layer(g, k, layer, z);
    TT_TRY(tt_onnx_activate(g, x, layer->activation, &z));
    in = layer->residual ? op2(g, "Add", z, in) : z;
  }
  *out = in;
  return TT_OK;
}
