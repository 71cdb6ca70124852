/* front.c — shapes and parameters of the layers; see front.h. */
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/front/front_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t tt_front_positions_in(const tt_front_layer *l) { return (int64_t)l->in[0] * l->in[1]; }
int64_t tt_front_positions(const tt_front_layer *l) { return (int64_t)l->out[0] * l->out[1]; }
int64_t tt_front_values_in(const tt_front_layer *l)
{
  return l->in_channels * tt_front_positions_in(l);
}
int64_t tt_front_values(const tt_front_layer *l) { return l->channels * tt_front_positions(l); }

int64_t tt_front_fan_in(const tt_front_layer *l)
{
  return (int64_t)l->in_channels / l->groups * l->size[0] * l->size[1];
}

int64_t tt_front_weights(const tt_front_layer *l)
{
  if (l->weight < 0) return 0;
  return l->kind == TT_FRONT_conv ? l->channels * tt_front_fan_in(l) : l->channels;
}

int64_t tt_front_layer_params(const tt_front_layer *l)
{
  return l->weight < 0 ? 0 : tt_front_weights(l) + l->channels;
}

int tt_front_equal(const tt_front *a, const tt_front *b)
{
  int same = a->layers == b->layers && a->dims == b->dims && a->channels == b->channels &&
             !memcmp(a->size, b->size, sizeof a->size);
  for (int i = 0; same && i < a->layers; i++) {
    const tt_front_layer *k = &a->layer[i], *l = &b->layer[i];
    same = k->kind == l->kind && k->pool == l->pool && k->activation == l->activation &&
           k->channels == l->channels && k->groups == l->groups && k->skip == l->skip &&
           !memcmp(k->size, l->size, sizeof k->size) &&
           !memcmp(k->stride, l->stride, sizeof k->stride) &&
           !memcmp(k->pad, l->pad, sizeof k->pad) &&
           !memcmp(k->dilation, l->dilation, sizeof k->dilation);
  }
  return same;
}

double tt_front_products(const tt_front_layer *l)
{
  if (l->kind != TT_FRONT_conv) return 0.0;
  return (double)tt_front_values(l) * (double)tt_front_fan_in(l);
}

int64_t tt_front_count_taps(const tt_front_layer *l)
{
  int64_t along[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    for (int32_t p = 0; p < l->out[i]; p++)
      for (int32_t t = 0; t < l->size[i]; t++) {
        int32_t read = p * l->stride[i] - l->pad[i] + t * l->dilation[i];
        along[i] += read >= 0 && read < l->in[i];
      }
  return along[0] * along[1];
}

void tt_front_list_taps(const tt_front_layer *l, int32_t *dst, int32_t *tap, int32_t *src)
{
  int64_t n = 0;
  for (int32_t p = 0; p < l->out[0] * l->out[1]; p++)
    for (int32_t t = 0; t < l->size[0] * l->size[1]; t++) {
      int32_t read = tt_front_position_read(l, p, t);
      if (read < 0) continue;
      dst[n] = p;
      tap[n] = t;
      src[n++] = read;
    }
}

/* Shape of the inputs. */
static int set_inputs(const tt_front_shape *shape, tt_front *f, tt_front_fault *fault)
{
  double values = 1.0;
  for (int i = 0; i <= shape->dims; i++) {
    if (shape->size[i] < 1) return tt_front_reject(fault, -1, "a size is below 1");
    values *= (double)shape->size[i];
  }
  if (values > (double)TT_FRONT_MOST)
    return tt_front_reject(fault, -1, "%.0f values for each row; at most %d are possible", values,
                           TT_FRONT_MOST);
  f->dims = shape->dims;
  f->channels = (int32_t)shape->size[0];
  f->size[0] = shape->dims == 1 ? 1 : (int32_t)shape->size[1];
  f->size[1] = (int32_t)shape->size[shape->dims];
  return 1;
}

/* Window and output size of a conv or a pool along one axis. */
static int set_axis(const tt_front_row *row, int i, const char *axis, int64_t number,
                    tt_front_layer *l, tt_front_fault *fault)
{
  int conv = row->kind == TT_FRONT_conv;
  l->size[i] = row->number[conv ? 1 : 0];
  l->dilation[i] = row->option[TT_FRONT_OPTION_dilation];
  l->stride[i] =
      conv || row->given[TT_FRONT_OPTION_stride] ? row->option[TT_FRONT_OPTION_stride] : l->size[i];
  int64_t window = (int64_t)l->dilation[i] * (l->size[i] - 1) + 1;
  int64_t pad = !conv ? 0 : row->option[TT_FRONT_OPTION_pad];
  if (pad < 0) pad = (window - 1) / 2;
  if (window > TT_FRONT_MOST)
    return tt_front_reject(fault, number, "a window of %" PRId64 "; at most %d is possible", window,
                           TT_FRONT_MOST);
  l->pad[i] = (int32_t)pad;
  int64_t capacity = l->in[i] + 2 * pad;
  if (window > capacity)
    return tt_front_reject(fault, number,
                           "%s %" PRId32 " + 2 * pad %" PRId64 " = %" PRId64
                           " is smaller than the window: dilation %" PRId32 " * (size %" PRId32
                           " - 1) + 1 = %" PRId64,
                           axis, l->in[i], pad, capacity, l->dilation[i], l->size[i], window);
  l->out[i] = (int32_t)((capacity - window) / l->stride[i] + 1);
  return 1;
}

static int set_window(const tt_front *f, const tt_front_row *row, int64_t number, tt_front_layer *l,
                      tt_front_fault *fault)
{
  if (f->dims == 2 && !set_axis(row, 0, "height", number, l, fault)) return 0;
  if (!set_axis(row, 1, f->dims == 1 ? "length" : "width", number, l, fault)) return 0;
  double reads = (double)l->out[0] * (double)l->out[1] * (double)l->size[0] * (double)l->size[1];
  if (reads > (double)TT_FRONT_MOST)
    return tt_front_reject(fault, number,
                           "%" PRId32 " x %" PRId32 " windows of %" PRId32 " x %" PRId32
                           " read %.0f values of a channel; at most %d are possible",
                           l->out[0], l->out[1], l->size[0], l->size[1], reads, TT_FRONT_MOST);
  return 1;
}

static int check_groups(const tt_front_layer *l, int64_t number, tt_front_fault *fault)
{
  const int32_t channels[] = {l->in_channels, l->channels};
  for (int i = 0; i < 2; i++)
    if (channels[i] % l->groups)
      return tt_front_reject(fault, number,
                             "%" PRId32 " groups do not divide the %" PRId32 " %schannels",
                             l->groups, channels[i], i ? "" : "input ");
  return 1;
}

/* The layer of a row, without its place among the others. */
static int set_layer(const tt_front *f, const tt_front_row *row, int64_t number, tt_front_layer *l,
                     tt_front_fault *fault)
{
  l->kind = row->kind;
  l->channels = l->in_channels;
  for (int i = 0; i < 2; i++) l->size[i] = l->stride[i] = l->dilation[i] = 1, l->out[i] = l->in[i];
  switch (row->kind) {
  case TT_FRONT_conv:
    l->channels = row->number[0];
    l->groups = row->option[TT_FRONT_OPTION_groups];
    return set_window(f, row, number, l, fault);
  case TT_FRONT_group_norm: l->groups = row->number[0]; return 1;
  case TT_FRONT_pool: l->pool = row->pool; return set_window(f, row, number, l, fault);
  case TT_FRONT_global_mean:
    l->pool = TT_POOLING_mean;
    for (int i = 0; i < 2; i++) l->size[i] = l->stride[i] = l->in[i], l->out[i] = 1;
    return 1;
  default: return 1;
  }
}

/* Append the layer of a row. If it is a group_norm after a conv, the activation of the conv is
 * applied after the group_norm. A layer of known shape is appended in spite of other faults. */
static int add_layer(const tt_front_shape *shape, const tt_front_row *row, int64_t number,
                     tt_front *f, tt_front_fault *fault)
{
  tt_front_layer *before = f->layers ? &f->layer[f->layers - 1] : NULL;
  if (f->layers == TT_MAX_FRONT)
    return tt_front_reject(fault, number, "at most %d layers are possible", TT_MAX_FRONT);
  tt_front_layer *l = &f->layer[f->layers];
  l->groups = 1;
  l->weight = l->bias = -1;
  l->skip = TT_FRONT_NO_SKIP;
  l->in_channels = before ? before->channels : f->channels;
  for (int i = 0; i < 2; i++) l->in[i] = before ? before->out[i] : f->size[i];
  if (!set_layer(f, row, number, l, fault)) return 0;
  f->layers++;
  if (!check_groups(l, number, fault)) return 0;
  double values = (double)l->channels * (double)l->out[0] * (double)l->out[1];
  if (values > (double)TT_FRONT_MOST)
    return tt_front_reject(fault, number, "%.0f values; at most %d are possible", values,
                           TT_FRONT_MOST);
  l->activation = TT_ACT_identity;
  if (l->kind == TT_FRONT_conv) l->activation = shape->activation;
  if (l->kind == TT_FRONT_group_norm && before && before->kind == TT_FRONT_conv) {
    l->activation = before->activation;
    before->activation = TT_ACT_identity;
  }
  if (l->kind == TT_FRONT_conv || l->kind == TT_FRONT_group_norm) {
    l->weight = f->params;
    if ((double)l->channels * (double)tt_front_fan_in(l) > (double)INT32_MAX)
      return tt_front_reject(fault, number, "more than %d weights", INT32_MAX);
    l->bias = l->weight + tt_front_weights(l);
    f->params = l->bias + l->channels;
  }
  return 1;
}

/* A span of rows whose input is added to its output. */
typedef struct span {
  int64_t begin, left; /* row with `residual`; rows that follow */
  int layers;          /* of the front, before the span begins */
} span;

static int end_span(const span *s, tt_front *f, tt_front_fault *fault)
{
  char in[TT_FRONT_LAYER_TEXT], out[TT_FRONT_LAYER_TEXT];
  tt_front_layer *last = &f->layer[f->layers - 1];
  const tt_front_layer *first = &f->layer[s->layers];
  if (first->in_channels != last->channels || first->in[0] != last->out[0] ||
      first->in[1] != last->out[1])
    return tt_front_reject(fault, s->begin,
                           "the input of these rows is %.40s, their output %.40s: they cannot be "
                           "added",
                           tt_front_shape_text(f, first->in_channels, first->in, in),
                           tt_front_shape_text(f, last->channels, last->out, out));
  last->skip = s->layers - 1;
  return 1;
}

static int begin_span(int64_t rows, const tt_front_row *row, int64_t number, const tt_front *f,
                      span *s, tt_front_fault *fault)
{
  if (s->left)
    return tt_front_reject(fault, number, "begins inside the rows of the residual of row %" PRId64,
                           s->begin);
  if (row->number[0] > rows - number - 1)
    return tt_front_reject(fault, number, "only %" PRId64 " rows follow", rows - number - 1);
  *s = (span){number, row->number[0], f->layers};
  return 1;
}

int tt_front_lay_out(const tt_front_shape *shape, tt_front *out, tt_front_fault *fault)
{
  span s = {0};
  int faults = 0, known = 1; /* known: the shape of the result of the row before */
  memset(out, 0, sizeof *out);
  if (!set_inputs(shape, out, fault)) return 0;
  for (int64_t i = 0; i < shape->rows; i++) {
    tt_front_row row;
    int layers = out->layers, good = tt_front_row_parse(shape->row[i], i, &row, fault);
    if (good && row.kind == TT_FRONT_residual) {
      good = begin_span(shape->rows, &row, i, out, &s, fault);
    } else {
      good = good && (!known || add_layer(shape, &row, i, out, fault));
      known = out->layers > layers;
      if (s.left && --s.left == 0 && known && good) good = end_span(&s, out, fault);
    }
    if (!good && fault->row >= shape->first) return 0;
    faults += !good;
  }
  if (faults) return 1;
  if (!out->layers) return tt_front_reject(fault, -1, "a front has at least one row");
  if (out->params > INT32_MAX)
    return tt_front_reject(fault, -1, "more than %d parameters", INT32_MAX);
  out->features = tt_front_values(&out->layer[out->layers - 1]);
  return 1;
}

tt_err tt_front_read(const char *text, const tt_front_shape *shape, tt_front *out, int *possible,
                     tt_front_fault *fault)
{
  const char *row[2 * TT_MAX_FRONT];
  char *copy = NULL;
  tt_front_shape whole = *shape;
  TT_TRY(tt_text_set(&copy, text));
  whole.row = row;
  whole.rows = 0;
  for (char *cursor = copy; cursor && whole.rows < 2 * TT_MAX_FRONT;) {
    row[whole.rows++] = cursor;
    cursor = strchr(cursor, ',');
    if (cursor) *cursor++ = '\0';
  }
  *possible = tt_front_lay_out(&whole, out, fault);
  tt_free(copy);
  return TT_OK;
}
