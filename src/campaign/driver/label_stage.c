/* label_stage.c — the stages label and merge (driver_internal.h); merge commits the round. */
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/stats/metrics.h"
#include "src/campaign/driver/driver_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* label */

static uint64_t hash_queries(const tt_campaign *k)
{
  const tt_queries *p = k->queries;
  uint64_t h = tt_hash_bytes((uint64_t)p->count, p->row, (size_t)p->count * sizeof *p->row);
  return tt_hash_bytes(h, p->x, (size_t)(p->count * p->inputs) * sizeof *p->x);
}

static int64_t count_failed(const tt_query_labels *a)
{
  return a->count - tt_labeled_rows(a->y, a->count, a->targets);
}

/* Check before the stage is recorded as done: the next start then reads the labels again. The few
 * labels of an asynchronous round are judged with those before them. */
static tt_err check_failed(const tt_campaign *k)
{
  int64_t failed = count_failed(k->query_labels), queried = k->queries->count;
  int64_t enough = tt_campaign_is_asynchronous(k) ? tt_labels_until_training(k->cfg) : 0;
  for (int64_t i = k->h->queries - 1; i >= 0 && queried < enough; i--, queried++)
    failed += k->h->query[i].label_status != TT_LABEL_STATUS_labeled;
  if ((double)failed <= k->cfg->label_max_failed * (double)queried) return TT_OK;
  return tt_label_failed_error(k->cfg, k->round_number, queried, failed, 0);
}

static tt_err invalid_label(const tt_campaign *k, int64_t query, int64_t target,
                            const char *expected)
{
  return TT_FAIL(DATA,
                 "round %" PRId64 ": the label of candidate %" PRId64 ", target '%s', is %g, but "
                 "has to be %s; the label is not used: correct the oracle (or give "
                 "model.classes), and run again with --from %" PRId64 ":label; a label that was "
                 "told is corrected by tutti tell --replace",
                 k->round_number, k->queries->row[query], k->label.name[target],
                 k->query_labels->y[query * k->label.count + target], expected, k->round_number);
}

/* Each label has an error bar, or label.sigma. */
static tt_err check_errors(const tt_campaign *k)
{
  int64_t T = k->data->targets, W = k->label.count;
  for (int64_t i = 0; i < k->query_labels->count * (W - T); i++) {
    const double *label = k->query_labels->y + i / T * W + i % T;
    double sd = isnan(label[T]) ? k->cfg->label_sigma : label[T];
    if (!isnan(label[0]) && !(sd >= 0.0 && sd < INFINITY))
      return isnan(label[T])
                 ? TT_FAIL(DATA,
                           "round %" PRId64 ": the label of candidate %" PRId64 ", target '%s', "
                           "has no error bar ('%s'): give label.sigma",
                           k->round_number, k->queries->row[i / T], k->label.name[i % T],
                           k->label.name[T + i % T])
                 : invalid_label(k, i / T, T + i % T, "a standard deviation");
  }
  return TT_OK;
}

/* Reject labels that training would refuse. */
static tt_err check_labels(const tt_campaign *k)
{
  const char *expected = NULL;
  TT_TRY(check_errors(k));
  for (int64_t c = 0; c < k->model.count; c++)
    for (int64_t e = 0; e < k->model.at[c]->ensembles; e++) {
      const tt_ensemble *own = &k->model.at[c]->ensemble[e];
      for (int64_t i = 0; i < k->query_labels->count * own->targets; i++) {
        int64_t query = i / own->targets, target = own->column[i % own->targets];
        double y = k->query_labels->y[query * k->label.count + target];
        int8_t normalize = k->model.at[c]->scaler.y_normalize[target];
        tt_transform f = tt_normalize_transform((tt_normalize)normalize);
        int fits = isnan(y) || tt_label_is_valid(&k->model.at[c]->model, y, &expected);
        if (!isnan(y) && !tt_transform_accepts(f, y)) fits = 0, expected = tt_transform_wants(f);
        if (!fits) return invalid_label(k, query, target, expected);
      }
    }
  return TT_OK;
}

/* The labels that have come until now, in place of those of the queries. The next round begins
 * here: what is told later belongs to a later one. */
static tt_err take_answered(tt_campaign *k)
{
  int64_t line = 0;
  tt_point_list l;
  tt_err e = tt_comm_is_root(k->c)
                 ? tt_points_begin_round_local(k->points, (int32_t)k->round_number + 1, 0, &line)
                 : TT_OK;
  e = tt_agree(k->c, e);
  if (e) return e;
  e = tt_campaign_list_points(k, TT_POINTS_answered, line, &l);
  tt_queries_destroy(&k->queries);
  tt_query_labels_destroy(&k->query_labels);
  if (!e) e = tt_queries_create(l.count, k->h->inputs, &k->queries);
  if (!e) e = tt_query_labels_create(l.count, k->h->targets, &k->query_labels);
  for (int64_t i = 0; !e && i < l.count; i++) {
    k->queries->row[i] = l.query[i].row;
    k->queries->score[i] = l.query[i].score;
    k->queries->random[i] = l.query[i].random;
  }
  if (!e && l.count) {
    memcpy(k->queries->x, l.x, (size_t)(l.count * k->h->inputs) * sizeof *l.x);
    memcpy(k->query_labels->y, l.y, (size_t)(l.count * k->h->targets) * sizeof *l.y);
  }
  tt_current_round(k)->queried = l.count;
  tt_point_list_free(&l);
  return tt_agree(k->c, e);
}

/* campaign.mode asynchronous: queue the queries, and wait until train.when holds. A round whose end
 * is in the record takes the same labels again. */
static tt_err label_beside(tt_campaign *k, const tt_label_request *q)
{
  int64_t line = 0;
  if (tt_comm_is_root(k->c)) line = tt_points_begin_line(k->points, (int32_t)k->round_number + 1);
  tt_bcast(k->c, &line, sizeof line);
  if (k->o->replay && !line)
    return TT_FAIL(STOPPED, "%s has no labels of round %" PRId64 ": the replay ends here",
                   k->o->replay, k->round_number);
  tt_err e = line ? TT_OK : tt_oracle_label(k->c, q, &k->query_labels);
  return e ? e : take_answered(k);
}

/* Sets k->query_labels. Labels that the groups of the round have accepted are not requested again.
 */
static tt_err do_label(tt_campaign *k, const tt_stage_io *w)
{
  char label[TT_PATH_MAX];
  tt_round_file_path(k, "label", label);
  const tt_label_request q = tt_campaign_label_request(k, label);
  int root = tt_comm_is_root(k->c), beside = tt_campaign_is_asynchronous(k);
  tt_err e = TT_OK;
  if (k->h->ended >= 0) {
    e = root && beside ? tt_oracle_withdraw_local(&q) : TT_OK;
    if (!e) e = tt_query_labels_create(0, k->label.count, &k->query_labels);
    e = tt_agree(k->c, e);
  } else if (beside) {
    e = label_beside(k, &q);
  } else {
    e = tt_agree(k->c, root ? tt_campaign_prepare_directory_local(k, 1, w->inputs) : TT_OK);
    if (!e) e = tt_oracle_label(k->c, &q, &k->query_labels);
  }
  if (!e) e = check_labels(k);
  if (!e) e = check_failed(k);
  return tt_agree(k->c, e);
}

/* The stage writes no output file: its labels go from the groups (or the pool) to campaign.h5. If
 * an earlier start finished the stage, only read the accepted labels. */
tt_err tt_run_label_stage(tt_campaign *k)
{
  tt_round *r = tt_current_round(k);
  tt_stage_io w = {hash_queries(k), {NULL, NULL}};
  tt_err e = tt_run_stage(k, TT_STAGE_label, &w, do_label, &r->seconds[TT_STAGE_label]);
  if (!e && !k->query_labels) e = do_label(k, &w);
  if (!e) r->label_failed = count_failed(k->query_labels);
  return e;
}

/* merge */

static tt_err add_labels_local(tt_campaign *k)
{
  tt_query *query = NULL;
  double fraction = tt_campaign_validation_fraction(k);
  int64_t draw = tt_campaign_rows_to_draw(k), drawn = 0;
  int64_t T = k->label.count;
  TT_TRY(TT_ALLOC(query, k->queries->count));
  for (int64_t i = 0; i < k->queries->count; i++)
    query[i] = (tt_query){.row = k->queries->row[i],
                          .round = (int32_t)k->round_number,
                          .random = k->queries->random[i],
                          .label_status = tt_labeled_rows(k->query_labels->y + i * T, 1, T) > 0,
                          .split = tt_campaign_choose_split(k, k->queries->row[i], fraction),
                          .score = k->queries->score[i]};
  /* never chosen by score, never trained on */
  for (int64_t i = 0; i < k->queries->count && drawn < draw; i++)
    if (query[i].random) query[i].split = TT_TEST, drawn++;
  tt_err e =
      tt_history_add_queries(k->h, k->queries->count, query, k->queries->x, k->query_labels->y);
  tt_free(query);
  return e;
}

static tt_err write_journal_local(tt_campaign *k, double seconds)
{
  tt_journal_entry line = {.round = k->round_number, .stage = TT_STAGE_merge, .seconds = seconds};
  return tt_comm_is_root(k->c) ? tt_journal_append_done_local(k->journal, &line) : TT_OK;
}

/* n in per cent of the candidates. */
static double percent(const tt_round *r, int64_t n)
{
  return r->pool > 0 ? 100.0 * (double)n / (double)r->pool : 0.0;
}

static void log_round(const tt_campaign *k)
{
  const tt_round *r = tt_current_round(k);
  double seconds = 0.0;
  char errors[160] = "";
  size_t used = 0;
  for (int s = 0; s < TT_STAGE_COUNT; s++) seconds += r->seconds[s];
  for (int64_t i = 0; i < k->columns && i < 4; i++)
    used += (size_t)snprintf(errors + used, sizeof errors - used, " %.4g", r->rmse[i]);
  tt_log_root(TT_LOG_INFO,
              "round %" PRId64 ": %" PRId64 " labels, test rmse%s%s; pool %" PRId64
              ": accurate %.1f %%, candidate %.1f %%, failed %.1f %%; queried %" PRId64
              ", without label %" PRId64 "; %.1f s",
              k->round_number, r->labels, errors, k->columns > 4 ? " ..." : "", r->pool,
              percent(r, r->accurate), percent(r, r->candidate), percent(r, r->failed), r->queried,
              r->label_failed, seconds);
}

/* Not run by tt_run_stage: campaign.h5 itself shows whether the round is merged. */
tt_err tt_run_merge_stage(tt_campaign *k)
{
  double start = tt_monotonic_seconds(), seconds;
  k->stage = TT_STAGE_merge;
  tt_err e = tt_agree(k->c, add_labels_local(k));
  seconds = tt_monotonic_seconds() - start;
  tt_bcast(k->c, &seconds, sizeof seconds);
  tt_current_round(k)->seconds[TT_STAGE_merge] = seconds; /* without the time of the commit */
  if (!e) e = tt_campaign_commit(k);
  if (!e) e = tt_agree(k->c, tt_campaign_prune_local(k));
  seconds = tt_monotonic_seconds() - start;
  tt_bcast(k->c, &seconds, sizeof seconds);
  if (!e) e = tt_agree(k->c, write_journal_local(k, seconds));
  if (!e) tt_current_round(k)->seconds[TT_STAGE_merge] = seconds; /* for the next commit */
  if (!e) log_round(k);
  return e;
}
