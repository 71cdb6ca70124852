/* export_c.c — a trained model as one C file that needs only the C library: an array of weights for
 * each cohort and one function. It computes in double with the weights in single precision. The
 * text of an activation is the formula of elementwise.h. */
#include "core/base/mem.h"
#include "core/formulas/elementwise_f64.h"
#include "core/formulas/layer_norm.h"
#include "src/export/export_c_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const int64_t most_parameters = 1 << 24; /* more keeps a compiler busy for minutes */

/* y = f(x) of the activations, and the functions that they call, as text. */
static const char *const activation_text[] = {
#define X(name, f, ...) #f,
    TT_ACTIVATIONS(X)
#undef X
};
static const struct {
  const char *name, *value;
} elementary[] = {
#define X(name, value) {#name, #value},
    TT_ELEMENTARY_F64(X)
#undef X
};
enum { ELEMENTARY = sizeof elementary / sizeof *elementary };

/* Quantities of target k from the outputs o[j * K + k] of the last layer; N levels or classes. */
static const char *const output_text[TT_OUTPUT_COUNT] = {
    [TT_OUTPUT_mean] = "    mean[k] = o[k];\n"
                       "    variance[k] = 0.0;\n",
    [TT_OUTPUT_mean_variance] =
        "    mean[k] = o[k];\n"
        "    variance[k] = fmax(o[K + k], 0.0) + log1p(exp(-fabs(o[K + k]))) + FLOOR;\n",
    [TT_OUTPUT_quantiles] = "    for (int j = 0; j < N; j++) { /* sorted by insertion */\n"
                            "      int i = j;\n"
                            "      for (; i > 0 && mean[k * N + i - 1] > o[j * K + k]; i--)\n"
                            "        mean[k * N + i] = mean[k * N + i - 1];\n"
                            "      mean[k * N + i] = o[j * K + k];\n"
                            "      variance[k * N + j] = 0.0;\n"
                            "    }\n",
    [TT_OUTPUT_softmax] = "    double *p = mean + k * (N + 1), *v = variance + k * (N + 1);\n"
                          "    double most = o[k], sum = 0.0;\n"
                          "    for (int j = 1; j < N; j++) most = fmax(most, o[j * K + k]);\n"
                          "    for (int j = 0; j < N; j++) sum += exp(o[j * K + k] - most);\n"
                          "    p[N] = v[N] = 0.0; /* entropy */\n"
                          "    for (int j = 0; j < N; j++) {\n"
                          "      double log_p = o[j * K + k] - most - log(sum);\n"
                          "      p[j] = exp(log_p);\n"
                          "      v[j] = p[j] * (1.0 - p[j]);\n"
                          "      p[N] -= p[j] * log_p;\n"
                          "    }\n",
    [TT_OUTPUT_sigmoid] = "    mean[k] = 1.0 / (1.0 + exp(-o[k]));\n"
                          "    variance[k] = mean[k] / (1.0 + exp(o[k]));\n",
    [TT_OUTPUT_rate] = "    mean[k] = variance[k] = exp(o[k]);\n",
};

static tt_err check(const tt_export_model *x)
{
  if (tt_export_parameters(x) > most_parameters)
    return TT_FAIL(USAGE,
                   "%s: the members have %" PRId64 " parameters, a C file may have %" PRId64 "; %s",
                   x->file, tt_export_parameters(x), most_parameters,
                   x->groups ? "export the groups apart, with --group" : "use --onnx");
  for (int64_t i = 0; i < x->cohorts; i++) {
    tt_output output = x->cohort[i].m->model.output;
    if (!output_text[output]) return TT_EXPORT_REFUSE(x, "C", "output", tt_choice_output[output]);
  }
  TT_TRY(tt_export_c_undo_check(x));
  return tt_export_c_front_check(x);
}

/* The name of the file without directory and ending, as a C identifier. */
static void identifier(const char *file, char *name, size_t capacity)
{
  const char *base = strrchr(file, '/');
  base = base ? base + 1 : file;
  snprintf(name, capacity, "%s%.*s", isdigit((unsigned char)*base) ? "m" : "",
           (int)strcspn(base, "."), base);
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  if (!*name) snprintf(name, capacity, "model");
}

static void put_doubles(FILE *file, const char *name, int64_t i, int64_t n, const double *value)
{
  fprintf(file, "static const double %s%" PRId64 "[] = {", name, i);
  for (int64_t k = 0; k < n; k++)
    fprintf(file, "%s%.16e", k % 4 ? ", " : k ? ",\n  " : "\n  ", value[k]);
  fputs("};\n", file);
}

static void put_weights(FILE *file, int64_t i, const tt_export_cohort *k)
{
  int64_t params = k->m->model.params;
  fprintf(file, "static const float weights%" PRId64 "[] = {", i);
  for (int64_t g = 0; g < k->members; g++)
    for (int64_t p = 0; p < params; p++)
      fprintf(file, "%s%.8ef",
              p % 6    ? ", "
              : g || p ? ",\n  "
                       : "\n  ",
              (double)k->m->w[k->member[g] * params + p]);
  fputs("};\n", file);
}

static void put_ensembles(FILE *file, int64_t i, const tt_export_cohort *k)
{
  fprintf(file, "static const int ensemble%" PRId64 "[] = {", i);
  for (int64_t g = 0; g < k->members; g++) fprintf(file, "%s%" PRId64, g ? ", " : "", k->of[g]);
  fputs("};\n", file);
}

static int uses_activation(const tt_export_model *x, tt_activation a)
{
  for (int64_t i = 0; i < x->networks; i++) {
    const tt_model *m = &x->network[i].m->model;
    for (int l = 0; l < m->layers; l++)
      if (m->layer[l].activation == a) return 1;
    for (int l = 0; l < m->front.layers; l++)
      if (m->front.layer[l].activation == a) return 1;
  }
  return 0;
}

/* Whether the formula of a used activation calls function f of elementary. */
static int uses_elementary(const tt_export_model *x, int f)
{
  char call[64];
  snprintf(call, sizeof call, "%s(", elementary[f].name);
  for (int a = 0; a < TT_ACT_COUNT; a++)
    if (strstr(activation_text[a], call) && uses_activation(x, (tt_activation)a)) return 1;
  return 0;
}

/* The activations have a prefix: one of them is called tanh. */
static void put_activations(const tt_export_model *x, FILE *file)
{
  for (int f = 0; f < ELEMENTARY; f++)
    if (uses_elementary(x, f))
      fprintf(file, "static double %s(double x) { return %s; }\n", elementary[f].name,
              elementary[f].value);
  for (int a = 0; a < TT_ACT_COUNT; a++)
    if (a != TT_ACT_identity && uses_activation(x, (tt_activation)a))
      fprintf(file, "static double act_%s(double x) { return %s; }\n", tt_choice_activation[a],
              activation_text[a]);
  fputc('\n', file);
}

static void put_helpers(const tt_export_model *x, FILE *file)
{
  int norm = 0;
  for (int64_t i = 0; i < x->networks; i++) norm |= x->network[i].m->model.layer[0].norm >= 0;
  put_activations(x, file);
  fputs("/* z = w x + b; w has a row for each output. */\n"
        "static void dense(const float *w, const float *b, int in, int out, const double *x, "
        "double *z)\n{\n"
        "  for (int o = 0; o < out; o++) {\n"
        "    z[o] = (double)b[o];\n"
        "    for (int i = 0; i < in; i++) z[o] += (double)w[o * in + i] * x[i];\n"
        "  }\n}\n\n",
        file);
  if (norm)
    fprintf(file,
            "/* Layer normalization: gain[n], then shift[n]. */\n"
            "static void normalize(const float *gain, int n, double *z)\n{\n"
            "  double mean = 0.0, squares = 0.0;\n"
            "  for (int i = 0; i < n; i++) mean += z[i] / n;\n"
            "  for (int i = 0; i < n; i++) squares += (z[i] - mean) * (z[i] - mean);\n"
            "  for (int i = 0; i < n; i++)\n"
            "    z[i] = (double)gain[i] * (z[i] - mean) / sqrt(squares / n + %.16e) + "
            "(double)gain[n + i];\n}\n\n",
            (double)TT_LAYER_NORM_EPSILON);
  tt_export_c_front_functions(x, file);
}

/* Mean and variance of the quantities of one member with weights w, from normalized inputs x: of
 * network i, whose cohort is `cohort`. */
static void put_member(const tt_export_model *x, int64_t i, int64_t cohort, FILE *file)
{
  const tt_model *m = &x->network[i].m->model;
  int64_t components = x->network[i].m->scaler.components;
  int64_t n = tt_trained_ensemble_targets(x->network[i].m);
  char input[TT_EXPORT_C_NAME];
  fprintf(file,
          "static void member%" PRId64
          "(const float *w, const double *x, double *%s, double *%s)\n{\n",
          i, components ? "all_means" : "mean", components ? "all_variances" : "variance");
  tt_export_c_front(&m->front, i, input, file);
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    char z[TT_EXPORT_C_NAME];
    snprintf(z, sizeof z, l < m->layers - 1 ? "h%d" : "o", l);
    fprintf(file, "  double %s[%" PRId64 "];\n", z, layer->out);
    fprintf(file, "  dense(w + %" PRId64 ", w + %" PRId64 ", %" PRId64 ", %" PRId64 ", %s, %s);\n",
            layer->weight, layer->bias, layer->in, layer->out, input, z);
    if (layer->norm >= 0)
      fprintf(file, "  normalize(w + %" PRId64 ", %" PRId64 ", %s);\n", layer->norm, layer->out, z);
    if (layer->activation != TT_ACT_identity || layer->residual)
      fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] = %s%s(%s[i])%s%s%s;\n",
              layer->out, z, layer->activation == TT_ACT_identity ? "" : "act_",
              layer->activation == TT_ACT_identity ? "" : tt_choice_activation[layer->activation],
              z, layer->residual ? " + " : "", layer->residual ? input : "",
              layer->residual ? "[i]" : "");
    snprintf(input, sizeof input, "%s", z);
  }
  fprintf(file,
          "  enum { K = %" PRId64 ", N = %d };\n  const double FLOOR = %.16e;\n  (void)FLOOR;\n%s",
          m->targets, (int)m->levels, (double)x->network[i].m->variance_floor,
          components ? "  double mean[K], variance[K];\n" : "");
  fprintf(file, "  for (int k = 0; k < K; k++) {\n%s  }\n", output_text[m->output]);
  if (components)
    fprintf(file,
            "  for (int t = 0; t < %" PRId64 "; t++) {\n    all_means[t] = component_mean%" PRId64
            "[t];\n    all_variances[t] = residual%" PRId64 "[t];\n"
            "    for (int k = 0; k < K; k++) {\n      double c = component%" PRId64 "[k * %" PRId64
            " + t];\n      all_means[t] += c * mean[k];\n"
            "      all_variances[t] += c * c * variance[k];\n    }\n  }\n",
            n, cohort, cohort, cohort, n);
  fputs("}\n\n", file);
}

/* static void predictN(g, x, mean, variance): member g of cohort i. */
static void put_choice(const tt_export_model *x, int64_t i, FILE *file)
{
  const tt_export_cohort *k = &x->cohort[i];
  int64_t first = 0, last = k->network + k->networks - 1;
  fprintf(file,
          "static void predict%" PRId64
          "(%sint g, const double *x, double *mean, double *variance)\n{\n",
          i, tt_export_c_parameter(x));
  for (int64_t n = k->network; n <= last; n++) {
    const tt_export_cohort *own = &x->network[n];
    if (n < last) fprintf(file, "  if (g < %" PRId64 ") {\n  ", first + own->members);
    fprintf(file,
            "  member%" PRId64 "(weights%" PRId64 " + (g - %" PRId64 ") * %" PRId64
            ", x, mean, variance);\n%s",
            n, n, first, own->m->model.params, n < last ? "    return;\n  }\n" : "");
    first += own->members;
  }
  fputs("}\n\n", file);
}

/* Mean and variance of the means of the members of the ensembles of cohort i, before transforms are
 * undone. */
static void put_center(const tt_export_model *x, int64_t i, FILE *file)
{
  fprintf(file,
          "  double center[COLUMNS] = {0.0}, apart[COLUMNS] = {0.0};\n"
          "  for (int g = 0; g < MEMBERS; g++) {\n"
          "    predict%" PRId64 "(%sg, x, mu, v);\n"
          "    for (int j = 0; j < WIDTH; j++) {\n"
          "      int c = ensemble%" PRId64 "[g] * WIDTH + j;\n"
          "      double share = share%" PRId64 "[g], step = mu[j] - center[c], before = all[c];\n"
          "      all[c] += share;\n"
          "      center[c] += step * (share / all[c]);\n"
          "      apart[c] += share * step * step * (before / all[c]);\n"
          "    }\n  }\n"
          "  for (int c = 0; c < COLUMNS; c++) all[c] = 0.0;\n",
          i, tt_export_c_argument(x), i, i);
}

/* The mixture of the members of each ensemble of cohort i, with columns from `column` on. */
static void put_cohort(const tt_export_model *x, int64_t i, int64_t column, FILE *file)
{
  const tt_export_cohort *k = &x->cohort[i];
  const char *group = tt_export_c_argument(x);
  if (k->transformed) tt_export_c_undo(x, i, file);
  fprintf(file,
          "static void cohort%" PRId64
          "(%sconst double *x, double *mean, double *total, double *aleatoric,\n"
          "                    double *epistemic)\n{\n",
          i, tt_export_c_parameter(x));
  if (x->groups)
    fputs("  const int MEMBERS = G->members;\n", file);
  else
    fprintf(file, "  enum { MEMBERS = %" PRId64 " };\n", k->members);
  fprintf(file,
          "  enum { COLUMNS = %" PRId64 ", WIDTH = %" PRId64 ", FIRST = %" PRId64 " };\n"
          "  double mu[WIDTH], v[WIDTH], all[COLUMNS] = {0.0}, m[COLUMNS] = {0.0};\n"
          "  double between[COLUMNS] = {0.0}, within[COLUMNS] = {0.0};\n",
          k->columns, tt_trained_ensemble_width(k->m), column);
  if (k->transformed) put_center(x, i, file);
  fprintf(file,
          "  for (int g = 0; g < MEMBERS; g++) {\n"
          "    predict%" PRId64 "(%sg, x, mu, v);\n"
          "    for (int j = 0; j < WIDTH; j++) {\n"
          "      int c = ensemble%" PRId64 "[g] * WIDTH + j;\n",
          i, group, i);
  if (k->transformed)
    fprintf(file,
            "      double added = undo%" PRId64 "(%sc, center[c], apart[c], &mu[j], &v[j]);\n", i,
            group);
  fprintf(file,
          "      double share = share%" PRId64 "[g], step = mu[j] - m[c], before = all[c];\n"
          "      all[c] += share;\n"
          "      m[c] += step * (share / all[c]);\n"
          "      between[c] += share * step * step * (before / all[c]);\n"
          "      within[c] += share * v[j];\n",
          i);
  if (k->transformed) fputs("      between[c] += share * added;\n", file);
  fputs("    }\n  }\n  for (int c = 0; c < COLUMNS; c++) {\n", file);
  if (k->transformed)
    fputs("    double spread = 1.0, noise = 0.0;\n    if (mean) mean[FIRST + c] = m[c];\n", file);
  else
    fprintf(file,
            "    double spread = std_scale%" PRId64 "[c], noise = noise%" PRId64 "[c];\n"
            "    if (mean) mean[FIRST + c] = m[c] * scale%" PRId64 "[c] + offset%" PRId64 "[c];\n",
            i, i, i, i);
  fputs("    if (total) total[FIRST + c] = hypot(spread * sqrt(within[c] + between[c]), noise);\n"
        "    if (aleatoric) aleatoric[FIRST + c] = hypot(spread * sqrt(within[c]), noise);\n"
        "    if (epistemic) epistemic[FIRST + c] = spread * sqrt(between[c]);\n"
        "  }\n}\n\n",
        file);
}

/* Value of each transform as text; v, p as in transform.h. */
static const char *const transform_text[TT_TRANSFORM_COUNT] = {[TT_TRANSFORM_identity] = "v",
                                                               [TT_TRANSFORM_log] = "log(v)",
                                                               [TT_TRANSFORM_log1p] = "log1p(v)",
                                                               [TT_TRANSFORM_yeo_johnson] =
                                                                   "yeo_johnson(v, x_lambda0[i])"};

/* static double transformed(i, v): input i before its shift and scale. */
static void put_transforms(const tt_export_model *x, FILE *file)
{
  if (!tt_export_uses_transform(x, TT_TRANSFORM_COUNT)) return;
  if (tt_export_uses_transform(x, TT_TRANSFORM_yeo_johnson))
    fputs("static double yeo_johnson(double v, double lambda)\n{\n"
          "  double power = v < 0.0 ? 2.0 - lambda : lambda, size = log1p(fabs(v));\n"
          "  double t = power > 0.0 ? expm1(power * size) / power : size;\n"
          "  return v < 0.0 ? -t : t;\n}\n\n",
          file);
  fprintf(file, "static double transformed(%sint i, double v)\n{\n  switch (i) {\n",
          tt_export_c_parameter(x));
  for (int f = TT_TRANSFORM_identity + 1; f < TT_TRANSFORM_COUNT; f++) {
    if (!tt_export_uses_transform(x, (tt_transform)f)) continue;
    for (int64_t i = 0; i < x->inputs; i++)
      if (tt_export_transform(x, i) == (tt_transform)f) fprintf(file, "  case %" PRId64 ":\n", i);
    fprintf(file, "    return %s;\n", transform_text[f]);
  }
  fputs("  default: return v;\n  }\n}\n\n", file);
}

/* static double net_input(i, x): input i of the networks before its transform. */
static void put_net_inputs(const tt_export_model *x, FILE *file)
{
  if (x->plain) return;
  fprintf(file, "static double net_input(%sint i, const double *x)\n{\n  switch (i) {\n",
          tt_export_c_parameter(x));
  for (int64_t i = 0; i < x->inputs; i++) {
    const tt_net_input *in = &x->net->at[i];
    fprintf(file, "  case %" PRId64 ": return ", i);
    if (in->kind == TT_NET_INPUT_level)
      fprintf(file, "x[%d] == %.17g", (int)in->column, in->level);
    else if (in->kind == TT_NET_INPUT_missing)
      fprintf(file, "isnan(x[%d]) ? 1.0 : 0.0", (int)in->column);
    else if (isnan(x->scaler->x_fill[i]))
      fprintf(file, "x[%d]", (int)in->column);
    else if (x->groups)
      fprintf(file, "isnan(x[%d]) ? G->x_fill[i] : x[%d]", (int)in->column, (int)in->column);
    else
      fprintf(file, "isnan(x[%d]) ? %.17g : x[%d]", (int)in->column, x->scaler->x_fill[i],
              (int)in->column);
    fputs(";\n", file);
  }
  fputs("  default: return 0.0;\n  }\n}\n\n", file);
}

static void put_predict(const tt_export_model *x, const char *name, FILE *file)
{
  const char *group = tt_export_c_argument(x);
  char source[64] = "x[i]", value[64], inputs[256];
  if (!x->plain) snprintf(source, sizeof source, "net_input(%si, x)", group);
  snprintf(value, sizeof value, "%s", source);
  if (tt_export_uses_transform(x, TT_TRANSFORM_COUNT))
    snprintf(value, sizeof value, "transformed(%si, %s)", group, source);
  snprintf(inputs, sizeof inputs,
           "  double u[%" PRId64 "];\n"
           "  for (int i = 0; i < %" PRId64 "; i++) u[i] = (%s - x_mean0[i]) / x_scale0[i];\n",
           x->inputs, x->inputs, value);
  if (x->groups) {
    tt_export_c_groups_predict(x, name, inputs, file);
    return;
  }
  fprintf(file,
          "void %s_predict(const double *x, double *mean, double *total, double *aleatoric,\n"
          "    double *epistemic)\n{\n%s",
          name, inputs);
  for (int64_t i = 0; i < x->cohorts; i++)
    fprintf(file, "  cohort%" PRId64 "(u, mean, total, aleatoric, epistemic);\n", i);
  fputs("}\n\n", file);
  tt_export_c_member(x, name, inputs, file);
}

/* The numbers of a model without groups. */
static void put_tables(const tt_export_model *x, FILE *file)
{
  put_doubles(file, "x_mean", 0, x->inputs, x->scaler->x_mean);
  put_doubles(file, "x_scale", 0, x->inputs, x->scaler->x_scale);
  if (tt_export_uses_transform(x, TT_TRANSFORM_yeo_johnson))
    put_doubles(file, "x_lambda", 0, x->inputs, x->scaler->x_lambda);
  for (int64_t i = 0; i < x->cohorts; i++) {
    const tt_export_cohort *k = &x->cohort[i];
    put_doubles(file, "share", i, k->members, k->share);
    put_doubles(file, "offset", i, k->columns, k->offset);
    put_doubles(file, "scale", i, k->columns, k->scale);
    put_doubles(file, "std_scale", i, k->columns, k->std_scale);
    put_doubles(file, "noise", i, k->columns, k->noise);
    if (k->transformed) put_doubles(file, "lambda", i, k->columns, k->lambda);
    const tt_scaler *scaler = &k->m->scaler;
    if (scaler->components) {
      put_doubles(file, "component", i, scaler->components * scaler->targets, scaler->component);
      put_doubles(file, "component_mean", i, scaler->targets, scaler->component_mean);
      put_doubles(file, "residual", i, scaler->targets, scaler->residual);
    }
    put_ensembles(file, i, k);
  }
  for (int64_t i = 0; i < x->networks; i++) put_weights(file, i, &x->network[i]);
}

tt_err tt_export_c_local(const tt_export_model *x, FILE *file)
{
  char name[256];
  int64_t column = 0;
  TT_TRY(check(x));
  identifier(x->file, name, sizeof name);
  tt_export_c_head(x, name, file);
  if (x->groups)
    TT_TRY(tt_export_c_groups_table(x, file));
  else
    put_tables(x, file);
  fputc('\n', file);
  put_helpers(x, file);
  tt_export_c_undo_functions(x, file);
  for (int64_t i = 0; i < x->cohorts; i++) {
    const tt_export_cohort *k = &x->cohort[i];
    for (int64_t n = k->network; n < k->network + k->networks; n++) put_member(x, n, i, file);
    put_choice(x, i, file);
    put_cohort(x, i, column, file);
    column += k->columns;
  }
  put_transforms(x, file);
  put_net_inputs(x, file);
  put_predict(x, name, file);
  return TT_OK;
}
