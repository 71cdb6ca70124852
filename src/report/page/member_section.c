/* member_section.c — see run_page_internal.h: members, hyper-parameters that differ, out-of-bag
 * scores. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"
#include "core/config/sweep.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_ROWS = 200,  /* of the table of members */
  MAX_COLUMNS = 6, /* of hyper-parameters in it */
  MAX_CHARTS = 12, /* of hyper-parameters */
  BEST = 5,
  TEXT = 160
};

static const char *const state_name[] = {"training", "finished", "stopped early", "diverged"};

static const char *state_of(const tt_run_page *p, int64_t member)
{
  double s = p->k->status[member];
  return s >= 0 && s <= TT_STATUS_diverged ? state_name[(int)s] : "state not known";
}

int tt_run_page_differs(const tt_run_page *p, int hyper, int64_t first, int64_t end)
{
  const double *v = p->k->hyper[hyper];
  for (int64_t m = first + 1; m < end; m++)
    if (isfinite(v[m]) && v[m] != v[first]) return 1;
  return 0;
}

/* First column of the ensemble of a member. */
static int64_t column_of(const tt_run_page *p, int64_t member)
{
  int64_t c = 0;
  while (c + 1 < p->k->columns && strcmp(p->k->ensemble[c], p->k->owner[member]) != 0) c++;
  return c;
}

double tt_run_page_score(const tt_run_page *p, int64_t member, const char **name)
{
  static const tt_metric metric[] = {TT_METRIC_rmse, TT_METRIC_accuracy, TT_METRIC_nll};
  for (int i = 0; i < 3; i++) {
    double v = tt_results_member_score(p->k, metric[i], member, column_of(p, member));
    *name = tt_metric_table[metric[i]].name;
    if (isfinite(v)) return v;
  }
  *name = "validation loss";
  return p->k->best_loss[member];
}

static double attention(const tt_run_page *p, int64_t m)
{
  double loss = p->k->best_loss[m];
  return p->k->status[m] == TT_STATUS_diverged || !isfinite(loss) ? (double)INFINITY : loss;
}

/* Members in an order: of many, diverged ones first, then from the largest validation loss on. */
static tt_err rank_members(const tt_run_page *p, tt_ranked **out)
{
  int64_t n = p->k->members;
  TT_TRY(TT_ALLOC(*out, n));
  for (int64_t m = 0; m < n; m++) (*out)[m] = (tt_ranked){n > MAX_ROWS ? -attention(p, m) : 0, m};
  qsort(*out, (size_t)n, sizeof **out, tt_compare_ranked);
  return TT_OK;
}

/* The hyper-parameters that differ within an ensemble; returns their number. */
static int differing(const tt_run_page *p, int hyper[TT_HYPER_COUNT])
{
  int n = 0;
  for (int h = 0; h < TT_HYPER_COUNT; h++) {
    int differs = 0;
    for (int64_t first = 0, end; first < p->k->members && !differs; first = end) {
      end = tt_results_ensemble_end(p->k, first);
      differs = tt_run_page_differs(p, h, first, end);
    }
    if (differs) hyper[n++] = h;
  }
  return n;
}

static int has_weights(const tt_run_page *p) { return isfinite(p->k->weight[0]); }

static void put_member_head(const tt_run_page *p, int n, const int *hyper)
{
  fprintf(p->f, "<tr><th>ensemble</th><th class=\"number\">member</th>%s<th>state</th>",
          p->k->network ? "<th>network</th>" : "");
  if (has_weights(p)) fputs("<th class=\"number\">weight</th>", p->f);
  fputs("<th class=\"number\">epochs</th><th class=\"number\">best epoch</th>"
        "<th class=\"number\">validation loss</th><th class=\"number\">test score</th>",
        p->f);
  for (int i = 0; i < n; i++)
    fprintf(p->f, "<th class=\"number\">%s</th>", tt_hyper_name[hyper[i]]);
  fputs("</tr>\n", p->f);
}

static void put_member_row(const tt_run_page *p, int64_t m, int n, const int *hyper)
{
  const tt_results *k = p->k;
  const char *what;
  double score = tt_run_page_score(p, m, &what);
  fputs("<tr><td>", p->f);
  tt_page_put(p->f, p->k->owner[m]);
  fputs("</td>", p->f);
  tt_page_number_cell(p->f, k->index[m]);
  if (k->network) tt_page_element(p->f, "<td>", k->network[m], "</td>");
  fprintf(p->f, "<td>%s</td>", state_of(p, m));
  if (has_weights(p)) tt_page_number_cell(p->f, k->weight[m]);
  tt_page_number_cell(p->f, k->epochs_done[m]);
  tt_page_number_cell(p->f, k->best_epoch[m] >= 0 ? k->best_epoch[m] + 1 : (double)NAN);
  tt_page_number_cell(p->f, k->best_loss[m]);
  tt_page_number_cell(p->f, strcmp(what, "validation loss") ? score : (double)NAN);
  for (int i = 0; i < n; i++) tt_page_number_cell(p->f, k->hyper[hyper[i]][m]);
  fputs("</tr>\n", p->f);
}

static void say_states(const tt_run_page *p, char *text, size_t size)
{
  int64_t members[TT_STATUS_diverged + 1] = {0}, n = p->k->members;
  size_t used;
  for (int64_t m = 0; m < n; m++)
    for (int s = 0; s <= TT_STATUS_diverged; s++) members[s] += p->k->status[m] == s;
  used = (size_t)snprintf(text, size, "%" PRId64 " member%s", n, tt_plural(n));
  for (int s = 0, first = 1; s <= TT_STATUS_diverged && used < size; s++)
    if (members[s]) {
      used += (size_t)snprintf(text + used, size - used, "%s%" PRId64 " %s", first ? ": " : ", ",
                               members[s], state_name[s]);
      first = 0;
    }
  if (used < size)
    snprintf(text + used, size - used, ".%s",
             n > MAX_ROWS ? " The table has the 200 that need attention first: diverged, then the "
                            "largest validation loss."
                          : "");
}

tt_err tt_run_page_put_members(const tt_run_page *p)
{
  char text[2 * TEXT];
  int hyper[TT_HYPER_COUNT], n = differing(p, hyper);
  tt_ranked *order = NULL;
  TT_TRY(rank_members(p, &order));
  int64_t rows = p->k->members < MAX_ROWS ? p->k->members : MAX_ROWS;
  if (n > MAX_COLUMNS) n = MAX_COLUMNS;
  say_states(p, text, sizeof text);
  tt_page_begin_section(p->f, "Members", text);
  fprintf(p->f, "<details%s><summary>Table of members</summary>\n<div class=\"wide\"><table>\n",
          p->k->members <= 12 ? " open" : "");
  put_member_head(p, n, hyper);
  for (int64_t i = 0; i < rows; i++) put_member_row(p, order[i].index, n, hyper);
  fputs("</table></div></details>\n", p->f);
  tt_page_end_section(p->f);
  tt_free(order);
  return TT_OK;
}

/* Hyper-parameters */

void tt_run_page_say_best(const tt_run_page *p, char *text, size_t size)
{
  int hyper[TT_HYPER_COUNT], n = differing(p, hyper);
  int64_t best = -1;
  *text = '\0';
  for (int64_t m = 0; n && m < p->k->members; m++)
    if (isfinite(attention(p, m)) && (best < 0 || attention(p, m) < attention(p, best))) best = m;
  if (best < 0) return;
  size_t used = (size_t)snprintf(
      text, size, "Train an ensemble with the settings of the member of lowest validation loss:");
  for (int i = 0; i < n && i < MAX_COLUMNS && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s %s %.3g", i ? "," : "",
                             tt_hyper_name[hyper[i]], p->k->hyper[hyper[i]][best]);
}

static tt_err put_sweep_chart(const tt_run_page *p, int hyper, int64_t first, int64_t end)
{
  double *x = NULL;
  int64_t n = end - first, lost = 0;
  char title[TEXT], note[TEXT], label[TEXT];
  const char *what = "";
  tt_err e = TT_ALLOC(x, 2 * n);
  for (int64_t i = 0; !e && i < n; i++) {
    const char *own;
    x[i] = p->k->hyper[hyper][first + i];
    x[n + i] = tt_run_page_score(p, first + i, &own);
    if (p->k->status[first + i] == TT_STATUS_diverged) x[n + i] = NAN;
    lost += !isfinite(x[n + i]);
    if (isfinite(x[n + i])) what = own;
  }
  if (!e && lost < n) {
    snprintf(title, sizeof title, "%s", tt_hyper_name[hyper]);
    snprintf(label, sizeof label, "%s%s", strcmp(what, "validation loss") ? "test " : "", what);
    snprintf(note, sizeof note, "%.100s%s", p->k->owner[first], lost ? "; without diverged" : "");
    tt_chart_series s = tt_chart_points(TT_CHART_POINTS, 0, NULL, n, x, x + n);
    tt_page_chart(p->f, &(tt_chart){title, note, title, label, 1, &s, .may_be_log_x = 1});
  }
  tt_free(x);
  return e;
}

/* The best members of an ensemble with their hyper-parameters: by validation loss, because a choice
 * by test score would make this score useless. */
static tt_err put_best(const tt_run_page *p, int64_t first, int64_t end, int n, const int *hyper)
{
  tt_ranked *order = NULL;
  TT_TRY(TT_ALLOC(order, end - first));
  for (int64_t m = first; m < end; m++) order[m - first] = (tt_ranked){attention(p, m), m};
  qsort(order, (size_t)(end - first), sizeof *order, tt_compare_ranked);
  fputs("<div class=\"wide\"><table>\n", p->f);
  put_member_head(p, n, hyper);
  for (int64_t i = 0; i < BEST && i < end - first; i++)
    if (isfinite(order[i].key)) put_member_row(p, order[i].index, n, hyper);
  fputs("</table></div>\n", p->f);
  tt_free(order);
  return TT_OK;
}

tt_err tt_run_page_put_sweep(const tt_run_page *p)
{
  int hyper[TT_HYPER_COUNT], n = differing(p, hyper), charts = 0;
  tt_err e = TT_OK;
  if (n == 0) return TT_OK;
  if (n > MAX_COLUMNS) n = MAX_COLUMNS;
  tt_page_begin_section(p->f, "Hyper-parameters",
                        "Each point is a member. The tables have the members with the lowest "
                        "validation loss.");
  for (int64_t first = 0, end; !e && first < p->k->members; first = end) {
    int any = 0;
    end = tt_results_ensemble_end(p->k, first);
    for (int i = 0; i < n; i++) any |= tt_run_page_differs(p, hyper[i], first, end);
    if (!any || charts >= MAX_CHARTS) continue;
    tt_page_begin_charts(p->f);
    for (int i = 0; !e && i < n; i++)
      if (charts < MAX_CHARTS && tt_run_page_differs(p, hyper[i], first, end)) {
        e = put_sweep_chart(p, hyper[i], first, end);
        charts++;
      }
    tt_page_end_charts(p->f);
    if (!e) e = put_best(p, first, end, n, hyper);
  }
  tt_page_end_section(p->f);
  return e;
}

/* Out-of-bag scores */

void tt_run_page_put_out_of_bag(const tt_run_page *p)
{
  int any = 0;
  for (int64_t c = 0; c < p->k->columns; c++) any |= p->k->oob_rows[c] > 0;
  if (!any) return;
  tt_page_begin_section(p->f, "Out of bag",
                        "Each training row is predicted by the members that were not trained on "
                        "it: a test without test rows.");
  fputs("<div class=\"wide\"><table>\n<tr><th>target</th><th class=\"number\">rows</th>", p->f);
  for (int m = 0; m < TT_METRIC_COUNT; m++)
    if (isfinite(p->k->oob[m][0]))
      fprintf(p->f, "<th class=\"number\">%s</th>", tt_metric_table[m].name);
  fputs("</tr>\n", p->f);
  for (int64_t i = 0; i < p->targets; i++) {
    int64_t c = p->t[i].first + p->t[i].count / 2;
    tt_page_element(p->f, "<tr><td>", p->t[i].title, "</td>");
    tt_page_number_cell(p->f, p->k->oob_rows[c]);
    for (int m = 0; m < TT_METRIC_COUNT; m++)
      if (isfinite(p->k->oob[m][0])) tt_page_number_cell(p->f, p->k->oob[m][c]);
    fputs("</tr>\n", p->f);
  }
  fputs("</table></div>\n", p->f);
  tt_page_end_section(p->f);
}
