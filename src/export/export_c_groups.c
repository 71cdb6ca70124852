/* export_c_groups.c — all groups of `by` in one C file: a table with a row for each group, and the
 * code of a model without groups, whose arrays are columns of the table. */
#include "core/base/mem.h"
#include "src/export/export_c_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of tt_scaler, and of tt_export_cohort with the number of their values. */
#define INPUT_ARRAYS(X) X(x_mean) X(x_scale) X(x_lambda) X(x_fill)
#define COHORT_ARRAYS(X)                                                                           \
  X(share, members)                                                                                \
  X(offset, columns)                                                                               \
  X(scale, columns)                                                                                \
  X(std_scale, columns)                                                                            \
  X(noise, columns)                                                                                \
  X(lambda, columns)

static void put_text(FILE *file, const char *text)
{
  fputc('"', file);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < ' ' || c == '"' || c == '\\' || c == '?')
      fprintf(file, "\\%03o", c);
    else
      fputc(c, file);
  }
  fputc('"', file);
}

static void put_values(FILE *file, int64_t n, const double *value)
{
  fputs(", {", file);
  for (int64_t i = 0; i < n; i++)
    if (isnan(value[i]))
      fprintf(file, "%sNAN", i ? ", " : "");
    else
      fprintf(file, "%s%.16e", i ? ", " : "", value[i]);
  fputc('}', file);
}

static void put_row(FILE *file, const char *name, const tt_export_group *g)
{
  const tt_export_cohort *k = &g->cohort;
  int64_t params = g->m->model.params;
  fputs("  {", file);
  put_text(file, name);
  fprintf(file, ", %" PRId64, k->members);
#define X(field) put_values(file, g->scaler.inputs, g->scaler.field);
  INPUT_ARRAYS(X)
#undef X
#define X(field, count) put_values(file, k->count, k->field);
  COHORT_ARRAYS(X)
#undef X
  fputs(", {", file);
  for (int64_t i = 0; i < k->members; i++)
    for (int64_t p = 0; p < params; p++)
      fprintf(file, "%s%.8ef", i || p ? ", " : "", (double)g->m->w[k->member[i] * params + p]);
  fputs("}},\n", file);
}

static void put_field(FILE *file, const char *type, const char *name, int64_t count)
{
  fprintf(file, "  %s %s[%" PRId64 "];\n#define %s0 G->%s\n", type, name, count, name, name);
}

/* The arrays have room for all members of a group. */
static void put_type(const tt_export_model *x, FILE *file)
{
  int64_t columns = x->cohort->columns, members = 0;
  for (int64_t g = 0; g < x->groups->ensembles; g++)
    if (x->groups->ensemble[g].members > members) members = x->groups->ensemble[g].members;
  fputs("struct group {\n  const char *name;\n  int members;\n", file);
#define X(field) put_field(file, "double", #field, x->inputs);
  INPUT_ARRAYS(X)
#undef X
#define X(field, count) put_field(file, "double", #field, count);
  COHORT_ARRAYS(X)
#undef X
  put_field(file, "float", "weights", members * x->network->m->model.params);
  fprintf(file, "};\nstatic const int ensemble0[%" PRId64 "] = {0};\n", members);
}

/*   order  pointers into the names of the groups */
static tt_err put_rows(const tt_export_model *x, char **const *order, FILE *file)
{
  for (int64_t i = 0; i < x->groups->ensembles; i++) {
    tt_export_group one = {0};
    int64_t g = order[i] - x->groups->groups->name;
    if (!tt_export_can_predict(x->groups, g)) continue;
    tt_err e = tt_export_group_open(x->groups, g, &one);
    if (!e) put_row(file, *order[i], &one);
    tt_export_group_close(&one);
    if (e) return e;
  }
  return TT_OK;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(**(char **const *)a, **(char **const *)b);
}

tt_err tt_export_c_groups_table(const tt_export_model *x, FILE *file)
{
  const tt_by_groups *groups = x->groups->groups;
  char ***order = NULL;
  TT_TRY(TT_ALLOC(order, groups->count));
  for (int64_t g = 0; g < groups->count; g++) order[g] = &groups->name[g];
  qsort(order, (size_t)groups->count, sizeof *order, compare_names);
  put_type(x, file);
  fputs("static const struct group group_table[] = { /* in the order of strcmp */\n", file);
  tt_err e = put_rows(x, order, file);
  fputs("};\n", file);
  tt_free(order);
  return e;
}

void tt_export_c_groups_predict(const tt_export_model *x, const char *name, const char *inputs,
                                FILE *file)
{
  fprintf(file,
          "static int compare_names(const void *name, const void *group)\n{\n"
          "  return strcmp(name, ((const struct group *)group)->name);\n}\n\n"
          "static const struct group *find_group(const char *name)\n{\n"
          "  size_t size = sizeof *group_table;\n"
          "  return bsearch(name, group_table, sizeof group_table / size, size, compare_names);\n"
          "}\n\n"
          "int %s_predict(const char *group, const double *x, double *mean, double *total,\n"
          "    double *aleatoric, double *epistemic)\n{\n"
          "  const struct group *own = find_group(group), *G = own;\n",
          name);
  if (x->groups->groups->pooled) fputs("  if (!G) G = find_group(\"" TT_BY_POOLED "\");\n", file);
  fprintf(file,
          "  if (!G) {\n    double *const result[] = {mean, total, aleatoric, epistemic};\n"
          "    for (int k = 0; k < 4; k++)\n"
          "      for (int c = 0; result[k] && c < %" PRId64 "; c++) result[k][c] = NAN;\n"
          "    return 0;\n  }\n%s"
          "  cohort0(G, u, mean, total, aleatoric, epistemic);\n  return own != 0;\n}\n",
          x->columns, inputs);
}
