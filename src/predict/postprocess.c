/* postprocess.c — see postprocess.h. */
#include "src/predict/postprocess.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/stats/conformal.h"
#include "core/stats/member_weights.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK_ROWS = 256, MAX_VALUES = 1 << 26 };

/* Predictions of the validation rows, or of training rows, of this rank. */
typedef struct validation_reader {
  const tt_postprocess_context *v;
  tt_trained_ensemble *all;
  int64_t *row; /* [rows] of the data set */
  int64_t rows;
  tt_slice mine;
  int64_t width, columns, parts; /* K q; C; tt_member_prediction_size */
  float *x;                      /* [CHUNK_ROWS][D] */
  float *members;                /* [G][2][K q][rows of the chunk] */
  tt_moments *moments;
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
  TT_TRY(tt_partition_even(r->rows, tt_comm_ranks(c), tt_comm_rank(c), &r->mine));
  TT_TRY(TT_ALLOC(r->x, CHUNK_ROWS * all->model.inputs));
  TT_TRY(TT_ALLOC(r->members, all->members * 2 * r->width * CHUNK_ROWS));
  return tt_moments_create(CHUNK_ROWS, r->columns, &r->moments);
}

static void close_reader(validation_reader *r)
{
  if (r->moments) r->moments->rows = CHUNK_ROWS;
  tt_moments_destroy(&r->moments);
  tt_free(r->row);
  tt_free(r->x);
  tt_free(r->members);
}

/* Predictions of rows [first, first + count) of the list. */
static tt_err predict(validation_reader *r, int64_t first, int64_t count, int members)
{
  const tt_dataset *d = r->v->data;
  tt_watchdog_heartbeat_local("predicting validation rows");
  for (int64_t i = 0; i < count; i++)
    memcpy(r->x + i * d->inputs, d->x + r->row[first + i] * d->inputs,
           (size_t)d->inputs * sizeof *r->x);
  r->moments->rows = count;
  return r->v->ops->predict(r->all, r->v->use, count, r->x, r->moments,
                            members ? r->members : NULL);
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
 * [K][G][parts]. */
static void store_row(const validation_reader *r, int64_t i, int64_t at, int64_t count, float *part)
{
  const tt_trained_ensemble *all = r->all;
  const tt_model *m = &all->model;
  for (int64_t e = 0; e < all->ensembles; e++)
    for (int64_t k = 0; k < tt_trained_ensemble_targets(all); k++) {
      double y = label(r, e, k, i);
      const tt_ensemble *own = &all->ensemble[e];
      for (int64_t g = own->first; g < own->first + own->members; g++) {
        const float *mean = r->members + (g * 2 * r->width + k * m->quantities) * count + at;
        tt_member_prediction_pack(m, mean, mean + r->width * count, count, y,
                                  part + (k * all->members + g) * r->parts);
      }
    }
}

static tt_err predict_members_local(validation_reader *r, float *part)
{
  int64_t each = tt_trained_ensemble_targets(r->all) * r->all->members * r->parts;
  for (int64_t done = 0; done < r->mine.count; done += CHUNK_ROWS) {
    int64_t left = r->mine.count - done, count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    TT_TRY(predict(r, r->mine.first + done, count, 1));
    for (int64_t i = 0; i < count; i++)
      store_row(r, r->mine.first + done + i, i, count, part + (done + i) * each);
  }
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
  float *here = NULL, *part = NULL;
  int64_t each =
      tt_trained_ensemble_targets(all) * all->members * tt_member_prediction_size(&all->model);
  if (v->cfg->combine_method == TT_COMBINE_mean) return TT_OK;
  tt_err e = open_reader(c, v, all, TT_VALIDATION, each, &r);
  if (!e) e = TT_ALLOC(here, r.mine.count * each);
  if (!e) e = TT_ALLOC(part, r.rows * each);
  if (!e) e = predict_members_local(&r, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgatherv(c, here, r.mine.count * each * (int64_t)sizeof *here, part, NULL);
    e = tt_agree(c, combine_all_local(&r, part));
  }
  tt_free(here);
  tt_free(part);
  close_reader(&r);
  return e;
}

/* Normalised mean and standard deviation of every column.
 *   to  [rows of this rank][2][C] */
static tt_err predict_spreads_local(validation_reader *r, double *to)
{
  int64_t columns = r->columns;
  for (int64_t done = 0; done < r->mine.count; done += CHUNK_ROWS) {
    int64_t left = r->mine.count - done, count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    TT_TRY(predict(r, r->mine.first + done, count, 0));
    for (int64_t i = 0; i < count; i++)
      for (int64_t j = 0; j < columns; j++) {
        tt_uncertainty at = tt_moments_at(r->moments, i, j);
        to[(2 * (done + i)) * columns + j] = at.mean;
        to[(2 * (done + i) + 1) * columns + j] = at.total;
      }
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
  double *here = NULL, *from = NULL;
  int64_t each = 2 * tt_trained_ensemble_columns(all);
  if (!v->cfg->calibration_recalibrate && !v->cfg->calibration_conformal.count) return TT_OK;
  tt_err e = open_reader(c, v, all, TT_VALIDATION, each, &r);
  if (!e) e = TT_ALLOC(here, r.mine.count * each);
  if (!e) e = TT_ALLOC(from, r.rows * each);
  if (!e) e = predict_spreads_local(&r, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgatherv(c, here, r.mine.count * each * (int64_t)sizeof *here, from, NULL);
    e = tt_agree(c, calibrate_local(&r, from));
  }
  tt_free(here);
  tt_free(from);
  close_reader(&r);
  return e;
}

/* Squares of the normalised epistemic standard deviations.
 *   to  [rows of this rank][C] */
static tt_err predict_epistemic_local(validation_reader *r, double *to)
{
  for (int64_t done = 0; done < r->mine.count; done += CHUNK_ROWS) {
    int64_t left = r->mine.count - done, count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    TT_TRY(predict(r, r->mine.first + done, count, 0));
    for (int64_t i = 0; i < count * r->columns; i++) {
      double sd = tt_moments_at(r->moments, i / r->columns, i % r->columns).epistemic;
      to[done * r->columns + i] = sd * sd;
    }
  }
  return TT_OK;
}

tt_err tt_measure_epistemic(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  enum { ROWS = 4096 };
  validation_reader r = {0};
  double *here = NULL, *from = NULL;
  int64_t columns = tt_trained_ensemble_columns(all);
  tt_err e = open_reader(c, v, all, TT_TRAIN, MAX_VALUES / ROWS, &r);
  if (!e) e = TT_ALLOC(here, r.mine.count * columns);
  if (!e) e = TT_ALLOC(from, r.rows * columns);
  if (!e) e = TT_ALLOC(all->typical_epistemic, columns);
  if (!e) e = predict_epistemic_local(&r, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgatherv(c, here, r.mine.count * columns * (int64_t)sizeof *here, from, NULL);
    for (int64_t i = 0; i < r.rows * columns; i++)
      all->typical_epistemic[i % columns] += from[i] / (double)r.rows;
    for (int64_t k = 0; k < columns; k++)
      all->typical_epistemic[k] = sqrt(all->typical_epistemic[k]);
  }
  tt_free(here);
  tt_free(from);
  close_reader(&r);
  return e;
}
