/* export_c_front.c — see export_c_internal.h. The text of a pool is the formula of pooling.h. */
#include "src/export/export_c_internal.h"

#include "core/formulas/layer_norm.h"

#include <inttypes.h>

enum {
  ARRAYS = 3, /* the input of a layer, its result, and one that a residual still needs: its
                           input, or in its projection the output of its rows */
  MOST_VALUES = 1 << 17 /* of these arrays: 1 MiB */
};

static const struct {
  const char *start, *next, *result;
} pool_text[TT_POOLING_COUNT] = {
#define X(name, start, next, result, ...) {#start, #next, #result},
    TT_POOLINGS(X)
#undef X
};

static int64_t most_values(const tt_front *f)
{
  int64_t most = 0;
  for (int l = 0; l < f->layers; l++)
    if (tt_front_values(&f->layer[l]) > most) most = tt_front_values(&f->layer[l]);
  return most;
}

tt_err tt_export_c_front_check(const tt_export_model *x)
{
  for (int64_t i = 0; i < x->networks; i++) {
    int64_t most = most_values(&x->network[i].m->model.front);
    if (ARRAYS * most > MOST_VALUES)
      return TT_FAIL(USAGE,
                     "%s: a layer of the networks has %" PRId64
                     " values for each row, in a C file it may have %d; use another format",
                     x->file, most, MOST_VALUES / ARRAYS);
  }
  return TT_OK;
}

/* Whether a network has such a layer; of a pool, with this pool. */
static int uses(const tt_export_model *x, tt_front_kind kind, tt_pooling pool)
{
  for (int64_t i = 0; i < x->networks; i++) {
    const tt_front *f = &x->network[i].m->model.front;
    for (int l = 0; l < f->layers; l++) {
      tt_front_kind own =
          f->layer[l].kind == TT_FRONT_global_mean ? TT_FRONT_pool : f->layer[l].kind;
      if (own == kind && (kind != TT_FRONT_pool || f->layer[l].pool == pool)) return 1;
    }
  }
  return 0;
}

/* As tt_front_position_read. */
static void put_position(FILE *file)
{
  fputs("/* The position of the input that position `output` of the output reads by position `tap` "
        "of\n"
        " * the window; -1: outside of the input. */\n"
        "static int position(const layer *l, int output, int tap)\n{\n"
        "  int y = output / l->width * l->stride[0] - l->pad[0] + tap / l->size[1] * "
        "l->dilation[0];\n"
        "  int x = output % l->width * l->stride[1] - l->pad[1] + tap % l->size[1] * "
        "l->dilation[1];\n"
        "  if (y < 0 || y >= l->in_height || x < 0 || x >= l->in_width) return -1;\n"
        "  return y * l->in_width + x;\n}\n\n",
        file);
}

static void put_convolve(FILE *file)
{
  fputs(
      "/* Convolution: w has [channels][inputs of a group][height][width]; b may be null. */\n"
      "static void convolve(const layer *l, const float *w, const float *b, const double *x,\n"
      "                     double *z)\n{\n"
      "  int in = l->in_channels / l->groups, out = l->channels / l->groups;\n"
      "  int each = l->height * l->width, taps = l->size[0] * l->size[1];\n"
      "  for (int i = 0; i < l->channels * each; i++) {\n"
      "    int c = i / each;\n"
      "    z[i] = b ? (double)b[c] : 0.0;\n"
      "    for (int k = 0; k < in * taps; k++) {\n"
      "      int at = position(l, i % each, k % taps), channel = c / out * in + k / taps;\n"
      "      if (at < 0) continue;\n"
      "      z[i] += (double)w[c * in * taps + k] * x[channel * l->in_height * l->in_width + at];\n"
      "    }\n  }\n}\n\n",
      file);
}

static void put_group_norm(FILE *file)
{
  fprintf(file,
          "static void group_norm(const layer *l, const float *gain, const float *shift,\n"
          "                       const double *x, double *z)\n{\n"
          "  int each = l->height * l->width, n = l->channels / l->groups * each;\n"
          "  for (int g = 0; g < l->groups; g++) {\n"
          "    double mean = 0.0, squares = 0.0;\n"
          "    for (int i = g * n; i < (g + 1) * n; i++) mean += x[i] / n;\n"
          "    for (int i = g * n; i < (g + 1) * n; i++) squares += (x[i] - mean) * (x[i] - "
          "mean);\n"
          "    for (int i = g * n; i < (g + 1) * n; i++)\n"
          "      z[i] = (double)gain[i / each] * (x[i] - mean) / sqrt(squares / n + %.16e) +\n"
          "             (double)shift[i / each];\n"
          "  }\n}\n\n",
          (double)TT_LAYER_NORM_EPSILON);
}

static void put_batch_norm(FILE *file)
{
  fprintf(
      file,
      "/* With the means of the channels, then their variances. */\n"
      "static void batch_norm(const layer *l, const float *gain, const float *shift,\n"
      "                       const float *running, const double *x, double *z)\n{\n"
      "  int each = l->height * l->width;\n"
      "  for (int i = 0; i < l->channels * each; i++) {\n"
      "    int c = i / each;\n"
      "    double mean = (double)running[c], variance = (double)running[l->channels + c];\n"
      "    z[i] = (double)gain[c] * (x[i] - mean) / sqrt(variance + %.16e) + (double)shift[c];\n"
      "  }\n}\n\n",
      (double)TT_LAYER_NORM_EPSILON);
}

static void put_pool(tt_pooling pooling, FILE *file)
{
  fprintf(file,
          "static void pool_%s(const layer *l, const double *in, double *z)\n{\n"
          "  int each = l->height * l->width, taps = l->size[0] * l->size[1];\n"
          "  double share = 1.0 / taps;\n"
          "  (void)share;\n"
          "  for (int i = 0; i < l->channels * each; i++) {\n"
          "    double s = (double)(%s);\n"
          "    for (int k = 0; k < taps; k++) {\n"
          "      int at = position(l, i %% each, k);\n"
          "      if (at < 0) continue;\n"
          "      double x = in[i / each * l->in_height * l->in_width + at];\n"
          "      s = %s;\n"
          "    }\n"
          "    z[i] = %s;\n"
          "  }\n}\n\n",
          tt_pooling_name[pooling], pool_text[pooling].start, pool_text[pooling].next,
          pool_text[pooling].result);
}

static void put_pair(const char *name, const int32_t pair[2], FILE *file)
{
  fprintf(file, " .%s = {%" PRId32 ", %" PRId32 "},", name, pair[0], pair[1]);
}

static void put_layer(const tt_front_layer *l, FILE *file)
{
  fprintf(file,
          "  {.in_channels = %" PRId32 ", .in_height = %" PRId32 ", .in_width = %" PRId32
          ", .channels = %" PRId32 ", .height = %" PRId32 ", .width = %" PRId32 ",\n  ",
          l->in_channels, l->in[0], l->in[1], l->channels, l->out[0], l->out[1]);
  put_pair("size", l->size, file);
  put_pair("stride", l->stride, file);
  put_pair("pad", l->pad, file);
  put_pair("dilation", l->dilation, file);
  fprintf(file, " .groups = %" PRId32 "},\n", l->groups);
}

static void put_shapes(const tt_export_model *x, FILE *file)
{
  fputs("/* A layer of a network for images; pairs are height, width. Values are "
        "[channels][height][width]. */\n"
        "typedef struct layer {\n"
        "  int in_channels, in_height, in_width, channels, height, width;\n"
        "  int size[2], stride[2], pad[2], dilation[2], groups;\n} layer;\n",
        file);
  for (int64_t i = 0; i < x->networks; i++) {
    const tt_front *f = &x->network[i].m->model.front;
    if (!f->layers) continue;
    fprintf(file, "static const layer front%" PRId64 "[] = {\n", i);
    for (int l = 0; l < f->layers; l++) put_layer(&f->layer[l], file);
    fputs("};\n", file);
  }
  fputc('\n', file);
}

void tt_export_c_front_functions(const tt_export_model *x, FILE *file)
{
  int any = 0, conv = uses(x, TT_FRONT_conv, TT_POOLING_COUNT), windows = conv;
  for (int64_t i = 0; i < x->networks; i++) any |= x->network[i].m->model.front.layers > 0;
  if (!any) return;
  for (int pooling = 0; pooling < TT_POOLING_COUNT; pooling++)
    windows |= uses(x, TT_FRONT_pool, (tt_pooling)pooling);
  put_shapes(x, file);
  if (windows) put_position(file);
  if (conv) put_convolve(file);
  if (uses(x, TT_FRONT_group_norm, TT_POOLING_COUNT)) put_group_norm(file);
  if (uses(x, TT_FRONT_batch_norm, TT_POOLING_COUNT)) put_batch_norm(file);
  for (int pooling = 0; pooling < TT_POOLING_COUNT; pooling++)
    if (uses(x, TT_FRONT_pool, (tt_pooling)pooling)) put_pool((tt_pooling)pooling, file);
}

/* Whether layer l, or one behind it, reads or adds the result of a layer before l. */
static int needs(const tt_front *f, int l, int result)
{
  for (int e = l; e < f->layers && (e == l || !f->layer[e].begins_block); e++)
    if (f->layer[e].from == result || f->layer[e].skip == result) return 1;
  return 0;
}

/* The first array whose result no layer from l on needs.
 *   layer  whose result each array has */
static int free_array(const tt_front *f, int l, const int layer[ARRAYS])
{
  int a = 0;
  while (layer[a] >= 0 && needs(f, l, layer[a])) a++;
  return a;
}

/* The array of the result of layer l; -1: the inputs of the network. */
static void name_result(int l, const int layer[ARRAYS], char name[TT_EXPORT_C_NAME])
{
  int a = 0;
  while (a < ARRAYS && layer[a] != l) a++;
  if (l < 0)
    snprintf(name, TT_EXPORT_C_NAME, "x");
  else
    snprintf(name, TT_EXPORT_C_NAME, "f%d", a);
}

static void put_call(const tt_front_layer *l, int64_t cohort, int number, const char *in,
                     const char *z, FILE *file)
{
  char shape[64], bias[32] = "0";
  snprintf(shape, sizeof shape, "&front%" PRId64 "[%d]", cohort, number);
  if (l->bias >= 0) snprintf(bias, sizeof bias, "w + %" PRId64, l->bias);
  switch (l->kind) {
  case TT_FRONT_conv:
  case TT_FRONT_group_norm:
    fprintf(file, "  %s(%s, w + %" PRId64 ", %s, %s, %s);\n",
            l->kind == TT_FRONT_conv ? "convolve" : "group_norm", shape, l->weight, bias, in, z);
    return;
  case TT_FRONT_batch_norm:
    fprintf(file, "  batch_norm(%s, w + %" PRId64 ", %s, w + %" PRId64 ", %s, %s);\n", shape,
            l->weight, bias, l->running, in, z);
    return;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean:
    fprintf(file, "  pool_%s(%s, %s, %s);\n", tt_pooling_name[l->pool], shape, in, z);
    return;
  default: /* dropout */
    fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] = %s[i];\n", tt_front_values(l), z,
            in);
  }
}

static void put_activation(const tt_front_layer *l, const char *z, FILE *file)
{
  if (l->activation == TT_ACT_identity) return;
  fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] = act_%s(%s[i]);\n",
          tt_front_values(l), z, tt_choice_activation[l->activation], z);
}

static void put_addition(const tt_front_layer *l, const char *z, const char *skip, FILE *file)
{
  if (l->skip == TT_FRONT_NO_SKIP) return;
  fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] += %s[i];\n", tt_front_values(l), z,
          skip);
}

void tt_export_c_front(const tt_front *f, int64_t cohort, char features[TT_EXPORT_C_NAME],
                       FILE *file)
{
  int held[ARRAYS] = {-1, -1, -1}; /* the layer whose result an array has */
  char in[TT_EXPORT_C_NAME], skip[TT_EXPORT_C_NAME];
  name_result(-1, held, features);
  if (!f->layers) return;
  fprintf(file, "  double f0[%" PRId64 "], f1[%" PRId64 "], f2[%" PRId64 "];\n", most_values(f),
          most_values(f), most_values(f));
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    name_result(layer->from, held, in);
    name_result(layer->skip, held, skip);
    held[free_array(f, l, held)] = l;
    name_result(l, held, features);
    put_call(layer, cohort, l, in, features, file);
    if (layer->activates_sum) put_addition(layer, features, skip, file);
    put_activation(layer, features, file);
    if (!layer->activates_sum) put_addition(layer, features, skip, file);
  }
  fputs("  (void)f1, (void)f2;\n", file);
}
