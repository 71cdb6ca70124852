/* campaign_page.c — `tutti report` of a campaign; see campaign_report.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"
#include "src/report/page/page.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512 };

/* Verdict */

/* "With 60 labels: 12 % less error than random." */
static void compare(const tt_campaign_record *s, const tt_campaign_record *other,
                    tt_sentences *words)
{
  if (!s->h->rounds || !other->h->rounds) return;
  double labels = fmin((double)s->h->round[s->h->rounds - 1].labels,
                       (double)other->h->round[other->h->rounds - 1].labels);
  double part = tt_curve_error_at(s, s, labels) / tt_curve_error_at(other, s, labels);
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
                   tt_duration_text(sum.stage[TT_STAGE_label], text[1]));
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

/* Table of the rounds */

static void put_rounds(FILE *f, const tt_history *h)
{
  static const char *const head[] = {"round",         "labels",      "error",    "spread",
                                     "accurate %",    "candidate %", "failed %", "queried",
                                     "without label", "diverged"};
  tt_page_begin_section(
      f, "Rounds",
      "Error and spread: mean over the columns, in units of round 1. Accurate, "
      "candidate, failed: shares of the pool. Diverged: members. Stages: seconds.");
  fputs("<div class=\"wide\"><table>\n<tr>", f);
  for (size_t i = 0; i < sizeof head / sizeof *head; i++)
    fprintf(f, "<th class=\"number\">%s</th>", head[i]);
  for (int k = 0; k < TT_STAGE_COUNT; k++)
    fprintf(f, "<th class=\"number\">%s</th>", tt_stage_name[k]);
  fputs("</tr>\n", f);
  for (int64_t i = 0; i < h->rounds; i++) {
    const tt_round *r = &h->round[i];
    const double value[] = {(double)i + 1,
                            (double)r->labels,
                            tt_history_error(h, i + 1, h),
                            tt_history_spread(h, i + 1, h),
                            tt_percent(r->accurate, r->pool),
                            tt_percent(r->candidate, r->pool),
                            tt_percent(r->failed, r->pool),
                            (double)r->queried,
                            (double)r->label_failed,
                            (double)r->diverged};
    fputs("<tr>", f);
    for (size_t j = 0; j < sizeof value / sizeof *value; j++) tt_page_number_cell(f, value[j]);
    for (int k = 0; k < TT_STAGE_COUNT; k++) tt_page_number_cell(f, r->seconds[k]);
    fputs("</tr>\n", f);
  }
  fputs("</table></div>\n", f);
  tt_page_end_section(f);
}

static void put_cost_table(FILE *f, const tt_history *h)
{
  const tt_history_totals sum = tt_history_sum(h);
  int64_t labels = sum.queries - sum.failed;
  char text[32];
  tt_page_begin_section(f, "Time", NULL);
  tt_page_begin_pairs(f);
  for (int k = 0; k < TT_STAGE_COUNT; k++)
    tt_page_pair(f, tt_stage_name[k], "%s, %.0f %%", tt_duration_text(sum.stage[k], text),
                 sum.seconds > 0 ? 100 * sum.stage[k] / sum.seconds : 0);
  tt_page_pair(f, "all stages", "%s", tt_duration_text(sum.seconds, text));
  if (labels > 0)
    tt_page_pair(f, "oracle, per label", "%.3g s", sum.stage[TT_STAGE_label] / (double)labels);
  tt_page_end_pairs(f);
  tt_page_end_section(f);
}

/* "title: Yachts" of the configuration, else the directory. */
static void find_title(const tt_campaign_record *s, char *title, size_t size)
{
  tt_config *cfg = NULL;
  const char *text = s->texts.resolved;
  snprintf(title, size, "%s", s->directory);
  if (tt_config_parse("campaign.h5", text, (int64_t)strlen(text), NULL, 0, &cfg)) return;
  if (cfg->top_title && *cfg->top_title) snprintf(title, size, "%s", cfg->top_title);
  tt_config_destroy(&cfg);
}

/* What the page is about. */
typedef struct compared_campaigns {
  const tt_campaign_record *s;
  int n;
} compared_campaigns;

static tt_err put_page(FILE *f, void *compared)
{
  const tt_campaign_record *s = ((const compared_campaigns *)compared)->s;
  int n = ((const compared_campaigns *)compared)->n;
  tt_page_begin_verdict(f);
  put_good(f, s, n);
  put_cost(f, s->h);
  put_next(f, s, n);
  tt_page_end_verdict(f);
  TT_TRY(tt_campaign_page_put_curves(f, s, n));
  if (n > 1) {
    fputs("<p class=\"about\">The rest of this page is about ", f);
    tt_page_put_verbatim(f, s->directory);
    fputs(".</p>\n", f);
  }
  TT_TRY(tt_campaign_page_put_rounds(f, s->h));
  TT_TRY(tt_campaign_page_put_queries(f, s));
  put_rounds(f, s->h);
  put_cost_table(f, s->h);
  tt_page_put_files(f, s->directory);
  tt_page_begin_section(f, "Origin", "Of the last round.");
  tt_page_begin_pairs(f);
  tt_page_put_origin(f, s->texts.origin);
  tt_page_pair(f, "hash of data, pool, seed", "%016" PRIx64 ", %016" PRIx64 ", %" PRIu64,
               s->h->identity.data, s->h->identity.pool, s->h->identity.seed);
  tt_page_end_pairs(f);
  tt_page_put_folded(f, "Configuration of the last round, with the values of all options",
                     s->texts.resolved);
  tt_page_end_section(f);
  tt_page_put_citation(f);
  return TT_OK;
}

static tt_err write_page(const tt_campaign_record *s, int n, const char *file, int force)
{
  char title[TEXT], about[TEXT];
  if (s->h->rounds == 0)
    return TT_FAIL(DATA, "%s: no round is finished yet; tutti status shows its state",
                   s->directory);
  find_title(s, title, sizeof title);
  snprintf(about, sizeof about, "Active learning by %s: %" PRId64 " round%s, %" PRId64 " labels",
           *s->score ? s->score : "score", s->h->rounds, tt_plural(s->h->rounds),
           tt_round_labels_after(&s->h->round[s->h->rounds - 1]));
  return tt_page_write(title, about, file, force, put_page, &(compared_campaigns){s, n});
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
  tt_json_set(&all, "oracle_seconds", tt_json_number(sum.stage[TT_STAGE_label]));
  tt_json_set(&all, "error", error);
  tt_json_set(&all, "curves", curves);
  return tt_json_print(all, 2);
}

tt_err tt_campaign_page_write_local(const char *const *directory, int n, const char *file,
                                    int force, int json)
{
  tt_campaign_record *s = NULL;
  int count = 0;
  TT_TRY(tt_page_check_place(file, force));
  TT_TRY(tt_campaign_records_read_local(directory, n, &s, &count));
  tt_err e = write_page(s, count, file, force);
  if (!e && json) e = print_json(s, count, file);
  if (!e && !json) printf("report:  %s\n", file);
  tt_campaign_records_free(&s, count);
  return e;
}
