/* campaign_charts.c — see report_internal.h. */
#include "src/campaign/report/report_internal.h"
#include "src/report/page/page.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_CURVES = 5, MAX_COLUMNS = 6, MAX_PAIRS = 6, MAX_QUERIES = 2000, TEXT = 256, THIRDS = 3 };

/* Learning curves */

static tt_err put_curve(FILE *f, const tt_campaign_record *s, int campaigns, tt_curve_kind kind,
                        int64_t column, const char *title, const char *label)
{
  tt_chart_series series[MAX_CURVES];
  double *x[MAX_CURVES] = {0}; /* labels, then values, of each campaign */
  int n = campaigns < MAX_CURVES ? campaigns : MAX_CURVES;
  int64_t known = 0;
  tt_err e = TT_OK;
  for (int k = 0; !e && k < n; k++) {
    int64_t rounds = s[k].h->rounds;
    e = TT_ALLOC(x[k], 2 * rounds);
    for (int64_t i = 0; !e && i < rounds; i++) {
      x[k][i] = (double)s[k].h->round[i].labels;
      x[k][rounds + i] = tt_curve_value(&s[k], s, kind, column, i);
      known += isfinite(x[k][rounds + i]) != 0;
    }
    series[k] = tt_chart_points(TT_CHART_LINE, k, s[k].name, rounds, x[k], x[k] + rounds);
  }
  if (!e && known)
    tt_page_chart(f, &(tt_chart){title, NULL, "labeled rows", label, n, series, .least_x_step = 1});
  for (int k = 0; k < n; k++) tt_free(x[k]);
  return e;
}

tt_err tt_campaign_page_put_curves(FILE *f, const tt_campaign_record *s, int n)
{
  static const char *const label[] = {[TT_CURVE_RMSE] = "test rmse",
                                      [TT_CURVE_NLL] = "test nll",
                                      [TT_CURVE_SPREAD] = "mean epistemic std"};
  const char *units = s->texts.target.count == 1 ? s->texts.target.units[0] : "";
  char title[TEXT], y_label[TEXT];
  int64_t columns = s->h->columns < MAX_COLUMNS ? s->h->columns : MAX_COLUMNS;
  tt_err e = TT_OK;
  tt_page_begin_section(f, "Learning curve", NULL);
  tt_page_begin_charts(f);
  if (s->h->columns > 1)
    e = put_curve(f, s, n, TT_CURVE_MEAN, 0, "Mean over the columns", "test error (round 1 = 1)");
  for (int kind = TT_CURVE_RMSE; kind <= TT_CURVE_SPREAD; kind++)
    for (int64_t c = 0; !e && c < columns; c++) {
      int has_units = *units && kind != TT_CURVE_NLL;
      snprintf(title, sizeof title,
               kind == TT_CURVE_SPREAD ? "Spread of %s over the candidates" : "%s",
               s->texts.column[c]);
      snprintf(y_label, sizeof y_label, "%s%s%s%s", label[kind], has_units ? " (" : "",
               has_units ? units : "", has_units ? ")" : "");
      e = put_curve(f, s, n, (tt_curve_kind)kind, c, title, y_label);
    }
  tt_page_end_charts(f);
  tt_page_end_section(f);
  return e;
}

/* By round */

/* Chart of some lines over the rounds; y [lines][rounds]. */
static void put_lines(FILE *f, const char *title, const char *label, int lines,
                      const char *const *name, int64_t rounds, const double *x, const double *y)
{
  tt_chart_series line[TT_STAGE_COUNT];
  for (int k = 0; k < lines; k++)
    line[k] = tt_chart_points(TT_CHART_LINE, k, name[k], rounds, x, y + k * rounds);
  tt_page_chart(f, &(tt_chart){title, NULL, "round", label, lines, line, .least_x_step = 1});
}

tt_err tt_campaign_page_put_rounds(FILE *f, const tt_history *h)
{
  static const char *const share[] = {"accurate", "candidate", "failed"};
  static const char *const query[] = {"queried", "without label"};
  double *x = NULL;
  int64_t n = h->rounds, parts = 0; /* candidates that are accurate or failed: 0 without limits */
  TT_TRY(TT_ALLOC(x, (1 + TT_STAGE_COUNT) * n));
  double *y = x + n;
  tt_page_begin_section(f, "Pool, oracle, time", NULL);
  tt_page_begin_charts(f);
  for (int64_t i = 0; i < n; i++) {
    const tt_round *r = &h->round[i];
    x[i] = (double)i + 1;
    y[i] = tt_percent(r->accurate, r->pool);
    y[n + i] = tt_percent(r->candidate, r->pool);
    y[2 * n + i] = tt_percent(r->failed, r->pool);
    parts += r->accurate + r->failed;
  }
  if (parts > 0) put_lines(f, "Shares of the pool", "candidates (%)", 3, share, n, x, y);
  for (int64_t i = 0; i < n; i++) {
    int is_last = h->round[i].queried == 0; /* the last round asks for no labels */
    y[i] = is_last ? (double)NAN : (double)h->round[i].queried;
    y[n + i] = is_last ? (double)NAN : (double)h->round[i].label_failed;
  }
  put_lines(f, "Queries to the oracle", "rows", 2, query, n, x, y);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < TT_STAGE_COUNT; k++) y[k * n + i] = h->round[i].seconds[k];
  put_lines(f, "Time of the stages", "seconds", TT_STAGE_COUNT, tt_stage_name, n, x, y);
  tt_page_end_charts(f);
  tt_page_end_section(f);
  tt_free(x);
  return TT_OK;
}

/* What was selected */

/* The queries of one part of the rounds, at most MAX_QUERIES at equal distances. */
typedef struct picked {
  int64_t n;
  int64_t *query; /* [n] */
} picked;

/* The third of the rounds of a query. */
static int third_of(const tt_history *h, int64_t query)
{
  int64_t round = h->query[query].round - 1;
  int third = (int)(round * THIRDS / (h->rounds > 1 ? h->rounds - 1 : 1));
  return third < THIRDS ? third : THIRDS - 1;
}

/* y: input `b`, or the round if there is only one input. */
static void put_pair(FILE *f, const tt_campaign_record *s, picked *part, int64_t a, int64_t b,
                     double *scratch)
{
  static const char *const name[] = {"early", "middle", "late rounds"};
  const tt_history *h = s->h;
  const tt_columns *input = &s->texts.input;
  tt_chart_series series[THIRDS];
  char title[TEXT];
  int64_t D = h->inputs;
  for (int k = 0; k < THIRDS; k++) {
    double *x = scratch, *y = scratch + part[k].n;
    scratch = y + part[k].n;
    for (int64_t i = 0; i < part[k].n; i++) {
      int64_t q = part[k].query[i];
      x[i] = h->x[q * D + a];
      y[i] = b < D ? h->x[q * D + b] : (double)h->query[q].round;
    }
    series[k] = tt_chart_points(TT_CHART_POINTS, k, name[k], part[k].n, x, y);
  }
  const char *x_name = a < input->count ? input->name[a] : "x";
  const char *y_name = b >= D ? "round" : b < input->count ? input->name[b] : "y";
  snprintf(title, sizeof title, "%.100s and %.100s", x_name, y_name);
  tt_page_chart(f, &(tt_chart){title, NULL, x_name, y_name, THIRDS, series, .is_linear = 1});
}

tt_err tt_campaign_page_put_queries(FILE *f, const tt_campaign_record *s)
{
  const tt_history *h = s->h;
  picked part[THIRDS] = {{0}};
  int64_t *index = NULL, step = (h->queries + MAX_QUERIES - 1) / MAX_QUERIES;
  double *scratch = NULL;
  int64_t pairs = (h->inputs + 1) / 2; /* an odd last input is drawn with the one before it */
  if (h->queries == 0) return TT_OK;
  tt_err e = TT_ALLOC(index, THIRDS * h->queries);
  if (!e) e = TT_ALLOC(scratch, 2 * h->queries);
  if (!e) {
    for (int k = 0; k < THIRDS; k++) part[k] = (picked){0, index + k * h->queries};
    for (int64_t q = 0; q < h->queries; q += step) {
      picked *third = &part[third_of(h, q)];
      third->query[third->n++] = q;
    }
    tt_page_begin_section(
        f, "What was selected",
        "Inputs of the queries, two at a time, in early, middle and late rounds.");
    tt_page_begin_charts(f);
    for (int64_t i = 0; i < pairs && i < MAX_PAIRS; i++) {
      int64_t a = 2 * i + 1 < h->inputs || i == 0 ? 2 * i : 2 * i - 1;
      put_pair(f, s, part, a, a + 1, scratch);
    }
    tt_page_end_charts(f);
    tt_page_end_section(f);
  }
  tt_free_all(&index, &scratch);
  return e;
}
