/* postprocess.c — see postprocess.h. */
#include "src/predict/postprocess.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/host/watchdog.h"
#include "core/stats/member_weights.h"
#include "core/stats/conformal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECE = 256, MOST_NUMBERS = 1 << 26 };

/* Validation rows and, of this rank's share of them, one kind of numbers at a time. */
typedef struct reader {
  const tt_validation_use *v;
  tt_committee *all;
  int64_t *row; /* [rows] of the data set */
  int64_t rows;
  tt_slice mine;
  int64_t width, columns, parts; /* K q, C, numbers of a member and target */
  float *x;                      /* [PIECE][D] */
  float *members;                /* [G][2][K q][rows of the piece] */
  tt_moments *moments;
} reader;

/* Every n-th validation row, so that no more than MOST_NUMBERS are needed at `each` a row. */
static tt_err list_rows(reader *r, int64_t each)
{
  const tt_dataset *d = r->v->data;
  int64_t count = 0, seen = 0;
  for (int64_t i = 0; i < d->rows; i++)
    count += d->split[i] == TT_VALIDATION;
  int64_t step = (count * each + MOST_NUMBERS - 1) / MOST_NUMBERS;
  TT_TRY(TT_ALLOC(r->row, count));
  for (int64_t i = 0; i < d->rows; i++)
    if (d->split[i] == TT_VALIDATION && seen++ % (step > 1 ? step : 1) == 0) r->row[r->rows++] = i;
  return TT_OK;
}

static tt_err open_reader(tt_comm *c, const tt_validation_use *v, tt_committee *all, int64_t each,
                          reader *r)
{
  *r = (reader){.v = v,
                .all = all,
                .width = tt_committee_width(all),
                .columns = tt_committee_columns(all),
                .parts = tt_statement_parts(&all->model)};
  TT_TRY(list_rows(r, each));
  TT_TRY(tt_plan_slice(r->rows, tt_comm_ranks(c), tt_comm_rank(c), &r->mine));
  TT_TRY(TT_ALLOC(r->x, PIECE * all->model.inputs));
  TT_TRY(TT_ALLOC(r->members, all->members * 2 * r->width * PIECE));
  return tt_moments_create(PIECE, r->columns, &r->moments);
}

static void close_reader(reader *r)
{
  if (r->moments) r->moments->rows = PIECE;
  tt_moments_destroy(&r->moments);
  tt_free(r->row);
  tt_free(r->x);
  tt_free(r->members);
}

/* Predictions of rows [first, first + count) of the list. */
static tt_err predict(reader *r, int64_t first, int64_t count, int members)
{
  const tt_dataset *d = r->v->data;
  tt_watchdog_alive_local("looking at validation rows");
  for (int64_t i = 0; i < count; i++)
    memcpy(r->x + i * d->inputs, d->x + r->row[first + i] * d->inputs,
           (size_t)d->inputs * sizeof *r->x);
  r->moments->rows = count;
  return r->v->ops->predict(r->all, r->v->use, count, r->x, r->moments,
                            members ? r->members : NULL);
}

/* Normalised label of target k of ensemble e; NaN if it has none, or does not select the row. */
static double label(const reader *r, int64_t e, int64_t k, int64_t i)
{
  const tt_ensemble *own = &r->v->cohort->ensemble[e];
  const tt_dataset *d = r->v->data;
  int64_t row = r->row[i];
  if (own->selection >= 0 && d->selected && !d->selected[own->selection * d->rows + row])
    return NAN;
  return (double)d->y[row * d->targets + own->column[k]];
}

/* ---- Shares ---- */

/* What all members say of row i, at place `at` of the piece: part [K][G][parts]. */
static void state_row(const reader *r, int64_t i, int64_t at, int64_t count, float *part)
{
  const tt_committee *all = r->all;
  const tt_model *m = &all->model;
  for (int64_t e = 0; e < all->ensembles; e++)
    for (int64_t k = 0; k < m->targets; k++) {
      double y = label(r, e, k, i);
      const tt_ensemble *own = &all->ensemble[e];
      for (int64_t g = own->first; g < own->first + own->members; g++) {
        const float *mean = r->members + (g * 2 * r->width + k * m->quantities) * count + at;
        tt_statement_make(m, mean, mean + r->width * count, count, y,
                          part + (k * all->members + g) * r->parts);
      }
    }
}

static tt_err state_rows_local(reader *r, float *part)
{
  int64_t each = r->all->model.targets * r->all->members * r->parts;
  for (int64_t done = 0; done < r->mine.count; done += PIECE) {
    int64_t left = r->mine.count - done, count = left < PIECE ? left : PIECE;
    TT_TRY(predict(r, r->mine.first + done, count, 1));
    for (int64_t i = 0; i < count; i++)
      state_row(r, r->mine.first + done + i, i, count, part + (done + i) * each);
  }
  return TT_OK;
}

static tt_err share_out_local(const reader *r, const float *part, int64_t e, double *y,
                              float *weight, int8_t *sound)
{
  const tt_config *cfg = r->v->cfg;
  const tt_dataset *d = r->v->data;
  tt_committee *all = r->all;
  const tt_ensemble *own = &all->ensemble[e];
  int64_t targets = all->model.targets;
  double loss = NAN;
  tt_watchdog_alive_local("combining members");
  for (int64_t i = 0; i < r->rows * targets; i++) {
    y[i] = label(r, e, i % targets, i / targets);
    weight[i] = d->weight ? d->weight[r->row[i / targets]] : 1.0f;
  }
  for (int64_t i = 0; i < own->members; i++)
    sound[i] = all->status[own->first + i] != TT_STATUS_diverged;
  tt_combine_rule rule = {.method = (tt_combine)cfg->combine_method,
                          .k = cfg->combine_k,
                          .rounds = cfg->combine_rounds,
                          .temperature = cfg->combine_temperature};
  tt_statements s = {.model = &all->model,
                     .loss = r->v->cohort->loss,
                     .args = tt_cohort_loss_args(r->v->cohort),
                     .members = own->members,
                     .cells = r->rows * targets,
                     .stride = all->members,
                     .part = part + own->first * r->parts,
                     .y = y,
                     .weight = weight,
                     .sound = sound};
  TT_TRY(tt_combine_shares(&rule, &s, all->weight + own->first, &loss));
  int64_t used = 0;
  for (int64_t i = 0; i < own->members; i++)
    used += all->weight[own->first + i] > 0.0;
  tt_log_once(TT_LOG_INFO,
              "ensemble %s: %" PRId64 " of %" PRId64 " members count (%s), validation loss %.6g",
              own->name, used, own->members, tt_choice_combine[rule.method], loss);
  return TT_OK;
}

static tt_err share_all_local(const reader *r, const float *part)
{
  double *y = NULL;
  float *weight = NULL;
  int8_t *sound = NULL;
  int64_t cells = r->rows * r->all->model.targets;
  tt_err e = TT_ALLOC(y, cells);
  if (!e) e = TT_ALLOC(weight, cells);
  if (!e) e = TT_ALLOC(sound, r->all->members);
  for (int64_t i = 0; !e && i < r->all->ensembles; i++)
    e = share_out_local(r, part, i, y, weight, sound);
  tt_free(y);
  tt_free(weight);
  tt_free(sound);
  return e;
}

tt_err tt_combine_members(tt_comm *c, const tt_validation_use *v, tt_committee *all)
{
  reader r = {0};
  float *here = NULL, *part = NULL;
  int64_t each = all->model.targets * all->members * tt_statement_parts(&all->model);
  if (v->cfg->combine_method == TT_COMBINE_mean) return TT_OK;
  tt_err e = open_reader(c, v, all, each, &r);
  if (!e) e = TT_ALLOC(here, r.mine.count * each);
  if (!e) e = TT_ALLOC(part, r.rows * each);
  if (!e) e = state_rows_local(&r, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgather(c, here, r.mine.count * each * (int64_t)sizeof *here, part, NULL);
    e = tt_agree(c, share_all_local(&r, part));
  }
  tt_free(here);
  tt_free(part);
  close_reader(&r);
  return e;
}

/* ---- Spreads and widths ---- */

/* Normalised mean and standard deviation of every column: to [rows][2][C]. */
static tt_err spread_rows_local(reader *r, double *to)
{
  int64_t columns = r->columns;
  for (int64_t done = 0; done < r->mine.count; done += PIECE) {
    int64_t left = r->mine.count - done, count = left < PIECE ? left : PIECE;
    TT_TRY(predict(r, r->mine.first + done, count, 0));
    for (int64_t i = 0; i < count; i++)
      for (int64_t j = 0; j < columns; j++) {
        tt_spread at = tt_moments_at(r->moments, i, j);
        to[(2 * (done + i)) * columns + j] = at.mean;
        to[(2 * (done + i) + 1) * columns + j] = at.total;
      }
  }
  return TT_OK;
}

/* What was learnt, for people. */
static void tell(const reader *r, int64_t e, int64_t k, int64_t column)
{
  const tt_committee *all = r->all;
  const tt_calibration *learnt = &all->calibration;
  const char *target = all->target.name[all->ensemble[e].column[k]];
  if (r->v->cfg->calibration_recalibrate)
    tt_log_once(TT_LOG_INFO,
                "ensemble %s, %s: standard deviations times %.4g, from %" PRId64 " validation rows",
                all->ensemble[e].name, target, learnt->spread[column], learnt->rows[column]);
  for (int64_t i = 0; i < learnt->levels; i++)
    if (isinf(learnt->width[i * learnt->columns + column]))
      tt_log_once(TT_LOG_WARN,
                  "ensemble %s, %s: the %g %% interval is infinite: %" PRId64
                  " validation rows, at least %" PRId64 " are needed",
                  all->ensemble[e].name, target, 100.0 * learnt->level[i], learnt->rows[column],
                  tt_conformal_rows(learnt->level[i]));
}

/* Target k of ensemble e from all rows' [2][C]; room for rows * (q + 2) numbers. */
static tt_err learn_target(const reader *r, int64_t e, int64_t k, const double *from, double *room)
{
  const tt_model *m = &r->all->model;
  int64_t first = e * r->width + k * m->quantities, n = 0;
  double *y = room, *sd = y + r->rows, *quantity = sd + r->rows;
  for (int64_t i = 0; i < r->rows; i++) {
    const double *mean = from + 2 * i * r->columns + first;
    double at = label(r, e, k, i);
    if (isnan(at) || isnan(mean[0])) continue;
    y[n] = at;
    sd[n] = mean[r->columns];
    for (int32_t j = 0; j < m->quantities; j++)
      quantity[n * m->quantities + j] = mean[j];
    n++;
  }
  tt_validated v = {n, y, quantity, sd};
  TT_TRY(
      tt_calibration_learn(&r->all->calibration, m, first, r->v->cfg->calibration_recalibrate, &v));
  tell(r, e, k, first);
  return TT_OK;
}

static tt_err learn_local(const reader *r, const double *from)
{
  const tt_real_list *levels = &r->v->cfg->calibration_conformal;
  double *room = NULL;
  TT_TRY(tt_calibration_create(r->columns, levels->count, levels->value, &r->all->calibration));
  TT_TRY(TT_ALLOC(room, r->rows * (r->all->model.quantities + 2)));
  tt_err err = TT_OK;
  for (int64_t e = 0; !err && e < r->all->ensembles; e++)
    for (int64_t k = 0; !err && k < r->all->model.targets; k++)
      err = learn_target(r, e, k, from, room);
  tt_free(room);
  return err;
}

tt_err tt_calibrate(tt_comm *c, const tt_validation_use *v, tt_committee *all)
{
  reader r = {0};
  double *here = NULL, *from = NULL;
  int64_t each = 2 * tt_committee_columns(all);
  if (!v->cfg->calibration_recalibrate && !v->cfg->calibration_conformal.count) return TT_OK;
  tt_err e = open_reader(c, v, all, each, &r);
  if (!e) e = TT_ALLOC(here, r.mine.count * each);
  if (!e) e = TT_ALLOC(from, r.rows * each);
  if (!e) e = spread_rows_local(&r, here);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgather(c, here, r.mine.count * each * (int64_t)sizeof *here, from, NULL);
    e = tt_agree(c, learn_local(&r, from));
  }
  tt_free(here);
  tt_free(from);
  close_reader(&r);
  return e;
}
