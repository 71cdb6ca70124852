/* onnx_ops.h — short names of operators, for the files that write an ONNX graph. */
#ifndef TT_ONNX_OPS_H
#define TT_ONNX_OPS_H
#include "src/export/onnx_graph.h"

typedef tt_onnx_value value;
static const tt_onnx_attribute none = {NULL, 0, 0, {0}};

/* Nodes with one and two inputs. */
static inline value op1(tt_onnx *g, const char *op, value a)
{
  return tt_onnx_node(g, op, 1, &a, 1, none);
}

static inline value op2(tt_onnx *g, const char *op, value a, value b)
{
  const value in[] = {a, b};
  return tt_onnx_node(g, op, 2, in, 1, none);
}

static inline value scalar(tt_onnx *g, double x)
{
  return tt_onnx_constant(g, TT_ONNX_DOUBLE, 0, NULL, &x);
}

static inline value doubles(tt_onnx *g, int64_t n, const double *x)
{
  return tt_onnx_constant(g, TT_ONNX_DOUBLE, 1, &n, x);
}

static inline value integers(tt_onnx *g, int64_t n, const int64_t *x)
{
  return tt_onnx_constant(g, TT_ONNX_INT64, 1, &n, x);
}

static inline value reshape(tt_onnx *g, value a, int n, const int64_t *dim)
{
  return op2(g, "Reshape", a, integers(g, n, dim));
}

/* Sum along the last axis, which stays with size 1. */
static inline value sum_last(tt_onnx *g, value a)
{
  return op2(g, "ReduceSum", a, integers(g, 1, (const int64_t[]){-1}));
}

static inline value times(tt_onnx *g, double factor, value x)
{
  return op2(g, "Mul", scalar(g, factor), x);
}

static inline value plus(tt_onnx *g, double term, value x)
{
  return op2(g, "Add", scalar(g, term), x);
}

static inline value choose(tt_onnx *g, value condition, value yes, value no)
{
  const value in[] = {condition, yes, no};
  return tt_onnx_node(g, "Where", 3, in, 1, none);
}

/* Mean or maximum along the last axis, which stays with size 1. */
static inline value reduce(tt_onnx *g, const char *op, value a)
{
  return tt_onnx_node(g, op, 1, &a, 1, (tt_onnx_attribute){"axes", 1, 1, {-1}});
}

/* Elements [from, to) of the last axis. */
static inline value slice_last(tt_onnx *g, value a, int64_t begin, int64_t end)
{
  const int64_t last = -1;
  const value in[] = {a, integers(g, 1, &begin), integers(g, 1, &end), integers(g, 1, &last)};
  return tt_onnx_node(g, "Slice", 4, in, 1, none);
}

static inline value concat_last(tt_onnx *g, int n, const value *part)
{
  return tt_onnx_node(g, "Concat", n, part, 1, (tt_onnx_attribute){"axis", 0, 1, {-1}});
}

/* Along the axis of the members. */
static inline value concat_first(tt_onnx *g, int n, const value *part)
{
  if (n == 1) return *part;
  return tt_onnx_node(g, "Concat", n, part, 1, (tt_onnx_attribute){"axis", 0, 1, {0}});
}

/* ln(1 + e^x) */
static inline value softplus(tt_onnx *g, value x)
{
  value e = op1(g, "Exp", op1(g, "Neg", op1(g, "Abs", x)));
  return op2(g, "Add", op1(g, "Relu", x), op1(g, "Log", plus(g, 1.0, e)));
}
#endif
