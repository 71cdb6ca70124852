/* onnx_parts.c — see onnx_parts.h. */
#include "src/export/onnx_parts.h"

#include "core/base/mem.h"
#include "src/export/onnx_ops.h"

#include <string.h>

/* Activations */

/* tt_normal_cdf of elementwise.h; operator Erf of onnxruntime has no type double. */
static value normal_cdf(tt_onnx *g, value x)
{
  static const double c[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592};
  value a = times(g, 0.70710678118654752, op1(g, "Abs", x));
  value t = op2(g, "Div", scalar(g, 1.0), plus(g, 1.0, times(g, 0.3275911, a)));
  value p = scalar(g, c[0]);
  for (int i = 1; i < 5; i++) p = plus(g, c[i], op2(g, "Mul", p, t));
  value density = op1(g, "Exp", op1(g, "Neg", op2(g, "Mul", a, a)));
  value tail = times(g, 0.5, op2(g, "Mul", op2(g, "Mul", p, t), density));
  const value in[] = {op2(g, "Less", x, scalar(g, 0.0)), tail, op2(g, "Sub", scalar(g, 1.0), tail)};
  return tt_onnx_node(g, "Where", 3, in, 1, none);
}

/* e^x - 1 below 0. */
static value elu(tt_onnx *g, value x)
{
  value below = plus(g, -1.0, op1(g, "Exp", op2(g, "Min", x, scalar(g, 0.0))));
  return op2(g, "Add", op1(g, "Relu", x), below);
}

tt_err tt_onnx_activate(tt_onnx *g, const tt_export_model *x, tt_activation a, tt_onnx_value *v)
{
  const value z = *v;
  switch (a) {
  case TT_ACT_identity: return TT_OK;
  case TT_ACT_relu: *v = op1(g, "Relu", z); return TT_OK;
  case TT_ACT_leaky_relu: *v = op2(g, "Max", z, times(g, (double)0.01f, z)); return TT_OK;
  case TT_ACT_tanh: *v = op1(g, "Tanh", z); return TT_OK;
  case TT_ACT_sigmoid: *v = op1(g, "Sigmoid", z); return TT_OK;
  case TT_ACT_silu: *v = op2(g, "Mul", z, op1(g, "Sigmoid", z)); return TT_OK;
  case TT_ACT_gelu: *v = op2(g, "Mul", z, normal_cdf(g, z)); return TT_OK;
  case TT_ACT_softplus: *v = softplus(g, z); return TT_OK;
  case TT_ACT_elu: *v = elu(g, z); return TT_OK;
  default: return TT_EXPORT_REFUSE(x, "ONNX", "activation", tt_choice_activation[a]);
  }
}

/* Weights */

value tt_onnx_weights(tt_onnx *g, const tt_export_cohort *k, int64_t offset, int ndims,
                      const int64_t *dim)
{
  int64_t each = 1;
  float *all = NULL;
  value v = {""};
  for (int i = 1; i < ndims; i++) each *= dim[i];
  if (TT_ALLOC(all, k->members * each)) {
    g->failed = 1;
    return v;
  }
  for (int64_t u = 0; u < k->members; u++)
    memcpy(all + u * each, k->m->w + k->member[u] * k->m->model.params + offset,
           (size_t)each * sizeof *all);
  v = tt_onnx_constant(g, TT_ONNX_FLOAT, ndims, dim, all);
  tt_free(all);
  return tt_onnx_node(g, "Cast", 1, &v, 1, (tt_onnx_attribute){"to", 0, 1, {TT_ONNX_DOUBLE}});
}
