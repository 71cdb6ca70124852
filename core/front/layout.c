/* layout.c — from the rows of a front to its layers; see front.h. */
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/front/front_internal.h"

#include <inttypes.h>
#include <string.h>

/* Set the sizes of the inputs. */
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
  int64_t pad = row->option[TT_FRONT_OPTION_pad];
  if (pad < 0) pad = conv ? (window - 1) / 2 : 0;
  if (!conv && pad > window / 2)
    return tt_front_reject(
        fault, number, "pad %" PRId64 " is more than half of the window of %" PRId64, pad, window);
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

/* Fill kind, channels and window of a layer from its row; the caller sets the rest. */
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

/* The layers while they are laid out. */
typedef struct layout {
  const tt_front_shape *shape;
  tt_front *f;
  tt_front_fault *fault;
  int64_t number;   /* of the row */
  int known;        /* 1: the shape of the result of the row before is known */
  int64_t capacity; /* layers that the array of the front holds */
  /* rows whose input is added to their output */
  tt_front_row span;   /* the row with `residual` */
  int64_t begin;       /* its number */
  int32_t left, first; /* rows that follow; first layer */
} layout;

static int is_norm(tt_front_kind kind)
{
  return kind == TT_FRONT_group_norm || kind == TT_FRONT_batch_norm;
}

/* A norm directly behind a conv, with no addition between: the activation of the conv comes after
 * the norm. A batch_norm takes the mean away, so that a bias before it would change nothing. */
static void follow_conv(tt_front *f, tt_front_layer *before, tt_front_layer *l)
{
  l->activation = before->activation;
  before->activation = TT_ACT_identity;
  if (l->kind != TT_FRONT_batch_norm) return;
  f->params -= before->channels;
  before->bias = -1;
}

static int add_params(const layout *o, tt_front_layer *l)
{
  tt_front *f = o->f;
  if (l->kind != TT_FRONT_conv && !is_norm(l->kind)) return 1;
  if ((double)l->channels * (double)tt_front_fan_in(l) > (double)INT32_MAX)
    return tt_front_reject(o->fault, o->number, "more than %d weights", INT32_MAX);
  l->weight = f->params;
  l->bias = l->weight + tt_front_weights(l);
  f->params = l->bias + l->channels;
  if (l->kind != TT_FRONT_batch_norm) return 1;
  l->running = f->params;
  f->params += tt_front_running(l);
  return 1;
}

/* Room for one more layer. The array may move. */
static int reserve_layer(layout *o)
{
  tt_front *f = o->f;
  if (f->layers >= TT_FRONT_LAYERS)
    return tt_front_reject(o->fault, o->number, "more than %d layers", TT_FRONT_LAYERS);
  if (TT_GROW(f->layer, f->layers, 1, o->capacity))
    return tt_front_reject(o->fault, o->number, "no memory for %d layers", f->layers + 1);
  return 1;
}

/* Append the layer of a row, which reads layer `source`. A layer of known shape is appended in
 * spite of other faults. */
static int add_layer(layout *o, const tt_front_row *row, int source)
{
  tt_front *f = o->f;
  if (!reserve_layer(o)) return 0;
  tt_front_layer *l = &f->layer[f->layers], *before = source >= 0 ? &f->layer[source] : NULL;
  memset(l, 0, sizeof *l); /* also after a row whose layer was not possible */
  l->groups = 1;
  l->rate = 1.0f;
  l->weight = l->bias = l->running = -1;
  l->from = source;
  l->skip = TT_FRONT_NO_SKIP;
  l->in_channels = before ? before->channels : f->channels;
  for (int i = 0; i < 2; i++) l->in[i] = before ? before->out[i] : f->size[i];
  if (!set_layer(f, row, o->number, l, o->fault)) return 0;
  f->layers++;
  if (!check_groups(l, o->number, o->fault)) return 0;
  double values = (double)l->channels * (double)l->out[0] * (double)l->out[1];
  if (values > (double)TT_FRONT_MOST)
    return tt_front_reject(o->fault, o->number, "%.0f values; at most %d are possible", values,
                           TT_FRONT_MOST);
  int32_t own = row->option[TT_FRONT_OPTION_activation];
  l->activation = l->kind != TT_FRONT_conv ? TT_ACT_identity
                  : own < 0                ? o->shape->activation
                                           : (tt_activation)own;
  if (is_norm(l->kind) && before && before->kind == TT_FRONT_conv &&
      before->skip == TT_FRONT_NO_SKIP)
    follow_conv(f, before, l);
  return add_params(o, l);
}

/* Smallest stride by which a window of 1 makes `out` positions of `in`; it may make another
 * number. */
static int32_t stride_between(int32_t in, int32_t out) { return (in - 1) / out + 1; }

/* The input of the span, in the shape of its output: a 1 x 1 convolution, and the norm of the last
 * row of the span. */
static int add_projection(layout *o, int last)
{
  tt_front *f = o->f;
  const tt_front_layer *first = &f->layer[o->first], *end = &f->layer[last];
  tt_front_row conv = tt_front_plain_row(TT_FRONT_conv, end->channels, 1);
  tt_front_row norm = tt_front_plain_row(end->kind, end->groups, 0);
  int32_t *stride = &conv.option[TT_FRONT_OPTION_stride];
  for (int i = 0; i < 2; i++) {
    int32_t along = stride_between(first->in[i], end->out[i]);
    if (along > *stride) *stride = along;
  }
  conv.option[TT_FRONT_OPTION_activation] = TT_ACT_identity;
  int begin = f->layers, has_norm = is_norm(end->kind);
  if (!add_layer(o, &conv, o->first - 1)) return 0;
  if (has_norm && !add_layer(o, &norm, begin)) return 0;
  for (int l = begin; l < f->layers; l++) f->layer[l].projects = 1;
  return 1;
}

static int end_span(layout *o)
{
  char in[TT_FRONT_LAYER_TEXT], out[TT_FRONT_LAYER_TEXT];
  tt_front *f = o->f;
  int projects = o->span.option[TT_FRONT_OPTION_project], last = f->layers - 1;
  if (projects && !add_projection(o, last)) return 0;
  const tt_front_layer *first = &f->layer[o->first];
  tt_front_layer *end = &f->layer[last], *sum = &f->layer[f->layers - 1];
  const int32_t channels = projects ? sum->channels : first->in_channels;
  const int32_t *size = projects ? sum->out : first->in;
  if (channels != end->channels || size[0] != end->out[0] || size[1] != end->out[1])
    return tt_front_reject(o->fault, o->begin,
                           "the %s of these layers is %.40s, their output %.40s: they cannot be "
                           "added%s",
                           projects ? "projected input" : "input",
                           tt_front_shape_text(f, channels, size, in),
                           tt_front_shape_text(f, end->channels, end->out, out),
                           projects ? "" : "; write residual LAYERS project");
  sum->skip = projects ? last : o->first - 1;
  sum->activates_sum = 0;
  if (!o->span.option[TT_FRONT_OPTION_activate]) return 1;
  tt_activation activation = end->activation;
  end->activation = TT_ACT_identity;
  sum->activation = activation;
  sum->activates_sum = activation != TT_ACT_identity;
  return 1;
}

static int begin_span(const tt_front_row *row, layout *o)
{
  if (o->left)
    return tt_front_reject(o->fault, o->number, "begins inside the residual of layer %" PRId64,
                           o->begin);
  o->span = *row;
  o->begin = o->number;
  o->left = row->number[0];
  o->first = o->f->layers;
  return 1;
}

/* A row of a layer, or a residual. */
static int take_row(const tt_front_row *row, layout *o)
{
  int layers = o->f->layers, good = 1;
  if (row->kind == TT_FRONT_residual) return begin_span(row, o);
  if (o->known) good = add_layer(o, row, layers - 1);
  o->known = o->f->layers > layers;
  if (o->left && --o->left == 0 && o->known && good) good = end_span(o);
  return good;
}

/* The rows of a residual block: convolutions of these channels and sizes, each with batch_norm. */
typedef struct block_conv {
  int32_t channels, size, stride;
} block_conv;

static int take_block(const block_conv *conv, int count, layout *o)
{
  const tt_front *f = o->f;
  int32_t in = f->layers ? f->layer[f->layers - 1].channels : f->channels, strides = 1;
  for (int i = 0; i < count; i++) strides *= conv[i].stride;
  tt_front_row row = tt_front_plain_row(TT_FRONT_residual, 2 * count, 0);
  row.option[TT_FRONT_OPTION_project] = strides > 1 || in != conv[count - 1].channels;
  row.option[TT_FRONT_OPTION_activate] = 1;
  if (!take_row(&row, o)) return 0;
  for (int i = 0; i < count; i++) {
    row = tt_front_plain_row(TT_FRONT_conv, conv[i].channels, conv[i].size);
    row.option[TT_FRONT_OPTION_stride] = conv[i].stride;
    if (!take_row(&row, o)) return 0;
    row = tt_front_plain_row(TT_FRONT_batch_norm, 0, 0);
    if (!take_row(&row, o)) return 0;
  }
  return 1;
}

/* The blocks of He et al. 2016; the stride of a bottleneck is that of its 3 x 3 convolution, as in
 * torchvision. */
static int take_blocks(const tt_front_row *row, layout *o)
{
  if (o->left)
    return tt_front_reject(o->fault, o->number, "stands inside the residual of layer %" PRId64,
                           o->begin);
  for (int32_t k = 0; o->known && k < row->option[TT_FRONT_OPTION_times]; k++) {
    int32_t stride = k ? 1 : row->option[TT_FRONT_OPTION_stride];
    const int32_t *n = row->number;
    const block_conv basic[] = {{n[0], 3, stride}, {n[0], 3, 1}};
    const block_conv bottleneck[] = {{n[0], 1, 1}, {n[0], 3, stride}, {n[1], 1, 1}};
    int good = row->kind == TT_FRONT_basic ? take_block(basic, 2, o) : take_block(bottleneck, 3, o);
    o->left = 0;
    if (!good) return 0;
  }
  return 1;
}

/* One convolution, with a group for each input. */
static int take_encoding(const tt_front_row *row, layout *o)
{
  const tt_front *f = o->f;
  if (o->number || f->size[0] * f->size[1] > 1)
    return tt_front_reject(o->fault, o->number,
                           "can only be the first layer, without model.image or model.profile");
  double outputs = (double)f->channels * (1.0 + row->number[0]);
  if (outputs > (double)TT_FRONT_MOST)
    return tt_front_reject(o->fault, o->number, "%.0f values; at most %d are possible", outputs,
                           TT_FRONT_MOST);
  tt_front_row conv = tt_front_plain_row(TT_FRONT_conv, (int32_t)outputs, 1);
  conv.option[TT_FRONT_OPTION_groups] = f->channels;
  conv.option[TT_FRONT_OPTION_activation] = TT_ACT_hardtanh;
  if (!take_row(&conv, o)) return 0;
  f->layer[0].encodes = 1;
  return 1;
}

/* Row number o->number of the job file. */
static int take_text(const char *text, layout *o)
{
  tt_front_row row;
  int64_t behind = o->shape->rows - o->number - 1;
  if (!tt_front_row_parse(text, o->number, &row, o->fault)) {
    o->known = 0;
    if (o->left) o->left--;
    return 0;
  }
  if (row.kind == TT_FRONT_residual && row.number[0] > behind)
    return tt_front_reject(o->fault, o->number, "the list has only %" PRId64 " more", behind);
  if (row.kind == TT_FRONT_basic || row.kind == TT_FRONT_bottleneck) return take_blocks(&row, o);
  return row.kind == TT_FRONT_ple ? take_encoding(&row, o) : take_row(&row, o);
}

/* Mark the layers before which the front may be cut: those that follow use no older result. */
static void find_blocks(tt_front *f)
{
  int32_t oldest = f->layers;
  for (int32_t l = f->layers - 1; l >= 0; l--) {
    tt_front_layer *k = &f->layer[l];
    if (k->from < oldest) oldest = k->from;
    if (k->skip != TT_FRONT_NO_SKIP && k->skip < oldest) oldest = k->skip;
    k->begins_block = oldest >= l - 1;
  }
}

static int take_rows(layout *o)
{
  const tt_front_shape *shape = o->shape;
  tt_front *f = o->f;
  int faults = 0;
  if (!set_inputs(shape, f, o->fault)) return 0;
  for (; o->number < shape->rows; o->number++) {
    if (take_text(shape->row[o->number], o)) continue;
    if (o->fault->row >= shape->first) return 0;
    faults++;
  }
  if (faults) return 1;
  if (!f->layers) return tt_front_reject(o->fault, -1, "the list is empty");
  if (f->params > INT32_MAX)
    return tt_front_reject(o->fault, -1, "more than %d parameters", INT32_MAX);
  f->features = tt_front_values(&f->layer[f->layers - 1]);
  find_blocks(f);
  return 1;
}

int tt_front_lay_out(const tt_front_shape *shape, tt_front *out, tt_front_fault *fault)
{
  layout o = {.shape = shape, .f = out, .fault = fault, .known = 1};
  memset(out, 0, sizeof *out);
  int good = take_rows(&o);
  if (!good) tt_front_destroy(out);
  return good;
}

tt_err tt_front_read(const char *text, const tt_front_shape *shape, tt_front *out, int *possible,
                     tt_front_fault *fault)
{
  const char **row = NULL;
  char *copy = NULL;
  tt_front_shape whole = *shape;
  whole.rows = 1;
  for (const char *c = text; *c; c++) whole.rows += *c == ',';
  TT_TRY(TT_ALLOC(row, whole.rows));
  tt_err e = tt_text_set(&copy, text);
  char *cursor = copy;
  for (int64_t r = 0; !e && r < whole.rows; r++) {
    row[r] = cursor;
    cursor += strcspn(cursor, ",");
    *cursor++ = '\0'; /* behind the last row it is one already */
  }
  whole.row = row;
  if (!e) *possible = tt_front_lay_out(&whole, out, fault);
  tt_free_all(&copy, &row);
  return e;
}
