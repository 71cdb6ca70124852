/* score_rows.c — see score_rows.h. */
#include "src/score/score_rows.h"

#include "core/base/mem.h"
#include "core/stats/calibration.h"
#include "core/stats/metrics.h"
#include "src/host/watchdog.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>

/* Doubles per target of an ensemble: tally, tally of members' errors, weights inside intervals. */
static int64_t ensemble_sums(const tt_scorer *s)
{
  return s->tally + TT_TALLY_ERRORS + s->model->calibration.levels;
}

tt_err tt_scorer_create(tt_scorer *s, int table)
{
  const tt_trained_ensemble *c = s->model;
  int64_t columns = tt_trained_ensemble_columns(c);
  s->targets = tt_trained_ensemble_targets(c);
  s->width = tt_trained_ensemble_width(c);
  s->tally = tt_tally_size(&c->model);
  s->sums = (c->members * s->tally + c->ensembles * ensemble_sums(s)) * s->targets;
  TT_TRY(TT_ALLOC(s->y, TT_SCORE_CHUNK_ROWS * c->target.count));
  TT_TRY(TT_ALLOC(s->weight, TT_SCORE_CHUNK_ROWS));
  if (s->source->read_variance_local)
    TT_TRY(TT_ALLOC(s->variance, TT_SCORE_CHUNK_ROWS * c->target.count));
  TT_TRY(tt_moments_create(1, s->width, &s->row));
  TT_TRY(TT_ALLOC(s->quantity, c->model.quantities));
  TT_TRY(TT_ALLOC(s->latent, c->model.quantities));
  TT_TRY(TT_ALLOC(s->part, 7 * c->members));
  TT_TRY(TT_ALLOC(s->errors, s->targets * TT_SCORE_CHUNK_ROWS));
  return table ? TT_ALLOC(s->table, TT_TEST_VARIABLE_COUNT * s->table_rows * columns) : TT_OK;
}

void tt_scorer_free(tt_scorer *s)
{
  tt_free_all(&s->y, &s->weight, &s->variance, &s->quantity, &s->latent, &s->part, &s->errors,
              &s->table);
  tt_moments_destroy(&s->row);
}

double *tt_scorer_member_tally(const tt_scorer *s, double *sums, int64_t member, int64_t k)
{
  return sums + (member * s->targets + k) * s->tally;
}

double *tt_scorer_ensemble_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k)
{
  double *of_ensembles = tt_scorer_member_tally(s, sums, s->model->members, 0);
  return of_ensembles + (e * s->targets + k) * ensemble_sums(s);
}

double *tt_scorer_error_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k)
{
  return tt_scorer_ensemble_tally(s, sums, e, k) + s->tally;
}

double *tt_scorer_weight_inside(const tt_scorer *s, double *sums, int64_t e, int64_t k)
{
  return tt_scorer_error_tally(s, sums, e, k) + TT_TALLY_ERRORS;
}

static double label(const tt_scorer *s, const tt_ensemble *e, int64_t k, int64_t r)
{
  return s->y[r * s->model->target.count + e->column[k]];
}

/* Variance of the error of a label, normalized. */
static double label_variance(const tt_scorer *s, const tt_ensemble *e, int64_t k, int64_t r)
{
  return s->variance ? s->variance[r * s->model->target.count + e->column[k]] : 0.0;
}

static int uses_member(const tt_scorer *s, int64_t row, int64_t member)
{
  return !s->source->uses_member_local ||
         s->source->uses_member_local(s->source->from, row, member);
}

/* Column of the first quantity of target k among those of its ensemble. */
static int64_t first_quantity(const tt_scorer *s, int64_t k)
{
  return k * s->model->model.quantities;
}

/* Scale of the columns of target k. */
static tt_column_scale target_scale(const tt_scorer *s, const tt_ensemble *e, int64_t k)
{
  int64_t column = (e - s->model->ensemble) * s->width + first_quantity(s, k);
  return tt_column_scale_of(s->model, column);
}

/* The label before the transform is undone. */
static void set_latent_label(const tt_column_scale *scale, double y, tt_latent *latent)
{
  latent->by = scale->by;
  latent->lambda = scale->lambda;
  latent->label = tt_transform_apply(scale->by, scale->lambda, y);
  latent->log_slope = log(tt_transform_slope(scale->by, scale->lambda, y));
}

static void add_member(const tt_scorer *s, const tt_ensemble *e, int64_t i, int64_t k,
                       double *tally)
{
  const tt_trained_ensemble *c = s->model;
  const tt_model *m = &c->model;
  tt_column_scale scale = target_scale(s, e, k);
  double share = c->weight[i];
  tt_latent latent = {.forecast = {.quantity = s->latent}};
  tt_forecast f = {.quantity = s->quantity, .reference = tt_denormalize_point(&scale, 0.0)};
  if (scale.by != TT_TRANSFORM_identity) f.latent = &latent;
  for (int64_t r = 0; r < s->of->moments->rows; r++) {
    double y = label(s, e, k, r);
    if (isnan(y)) continue;
    for (int32_t j = m->quantities - 1; j >= 0; j--) {
      double mean = tt_member_mean(s->of, i, first_quantity(s, k) + j, r);
      double own = tt_member_variance(s->of, i, first_quantity(s, k) + j, r);
      double v = own + label_variance(s, e, k, r); /* of the label, whose error has mean 0 */
      tt_transform_moments t = tt_denormalize_latent(&scale, mean, v);
      s->latent[j] = t.mean;
      s->quantity[j] = tt_denormalize_member(&scale, mean, own).mean;
      latent.forecast.variance = t.variance;
      f.variance = tt_denormalize_member(&scale, mean, v).variance;
    }
    set_latent_label(&scale, y, &latent);
    tt_tally_add(m, &f, y, s->weight[r], tally);
    if (share > 0.0) s->errors[k * TT_SCORE_CHUNK_ROWS + r] += share * tt_forecast_error(m, &f, y);
  }
}

/* Moments of row r: those of the engine, or those of the members used for the row. */
static const tt_moments *row_moments(const tt_scorer *s, const tt_ensemble *e, int64_t first,
                                     int64_t r)
{
  const tt_row_source *source = s->source;
  if (!source->uses_member_local) return s->of->moments;
  tt_moments_of_used(s->row, s->of, e, r, source->uses_member_local, source->from, first + r);
  return s->row;
}

/* Weight, normalized mean and variance [members] of quantity j of target k in row r; a member that
 * is not used for the row has weight 0.
 *   added  to each variance */
static void collect_members(const tt_scorer *s, const tt_ensemble *e, int64_t k, int32_t j,
                            int64_t row, int64_t r, double added, double *share, double *mean,
                            double *variance)
{
  for (int64_t i = 0; i < e->members; i++) {
    int64_t member = e->first + i, quantity = first_quantity(s, k) + j;
    share[i] = uses_member(s, row, member) ? s->model->weight[member] : 0.0;
    mean[i] = tt_member_mean(s->of, member, quantity, r);
    variance[i] = tt_member_variance(s->of, member, quantity, r) + added;
  }
}

/* Fill f with weight, mean and variance of each member in a row, recalibrated, if a metric of this
 * output needs the mixture. Of a transformed target, latent->forecast has the mixture before the
 * transform is undone, and f the means and variances after it. */
static void find_mixture(const tt_scorer *s, const tt_ensemble *e, int64_t k, int64_t row,
                         int64_t r, const tt_column_scale *scale, tt_latent *latent, tt_forecast *f)
{
  const tt_trained_ensemble *c = s->model;
  double added = label_variance(s, e, k, r); /* is not recalibrated */
  double *share = s->part, *mean = share + c->members, *variance = mean + c->members;
  double *latent_mean = s->part + 5 * c->members, *latent_variance = latent_mean + c->members;
  if (!(TT_DENSITY_FORECASTS >> tt_output_forecast(c->model.output) & 1u)) return;
  collect_members(s, e, k, 0, row, r, 0.0, share, latent_mean, latent_variance);
  tt_gaussian_mixture_recalibrate(scale->std_scale, scale->noise * scale->noise, e->members, share,
                                  latent_mean, latent_variance);
  for (int64_t i = 0; i < e->members; i++) {
    tt_transform_moments t =
        tt_denormalize_latent(scale, latent_mean[i], latent_variance[i] + added);
    tt_transform_moments user =
        tt_transform_undo_gaussian(scale->by, scale->lambda, t.mean, t.variance);
    latent_mean[i] = t.mean;
    latent_variance[i] = t.variance;
    mean[i] = user.mean;
    variance[i] = user.variance;
  }
  f->parts = latent->forecast.parts = e->members;
  f->share = latent->forecast.share = share;
  f->mean = mean;
  f->variances = variance;
  f->scratch = latent->forecast.scratch = variance + c->members;
  latent->forecast.mean = latent_mean;
  latent->forecast.variances = latent_variance;
}

/* Label of column j of a target with label y; for a class column 1 or 0. */
static double observed(const tt_model *m, int32_t j, double y)
{
  if (tt_output_forecast(m->output) != TT_FORECAST_categorical || isnan(y)) return y;
  return j == m->levels ? (double)NAN : y == j;
}

static double *table_cell(const tt_scorer *s, int variable, int64_t row, int64_t column)
{
  int64_t columns = tt_trained_ensemble_columns(s->model);
  return &s->table[(variable * s->table_rows + row - s->table_first) * columns + column];
}

/* Store the prediction of a column in data row `row`; NaN for what follows from the mixture. */
static void store_prediction(const tt_scorer *s, int64_t row, int64_t column, double y,
                             const tt_uncertainty *uncertainty)
{
  for (int v = 0; v < TT_TEST_VARIABLE_COUNT; v++) *table_cell(s, v, row, column) = NAN;
  *table_cell(s, TT_TEST_y, row, column) = y;
  *table_cell(s, TT_TEST_mean, row, column) = uncertainty->mean;
  *table_cell(s, TT_TEST_total, row, column) = uncertainty->total;
  *table_cell(s, TT_TEST_aleatoric, row, column) = uncertainty->aleatoric;
  *table_cell(s, TT_TEST_epistemic, row, column) = uncertainty->epistemic;
}

static void store_mixture(const tt_scorer *s, int64_t row, int64_t column, double y,
                          const tt_forecast *f)
{
  const tt_model *m = &s->model->model;
  *table_cell(s, TT_TEST_pit, row, column) = tt_forecast_pit(m, f, y);
  *table_cell(s, TT_TEST_z, row, column) = tt_forecast_z(m, f, y);
}

/* Count the conformal intervals of the target at `column` that contain the label, both before the
 * transform is undone. */
static void count_inside(const tt_scorer *s, const tt_latent *latent, int64_t column, double unit,
                         double weight, double *inside)
{
  const tt_calibration *k = &s->model->calibration;
  double low, high, y = latent->label;
  for (int64_t l = 0; l < k->levels; l++) {
    tt_calibration_interval(k, &s->model->model, l, column, latent->forecast.quantity,
                            sqrt(latent->forecast.variance), unit, &low, &high);
    inside[l] += weight * (y >= low && y <= high);
  }
}

/* Mean and standard deviations of quantity j in the user's units, of a transformed target.
 *   added  to the normalized variance of each member */
static tt_uncertainty undo_transform(const tt_scorer *s, const tt_ensemble *e, int64_t k, int32_t j,
                                     int64_t row, int64_t r, double added,
                                     const tt_column_scale *scale)
{
  double *share = s->part, *mean = share + e->members, *variance = mean + e->members;
  collect_members(s, e, k, j, row, r, added, share, mean, variance);
  return tt_denormalize_mixture(scale, e->members, share, mean, variance);
}

/* Fill in the moments of target k of ensemble `number` in row first + r. Returns 0 if no member is
 * used for the row. */
static int predict_row(const tt_scorer *s, int64_t number, int64_t k, int64_t first, int64_t r,
                       const tt_column_scale *scale, tt_latent *latent, tt_forecast *f)
{
  const tt_model *m = &s->model->model;
  const tt_ensemble *e = &s->model->ensemble[number];
  const tt_moments *src = row_moments(s, e, first, r);
  int64_t base = src == s->row ? 0 : number * s->width, row = src == s->row ? 0 : r;
  double added = label_variance(s, e, k, r); /* to the forecast that the label is compared with */
  for (int32_t j = 0; j < m->quantities; j++) {
    int64_t column = first_quantity(s, k) + j;
    tt_uncertainty t = tt_denormalize(scale, tt_moments_at(src, row, base + column)), at = t;
    if (f->latent) at = undo_transform(s, e, k, j, first + r, r, 0.0, scale);
    s->latent[j] = t.mean;
    s->quantity[j] = at.mean;
    if (j == 0) latent->forecast.variance = t.total * t.total, f->variance = at.total * at.total;
    if (s->table)
      store_prediction(s, first + r, number * s->width + column, observed(m, j, label(s, e, k, r)),
                       &at);
    if (j == 0 && added > 0.0) {
      latent->forecast.variance += added * scale->scale * scale->scale;
      f->variance = latent->forecast.variance;
      if (f->latent) at = undo_transform(s, e, k, j, first + r, r, added, scale);
      if (f->latent) f->variance = at.total * at.total;
    }
  }
  return src != s->row || src->weight[0] > 0.0;
}

/* Add row first + r to the tally of target k of ensemble `number`. */
static void add_row(const tt_scorer *s, int64_t number, int64_t k, int64_t first, int64_t r,
                    double *tally)
{
  const tt_trained_ensemble *c = s->model;
  const tt_ensemble *e = &c->ensemble[number];
  double y = label(s, e, k, r), weight = s->weight[r];
  int64_t column = number * s->width + first_quantity(s, k);
  tt_column_scale scale = target_scale(s, e, k);
  tt_latent latent = {.forecast = {.quantity = s->latent}};
  tt_forecast f = {.quantity = s->quantity, .reference = tt_denormalize_point(&scale, 0.0)};
  if (scale.by != TT_TRANSFORM_identity) f.latent = &latent;
  if (!predict_row(s, number, k, first, r, &scale, &latent, &f) || isnan(y)) return;
  set_latent_label(&scale, y, &latent);
  find_mixture(s, e, k, first + r, r, &scale, &latent, &f);
  tt_tally_add(&c->model, &f, y, weight, tally);
  count_inside(s, &latent, column, scale.scale, weight, tally + s->tally + TT_TALLY_ERRORS);
  if (s->table) store_mixture(s, first + r, column, y, &f);
}

/* A label that the transform of its target refuses. */
static tt_err untransformable(const tt_scorer *s, int32_t target, double y, int64_t row)
{
  tt_normalize normalize = (tt_normalize)s->model->scaler.y_normalize[target];
  return TT_FAIL(DATA,
                 "target '%s' is %.9g in row %" PRId64 "; the model normalizes it by %s, which "
                 "needs a value %s",
                 s->model->target.name[target], y, row, tt_choice_normalize[normalize],
                 tt_transform_wants(tt_normalize_transform(normalize)));
}

static tt_err check_labels(const tt_scorer *s, int64_t first, int64_t rows)
{
  const tt_trained_ensemble *c = s->model;
  const char *want;
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t k = 0; k < s->targets; k++)
      for (int64_t r = 0; r < rows; r++) {
        double y = label(s, &c->ensemble[e], k, r);
        if (isnan(y)) continue;
        if (!tt_transform_accepts(target_scale(s, &c->ensemble[e], k).by, y))
          return untransformable(s, c->ensemble[e].column[k], y, first + r);
        if (tt_label_is_valid(&c->model, y, &want)) continue;
        return TT_FAIL(DATA, "target '%s' is %.9g in row %" PRId64 "; with output %s it must be %s",
                       c->target.name[c->ensemble[e].column[k]], y, first + r,
                       tt_choice_output[c->model.output], want);
      }
  return TT_OK;
}

static void add_ensemble(tt_scorer *s, int64_t number, int64_t k, int64_t first, double *sums)
{
  int64_t rows = s->of->moments->rows;
  const tt_ensemble *e = &s->model->ensemble[number];
  double *errors = s->errors + k * TT_SCORE_CHUNK_ROWS;
  for (int64_t r = 0; r < rows; r++) errors[r] = 0.0;
  for (int64_t i = e->first; !s->source->uses_member_local && i < e->first + e->members; i++)
    add_member(s, e, i, k, tt_scorer_member_tally(s, sums, i, k));
  for (int64_t r = 0; r < rows; r++) {
    tt_watchdog_heartbeat_local("scoring"); /* crps takes long with many members */
    add_row(s, number, k, first, r, tt_scorer_ensemble_tally(s, sums, number, k));
    if (!isnan(label(s, e, k, r)))
      tt_tally_add_error(errors[r], s->weight[r], tt_scorer_error_tally(s, sums, number, k));
  }
}

tt_err tt_scorer_read_local(void *scorer, int64_t first, int64_t rows, float *x)
{
  tt_scorer *s = scorer;
  TT_TRY(s->source->read_local(s->source->from, first, rows, x, s->y, s->weight));
  if (s->variance) s->source->read_variance_local(s->source->from, first, rows, s->variance);
  return TT_OK;
}

tt_err tt_scorer_add_chunk(tt_scorer *s, const tt_row_chunk *chunk, double *sums)
{
  const tt_trained_ensemble *c = s->model;
  s->of = chunk->of;
  TT_TRY(check_labels(s, chunk->first, chunk->rows));
  for (int64_t e = 0; chunk->rows > 0 && e < c->ensembles; e++)
    for (int64_t k = 0; k < s->targets; k++) add_ensemble(s, e, k, chunk->first, sums);
  return TT_OK;
}
