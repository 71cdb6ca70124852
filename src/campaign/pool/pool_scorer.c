/* pool_scorer.c — see pool_scorer.h. */
#include "src/campaign/pool/pool_scorer.h"

#include "core/base/mem.h"
#include "src/predict/prediction_extras.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_ROWS = 65536 };
static const double memory = 2.56e8; /* bytes of predictions and inputs held at a time */
static const double work = 4e11;     /* floating point operations between two looks at the clock */

/* How the user counts a target: value = normalised * scale + offset. */
typedef struct unit {
  double scale, offset, zero, best;
  double spread; /* of epistemic_std in the user's units */
} unit;

/* One ensemble of the model. */
typedef struct seat {
  const tt_committee *m;
  const tt_ensemble *e;
  int64_t part;    /* number of its committee */
  int64_t place;   /* number in the campaign's file */
  int64_t column;  /* first of its columns among those of its committee */
  int64_t overall; /* and among those of all */
} seat;

/* What one committee predicts for the rows at hand. */
typedef struct part {
  tt_moments *moments;
  float *members; /* [G][2][K q][rows], or NULL */
} part;

struct tt_jury {
  const tt_pool_scoring *s;
  tt_score_rule rule;
  int64_t ensembles, columns, lists, rows;
  int64_t seats;
  seat *seat;
  part *part;      /* [committees] */
  unit *unit;      /* [T] */
  double *weight;  /* [E] of the ensembles, for score.combine; 1 where none are given */
  int64_t room;    /* of one scratch */
  double *scratch; /* [units][room]: scores [E], then of targets [K], then members' words */
};

void tt_running_add(tt_running *t, double x)
{
  if (!isfinite(x)) return;
  t->sum += x;
  t->count++;
}

/* ---- Who sits where ---- */

static tt_err place_of_local(const tt_config *cfg, const tt_ensemble *e, int64_t *place)
{
  for (*place = 0; *place < cfg->ensembles; (*place)++)
    if (!strcmp(cfg->ensemble[*place].name, e->name)) return TT_OK;
  return TT_FAIL(DATA, "the model has an ensemble '%s' that the campaign's file does not name",
                 e->name);
}

static tt_err check_seat_local(const tt_jury *j, const seat *s)
{
  const char *by = tt_choice_score[j->rule.by];
  char fitting[256];
  if (!tt_score_fits(j->rule.by, s->m->model.output)) {
    tt_score_fitting(s->m->model.output, fitting, sizeof fitting);
    return TT_FAIL(DATA, "score.by: %s does not fit ensemble '%s', whose output is %s; choose %s",
                   by, s->e->name, tt_choice_output[s->m->model.output], fitting);
  }
  for (int64_t k = 0; tt_score_needs_of(j->rule.by) & TT_NEEDS_BEST && k < s->e->targets; k++)
    if (!isfinite(j->s->best[s->e->column[k]]))
      return TT_FAIL(DATA, "score.by: %s: target '%s' has no label yet to be better than", by,
                     s->m->target.name[s->e->column[k]]);
  if (j->rule.by == TT_SCORE_random) return TT_OK;
  for (int64_t i = s->e->first; i < s->e->first + s->e->members; i++)
    if (s->m->weight[i] > 0.0) return TT_OK;
  return TT_FAIL(DIVERGED, "all %" PRId64 " members of ensemble '%s' diverged: nobody can score",
                 s->e->members, s->e->name);
}

static tt_err seat_all_local(tt_jury *j)
{
  const tt_committees *all = j->s->model;
  for (int64_t i = 0; i < all->count; i++)
    j->seats += all->at[i]->ensembles;
  if (j->seats != j->ensembles)
    return TT_FAIL(DATA, "the model has %" PRId64 " ensembles, the campaign's file %" PRId64,
                   j->seats, j->ensembles);
  TT_TRY(TT_ALLOC(j->seat, j->seats));
  seat *s = j->seat;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t e = 0; e < all->at[i]->ensembles; e++, s++) {
      int64_t width = tt_committee_width(all->at[i]);
      *s = (seat){all->at[i], &all->at[i]->ensemble[e], i, 0, e * width, j->columns};
      j->columns += width;
      TT_TRY(place_of_local(j->s->cfg, s->e, &s->place));
      TT_TRY(check_seat_local(j, s));
    }
  return TT_OK;
}

/* ---- Room ---- */

static int asks_members(const tt_jury *j, const tt_committee *m)
{
  return tt_score_asks_members(j->rule.by, m->model.output);
}

/* A piece is so long that it fits into memory, and is done before anybody gets impatient. */
static int64_t rows_at_a_time(const tt_jury *j)
{
  const tt_committees *all = j->s->model;
  double inputs = (double)all->at[0]->model.inputs, bytes = inputs * 12.0, flops = 0.0;
  bytes += (double)j->lists * 4.0 + (double)j->columns * 24.0;
  for (int64_t i = 0; i < all->count; i++) {
    const tt_committee *m = all->at[i];
    double members = (double)m->members;
    flops += 2.0 * members * (double)m->model.params;
    if (asks_members(j, m)) bytes += members * 8.0 * (double)tt_committee_width(m);
  }
  double most = j->s->most_rows > 0 ? (double)j->s->most_rows : MOST_ROWS;
  double fit = fmin(fmin(memory / bytes, work / flops), fmin(most, MOST_ROWS));
  int64_t units = (int64_t)fit / TT_JURY_UNIT;
  return (units < 1 ? 1 : units) * TT_JURY_UNIT;
}

static int64_t scratch_room(const tt_jury *j)
{
  int64_t most = 0;
  for (int64_t i = 0; i < j->seats; i++) {
    const seat *s = &j->seat[i];
    int64_t classes = s->m->model.levels > 2 ? s->m->model.levels : 2;
    int64_t room = s->e->targets + s->e->members * (1 + classes) + classes;
    if (room > most) most = room;
  }
  return j->ensembles + most;
}

static tt_err units_local(tt_jury *j)
{
  const tt_scaler *scaler = &j->s->model->at[0]->scaler;
  int scaled = j->s->cfg->score_scaled;
  TT_TRY(TT_ALLOC(j->unit, scaler->targets));
  for (int64_t t = 0; t < scaler->targets; t++) {
    double scale = scaler->y_scale[t], mean = scaler->y_mean[t];
    double best = j->s->best ? j->s->best[t] : NAN;
    j->unit[t] = scaled ? (unit){1.0, 0.0, -mean / scale, (best - mean) / scale, scale}
                        : (unit){scale, mean, 0.0, best, scale};
  }
  return TT_OK;
}

static tt_err allocate_local(tt_jury *j)
{
  const tt_committees *all = j->s->model;
  const tt_config *cfg = j->s->cfg;
  TT_TRY(TT_ALLOC(j->weight, j->ensembles));
  for (int64_t e = 0; e < j->ensembles; e++)
    j->weight[e] = cfg->score_weights.count ? cfg->score_weights.value[e] : 1.0;
  TT_TRY(TT_ALLOC(j->part, all->count));
  for (int64_t i = 0; i < all->count; i++) {
    const tt_committee *m = all->at[i];
    TT_TRY(tt_moments_create(j->rows, tt_committee_columns(m), &j->part[i].moments));
    if (asks_members(j, m))
      TT_TRY(TT_ALLOC(j->part[i].members, m->members * 2 * tt_committee_width(m) * j->rows));
  }
  j->room = scratch_room(j);
  return TT_ALLOC(j->scratch, j->rows / TT_JURY_UNIT * j->room);
}

static tt_err make_local(tt_jury *j)
{
  const tt_config *cfg = j->s->cfg;
  j->rule = (tt_score_rule){(tt_score_by)cfg->score_by, (tt_goal)cfg->score_goal, cfg->score_floor,
                            cfg->score_kappa};
  j->ensembles = cfg->ensembles;
  j->lists = cfg->score_combine == TT_JOIN_quota ? cfg->ensembles : 1;
  TT_TRY(seat_all_local(j));
  TT_TRY(units_local(j));
  j->rows = rows_at_a_time(j);
  return allocate_local(j);
}

tt_err tt_jury_create_local(const tt_pool_scoring *s, tt_jury **out)
{
  tt_jury *j = NULL;
  TT_TRY(TT_ALLOC(j, 1));
  j->s = s;
  tt_err e = make_local(j);
  if (e)
    tt_jury_destroy_local(&j);
  else
    *out = j;
  return e;
}

void tt_jury_destroy_local(tt_jury **jury)
{
  tt_jury *j = *jury;
  if (!j) return;
  for (int64_t i = 0; j->part && i < j->s->model->count; i++) {
    if (j->part[i].moments) j->part[i].moments->rows = j->rows;
    tt_moments_destroy(&j->part[i].moments);
    tt_free(j->part[i].members);
  }
  tt_free(j->part);
  tt_free(j->seat);
  tt_free(j->unit);
  tt_free(j->weight);
  tt_free(j->scratch);
  tt_free(*jury);
}

int64_t tt_jury_rows(const tt_jury *j) { return j->rows; }
int64_t tt_jury_lists(const tt_jury *j) { return j->lists; }
int64_t tt_jury_columns(const tt_jury *j) { return j->columns; }

/* ---- What they say ---- */

/* The quantity that stands for a target of one number. */
static int32_t quantity_of(const tt_model *m)
{
  int32_t best = 0;
  for (int32_t i = 1; m->output == TT_OUTPUT_quantiles && i < m->levels; i++)
    if (fabsf(m->level[i] - 0.5f) < fabsf(m->level[best] - 0.5f)) best = i;
  return best;
}

static int has_classes(const tt_model *m)
{
  return m->output == TT_OUTPUT_softmax || m->output == TT_OUTPUT_sigmoid;
}

/* What each member says of target k in row r, and its share: o->member and o->share in `words`. */
static void hear_members(const seat *s, const float *members, int64_t k, int64_t r, int64_t rows,
                         const unit *u, double *words, tt_opinion *o)
{
  const tt_model *m = &s->m->model;
  int64_t n = s->e->members, width = tt_committee_width(s->m);
  double *share = words, *said = words + n;
  for (int64_t i = 0; i < n; i++) {
    const float *at = members + ((s->e->first + i) * 2 * width + k * m->quantities) * rows + r;
    share[i] = s->m->weight[s->e->first + i];
    if (m->output == TT_OUTPUT_sigmoid) {
      said[2 * i] = 1.0 - (double)at[0];
      said[2 * i + 1] = (double)at[0];
    } else if (o->classes) {
      for (int32_t c = 0; c < o->classes; c++)
        said[i * o->classes + c] = (double)at[c * rows];
    } else {
      said[i] = (double)at[quantity_of(m) * rows] * u->scale + u->offset;
    }
  }
  o->members = n;
  o->share = share;
  o->member = said;
}

/* Probabilities of classes and the members' own entropy; `mean` of the quantities of the target. */
static void hear_classes(const tt_jury *j, const seat *s, int64_t k, int64_t r, int64_t rows,
                         const double *mean, double *p, tt_opinion *o)
{
  const float *members = j->part[s->part].members;
  int sigmoid = s->m->model.output == TT_OUTPUT_sigmoid;
  o->classes = sigmoid ? 2 : s->m->model.levels;
  o->p = mean;
  if (sigmoid) {
    p[0] = 1.0 - mean[0];
    p[1] = mean[0];
    o->p = p;
  }
  if (j->rule.by == TT_SCORE_bald)
    o->own = tt_extra_own_entropy(s->m, s->e, k, r, rows, mean, members);
}

/* Score of target k of an ensemble in row r; its columns' spreads go into the sums. */
static double target_score(tt_jury *j, const seat *s, int64_t k, int64_t r, tt_running *sums,
                           double *words)
{
  const part *q = &j->part[s->part];
  const tt_model *m = &s->m->model;
  const unit *u = &j->unit[s->e->column[k]];
  int64_t first = k * m->quantities, column = s->column + first;
  const double *mean = q->moments->mean + r * q->moments->columns + column;
  tt_opinion o = {.zero = u->zero, .best = u->best};
  int32_t pick = quantity_of(m);
  for (int32_t i = 0; i < m->quantities; i++) {
    tt_spread at = tt_moments_at(q->moments, r, column + i);
    tt_running_add(&sums[s->overall + first + i], at.epistemic * u->spread);
    if (i != pick) continue;
    o.mean = at.mean * u->scale + u->offset;
    o.total = at.total * u->scale;
    o.aleatoric = at.aleatoric * u->scale;
    o.epistemic = at.epistemic * u->scale;
  }
  if (j->rule.by == TT_SCORE_random) return 0.0;
  int32_t classes = m->levels > 2 ? m->levels : 2;
  if (has_classes(m)) hear_classes(j, s, k, r, q->moments->rows, mean, words, &o);
  if (q->members) hear_members(s, q->members, k, r, q->moments->rows, u, words + classes, &o);
  return tt_score_of(&j->rule, &o);
}

/* Scores of all ensembles in one row, in the order of the file: own [E]. */
static void row_scores(tt_jury *j, int64_t row, int64_t r, tt_running *sums, double *scratch)
{
  const tt_config *cfg = j->s->cfg;
  double *own = scratch, *target = scratch + j->ensembles;
  for (int64_t i = 0; i < j->seats; i++) {
    const seat *s = &j->seat[i];
    for (int64_t k = 0; k < s->e->targets; k++)
      target[k] = target_score(j, s, k, r, sums, target + s->e->targets);
    own[s->place] = tt_score_over((tt_over)cfg->score_targets, s->e->targets, target,
                                  cfg->score_target_weights.value);
  }
  if (j->rule.by == TT_SCORE_random)
    for (int64_t e = 0; e < j->ensembles; e++)
      own[e] = tt_score_random((uint64_t)cfg->run_seed, j->s->round, row);
}

/* Rows [from, to) of the piece that begins with candidate `first`, on their own. */
static void unit_scores(tt_jury *j, int64_t first, int64_t from, int64_t to, int64_t rows,
                        const int8_t *skip, float *score, tt_running *sums, double *scratch)
{
  const tt_join by = (tt_join)j->s->cfg->score_combine;
  for (int64_t r = from; r < to; r++) {
    if (skip[r]) {
      for (int64_t l = 0; l < j->lists; l++)
        score[l * rows + r] = NAN;
      continue;
    }
    row_scores(j, first + r, r, sums, scratch);
    double all = tt_score_join(by, j->ensembles, scratch, j->weight);
    tt_running_add(&sums[j->columns], all);
    for (int64_t l = 0; l < j->lists; l++)
      score[l * rows + r] = tt_score_stored(j->lists > 1 ? scratch[l] : all);
  }
}

static double largest(double most, int64_t cells, const float *score)
{
  for (int64_t i = 0; i < cells; i++)
    if ((double)score[i] > most) most = (double)score[i];
  return most;
}

tt_err tt_jury_score_local(tt_jury *j, int64_t first, int64_t rows, const float *x,
                           const int8_t *skip, float *score, tt_running *sums, double *most)
{
  const tt_pool_scoring *s = j->s;
  int64_t units = (rows + TT_JURY_UNIT - 1) / TT_JURY_UNIT, each = j->columns + 1;
  for (int64_t i = 0; i < s->model->count; i++) {
    j->part[i].moments->rows = rows;
    TT_TRY(
        s->ops->predict(s->model->at[i], s->use, rows, x, j->part[i].moments, j->part[i].members));
  }
  memset(sums, 0, (size_t)(units * each) * sizeof *sums);
#pragma omp parallel for num_threads(s->use->threads) schedule(static)
  for (int64_t u = 0; u < units; u++) {
    int64_t from = u * TT_JURY_UNIT, to = from + TT_JURY_UNIT;
    unit_scores(j, first, from, to < rows ? to : rows, rows, skip, score, sums + u * each,
                j->scratch + u * j->room);
  }
  *most = largest(*most, j->lists * rows, score);
  return TT_OK;
}
