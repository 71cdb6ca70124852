/* predict.c — see predict.h. */
#include "src/predict/predict.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/model/partition.h"
#include "io/data/data.h"
#include "io/data/guarded_check.h"
#include "io/model/model_file.h"
#include "io/results/results.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_extras.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MIN_CHUNK_ROWS = 256, MAX_CHUNK_ROWS = 8192 };
static const double chunk_floats = 6.4e7; /* of members' predictions held at a time: 256 MB */

/* One committee of the model, and where its members and columns lie among those of all. */
typedef struct cohort_prediction {
  const tt_trained_ensemble *m;
  int64_t member, column, columns;
  int64_t width; /* quantities of a member: K q */
  tt_moments *moments;
  float *members; /* [G][2][width][rows] as the engine gives them, or NULL */
} cohort_prediction;

typedef struct predictor {
  tt_comm *c;
  const tt_predict_options *o;
  const char *inputs;
  tt_trained_ensembles model;
  cohort_prediction *cohort_prediction; /* [model.count] */
  const tt_engine_ops *ops;
  tt_resources use;
  tt_data_reader *rows;
  tt_slice mine;                        /* rows of this rank */
  int64_t chunk, members, columns;      /* of all committees together */
  int64_t width;                        /* the largest of them */
  int needs_members;                    /* predictions of every member are needed */
  double *raw;                          /* [chunk][D] */
  float *x;                             /* [chunk][D] */
  float *member_mean, *member_variance; /* [G][chunk][width] in the user's units */
  double *out[4];                       /* [chunk][columns] mean, total, aleatoric, epistemic */
  double *quantile;                     /* [Q][chunk][columns] */
  tt_prediction_extras extra;
} predictor;

static tt_err check_options_local(const tt_predict_options *o)
{
  for (int64_t q = 0; q < o->quantiles; q++)
    if (!(o->quantile[q] > 0.0 && o->quantile[q] < 1.0))
      return TT_FAIL(USAGE, "--quantiles: %g is not between 0 and 1", o->quantile[q]);
  return TT_OK;
}

static tt_err open_rows_local(predictor *p)
{
  TT_TRY(tt_data_reader_open_local(p->o->data, p->inputs, NULL, &p->rows));
  const tt_data_shape *shape = tt_data_reader_shape(p->rows);
  TT_TRY(tt_normalize_check_columns_local(p->model.at[0], p->o->data, shape));
  return tt_partition_even(shape->rows, tt_comm_ranks(p->c), tt_comm_rank(p->c), &p->mine);
}

static tt_err layout_parts_local(predictor *p)
{
  TT_TRY(TT_ALLOC(p->cohort_prediction, p->model.count));
  for (int64_t i = 0; i < p->model.count; i++) {
    const tt_trained_ensemble *m = p->model.at[i];
    p->cohort_prediction[i] = (cohort_prediction){.m = m,
                                                  .member = p->members,
                                                  .column = p->columns,
                                                  .columns = tt_trained_ensemble_columns(m),
                                                  .width = tt_trained_ensemble_width(m)};
    p->members += m->members;
    p->columns += p->cohort_prediction[i].columns;
    if (p->cohort_prediction[i].width > p->width) p->width = p->cohort_prediction[i].width;
  }
  return TT_OK;
}

static tt_err allocate_local(predictor *p)
{
  int64_t inputs = p->model.at[0]->model.inputs;
  double per_row = (double)(p->members * 2 * p->width);
  double fit = p->needs_members ? chunk_floats / per_row : (double)MAX_CHUNK_ROWS;
  p->chunk = fit > MAX_CHUNK_ROWS   ? MAX_CHUNK_ROWS
             : fit < MIN_CHUNK_ROWS ? MIN_CHUNK_ROWS
                                    : (int64_t)fit;
  TT_TRY(TT_ALLOC(p->raw, p->chunk * inputs));
  TT_TRY(TT_ALLOC(p->x, p->chunk * inputs));
  for (int64_t i = 0; i < p->model.count; i++) {
    cohort_prediction *q = &p->cohort_prediction[i];
    TT_TRY(tt_moments_create(p->chunk, q->columns, &q->moments));
    if (p->needs_members) TT_TRY(TT_ALLOC(q->members, q->m->members * 2 * q->width * p->chunk));
  }
  for (int v = 0; v < 4; v++) TT_TRY(TT_ALLOC(p->out[v], p->chunk * p->columns));
  TT_TRY(tt_prediction_extras_create(&p->model, p->chunk, &p->extra));
  if (!p->needs_members) return TT_OK;
  TT_TRY(TT_ALLOC(p->quantile, p->o->quantiles * p->chunk * p->columns));
  if (!p->o->members) return TT_OK;
  TT_TRY(TT_ALLOC(p->member_mean, p->members * p->width * p->chunk));
  return TT_ALLOC(p->member_variance, p->members * p->width * p->chunk);
}

/* The target column of quantity j of an ensemble. */
static int32_t target_index(const cohort_prediction *q, const tt_ensemble *e, int64_t j)
{
  return e->column[j / q->m->model.quantities];
}

/* Moments of `rows` rows of column `column` = target t, in the user's units. */
static void denormalize_column(predictor *p, const cohort_prediction *q, int64_t column, int32_t t,
                               int64_t rows)
{
  double mean = q->m->scaler.y_mean[t], scale = q->m->scaler.y_scale[t];
  double spread = scale * tt_calibration_std_scale(&q->m->calibration, column);
  for (int64_t r = 0; r < rows; r++) {
    tt_uncertainty at = tt_moments_at(q->moments, r, column);
    int64_t cell = r * p->columns + q->column + column;
    p->out[0][cell] = at.mean * scale + mean;
    p->out[1][cell] = at.total * spread;
    p->out[2][cell] = at.aleatoric * spread;
    p->out[3][cell] = at.epistemic * spread;
  }
}

/* Quantiles of quantity j of an ensemble in one row; scratch [3][members of the ensemble]. */
static void quantiles_at(predictor *p, const cohort_prediction *q, const tt_ensemble *e, int64_t j,
                         int64_t column, int64_t r, int64_t rows, double *scratch)
{
  int64_t n = e->members;
  double *w = scratch, *mean = w + n, *variance = mean + n;
  int32_t t = target_index(q, e, j);
  for (int64_t i = 0; i < n; i++) {
    const float *at = q->members + ((e->first + i) * 2 * q->width + j) * rows + r;
    w[i] = q->m->weight[e->first + i];
    mean[i] = w[i] > 0.0 ? (double)at[0] : 0.0;
    variance[i] = w[i] > 0.0 ? (double)at[q->width * rows] : 0.0;
  }
  double spread = tt_calibration_std_scale(&q->m->calibration, column);
  double centre = tt_moments_at(q->moments, r, column).mean;
  for (int64_t k = 0; k < p->o->quantiles; k++) {
    double at = tt_mixture_quantile(n, w, mean, variance, p->o->quantile[k]);
    if (spread != 1.0) at = centre + spread * (at - centre);
    p->quantile[(k * rows + r) * p->columns + q->column + column] =
        at * q->m->scaler.y_scale[t] + q->m->scaler.y_mean[t];
  }
}

static tt_err quantiles_local(predictor *p, const cohort_prediction *q, int64_t rows)
{
  double *scratch = NULL;
  TT_TRY(TT_ALLOC(scratch, 3 * q->m->members));
  int64_t column = 0;
  for (int64_t e = 0; e < q->m->ensembles; e++)
    for (int64_t j = 0; j < q->width; j++, column++)
      for (int64_t r = 0; r < rows; r++)
        quantiles_at(p, q, &q->m->ensemble[e], j, column, r, rows, scratch);
  tt_free(scratch);
  return TT_OK;
}

/* Quantity j of member i, [2][width][rows] normalised -> [rows][widest] in the user's units. */
static void denormalize_quantity(predictor *p, const cohort_prediction *q, int64_t i, int64_t j,
                                 int32_t t, int64_t rows)
{
  const float *mean = q->members + (i * 2 * q->width + j) * rows;
  const float *variance = mean + q->width * rows;
  double scale = q->m->scaler.y_scale[t];
  for (int64_t r = 0; r < rows; r++) {
    int64_t to = ((q->member + i) * rows + r) * p->width + j;
    p->member_mean[to] = (float)((double)mean[r] * scale + q->m->scaler.y_mean[t]);
    p->member_variance[to] = (float)((double)variance[r] * scale * scale);
  }
}

/* NaN where a committee has fewer quantities than the widest. */
static void denormalize_members(predictor *p, const cohort_prediction *q, int64_t rows)
{
  const tt_trained_ensemble *m = q->m;
  for (int64_t e = 0; e < m->ensembles; e++)
    for (int64_t i = m->ensemble[e].first; i < m->ensemble[e].first + m->ensemble[e].members; i++)
      for (int64_t j = 0; j < q->width; j++)
        denormalize_quantity(p, q, i, j, target_index(q, &m->ensemble[e], j), rows);
  for (int64_t i = q->member * rows; i < (q->member + m->members) * rows; i++)
    for (int64_t j = q->width; j < p->width; j++)
      p->member_mean[i * p->width + j] = p->member_variance[i * p->width + j] = NAN;
}

static tt_err predict_part_local(predictor *p, cohort_prediction *q, int64_t rows)
{
  int64_t column = 0;
  q->moments->rows = rows;
  TT_TRY(p->ops->predict(q->m, &p->use, rows, p->x, q->moments, q->members));
  for (int64_t e = 0; e < q->m->ensembles; e++)
    for (int64_t j = 0; j < q->width; j++, column++)
      denormalize_column(p, q, column, target_index(q, &q->m->ensemble[e], j), rows);
  tt_prediction_extras_fill(&p->extra, q->m, q->column, rows, p->out[0], p->out[1], q->members);
  if (p->o->members) denormalize_members(p, q, rows);
  return p->o->quantiles ? quantiles_local(p, q, rows) : TT_OK;
}

static tt_err predict_chunk_local(predictor *p, int64_t first, int64_t rows)
{
  if (rows == 0) return TT_OK;
  TT_TRY(tt_data_reader_read_local(p->rows, first, rows, p->raw, NULL));
  TT_TRY(
      tt_normalize_checked_local(p->model.at[0], p->o->data, p->inputs, first, rows, p->raw, p->x));
  for (int64_t i = 0; i < p->model.count; i++)
    TT_TRY(predict_part_local(p, &p->cohort_prediction[i], rows));
  return TT_OK;
}

/* As many rounds on every rank as the one with most rows needs. */
static tt_err predict_chunks(predictor *p, tt_prediction_file *f)
{
  int64_t rounds = (p->mine.count + p->chunk - 1) / p->chunk;
  tt_err e = TT_OK;
  tt_allreduce_max_i64(p->c, &rounds, 1);
  for (int64_t i = 0; !e && i < rounds; i++) {
    int64_t done = i * p->chunk < p->mine.count ? i * p->chunk : p->mine.count;
    int64_t left = p->mine.count - done, rows = left < p->chunk ? left : p->chunk;
    e = tt_agree(p->c, predict_chunk_local(p, p->mine.first + done, rows));
    if (!e)
      e = tt_prediction_file_write(f, p->mine.first + done, rows, p->out[0], p->out[1], p->out[2],
                                   p->out[3], p->o->quantiles ? p->quantile : NULL, p->member_mean,
                                   p->member_variance);
    if (!e)
      e = tt_prediction_file_write_extras(f, p->mine.first + done, rows, p->extra.lower,
                                          p->extra.upper, p->extra.entropy,
                                          p->extra.mutual_information);
  }
  return e;
}

static tt_err write_predictions(predictor *p)
{
  tt_prediction_file *f = NULL;
  tt_prediction_shape shape = {.rows = tt_data_reader_shape(p->rows)->rows,
                               .columns = p->columns,
                               .quantiles = p->o->quantiles,
                               .quantile = p->o->quantile,
                               .members = p->o->members};
  tt_provenance from = {.title = "",
                        .resolved = "",
                        .original = "",
                        .device = p->ops->name,
                        .arithmetic = "",
                        .command = p->o->command ? p->o->command : "",
                        .ranks = tt_comm_ranks(p->c),
                        .threads = p->use.threads};
  tt_err e = tt_prediction_file_create(p->c, p->o->output, &p->model, &shape, &from, &f);
  if (!e) e = predict_chunks(p, f);
  if (!e)
    e = tt_prediction_file_close(&f);
  else
    tt_prediction_file_destroy(&f);
  if (!e)
    tt_log_root(TT_LOG_INFO, "predicted %" PRId64 " rows with %" PRId64 " members: %s", shape.rows,
                p->members, p->o->output);
  return e;
}

static void cleanup(predictor *p)
{
  for (int64_t i = 0; p->cohort_prediction && i < p->model.count; i++) {
    if (p->cohort_prediction[i].moments) p->cohort_prediction[i].moments->rows = p->chunk;
    tt_moments_destroy(&p->cohort_prediction[i].moments);
    tt_free(p->cohort_prediction[i].members);
  }
  tt_free(p->cohort_prediction);
  tt_data_reader_close_local(&p->rows);
  tt_trained_ensembles_destroy(&p->model);
  tt_free(p->raw);
  tt_free(p->x);
  tt_free(p->member_mean);
  tt_free(p->member_variance);
  tt_free(p->quantile);
  tt_prediction_extras_free(&p->extra);
  for (int v = 0; v < 4; v++) tt_free(p->out[v]);
}

/* A file from elsewhere is looked at by a process that may crash before the ranks open it. */
static tt_err check_file(tt_comm *c, const char *file, const char *inputs, const char *targets)
{
  const char *names[] = {inputs, targets};
  return tt_agree(c, tt_comm_is_root(c) ? tt_guarded_check_local(file, names, 2) : TT_OK);
}

tt_err tt_predict(tt_comm *c, const tt_predict_options *o)
{
  predictor p = {.c = c, .o = o, .inputs = o->inputs ? o->inputs : "x"};
  p.needs_members = o->members || o->quantiles > 0;
  tt_err e = tt_agree(c, check_options_local(o));
  if (!e) e = tt_resources_default(c, &p.ops, &p.use);
  if (!e) e = tt_model_read(c, o->model, &p.model);
  if (!e) e = check_file(c, o->data, p.inputs, NULL);
  if (!e) {
    e = open_rows_local(&p);
    if (!e) e = layout_parts_local(&p);
    for (int64_t i = 0; i < p.model.count; i++)
      p.needs_members |= tt_prediction_extras_need_members(p.model.at[i]);
    if (!e) e = allocate_local(&p);
    e = tt_agree(c, e);
  }
  if (!e) e = write_predictions(&p);
  cleanup(&p);
  return e;
}
