/* pool_scorer.c — see pool_scorer.h. */
#include "src/campaign/pool/pool_scorer.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

/* The units of the scores of a target: value = normalized * scale + offset. */
typedef struct target_units {
  double scale, offset, target_zero, best;
  double spread; /* factor from normalized epistemic_std to the user's units */
} target_units;

/* One ensemble of the model. */
typedef struct scored_ensemble {
  const tt_trained_ensemble *m;
  const tt_ensemble *e;
  int64_t trained;      /* index of its trained ensemble in the model */
  int64_t config_index; /* index in the campaign's file */
  int64_t column;       /* its first column among those of its trained ensemble */
  int64_t first_column; /* its first column among those of the model */
} scored_ensemble;

struct tt_pool_scorer {
  const tt_score_pool_args *s;
  tt_acquisition_settings rule;
  const tt_ensemble_prediction *of; /* of the present chunk */
  int64_t ensembles, columns, lists;
  int64_t scored_ensembles;
  scored_ensemble *scored_ensemble;
  target_units *target_units; /* [T] */
  const char **name;          /* [E] borrowed from cfg */
  double *weight;   /* [E] of the ensembles, for score.ensemble_reduction; 1 if none are given */
  int64_t capacity; /* doubles of scratch per thread */
  double
      *scratch; /* [threads][capacity]: scores [E], then of targets [K], then values of members */
};

void tt_partial_sum_add(tt_partial_sum *t, double x)
{
  if (!isfinite(x)) return;
  t->sum += x;
  t->count++;
}

/* Columns of the ensembles */

static tt_err find_config_index_local(const tt_config *cfg, const tt_ensemble *e,
                                      int64_t *config_index)
{
  for (int64_t k = 0; k < cfg->ensembles; k++) {
    *config_index = cfg->ensemble[k].number;
    if (!strcmp(cfg->ensemble[k].name, e->name)) return TT_OK;
  }
  return TT_FAIL(DATA, "the model has an ensemble '%s' that the campaign's file does not name",
                 e->name);
}

static tt_err check_ensemble_local(const tt_pool_scorer *j, const scored_ensemble *s)
{
  const char *name = tt_choice_acquisition[j->rule.by];
  char fitting[256];
  if (!tt_acquisition_supports(j->rule.by, s->m->model.output)) {
    tt_acquisition_list_supported(s->m->model.output, fitting, sizeof fitting);
    return TT_FAIL(
        DATA, "score.acquisition: %s does not fit ensemble '%s', whose output is %s; choose %s",
        name, s->e->name, tt_choice_output[s->m->model.output], fitting);
  }
  for (int64_t k = 0; tt_acquisition_needs(j->rule.by) & TT_NEEDS_BEST_LABEL && k < s->e->targets;
       k++)
    if (!isfinite(j->s->best[s->e->column[k]]))
      return TT_FAIL(DATA,
                     "score.acquisition: %s needs the best label so far, but target '%s' has no "
                     "label yet",
                     name, s->m->target.name[s->e->column[k]]);
  if (!tt_acquisition_needs(j->rule.by)) return TT_OK;
  for (int64_t i = s->e->first; i < s->e->first + s->e->members; i++)
    if (s->m->weight[i] > 0.0) return TT_OK;
  return TT_FAIL(DIVERGED,
                 "all %" PRId64 " members of ensemble '%s' diverged: no member is left to score "
                 "the pool",
                 s->e->members, s->e->name);
}

static tt_err map_ensembles_local(tt_pool_scorer *j)
{
  const tt_trained_ensembles *all = j->s->model;
  for (int64_t i = 0; i < all->count; i++) j->scored_ensembles += all->at[i]->ensembles;
  if (j->scored_ensembles != j->ensembles)
    return TT_FAIL(DATA, "the model has %" PRId64 " ensembles, the campaign's file %" PRId64,
                   j->scored_ensembles, j->ensembles);
  TT_TRY(TT_ALLOC(j->scored_ensemble, j->scored_ensembles));
  scored_ensemble *s = j->scored_ensemble;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++, s++) {
      int64_t width = tt_trained_ensemble_width(all->at[i]);
      *s = (scored_ensemble){all->at[i], &all->at[i]->ensemble[e], i, 0, e * width, j->columns};
      j->columns += width;
      TT_TRY(find_config_index_local(j->s->cfg, s->e, &s->config_index));
      TT_TRY(check_ensemble_local(j, s));
    }
  return TT_OK;
}

/* Memory */

int tt_pool_scorer_needs_members(const tt_pool_scorer *j, const tt_trained_ensemble *m)
{
  return tt_acquisition_uses_members(j->rule.by, m->model.output);
}

static int64_t scratch_size(const tt_pool_scorer *j)
{
  int64_t max_capacity = 0;
  for (int64_t i = 0; i < j->scored_ensembles; i++) {
    const scored_ensemble *s = &j->scored_ensemble[i];
    int64_t classes = s->m->model.levels > 2 ? s->m->model.levels : 2;
    int64_t capacity = s->e->targets + s->e->members * (1 + classes) + classes;
    max_capacity = tt_max_i64(max_capacity, capacity);
  }
  return tt_round_up(j->ensembles + max_capacity, 8); /* whole cache lines: threads share none */
}

/* Predictions are Gaussian in units of the normalized target: scores are not computed in others. */
static tt_err check_target_local(const tt_pool_scorer *j, int64_t t)
{
  const tt_config *cfg = j->s->cfg;
  const tt_trained_ensemble *m = j->s->model->at[0];
  tt_normalize normalize = (tt_normalize)m->scaler.y_normalize[t];
  if (tt_normalize_transform(normalize) == TT_TRANSFORM_identity) return TT_OK;
  if (cfg->score_scaled && !(tt_acquisition_needs(j->rule.by) & TT_NEEDS_FLOOR)) return TT_OK;
  return TT_FAIL(CONFIG,
                 "%s needs scores in the units of target '%s', which data.normalize transforms by "
                 "%s; use %s",
                 cfg->score_scaled ? tt_choice_acquisition[j->rule.by] : "score.scaled: false",
                 m->target.name[t], tt_choice_normalize[normalize],
                 cfg->score_scaled ? "epistemic_std" : "score.scaled: true");
}

static tt_err set_target_units_local(tt_pool_scorer *j)
{
  const tt_scaler *scaler = &j->s->model->at[0]->scaler;
  int scaled = j->s->cfg->score_scaled;
  TT_TRY(TT_ALLOC(j->target_units, scaler->targets));
  for (int64_t t = 0; t < scaler->targets; t++) {
    TT_TRY(check_target_local(j, t));
    double scale = scaler->y_scale[t], mean = scaler->y_mean[t];
    double best = j->s->best ? j->s->best[t] : NAN;
    double scaled_best = tt_scaler_normalize_target(scaler, t, best);
    j->target_units[t] = scaled ? (target_units){1.0, 0.0, -mean / scale, scaled_best, scale}
                                : (target_units){scale, mean, 0.0, best, scale};
  }
  return TT_OK;
}

static tt_err allocate_local(tt_pool_scorer *j)
{
  const tt_config *cfg = j->s->cfg;
  TT_TRY(TT_ALLOC(j->weight, j->ensembles));
  TT_TRY(TT_ALLOC(j->name, j->ensembles));
  for (int64_t k = 0; k < cfg->ensembles; k++)
    j->name[cfg->ensemble[k].number] = cfg->ensemble[k].name;
  for (int64_t e = 0; e < j->ensembles; e++)
    j->weight[e] = cfg->score_weights.count ? cfg->score_weights.value[e] : 1.0;
  j->capacity = scratch_size(j);
  return TT_ALLOC(j->scratch, j->s->use->threads * j->capacity);
}

static tt_err init_local(tt_pool_scorer *j)
{
  const tt_config *cfg = j->s->cfg;
  j->rule = (tt_acquisition_settings){(tt_acquisition)cfg->score_acquisition,
                                      (tt_goal)cfg->score_goal, cfg->score_floor, cfg->score_kappa};
  j->ensembles = tt_config_ensembles(cfg);
  j->lists = cfg->score_ensemble_reduction == TT_ENSEMBLE_REDUCTION_quota ? j->ensembles : 1;
  TT_TRY(map_ensembles_local(j));
  TT_TRY(set_target_units_local(j));
  return allocate_local(j);
}

tt_err tt_pool_scorer_create_local(const tt_score_pool_args *s, tt_pool_scorer **out)
{
  tt_pool_scorer *j = NULL;
  TT_TRY(TT_ALLOC(j, 1));
  j->s = s;
  tt_err e = init_local(j);
  if (e)
    tt_pool_scorer_destroy_local(&j);
  else
    *out = j;
  return e;
}

void tt_pool_scorer_destroy_local(tt_pool_scorer **scorer)
{
  tt_pool_scorer *j = *scorer;
  if (!j) return;
  tt_free_all(&j->scored_ensemble, &j->target_units, &j->name, &j->weight, &j->scratch, scorer);
}

int64_t tt_pool_scorer_lists(const tt_pool_scorer *j) { return j->lists; }
const char *const *tt_pool_scorer_names(const tt_pool_scorer *j) { return j->name; }
int64_t tt_pool_scorer_columns(const tt_pool_scorer *j) { return j->columns; }

/* Scores */

/* The prediction and weight of each member for target k in row r: sets o->member and
 * o->member_weight, which point into member_scratch. */
static void read_member_predictions(const scored_ensemble *s,
                                    const tt_ensemble_prediction *prediction, int64_t k, int64_t r,
                                    const target_units *u, double *member_scratch,
                                    tt_prediction_stats *o)
{
  const tt_model *m = &s->m->model;
  int64_t n = s->e->members, first = k * m->quantities;
  double *member_weight = member_scratch, *member_value = member_scratch + n;
  for (int64_t i = 0; i < n; i++) {
    int64_t member = s->e->first + i;
    member_weight[i] = s->m->weight[member];
    if (tt_output_forecast(m->output) == TT_FORECAST_bernoulli) {
      double p = tt_member_mean(prediction, member, first, r);
      member_value[2 * i] = 1.0 - p;
      member_value[2 * i + 1] = p;
    } else if (o->classes) {
      for (int32_t c = 0; c < o->classes; c++)
        member_value[i * o->classes + c] = tt_member_mean(prediction, member, first + c, r);
    } else {
      int64_t point = first + tt_model_point_quantity(m);
      member_value[i] = tt_member_mean(prediction, member, point, r) * u->scale + u->offset;
    }
  }
  o->members = n;
  o->member_weight = member_weight;
  o->member = member_value;
}

/* Set the class probabilities and, if needed, the mean entropy of the members.
 *   mean  ensemble means of the quantities of the target
 *   p     [2] scratch for the two probabilities of a Bernoulli output */
static void set_class_stats(const tt_pool_scorer *j, const scored_ensemble *s, int64_t k, int64_t r,
                            const double *mean, double *p, tt_prediction_stats *o)
{
  int bernoulli = tt_output_forecast(s->m->model.output) == TT_FORECAST_bernoulli;
  o->classes = bernoulli ? 2 : s->m->model.levels;
  o->p = mean;
  if (bernoulli) {
    p[0] = 1.0 - mean[0];
    p[1] = mean[0];
    o->p = p;
  }
  if (tt_acquisition_needs(j->rule.by) & TT_NEEDS_MEMBER_ENTROPY)
    o->member_entropy = tt_mean_member_entropy(&j->of[s->trained], s->e, k, r, mean);
}

/* Score of target k of an ensemble in row r; adds the spread of its columns to the sums. */
static double target_score(tt_pool_scorer *j, const scored_ensemble *s, int64_t k, int64_t r,
                           tt_partial_sum *sums, double *member_scratch)
{
  const tt_ensemble_prediction *q = &j->of[s->trained];
  const tt_model *m = &s->m->model;
  const target_units *u = &j->target_units[s->e->column[k]];
  int64_t first = k * m->quantities, column = s->column + first;
  const double *mean = q->moments->mean + r * q->moments->columns + column;
  tt_prediction_stats o = {.target_zero = u->target_zero, .best = u->best};
  int32_t point = tt_model_point_quantity(m);
  for (int32_t i = 0; i < m->quantities; i++) {
    tt_uncertainty uncertainty = tt_moments_at(q->moments, r, column + i);
    tt_partial_sum_add(&sums[s->first_column + first + i], uncertainty.epistemic * u->spread);
    if (i != point) continue;
    o.mean = uncertainty.mean * u->scale + u->offset;
    o.total = uncertainty.total * u->scale;
    o.aleatoric = uncertainty.aleatoric * u->scale;
    o.epistemic = uncertainty.epistemic * u->scale;
  }
  if (!tt_acquisition_needs(j->rule.by)) return 0.0;
  int32_t classes = m->levels > 2 ? m->levels : 2;
  if (tt_output_is_class(m->output)) set_class_stats(j, s, k, r, mean, member_scratch, &o);
  if (q->members) read_member_predictions(s, q, k, r, u, member_scratch + classes, &o);
  return tt_acquisition_score(&j->rule, &o);
}

/* Scores of all ensembles in one row, in the order of the file: the first E values of scratch. */
static void score_row(tt_pool_scorer *j, int64_t row, int64_t r, tt_partial_sum *sums,
                      double *scratch)
{
  const tt_config *cfg = j->s->cfg;
  double *ensemble_score = scratch, *target = scratch + j->ensembles;
  for (int64_t i = 0; i < j->scored_ensembles; i++) {
    const scored_ensemble *s = &j->scored_ensemble[i];
    for (int64_t k = 0; k < s->e->targets; k++)
      target[k] = target_score(j, s, k, r, sums, target + s->e->targets);
    ensemble_score[s->config_index] =
        tt_reduce_target_scores((tt_target_reduction)cfg->score_target_reduction, s->e->targets,
                                target, cfg->score_target_weights.value);
  }
  if (!tt_acquisition_needs(j->rule.by))
    for (int64_t e = 0; e < j->ensembles; e++)
      ensemble_score[e] = tt_acquisition_random_score((uint64_t)cfg->run_seed, j->s->round, row);
}

/* Score rows [from, to), one unit, of the piece that begins with candidate `first`. */
static void score_rows(tt_pool_scorer *j, int64_t first, int64_t begin, int64_t end, int64_t rows,
                       const int8_t *skip, float *score, tt_partial_sum *sums, double *scratch)
{
  const tt_ensemble_reduction reduction =
      (tt_ensemble_reduction)j->s->cfg->score_ensemble_reduction;
  for (int64_t r = begin; r < end; r++) {
    if (skip[r]) {
      for (int64_t l = 0; l < j->lists; l++) score[l * rows + r] = NAN;
      continue;
    }
    score_row(j, first + r, r, sums, scratch);
    double all = tt_reduce_ensemble_scores(reduction, j->ensembles, scratch, j->weight);
    tt_partial_sum_add(&sums[j->columns], all);
    for (int64_t l = 0; l < j->lists; l++)
      score[l * rows + r] = tt_acquisition_score_to_float(j->lists > 1 ? scratch[l] : all);
  }
}

static double max_score(double score_max, int64_t cells, const float *score)
{
  for (int64_t i = 0; i < cells; i++)
    if ((double)score[i] > score_max) score_max = (double)score[i];
  return score_max;
}

void tt_pool_scorer_score(tt_pool_scorer *j, int64_t first, const tt_row_chunk *chunk,
                          const int8_t *skip, float *score, tt_partial_sum *sums, double *score_max)
{
  int64_t rows = chunk->rows, units = tt_ceil_div(rows, TT_POOL_SCORER_SUM_ROWS);
  int64_t each = j->columns + 1;
  j->of = chunk->of;
  memset(sums, 0, (size_t)(units * each) * sizeof *sums);
#pragma omp parallel for num_threads(j->s->use->threads) schedule(static)
  for (int64_t u = 0; u < units; u++) {
    int64_t begin = u * TT_POOL_SCORER_SUM_ROWS, end = begin + TT_POOL_SCORER_SUM_ROWS;
    score_rows(j, first, begin, tt_min_i64(end, rows), rows, skip, score, sums + u * each,
               j->scratch + omp_get_thread_num() * j->capacity);
  }
  *score_max = max_score(*score_max, j->lists * rows, score);
}
