/* campaign_page.c — `tutti report` of a campaign; see campaign_report.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"
#include "src/report/page/page.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>

enum { TEXT = 512, MAX_CURVES = 5, MAX_COLUMNS = 6 };

/* Verdict */

/* "With 60 labels: 12 % less error than random." */
static void compare(const tt_campaign_record *s, const tt_campaign_record *other,
                    tt_sentences *words)
{
  if (!s->h->rounds || !other->h->rounds) return;
  double labels = fmin((double)s->h->round[s->h->rounds - 1].labels,
                       (double)other->h->round[other->h->rounds - 1].labels);
  double part = tt_curve_error_at(s->h, s->h, labels) / tt_curve_error_at(other->h, s->h, labels);
  if (isfinite(part))
    tt_sentences_add(words, "With %.0f labels: %.3g %% %s error than %.150s.", labels,
                     100 * fabs(1 - part), part <= 1 ? "less" : "more", other->name);
}

static void put_good(FILE *f, const tt_campaign_record *s, int n)
{
  enum { OTHERS = 2 };
  char figure[64] = "";
  tt_sentences words = {0};
  const tt_history *h = s->h;
  double last = tt_history_error(h, h->rounds, h);
  if (isfinite(last)) {
    snprintf(figure, sizeof figure, "%.3g %% %s error", 100 * fabs(1 - last),
             last <= 1 ? "less" : "more");
    tt_sentences_add(&words,
                     "From %" PRId64 " to %" PRId64
                     " labels the test error %s to %.3g %% of that of round 1.",
                     h->round[0].labels, h->round[h->rounds - 1].labels,
                     last <= 1 ? "fell" : "rose", 100 * last);
  } else
    tt_sentences_add(&words, "Not known: the campaign has no test rows (data.split).");
  const tt_round *r = &h->round[h->rounds - 1];
  if (r->error_rows)
    tt_sentences_add(&words, "The rmse of %" PRId64 " rows drawn at random is %.3g +- %.2g.",
                     r->error_rows, r->error, r->error_se);
  for (int k = 1; isfinite(last) && k < n && k <= OTHERS; k++) compare(s, &s[k], &words);
  tt_page_verdict(f, "How good", figure, &words);
}

static void put_cost(FILE *f, const tt_history *h)
{
  char figure[64], text[2][32];
  tt_sentences words = {0};
  const tt_history_totals sum = tt_history_sum(h);
  int64_t labels = sum.queries - sum.failed;
  snprintf(figure, sizeof figure, "%" PRId64 " label%s", labels, tt_plural(labels));
  tt_sentences_add(&words,
                   "%" PRId64 " quer%s in %" PRId64 " round%s, %" PRId64
                   " without a label; %s in all, %s of it in the oracle.",
                   sum.queries, sum.queries == 1 ? "y" : "ies", h->rounds, tt_plural(h->rounds),
                   sum.failed, tt_duration_text(sum.seconds, text[0]),
                   tt_duration_text(sum.label_seconds, text[1]));
  tt_page_verdict(f, "What it cost", figure, &words);
}

/* The fall of the error in the last third of the rounds, as a fraction; NaN = not known. */
static double late_gain(const tt_history *h)
{
  int64_t begin = h->rounds - h->rounds / 3;
  if (h->rounds < 6) return NAN;
  return 1 - tt_history_error(h, h->rounds, h) / tt_history_error(h, begin, h);
}

static void put_next(FILE *f, const tt_campaign_record *s, int n)
{
  tt_sentences words = {0};
  const tt_history *h = s->h;
  double gain = late_gain(h);
  const tt_history_totals sum = tt_history_sum(h);
  if (h->ended >= 0)
    tt_sentences_add(&words, "The campaign ended by rule %s (%s).", tt_stop_rule_name[h->ended],
                     tt_history_end_cause(h));
  else
    tt_sentences_add(&words, "The campaign has not ended: tutti campaign run continues it.");
  if (gain > 0.1)
    tt_sentences_add(
        &words,
        "The error still fell by %.0f %% in the last third of the rounds: more labels help.",
        100 * gain);
  else if (isfinite(gain))
    tt_sentences_add(&words, "The error fell by %.0f %% in the last third of the rounds.",
                     100 * gain);
  if (10 * sum.failed > sum.queries)
    tt_sentences_add(&words, "%" PRId64 " of %" PRId64 " queries have no label: check the oracle.",
                     sum.failed, h->queries);
  if (n == 1)
    tt_sentences_add(
        &words,
        "Compare it with a campaign that chooses at random (score.acquisition: random): tutti "
        "report %.100s RANDOM",
        s->directory);
  else
    tt_sentences_add(&words,
                     "One campaign each may be luck: repeat them with other seeds (run.seed, "
                     "data.split.seed).");
  tt_page_verdict(f, "What next", "", &words);
}

/* Learning curves */

/* Test error by number of labels: the rmse of a column, or the mean error of all; column -1. */
static tt_err put_curve(FILE *f, const tt_campaign_record *s, int campaigns, int64_t column)
{
  tt_chart_series series[MAX_CURVES];
  double *x[MAX_CURVES] = {0}; /* labels, then values, of each campaign */
  int n = campaigns < MAX_CURVES ? campaigns : MAX_CURVES;
  const char *units = s->texts.target.count == 1 ? s->texts.target.units[0] : "";
  char label[TEXT];
  tt_err e = TT_OK;
  for (int k = 0; !e && k < n; k++) {
    const tt_history *h = s[k].h;
    e = TT_ALLOC(x[k], 2 * h->rounds);
    for (int64_t i = 0; !e && i < h->rounds; i++) {
      x[k][i] = (double)h->round[i].labels;
      x[k][h->rounds + i] =
          column < 0 ? tt_history_error(h, i + 1, s->h) : h->round[i].rmse[column];
    }
    series[k] = (tt_chart_series){s[k].name, h->rounds, x[k],          x[k] + h->rounds,
                                  NULL,      NULL,      TT_CHART_LINE, k};
  }
  snprintf(label, sizeof label, "test rmse%s%s%s", *units ? " (" : "", units, *units ? ")" : "");
  if (!e)
    tt_page_chart(f,
                  &(tt_chart){column < 0 ? "Mean over the columns" : s->texts.column[column], NULL,
                              "labeled rows", column < 0 ? "test error (round 1 = 1)" : label, n,
                              series, .least_x_step = 1});
  for (int k = 0; k < n; k++) tt_free(x[k]);
  return e;
}

static tt_err put_curves(FILE *f, const tt_campaign_record *s, int n)
{
  tt_err e = TT_OK;
  tt_page_section(f, "Learning curve", NULL);
  tt_page_begin_charts(f);
  for (int64_t c = s->h->columns > 1 ? -1 : 0; !e && c < s->h->columns && c < MAX_COLUMNS; c++)
    e = put_curve(f, s, n, c);
  tt_page_end_charts(f);
  return e;
}

/* Mean of the columns' spreads, each divided by its value in round 1. */
static double spread_of(const tt_history *h, int64_t i)
{
  double sum = 0.0, n = 0.0;
  for (int64_t c = 0; c < h->columns; c++) {
    double part = h->round[i].spread[c] / h->round->spread[c];
    if (!isfinite(part)) continue;
    sum += part;
    n++;
  }
  return sum / n;
}

static void put_rounds(FILE *f, const tt_history *h)
{
  tt_page_section(f, "Rounds",
                  "Error and spread: mean over the columns, in units of round 1. Accurate, "
                  "candidate, failed: shares of the pool. Diverged: members. Stages: seconds.");
  tt_page_begin_table(f, "#round|#labels|#error|#spread|#accurate %|#candidate %|#failed %|#queried"
                         "|#without label|#diverged");
  for (int k = 0; k < TT_STAGE_COUNT; k++) tt_page_head(f, tt_stage_name[k], 1);
  for (int64_t i = 0; i < h->rounds; i++) {
    const tt_round *r = &h->round[i];
    const double value[] = {(double)i + 1,
                            (double)r->labels,
                            tt_history_error(h, i + 1, h),
                            spread_of(h, i),
                            tt_percent(r->accurate, r->pool),
                            tt_percent(r->candidate, r->pool),
                            tt_percent(r->failed, r->pool),
                            (double)r->queried,
                            (double)r->label_failed,
                            (double)r->diverged};
    tt_page_next_row(f);
    for (size_t j = 0; j < sizeof value / sizeof *value; j++) tt_page_number_cell(f, value[j]);
    for (int k = 0; k < TT_STAGE_COUNT; k++) tt_page_number_cell(f, r->seconds[k]);
  }
  tt_page_end_table(f);
}

/* The campaigns on the page; the first one is what it is about. */
typedef struct campaigns {
  tt_campaign_record *s;
  int n;
} campaigns;

static tt_err put_page(FILE *f, void *context)
{
  const campaigns *all = context;
  const tt_campaign_record *s = all->s;
  tt_page_begin_verdict(f);
  put_good(f, s, all->n);
  put_cost(f, s->h);
  put_next(f, s, all->n);
  tt_page_end_verdict(f);
  TT_TRY(put_curves(f, s, all->n));
  if (all->n > 1)
    tt_page_element(f, "<p class=\"about\">The rest of this page is about ", s->directory,
                    ".</p>\n");
  put_rounds(f, s->h);
  tt_page_section(f, "Origin", "Of the last round.");
  tt_page_begin_pairs(f);
  tt_page_put_origin(f, s->texts.origin);
  tt_page_pair(f, "hash of data, pool, seed", "%016" PRIx64 ", %016" PRIx64 ", %" PRIu64,
               s->h->identity.data, s->h->identity.pool, s->h->identity.seed);
  tt_page_end_pairs(f);
  tt_page_put_config(f, s->texts.resolved);
  return TT_OK;
}

static tt_err write_page(campaigns *all, const char *file, int force)
{
  char about[TEXT];
  const tt_campaign_record *s = all->s;
  if (s->h->rounds == 0)
    return TT_FAIL(DATA, "%s: no round is finished yet; tutti status shows its state",
                   s->directory);
  snprintf(about, sizeof about, "Active learning by %s: %" PRId64 " round%s, %" PRId64 " labels",
           s->name, s->h->rounds, tt_plural(s->h->rounds),
           tt_round_labels_after(&s->h->round[s->h->rounds - 1]));
  return tt_page_write(s->title, about, file, force, put_page, all);
}

/* JSON */

static json_t *curve_to_json(const tt_campaign_record *s, const tt_campaign_record *unit)
{
  json_t *row = json_object(), *labels = json_array(), *error = json_array();
  for (int64_t i = 0; i < s->h->rounds; i++) {
    json_array_append_new(labels, json_integer(s->h->round[i].labels));
    json_array_append_new(error, tt_json_number(tt_history_error(s->h, i + 1, unit->h)));
  }
  tt_json_set(&row, "name", tt_json_text(s->name));
  tt_json_set(&row, "directory", tt_json_text(s->directory));
  tt_json_set(&row, "labels", labels);
  tt_json_set(&row, "error", error);
  return row;
}

static tt_err print_json(const tt_campaign_record *s, int n, const char *file)
{
  const tt_history *h = s->h;
  const tt_history_totals sum = tt_history_sum(h);
  json_t *all = json_object(), *error = json_array(), *curves = json_array();
  for (int64_t i = 1; i <= h->rounds; i++)
    json_array_append_new(error, tt_json_number(tt_history_error(h, i, h)));
  for (int k = 0; k < n; k++) json_array_append_new(curves, curve_to_json(&s[k], s));
  tt_json_set(&all, "report", tt_json_text(file));
  tt_json_set(&all, "directory", tt_json_text(s->directory));
  tt_json_set(&all, "rounds", json_integer(h->rounds));
  tt_json_set(&all, "queries", json_integer(sum.queries));
  tt_json_set(&all, "without_label", json_integer(sum.failed));
  tt_json_set(&all, "seconds", tt_json_number(sum.seconds));
  tt_json_set(&all, "oracle_seconds", tt_json_number(sum.label_seconds));
  tt_json_set(&all, "error", error);
  tt_json_set(&all, "curves", curves);
  return tt_json_print(all, 2);
}

tt_err tt_campaign_page_write_local(const char *const *directory, int n, const char *file,
                                    int force, int json)
{
  campaigns all = {0};
  TT_TRY(tt_page_check_place(file, force));
  TT_TRY(TT_ALLOC(all.s, n));
  tt_err e = TT_OK;
  for (; !e && all.n < n; all.n += !e)
    e = tt_campaign_record_read_local(directory[all.n], &all.s[all.n]);
  if (!e) e = tt_campaigns_check_columns(all.s, n);
  if (!e) e = write_page(&all, file, force);
  if (!e && json) e = print_json(all.s, n, file);
  if (!e && !json) printf("report:  %s\n", file);
  for (int k = 0; k < all.n; k++) tt_campaign_record_free(&all.s[k]);
  tt_free(all.s);
  return e;
}
