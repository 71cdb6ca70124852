/* predict.c — see predict.h. */
#include "src/predict/predict.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/groups/by_groups.h"
#include "core/model/partition.h"
#include "core/stats/calibration.h"
#include "core/stats/metrics.h"
#include "io/data/data.h"
#include "io/files/files.h"
#include "io/hdf5/guarded_check.h"
#include "io/model/model_file.h"
#include "io/results/prediction_table.h"
#include "io/results/results.h"
#include "src/host/resources.h"
#include "src/predict/normalization.h"
#include "src/predict/predict_groups.h"
#include "src/predict/prediction_block.h"
#include "src/predict/row_slopes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct predictor {
  tt_comm *c;
  const tt_predict_options *o;
  const char *inputs;
  const char *file;            /* HDF5 that is written; of a table a temporary one */
  tt_trained_ensembles model;  /* with groups: of group 0, for what is the same in all groups */
  tt_trained_ensembles groups; /* the whole model with groups; count 0: it has none */
  tt_group_rows by;
  tt_prediction_shape shape;
  const tt_engine_ops *ops;
  tt_resources use;
  tt_data_reader *rows;
  tt_row_ids ids; /* on rank 0, of all rows; zeroed: none */
  tt_row_predictor *predictor;
  double *raw; /* [rows of a chunk][D] */
  tt_prediction_block block;
  int64_t *row; /* [rows of a chunk] */
  tt_extrapolation far;
} predictor;

static tt_err check_options_local(const tt_predict_options *o)
{
  for (int64_t q = 0; q < o->quantiles; q++)
    if (!(o->quantile[q] > 0.0 && o->quantile[q] < 1.0))
      return TT_FAIL(USAGE, "--quantiles: %g is not between 0 and 1", o->quantile[q]);
  const char *const input[] = {o->model, o->data};
  if (!tt_text_ends_in(o->output, ".csv"))
    return tt_h5_check_output_local(o->output, o->force, input);
  if (o->members || o->jacobian)
    return TT_FAIL(USAGE, "%s: --members and --jacobian need an HDF5 file: -o pred.h5", o->output);
  return tt_file_check_output(o->output, o->force, input);
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
  return TT_OK;
}

static int needs_members(const void *context, const tt_trained_ensemble *m)
{
  return tt_prediction_needs_members(m, &((const predictor *)context)->shape);
}

static tt_err read_rows_local(void *context, int64_t first, int64_t count, float *x)
{
  predictor *p = context;
  TT_TRY(tt_data_reader_read_local(p->rows, first, count, p->raw, NULL));
  return tt_normalize_checked_local(p->model.at[0], p->o->data, p->inputs, first, count, p->raw, x);
}

/* Bytes of a row in p->raw and p->block. */
static double row_bytes(const predictor *p)
{
  double inputs = (double)p->model.at[0]->scaler.inputs, columns = (double)p->shape.columns;
  double numbers = inputs + columns * (double)(4 + p->shape.quantiles);
  if (p->shape.jacobian) numbers += 4.0 * columns * inputs;
  for (int64_t i = 0; p->shape.members && i < p->model.count; i++)
    numbers += (double)(2 * p->model.at[i]->members * tt_trained_ensemble_width(p->model.at[i]));
  return 8.0 * numbers;
}

static tt_err open_predictor(predictor *p)
{
  const tt_row_options rows = {.c = p->c,
                               .all = &p->model,
                               .ops = p->ops,
                               .use = &p->use,
                               .rows = p->shape.rows,
                               .block = 1,
                               .row_bytes = row_bytes(p),
                               .needs_members = needs_members,
                               .read_local = read_rows_local,
                               .with = p,
                               .phase = "predicting"};
  return tt_row_predictor_open(&rows, &p->predictor);
}

static tt_err allocate_local(predictor *p)
{
  int64_t chunk = tt_row_predictor_rows(p->predictor);
  TT_TRY(TT_ALLOC(p->row, chunk));
  TT_TRY(TT_ALLOC(p->raw, chunk * p->model.at[0]->scaler.inputs));
  TT_TRY(tt_prediction_block_create(&p->model, chunk, &p->shape, &p->block));
  p->block.row = p->row;
  return TT_OK;
}

/* Collective. Name the rows outside the training rows; far ones are a warning. */
static void log_outside(predictor *p)
{
  static const double far = 0.5; /* of the range */
  double most = p->far.farthest;
  tt_allreduce_max_f64(p->c, &most, 1);
  int64_t place =
      p->far.farthest == most ? -p->far.far_row : INT64_MIN; /* of equals the first row */
  tt_allreduce_max_i64(p->c, &place, 1);
  int64_t input = place == -p->far.far_row ? p->far.far_input : 0;
  tt_allreduce_max_i64(p->c, &input, 1);
  tt_allreduce_sum_i64(p->c, &p->far.outside, 1);
  char name[256], shown[96];
  const tt_trained_ensemble *m = p->model.at[0];
  const tt_net_input *entry = &m->scaler.net.at[input];
  tt_net_input_name(entry, m->input.name[entry->column], name, sizeof name);
  if (p->far.outside > 0)
    tt_log_root(most > far ? TT_LOG_WARN : TT_LOG_INFO,
                "rows outside the training inputs: %" PRId64 " of %" PRId64
                ", farthest '%s' in row "
                "%" PRId64 "%s, by %.3g of its range%s; see extrapolation in %s",
                p->far.outside, p->shape.rows, name, -place,
                tt_row_ids_show(&p->ids, -place, shown, sizeof shown), most,
                most > far ? "; their uncertainty cannot be trusted" : "", p->o->output);
}

static void warn_without_noise(const predictor *p)
{
  for (int64_t i = 0; i < p->model.count; i++) {
    const tt_trained_ensemble *m = p->model.at[i];
    int64_t width = tt_trained_ensemble_width(m);
    for (int64_t e = 0; tt_calibration_needs_noise(&m->model) && e < m->ensembles; e++)
      if (!tt_calibration_has_noise(&m->calibration, e * width))
        tt_log_root(TT_LOG_WARN,
                    "ensemble %s: its loss predicts no noise, and the model has none: the standard "
                    "deviations show only how much the members differ; train with validation rows, "
                    "or with train.loss: gaussian_nll",
                    m->ensemble[e].name);
  }
}

static tt_err fill_block_local(predictor *p, const tt_row_chunk *chunk)
{
  TT_TRY(tt_prediction_block_fill(&p->block, p->model.count, chunk));
  for (int64_t i = 0; i < chunk->rows; i++) p->row[i] = chunk->first + i;
  if (p->block.extrapolation)
    tt_extrapolation_measure(&p->far, p->model.at[0], chunk->rows, p->row, chunk->x,
                             p->block.extrapolation);
  if (!p->shape.jacobian) return TT_OK;
  return tt_jacobian_compute(&p->model, p->use.threads, chunk->rows, p->raw, &p->block.jacobian);
}

/* Groups */

/* Collective. Move a model with groups from p->model to p->groups. */
static tt_err split_model(predictor *p)
{
  const tt_trained_ensemble *all = p->model.at[0];
  tt_err e = TT_OK;
  if (!all->groups) return TT_OK;
  if (p->o->members || p->o->jacobian)
    e = TT_FAIL(USAGE, "--members and --jacobian are for one group: choose it with --group");
  p->groups = p->model;
  p->model = (tt_trained_ensembles){.count = 0};
  if (!e) e = tt_trained_ensembles_create(1, &p->model);
  if (!e) e = tt_by_groups_extract(all, 0, &p->model.at[0]);
  if (!e) e = tt_text_set(&p->model.at[0]->ensemble[0].name, all->groups->ensemble);
  p->model.hash = p->groups.hash;
  return tt_agree(p->c, e);
}

/* Collective. */
static tt_err find_groups(predictor *p)
{
  if (!p->groups.count) return TT_OK;
  tt_table_format format = p->o->format;
  format.marks = tt_data_reader_marks(p->rows);
  p->by = (tt_group_rows){.file = p->o->data,
                          .inputs = p->inputs,
                          .all = p->groups.at[0],
                          .ops = p->ops,
                          .use = &p->use,
                          .shape = &p->shape};
  tt_err e = tt_group_rows_find(p->c, &format, p->shape.rows, &p->by);
  if (e) return e;
  p->shape.groups = p->by.by.count;
  p->shape.group_of_row = p->by.by.number;
  p->shape.group_name = (const char *const *)p->by.by.name;
  p->shape.group_own = p->by.own;
  p->shape.by_columns = p->groups.at[0]->groups->columns;
  return TT_OK;
}

/* Collective. Each rank has consecutive rows, in chunks as large as most_bytes allows: a small
 * chunk would have few rows of each group. */
static tt_err predict_group_chunks(predictor *p, tt_prediction_file *f)
{
  static const double most_bytes = 1073741824.0;
  int ranks = tt_comm_ranks(p->c);
  int64_t each = (p->shape.rows + ranks - 1) / ranks, most = (int64_t)(most_bytes / row_bytes(p));
  int64_t size = each < most ? each : most;
  tt_slice mine;
  tt_err e = tt_partition_even(p->shape.rows, ranks, tt_comm_rank(p->c), &mine);
  if (!e) e = TT_ALLOC(p->row, size);
  if (!e) e = TT_ALLOC(p->raw, size * p->model.at[0]->scaler.inputs);
  if (!e) e = tt_prediction_block_create(&p->model, size, &p->shape, &p->block);
  e = tt_agree(p->c, e);
  p->block.row = p->row;
  for (int64_t done = 0; !e && done < each; done += size) {
    int64_t left = mine.count - done, n = left < 0 ? 0 : left < size ? left : size;
    p->block.first = n ? mine.first + done : 0;
    for (int64_t i = 0; i < n; i++) p->row[i] = p->block.first + i;
    e = n ? tt_data_reader_read_local(p->rows, p->block.first, n, p->raw, NULL) : TT_OK;
    if (!e) e = tt_group_rows_predict_local(&p->by, p->block.first, n, p->raw, &p->far, &p->block);
    e = tt_agree(p->c, e);
    if (!e) e = tt_prediction_file_write(f, &p->block);
  }
  return e;
}

static tt_err predict_chunks(predictor *p, tt_prediction_file *f)
{
  if (p->groups.count) return predict_group_chunks(p, f);
  const tt_row_chunk *chunk;
  tt_err e = TT_OK;
  while (!(e = tt_row_predictor_next(p->predictor, e, &chunk)) && chunk) {
    e = tt_agree(p->c, fill_block_local(p, chunk));
    if (!e) e = tt_prediction_file_write(f, &p->block);
  }
  return e;
}

/* Collective. Predictions become a table when they are complete, in the order of the rows. */
static tt_err write_table(predictor *p)
{
  tt_err e = TT_OK;
  if (tt_comm_is_root(p->c)) {
    e = tt_prediction_table_write_local(p->file, p->o->output, p->model.at[0]->input.id);
    (void)unlink(p->file);
  }
  return tt_agree(p->c, e);
}

static tt_err write_predictions(predictor *p)
{
  tt_prediction_file *f = NULL;
  tt_provenance provenance = {.device = p->ops->name,
                              .model = p->o->model,
                              .model_hash = p->model.hash,
                              .ranks = tt_comm_ranks(p->c),
                              .threads = p->use.threads};
  tt_err e = tt_prediction_file_create(p->c, p->file, &p->model, &p->shape, &provenance, &f);
  if (!e) e = predict_chunks(p, f);
  if (!e)
    e = tt_prediction_file_close(&f);
  else
    tt_prediction_file_destroy(&f);
  if (!e && p->file != p->o->output) e = write_table(p);
  if (!e)
    tt_log_root(
        TT_LOG_INFO, "predicted %" PRId64 " rows with %" PRId64 " members: %s", p->shape.rows,
        tt_trained_ensembles_members(p->groups.count ? &p->groups : &p->model), p->o->output);
  if (!e) log_outside(p);
  if (!e && !p->groups.count) warn_without_noise(p);
  return e;
}

static void cleanup(predictor *p)
{
  tt_row_predictor_close(&p->predictor);
  tt_data_reader_close_local(&p->rows);
  tt_row_ids_free(&p->ids);
  tt_trained_ensembles_destroy(&p->model);
  tt_trained_ensembles_destroy(&p->groups);
  tt_group_rows_free(&p->by);
  tt_free_all(&p->row, &p->raw);
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

/* Collective. The HDF5 file of a table has a temporary name beside it. */
static tt_err name_file(predictor *p, char name[TT_PATH_MAX])
{
  p->file = p->o->output;
  if (!tt_text_ends_in(p->o->output, ".csv")) return TT_OK;
  p->file = name;
  tt_err e = TT_OK;
  if (tt_comm_is_root(p->c)) e = tt_file_temporary_name_local(p->o->output, name);
  e = tt_agree(p->c, e);
  tt_bcast(p->c, name, TT_PATH_MAX);
  return e;
}

tt_err tt_predict(tt_comm *c, const tt_predict_options *o)
{
  char name[TT_PATH_MAX] = "";
  predictor p = {.c = c, .o = o, .inputs = o->inputs ? o->inputs : "x"};
  tt_err e = tt_agree(c, check_options_local(o));
  if (!e) e = name_file(&p, name);
  if (!e) e = tt_resources_for_job(c, NULL, &p.ops, &p.use);
  if (!e) e = tt_model_read_group(c, o->model, (tt_model_choice){o->group, 1}, &p.model);
  if (!e) p.ops = tt_resources_predict_engine(p.ops, &p.model);
  if (!e) e = split_model(&p);
  if (!e) e = tt_agree(c, check_outputs_local(&p));
  if (!e) e = check_file(c, o->data, p.inputs, p.model.at[0]->input.id);
  if (!e) e = open_file(&p);
  if (!e) e = tt_agree(c, begin_rows_local(&p));
  if (!e) e = find_groups(&p);
  if (!e && !p.groups.count) e = open_predictor(&p);
  if (!e && !p.groups.count) e = tt_agree(c, allocate_local(&p));
  if (!e) e = write_predictions(&p);
  cleanup(&p);
  return e;
}
