/* onnx_network.c — see onnx_network.h.
 *
 * Before the first weights the axis of the members has size 1, because all members have the same
 * values. A convolution gathers the inputs that each output reads and multiplies them by the
 * weights as matrices: operator Conv of onnxruntime has no type double. */
#include "src/export/onnx_network.h"

#include "core/base/mem.h"
#include "core/formulas/layer_norm.h"
#include "src/export/onnx_ops.h"

#include <string.h>

/* Activations */

/* tt_normal_cdf of elementwise.h; operator Erf of onnxruntime has no type double. */
static value normal_cdf(tt_onnx *g, value x)
{
  static const double c[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592};
  value a = times(g, 0.70710678118654752, op1(g, "Abs", x));
  value t = op2(g, "Div", scalar(g, 1.0), plus(g, 1.0, times(g, 0.3275911, a)));
  value p = scalar(g, c[0]);
  for (int i = 1; i < 5; i++) p = plus(g, c[i], op2(g, "Mul", p, t));
  value density = op1(g, "Exp", op1(g, "Neg", op2(g, "Mul", a, a)));
  value tail = times(g, 0.5, op2(g, "Mul", op2(g, "Mul", p, t), density));
  const value in[] = {op2(g, "Less", x, scalar(g, 0.0)), tail, op2(g, "Sub", scalar(g, 1.0), tail)};
  return tt_onnx_node(g, "Where", 3, in, 1, none);
}

/* e^x - 1 below 0. */
static value elu(tt_onnx *g, value x)
{
  value below = plus(g, -1.0, op1(g, "Exp", op2(g, "Min", x, scalar(g, 0.0))));
  return op2(g, "Add", op1(g, "Relu", x), below);
}

/* f(x) in place of x. */
static tt_err activate(tt_onnx *g, const tt_export_model *x, tt_activation a, value *v)
{
  const value z = *v;
  switch (a) {
  case TT_ACT_identity: return TT_OK;
  case TT_ACT_relu: *v = op1(g, "Relu", z); return TT_OK;
  case TT_ACT_leaky_relu: *v = op2(g, "Max", z, times(g, (double)0.01f, z)); return TT_OK;
  case TT_ACT_tanh: *v = op1(g, "Tanh", z); return TT_OK;
  case TT_ACT_sigmoid: *v = op1(g, "Sigmoid", z); return TT_OK;
  case TT_ACT_silu: *v = op2(g, "Mul", z, op1(g, "Sigmoid", z)); return TT_OK;
  case TT_ACT_gelu: *v = op2(g, "Mul", z, normal_cdf(g, z)); return TT_OK;
  case TT_ACT_sine: *v = op1(g, "Sin", z); return TT_OK;
  case TT_ACT_hardtanh:
    *v = op2(g, "Max", op2(g, "Min", z, scalar(g, 1.0)), scalar(g, -1.0));
    return TT_OK;
  case TT_ACT_softplus: *v = softplus(g, z); return TT_OK;
  case TT_ACT_elu: *v = elu(g, z); return TT_OK;
  default: return TT_EXPORT_REFUSE(x, "ONNX", "activation", tt_choice_activation[a]);
  }
}

/* Weights */

/* Parameters of the used members from `offset` on, in double: [U] and the other axes.
 *   dim  [ndims] dim[0] = U */
static value weights_at(tt_onnx *g, const tt_export_cohort *k, int64_t offset, int ndims,
                        const int64_t *dim)
{
  int64_t each = 1;
  float *all = NULL;
  value v = {""};
  for (int i = 1; i < ndims; i++) each *= dim[i];
  if (TT_ALLOC(all, k->members * each)) {
    g->failed = 1;
    return v;
  }
  for (int64_t u = 0; u < k->members; u++)
    memcpy(all + u * each, k->m->w + k->member[u] * k->m->model.params + offset,
           (size_t)each * sizeof *all);
  v = tt_onnx_constant(g, TT_ONNX_FLOAT, ndims, dim, all);
  tt_free(all);
  return tt_onnx_node(g, "Cast", 1, &v, 1, (tt_onnx_attribute){"to", 0, 1, {TT_ONNX_DOUBLE}});
}

/* The front: values are [U or 1][N][channels][positions]. */

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
  return weights_at(g, k, offset, 4, axis);
}

static tt_err convolve(tt_onnx *g, const tt_export_cohort *k, const tt_front_layer *l,
                       int64_t members, value x, value *out)
{
  int64_t fan_in = tt_front_fan_in(l), outputs = l->channels / l->groups;
  const int64_t rows[] = {l->groups, fan_in, tt_front_positions(l)};
  const int64_t weights[] = {k->members, 1, l->groups, outputs, fan_in};
  TT_TRY(windows(g, l, 1, 0.0, x, &x));
  x = shaped(g, x, members, 3, rows);
  x = op2(g, "MatMul", weights_at(g, k, l->weight, 5, weights), x);
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

/* The features of the front [U or 1][N][F] from the normalized inputs [N][D]. */
static tt_err put_front(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value in,
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
    if (!e) e = activate(g, x, layer->activation, y);
    if (!layer->activates_sum) add_skip(g, layer, result, y);
  }
  *out = shaped(g, result[f->layers], members_of(k, f->layers - 1), 1, &f->features);
  tt_free(result);
  return e;
}

/* The layers */

/* [U][1][n] */
static value vector(tt_onnx *g, const tt_export_cohort *k, int64_t offset, int64_t n)
{
  return weights_at(g, k, offset, 3, (const int64_t[]){k->members, 1, n});
}

/* [U][in][out], which is stored [out][in]. */
static value matrix(tt_onnx *g, const tt_export_cohort *k, const tt_layer *layer)
{
  const int64_t dim[] = {k->members, layer->out, layer->in};
  value v = weights_at(g, k, layer->weight, 3, dim);
  return tt_onnx_node(g, "Transpose", 1, &v, 1, (tt_onnx_attribute){"perm", 1, 3, {0, 2, 1}});
}

static value normalize_layer(tt_onnx *g, const tt_export_cohort *k, const tt_layer *layer, value z)
{
  value d = op2(g, "Sub", z, reduce(g, "ReduceMean", z));
  value variance = reduce(g, "ReduceMean", op2(g, "Mul", d, d));
  value std = op1(g, "Sqrt", plus(g, (double)TT_LAYER_NORM_EPSILON, variance));
  value gain = vector(g, k, layer->norm, layer->out);
  value shift = vector(g, k, layer->norm + layer->out, layer->out);
  return op2(g, "Add", op2(g, "Mul", op2(g, "Div", d, std), gain), shift);
}

tt_err tt_onnx_network(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value in,
                       value *out)
{
  if (k->m->model.front.layers) TT_TRY(put_front(g, x, k, in, &in));
  for (int l = 0; l < k->m->model.layers; l++) {
    const tt_layer *layer = &k->m->model.layer[l];
    value z = op2(g, "MatMul", in, matrix(g, k, layer));
    z = op2(g, "Add", z, vector(g, k, layer->bias, layer->out));
    if (layer->norm >= 0) z = normalize_layer(g, k, layer, z);
    TT_TRY(activate(g, x, layer->activation, &z));
    in = layer->residual ? op2(g, "Add", z, in) : z;
  }
  *out = in;
  return TT_OK;
}
