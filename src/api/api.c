/* api.c — see tutti.h: models in memory and their predictions. */
#include "src/api/tutti.h"

#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/stats/metrics.h"
#include "io/hdf5/h5.h"
#include "io/model/model_file.h"
#include "io/results/axis_labels.h"
#include "src/api/call.h"
#include "src/cpu/single_row.h"
#include "src/host/resources.h"
#include "src/predict/jacobian.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { MIN_CHUNK_ROWS = 256, MAX_CHUNK_ROWS = 4096 };
enum { FEW_ROWS = 8 }; /* up to these, one row at a time is faster than a block of 16 */
static const double chunk_floats = 6.4e7; /* members' predictions of a chunk: 256 MB */

struct tutti_model {
  tt_trained_ensembles all;
  tt_axis_labels labels;
  int64_t width, levels;
  int classes;
  tt_single_row **single; /* [all.count]; NULL if one of them is too large for it */
};

const char *tutti_version(void) { return TUTTI_VERSION; }
const char *tutti_error(void) { return tt_err_last(); }

/* HDF5 is not built for several threads: one model is read at a time. A fork waits for the end of
 * the reading, because the child would find HDF5 and the lock in the middle of it. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static void lock_reading(void) { pthread_mutex_lock(&reading); }
static void unlock_reading(void) { pthread_mutex_unlock(&reading); }
static void guard_forks(void) { pthread_atfork(lock_reading, unlock_reading, unlock_reading); }

static int hdf5_runs;

/* With another MPI library in the program, HDF5 would end the program if it started after
 * MPI_Init. */
__attribute__((constructor)) static void start_hdf5_early(void)
{
  int running;
  if (!tt_comm_check_library_local(&running) || running) return;
  tt_h5_start_local();
  hdf5_runs = 1;
}

static tt_err check_hdf5(void)
{
  int running;
  if (hdf5_runs || !tt_comm_check_library_local(&running) || !running) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "%s: load libtutti, or open a first model, before MPI_Init",
                 tt_err_last());
}

/* The arguments of open_model. */
typedef struct model_source {
  const char *file;
  const void *bytes;
  int64_t size;
  tt_trained_ensembles *out;
} model_source;

static tt_err read_source(void *source)
{
  const model_source *s = source;
  return s->file ? tt_model_read_local(s->file, s->out)
                 : tt_model_read_bytes_local("the model in memory", s->bytes, s->size, s->out);
}

static tt_err read_model(model_source *s)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, guard_forks);
  lock_reading();
  tt_err e = check_hdf5();
  if (!e) e = tt_h5_call_as_guest_local(read_source, s);
  hdf5_runs |= !e;
  unlock_reading();
  return e;
}

static void free_single_rows(tutti_model *m)
{
  for (int64_t i = 0; m->single && i < m->all.count; i++) tt_single_row_destroy(&m->single[i]);
  tt_free(m->single);
}

static tt_err prepare_single_rows(tutti_model *m)
{
  int fit = 1;
  TT_TRY(TT_ALLOC(m->single, m->all.count));
  for (int64_t i = 0; fit && i < m->all.count; i++) {
    TT_TRY(tt_single_row_create(m->all.at[i], TT_SIMD_auto, &m->single[i]));
    fit = m->single[i] != NULL;
  }
  if (!fit) free_single_rows(m);
  return TT_OK;
}

/*   file  NULL: the model is in memory, bytes[size] */
static tt_err open_model(const char *file, const void *bytes, int64_t size, tutti_model **out)
{
  tutti_model *m = NULL;
  TT_TRY(TT_ALLOC(m, 1));
  model_source source = {file, bytes, size, &m->all};
  tt_err e = read_model(&source);
  if (!e) e = tt_axis_labels_create(&m->all, &m->labels);
  for (int64_t i = 0; !e && i < m->all.count; i++) {
    const tt_trained_ensemble *own = m->all.at[i];
    int64_t width = tt_trained_ensemble_width(own), levels = own->calibration.levels;
    m->width = width > m->width ? width : m->width;
    m->levels = levels > m->levels ? levels : m->levels;
    m->classes |= tt_output_is_class(own->model.output);
  }
  if (!e) e = prepare_single_rows(m);
  if (e)
    tutti_close(&m);
  else
    *out = m;
  return e;
}

static int call_open(const char *file, const void *bytes, int64_t size, tutti_model **out)
{
  tt_call caller;
  tt_call_begin(&caller);
  if (out) *out = NULL;
  tt_err e = out ? TT_OK : TT_FAIL(USAGE, "out is NULL: there is no place for the model");
  if (!e && !file && !bytes && size != 0)
    e = TT_FAIL(USAGE, "%s is NULL", size < 0 ? "file" : "bytes");
  return tt_call_end(&caller, e ? e : open_model(file, bytes, size, out));
}

int tutti_open(const char *file, tutti_model **out) { return call_open(file, NULL, -1, out); }

int tutti_open_memory(const void *bytes, int64_t size, tutti_model **out)
{
  return call_open(NULL, bytes, size > 0 ? size : 0, out);
}

void tutti_close(tutti_model **model)
{
  if (!model || !*model) return;
  free_single_rows(*model);
  tt_axis_labels_free(&(*model)->labels);
  tt_trained_ensembles_destroy(&(*model)->all);
  tt_free(*model);
}

/* The input of the networks for a level, NULL: there is none. */
static const tt_net_input *find_level(const tutti_model *model, int64_t input, int64_t level)
{
  if (level < 0 || level >= tutti_input_levels(model, input)) return NULL;
  const tt_net_inputs *net = &model->all.at[0]->scaler.net;
  return &net->at[net->first[input] + level];
}

int64_t tutti_input_levels(const tutti_model *model, int64_t input)
{
  if (input < 0 || input >= tutti_inputs(model)) return 0;
  return tt_net_inputs_levels(&model->all.at[0]->scaler.net, input);
}

const char *tutti_input_level(const tutti_model *model, int64_t input, int64_t level)
{
  const tt_net_input *at = find_level(model, input, level);
  return at ? at->name : NULL;
}

double tutti_level_value(const tutti_model *model, int64_t input, const char *level)
{
  const tt_net_input *at;
  for (int64_t k = 0; level && (at = find_level(model, input, k)); k++)
    if (!strcmp(at->name, level)) return at->level;
  return NAN;
}

int64_t tutti_inputs(const tutti_model *model)
{
  return model ? model->all.at[0]->scaler.inputs : 0;
}

int64_t tutti_columns(const tutti_model *model) { return model ? model->labels.columns : 0; }
int64_t tutti_members(const tutti_model *model) { return model ? model->labels.members : 0; }
int64_t tutti_member_columns(const tutti_model *model) { return model ? model->width : 0; }
int64_t tutti_levels(const tutti_model *model) { return model ? model->levels : 0; }
int tutti_has_classes(const tutti_model *model) { return model && model->classes; }

/* The levels are the same in all trained ensembles that have them. */
double tutti_level(const tutti_model *model, int64_t level)
{
  for (int64_t i = 0; model && level >= 0 && i < model->all.count; i++) {
    const tt_calibration *k = &model->all.at[i]->calibration;
    if (level < k->levels) return k->level[level];
  }
  return NAN;
}

const char *tutti_input_name(const tutti_model *model, int64_t input)
{
  const tt_columns *c = model ? &model->all.at[0]->input : NULL;
  return c && input >= 0 && input < c->count ? c->name[input] : NULL;
}

static int has_column(const tutti_model *model, int64_t column)
{
  return column >= 0 && column < tutti_columns(model);
}

const char *tutti_ensemble_name(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.ensemble[column] : NULL;
}

const char *tutti_target_name(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.target[column] : NULL;
}

const char *tutti_column_label(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.label[column] : NULL;
}

const char *tutti_target_units(const tutti_model *model, int64_t column)
{
  return has_column(model, column) ? model->labels.units[column] : NULL;
}

/* A call of tutti_predict_all. */
typedef struct prediction_call {
  const tutti_model *model;
  const tutti_prediction *out;
  const double *x;
  int64_t rows, chunk; /* chunk: rows predicted at a time */
  tt_resources use;
  float *normalized; /* [chunk][D] */
  float *members;    /* [G of the largest cohort][2][K q][chunk], or NULL if not needed */
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
static tt_err copy_wanted(const tutti_prediction *from, tutti_prediction *out)
{
  const size_t first = offsetof(tutti_prediction, member_variance) + sizeof(void *);
  if (!from) return TT_FAIL(USAGE, "out is NULL");
  if (from->size < first || from->size > sizeof *out)
    return TT_FAIL(USAGE,
                   "out->size is %zu; set it to sizeof(tutti_prediction), which is %zu in the "
                   "tutti.h of libtutti " TUTTI_VERSION,
                   from->size, sizeof *out);
  memset(out, 0, sizeof *out);
  memcpy(out, from, from->size);
  return TT_OK;
}

static tt_err check_wanted(const tutti_model *model, const tutti_prediction *out)
{
  unsigned forecasts = 0;
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

/* Floats of a row in `members` of the largest cohort. */
static int64_t count_member_floats(const tutti_model *model)
{
  int64_t most = 0;
  for (int64_t i = 0; i < model->all.count; i++) {
    const tt_trained_ensemble *m = model->all.at[i];
    int64_t own = m->members * 2 * tt_trained_ensemble_width(m);
    most = own > most ? own : most;
  }
  return most;
}

static tt_err allocate(prediction_call *p)
{
  const tutti_prediction *out = p->out;
  int members = out->member_mean || out->member_variance;
  int entropy = out->entropy || out->mutual_information;
  tt_prediction_shape shape = {
      .quantiles = out->quantiles, .quantile = out->probability, .members = members};
  int transformed = tt_scaler_transformed_target(&p->model->all.at[0]->scaler) >= 0;
  int needed = members || entropy || out->quantiles || transformed;
  int64_t floats = needed ? count_member_floats(p->model) : 0;
  p->chunk = p->rows < MAX_CHUNK_ROWS ? p->rows : MAX_CHUNK_ROWS;
  while (p->chunk > MIN_CHUNK_ROWS && (double)p->chunk * (double)floats > chunk_floats)
    p->chunk /= 2;
  TT_TRY(TT_ALLOC(p->normalized, p->chunk * p->model->all.at[0]->model.inputs));
  if (floats) TT_TRY(TT_ALLOC(p->members, p->chunk * floats));
  TT_TRY(tt_prediction_block_create(&p->model->all, p->chunk, &shape, &p->block));
  if (!entropy) { /* they need the predictions of the members */
    tt_free(p->block.entropy);
    tt_free(p->block.mutual_information);
  }
  return TT_OK;
}

/* Copy `parts` arrays of `size` bytes per row from the block to all rows; NULL = not wanted. */
static void copy_rows(const prediction_call *p, const void *from, void *to, int64_t parts,
                      size_t size)
{
  const tt_prediction_block *b = &p->block;
  for (int64_t i = 0; to && i < parts; i++)
    memcpy((char *)to + (size_t)(i * p->rows + b->first) * size,
           (const char *)from + (size_t)(i * b->rows) * size, (size_t)b->rows * size);
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

/* Predict the rows of the block: the columns of all trained ensembles. */
static tt_err predict_block(prediction_call *p)
{
  const tutti_model *model = p->model;
  tt_prediction_block *b = &p->block;
  tt_ensemble_prediction own = {.members = p->members};
  tt_err e = tt_normalize_checked_local(model->all.at[0], "tutti_predict", "x", b->first, b->rows,
                                        p->x + b->first * tutti_inputs(model), p->normalized);
  for (int64_t i = 0; !e && i < model->all.count; i++) {
    tt_moments *moments = NULL;
    own.m = model->all.at[i];
    e = tt_moments_create(b->rows, tt_trained_ensemble_columns(own.m), &moments);
    own.moments = moments;
    if (!e) e = tt_engine_cpu.predict(own.m, &p->use, b->rows, p->normalized, moments, p->members);
    if (!e) e = tt_prediction_block_fill(b, &own);
    own.member += own.m->members;
    own.column += tt_trained_ensemble_columns(own.m);
    tt_moments_destroy(&moments);
  }
  if (!e) copy_block(p);
  return e;
}

/* Whether the prediction has only means and standard deviations of few rows. */
static int is_small(const tutti_model *model, int64_t rows, const tutti_prediction *out)
{
  return model->single && rows > 0 && rows <= FEW_ROWS && !out->quantiles && !out->lower &&
         !out->upper && !out->entropy && !out->mutual_information && !out->member_mean &&
         !out->member_variance && tt_scaler_transformed_target(&model->all.at[0]->scaler) < 0;
}

static void store_cell(const tutti_prediction *out, int64_t cell, tt_uncertainty at)
{
  if (out->mean) out->mean[cell] = at.mean;
  if (out->total) out->total[cell] = at.total;
  if (out->aleatoric) out->aleatoric[cell] = at.aleatoric;
  if (out->epistemic) out->epistemic[cell] = at.epistemic;
}

/* Columns of trained ensemble i, which begin at `first`, for one row.
 *   scratch  its floats, then four doubles for each column */
static void predict_single(const tutti_model *model, int64_t i, int64_t first, const float *x,
                           float *scratch, double *sums, int64_t row, const tutti_prediction *out)
{
  const tt_trained_ensemble *m = model->all.at[i];
  int64_t columns = tt_trained_ensemble_columns(m);
  tt_moments moments = {1, columns, sums, sums + columns, sums + 2 * columns, sums + 3 * columns};
  tt_single_row_predict(model->single[i], x, scratch, &moments);
  for (int64_t c = 0; c < columns; c++) {
    tt_column_scale s = tt_column_scale_of(m, c);
    store_cell(out, row * model->labels.columns + first + c,
               tt_denormalize(&s, tt_moments_at(&moments, 0, c)));
  }
}

static tt_err predict_small(const tutti_model *model, int64_t rows, const double *x,
                            const tutti_prediction *out)
{
  int64_t inputs = tutti_inputs(model), floats = 0, net = model->all.at[0]->model.inputs;
  float *scratch = NULL;
  for (int64_t i = 0; i < model->all.count; i++) {
    int64_t own = tt_single_row_scratch(model->single[i]);
    floats = own > floats ? own : floats;
  }
  TT_TRY(TT_ALLOC(scratch, floats + 8 * model->labels.columns + net));
  double *sums = (double *)(void *)(scratch + floats); /* floats is a multiple of 16 */
  float *normalized = scratch + floats + 8 * model->labels.columns;
  tt_err e = TT_OK;
  for (int64_t r = 0; !e && r < rows; r++) {
    int64_t first = 0;
    e = tt_normalize_checked_local(model->all.at[0], "tutti_predict", "x", r, 1, x + r * inputs,
                                   normalized);
    for (int64_t i = 0; !e && i < model->all.count; i++) {
      predict_single(model, i, first, normalized, scratch, sums, r, out);
      first += tt_trained_ensemble_columns(model->all.at[i]);
    }
  }
  tt_free(scratch);
  return e;
}

static tt_err predict_all(const tutti_model *model, int64_t rows, const double *x, int threads,
                          const tutti_prediction *out)
{
  prediction_call p = {.model = model, .out = out, .x = x, .rows = rows};
  p.use.threads = tt_resources_team_local(threads);
  tt_err e = check_wanted(model, out);
  if (!e) e = allocate(&p);
  while (!e && p.block.first < rows) {
    p.block.rows = rows - p.block.first < p.chunk ? rows - p.block.first : p.chunk;
    e = predict_block(&p);
    p.block.first += p.block.rows;
  }
  tt_prediction_block_free(&p.block);
  tt_free(p.normalized);
  tt_free(p.members);
  return e;
}

int tutti_predict_all(const tutti_model *model, int64_t rows, const double *x, int threads,
                      const tutti_prediction *out)
{
  tt_call caller;
  tutti_prediction wanted;
  tt_call_begin(&caller);
  tt_err e = check_rows(model, rows, x);
  if (!e) e = copy_wanted(out, &wanted);
  if (!e)
    e = is_small(model, rows, &wanted) ? predict_small(model, rows, x, &wanted)
                                       : predict_all(model, rows, x, threads, &wanted);
  return tt_call_end(&caller, e);
}

int tutti_predict(const tutti_model *model, int64_t rows, const double *x, int threads,
                  double *mean, double *total, double *aleatoric, double *epistemic)
{
  tutti_prediction out = {.size = sizeof out,
                          .mean = mean,
                          .total = total,
                          .aleatoric = aleatoric,
                          .epistemic = epistemic};
  return tutti_predict_all(model, rows, x, threads, &out);
}

int tutti_gradient(const tutti_model *model, int64_t rows, const double *x, int threads,
                   double *mean, double *total, double *aleatoric, double *epistemic)
{
  tt_call caller;
  tt_jacobian out = {mean, total, aleatoric, epistemic};
  tt_call_begin(&caller);
  tt_err e = check_rows(model, rows, x);
  if (!e) e = tt_check_inputs_local(model->all.at[0], "tutti_gradient", "x", 0, rows, x);
  if (!e) e = tt_jacobian_compute(&model->all, tt_resources_team_local(threads), rows, x, &out);
  return tt_call_end(&caller, e);
}
