/* campaign_page.c — `tutti report` of a campaign; see campaign_report.h. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"
#include "src/report/page/page.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512 };

/* Verdict */

/* The error after the last round of the campaigns of a group, in units of their first round,
 * ascending, in last[group->n]; returns how many are known. */
static int find_last_errors(const tt_repeats *group, double *last)
{
  int known = 0;
  for (int k = 0; k < group->n; k++) {
    const tt_history *h = group->all[group->campaign[k]].h;
    double error = h->rounds ? tt_history_error(h, h->rounds, h) : (double)NAN;
    if (isfinite(error)) last[known++] = error;
  }
  qsort(last, (size_t)known, sizeof *last, tt_compare_f64);
  return known;
}

/* "With 60 labels: 12 % less error than random (median of 5)." */
static tt_err compare_groups(const tt_repeats *group, int other, tt_sentences *words)
{
  tt_learning_curve a, b;
  const tt_repeats *before = &group[other];
  char many[32] = "";
  TT_TRY(tt_learning_curve_create(group, TT_CURVE_MEAN, 0, &a));
  tt_err e = tt_learning_curve_create(before, TT_CURVE_MEAN, 0, &b);
  if (!e && a.points && b.points) {
    double labels = fmin(a.labels[a.points - 1], b.labels[b.points - 1]);
    double part = tt_learning_curve_at(&a, labels) / tt_learning_curve_at(&b, labels);
    if (before->n > 1) snprintf(many, sizeof many, " (median of %d)", before->n);
    if (isfinite(part))
      tt_sentences_add(words, "With %.0f labels: %.3g %% %s error than %.150s%s.", labels,
                       100 * fabs(1 - part), part <= 1 ? "less" : "more", before->name, many);
  }
  tt_learning_curve_free(&a);
  if (!e) tt_learning_curve_free(&b);
  return e;
}

static void say_fall(const tt_repeats *group, const double *last, int known, tt_sentences *words)
{
  const tt_history *h = group->all->h;
  double middle = 0.5 * (last[(known - 1) / 2] + last[known / 2]);
  char repeats[96] = "";
  if (known > 1)
    snprintf(repeats, sizeof repeats, ", the median of %d repeats (%.3g to %.3g %%)", known,
             100 * last[0], 100 * last[known - 1]);
  tt_sentences_add(words,
                   "From %" PRId64 " to %" PRId64
                   " labels the test error %s to %.3g %% of that of round 1%s.",
                   h->round[0].labels, h->round[h->rounds - 1].labels,
                   middle <= 1 ? "fell" : "rose", 100 * middle, repeats);
}

static tt_err put_good(FILE *f, const tt_repeats *group, int groups)
{
  enum { OTHERS = 2 };
  char figure[64] = "";
  tt_sentences words = {0};
  double *last = NULL;
  TT_TRY(TT_ALLOC(last, group->n));
  int known = find_last_errors(group, last);
  tt_err e = TT_OK;
  if (known) {
    double middle = 0.5 * (last[(known - 1) / 2] + last[known / 2]);
    snprintf(figure, sizeof figure, "%.3g %% %s error", 100 * fabs(1 - middle),
             middle <= 1 ? "less" : "more");
    say_fall(group, last, known, &words);
  } else
    tt_sentences_add(&words, "Not known: the campaign has no test rows (data.split).");
  for (int g = 1; !e && known && g < groups && g <= OTHERS; g++)
    e = compare_groups(group, g, &words);
  if (!e) tt_page_verdict(f, "How good", figure, &words);
  tt_free(last);
  return e;
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

static void put_next(FILE *f, const tt_repeats *group, int groups)
{
  tt_sentences words = {0};
  const tt_campaign_record *s = group->all;
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
  if (groups == 1)
    tt_sentences_add(
        &words,
        "Compare it with a campaign that chooses at random (score.acquisition: random): tutti "
        "report %.100s RANDOM",
        s->directory);
  else if (group->n == 1)
    tt_sentences_add(&words,
                     "One campaign each may be luck: repeat them with other seeds (run.seed, "
                     "data.split.seed), and give all directories.");
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
typedef struct compared_groups {
  const tt_repeats *group;
  int groups;
} compared_groups;

static tt_err put_page(FILE *f, void *compared)
{
  const tt_repeats *group = ((const compared_groups *)compared)->group;
  int groups = ((const compared_groups *)compared)->groups;
  const tt_campaign_record *s = group->all;
  tt_page_begin_verdict(f);
  TT_TRY(put_good(f, group, groups));
  put_cost(f, s->h);
  put_next(f, group, groups);
  tt_page_end_verdict(f);
  TT_TRY(tt_campaign_page_put_curves(f, group, groups));
  if (group->n > 1) {
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

static tt_err write_page(const tt_repeats *group, int groups, const char *file, int force)
{
  const tt_campaign_record *s = group->all;
  char title[TEXT], about[TEXT];
  if (s->h->rounds == 0)
    return TT_FAIL(DATA, "%s: no round is finished yet; tutti status shows its state",
                   s->directory);
  find_title(s, title, sizeof title);
  snprintf(about, sizeof about, "Active learning by %s: %" PRId64 " round%s, %" PRId64 " labels",
           *s->score ? s->score : "score", s->h->rounds, tt_plural(s->h->rounds),
           tt_round_labels_after(&s->h->round[s->h->rounds - 1]));
  return tt_page_write(title, about, file, force, put_page, &(compared_groups){group, groups});
}

/* JSON */

/* [0.5, null, ...] */
static json_t *numbers_to_json(const double *value, int64_t n)
{
  json_t *list = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(list, tt_json_number(value[i]));
  return list;
}

static tt_err curve_to_json(const tt_repeats *group, json_t **out)
{
  tt_learning_curve c;
  TT_TRY(tt_learning_curve_create(group, TT_CURVE_MEAN, 0, &c));
  json_t *row = json_object(), *places = json_array();
  for (int k = 0; k < group->n; k++)
    json_array_append_new(places, tt_json_text(group->all[group->campaign[k]].directory));
  tt_json_set(&row, "name", tt_json_text(group->name));
  tt_json_set(&row, "directories", places);
  tt_json_set(&row, "labels", numbers_to_json(c.labels, c.points));
  tt_json_set(&row, "error", numbers_to_json(c.value, c.points));
  tt_json_set(&row, "low", numbers_to_json(c.low, c.points));
  tt_json_set(&row, "high", numbers_to_json(c.high, c.points));
  tt_learning_curve_free(&c);
  *out = row;
  return TT_OK;
}

static tt_err print_json(const tt_repeats *group, int groups, const char *file)
{
  const tt_campaign_record *s = group->all;
  const tt_history *h = s->h;
  const tt_history_totals sum = tt_history_sum(h);
  json_t *all = json_object(), *error = json_array(), *curves = json_array(), *curve = NULL;
  tt_err e = TT_OK;
  for (int64_t i = 1; i <= h->rounds; i++)
    json_array_append_new(error, tt_json_number(tt_history_error(h, i, h)));
  for (int g = 0; !e && g < groups; g++) {
    e = curve_to_json(&group[g], &curve);
    if (!e) json_array_append_new(curves, curve);
  }
  tt_json_set(&all, "report", tt_json_text(file));
  tt_json_set(&all, "directory", tt_json_text(s->directory));
  tt_json_set(&all, "rounds", json_integer(h->rounds));
  tt_json_set(&all, "queries", json_integer(sum.queries));
  tt_json_set(&all, "without_label", json_integer(sum.failed));
  tt_json_set(&all, "seconds", tt_json_number(sum.seconds));
  tt_json_set(&all, "oracle_seconds", tt_json_number(sum.stage[TT_STAGE_label]));
  tt_json_set(&all, "error", error);
  tt_json_set(&all, "curves", curves);
  if (!e) return tt_json_print(all, 2);
  json_decref(all);
  return e;
}

tt_err tt_campaign_page_write_local(const char *const *directory, int n, const char *file,
                                    int force, int json)
{
  tt_campaign_record *s = NULL;
  tt_repeats *group = NULL;
  int count = 0, groups = 0;
  TT_TRY(tt_page_check_place(file, force));
  TT_TRY(tt_campaign_records_read_local(directory, n, &s, &count));
  tt_err e = tt_repeats_create(s, count, &group, &groups);
  if (!e) e = write_page(group, groups, file, force);
  if (!e && json) e = print_json(group, groups, file);
  if (!e && !json) printf("report:  %s\n", file);
  tt_repeats_free(&group, groups);
  tt_campaign_records_free(&s, count);
  return e;
}

/* `tutti report --tsv` */

static void print_head(const tt_campaign_record *s)
{
  static const char *const of_column[] = {"rmse", "nll", "spread"};
  printf("campaign\tscore\tround\terror");
#define X(name, meaning) printf("\t" #name);
  TT_ROUND_COUNTS(X)
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) printf("\tseconds.%s", tt_stage_name[k]);
  for (int k = 0; k < 3; k++)
    for (int64_t c = 0; c < s->h->columns; c++) printf("\t%s.%s", of_column[k], s->texts.column[c]);
  printf("\n");
}

static void print_round(const tt_campaign_record *s, int64_t i, const tt_history *unit)
{
  const tt_round *r = &s->h->round[i];
  const double *const of_column[] = {r->rmse, r->nll, r->spread};
  printf("%s%s\t%s\t%" PRId64 "\t%.9g", tt_table_quote(s->directory), s->directory, s->score, i + 1,
         tt_history_error(s->h, i + 1, unit));
#define X(name, meaning) printf("\t%" PRId64, r->name);
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) printf("\t%.9g", r->name);
  TT_ROUND_NUMBERS(X)
#undef X
  for (int k = 0; k < TT_STAGE_COUNT; k++) printf("\t%.9g", r->seconds[k]);
  for (int k = 0; k < 3; k++)
    for (int64_t c = 0; c < s->h->columns; c++) printf("\t%.9g", of_column[k][c]);
  printf("\n");
}

tt_err tt_campaign_rounds_print_local(const char *const *directory, int n)
{
  tt_campaign_record *s = NULL;
  int count = 0;
  TT_TRY(tt_campaign_records_read_local(directory, n, &s, &count));
  print_head(s);
  for (int k = 0; k < count; k++)
    for (int64_t i = 0; i < s[k].h->rounds; i++) print_round(&s[k], i, s->h);
  tt_campaign_records_free(&s, count);
  return TT_OK;
}
