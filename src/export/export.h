/* export.h — `tutti export`: a trained model as a file that other programs run without tutti. */
#ifndef TT_EXPORT_H
#define TT_EXPORT_H
#include "core/base/err.h"

/* name, file name without --output, meaning; the function that writes it is tt_export_<name>_local
 * (export_internal.h) */
#define TT_EXPORT_FORMATS(X)                                                                       \
  X(onnx, "model.onnx", "ONNX graph")                                                              \
  X(c, "model.c", "C function")                                                                    \
  X(torch, "model.py", "PyTorch module")

typedef enum tt_export_format {
#define X(name, file, meaning) TT_EXPORT_##name,
  TT_EXPORT_FORMATS(X)
#undef X
      TT_EXPORT_FORMAT_COUNT
} tt_export_format;

typedef struct tt_export_options {
  const char *model;  /* model.h5 */
  const char *output; /* NULL: the name of the table; a directory for all groups as ONNX: models */
  const char *group;  /* of the model (`by`); NULL: it has none, or all groups */
  tt_export_format format;
  int force; /* 1 = replace the output if it exists */
} tt_export_options;

/* Write the members that predictions use, with the transforms of inputs and outputs. The file is
 * complete or does not exist. Needs no MPI. Local. Errors: NOINPUT, DATA (not a model), USAGE (the
 * format cannot express the model: the message has the reason), CANTCREAT (the output exists
 * without force, or cannot be written), IO, MEM. */
tt_err tt_export_local(const tt_export_options *o);
#endif
