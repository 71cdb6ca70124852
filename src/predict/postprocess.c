/* postprocess.c — see postprocess.h. */
#include "src/predict/postprocess.h"

#include "core/base/int.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/stats/calibration.h"
#include "core/stats/conformal.h"
#include "core/stats/member_weights.h"
#include "src/host/watchdog.h"
#include "src/predict/row_predictor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_VALUES = 1 << 26, FEW_ROWS = 4096, MANY_COLUMNS = 20 };

/* Predictions of the validation rows, or of training rows, of this rank. */
typedef struct validation_reader {
  const tt_postprocess_context *v;
  tt_trained_ensemble *all;
  int64_t *row; /* [rows] of the data set */
  int64_t rows;
  int64_t width, columns, parts; /* K q; C; tt_member_prediction_size */
  int64_t each;                  /* numbers that are computed for a row */
  tt_moments *unseen;            /* of one row, by the members that it is out of bag for; or NULL */
} validation_reader;

/* Compute the numbers [rows][each] of a chunk. */
typedef void compute_rows(const validation_reader *r, const tt_row_chunk *chunk, void *numbers);

static int64_t count_rows(const tt_dataset *d, tt_split which)
{
  int64_t count = 0;
  for (int64_t i = 0; i < d->rows; i++) count += d->split[i] == (int8_t)which;
  return count;
}

/* List every n-th row of the split, so that rows * limit <= MAX_VALUES. */
static tt_err list_rows(validation_reader *r, tt_split which, int64_t limit)
{
  const tt_dataset *d = r->v->data;
  int64_t count = count_rows(d, which), seen = 0;
  int64_t step = tt_max_i64(tt_ceil_div(count * limit, MAX_VALUES), 1);
  TT_TRY(TT_ALLOC(r->row, count));
  for (int64_t i = 0; i < d->rows; i++)
    if (d->split[i] == (int8_t)which && seen++ % step == 0) r->row[r->rows++] = i;
  return TT_OK;
}

static tt_err read_rows_local(void *context, int64_t first, int64_t count, float *x)
{
  const validation_reader *r = context;
  const tt_dataset *d = r->v->data;
  for (int64_t i = 0; i < count; i++)
    memcpy(x + i * d->inputs, d->x + r->row[first + i] * d->inputs, (size_t)d->inputs * sizeof *x);
  return TT_OK;
}

/* Collective. Predict the rows; compute numbers of `size` bytes into `mine` [rows of this rank].
 */
static tt_err predict(tt_comm *c, validation_reader *r, size_t size, compute_rows *compute,
                      const tt_slice *own, char *mine)
{
  const tt_trained_ensembles all = {.count = 1, .at = &r->all};
  const tt_row_options rows = {.c = c,
                               .all = &all,
                               .shard = r->v->shard,
                               .ops = r->v->ops,
                               .use = r->v->use,
                               .rows = r->rows,
                               .block = TT_PREDICTOR_ROWS,
                               .read_local = read_rows_local,
                               .with = r,
                               .phase = "predicting validation rows"};
  tt_row_predictor *p = NULL;
  const tt_row_chunk *chunk;
  tt_err e = tt_row_predictor_open(&rows, &p);
  while (!e && !(e = tt_row_predictor_next(p, e, &chunk)) && chunk)
    compute(r, chunk, mine + (size_t)((chunk->first - own->first) * r->each) * size);
  tt_row_predictor_close(&p);
  return e;
}

/* Collective. Numbers of `size` bytes of all rows of a split, at most `limit` of them a row:
 * *numbers [rows][each]. Owner of r->row and *numbers: the caller, also after an error. */
static tt_err compute_all(tt_comm *c, validation_reader *r, tt_split which, int64_t limit,
                          size_t size, compute_rows *compute, void **numbers)
{
  char *mine = NULL;
  tt_slice own = {0, 0};
  tt_err e = list_rows(r, which, limit);
  if (!e) {
    own = tt_row_predictor_slice(r->rows, TT_PREDICTOR_ROWS, tt_comm_ranks(c), tt_comm_rank(c));
    e = tt_alloc_bytes(&mine, own.count * r->each, size, "numbers of rows");
  }
  if (!e) e = tt_alloc_bytes(numbers, r->rows * r->each, size, "numbers of all rows");
  e = tt_agree(c, e);
  if (!e) e = predict(c, r, size, compute, &own, mine);
  if (!e) tt_allgatherv(c, mine, own.count * r->each * (int64_t)size, *numbers, NULL);
  tt_free(mine);
  return e;
}

static validation_reader reader_of(const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  return (validation_reader){.v = v,
                             .all = all,
                             .width = tt_trained_ensemble_width(all),
                             .columns = tt_trained_ensemble_columns(all),
                             .parts = tt_member_prediction_size(&all->model)};
}

/* Normalized label of target k of ensemble e; NaN if the row is unlabeled or not selected. */
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

/* Pack the predictions of all members for row r of a chunk into part [K][G][parts]. */
static void pack_row(const validation_reader *r, const tt_row_chunk *chunk, int64_t row,
                     float *part)
{
  const tt_trained_ensemble *all = r->all;
  const tt_model *m = &all->model;
  const float *members = chunk->of->members;
  for (int64_t e = 0; e < all->ensembles; e++)
    for (int64_t k = 0; k < tt_trained_ensemble_targets(all); k++) {
      double y = label(r, e, k, chunk->first + row);
      const tt_ensemble *own = &all->ensemble[e];
      for (int64_t g = own->first; g < own->first + own->members; g++) {
        int64_t offset = tt_prediction_place(r->width, chunk->rows, g, k * m->quantities, row);
        tt_member_prediction_pack(m, members + offset, members + offset + r->width * chunk->rows,
                                  chunk->rows, y, part + (k * all->members + g) * r->parts);
      }
    }
}

/* part [rows][K][G][parts] */
static void pack_rows(const validation_reader *r, const tt_row_chunk *chunk, void *part)
{
  for (int64_t i = 0; i < chunk->rows; i++) pack_row(r, chunk, i, (float *)part + i * r->each);
}

/* The first member of each network, and the number of members: unit[networks + 1]. The folds of a
 * network are parts of one cohort. Returns the number of networks, 0 for one alone. */
static int64_t list_networks(const tt_trained_ensemble *all, int64_t *unit)
{
  int64_t units = 0;
  for (int64_t n = 0; n < all->networks; n++) {
    int64_t first = all->network[n].first;
    if (n == 0 || all->cohort[first] != all->cohort[first - 1]) unit[units++] = first;
  }
  unit[units] = all->members;
  return units;
}

/* "plain 40 %, wide 60 %": shares of the weights of the networks with a label.
 *   unit  [networks + 1] scratch */
static void log_networks(const tt_trained_ensemble *all, int64_t *unit)
{
  char text[512] = "", one[TT_LABEL_SIZE + 16];
  double sum = 0.0;
  int64_t units = list_networks(all, unit);
  for (int64_t i = 0; i < all->members; i++) sum += all->weight[i];
  for (int64_t n = 0, u = 0; u < units; u++) {
    double part = 0.0;
    while (all->network[n].first < unit[u]) n++;
    if (!*all->network[n].label) return;
    for (int64_t i = unit[u]; i < unit[u + 1]; i++) part += all->weight[i];
    snprintf(one, sizeof one, "%s %.0f %%", all->network[n].label, 100.0 * part / sum);
    tt_text_append(text, sizeof text, ", ", one);
  }
  if (*text) tt_log_root(TT_LOG_INFO, "ensemble %s: weights %s", all->ensemble->name, text);
}

/* Whether the networks are weighted on out-of-fold rows: the training rows, of which members
 * predict the fold that they left out. */
static int uses_folds(const validation_reader *r)
{
  const tt_config *cfg = r->v->cfg;
  int64_t k = 0;
  while (cfg->ensemble[k].number != r->all->ensemble->number) k++;
  return tt_config_weighs_folds(cfg, &cfg->ensemble[k]);
}

/* Keep, of part [rows][K][G][parts], the predictions of members for the fold that they left out;
 * the others become NaN. */
static tt_err keep_out_of_fold(const validation_reader *r, float *part)
{
  const tt_trained_ensemble *all = r->all;
  int64_t targets = tt_trained_ensemble_targets(all), folds = r->v->cohort->folds;
  int16_t *fold = NULL;
  TT_TRY(TT_ALLOC(fold, r->v->data->rows));
  tt_err e = TT_OK;
  for (int64_t k = 0; !e && k < folds; k++) {
    int32_t *row = NULL;
    int64_t count = 0;
    e = tt_cohort_rows(r->v->cohort, r->v->data, k, TT_VALIDATION, &row, &count);
    for (int64_t i = 0; !e && i < count; i++) fold[row[i]] = (int16_t)(k + 1); /* 0: in no fold */
    tt_free(row);
  }
  for (int64_t i = 0; !e && i < r->rows * targets * all->members; i++)
    if (all->index[i % all->members] % folds + 1 != fold[r->row[i / (targets * all->members)]])
      part[i * r->parts] = NAN;
  tt_free(fold);
  return e;
}

/* A cell counts if all networks predict it. */
static int is_predicted(const validation_reader *r, const float *part, int64_t units,
                        const int64_t *unit, int64_t cell)
{
  for (int64_t u = 0; u < units; u++) {
    int used = 0;
    for (int64_t i = unit[u]; i < unit[u + 1]; i++)
      used |= r->all->status[i] != TT_STATUS_diverged &&
              !isnan(part[(cell * r->all->members + i) * r->parts]);
    if (!used) return 0;
  }
  return 1;
}

static tt_err combine_ensemble_local(const validation_reader *r, const float *part, int64_t e,
                                     double *y, float *weight, int8_t *alive, int64_t *unit)
{
  const tt_config *cfg = r->v->cfg;
  tt_trained_ensemble *all = r->all;
  const tt_ensemble *own = &all->ensemble[e];
  int64_t targets = tt_trained_ensemble_targets(all);
  tt_model model = all->model; /* of the predictions */
  double loss = NAN;
  tt_watchdog_heartbeat_local("combining members");
  int64_t units = cfg->combine_unit == TT_COMBINE_UNIT_network ? list_networks(all, unit) : 0;
  for (int64_t i = 0; i < r->rows * targets; i++) {
    y[i] = is_predicted(r, part, units, unit, i) ? label(r, e, i % targets, i / targets) : NAN;
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
                             .units = units,
                             .unit = unit,
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
  log_networks(all, unit);
  return TT_OK;
}

static tt_err combine_all_local(const validation_reader *r, float *part)
{
  double *y = NULL;
  float *weight = NULL;
  int8_t *alive = NULL;
  int64_t *unit = NULL;
  int64_t cells = r->rows * tt_trained_ensemble_targets(r->all);
  tt_err e = TT_ALLOC(y, cells);
  if (!e) e = TT_ALLOC(weight, cells);
  if (!e) e = TT_ALLOC(alive, r->all->members);
  if (!e) e = TT_ALLOC(unit, r->all->networks + 1);
  if (!e && uses_folds(r)) e = keep_out_of_fold(r, part);
  for (int64_t i = 0; !e && i < r->all->ensembles; i++)
    e = combine_ensemble_local(r, part, i, y, weight, alive, unit);
  tt_free_all(&y, &weight, &alive, &unit);
  return e;
}

tt_err tt_combine_members(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  validation_reader r = reader_of(v, all);
  void *part = NULL;
  r.each = tt_trained_ensemble_targets(all) * all->members * r.parts;
  if (v->cfg->combine_method == TT_COMBINE_mean) return TT_OK;
  tt_split which = uses_folds(&r) ? TT_TRAIN : TT_VALIDATION;
  tt_err e = compute_all(c, &r, which, r.each, sizeof(float), pack_rows, &part);
  if (!e) e = tt_agree(c, combine_all_local(&r, part));
  tt_free_all(&part, &r.row);
  return e;
}

/* Prediction of column j of ensemble e in row i of a chunk; for j = 0 first by members out of bag.
 */
static tt_uncertainty spread_at(const validation_reader *r, const tt_row_chunk *chunk, int64_t i,
                                int64_t e, int64_t j)
{
  const tt_postprocess_context *v = r->v;
  if (!r->unseen) return tt_moments_at(chunk->of->moments, i, e * r->width + j);
  if (j == 0)
    tt_moments_of_used(r->unseen, chunk->of, &r->all->ensemble[e], i, v->unseen, v->unseen_by,
                       r->row[chunk->first + i]);
  return tt_moments_at(r->unseen, 0, j);
}

/* Normalized mean and standard deviation of every column: numbers [rows][2][C]. */
static void compute_spreads(const validation_reader *r, const tt_row_chunk *chunk, void *numbers)
{
  double *dst = numbers;
  for (int64_t i = 0; i < chunk->rows; i++)
    for (int64_t j = 0; j < r->columns; j++) {
      tt_uncertainty uncertainty = spread_at(r, chunk, i, j / r->width, j % r->width);
      dst[2 * i * r->columns + j] = uncertainty.mean;
      dst[(2 * i + 1) * r->columns + j] = uncertainty.total;
    }
}

/* Members without a noise of their own get one, and with recalibrate: all others a factor. */
static tt_recalibrate recalibrate_of(const validation_reader *r)
{
  const tt_config *cfg = r->v->cfg;
  tt_recalibrate asked = (tt_recalibrate)cfg->calibration_recalibrate;
  int here = asked == TT_RECALIBRATE_all || tt_calibration_needs_noise(&r->all->model);
  return here && !*cfg->data_sigma ? asked : TT_RECALIBRATE_none;
}

/* Number of the n rows that chose the best epoch of a member of e: with kfold its fold, else the
 * validation rows. */
static int64_t rows_that_chose(const validation_reader *r, const tt_ensemble *e, int64_t n)
{
  const tt_cohort *c = r->v->cohort;
  int64_t folds = tt_min_i64(c->folds, e->members); /* that are left out */
  if (c->resample == TT_RESAMPLE_kfold) return r->unseen ? tt_max_i64(n / folds, 1) : 0;
  return r->unseen ? 0 : n;
}

static void log_calibration(const validation_reader *r, int64_t e, int64_t k, int64_t column)
{
  const tt_trained_ensemble *all = r->all;
  const tt_calibration *calibration = &all->calibration;
  const char *target = all->target.name[all->ensemble[e].column[k]];
  if (recalibrate_of(r) != TT_RECALIBRATE_none)
    tt_log_root(r->columns > MANY_COLUMNS ? TT_LOG_DEBUG : TT_LOG_INFO,
                "ensemble %s, %s: standard deviations times %.4g, noise %.4g of the normalized "
                "target, from %" PRId64 " %s",
                all->ensemble[e].name, target, calibration->std_scale[column],
                calibration->noise[column], calibration->rows[column],
                r->unseen ? "rows out of bag" : "validation rows");
  for (int64_t i = 0; i < calibration->levels; i++)
    if (isinf(calibration->width[i * calibration->columns + column]))
      tt_log_root(TT_LOG_WARN,
                  "ensemble %s, %s: the %g %% interval is infinite: %" PRId64
                  " validation rows, at least %" PRId64 " are needed",
                  all->ensemble[e].name, target, 100.0 * calibration->level[i],
                  calibration->rows[column], tt_conformal_min_rows(calibration->level[i]));
}

/* Calibrate target k of ensemble e.
 *   src      [rows][2][C] of compute_spreads
 *   scratch  [rows * (q + 3)] */
static tt_err calibrate_target(const validation_reader *r, int64_t e, int64_t k, const double *src,
                               double *scratch)
{
  const tt_model *m = &r->all->model;
  int64_t first = e * r->width + k * m->quantities, n = 0;
  tt_watchdog_heartbeat_local("fitting standard deviations");
  double *y = scratch, *sd = y + r->rows, *weight = sd + r->rows, *quantity = weight + r->rows;
  for (int64_t i = 0; i < r->rows; i++) {
    const double *mean = src + 2 * i * r->columns + first;
    double truth = label(r, e, k, i);
    weight[n] = row_weight(r, i);
    if (isnan(truth) || isnan(mean[0]) || !(weight[n] > 0.0)) continue;
    y[n] = truth;
    sd[n] = mean[r->columns];
    for (int32_t j = 0; j < m->quantities; j++) quantity[n * m->quantities + j] = mean[j];
    n++;
  }
  tt_calibration_data v = {n, y, quantity, sd, weight, rows_that_chose(r, &r->all->ensemble[e], n)};
  TT_TRY(tt_calibration_fit(&r->all->calibration, m, first, recalibrate_of(r), &v));
  log_calibration(r, e, k, first);
  return TT_OK;
}

static tt_err calibrate_local(const validation_reader *r, const double *src)
{
  const tt_real_list *levels = &r->v->cfg->calibration_conformal;
  double *scratch = NULL;
  TT_TRY(tt_calibration_create(r->columns, levels->count, levels->value, &r->all->calibration));
  TT_TRY(TT_ALLOC(scratch, r->rows * (r->all->model.quantities + 3)));
  tt_err err = TT_OK;
  for (int64_t e = 0; !err && e < r->all->ensembles; e++)
    for (int64_t k = 0; !err && k < tt_trained_ensemble_targets(r->all); k++)
      err = calibrate_target(r, e, k, src, scratch);
  tt_free(scratch);
  return err;
}

tt_err tt_calibrate(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  validation_reader r = reader_of(v, all);
  void *spreads = NULL;
  int64_t levels = v->cfg->calibration_conformal.count, limit = 2 * r.columns;
  int few = !levels && count_rows(v->data, TT_VALIDATION) < TT_NOISE_ROWS;
  tt_split which = few && v->unseen ? TT_TRAIN : TT_VALIDATION;
  r.each = limit;
  if (!levels && recalibrate_of(&r) == TT_RECALIBRATE_auto)
    limit = tt_max_i64(limit, MAX_VALUES / FEW_ROWS);
  if (!levels && (recalibrate_of(&r) == TT_RECALIBRATE_none || !count_rows(v->data, which)))
    return TT_OK;
  tt_err e = which == TT_TRAIN ? tt_moments_create(1, r.width, &r.unseen) : TT_OK;
  e = tt_agree(c, e);
  if (!e) e = compute_all(c, &r, which, limit, sizeof(double), compute_spreads, &spreads);
  if (!e) e = tt_agree(c, calibrate_local(&r, spreads));
  tt_free_all(&spreads, &r.row);
  tt_moments_destroy(&r.unseen);
  return e;
}

/* Squares of the normalized epistemic standard deviations: numbers [rows][C]. */
static void compute_epistemic(const validation_reader *r, const tt_row_chunk *chunk, void *numbers)
{
  double *dst = numbers;
  for (int64_t i = 0; i < chunk->rows * r->columns; i++) {
    double sd = tt_moments_at(chunk->of->moments, i / r->columns, i % r->columns).epistemic;
    dst[i] = sd * sd;
  }
}

tt_err tt_measure_epistemic(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all)
{
  validation_reader r = reader_of(v, all);
  void *squares = NULL;
  r.each = r.columns;
  tt_err e = tt_agree(c, TT_ALLOC(all->typical_epistemic, r.columns));
  if (!e)
    e = compute_all(c, &r, TT_TRAIN, MAX_VALUES / FEW_ROWS, sizeof(double), compute_epistemic,
                    &squares);
  if (!e) {
    for (int64_t i = 0; i < r.rows * r.columns; i++)
      all->typical_epistemic[i % r.columns] += ((double *)squares)[i] / (double)r.rows;
    for (int64_t k = 0; k < r.columns; k++)
      all->typical_epistemic[k] = sqrt(all->typical_epistemic[k]);
  }
  tt_free_all(&squares, &r.row);
  return e;
}
