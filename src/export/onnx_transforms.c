/* onnx_transforms.c — see onnx_transforms.h. */
#include "src/export/onnx_transforms.h"

#include "core/base/mem.h"
#include "src/export/onnx_ops.h"

#include <math.h>

static const double least_power = 1e-12; /* instead of 0, where the limit is the logarithm */

/* ln(1 + x), of |x| < 0.5 by the inverse hyperbolic tangent, which does not round 1 + x. */
static value log1p_of(tt_onnx *g, value x)
{
  value ratio = op2(g, "Div", x, plus(g, 2.0, x)), square = op2(g, "Mul", ratio, ratio);
  value series = scalar(g, 0.0);
  for (int k = 17; k >= 0; k--) series = plus(g, 1.0 / (2 * k + 1), op2(g, "Mul", series, square));
  return choose(g, op2(g, "Less", op1(g, "Abs", x), scalar(g, 0.5)),
                times(g, 2.0, op2(g, "Mul", ratio, series)), op1(g, "Log", plus(g, 1.0, x)));
}

/* e^x - 1, of |x| < 0.5 by its series. */
static value expm1_of(tt_onnx *g, value x)
{
  value series = scalar(g, 0.0);
  for (int k = 13; k >= 1; k--) series = times(g, 1.0 / k, op2(g, "Mul", x, plus(g, 1.0, series)));
  return choose(g, op2(g, "Less", op1(g, "Abs", x), scalar(g, 0.5)), series,
                plus(g, -1.0, op1(g, "Exp", x)));
}

/* tt_yeo_johnson of all inputs; the sign of each decides its power. */
static tt_err yeo_johnson(tt_onnx *g, const tt_export_model *x, value in, value *out)
{
  double *power = NULL;
  value by[2];
  TT_TRY(TT_ALLOC(power, x->inputs));
  for (int below = 0; below < 2; below++) {
    for (int64_t i = 0; i < x->inputs; i++)
      power[i] = fmax(below ? 2.0 - x->scaler->x_lambda[i] : x->scaler->x_lambda[i], least_power);
    by[below] = doubles(g, x->inputs, power);
  }
  tt_free(power);
  value is_below = op2(g, "Less", in, scalar(g, 0.0)), p = choose(g, is_below, by[1], by[0]);
  value t = op2(g, "Div", expm1_of(g, op2(g, "Mul", p, log1p_of(g, op1(g, "Abs", in)))), p);
  *out = choose(g, is_below, op1(g, "Neg", t), t);
  return TT_OK;
}

static tt_err transformed(tt_onnx *g, const tt_export_model *x, tt_transform f, value in,
                          value *out)
{
  switch (f) {
  case TT_TRANSFORM_log: *out = op1(g, "Log", in); return TT_OK;
  case TT_TRANSFORM_log1p: *out = log1p_of(g, in); return TT_OK;
  case TT_TRANSFORM_yeo_johnson: return yeo_johnson(g, x, in, out);
  default: return TT_EXPORT_REFUSE(x, "ONNX", "normalization", "with this transform");
  }
}

/* Each transform is computed for all inputs, and taken where it is that of the input. */
tt_err tt_onnx_transform_inputs(tt_onnx *g, const tt_export_model *x, value *in)
{
  const value raw = *in;
  double *mark = NULL;
  TT_TRY(TT_ALLOC(mark, x->inputs));
  tt_err e = TT_OK;
  for (int f = TT_TRANSFORM_identity + 1; !e && f < TT_TRANSFORM_COUNT; f++) {
    value all;
    if (!tt_export_uses_transform(x, (tt_transform)f)) continue;
    for (int64_t i = 0; i < x->inputs; i++)
      mark[i] = tt_export_transform(x, i) == (tt_transform)f ? 1.0 : 0.0;
    e = transformed(g, x, (tt_transform)f, raw, &all);
    if (!e) *in = choose(g, op2(g, "Less", scalar(g, 0.5), doubles(g, x->inputs, mark)), all, *in);
  }
  tt_free(mark);
  return e;
}

/* [U][1][W] value of each column of each member, from column[C] of the cohort; with `last` one more
 * axis of size 1. */
static value per_member(tt_onnx *g, const tt_export_cohort *k, const double *column, int last)
{
  int64_t width = tt_trained_ensemble_width(k->m), dim[] = {k->members, 1, width, 1};
  double *all = NULL;
  value v = {""};
  if (TT_ALLOC(all, k->members * width)) {
    g->failed = 1;
    return v;
  }
  for (int64_t i = 0; i < k->members * width; i++)
    all[i] = column[k->of[i / width] * width + i % width];
  v = tt_onnx_constant(g, TT_ONNX_DOUBLE, last ? 4 : 3, dim, all);
  tt_free(all);
  return v;
}

/* tt_yeo_johnson_inverse of t; the powers of t < 0 and of t >= 0. */
static value yeo_johnson_inverse(tt_onnx *g, value t, value below, value above)
{
  value is_below = op2(g, "Less", t, scalar(g, 0.0)), p = choose(g, is_below, below, above);
  value size = op2(g, "Div", log1p_of(g, op2(g, "Mul", p, op1(g, "Abs", t))), p);
  value v = expm1_of(g, size);
  return choose(g, is_below, op1(g, "Neg", v), v);
}

/* tt_yeo_johnson_moments: the points of the rule are one more axis.
 *   scratch  [columns] */
static void undo_yeo_johnson(tt_onnx *g, const tt_export_cohort *k, double *scratch, value *mean,
                             value *variance)
{
  enum { POINTS = 37 };
  const int64_t width = tt_trained_ensemble_width(k->m), dim[] = {k->members, -1, width, 1};
  double z[POINTS], weight[POINTS], sum = 0.0;
  value power[2];
  for (int i = 0; i < POINTS; i++) z[i] = 0.5 * (i - POINTS / 2);
  for (int i = 0; i < POINTS; i++) sum += weight[i] = exp(-0.5 * z[i] * z[i]);
  for (int i = 0; i < POINTS; i++) weight[i] /= sum;
  for (int below = 0; below < 2; below++) {
    for (int64_t c = 0; c < k->columns; c++)
      scratch[c] = fmax(below ? 2.0 - k->lambda[c] : k->lambda[c], least_power);
    power[below] = per_member(g, k, scratch, 1);
  }
  value sd = reshape(g, op1(g, "Sqrt", *variance), 4, dim), w = doubles(g, POINTS, weight);
  value t = op2(g, "Add", reshape(g, *mean, 4, dim), op2(g, "Mul", sd, doubles(g, POINTS, z)));
  value v = yeo_johnson_inverse(g, t, power[1], power[0]);
  value middle = sum_last(g, op2(g, "Mul", v, w)), away = op2(g, "Sub", v, middle);
  value squares = sum_last(g, op2(g, "Mul", op2(g, "Mul", away, away), w));
  *mean = reshape(g, middle, 3, dim);
  *variance = reshape(g, squares, 3, dim);
}

/* tt_log_moments. */
static void undo_log(tt_onnx *g, double shift, value *mean, value *variance)
{
  value middle = op2(g, "Add", *mean, times(g, 0.5, *variance));
  value square = op1(g, "Exp", times(g, 2.0, middle));
  *mean = shift == 0.0 ? op1(g, "Exp", middle) : expm1_of(g, middle);
  *variance = op2(g, "Mul", expm1_of(g, *variance), square);
}

/* tt_transform_undo_gaussian of all columns. */
static tt_err undo(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, tt_transform f,
                   double *scratch, value *mean, value *variance)
{
  switch (f) {
  case TT_TRANSFORM_log: undo_log(g, 0.0, mean, variance); return TT_OK;
  case TT_TRANSFORM_log1p: undo_log(g, -1.0, mean, variance); return TT_OK;
  case TT_TRANSFORM_yeo_johnson: undo_yeo_johnson(g, k, scratch, mean, variance); return TT_OK;
  default: return TT_EXPORT_REFUSE(x, "ONNX", "normalization", "with this transform");
  }
}

/* The same with the transform of each column.
 *   scratch  [columns] */
static tt_err undo_columns(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                           double *scratch, value *mean, value *variance)
{
  const value m = *mean, v = *variance;
  tt_err e = TT_OK;
  for (int f = TT_TRANSFORM_identity + 1; !e && f < TT_TRANSFORM_COUNT; f++) {
    value user_mean = m, user_variance = v;
    if (!tt_export_undoes(k, (tt_transform)f)) continue;
    e = undo(g, x, k, (tt_transform)f, scratch, &user_mean, &user_variance);
    for (int64_t c = 0; c < k->columns; c++) scratch[c] = k->undo[c] == (tt_transform)f ? 1.0 : 0.0;
    value here = op2(g, "Less", scalar(g, 0.5), per_member(g, k, scratch, 0));
    *mean = choose(g, here, user_mean, *mean);
    *variance = choose(g, here, user_variance, *variance);
  }
  return e;
}

tt_err tt_onnx_undo_targets(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                            value center, value apart, value *mean, value *variance, value *added)
{
  double *scratch = NULL;
  TT_TRY(TT_ALLOC(scratch, k->columns));
  for (int64_t c = 0; c < k->columns; c++) scratch[c] = fmin(k->std_scale[c], k->scale[c]);
  value near = per_member(g, k, scratch, 0), wide = per_member(g, k, k->std_scale, 0);
  value squared = op2(g, "Mul", wide, wide), away = op2(g, "Sub", *mean, center);
  center = op2(g, "Add", op2(g, "Mul", center, per_member(g, k, k->scale, 0)),
               per_member(g, k, k->offset, 0));
  *mean = op2(g, "Add", center, op2(g, "Mul", away, near));
  *variance = op2(g, "Mul", *variance, squared);
  for (int64_t c = 0; c < k->columns; c++) scratch[c] = k->noise[c] * k->noise[c];
  *variance = op2(g, "Add", *variance, per_member(g, k, scratch, 0));
  value own_mean = *mean, more = op2(g, "Sub", squared, op2(g, "Mul", near, near));
  value all = op2(g, "Add", *variance, op2(g, "Mul", apart, more));
  tt_err e = undo_columns(g, x, k, scratch, &own_mean, variance);
  if (!e) e = undo_columns(g, x, k, scratch, mean, &all);
  *added = op2(g, "Sub", all, *variance);
  tt_free(scratch);
  return e;
}

/* 1 where the inputs are of this kind: a condition for Where. */
static value is_kind(tt_onnx *g, const tt_export_model *x, tt_net_input_kind kind, double *scratch)
{
  for (int64_t i = 0; i < x->inputs; i++) scratch[i] = x->net->at[i].kind == (int32_t)kind;
  return op2(g, "Less", scalar(g, 0.5), doubles(g, x->inputs, scratch));
}

static value as_double(tt_onnx *g, value condition)
{
  return tt_onnx_node(g, "Cast", 1, &condition, 1,
                      (tt_onnx_attribute){"to", 0, 1, {TT_ONNX_DOUBLE}});
}

tt_err tt_onnx_net_inputs(tt_onnx *g, const tt_export_model *x, value *in)
{
  double *scratch = NULL;
  int64_t *column = NULL;
  tt_err e = TT_ALLOC(scratch, x->inputs);
  if (!e) e = TT_ALLOC(column, x->inputs);
  for (int64_t i = 0; !e && i < x->inputs; i++) column[i] = x->net->at[i].column;
  if (!e) {
    const value from[] = {*in, integers(g, x->inputs, column)};
    value v = tt_onnx_node(g, "Gather", 2, from, 1, (tt_onnx_attribute){"axis", 0, 1, {1}});
    value missing = op1(g, "IsNaN", v), fill = doubles(g, x->inputs, x->scaler->x_fill);
    value amount = choose(g, missing, fill, v);
    for (int64_t i = 0; i < x->inputs; i++) scratch[i] = x->net->at[i].level;
    value level = as_double(g, op2(g, "Equal", v, doubles(g, x->inputs, scratch)));
    value other = choose(g, is_kind(g, x, TT_NET_INPUT_level, scratch), level, amount);
    *in = choose(g, is_kind(g, x, TT_NET_INPUT_missing, scratch), as_double(g, missing), other);
  }
  tt_free_all(&scratch, &column);
  return e;
}
