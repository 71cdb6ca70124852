/* onnx_graph.c — see onnx_graph.h. */
#include "src/export/onnx_graph.h"

#include <stdlib.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 17 }; /* of ONNX 1.12, 2022 */

/* The wire format of Protocol Buffers (protobuf.dev, "Encoding"): ONNX needs only two kinds of
 * fields. A library would need libprotobuf-c at run time, protoc-c in the build, and a copy of
 * onnx.proto. */

static void put_varint(FILE *file, uint64_t value)
{
  for (; value > 127; value >>= 7) fputc((int)(value & 127) | 128, file);
  fputc((int)value, file);
}

/* A whole number: int32, int64, enum. */
static void put_int(FILE *file, int field, int64_t value)
{
  put_varint(file, (uint64_t)field << 3);
  put_varint(file, (uint64_t)value);
}

/* A string, bytes, or a message that is complete. */
static void put_bytes(FILE *file, int field, const void *bytes, size_t size)
{
  put_varint(file, (uint64_t)field << 3 | 2);
  put_varint(file, size);
  fwrite(bytes, 1, size, file);
}

static void put_text(FILE *file, int field, const char *text)
{
  put_bytes(file, field, text, strlen(text));
}

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
  if (!g->failed) put_bytes(file, field, m->bytes, m->size);
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
  put_text(m.to, 1, a->name);
  for (int i = 0; i < a->count; i++) put_int(m.to, a->is_list ? 8 : 3, a->value[i]);
  put_int(m.to, 20, a->is_list ? 7 : 2); /* type INTS or INT */
  end(g, &m, node, 5);
}

tt_onnx_value tt_onnx_node(tt_onnx *g, const char *op, int n, const tt_onnx_value *in, int outputs,
                           tt_onnx_attribute a)
{
  message m;
  tt_onnx_value first = new_value(g);
  if (begin(g, &m)) return first;
  for (int i = 0; i < n; i++) put_text(m.to, 1, in[i].name);
  put_text(m.to, 2, first.name);
  for (int i = 1; i < outputs; i++) put_text(m.to, 2, new_value(g).name);
  put_text(m.to, 4, op);
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
    put_int(m.to, 1, dim[i]);
    bytes *= (size_t)dim[i];
  }
  put_int(m.to, 2, type);
  put_text(m.to, 8, v.name);
  put_bytes(m.to, 9, values, bytes);
  end(g, &m, g->graph, 5);
  return v;
}

/* TypeProto.Tensor of a matrix: element type, and the sizes of both axes. */
static void put_matrix_type(tt_onnx *g, int64_t columns, FILE *type)
{
  message tensor, shape, dim;
  if (begin(g, &tensor)) return;
  put_int(tensor.to, 1, TT_ONNX_DOUBLE);
  if (!begin(g, &shape)) {
    if (!begin(g, &dim)) {
      put_text(dim.to, 2, "rows");
      end(g, &dim, shape.to, 1);
    }
    if (!begin(g, &dim)) {
      put_int(dim.to, 1, columns);
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
  put_text(info.to, 1, name);
  if (!begin(g, &type)) {
    put_matrix_type(g, columns, type.to);
    end(g, &type, info.to, 2);
  }
  end(g, &info, g->graph, field);
}

void tt_onnx_input(tt_onnx *g, const char *name, int64_t columns)
{
  if (!g->failed) put_text(g->graph, 2, "tutti"); /* the name of the graph, which must have one */
  put_value_info(g, 11, name, columns);
}

void tt_onnx_output(tt_onnx *g, tt_onnx_value v, const char *name, int64_t columns)
{
  message m;
  if (begin(g, &m)) return;
  put_text(m.to, 1, v.name);
  put_text(m.to, 2, name);
  put_text(m.to, 4, "Identity");
  end(g, &m, g->graph, 1);
  put_value_info(g, 12, name, columns);
}

void tt_onnx_write_model(tt_onnx *g, FILE *file, const char *bytes, size_t size, int n,
                         const tt_onnx_property *property)
{
  put_int(file, 1, IR_VERSION);
  put_text(file, 2, "tutti");
  put_text(file, 3, TUTTI_VERSION);
  put_bytes(file, 7, bytes, size);
  static const char opset[] = {2 << 3, OPSET}; /* version of the default domain */
  put_bytes(file, 8, opset, sizeof opset);
  for (int i = 0; i < n; i++) {
    message m;
    if (begin(g, &m)) return;
    put_text(m.to, 1, property[i].key);
    put_text(m.to, 2, property[i].value);
    end(g, &m, file, 14);
  }
}
