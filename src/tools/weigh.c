/* weigh.c — see weigh.h. */
#include "src/tools/weigh.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/state.h"
#include "core/stats/member_weights.h"
#include "io/files/files.h"
#include "io/hdf5/schema.h"
#include "io/model/model_file.h"
#include "io/table/problems.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct weighing {
  const tt_weigh_options *o;
  tt_weigh_method method;
  double value, sign; /* sign * score is a loss: the lowest is the best */
  tt_trained_ensembles model;
  int64_t members;
  double *loss;  /* [members] INFINITY: no score, or an infinitely bad one */
  int8_t *given; /* [members] 1: the table has a row of the member */
} weighing;

static tt_err parse_options(weighing *w)
{
  static const char *const name[] = {TT_WEIGH_METHODS(TT_ROW_NAME)};
  const tt_weigh_options *o = w->o;
  char *end = NULL;
  int method = 0;
  while (o->method && method < TT_WEIGH_METHOD_COUNT && strcmp(o->method, name[method])) method++;
  if (!o->method || method == TT_WEIGH_METHOD_COUNT)
    return TT_FAIL(USAGE, "--method: '%s' is not top_k, threshold or boltzmann",
                   o->method ? o->method : "");
  w->method = (tt_weigh_method)method;
  if (!o->better || (strcmp(o->better, "lower") && strcmp(o->better, "higher")))
    return TT_FAIL(USAGE, "--better: say whether a lower or a higher score is better");
  w->sign = *o->better == 'l' ? 1.0 : -1.0;
  w->value = o->value ? strtod(o->value, &end) : NAN;
  if (!isfinite(w->value) || *end || (method != TT_WEIGH_threshold && !(w->value > 0.0)) ||
      (method == TT_WEIGH_top_k && (w->value != floor(w->value) || w->value > 1e9)))
    return TT_FAIL(USAGE, "--value: '%s' is not a %s of --method %s", o->value ? o->value : "",
                   method == TT_WEIGH_top_k       ? "number of members, 1, 2, ...,"
                   : method == TT_WEIGH_threshold ? "limit of the score, a number,"
                                                  : "difference of scores above 0",
                   name[method]);
  if (!o->output) return TT_FAIL(USAGE, "no output file: give -o best.h5");
  return tt_h5_check_output_local(o->output, o->force,
                                  (const char *const[]){o->model, o->scores, NULL});
}

/* Status of member g of all trained ensembles. */
static int8_t status_of(const weighing *w, int64_t g)
{
  int64_t i = 0;
  for (; g >= w->model.at[i]->members; i++) g -= w->model.at[i]->members;
  return w->model.at[i]->status[g];
}

/* Take row `row` of the table, or list what is wrong with it. */
static void take_score(weighing *w, tt_table *t, int64_t row, const double value[2],
                       tt_problems *wrong)
{
  char place[512], text[96], cure[160];
  const char *what = NULL;
  int64_t g = value[0] >= 0.0 && value[0] < (double)w->members ? (int64_t)value[0] : -1;
  snprintf(text, sizeof text, "%.17g", value[0]);
  snprintf(cure, sizeof cure, "each member of the model, 0 to %" PRId64 ", has one row",
           w->members - 1);
  if (g < 0 || value[0] != (double)g) {
    what = "is no member of the model";
  } else if (w->given[g]) {
    what = "is a member that has a row already";
  } else if (isnan(value[1]) || w->sign * value[1] < -DBL_MAX) {
    what = isnan(value[1]) ? "is a member without a score"
                           : "is a member with an infinitely good score";
    snprintf(cure, sizeof cure, "a simulation that failed has the score %sinf",
             w->sign < 0.0 ? "-" : "");
  }
  if (!what) w->loss[g] = w->sign * value[1];
  if (g >= 0) w->given[g] = 1;
  if (!what) return;
  size_t used = strlen(tt_table_place_local(t, row, place, sizeof place - 32));
  snprintf(place + used, sizeof place - used, ": column 'member'");
  tt_problems_add(
      wrong,
      &(tt_problem){.place = place, .number = row, .text = text, .what = what, .cure = cure});
}

static tt_err take_scores(weighing *w, tt_table *t, tt_problems *wrong)
{
  static const char *const name[] = {"member", "score"};
  int64_t column[2];
  double *value = NULL;
  for (int i = 0; i < 2; i++) {
    TT_TRY(tt_table_find(t, name[i], &column[i]));
    if (column[i] < 0)
      return TT_FAIL(DATA, "%s: there is no column '%s'; the columns are member and score", t->file,
                     name[i]);
    TT_TRY(tt_table_use_local(t, column[i], TT_CELL_RESULT));
  }
  int64_t rows = t->rows[column[0]];
  TT_TRY(TT_ALLOC(value, 2 * rows));
  tt_err e = tt_table_read_local(t, 0, rows, 2, column, value);
  for (int64_t r = 0; !e && r < rows; r++) take_score(w, t, r, value + 2 * r, wrong);
  tt_free(value);
  return e ? e : tt_problems_error(wrong);
}

static tt_err check_complete(const weighing *w)
{
  char list[200] = "", number[24];
  int64_t missing = 0;
  for (int64_t g = 0; g < w->members; g++) {
    if (w->given[g] || status_of(w, g) == TT_STATUS_diverged) continue;
    snprintf(number, sizeof number, "%" PRId64, g);
    if (missing++ < 20) tt_text_append(list, sizeof list, ", ", number);
  }
  if (!missing) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: no score of member%s %s%s; each member that did not diverge has one row",
                 w->o->scores, tt_plural(missing), list, missing > 20 ? ", ..." : "");
}

static tt_err read_scores_local(weighing *w)
{
  tt_table *t = NULL;
  tt_problems *wrong = NULL;
  w->members = tt_trained_ensembles_members(&w->model);
  TT_TRY(TT_ALLOC(w->loss, w->members));
  TT_TRY(TT_ALLOC(w->given, w->members));
  for (int64_t g = 0; g < w->members; g++) w->loss[g] = INFINITY;
  TT_TRY(tt_table_open_local(w->o->scores, &w->o->format, &t));
  tt_err e = tt_problems_create(t->columns ? t->rows[0] : 0, &wrong);
  if (!e) e = take_scores(w, t, wrong);
  tt_problems_destroy(&wrong);
  tt_table_close_local(&t);
  return e ? e : check_complete(w);
}

/* Weights of the members of an ensemble from their losses. */
static tt_err weigh_ensemble(const weighing *w, const tt_ensemble *own, double *loss,
                             double *weight)
{
  const tt_combine_options rule = {.method = w->method == TT_WEIGH_top_k ? TT_COMBINE_top_k
                                                                         : TT_COMBINE_weights,
                                   .k = (int64_t)w->value,
                                   .temperature = w->value};
  double best = INFINITY;
  int64_t used = 0;
  for (int64_t i = 0; i < own->members; i++) best = loss[i] < best ? loss[i] : best;
  if (w->method == TT_WEIGH_threshold)
    for (int64_t i = 0; i < own->members; i++) weight[i] = loss[i] <= w->sign * w->value;
  else
    tt_weights_from_losses(&rule, own->members, loss, weight);
  for (int64_t i = 0; i < own->members; i++) used += weight[i] > 0.0;
  if (!used)
    return TT_FAIL(DATA, "%s: no member of ensemble '%s' would be used: the best score is %g",
                   w->o->scores, own->name, w->sign * best);
  tt_log_root(TT_LOG_INFO, "%s: ensemble %s: %" PRId64 " of %" PRId64 " members, best score %g",
              w->o->output, own->name, used, own->members, w->sign * best);
  return TT_OK;
}

static tt_err weigh_local(weighing *w)
{
  double *loss = w->loss;
  int calibrated = 0;
  for (int64_t i = 0; i < w->model.count; i++) {
    tt_trained_ensemble *m = w->model.at[i];
    calibrated |= m->calibration.columns > 0;
    for (int64_t g = 0; g < m->members; g++)
      if (m->status[g] == TT_STATUS_diverged) loss[g] = INFINITY;
    for (int64_t k = 0; k < m->ensembles; k++) {
      const tt_ensemble *own = &m->ensemble[k];
      TT_TRY(weigh_ensemble(w, own, loss + own->first, m->weight + own->first));
    }
    loss += m->members;
  }
  if (calibrated)
    tt_log_root(TT_LOG_INFO,
                "%s: calibration and intervals are still those of %s, for its member "
                "weights; score them with tutti evaluate",
                w->o->output, w->o->model);
  return TT_OK;
}

/* Rank 0 has all members. */
static tt_err write_model(tt_comm *c, const weighing *w)
{
  tt_model_shard *shard = NULL;
  int64_t n = 0;
  char how[256];
  snprintf(how, sizeof how, "tutti weigh: %s, value %s, %s is better, scores of %s", w->o->method,
           w->o->value, w->o->better, w->o->scores);
  const tt_provenance provenance = {.model = w->o->model,
                                    .model_hash = w->model.hash,
                                    .member_weights = how,
                                    .ranks = tt_comm_ranks(c)};
  tt_trained_parts part = {0};
  tt_err e = tt_trained_parts_create(&w->model, &part);
  if (!e) e = TT_ALLOC(shard, part.count);
  e = tt_agree(c, e);
  for (; !e && n < part.count; n++)
    if (tt_comm_is_root(c)) shard[n] = (tt_model_shard){{0, part.at[n].members}, part.at[n].w};
  if (!e) e = tt_model_write(c, w->o->output, &w->model, shard, &provenance);
  tt_free(shard);
  tt_trained_parts_free(&part);
  return e;
}

tt_err tt_weigh(tt_comm *c, const tt_weigh_options *o)
{
  weighing w = {.o = o};
  tt_err e = tt_agree(c, parse_options(&w));
  if (!e) e = tt_model_read(c, o->model, &w.model);
  if (!e) e = tt_agree(c, read_scores_local(&w));
  if (!e) e = tt_agree(c, weigh_local(&w));
  if (!e) e = write_model(c, &w);
  tt_free_all(&w.loss, &w.given);
  tt_trained_ensembles_destroy(&w.model);
  return e;
}
