/* export_c_undo.c — see export_c_internal.h. */
#include "src/export/export_c_internal.h"

#include <inttypes.h>

/* Mean and variance of a Gaussian number after a transform is undone, as in transform.h; the call
 * for column c. */
static const char *const undo_text[TT_TRANSFORM_COUNT] = {
    [TT_TRANSFORM_log] = "log_normal(m, v, 0.0, mean, variance)",
    [TT_TRANSFORM_log1p] = "log_normal(m, v, -1.0, mean, variance)",
    [TT_TRANSFORM_yeo_johnson] = "undo_yeo_johnson(m, v, lambda[c], mean, variance)"};

tt_err tt_export_c_undo_check(const tt_export_model *x)
{
  for (int64_t i = 0; i < x->cohorts; i++)
    for (int64_t c = 0; c < x->cohort[i].columns; c++) {
      tt_transform f = x->cohort[i].undo[c];
      if (f != TT_TRANSFORM_identity && !undo_text[f])
        return TT_EXPORT_REFUSE(x, "C", "transform", tt_export_transform_name(f));
    }
  return TT_OK;
}

static int any_undoes(const tt_export_model *x, tt_transform f)
{
  for (int64_t i = 0; i < x->cohorts; i++)
    if (tt_export_undoes(&x->cohort[i], f)) return 1;
  return 0;
}

void tt_export_c_undo_functions(const tt_export_model *x, FILE *file)
{
  if (any_undoes(x, TT_TRANSFORM_log) || any_undoes(x, TT_TRANSFORM_log1p))
    fputs("static void log_normal(double m, double v, double shift, double *mean, double "
          "*variance)\n{\n"
          "  *mean = shift < 0.0 ? expm1(m + 0.5 * v) : exp(m + 0.5 * v);\n"
          "  *variance = expm1(v) * exp(2.0 * m + v);\n}\n\n",
          file);
  if (any_undoes(x, TT_TRANSFORM_yeo_johnson))
    fputs("static double yeo_johnson_inverse(double t, double lambda)\n{\n"
          "  double power = t < 0.0 ? 2.0 - lambda : lambda, size = fabs(t);\n"
          "  double v = expm1(power > 0.0 ? log1p(power * size) / power : size);\n"
          "  return t < 0.0 ? -v : v;\n}\n\n"
          "/* By the trapezoidal rule with steps of half a standard deviation. */\n"
          "static void undo_yeo_johnson(double m, double v, double lambda, double *mean,\n"
          "                             double *variance)\n{\n"
          "  double all = 0.0, sum = 0.0, squares = 0.0, middle = yeo_johnson_inverse(m, lambda);\n"
          "  for (int i = -18; i <= 18; i++) {\n"
          "    double z = 0.5 * i, w = exp(-0.5 * z * z);\n"
          "    double away = yeo_johnson_inverse(m + z * sqrt(v), lambda) - middle;\n"
          "    all += w;\n    sum += w * away;\n    squares += w * away * away;\n  }\n"
          "  sum /= all;\n  *mean = middle + sum;\n  *variance = fmax(squares / all - sum * sum, "
          "0.0);\n}\n\n",
          file);
}

void tt_export_c_undo(const tt_export_model *x, int64_t i, FILE *file)
{
  const tt_export_cohort *k = &x->cohort[i];
  const char *parameter = tt_export_c_parameter(x), *group = tt_export_c_argument(x);
  fprintf(file,
          "static void transform%" PRId64
          "(%sint c, double m, double v, double *mean, double *variance)\n{\n"
          "  const double *lambda = lambda%" PRId64 ";\n"
          "  (void)lambda;\n  *mean = m;\n  *variance = v;\n  switch (c) {\n",
          i, parameter, i);
  for (int f = TT_TRANSFORM_identity + 1; f < TT_TRANSFORM_COUNT; f++) {
    if (!tt_export_undoes(k, (tt_transform)f)) continue;
    for (int64_t c = 0; c < k->columns; c++)
      if (k->undo[c] == (tt_transform)f) fprintf(file, "  case %" PRId64 ":\n", c);
    fprintf(file, "    %s;\n    break;\n", undo_text[f]);
  }
  fputs("  default: break;\n  }\n}\n\n", file);
  fprintf(file,
          "static double undo%" PRId64
          "(%sint c, double center, double apart, double *mean, double *variance)\n{\n"
          "  double scale = scale%" PRId64 "[c], wide = std_scale%" PRId64
          "[c], near = fmin(wide, scale);\n"
          "  double m = center * scale + offset%" PRId64 "[c] + (*mean - center) * near;\n"
          "  double v = *variance * wide * wide + noise%" PRId64 "[c] * noise%" PRId64 "[c];\n"
          "  double added = (wide * wide - near * near) * apart, all;\n"
          "  transform%" PRId64 "(%sc, m, v, mean, variance);\n"
          "  if (added <= 0.0) return 0.0;\n"
          "  transform%" PRId64 "(%sc, m, v + added, mean, &all);\n"
          "  return all - *variance;\n}\n\n",
          i, parameter, i, i, i, i, i, i, group, i, group);
}

static void put_numbers(int64_t i, const tt_export_cohort *k, FILE *file)
{
  fprintf(file, "static const int number%" PRId64 "[] = {", i);
  for (int64_t g = 0; g < k->members; g++) fprintf(file, "%s%" PRId64, g ? ", " : "", k->number[g]);
  fputs("};\n", file);
}

void tt_export_c_member(const tt_export_model *x, const char *name, const char *inputs, FILE *file)
{
  for (int64_t i = 0; i < x->cohorts; i++) put_numbers(i, &x->cohort[i], file);
  fprintf(file,
          "\nint %s_member(int member, const double *x, double *mean, double *variance)\n{\n%s",
          name, inputs);
  for (int64_t i = 0; i < x->cohorts; i++) {
    const tt_export_cohort *k = &x->cohort[i];
    int64_t width = tt_trained_ensemble_width(k->m);
    fprintf(file,
            "  for (int g = 0; g < %" PRId64 "; g++) {\n    if (number%" PRId64
            "[g] != member) continue;\n"
            "    predict%" PRId64 "(g, u, mean, variance);\n"
            "    for (int j = 0; j < %" PRId64 "; j++) {\n"
            "      int c = ensemble%" PRId64 "[g] * %" PRId64 " + j;\n"
            "      double scale = scale%" PRId64 "[c];\n"
            "      mean[j] = mean[j] * scale + offset%" PRId64 "[c];\n"
            "      variance[j] *= scale * scale;\n",
            k->members, i, i, width, i, width, i, i);
    if (k->transformed)
      fprintf(file,
              "      transform%" PRId64 "(c, mean[j], variance[j], &mean[j], &variance[j]);\n", i);
    fprintf(file, "    }\n    return %" PRId64 ";\n  }\n", width);
  }
  fputs("  return 0;\n}\n", file);
}
