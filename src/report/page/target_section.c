/* target_section.c — see run_page_internal.h: the targets, each with its charts. */
#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  TRACES = 100,         /* most members with a line of their own */
  TRACE_POINTS = 16000, /* of all lines of the page */
  TEXT = 256,
  MAX_CONFUSED = 12 /* most classes of a table of errors */
};

/* The line of a member in a learning curve. */
typedef struct trace {
  const tt_run_page *p;
  int64_t member;
} trace;

static void say_trace(const void *data, int64_t i, char *text, size_t size)
{
  const trace *t = data;
  const tt_result_details *d = t->p->d;
  (void)i;
  snprintf(text, size, "member %.0f of %s, %s; epoch {x}: validation loss {y}", d->index[t->member],
           t->p->k->owner[t->member], tt_run_page_state(t->p, t->member));
}

/* Members to draw: all, or TRACES of them at equal distances. */
static int64_t traced(const tt_loss_history *h, int64_t i, int64_t n)
{
  return h->first + i * (h->end - h->first) / n;
}

static void fill_trace(const tt_run_page *p, int64_t m, int64_t points, double *x, double *y)
{
  int64_t epochs = p->k->epochs;
  const float *loss = &p->k->loss_validation[m * epochs];
  int is_known = 0;
  for (int64_t e = 0; e < epochs; e++) is_known |= isfinite(loss[e]);
  if (!is_known) loss = &p->k->loss_train[m * epochs];
  for (int64_t j = 0; j < points; j++) {
    int64_t e = points > 1 ? j * (epochs - 1) / (points - 1) : 0;
    x[j] = (double)(e + 1);
    y[j] = loss[e];
  }
}

/* The learning curves with a thin line for each member behind them. */
static tt_err put_history(const tt_run_page *p, const tt_target_charts *t)
{
  tt_chart c = t->chart[TT_TARGET_HISTORY];
  const tt_loss_history *h = &t->history;
  int64_t n = h->end - h->first < TRACES ? h->end - h->first : TRACES;
  int64_t points = n > 0 ? TRACE_POINTS / (n * p->shown) : 0;
  points = points > p->k->epochs ? p->k->epochs : points < 12 ? 12 : points;
  tt_chart_series *s = NULL;
  double *values = NULL;
  trace *own = NULL;
  tt_err e = TT_ALLOC(s, c.count + n);
  if (!e) e = TT_ALLOC(values, 2 * n * points);
  if (!e) e = TT_ALLOC(own, n);
  if (!e) {
    memcpy(s, c.series, (size_t)c.count * sizeof *s);
    for (int64_t i = 0; i < n; i++) {
      double *x = values + 2 * i * points, *y = x + points;
      own[i] = (trace){p, traced(h, i, n)};
      fill_trace(p, own[i].member, points, x, y);
      s[c.count + i] = (tt_chart_series){.points = points,
                                         .x = x,
                                         .y = y,
                                         .mark = TT_CHART_TRACE,
                                         .style = 1,
                                         .hover = say_trace,
                                         .of = &own[i],
                                         .member = &own[i].member};
    }
    c.series = s;
    c.count += n;
    tt_page_chart(p->f, &c);
  }
  tt_free_all(&s, &values, &own);
  return e;
}

/* The members of an ensemble as points, and the ensemble as a line. */
typedef struct member_points {
  const tt_run_page *p;
  const int64_t *member;
  const double *score;
  const char *what;
} member_points;

static void say_member(const void *data, int64_t i, char *text, size_t size)
{
  const member_points *s = data;
  const tt_result_details *d = s->p->d;
  snprintf(text, size, "member %.0f: %s %.4g, best epoch %.0f of %.0f", d->index[s->member[i]],
           s->what, s->score[i], d->best_epoch[s->member[i]] + 1, d->epochs_done[s->member[i]]);
}

static tt_metric metric_of(const tt_run_page *p, const tt_target_charts *t)
{
  static const tt_metric of_class[] = {TT_METRIC_accuracy, TT_METRIC_brier, TT_METRIC_nll};
  static const tt_metric of_number[] = {TT_METRIC_rmse, TT_METRIC_pinball, TT_METRIC_nll};
  const tt_metric *m = tt_target_is_class(p->k, t->first) ? of_class : of_number;
  for (int i = 0; i < 2; i++)
    if (p->d->member_score[m[i]]) return m[i];
  return m[2];
}

static tt_err put_members(const tt_run_page *p, const tt_target_charts *t)
{
  int64_t first = t->history.first, n = t->history.end - first, known = 0;
  tt_metric metric = metric_of(p, t);
  double *scratch = NULL, ensemble = p->d->score[metric][t->first + t->count / 2];
  int64_t *member = NULL;
  char note[TEXT], label[TEXT];
  TT_TRY(TT_ALLOC(scratch, 2 * n + 4));
  tt_err e = TT_ALLOC(member, n);
  double *x = scratch, *y = scratch + n, *line = scratch + 2 * n, least = INFINITY,
         most = -INFINITY;
  for (int64_t i = 0; !e && i < n; i++) {
    member[i] = first + i;
    x[i] = p->d->index[first + i];
    y[i] = tt_result_member_score(p->k, p->d, metric, first + i, t->first);
    if (!isfinite(y[i])) continue;
    known++;
    least = fmin(least, y[i]);
    most = fmax(most, y[i]);
  }
  if (!e && known) {
    const char *what = tt_metric_table[metric].name;
    snprintf(label, sizeof label, "test %s of a member", what);
    snprintf(note, sizeof note, "%s %.3g; members %.3g to %.3g", what, ensemble, least, most);
    line[0] = x[0];
    line[1] = x[n - 1];
    line[2] = line[3] = ensemble;
    member_points points = {p, member, y, what};
    const tt_chart_series s[] = {{.name = "ensemble",
                                  .points = 2,
                                  .x = line,
                                  .y = line + 2,
                                  .mark = TT_CHART_LINE,
                                  .style = TT_CHART_REFERENCE},
                                 {.name = "members",
                                  .points = n,
                                  .x = x,
                                  .y = y,
                                  .mark = TT_CHART_POINTS,
                                  .style = 1,
                                  .hover = say_member,
                                  .of = &points,
                                  .member = member}};
    tt_page_chart(p->f, &(tt_chart){.title = "Members and ensemble",
                                    .note = note,
                                    .x_label = "member",
                                    .y_label = label,
                                    .count = 2,
                                    .series = s,
                                    .least_x_step = 1});
  }
  tt_free_all(&scratch, &member);
  return e;
}

/* Number of test rows of class `row` that are taken for class `column`. */
static int64_t confused(const tt_results *k, const tt_target_charts *t, int64_t classes,
                        int64_t row, int64_t column)
{
  int64_t n = 0;
  for (int64_t r = 0; r < k->rows; r++) {
    const double *y = &k->test.y[r * k->columns + t->first];
    const double *mean = &k->test.mean[r * k->columns + t->first];
    int64_t top = 0;
    for (int64_t c = 1; c < classes; c++)
      if (mean[c] > mean[top]) top = c;
    n += y[row] == 1 && top == column;
  }
  return n;
}

/* The last column of a target of several classes is the entropy. */
static void put_confusion(const tt_run_page *p, const tt_target_charts *t)
{
  int64_t classes = t->count - 1;
  if (!tt_target_is_class(p->k, t->first) || classes < 2 || classes > MAX_CONFUSED ||
      p->k->rows == 0)
    return;
  fputs("<div class=\"wide\"><table class=\"tight\">\n<tr><th>true class, taken for</th>", p->f);
  for (int64_t c = 0; c < classes; c++) fprintf(p->f, "<th class=\"number\">%" PRId64 "</th>", c);
  fputs("</tr>\n", p->f);
  for (int64_t row = 0; row < classes; row++) {
    fprintf(p->f, "<tr><th>%" PRId64 "</th>", row);
    for (int64_t c = 0; c < classes; c++) {
      int64_t n = confused(p->k, t, classes, row, c);
      if (n)
        fprintf(p->f, "<td class=\"number\">%" PRId64 "</td>", n);
      else
        fputs("<td></td>", p->f);
    }
    fputs("</tr>\n", p->f);
  }
  fputs("</table></div>\n", p->f);
}

static int has_values(const tt_chart *c)
{
  const tt_chart_series *s = c->series;
  for (int64_t i = 0; c->count && i < s->points; i++)
    if (isfinite(s->x[i]) && isfinite(s->y[i])) return 1;
  return 0;
}

static tt_err put_target(const tt_run_page *p, int64_t i)
{
  const tt_target_charts *t = &p->t[i];
  static const tt_target_chart before[] = {TT_TARGET_PREDICTED, TT_TARGET_RESIDUALS,
                                           TT_TARGET_INTERVALS, TT_TARGET_SPREAD};
  tt_target_verdict v = tt_target_judge(p, i);
  int is_first = !t->shares_history;
  tt_page_begin_section(p->f, t->title, NULL);
  tt_page_begin_charts(p->f);
  for (int j = 0; p->k->rows > 0 && j < 4; j++) {
    tt_chart c = t->chart[before[j]];
    if (before[j] == TT_TARGET_PREDICTED)
      c.title = tt_target_is_class(p->k, t->first) ? "Reliability" : "Predicted and measured";
    if (before[j] == TT_TARGET_INTERVALS && !*v.how_sure) continue;
    if (has_values(&c)) tt_page_chart(p->f, &c);
  }
  tt_err e = is_first ? put_history(p, t) : TT_OK; /* one for each ensemble */
  if (!e) e = put_members(p, t);
  tt_page_end_charts(p->f);
  put_confusion(p, t);
  tt_page_end_section(p->f);
  return e;
}

static void put_table_row(const tt_run_page *p, int64_t i)
{
  const tt_target_charts *t = &p->t[i];
  tt_target_verdict v = tt_target_judge(p, i);
  int is_class = tt_target_is_class(p->k, t->first);
  int64_t column = t->first + t->count / 2;
  fputs("<tr><td>", p->f);
  tt_page_put(p->f, t->title);
  fputs("</td><td>", p->f);
  tt_page_put(p->f, is_class ? "class" : p->k->units[t->first]);
  fputs("</td>", p->f);
  tt_page_number_cell(p->f, v.error);
  tt_page_number_cell(p->f, 100 * v.relative);
  tt_page_number_cell(p->f, p->d->score[TT_METRIC_r2][column]);
  tt_page_number_cell(p->f, p->d->score[TT_METRIC_nll][column]);
  tt_page_number_cell(p->f, p->d->score[TT_METRIC_crps][column]);
  tt_page_number_cell(p->f, is_class ? (double)NAN : 100 * v.inside);
  tt_page_number_cell(p->f, (double)t->rows);
  fputs("<td class=\"words\">", p->f);
  tt_page_put(p->f, v.how_good);
  if (*v.how_sure)
    tt_page_print(p->f, "; %s %s", is_class ? "confidence" : "intervals", v.how_sure);
  fputs("</td></tr>\n", p->f);
}

static void put_table(const tt_run_page *p)
{
  tt_page_begin_section(p->f, "Scores on the test rows",
                        "Relative error: rmse in per cent of the standard deviation of the labels; "
                        "for classes, errors in per cent of those of the most frequent class.");
  fputs(
      "<div class=\"wide\"><table>\n<tr><th>target</th><th>units</th><th class=\"number\">"
      "rmse or accuracy</th><th class=\"number\">relative %</th><th class=\"number\">R\xC2\xB2</th>"
      "<th class=\"number\">nll</th><th class=\"number\">CRPS</th><th class=\"number\">in 90 %"
      "</th><th class=\"number\">rows</th><th>in words</th></tr>\n",
      p->f);
  for (int64_t i = 0; i < p->targets; i++) put_table_row(p, i);
  fputs("</table></div>\n", p->f);
  tt_page_end_section(p->f);
}

tt_err tt_run_page_put_targets(const tt_run_page *p)
{
  tt_err e = TT_OK;
  if (p->k->rows > 0) put_table(p);
  for (int64_t i = 0; !e && i < p->shown; i++) e = put_target(p, i);
  if (p->shown < p->targets)
    tt_page_print(p->f, "Charts of the first %" PRId64 " of %" PRId64 " targets.", p->shown,
                  p->targets);
  return e;
}
