/* onnx_graph.h — the messages of an ONNX file: nodes, constants, inputs and outputs of a graph. The
 * numbers of the fields are those of onnx.proto (github.com/onnx/onnx). */
#ifndef TT_ONNX_GRAPH_H
#define TT_ONNX_GRAPH_H
#include "core/base/err.h"

#include <stdint.h>
#include <stdio.h>

/* Numbers of TensorProto.DataType. */
typedef enum tt_onnx_type {
  TT_ONNX_FLOAT = 1,
  TT_ONNX_INT64 = 7,
  TT_ONNX_DOUBLE = 11
} tt_onnx_type;

/* The graph as it grows: nodes stand in the order in which they are added. */
typedef struct tt_onnx {
  FILE *graph; /* fields of GraphProto so far */
  int values;  /* named so far */
  int failed;  /* 1: out of memory; then the other functions do nothing */
} tt_onnx;

/* Name of a value: an output of a node, a constant, or an input of the graph. */
typedef struct tt_onnx_value {
  char name[24];
} tt_onnx_value;

/* An attribute of a node: one whole number, or a list of them. */
typedef struct tt_onnx_attribute {
  const char *name; /* NULL: no attribute */
  int is_list, count;
  int64_t value[4];
} tt_onnx_attribute;

/* Add a node with `n` inputs and return its first output.
 *   outputs  number of outputs of the operator */
tt_onnx_value tt_onnx_node(tt_onnx *g, const char *op, int n, const tt_onnx_value *in, int outputs,
                           tt_onnx_attribute a);

/* A constant with these dimensions; values are copied. */
tt_onnx_value tt_onnx_constant(tt_onnx *g, tt_onnx_type type, int ndims, const int64_t *dim,
                               const void *values);

/* An input of the graph, and an output that is value `v`: matrices of doubles with any number of
 * rows. */
void tt_onnx_input(tt_onnx *g, const char *name, int64_t columns);
void tt_onnx_output(tt_onnx *g, tt_onnx_value v, const char *name, int64_t columns);

/* One text about the model, for its users. */
typedef struct tt_onnx_property {
  const char *key, *value;
} tt_onnx_property;

/* Write the file: the finished graph `bytes`[size] of g, with `n` properties. */
void tt_onnx_write_model(tt_onnx *g, FILE *file, const char *bytes, size_t size, int n,
                         const tt_onnx_property *property);
#endif
