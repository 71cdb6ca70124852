/* campaign_page.c — `tutti report` of a campaign; see campaign_report.h. */
#include "src/campaign/report/campaign_page_internal.h"
#include "src/campaign/report/campaign_report.h"
#include "src/report/page/common_sections.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TEXT = 512 };

static double stage_seconds(const tt_history *h, tt_stage stage)
{
  double sum = 0;
  for (int64_t i = 0; i < h->rounds; i++)
    if (isfinite(h->round[i].seconds[stage])) sum += h->round[i].seconds[stage];
  return sum;
}

static double all_seconds(const tt_history *h)
{
  double sum = 0;
  for (int k = 0; k < TT_STAGE_COUNT; k++) sum += stage_seconds(h, (tt_stage)k);
  return sum;
}

static int64_t count_queries(const tt_history *h)
{
  int64_t n = 0;
  for (int64_t i = 0; i < h->rounds; i++) n += h->round[i].queried;
  return n;
}

static int64_t count_failed(const tt_history *h)
{
  int64_t n = 0;
  for (int64_t i = 0; i < h->rounds; i++) n += h->round[i].label_failed;
  return n;
}

/* Verdict */

static void put_good(FILE *f, const tt_history *h)
{
  char figure[64] = "", words[TEXT];
  const char *at[] = {words};
  double first = tt_history_error(h, 1, h), last = tt_history_error(h, h->rounds, h);
  if (isfinite(first) && isfinite(last)) {
    snprintf(figure, sizeof figure, "%.3g %% %s error", 100 * fabs(1 - last / first),
             last <= first ? "less" : "more");
    snprintf(words, sizeof words,
             "From %" PRId64 " to %" PRId64 " labels the test error %s to %.3g %% of that of "
             "round 1.",
             h->round[0].labels, h->round[h->rounds - 1].labels, last <= first ? "fell" : "rose",
             100 * last / first);
  } else
    snprintf(words, sizeof words, "Not known: the campaign has no test rows (data.split).");
  tt_page_verdict(f, "How good", figure, 1, at);
}

static void put_cost(FILE *f, const tt_history *h)
{
  char figure[64], words[TEXT], text[2][32];
  const char *at[] = {words};
  int64_t queries = count_queries(h), failed = count_failed(h), labels = queries - failed;
  snprintf(figure, sizeof figure, "%" PRId64 " label%s", labels, tt_plural(labels));
  snprintf(words, sizeof words,
           "%" PRId64 " quer%s in %" PRId64 " round%s, %" PRId64
           " without a label; %s in all, %s of it in the oracle.",
           queries, queries == 1 ? "y" : "ies", h->rounds, tt_plural(h->rounds), failed,
           tt_duration_text(all_seconds(h), text[0]),
           tt_duration_text(stage_seconds(h, TT_STAGE_label), text[1]));
  tt_page_verdict(f, "What it cost", figure, 1, at);
}

/* The fall of the error in the last third of the rounds, as a fraction; NaN = not known. */
static double late_gain(const tt_history *h)
{
  int64_t from = h->rounds - h->rounds / 3;
  if (h->rounds < 6) return NAN;
  return 1 - tt_history_error(h, h->rounds, h) / tt_history_error(h, from, h);
}

static void put_next(FILE *f, const tt_campaign_record *s, int n)
{
  enum { MOST = 4 };
  char words[MOST][TEXT];
  const char *at[MOST];
  const tt_history *h = s->h;
  double gain = late_gain(h);
  int64_t queries = count_queries(h), failed = count_failed(h), used = 0;
  if (h->ended >= 0)
    snprintf(words[used++], TEXT, "The campaign ended by rule %s (%s).",
             tt_stop_rule_name[h->ended], tt_stop_rule_option[h->ended]);
  else
    snprintf(words[used++], TEXT, "The campaign has not ended: tutti campaign run continues it.");
  if (gain > 0.1)
    snprintf(words[used++], TEXT,
             "The error still fell by %.0f %% in the last third of the rounds: more labels help.",
             100 * gain);
  else if (isfinite(gain))
    snprintf(words[used++], TEXT, "The error fell by %.0f %% in the last third of the rounds.",
             100 * gain);
  if (10 * failed > queries)
    snprintf(words[used++], TEXT,
             "%" PRId64 " of %" PRId64 " queries have no label: check the oracle.", failed,
             h->queries);
  if (n == 1)
    snprintf(words[used++], TEXT,
             "Compare it with a campaign that chooses at random (score.acquisition: random): tutti "
             "report %.100s RANDOM",
             s->directory);
  for (int64_t i = 0; i < used; i++) at[i] = words[i];
  tt_page_verdict(f, "What next", "", used, at);
}

/* Table of the rounds */

static void put_rounds(FILE *f, const tt_history *h)
{
  static const char *const head[] = {"round",    "labels",     "error",
                                     "spread",   "accurate %", "candidate %",
                                     "failed %", "queried",    "without label"};
  tt_page_begin_section(f, "Rounds",
                        "Error and spread: mean over the columns, in units of round 1. Accurate, "
                        "candidate, failed: shares of the pool. Stages: seconds.");
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
                            (double)r->label_failed};
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
  double all = all_seconds(h);
  int64_t labels = count_queries(h) - count_failed(h);
  char text[32];
  tt_page_begin_section(f, "Time", NULL);
  tt_page_begin_pairs(f);
  for (int k = 0; k < TT_STAGE_COUNT; k++) {
    double s = stage_seconds(h, (tt_stage)k);
    tt_page_pair(f, tt_stage_name[k], "%s, %.0f %%", tt_duration_text(s, text),
                 all > 0 ? 100 * s / all : 0);
  }
  tt_page_pair(f, "all stages", "%s", tt_duration_text(all, text));
  if (labels > 0)
    tt_page_pair(f, "oracle, per label", "%.3g s",
                 stage_seconds(h, TT_STAGE_label) / (double)labels);
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

static tt_err put_page(const tt_campaign_record *s, int n, tt_page *page)
{
  FILE *f = page->f;
  tt_page_begin_verdict(f);
  put_good(f, s->h);
  put_cost(f, s->h);
  put_next(f, s, n);
  tt_page_end_verdict(f);
  TT_TRY(tt_campaign_page_put_curves(f, s, n));
  TT_TRY(tt_campaign_page_put_rounds(f, s->h));
  TT_TRY(tt_campaign_page_put_queries(f, s));
  put_rounds(f, s->h);
  put_cost_table(f, s->h);
  tt_page_put_files(f, s->directory);
  tt_page_begin_section(f, "Origin", NULL);
  tt_page_begin_pairs(f);
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
  tt_page page;
  char title[TEXT], about[TEXT];
  if (s->h->rounds == 0)
    return TT_FAIL(DATA, "%s: no round is finished yet; tutti campaign status shows its state",
                   s->directory);
  find_title(s, title, sizeof title);
  snprintf(about, sizeof about, "Active learning by %s: %" PRId64 " round%s, %" PRId64 " labels",
           *s->score ? s->score : "score", s->h->rounds, tt_plural(s->h->rounds),
           tt_round_labels_after(&s->h->round[s->h->rounds - 1]));
  TT_TRY(tt_page_begin(title, about, &page));
  tt_err e = put_page(s, n, &page);
  if (e)
    tt_page_discard(&page);
  else
    e = tt_page_publish(&page, file, force);
  return e;
}

static tt_err print_json(const tt_campaign_record *s, const char *file)
{
  const tt_history *h = s->h;
  json_t *all = json_object(), *error = json_array();
  for (int64_t i = 1; i <= h->rounds; i++)
    json_array_append_new(error, tt_json_number(tt_history_error(h, i, h)));
  tt_json_set(&all, "report", tt_json_text(file));
  tt_json_set(&all, "directory", tt_json_text(s->directory));
  tt_json_set(&all, "rounds", json_integer(h->rounds));
  tt_json_set(&all, "queries", json_integer(count_queries(h)));
  tt_json_set(&all, "without_label", json_integer(count_failed(h)));
  tt_json_set(&all, "seconds", tt_json_number(all_seconds(h)));
  tt_json_set(&all, "oracle_seconds", tt_json_number(stage_seconds(h, TT_STAGE_label)));
  tt_json_set(&all, "error", error);
  return tt_json_print(all, 2);
}

tt_err tt_campaign_page_write_local(const char *const *directory, int n, const char *file,
                                    int force, int json)
{
  tt_campaign_record *s = NULL;
  TT_TRY(tt_page_check_place(file, force));
  tt_err e = TT_ALLOC(s, n);
  for (int i = 0; !e && i < n; i++) e = tt_campaign_record_read_local(directory[i], &s[i]);
  if (!e) e = tt_campaigns_check_columns(s, n);
  if (!e) e = write_page(s, n, file, force);
  if (!e && json) e = print_json(s, file);
  if (!e && !json) printf("report:  %s\n", file);
  for (int i = 0; s && i < n; i++) tt_campaign_record_free(&s[i]);
  tt_free(s);
  return e;
}
