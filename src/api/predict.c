/* predict.c — see tutti.h: predictions of models in memory. */
#include "core/base/int.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "src/api/call.h"
#include "src/api/workspace.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { FEW_ROWS = 8 }; /* up to these, one row at a time is faster than a block of 16 */

/* A prediction of many rows. */
typedef struct prediction_call {
  const tutti_model *model;
  const tutti_prediction *out;
  const double *x;
  int64_t rows;
  tt_prediction_shape shape;
  tt_prediction_block block;
} prediction_call;

static tt_err check_rows(const tutti_model *model, int64_t rows, const double *x)
{
  if (!model) return TT_FAIL(USAGE, "the model is NULL: open one with tutti_open");
  if (rows < 0) return TT_FAIL(USAGE, "the number of rows is %" PRId64, rows);
  if (rows > 0 && !x) return TT_FAIL(USAGE, "x is NULL");
  return TT_OK;
}

/* The fields that the caller knows: a program may be compiled with an older tutti.h. */
static tt_err copy_wanted(const tutti_prediction *src, tutti_prediction *out)
{
  const size_t first = offsetof(tutti_prediction, member_variance) + sizeof(void *);
  if (!src) return TT_FAIL(USAGE, "out is NULL");
  TT_TRY(tt_call_check_size("tutti_prediction", "out->size", src->size, first, sizeof *out));
  memset(out, 0, sizeof *out);
  memcpy(out, src, src->size);
  return TT_OK;
}

static tt_err check_wanted(const tutti_model *model, const tutti_prediction *out)
{
  unsigned forecasts = 0;
  if (out->workspace && out->workspace->model != model)
    return TT_FAIL(USAGE, "the workspace is one of another model");
  if (out->quantiles < 0 || (out->quantiles > 0 && !out->probability))
    return TT_FAIL(USAGE, "quantiles is %" PRId64 ", probability is %s", out->quantiles,
                   out->probability ? "given" : "NULL");
  for (int64_t i = 0; i < model->all.count; i++)
    forecasts |= 1u << tt_output_forecast(model->all.at[i]->model.output);
  for (int64_t q = 0; q < out->quantiles; q++)
    if (!(out->probability[q] > 0.0 && out->probability[q] < 1.0))
      return TT_FAIL(USAGE, "quantile %g is not between 0 and 1", out->probability[q]);
  if (out->quantiles > 0 && !(forecasts & TT_DENSITY_FORECASTS))
    return TT_FAIL(USAGE, "this model predicts only classes or quantiles: there is no distribution "
                          "to take other quantiles from");
  if ((out->lower || out->upper) && !model->levels)
    return TT_FAIL(USAGE, "this model has no conformal intervals: train it with "
                          "calibration.conformal");
  if ((out->entropy || out->mutual_information) && !model->classes)
    return TT_FAIL(USAGE, "this model predicts no classes: there is no entropy");
  return TT_OK;
}

/* Copy `parts` arrays of `size` bytes per row from the block to all rows; NULL = not wanted. */
static void copy_rows(const prediction_call *p, const void *src, void *dst, int64_t parts,
                      size_t size)
{
  const tt_prediction_block *b = &p->block;
  for (int64_t i = 0; dst && i < parts; i++)
    memcpy((char *)dst + (size_t)(i * p->rows + b->first) * size,
           (const char *)src + (size_t)(i * b->rows) * size, (size_t)b->rows * size);
}

static void copy_block(const prediction_call *p)
{
  const tt_prediction_block *b = &p->block;
  const tutti_prediction *out = p->out;
  size_t columns = (size_t)b->columns * sizeof(double);
  size_t width = (size_t)p->model->width * sizeof(double);
  copy_rows(p, b->mean, out->mean, 1, columns);
  copy_rows(p, b->total, out->total, 1, columns);
  copy_rows(p, b->aleatoric, out->aleatoric, 1, columns);
  copy_rows(p, b->epistemic, out->epistemic, 1, columns);
  copy_rows(p, b->quantile, out->quantile, b->quantiles, columns);
  copy_rows(p, b->lower, out->lower, b->levels, columns);
  copy_rows(p, b->upper, out->upper, b->levels, columns);
  copy_rows(p, b->entropy, out->entropy, 1, columns);
  copy_rows(p, b->mutual_information, out->mutual_information, 1, columns);
  copy_rows(p, b->member_mean, out->member_mean, tutti_members(p->model), width);
  copy_rows(p, b->member_variance, out->member_variance, tutti_members(p->model), width);
}

static int needs_members(const void *context, const tt_trained_ensemble *m)
{
  return tt_prediction_needs_members(m, &((const prediction_call *)context)->shape);
}

static tt_err read_rows(void *context, int64_t first, int64_t count, float *x)
{
  const prediction_call *p = context;
  return tt_normalize_checked_local(p->model->all.at[0], "tutti_predict", "x", first, count,
                                    p->x + first * tutti_inputs(p->model), x);
}

static int wants_slopes(const tutti_prediction *out)
{
  return out->mean_gradient || out->total_gradient || out->aleatoric_gradient ||
         out->epistemic_gradient;
}

static int wants_moments(const tutti_prediction *out)
{
  return out->mean || out->total || out->aleatoric || out->epistemic;
}

/* What rows are not computed for one by one. */
static int wants_more(const tutti_prediction *out)
{
  return out->quantiles || out->lower || out->upper || out->entropy || out->mutual_information ||
         out->member_mean || out->member_variance;
}

typedef struct row_call {
  tt_row_scratch *per_thread; /* [threads] */
  const double *x;
  const tutti_prediction *out;
} row_call;

/* Of tt_each_row. */
static void compute_row(void *context, int thread, int64_t row)
{
  const row_call *c = context;
  tt_row_compute(&c->per_thread[thread], row, c->x, c->out);
}

/* With rooms of its own. */
static tt_err compute_rows_once(const tutti_model *model, int threads, int64_t rows, row_call c)
{
  tt_row_scratch alone = {0};
  tt_err e = TT_OK;
  if (threads == 1)
    c.per_thread = &alone;
  else
    e = TT_ALLOC(c.per_thread, threads);
  for (int t = 0; !e && t < threads; t++)
    e = tt_row_scratch_create(model, wants_slopes(c.out), &c.per_thread[t]);
  if (!e) tt_each_row(threads, rows, compute_row, &c);
  for (int t = 0; c.per_thread && t < threads; t++) tt_row_scratch_free(&c.per_thread[t]);
  if (threads > 1) tt_free(c.per_thread);
  return e;
}

/* Moments and their derivatives, one row at a time. */
static tt_err predict_rows(const tutti_model *model, int64_t rows, const double *x, int threads,
                           const tutti_prediction *out)
{
  const tutti_workspace *work = out->workspace;
  if (rows > 1) threads = tt_resources_team_local(threads);
  if (threads < 1 || rows <= 1) threads = 1;
  if (threads > rows) threads = rows > 0 ? (int)rows : 1;
  if (work && threads > work->threads) threads = work->threads;
  TT_TRY(tt_check_inputs_local(model->all.at[0], "tutti_predict", "x", 0, rows, x));
  row_call call = {.x = x, .out = out};
  if (!work) return compute_rows_once(model, threads, rows, call);
  call.per_thread = work->per_thread;
  tt_each_row(threads, rows, compute_row, &call);
  return TT_OK;
}

/* Everything but derivatives, many rows at a time. */
static tt_err predict_blocks(const tutti_model *model, int64_t rows, const double *x, int threads,
                             const tutti_prediction *out)
{
  prediction_call p = {.model = model, .out = out, .x = x, .rows = rows};
  p.shape = (tt_prediction_shape){.quantiles = out->quantiles,
                                  .quantile = out->probability,
                                  .members = out->member_mean || out->member_variance,
                                  .no_entropy = !out->entropy && !out->mutual_information};
  const tt_resources use = {.threads = tt_resources_team_local(threads)};
  const tt_row_options options = {.all = &model->all,
                                  .ops = &tt_engine_cpu,
                                  .use = &use,
                                  .rows = rows,
                                  .block = 1,
                                  .needs_members = needs_members,
                                  .read_local = read_rows,
                                  .with = &p};
  tt_row_predictor *predictor = NULL;
  const tt_row_chunk *chunk;
  tt_err e = tt_row_predictor_open(&options, &predictor);
  if (!e)
    e = tt_prediction_block_create(&model->all, tt_row_predictor_rows(predictor), &p.shape,
                                   &p.block);
  while (!e && !(e = tt_row_predictor_next(predictor, e, &chunk)) && chunk) {
    e = tt_prediction_block_fill(&p.block, model->all.count, chunk);
    if (!e) copy_block(&p);
  }
  tt_prediction_block_free(&p.block);
  tt_row_predictor_close(&predictor);
  return e;
}

static tt_err measure_extrapolation(const tutti_model *model, int64_t rows, const double *x,
                                    double *out)
{
  const tt_trained_ensemble *m = model->all.at[0];
  int knows = tt_trained_ensemble_knows_ranges(m);
  float *u = NULL;
  TT_TRY(TT_ALLOC(u, m->model.inputs));
  for (int64_t r = 0; r < rows; r++) {
    tt_scaler_normalize_inputs(&m->scaler, 1, x + r * m->scaler.inputs, u);
    out[r] = knows ? tt_trained_ensemble_outside(m, u, NULL) : (double)NAN;
  }
  tt_free(u);
  return TT_OK;
}

static tt_err predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                      const tutti_prediction *out)
{
  int slopes = wants_slopes(out), more = wants_more(out), values = wants_moments(out) || more;
  int alone = model->single && !more && (slopes || rows <= FEW_ROWS); /* rows one by one */
  tt_err e = TT_OK;
  if (slopes || alone) e = predict_rows(model, rows, x, threads, out);
  if (!e && !alone && (values || !slopes)) e = predict_blocks(model, rows, x, threads, out);
  if (!e && out->extrapolation) e = measure_extrapolation(model, rows, x, out->extrapolation);
  return e;
}

int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                  const tutti_prediction *out)
{
  tutti_prediction wanted;
  tt_call caller = tt_call_begin();
  tt_err e = check_rows(model, rows, x);
  if (!e) e = copy_wanted(out, &wanted);
  if (!e) e = check_wanted(model, &wanted);
  if (!e) e = predict(model, rows, x, threads, &wanted);
  return tt_call_end(caller, e);
}
