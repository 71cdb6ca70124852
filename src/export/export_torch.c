/* export_torch.c — a trained model as one Python file with a module of PyTorch: the program
 * torch_module.py, and model.h5 in base64 (RFC 4648). */
#include "src/export/export_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Python reads the model as one string. */
static const int64_t most_parameters = 1 << 26;

/* Whether the tables of torch_module.py have a row of this name. */
static int program_has(const char *name)
{
  char row[64];
  snprintf(row, sizeof row, "\"%s\":", name);
  return strstr(tt_torch_module, row) != NULL;
}

static tt_err check_front(const tt_export_model *x, const tt_front *f)
{
  for (int l = 0; l < f->layers; l++) {
    const char *kind = tt_front_words[f->layer[l].kind];
    const char *pool = tt_pooling_name[f->layer[l].pool];
    const char *activation = tt_choice_activation[f->layer[l].activation];
    if (!program_has(kind)) return TT_EXPORT_REFUSE(x, "PyTorch", "layer", kind);
    if (!program_has(pool)) return TT_EXPORT_REFUSE(x, "PyTorch", "pool", pool);
    if (!program_has(activation)) return TT_EXPORT_REFUSE(x, "PyTorch", "activation", activation);
  }
  return TT_OK;
}

static tt_err check(const tt_export_model *x)
{
  if (tt_export_parameters(x) > most_parameters)
    return TT_FAIL(USAGE,
                   "%s: the members have %" PRId64
                   " parameters, a file for PyTorch may have %" PRId64 "; use --onnx",
                   x->file, tt_export_parameters(x), most_parameters);
  for (int64_t i = 0; i < x->networks; i++) {
    const tt_model *m = &x->network[i].m->model;
    const char *activation = tt_choice_activation[tt_model_activation(m)];
    const char *output = tt_choice_output[m->output];
    if (!program_has(activation)) return TT_EXPORT_REFUSE(x, "PyTorch", "activation", activation);
    if (!program_has(output)) return TT_EXPORT_REFUSE(x, "PyTorch", "output", output);
    for (int64_t c = 0; c < x->network[i].columns; c++) {
      const char *transform = tt_export_transform_name(x->network[i].undo[c]);
      if (!program_has(transform)) return TT_EXPORT_REFUSE(x, "PyTorch", "transform", transform);
    }
    TT_TRY(check_front(x, &m->front));
  }
  for (int64_t i = 0; i < x->inputs; i++) {
    const char *transform = tt_export_transform_name(tt_export_transform(x, i));
    if (!program_has(transform)) return TT_EXPORT_REFUSE(x, "PyTorch", "transform", transform);
  }
  return TT_OK;
}

static void put_base64(FILE *file, const unsigned char *bytes, size_t size)
{
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; k++) group = group << 8 | (i + k < size ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; k++)
      fputc(i + k <= size ? digit[group >> (18 - 6 * k) & 63] : '=', file);
  }
  fputc('\n', file);
}

tt_err tt_export_torch_local(const tt_export_model *x, FILE *file)
{
  unsigned char line[57]; /* 76 characters */
  size_t size;
  TT_TRY(check(x));
  FILE *src = fopen(x->model, "rb");
  if (!src) return TT_FAIL(NOINPUT, "%s: %s", x->model, strerror(errno));
  fprintf(file, "%sMODEL = \"\"\"\n", tt_torch_module);
  while ((size = fread(line, 1, sizeof line, src)) > 0) put_base64(file, line, size);
  fputs("\"\"\"\n", file);
  int bad = ferror(src);
  fclose(src);
  return bad ? TT_FAIL(IO, "%s: %s", x->model, strerror(errno)) : TT_OK;
}
