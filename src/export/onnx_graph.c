/* onnx_graph.c — see onnx_graph.h. */
#include "src/export/onnx_graph.h"

#include "src/export/protobuf.h"

#include <stdlib.h>

enum { IR_VERSION = 8, OPSET = 17 }; /* of ONNX 1.12, 2022 */

/* A message that is being written; its length must be known before it goes into another one. */
typedef struct message {
  FILE *to;
  char *bytes;
  size_t size;
} message;

/* Returns 0 on success. */
static int begin(tt_onnx *g, message *m)
{
  *m = (message){.to = g->failed ? NULL : open_memstream(&m->bytes, &m->size)};
  g->failed |= !m->to;
  return g->failed;
}

/* Make the message a field of `file`. */
static void end(tt_onnx *g, message *m, FILE *file, int field)
{
  g->failed |= ferror(m->to) != 0;
  g->failed |= fclose(m->to) != 0;
  if (!g->failed) tt_pb_bytes(file, field, m->bytes, m->size);
  free(m->bytes);
}

static tt_onnx_value new_value(tt_onnx *g)
{
  tt_onnx_value v;
  snprintf(v.name, sizeof v.name, "v%d", g->values++);
  return v;
}

static void put_attribute(tt_onnx *g, const tt_onnx_attribute *a, FILE *node)
{
  message m;
  if (begin(g, &m)) return;
  tt_pb_text(m.to, 1, a->name);
  for (int i = 0; i < a->count; i++) tt_pb_int(m.to, a->is_list ? 8 : 3, a->value[i]);
  tt_pb_int(m.to, 20, a->is_list ? 7 : 2); /* type INTS or INT */
  end(g, &m, node, 5);
}

tt_onnx_value tt_onnx_node(tt_onnx *g, const char *op, int n, const tt_onnx_value *in, int outputs,
                           tt_onnx_attribute a)
{
  message m;
  tt_onnx_value first = new_value(g);
  if (begin(g, &m)) return first;
  for (int i = 0; i < n; i++) tt_pb_text(m.to, 1, in[i].name);
  tt_pb_text(m.to, 2, first.name);
  for (int i = 1; i < outputs; i++) tt_pb_text(m.to, 2, new_value(g).name);
  tt_pb_text(m.to, 4, op);
  if (a.name) put_attribute(g, &a, m.to);
  end(g, &m, g->graph, 1);
  return first;
}

tt_onnx_value tt_onnx_constant(tt_onnx *g, tt_onnx_type type, int ndims, const int64_t *dim,
                               const void *values)
{
  message m;
  tt_onnx_value v = new_value(g);
  size_t bytes = type == TT_ONNX_FLOAT ? 4 : 8;
  if (begin(g, &m)) return v;
  for (int i = 0; i < ndims; i++) {
    tt_pb_int(m.to, 1, dim[i]);
    bytes *= (size_t)dim[i];
  }
  tt_pb_int(m.to, 2, type);
  tt_pb_text(m.to, 8, v.name);
  tt_pb_bytes(m.to, 9, values, bytes);
  end(g, &m, g->graph, 5);
  return v;
}

/* TypeProto.Tensor of a matrix: element type, and the sizes of both axes. */
static void put_matrix_type(tt_onnx *g, int64_t columns, FILE *type)
{
  message tensor, shape, dim;
  if (begin(g, &tensor)) return;
  tt_pb_int(tensor.to, 1, TT_ONNX_DOUBLE);
  if (!begin(g, &shape)) {
    if (!begin(g, &dim)) {
      tt_pb_text(dim.to, 2, "rows");
      end(g, &dim, shape.to, 1);
    }
    if (!begin(g, &dim)) {
      tt_pb_int(dim.to, 1, columns);
      end(g, &dim, shape.to, 1);
    }
    end(g, &shape, tensor.to, 2);
  }
  end(g, &tensor, type, 1);
}

static void put_value_info(tt_onnx *g, int field, const char *name, int64_t columns)
{
  message info, type;
  if (begin(g, &info)) return;
  tt_pb_text(info.to, 1, name);
  if (!begin(g, &type)) {
    put_matrix_type(g, columns, type.to);
    end(g, &type, info.to, 2);
  }
  end(g, &info, g->graph, field);
}

void tt_onnx_input(tt_onnx *g, const char *name, int64_t columns)
{
  if (!g->failed) tt_pb_text(g->graph, 2, "tutti"); /* the name of the graph, which must have one */
  put_value_info(g, 11, name, columns);
}

void tt_onnx_output(tt_onnx *g, tt_onnx_value v, const char *name, int64_t columns)
{
  message m;
  if (begin(g, &m)) return;
  tt_pb_text(m.to, 1, v.name);
  tt_pb_text(m.to, 2, name);
  tt_pb_text(m.to, 4, "Identity");
  end(g, &m, g->graph, 1);
  put_value_info(g, 12, name, columns);
}

void tt_onnx_write_model(tt_onnx *g, FILE *file, const char *bytes, size_t size, int n,
                         const tt_onnx_property *property)
{
  tt_pb_int(file, 1, IR_VERSION);
  tt_pb_text(file, 2, "tutti");
  tt_pb_text(file, 3, TUTTI_VERSION);
  tt_pb_bytes(file, 7, bytes, size);
  static const char opset[] = {2 << 3, OPSET}; /* version of the default domain */
  tt_pb_bytes(file, 8, opset, sizeof opset);
  for (int i = 0; i < n; i++) {
    message m;
    if (begin(g, &m)) return;
    tt_pb_text(m.to, 1, property[i].key);
    tt_pb_text(m.to, 2, property[i].value);
    end(g, &m, file, 14);
  }
}
