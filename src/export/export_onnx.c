/* export_onnx.c — a trained model as one ONNX graph: input x [rows][inputs] in the units of the
 * training data; outputs mean, total, aleatoric, epistemic [rows][columns]. All in double, with
 * weights in single precision, so that the results are those of `tutti predict` up to rounding of
 * single precision. The members of a network are one axis of its tensors.
 *
 * U used members, E ensembles, W = K q columns of an ensemble, N rows. */
#include "core/base/mem.h"
#include "src/export/export_internal.h"
#include "src/export/onnx_network.h"
#include "src/export/onnx_ops.h"
#include "src/export/onnx_transforms.h"

#include <stdlib.h>
#include <string.h>

/* Of a message of Protocol Buffers, less room for the names. */
static const size_t most_bytes = ((size_t)1 << 31) - (1 << 24);

/* Outputs */

/* [U][N][n K] with output j of target k at j K + k -> [U][N][K][n]. */
static value by_target(tt_onnx *g, const tt_export_cohort *k, value o)
{
  const tt_model *m = &k->m->model;
  const int64_t dim[] = {k->members, -1, m->each, m->targets};
  o = reshape(g, o, 4, dim);
  return tt_onnx_node(g, "Transpose", 1, &o, 1, (tt_onnx_attribute){"perm", 1, 4, {0, 1, 3, 2}});
}

/* Means and variances of the quantities of the members, [U][N][W]. */
typedef struct quantities {
  value mean, variance;
} quantities;

static quantities softmax(tt_onnx *g, const tt_export_cohort *k, value o)
{
  const int64_t dim[] = {k->members, -1, tt_trained_ensemble_width(k->m)};
  o = by_target(g, k, o);
  value shifted = op2(g, "Sub", o, reduce(g, "ReduceMax", o));
  value log_p = op2(g, "Sub", shifted, op1(g, "Log", sum_last(g, op1(g, "Exp", shifted))));
  value p = op1(g, "Exp", log_p);
  value entropy = op1(g, "Neg", sum_last(g, op2(g, "Mul", p, log_p)));
  value variance = op2(g, "Mul", p, op2(g, "Sub", scalar(g, 1.0), p));
  const value mean[] = {p, entropy}, both[] = {variance, times(g, 0.0, entropy)};
  return (quantities){reshape(g, concat_last(g, 2, mean), 3, dim),
                      reshape(g, concat_last(g, 2, both), 3, dim)};
}

static quantities sorted(tt_onnx *g, const tt_export_cohort *k, value o)
{
  const int64_t n = k->m->model.levels, dim[] = {k->members, -1, tt_trained_ensemble_width(k->m)};
  const value in[] = {by_target(g, k, o), integers(g, 1, &n)};
  value top = tt_onnx_node(g, "TopK", 2, in, 2, (tt_onnx_attribute){"largest", 0, 1, {0}});
  value mean = reshape(g, top, 3, dim);
  return (quantities){mean, times(g, 0.0, mean)};
}

static quantities bernoulli(tt_onnx *g, value o)
{
  value p = op1(g, "Sigmoid", o), q = op1(g, "Sigmoid", op1(g, "Neg", o));
  return (quantities){p, op2(g, "Mul", p, q)};
}

static tt_err predict(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value o,
                      quantities *out)
{
  int64_t targets = k->m->model.targets;
  switch (k->m->model.output) {
  case TT_OUTPUT_mean: *out = (quantities){o, times(g, 0.0, o)}; return TT_OK;
  case TT_OUTPUT_mean_variance:
    out->mean = slice_last(g, o, 0, targets);
    out->variance = softplus(g, slice_last(g, o, targets, 2 * targets));
    out->variance = plus(g, (double)k->m->variance_floor, out->variance);
    return TT_OK;
  case TT_OUTPUT_quantiles: *out = sorted(g, k, o); return TT_OK;
  case TT_OUTPUT_softmax: *out = softmax(g, k, o); return TT_OK;
  case TT_OUTPUT_sigmoid: *out = bernoulli(g, o); return TT_OK;
  case TT_OUTPUT_rate: out->mean = out->variance = op1(g, "Exp", o); return TT_OK;
  default: return TT_EXPORT_REFUSE(x, "ONNX", "output", tt_choice_output[k->m->model.output]);
  }
}

/* Amplitudes of the components of the targets become the targets. */
static void put_components(tt_onnx *g, const tt_scaler *s, quantities *q)
{
  const int64_t dim[] = {s->components, s->targets};
  if (!s->components) return;
  value by = tt_onnx_constant(g, TT_ONNX_DOUBLE, 2, dim, s->component);
  value mean = doubles(g, s->targets, s->component_mean);
  value residual = doubles(g, s->targets, s->residual);
  q->mean = op2(g, "Add", op2(g, "MatMul", q->mean, by), mean);
  q->variance = op2(g, "MatMul", q->variance, op2(g, "Mul", by, by));
  q->variance = op2(g, "Add", q->variance, residual);
}

/* Mixture of the members */

/* [E][U] weight of each member in each ensemble. */
static value shares(tt_onnx *g, const tt_export_cohort *k)
{
  const int64_t dim[] = {k->m->ensembles, k->members};
  double *all = NULL;
  value v = {""};
  if (TT_ALLOC(all, dim[0] * dim[1])) {
    g->failed = 1;
    return v;
  }
  for (int64_t u = 0; u < k->members; u++) all[k->of[u] * k->members + u] = k->share[u];
  v = tt_onnx_constant(g, TT_ONNX_DOUBLE, 2, dim, all);
  tt_free(all);
  return v;
}

/* Weighted mean over the members of each ensemble: [U][N][W] -> [E][N][W]. */
static value average(tt_onnx *g, const tt_export_cohort *k, value share, value a)
{
  const int64_t flat[] = {k->members, -1};
  const int64_t dim[] = {k->m->ensembles, -1, tt_trained_ensemble_width(k->m)};
  return reshape(g, op2(g, "MatMul", share, reshape(g, a, 2, flat)), 3, dim);
}

/* [E][N][W] -> [N][E W]. */
static value as_columns(tt_onnx *g, const tt_export_cohort *k, value a)
{
  const int64_t dim[] = {-1, k->columns};
  a = tt_onnx_node(g, "Transpose", 1, &a, 1, (tt_onnx_attribute){"perm", 1, 3, {1, 0, 2}});
  return reshape(g, a, 2, dim);
}

enum { RESULTS = 4 };
static const char *const result_name[RESULTS] = {"mean", "total", "aleatoric", "epistemic"};

/* [E][N][W] -> [U][N][W], the values of the ensemble of each member. */
static value of_members(tt_onnx *g, const tt_export_cohort *k, value a)
{
  const value gather[] = {a, integers(g, k->members, k->of)};
  return tt_onnx_node(g, "Gather", 2, gather, 1, none);
}

/* What the members of all networks of a cohort predict. */
static tt_err put_networks(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k,
                           value in, quantities *out)
{
  value *part = NULL, o;
  TT_TRY(TT_ALLOC(part, 2 * k->networks));
  tt_err e = TT_OK;
  for (int64_t n = 0; !e && n < k->networks; n++) {
    const tt_export_cohort *own = &x->network[k->network + n];
    quantities q = {0};
    e = tt_onnx_network(g, x, own, in, &o);
    if (!e) e = predict(g, x, own, o, &q);
    part[n] = q.mean;
    part[k->networks + n] = q.variance;
  }
  if (!e)
    *out = (quantities){concat_first(g, (int)k->networks, part),
                        concat_first(g, (int)k->networks, part + k->networks)};
  tt_free(part);
  return e;
}

/* The results of a cohort, [N][columns] in the user's units. */
static tt_err put_cohort(tt_onnx *g, const tt_export_model *x, const tt_export_cohort *k, value in,
                         value *result)
{
  value share = shares(g, k);
  quantities q = {0};
  TT_TRY(put_networks(g, x, k, in, &q));
  put_components(g, &k->m->scaler, &q);
  value center = of_members(g, k, average(g, k, share, q.mean)), added;
  value away = op2(g, "Sub", q.mean, center), squares = op2(g, "Mul", away, away);
  value apart = of_members(g, k, average(g, k, share, squares));
  TT_TRY(tt_onnx_undo_targets(g, x, k, center, apart, &q.mean, &q.variance, &added));
  value mean = average(g, k, share, q.mean);
  away = op2(g, "Sub", q.mean, of_members(g, k, mean));
  squares = op2(g, "Add", op2(g, "Mul", away, away), added);
  value between = as_columns(g, k, average(g, k, share, squares));
  value within = as_columns(g, k, average(g, k, share, q.variance));
  result[0] = as_columns(g, k, mean);
  result[1] = op1(g, "Sqrt", op2(g, "Add", within, between));
  result[2] = op1(g, "Sqrt", within);
  result[3] = op1(g, "Sqrt", between);
  return TT_OK;
}

static tt_err put_graph(tt_onnx *g, const tt_export_model *x)
{
  value *part = NULL, in = {"x"};
  tt_onnx_input(g, in.name, x->columns_in);
  if (!x->plain) TT_TRY(tt_onnx_net_inputs(g, x, &in));
  TT_TRY(tt_onnx_transform_inputs(g, x, &in));
  in = op2(g, "Sub", in, doubles(g, x->inputs, x->scaler->x_mean));
  in = op2(g, "Div", in, doubles(g, x->inputs, x->scaler->x_scale));
  TT_TRY(TT_ALLOC(part, RESULTS * x->cohorts));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < x->cohorts; i++) {
    value result[RESULTS];
    e = put_cohort(g, x, &x->cohort[i], in, result);
    for (int r = 0; !e && r < RESULTS; r++) part[r * x->cohorts + i] = result[r];
  }
  for (int r = 0; !e && r < RESULTS; r++) {
    value whole = concat_last(g, (int)x->cohorts, part + r * x->cohorts);
    tt_onnx_output(g, whole, result_name[r], x->columns);
  }
  tt_free(part);
  return e;
}

/* Names, one on a line. */
static char *lines(int64_t n, const char *const *text)
{
  char *all = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&all, &size);
  for (int64_t i = 0; file && i < n; i++) fprintf(file, "%s%s", i ? "\n" : "", text[i]);
  if (file && fclose(file) == 0) return all;
  free(all);
  return NULL;
}

static tt_err write_model(tt_onnx *g, const tt_export_model *x, const char *bytes, size_t size,
                          FILE *file)
{
  const tt_columns *input = &x->all->at[0]->input;
  const struct {
    const char *key;
    int64_t n;
    const char *const *text;
  } row[] = {{"input_name", x->columns_in, (const char *const *)input->name},
             {"input_units", x->columns_in, (const char *const *)input->units},
             {"column_ensemble", x->columns, x->labels->ensemble},
             {"column_label", x->columns, (const char *const *)x->labels->label},
             {"column_units", x->columns, x->labels->units},
             {"model", 1, &x->model},
             {"model_hash_xxh3", 1, &x->model_hash}};
  enum { ROWS = sizeof row / sizeof *row };
  tt_onnx_property property[ROWS];
  char *text[ROWS];
  int failed = 0;
  for (int i = 0; i < ROWS; i++) {
    text[i] = lines(row[i].n, row[i].text);
    failed |= !text[i];
    property[i] = (tt_onnx_property){row[i].key, text[i]};
  }
  if (!failed) tt_onnx_write_model(g, file, bytes, size, ROWS, property);
  for (int i = 0; i < ROWS; i++) free(text[i]);
  return failed || g->failed ? TT_FAIL(MEM, "%s: out of memory", x->file) : TT_OK;
}

tt_err tt_export_onnx_local(const tt_export_model *x, FILE *file)
{
  char *bytes = NULL;
  size_t size = 0;
  tt_onnx g = {.graph = open_memstream(&bytes, &size)};
  if (!g.graph) return TT_FAIL(MEM, "%s: out of memory", x->file);
  tt_err e = put_graph(&g, x);
  g.failed |= ferror(g.graph) != 0;
  g.failed |= fclose(g.graph) != 0;
  if (!e && g.failed) e = TT_FAIL(MEM, "%s: out of memory", x->file);
  if (!e && size > most_bytes)
    e = TT_FAIL(USAGE, "%s: an ONNX file may have 2 GiB, and this model has %zu bytes; use tutti.h",
                x->file, size);
  if (!e) e = write_model(&g, x, bytes, size, file);
  free(bytes);
  return e;
}
