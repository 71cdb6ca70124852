/* target_section.c — see run_page_internal.h: the targets, each with its charts. */
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_CONFUSED = 12 /* most classes of a table of errors */ };

/* Number of test rows of class `row` that are taken for class `column`. */
static int64_t confused(const tt_results *k, const tt_target *t, int64_t classes, int64_t row,
                        int64_t column)
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
static void put_confusion(const tt_run_page *p, const tt_target *t)
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

static tt_err put_target(const tt_run_page *p, const tt_target *t)
{
  tt_target_verdict v = tt_target_judge(p, t - p->t);
  tt_page_begin_section(p->f, t->title, NULL);
  tt_page_begin_charts(p->f);
  tt_err e = tt_target_put_charts(p, t, *v.how_sure != '\0');
  tt_page_end_charts(p->f);
  put_confusion(p, t);
  tt_page_end_section(p->f);
  return e;
}

static void put_table_row(const tt_run_page *p, int64_t i)
{
  const tt_target *t = &p->t[i];
  tt_target_verdict v = tt_target_judge(p, i);
  int is_class = tt_target_is_class(p->k, t->first);
  int64_t column = t->first + t->count / 2;
  tt_page_element(p->f, "<tr><td>", t->title, "</td>");
  tt_page_element(p->f, "<td>", is_class ? "class" : p->k->units[t->first], "</td>");
  tt_page_number_cell(p->f, v.error);
  tt_page_number_cell(p->f, 100 * v.relative);
  tt_page_number_cell(p->f, p->k->score[TT_METRIC_r2][column]);
  tt_page_number_cell(p->f, p->k->score[TT_METRIC_nll][column]);
  tt_page_number_cell(p->f, p->k->score[TT_METRIC_crps][column]);
  tt_page_number_cell(p->f, is_class ? (double)NAN : 100 * v.inside);
  tt_page_number_cell(p->f, (double)t->rows);
  fputs("<td class=\"words\">", p->f);
  tt_page_put(p->f, v.how_good);
  if (*v.how_sure)
    tt_page_print(p->f, "; %s %s", is_class ? "confidence" : "intervals", v.how_sure);
  fputs("</td></tr>\n", p->f);
}

/* The rmse of the ensembles beside those of simple predictors. */
static void put_baselines(const tt_run_page *p)
{
  int known = 0;
  for (int64_t c = 0; c < p->k->columns; c++) known |= isfinite(p->k->baseline[0][c]);
  if (!known) return;
  tt_page_begin_section(p->f, "Simple predictors",
                        "rmse on the same test rows, after training on the same training rows.");
  fputs("<div class=\"wide\"><table>\n<tr><th>target</th><th class=\"number\">networks</th>", p->f);
  for (int b = 0; b < TT_BASELINE_COUNT; b++)
    fprintf(p->f, "<th class=\"number\">%s</th>", tt_baseline_table[b].name);
  fputs("</tr>\n", p->f);
  for (int64_t i = 0; i < p->targets; i++) {
    int64_t column = p->t[i].first + p->t[i].count / 2;
    fputs("<tr><td>", p->f);
    tt_page_put(p->f, p->t[i].title);
    fputs("</td>", p->f);
    tt_page_number_cell(p->f, p->k->rmse[column]);
    for (int b = 0; b < TT_BASELINE_COUNT; b++)
      tt_page_number_cell(p->f, p->k->baseline[b][column]);
    fputs("</tr>\n", p->f);
  }
  fputs("</table></div>\n", p->f);
  tt_page_end_section(p->f);
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
  put_baselines(p);
  for (int64_t i = 0; !e && i < p->shown; i++) e = put_target(p, &p->t[i]);
  if (p->shown < p->targets)
    tt_page_print(p->f, "Charts of the first %" PRId64 " of %" PRId64 " targets.", p->shown,
                  p->targets);
  return e;
}
