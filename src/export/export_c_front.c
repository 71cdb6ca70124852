/* export_c_front.c — see export_c_front.h. The text of a pool is the formula of pooling.h. */
#include "src/export/export_c_front.h"

#include "core/formulas/layer_norm.h"

#include <inttypes.h>

enum {
  ARRAYS = 3,           /* the inputs of a layer, its result, and the begin of a residual */
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

static void put_convolve(FILE *file)
{
  fputs("/* Convolution: w has [channels][inputs of a group][height][width]. */\n"
        "static void convolve(const layer *l, const float *w, const float *b, const double *x,\n"
        "                     double *z)\n{\n"
        "  int in = l->in_channels / l->groups, out = l->channels / l->groups;\n"
        "  for (int i = 0; i < l->channels * l->height * l->width; i++) {\n"
        "    int c = i / (l->height * l->width), y = i / l->width % l->height, taps = "
        "l->size[0] * l->size[1];\n"
        "    z[i] = (double)b[c];\n"
        "    for (int k = 0; k < in * taps; k++) {\n"
        "      int row = y * l->stride[0] - l->pad[0] + k % taps / l->size[1] * l->dilation[0];\n"
        "      int at = i % l->width * l->stride[1] - l->pad[1] + k % l->size[1] * "
        "l->dilation[1];\n"
        "      if (row < 0 || row >= l->in_height || at < 0 || at >= l->in_width) continue;\n"
        "      z[i] += (double)w[c * in * taps + k] *\n"
        "              x[((c / out * in + k / taps) * l->in_height + row) * l->in_width + at];\n"
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

static void put_pool(tt_pooling pooling, FILE *file)
{
  fprintf(file,
          "static void pool_%s(const layer *l, const double *in, double *z)\n{\n"
          "  int taps = l->size[0] * l->size[1];\n"
          "  double share = 1.0 / taps;\n"
          "  (void)share;\n"
          "  for (int i = 0; i < l->channels * l->height * l->width; i++) {\n"
          "    int c = i / (l->height * l->width), y = i / l->width %% l->height;\n"
          "    double s = (double)(%s);\n"
          "    for (int k = 0; k < taps; k++) {\n"
          "      int row = y * l->stride[0] + k / l->size[1];\n"
          "      int at = i %% l->width * l->stride[1] + k %% l->size[1];\n"
          "      double x = in[(c * l->in_height + row) * l->in_width + at];\n"
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

void tt_export_c_front_functions(const tt_export_model *x, FILE *file)
{
  int any = 0;
  for (int64_t i = 0; i < x->networks; i++) any |= x->network[i].m->model.front.layers > 0;
  if (!any) return;
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
  if (uses(x, TT_FRONT_conv, TT_POOLING_COUNT)) put_convolve(file);
  if (uses(x, TT_FRONT_group_norm, TT_POOLING_COUNT)) put_group_norm(file);
  for (int pooling = 0; pooling < TT_POOLING_COUNT; pooling++)
    if (uses(x, TT_FRONT_pool, (tt_pooling)pooling)) put_pool((tt_pooling)pooling, file);
}

/* An array for a result: neither that of the inputs of the layer nor the one that is kept for the
 * end of a residual. -1: the inputs of the network. */
static int free_array(int in, int kept)
{
  int array = 0;
  while (array == in || array == kept) array++;
  return array;
}

static void name_array(int array, char name[TT_EXPORT_C_NAME])
{
  if (array < 0)
    snprintf(name, TT_EXPORT_C_NAME, "x");
  else
    snprintf(name, TT_EXPORT_C_NAME, "f%d", array);
}

static void put_call(const tt_front_layer *l, int64_t cohort, int number, const char *in,
                     const char *z, FILE *file)
{
  char shape[64];
  snprintf(shape, sizeof shape, "&front%" PRId64 "[%d]", cohort, number);
  switch (l->kind) {
  case TT_FRONT_conv:
  case TT_FRONT_group_norm:
    fprintf(file, "  %s(%s, w + %" PRId64 ", w + %" PRId64 ", %s, %s);\n",
            l->kind == TT_FRONT_conv ? "convolve" : "group_norm", shape, l->weight, l->bias, in, z);
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

/* The layer whose result is added to that of layer l or of a later one, and which is before l;
 * TT_FRONT_NO_SKIP: none. */
static int residual_around(const tt_front *f, int l)
{
  for (int e = l; e < f->layers; e++)
    if (f->layer[e].skip != TT_FRONT_NO_SKIP && f->layer[e].skip < l) return f->layer[e].skip;
  return TT_FRONT_NO_SKIP;
}

void tt_export_c_front(const tt_front *f, int64_t cohort, char features[TT_EXPORT_C_NAME],
                       FILE *file)
{
  int array[1 + TT_MAX_FRONT] = {-1}; /* of the inputs, then of each result */
  char in[TT_EXPORT_C_NAME], skip[TT_EXPORT_C_NAME];
  name_array(-1, features);
  if (!f->layers) return;
  fprintf(file, "  double f0[%" PRId64 "], f1[%" PRId64 "], f2[%" PRId64 "];\n", most_values(f),
          most_values(f), most_values(f));
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    int around = residual_around(f, l);
    int64_t values = tt_front_values(layer);
    array[l + 1] = free_array(array[l], around == TT_FRONT_NO_SKIP ? -1 : array[around + 1]);
    name_array(array[l], in);
    name_array(array[l + 1], features);
    put_call(layer, cohort, l, in, features, file);
    if (layer->activation != TT_ACT_identity)
      fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] = act_%s(%s[i]);\n", values,
              features, tt_choice_activation[layer->activation], features);
    if (layer->skip == TT_FRONT_NO_SKIP) continue;
    name_array(array[layer->skip + 1], skip);
    fprintf(file, "  for (int i = 0; i < %" PRId64 "; i++) %s[i] += %s[i];\n", values, features,
            skip);
  }
  fputs("  (void)f1, (void)f2;\n", file);
}
