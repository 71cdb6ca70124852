/* export_c_head.c — the comment and the prototypes at the beginning of the C file. */
#include "src/export/export_c_internal.h"

#include <inttypes.h>

/* A text inside a comment. */
static void put_comment(FILE *file, const char *text)
{
  for (; *text; text++)
    if ((unsigned char)*text >= ' ' && *text != '*' && *text != '\\') fputc(*text, file);
}

/* ": 0 brass, 1 steel": the values of a category. */
static void put_levels(const tt_export_model *x, int64_t column, FILE *file)
{
  int64_t first = x->net->first[column], levels = tt_net_inputs_levels(x->net, column);
  int texts = tt_net_inputs_levels_are_texts(x->net, column);
  for (int64_t k = 0; k < levels; k++) {
    fputs(k ? ", " : ": ", file);
    if (texts) fprintf(file, "%" PRId64 " ", k);
    put_comment(file, x->net->at[first + k].name);
  }
  if (tt_scaler_may_miss(&x->all->at[0]->scaler, column)) fputs("; NAN where it is missing", file);
}

/* Prototypes of a model with groups. */
static void put_groups(const tt_export_model *x, const char *name, FILE *file)
{
  fputs("#include <stdlib.h>\n#include <string.h>\n\n/* By the ensemble of a group (", file);
  put_comment(file, x->groups->groups->columns);
  fprintf(file,
          "). Returns 1; 0: there is no such group, or all its members\n"
          " * diverged: the results are %s. */\n"
          "int %s_predict(const char *group, const double *x, double *mean, double *total,\n"
          "    double *aleatoric, double *epistemic);\n\n",
          x->groups->groups->pooled ? "those of the ensemble of all rows" : "NAN", name);
}

void tt_export_c_head(const tt_export_model *x, const char *name, FILE *file)
{
  const tt_columns *input = &x->all->at[0]->input;
  fprintf(file, "/* %s_predict: a trained ensemble, exported by tutti " TUTTI_VERSION ".\n * ",
          name);
  put_comment(file, x->model);
  fprintf(file, "\n * content_hash_xxh3 %s\n *\n", x->model_hash);
  for (int64_t i = 0; i < x->columns_in; i++) {
    fprintf(file, " * x[%" PRId64 "]  ", i);
    put_comment(file, input->name[i]);
    fputs(input->units[i][0] ? ", " : "", file);
    put_comment(file, input->units[i]);
    put_levels(x, i, file);
    fputc('\n', file);
  }
  for (int64_t c = 0; c < x->columns; c++) {
    fprintf(file, " * column %" PRId64 "  ", c);
    put_comment(file, x->groups ? x->groups->groups->ensemble : x->labels->ensemble[c]);
    fputs(": ", file);
    put_comment(file, x->labels->label[c]);
    fputs(x->labels->units[c][0] ? ", " : "", file);
    put_comment(file, x->labels->units[c]);
    fputc('\n', file);
  }
  fprintf(file,
          " *\n * x has %" PRId64 " values, the results have %" PRId64
          " each, in the units of the training "
          "data. Results\n * that are a null pointer are not written. Safe to call from several "
          "threads. */\n"
          "#include <math.h>\n\n",
          x->columns_in, x->columns);
  if (x->groups) {
    put_groups(x, name, file);
    return;
  }
  fprintf(
      file,
      "void %s_predict(const double *x, double *mean, double *total, double *aleatoric,\n"
      "    double *epistemic);\n\n"
      "/* The same of one member alone, without recalibration: mean and variance of the columns "
      "of its\n * ensemble. Returns their number; 0: model.h5 has no such member, or it is not "
      "used. */\n"
      "int %s_member(int member, const double *x, double *mean, double *variance);\n\n",
      name, name);
}
