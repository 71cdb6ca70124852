/* text.c — fronts as text; see front.h. */
#include "core/base/text.h"
#include "core/base/mem.h"
#include "core/front/front_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

int tt_front_reject(tt_front_fault *fault, int64_t row, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(fault->why, sizeof fault->why, fmt, ap);
  va_end(ap);
  fault->row = row;
  return 0;
}

const char *const tt_front_words[TT_FRONT_KIND_COUNT] = {
#define X(name, words, ...) words,
    TT_FRONT_KINDS(X)
#undef X
};

const char *const tt_pooling_name[TT_POOLING_COUNT] = {TT_POOLINGS(TT_ROW_NAME)};

const char *const tt_front_activation_name[TT_ACT_COUNT] = {TT_ACTIVATIONS(TT_ROW_NAME)};

/* Name of the pool behind the words of a row, with a space before it. */
static void name_of_pool(const tt_front_layer *l, char text[TT_FRONT_LAYER_TEXT])
{
  int named = l->kind == TT_FRONT_pool;
  snprintf(text, TT_FRONT_LAYER_TEXT, "%s%s", named ? " " : "",
           named ? tt_pooling_name[l->pool] : "");
}

const char *tt_front_shape_text(const tt_front *f, int32_t channels, const int32_t size[2],
                                char text[TT_FRONT_LAYER_TEXT])
{
  char height[TT_FRONT_LAYER_TEXT / 2] = "";
  if (f->dims == 2) snprintf(height, sizeof height, "%" PRId32 " x ", size[0]);
  snprintf(text, TT_FRONT_LAYER_TEXT, "%" PRId32 " x %s%" PRId32, channels, height, size[1]);
  return text;
}

const char *tt_front_layer_text(const tt_front *f, int layer, char text[TT_FRONT_LAYER_TEXT])
{
  char shape[TT_FRONT_LAYER_TEXT], pool[TT_FRONT_LAYER_TEXT];
  const tt_front_layer *l = &f->layer[layer];
  name_of_pool(l, pool);
  snprintf(text, TT_FRONT_LAYER_TEXT, "%s%.20s %.40s", tt_front_words[l->kind], pool,
           tt_front_shape_text(f, l->channels, l->out, shape));
  return text;
}

/* The first sum of layer l or behind; the number of layers: there is none. No residual is in
 * another one, so that the sums have the order of the residuals. */
static int next_sum(const tt_front *f, int l)
{
  while (l < f->layers && f->layer[l].skip == TT_FRONT_NO_SKIP) l++;
  return l;
}

/* The sum of the residual whose rows end with layer l and that has a projection; -1: none. */
static int projected_sum(const tt_front *f, int l)
{
  int e = next_sum(f, l + 1);
  return e < f->layers && f->layer[e].projects && f->layer[e].skip == l ? e : -1;
}

/* The activation of the row of a conv: it may have moved to a norm, and then to a sum. */
static tt_activation activation_of_row(const tt_front *f, int l)
{
  const tt_front_layer *next = l + 1 < f->layers ? &f->layer[l + 1] : NULL;
  int norm = next && !next->projects && f->layer[l].skip == TT_FRONT_NO_SKIP &&
             (next->kind == TT_FRONT_group_norm || next->kind == TT_FRONT_batch_norm);
  int sum = projected_sum(f, l + norm);
  return f->layer[sum >= 0 && f->layer[sum].activates_sum ? sum : l + norm].activation;
}

/* The row of a layer. The width of a window is its size: that of an image is square, but for
 * global_mean, which has no numbers. */
static void write_row(const tt_front *f, int layer, FILE *file)
{
  const tt_front_layer *l = &f->layer[layer];
  tt_activation activation = activation_of_row(f, layer);
  char pool[TT_FRONT_LAYER_TEXT];
  name_of_pool(l, pool);
  fprintf(file, "%s%s", tt_front_words[l->kind], pool);
  switch (l->kind) {
  case TT_FRONT_conv:
    fprintf(file,
            " %" PRId32 " %" PRId32 " stride %" PRId32 " pad %" PRId32 " dilation %" PRId32
            " groups %" PRId32 " activation %s",
            l->channels, l->size[1], l->stride[1], l->pad[1], l->dilation[1], l->groups,
            activation == TT_ACT_identity ? "none" : tt_front_activation_name[activation]);
    return;
  case TT_FRONT_group_norm: fprintf(file, " %" PRId32, l->groups); return;
  case TT_FRONT_pool:
    fprintf(file, " %" PRId32 " stride %" PRId32 " pad %" PRId32, l->size[1], l->stride[1],
            l->pad[1]);
    return;
  default: return;
  }
}

/* The row of the residual that begins before layer l, if there is one. */
static void write_residual(const tt_front *f, int l, FILE *file)
{
  int e = next_sum(f, l), projection = e, last = e;
  if (e == f->layers) return;
  const tt_front_layer *sum = &f->layer[e];
  while (f->layer[projection].projects && f->layer[projection].from == projection - 1) projection--;
  if (sum->projects) last = sum->skip;
  if ((sum->projects ? f->layer[projection].from : sum->skip) != l - 1) return;
  fprintf(file, "%s %d%s%s, ", tt_front_words[TT_FRONT_residual], last - l + 1,
          sum->projects ? " project" : "", sum->activates_sum ? " activate" : "");
}

void tt_front_write(const tt_front *f, FILE *file)
{
  for (int l = 0; l < f->layers; l++) {
    if (f->layer[l].projects) continue;
    if (l) fputs(", ", file);
    write_residual(f, l, file);
    write_row(f, l, file);
  }
}
