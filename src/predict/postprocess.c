/* postprocess.c — see postprocess.h. */
#include "src/predict/postprocess.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/stats/calibration.h"
#include "core/stats/conformal.h"
#include "core/stats/member_weights.h"
#include "src/host/watchdog.h"
#include "src/predict/row_predictor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_VALUES = 1 << 26 };

/* Predictions of the validation rows, or of training rows, of this rank. */
typedef struct validation_reader {
  const tt_postprocess_context *v;
  tt_trained_ensemble *all;
  int64_t *row; /* [rows] of the data set */
  int64_t rows;
  tt_slice mine;
  int64_t width, columns, parts; /* K q; C; tt_member_prediction_size */
  float *part;                   /* [rows of this rank][K][G][parts] */
  double *numbers;               /* what is computed for each row of this rank */
} validation_reader;

/* List every n-th row of the split, so that rows * each <= MAX_VALUES. */
static tt_err list_rows(validation_reader *r, tt_split which, int64_t each)
{
  const tt_dataset *d = r->v->data;
  int64_t count = 0, seen = 0;
  for (int64_t i = 0; i < d->rows; i++) count += d->split[i] == (int8_t)which;
  int64_t step = (count * each + MAX_VALUES - 1) / MAX_VALUES;
  TT_TRY(TT_ALLOC(r->row, count));
  for (int64_t i = 0; i < d->rows; i++)
    if (d->split[i] == (int8_t)which && seen++ % (step > 1 ? step : 1) == 0) r->row[r->rows++] = i;
  return TT_OK;
}

static tt_err open_reader(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all,
                          tt_split which, int64_t each, validation_reader *r)
{
  *r = (validation_reader){.v = v,
                           .all = all,
                           .width = tt_trained_ensemble_width(all),
                           .columns = tt_trained_ensemble_columns(all),
                           .parts = tt_member_prediction_size(&all->model)};
  TT_TRY(list_rows(r, which, each));
  r->mine = tt_row_predictor_slice(r->rows, TT_PREDICTOR_ROWS, tt_comm_ranks(c), tt_comm_rank(c));
  return TT_OK;
}

static void close_reader(validation_reader *r) { tt_free_all(&r->row, &r->part, &r->numbers); }

static tt_err read_rows_local(void *with, int64_t first, int64_t count, float *x)
{
  const validation_reader *r = with;
  const tt_dataset *d = r->v->data;
  for (int64_t i = 0; i < count; i++)
    memcpy(x + i * d->inputs, d->x + r->row[first + i] * d->inputs, (size_t)d->inputs * sizeof *x);
  return TT_OK;
}

typedef tt_err chunk_user(void *with, int64_t first, const tt_moments *moments,
                          const float *members);

/* Collective. Predict the rows; each rank stores what use_local computes of its own. */
static tt_err predict(tt_comm *c, validation_reader *r, chunk_user *use_local)
{
  const tt_row_predictor p = {.model = r->all,
                              .shard = r->v->shard,
                              .ops = r->v->ops,
                              .use = r->v->use,
                              .rows = r->rows,
                              .block = TT_PREDICTOR_ROWS,
                              .read_local = read_rows_local,
                              .use_local = use_local,
                              .with = r,
                              .phase = "predicting validation rows"};
  return tt_row_predictor_run(c, &p);
}

/* Normalised label of target k of ensemble e; NaN if the row is unlabelled or not selected. */
static double label(const validation_reader *r, int64_t e, int64_t k, int64_t i)
{
  const tt_ensemble *own = &r->all->ensemble[e];
  const tt_dataset *d = r->v->data;
  int64_t row = r->row[i];
  if (own->selection >= 0 && d->selected && !d->selected[own->selection * d->rows + row])
    return NAN;
  return (double)d->y[row * d->targets + r->all->ensemble[e].column[k]];
}

static double row_weight(const validation_reader *r, int64_t i)
{
  return r->v->data->weight ? (double)r->v->data->weight[r->row[i]] : 1.0;
}

/* Pack the predictions of all members for row i, number `at` of the chunk, into part
 * [K][G][parts].
 *   members  [G][2][K q][count] */
static void store_row(const validation_reader *r, const float *members, int64_t i, int64_t at,
                      int64_t count, float *part)
{
  const tt_trained_ensemble *all = r->all;
  const tt_model *m = &all->model;
  for (int64_t e = 0; e < all->ensembles; e++)
    for (int64_t k = 0; k < tt_trained_ensemble_targets(all); k++) {
      double y = label(r, e, k, i);
      const tt_ensemble *own = &all->ensemble[e];
      for (int64_t g = own->first; g < own->first + own->members; g++) {
        const float *mean = members + (g * 2 * r->width + k * m->quantities) * count + at;
        tt_member_prediction_pack(m, mean, mean + r->width * count, count, y,
                                  part + (k * all->members + g) * r->parts);
      }
    }
}

static tt_err store_members_local(void *with, int64_t first, const tt_moments *moments,
                                  const float *members)
{
  const validation_reader *r = with;
  int64_t each = tt_trained_ensemble_targets(r->all) * r->all->members * r->parts;
  float *to = r->part + (first - r->mine.first) * each;
  for (int64_t i = 0; i < moments->rows; i++)
    store_row(r, members, first + i, i, moments->rows, to + i * each);
  return TT_OK;
}

static tt_err combine_ensemble_local(const validation_reader *r, const float *part, int64_t e,
                                     double *y, float *weight, int8_t *alive)
{
  const tt_config *cfg = r->v->cfg;
  tt_trained_ensemble *all = r->all;
  const tt_ensemble *own = &all->ensemble[e];
  int64_t targets = tt_trained_ensemble_targets(all);
  tt_model model = all->model; /* of the predictions */
  double loss = NAN;
  tt_watchdog_heartbeat_local("combining members");
  for (int64_t i = 0; i < r->rows * targets; i++) {
    y[i] = label(r, e, i % targets, i / targets);
    weight[i] = (float)row_weight(r, i / targets);
  }
  for (int64_t i = 0; i < own->members; i++)
    alive[i] = all->status[own->first + i] != TT_STATUS_diverged;
  tt_combine_options rule = {.method = (tt_combine)cfg->combine_method,
                             .k = cfg->combine_k,
                             .rounds = cfg->combine_rounds,
                             .temperature = cfg->combine_temperature};
  model.targets = targets;
  tt_member_predictions s = {.model = &model,
                             .loss = r->v->cohort->loss,
                             .args = tt_cohort_loss_args(r->v->cohort),
                             .members = own->members,
                             .cells = r->rows * targets,
                             .stride = all->members,
                             .part = part + own->first * r->parts,
                             .y = y,
                             .weight = weight,
                             .alive = alive};
  TT_TRY(tt_member_weights_compute(&rule, &s, all->weight + own->first, &loss));
  int64_t used = 0;
  for (int64_t i = 0; i < own->members; i++) used += all->weight[own->first + i] > 0.0;
  tt_log_root(TT_LOG_INFO,
              "ensemble %s: %" PRId64 " of %" PRId64
              " members have a weight above 0 (%s), validation loss %.6g",
              own->name, used, own->members, tt_choice_combine[rule.method], loss);
  return TT_OK;
}

static tt_err combine_all_local(const validation_reader *r, const float *part)
{
  double *y = NULL;
  float *weight = NULL;
  int8_t *alive = NULL;
  int64_t cells = r->rows * tt_trained_ensemble_targets(r->all);
  tt_err e = TT_ALLOC(y, cells);
  if (!e) e = TT_ALLOC(weight, cells);
  if (!e) e = TT_ALLOC(alive, r->all->members);
  for (int64_t i = 0; !e && i < r->all->ensembles; i++)
    e = combine_ensemble_local(r, part, i, y, weight, alive);
  tt_free(y);
  tt_free(weight);
  tt_free(alive);
  return e;
}

tt_err tt_combine_members(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  validation_reader r = {0};
  float *part = NULL; /* of all rows */
  int64_t each =
      tt_trained_ensemble_targets(all) * all->members * tt_member_prediction_size(&all->model);
  if (v->cfg->combine_method == TT_COMBINE_mean) return TT_OK;
  tt_err e = open_reader(c, v, all, TT_VALIDATION, each, &r);
  if (!e) e = TT_ALLOC(r.part, r.mine.count * each);
  if (!e) e = TT_ALLOC(part, r.rows * each);
  e = tt_agree(c, e);
  if (!e) e = predict(c, &r, store_members_local);
  if (!e) {
    tt_allgatherv(c, r.part, r.mine.count * each * (int64_t)sizeof *part, part, NULL);
    e = tt_agree(c, combine_all_local(&r, part));
  }
  tt_free(part);
  close_reader(&r);
  return e;
}

/* Normalised mean and standard deviation of every column: numbers [rows of this rank][2][C]. */
static tt_err store_spreads_local(void *with, int64_t first, const tt_moments *moments,
                                  const float *members)
{
  const validation_reader *r = with;
  int64_t columns = r->columns;
  double *to = r->numbers + 2 * (first - r->mine.first) * columns;
  (void)members;
  for (int64_t i = 0; i < moments->rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      tt_uncertainty at = tt_moments_at(moments, i, j);
      to[2 * i * columns + j] = at.mean;
      to[(2 * i + 1) * columns + j] = at.total;
    }
  return TT_OK;
}

static void log_calibration(const validation_reader *r, int64_t e, int64_t k, int64_t column)
{
  const tt_trained_ensemble *all = r->all;
  const tt_calibration *calibration = &all->calibration;
  const char *target = all->target.name[all->ensemble[e].column[k]];
  if (r->v->cfg->calibration_recalibrate)
    tt_log_root(TT_LOG_INFO,
                "ensemble %s, %s: standard deviations times %.4g, from %" PRId64 " validation rows",
                all->ensemble[e].name, target, calibration->std_scale[column],
                calibration->rows[column]);
  for (int64_t i = 0; i < calibration->levels; i++)
    if (isinf(calibration->width[i * calibration->columns + column]))
      tt_log_root(TT_LOG_WARN,
                  "ensemble %s, %s: the %g %% interval is infinite: %" PRId64
                  " validation rows, at least %" PRId64 " are needed",
                  all->ensemble[e].name, target, 100.0 * calibration->level[i],
                  calibration->rows[column], tt_conformal_min_rows(calibration->level[i]));
}

/* Calibrate target k of ensemble e.
 *   from     [rows][2][C] of predict_spreads_local, of all ranks
 *   scratch  [rows * (q + 3)] */
static tt_err calibrate_target(const validation_reader *r, int64_t e, int64_t k, const double *from,
                               double *scratch)
{
  const tt_model *m = &r->all->model;
  int64_t first = e * r->width + k * m->quantities, n = 0;
  double *y = scratch, *sd = y + r->rows, *weight = sd + r->rows, *quantity = weight + r->rows;
  for (int64_t i = 0; i < r->rows; i++) {
    const double *mean = from + 2 * i * r->columns + first;
    double at = label(r, e, k, i);
    weight[n] = row_weight(r, i);
    if (isnan(at) || isnan(mean[0]) || !(weight[n] > 0.0)) continue;
    y[n] = at;
    sd[n] = mean[r->columns];
    for (int32_t j = 0; j < m->quantities; j++) quantity[n * m->quantities + j] = mean[j];
    n++;
  }
  tt_calibration_data v = {n, y, quantity, sd, weight};
  TT_TRY(
      tt_calibration_fit(&r->all->calibration, m, first, r->v->cfg->calibration_recalibrate, &v));
  log_calibration(r, e, k, first);
  return TT_OK;
}

static tt_err calibrate_local(const validation_reader *r, const double *from)
{
  const tt_real_list *levels = &r->v->cfg->calibration_conformal;
  double *scratch = NULL;
  TT_TRY(tt_calibration_create(r->columns, levels->count, levels->value, &r->all->calibration));
  TT_TRY(TT_ALLOC(scratch, r->rows * (r->all->model.quantities + 3)));
  tt_err err = TT_OK;
  for (int64_t e = 0; !err && e < r->all->ensembles; e++)
    for (int64_t k = 0; !err && k < tt_trained_ensemble_targets(r->all); k++)
      err = calibrate_target(r, e, k, from, scratch);
  tt_free(scratch);
  return err;
}

tt_err tt_calibrate(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  validation_reader r = {0};
  double *from = NULL;
  int64_t each = 2 * tt_trained_ensemble_columns(all);
  if (!v->cfg->calibration_recalibrate && !v->cfg->calibration_conformal.count) return TT_OK;
  tt_err e = open_reader(c, v, all, TT_VALIDATION, each, &r);
  if (!e) e = TT_ALLOC(r.numbers, r.mine.count * each);
  if (!e) e = TT_ALLOC(from, r.rows * each);
  e = tt_agree(c, e);
  if (!e) e = predict(c, &r, store_spreads_local);
  if (!e) {
    tt_allgatherv(c, r.numbers, r.mine.count * each * (int64_t)sizeof *from, from, NULL);
    e = tt_agree(c, calibrate_local(&r, from));
  }
  tt_free(from);
  close_reader(&r);
  return e;
}

/* Squares of the normalised epistemic standard deviations: numbers [rows of this rank][C]. */
static tt_err store_epistemic_local(void *with, int64_t first, const tt_moments *moments,
                                    const float *members)
{
  const validation_reader *r = with;
  double *to = r->numbers + (first - r->mine.first) * r->columns;
  (void)members;
  for (int64_t i = 0; i < moments->rows * r->columns; i++) {
    double sd = tt_moments_at(moments, i / r->columns, i % r->columns).epistemic;
    to[i] = sd * sd;
  }
  return TT_OK;
}

tt_err tt_measure_epistemic(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  enum { ROWS = 4096 };
  validation_reader r = {0};
  double *from = NULL;
  int64_t columns = tt_trained_ensemble_columns(all);
  tt_err e = open_reader(c, v, all, TT_TRAIN, MAX_VALUES / ROWS, &r);
  if (!e) e = TT_ALLOC(r.numbers, r.mine.count * columns);
  if (!e) e = TT_ALLOC(from, r.rows * columns);
  if (!e) e = TT_ALLOC(all->typical_epistemic, columns);
  e = tt_agree(c, e);
  if (!e) e = predict(c, &r, store_epistemic_local);
  if (!e) {
    tt_allgatherv(c, r.numbers, r.mine.count * columns * (int64_t)sizeof *from, from, NULL);
    for (int64_t i = 0; i < r.rows * columns; i++)
      all->typical_epistemic[i % columns] += from[i] / (double)r.rows;
    for (int64_t k = 0; k < columns; k++)
      all->typical_epistemic[k] = sqrt(all->typical_epistemic[k]);
  }
  tt_free(from);
  close_reader(&r);
  return e;
}
