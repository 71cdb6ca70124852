/* onnx_front.c — the front of the networks in an ONNX graph; see onnx_front.h.
 *
 * A value is [U or 1][N][channels][positions]. A convolution gathers the inputs that each output
 * reads and multiplies them by the weights as matrices: operator Conv of onnxruntime has no type
 * double. */
#include "src/export/onnx_front.h"

#include "core/base/mem.h"
#include "core/formulas/layer_norm.h"
#include "src/export/onnx_ops.h"
#include "src/export/onnx_parts.h"

/* Reshape to [members][N] and these axes. */
static value shaped(tt_onnx *g, value x, int64_t members, int n, const int64_t *axis)
{
  int64_t dim[5] = {members, -1};
  for (int i = 0; i < n; i++) dim[2 + i] = axis[i];
  return reshape(g, x, 2 + n, dim);
}

static value planes(tt_onnx *g, value x, int64_t members, const tt_front_layer *l)
{
  return shaped(g, x, members, 2, (const int64_t[]){l->channels, tt_front_positions(l)});
}

/* Elements index[n] of the last axis. */
static value gather_last(tt_onnx *g, value x, int64_t n, const int64_t *index)
{
  const value in[] = {x, integers(g, n, index)};
  return tt_onnx_node(g, "Gather", 2, in, 1, (tt_onnx_attribute){"axis", 0, 1, {3}});
}

/* The inputs that the outputs of a channel read: those of an output are together, or those of a
 * position of the kernel. Where an output reads outside of the inputs, the number is that of one
 * more input. Returns 1 if there is such a place.
 *   index  [positions * positions of the kernel] */
static int list_inputs(const tt_front_layer *l, int by_tap, const int32_t *triple, int64_t taps,
                       int64_t *index)
{
  int64_t each = tt_front_positions(l), window = (int64_t)l->size[0] * l->size[1];
  const int32_t *dst = triple, *tap = dst + taps, *src = tap + taps;
  for (int64_t i = 0; i < each * window; i++) index[i] = tt_front_positions_in(l);
  for (int64_t i = 0; i < taps; i++)
    index[by_tap ? tap[i] * each + dst[i] : dst[i] * window + tap[i]] = src[i];
  return taps < each * window;
}

/* One more element of the last axis. */
static value append(tt_onnx *g, value x, double element)
{
  static const int64_t one_more[] = {0, 0, 0, 0, 0, 0, 0, 1};
  const value in[] = {x, integers(g, 8, one_more), scalar(g, element)};
  return tt_onnx_node(g, "Pad", 3, in, 1, none);
}

/* [..][channels][inputs of all windows].
 *   outside  what a window reads outside of the inputs */
static tt_err windows(tt_onnx *g, const tt_front_layer *l, int by_tap, double outside, value x,
                      value *out)
{
  int64_t taps = tt_front_count_taps(l);
  int64_t n = tt_front_positions(l) * l->size[0] * l->size[1], *index = NULL;
  int32_t *triple = NULL;
  tt_err e = TT_ALLOC(triple, 3 * taps);
  if (!e) e = TT_ALLOC(index, n);
  if (!e) {
    tt_front_list_taps(l, triple, triple + taps, triple + 2 * taps);
    if (list_inputs(l, by_tap, triple, taps, index)) x = append(g, x, outside);
    *out = gather_last(g, x, n, index);
  }
  tt_free_all(&triple, &index);
  return e;
}

/* Parameters of the channels of a layer, from `offset` on. */
static value of_channels(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                         int64_t offset)
{
  const int64_t axis[] = {k->members, 1, l->channels, 1};
  return tt_onnx_weights(g, k, offset, 4, axis);
}

static tt_err convolve(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                       int64_t members, value x, value *out)
{
  int64_t fan_in = tt_front_fan_in(l), outputs = l->channels / l->groups;
  const int64_t rows[] = {l->groups, fan_in, tt_front_positions(l)};
  const int64_t weights[] = {k->members, 1, l->groups, outputs, fan_in};
  TT_TRY(windows(g, l, 1, 0.0, x, &x));
  x = shaped(g, x, members, 3, rows);
  x = op2(g, "MatMul", tt_onnx_weights(g, k, l->weight, 5, weights), x);
  *out = planes(g, x, k->members, l);
  if (l->bias >= 0) *out = op2(g, "Add", *out, of_channels(g, k, l, l->bias));
  return TT_OK;
}

static tt_err pool(tt_onnx *g, const tt_export_model *m, const tt_front_layer *l, int64_t members,
                   value x, value *out)
{
  static const char *const operator[TT_POOLING_COUNT] = {
      [TT_POOLING_max] = "ReduceMax", [TT_POOLING_mean] = "ReduceMean"};
  const int64_t axis[] = {l->channels, tt_front_positions(l), (int64_t)l->size[0] * l->size[1]};
  if (!operator[l->pool]) return TT_EXPORT_REFUSE(m, "ONNX", "pool", tt_pooling_name[l->pool]);
  TT_TRY(windows(g, l, 0, tt_pooling_start_f64(l->pool), x, &x));
  x = shaped(g, x, members, 3, axis);
  *out = planes(g, reduce(g, operator[l->pool], x), members, l);
  return TT_OK;
}

/* x / sqrt(variance + epsilon), by gain and shift of the channels. */
static value scale_and_shift(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                             int64_t members, value x, value variance)
{
  value std = op1(g, "Sqrt", plus(g, (double)TT_LAYER_NORM_EPSILON, variance));
  x = planes(g, op2(g, "Div", x, std), members, l);
  x = op2(g, "Mul", x, of_channels(g, k, l, l->weight));
  return op2(g, "Add", x, of_channels(g, k, l, l->bias));
}

static value normalize(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                       int64_t members, value x)
{
  const int64_t axis[] = {l->groups, tt_front_values(l) / l->groups};
  value z = shaped(g, x, members, 2, axis);
  value d = op2(g, "Sub", z, reduce(g, "ReduceMean", z));
  value variance = reduce(g, "ReduceMean", op2(g, "Mul", d, d));
  return scale_and_shift(g, k, l, members, d, variance);
}

static value normalize_channels(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                                value x)
{
  value mean = of_channels(g, k, l, l->running);
  value variance = of_channels(g, k, l, l->running + l->channels);
  return scale_and_shift(g, k, l, k->members, op2(g, "Sub", x, mean), variance);
}

/* A layer without its activation and addition.
 *   members  size of the first axis of x */
static tt_err apply(tt_onnx *g, const tt_export_model *m, const tt_export_cohort *k,
                    const tt_front_layer *l, int64_t members, value x, value *out)
{
  *out = x;
  switch (l->kind) {
  case TT_FRONT_conv: return convolve(g, k, l, members, x, out);
  case TT_FRONT_group_norm: *out = normalize(g, k, l, members, x); return TT_OK;
  case TT_FRONT_batch_norm: *out = normalize_channels(g, k, l, x); return TT_OK;
  case TT_FRONT_pool:
  case TT_FRONT_global_mean: return pool(g, m, l, members, x, out);
  default: return TT_OK; /* dropout */
  }
}

static void add_skip(tt_onnx *g, const tt_front_layer *l, const value *result, value *v)
{
  if (l->skip != TT_FRONT_NO_SKIP) *v = op2(g, "Add", *v, result[l->skip + 1]);
}

/* Size of the first axis of the result of a layer; -1: of the inputs. */
static int64_t members_of(const tt_export_cohort *k, int layer)
{
  for (int l = 0; l <= layer; l++)
    if (k->m->model.front.layer[l].weight >= 0) return k->members;
  return 1;
}

tt_err tt_onnx_front(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value in,
                     value *out)
{
  const tt_front *f = &k->m->model.front;
  const int64_t inputs[] = {f->channels, (int64_t)f->size[0] * f->size[1]};
  value *result = NULL; /* [1 + layers] the inputs, then of each layer */
  TT_TRY(TT_ALLOC(result, 1 + f->layers));
  result[0] = shaped(g, in, 1, 2, inputs);
  tt_err e = TT_OK;
  for (int l = 0; !e && l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    value *y = &result[l + 1];
    e = apply(g, x, k, layer, members_of(k, layer->from), result[layer->from + 1], y);
    if (layer->activates_sum) add_skip(g, layer, result, y);
    if (!e) e = tt_onnx_activate(g, x, layer->activation, y);
    if (!layer->activates_sum) add_skip(g, layer, result, y);
  }
  *out = shaped(g, result[f->layers], members_of(k, f->layers - 1), 1, &f->features);
  tt_free(result);
  return e;
}
