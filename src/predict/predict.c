/* predict.c — see predict.h. */
#include "src/predict/predict.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/model/partition.h"
#include "core/stats/metrics.h"
#include "io/data/data.h"
#include "io/hdf5/files.h"
#include "io/hdf5/guarded_check.h"
#include "io/model/model_file.h"
#include "io/results/results.h"
#include "src/host/resources.h"
#include "src/predict/jacobian.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MIN_CHUNK_ROWS = 256, MAX_CHUNK_ROWS = 8192 };
static const double chunk_floats = 6.4e7; /* of members and Jacobians of a chunk: 256 MB */

typedef struct predictor {
  tt_comm *c;
  const tt_predict_options *o;
  const char *inputs;
  tt_trained_ensembles model;
  tt_prediction_shape shape;
  const tt_engine_ops *ops;
  tt_resources use;
  tt_data_reader *rows;
  tt_row_ids ids;       /* on rank 0, of all rows; zeroed: none */
  tt_slice mine;        /* rows of this rank */
  int64_t chunk;        /* rows predicted at a time */
  double *raw;          /* [chunk][D] */
  float *x;             /* [chunk][F] */
  tt_moments **moments; /* [model.count] */
  float **members;      /* [model.count][G][2][K q][chunk] normalised; NULL where not needed */
  tt_prediction_block block;
  int64_t *row;                        /* [chunk] */
  int64_t outside, far_row, far_input; /* rows outside the ranges of the training rows; row and
                                          input of the network of the largest distance */
  double farthest;                     /* this distance */
} predictor;

static tt_err check_options_local(const tt_predict_options *o)
{
  for (int64_t q = 0; q < o->quantiles; q++)
    if (!(o->quantile[q] > 0.0 && o->quantile[q] < 1.0))
      return TT_FAIL(USAGE, "--quantiles: %g is not between 0 and 1", o->quantile[q]);
  return tt_h5_check_output_local(o->output, o->force, (const char *const[]){o->model, o->data});
}

/* --quantiles needs an ensemble that predicts a distribution of numbers or counts. */
static tt_err check_outputs_local(const predictor *p)
{
  unsigned forecasts = 0;
  tt_output output = TT_OUTPUT_mean;
  for (int64_t i = 0; i < p->model.count; i++) {
    output = p->model.at[i]->model.output;
    forecasts |= 1u << tt_output_forecast(output);
  }
  if (!p->o->quantiles || forecasts & TT_DENSITY_FORECASTS) return TT_OK;
  if (forecasts & TT_FORECAST_BIT(quantiles))
    return TT_FAIL(USAGE,
                   "--quantiles: %s has output quantiles: its predictions are the quantiles of "
                   "model.quantiles, and no distribution to take others from",
                   p->o->model);
  return TT_FAIL(USAGE,
                 "--quantiles: %s has output %s: it predicts probabilities of classes, which have "
                 "no quantiles",
                 p->o->model, tt_choice_output[output]);
}

static int knows_epistemic(const tt_trained_ensembles *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (!all->at[i]->typical_epistemic) return 0;
  return 1;
}

/* Collective. */
static tt_err open_file(predictor *p)
{
  const char *id = p->model.at[0]->input.id;
  const tt_data_spec spec = {.file = p->o->data,
                             .inputs = p->inputs,
                             .others = id != NULL,
                             .other = &id,
                             .like_input = &p->model.at[0]->input,
                             .format = &p->o->format,
                             .missing_inputs = tt_scaler_fills(&p->model.at[0]->scaler),
                             .net = &p->model.at[0]->scaler.net};
  return tt_data_reader_open(p->c, &spec, &p->rows);
}

static tt_err begin_rows_local(predictor *p)
{
  const char *id = p->model.at[0]->input.id;
  tt_table_format format = p->o->format;
  int has_ids = 0;
  format.marks = tt_data_reader_marks(p->rows);
  if (id) TT_TRY(tt_data_reader_has_column_local(p->rows, id, &has_ids));
  TT_TRY(tt_data_reader_match_local(p->rows, &p->model.at[0]->input, NULL, "the model", 1));
  const tt_data_shape *shape = tt_data_reader_shape(p->rows);
  if (tt_comm_is_root(p->c) && has_ids)
    TT_TRY(tt_data_read_ids_local(p->o->data, &format, id, shape->rows, &p->ids));
  p->shape =
      (tt_prediction_shape){.rows = shape->rows,
                            .columns = tt_trained_ensembles_columns(&p->model),
                            .quantiles = p->o->quantiles,
                            .quantile = p->o->quantile,
                            .ids = &p->ids,
                            .members = p->o->members,
                            .jacobian = p->o->jacobian,
                            .leverage = knows_epistemic(&p->model),
                            .extrapolation = tt_trained_ensemble_knows_ranges(p->model.at[0])};
  return tt_partition_even(shape->rows, tt_comm_ranks(p->c), tt_comm_rank(p->c), &p->mine);
}

/* Rows whose member predictions and Jacobians fit into chunk_floats. */
static int64_t count_chunk_rows(const predictor *p)
{
  double per_row = 0.0;
  for (int64_t i = 0; i < p->model.count; i++) {
    const tt_trained_ensemble *m = p->model.at[i];
    if (tt_prediction_needs_members(m, &p->shape)) /* those to be written are double */
      per_row +=
          (double)(m->members * 2 * tt_trained_ensemble_width(m) * (p->shape.members ? 3 : 1));
    if (p->shape.jacobian) /* four arrays of double */
      per_row += (double)(8 * tt_trained_ensemble_columns(m) * m->scaler.inputs);
  }
  double fit = per_row > 0.0 ? chunk_floats / per_row : (double)MAX_CHUNK_ROWS;
  return (int64_t)fmin(fmax(fit, MIN_CHUNK_ROWS), MAX_CHUNK_ROWS);
}

static tt_err allocate_local(predictor *p)
{
  const tt_scaler *scaler = &p->model.at[0]->scaler;
  p->chunk = count_chunk_rows(p);
  TT_TRY(TT_ALLOC(p->row, p->chunk));
  TT_TRY(TT_ALLOC(p->raw, p->chunk * scaler->inputs));
  TT_TRY(TT_ALLOC(p->x, p->chunk * scaler->net.count));
  TT_TRY(TT_ALLOC(p->moments, p->model.count));
  TT_TRY(TT_ALLOC(p->members, p->model.count));
  for (int64_t i = 0; i < p->model.count; i++) {
    const tt_trained_ensemble *m = p->model.at[i];
    int64_t width = tt_trained_ensemble_width(m);
    TT_TRY(tt_moments_create(p->chunk, tt_trained_ensemble_columns(m), &p->moments[i]));
    if (tt_prediction_needs_members(m, &p->shape))
      TT_TRY(TT_ALLOC(p->members[i], m->members * 2 * width * p->chunk));
  }
  TT_TRY(tt_prediction_block_create(&p->model, p->chunk, &p->shape, &p->block));
  p->block.row = p->row;
  return TT_OK;
}

static void measure_extrapolation(predictor *p)
{
  const tt_trained_ensemble *m = p->model.at[0];
  int64_t inputs = m->model.inputs;
  for (int64_t r = 0; p->block.extrapolation && r < p->block.rows; r++) {
    double most = 0.0;
    for (int64_t d = 0; d < inputs; d++) {
      double beyond = tt_trained_ensemble_beyond(m, d, p->x[r * inputs + d]);
      if (beyond > p->farthest)
        p->farthest = beyond, p->far_row = p->block.first + r, p->far_input = d;
      most = fmax(most, beyond);
    }
    p->block.extrapolation[r] = most;
    p->outside += most > 0.0;
  }
}

/* Collective. Rows that are far from the training rows are named: uncertainties may be too small
 * there. */
static void warn_far_rows(predictor *p)
{
  static const double far = 0.5; /* of the range */
  double most = p->farthest;
  tt_allreduce_max_f64(p->c, &most, 1);
  int64_t place = p->farthest == most ? -p->far_row : INT64_MIN; /* of equals the first row */
  tt_allreduce_max_i64(p->c, &place, 1);
  int64_t input = place == -p->far_row ? p->far_input : 0;
  tt_allreduce_max_i64(p->c, &input, 1);
  tt_allreduce_sum_i64(p->c, &p->outside, 1);
  char name[256], shown[96];
  const tt_trained_ensemble *m = p->model.at[0];
  const tt_net_input *at = &m->scaler.net.at[input];
  tt_net_input_name(at, m->input.name[at->column], name, sizeof name);
  if (most > far)
    tt_log_root(TT_LOG_WARN,
                "%" PRId64 " of %" PRId64 " rows have an input outside the range of the training "
                "rows, farthest '%s' in row %" PRId64 "%s, by %.3g of its range: the model "
                "extrapolates there; see extrapolation in %s",
                p->outside, p->shape.rows, name, -place,
                tt_row_ids_show(&p->ids, -place, shown, sizeof shown), most, p->o->output);
}

static tt_err predict_chunk_local(predictor *p)
{
  int64_t first = p->block.first, rows = p->block.rows;
  if (rows == 0) return TT_OK;
  for (int64_t i = 0; i < rows; i++) p->row[i] = first + i;
  TT_TRY(tt_data_reader_read_local(p->rows, first, rows, p->raw, NULL));
  TT_TRY(
      tt_normalize_checked_local(p->model.at[0], p->o->data, p->inputs, first, rows, p->raw, p->x));
  measure_extrapolation(p);
  tt_ensemble_prediction own = {0};
  for (int64_t i = 0; i < p->model.count; i++) {
    own.m = p->model.at[i];
    own.moments = p->moments[i];
    own.members = p->members[i];
    p->moments[i]->rows = rows;
    TT_TRY(p->ops->predict(own.m, &p->use, rows, p->x, p->moments[i], p->members[i]));
    TT_TRY(tt_prediction_block_fill(&p->block, &own));
    own.member += own.m->members;
    own.column += p->moments[i]->columns;
  }
  if (!p->shape.jacobian) return TT_OK;
  return tt_jacobian_compute(&p->model, p->use.threads, rows, p->raw, &p->block.jacobian);
}

/* Writing is collective: every rank does as many rounds as the rank with the most rows. */
static tt_err predict_chunks(predictor *p, tt_prediction_file *f)
{
  int64_t rounds = (p->mine.count + p->chunk - 1) / p->chunk;
  tt_err e = TT_OK;
  tt_allreduce_max_i64(p->c, &rounds, 1);
  for (int64_t i = 0; !e && i < rounds; i++) {
    int64_t done = i * p->chunk < p->mine.count ? i * p->chunk : p->mine.count;
    int64_t left = p->mine.count - done;
    p->block.first = p->mine.first + done;
    p->block.rows = left < p->chunk ? left : p->chunk;
    e = tt_agree(p->c, predict_chunk_local(p));
    if (!e) e = tt_prediction_file_write(f, &p->block);
  }
  return e;
}

static tt_err write_predictions(predictor *p)
{
  tt_prediction_file *f = NULL;
  tt_provenance from = {.device = p->ops->name,
                        .model = p->o->model,
                        .model_hash = p->model.hash,
                        .ranks = tt_comm_ranks(p->c),
                        .threads = p->use.threads};
  tt_err e = tt_prediction_file_create(p->c, p->o->output, &p->model, &p->shape, &from, &f);
  if (!e) e = predict_chunks(p, f);
  if (!e)
    e = tt_prediction_file_close(&f);
  else
    tt_prediction_file_destroy(&f);
  if (!e)
    tt_log_root(TT_LOG_INFO, "predicted %" PRId64 " rows with %" PRId64 " members: %s",
                p->shape.rows, tt_trained_ensembles_members(&p->model), p->o->output);
  if (!e) warn_far_rows(p);
  return e;
}

static void cleanup(predictor *p)
{
  for (int64_t i = 0; p->moments && i < p->model.count; i++) {
    if (p->moments[i]) p->moments[i]->rows = p->chunk;
    tt_moments_destroy(&p->moments[i]);
  }
  for (int64_t i = 0; p->members && i < p->model.count; i++) tt_free(p->members[i]);
  tt_free(p->moments);
  tt_free(p->members);
  tt_data_reader_close_local(&p->rows);
  tt_row_ids_free(&p->ids);
  tt_trained_ensembles_destroy(&p->model);
  tt_free_all(&p->row, &p->raw, &p->x);
  tt_prediction_block_free(&p->block);
}

/* Check the file in a child process first: libhdf5 may crash on a damaged file. */
static tt_err check_file(tt_comm *c, const char *file, const char *inputs, const char *id)
{
  char marked[TT_PATH_MAX];
  const char *names[] = {tt_optional_default(inputs), id ? marked : NULL};
  snprintf(marked, sizeof marked, "%%%s", id ? id : ""); /* it may be missing, or texts */
  return tt_agree(c, tt_comm_is_root(c) ? tt_guarded_check_local(file, names, 2) : TT_OK);
}

tt_err tt_predict(tt_comm *c, const tt_predict_options *o)
{
  predictor p = {.c = c, .o = o, .inputs = o->inputs ? o->inputs : "x"};
  tt_err e = tt_agree(c, check_options_local(o));
  if (!e) e = tt_resources_for_job(c, NULL, &p.ops, &p.use);
  if (!e) e = tt_model_read(c, o->model, &p.model);
  if (!e) p.ops = tt_resources_predict_engine(p.ops, &p.model);
  if (!e) e = tt_agree(c, check_outputs_local(&p));
  if (!e) e = check_file(c, o->data, p.inputs, p.model.at[0]->input.id);
  if (!e) e = open_file(&p);
  if (!e) {
    e = begin_rows_local(&p);
    if (!e) e = allocate_local(&p);
    e = tt_agree(c, e);
  }
  if (!e) e = write_predictions(&p);
  cleanup(&p);
  return e;
}
