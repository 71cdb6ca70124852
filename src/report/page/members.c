/* members.c — see run_page_internal.h: the table of the members, and the best one. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_ROWS = 200, /* of the table */
  MAX_HYPER = 6   /* hyper-parameters in it */
};

static const char *const state_name[] = {"training", "finished", "stopped early", "diverged"};

static const char *state_of(const tt_run_page *p, int64_t member)
{
  double s = p->k->status[member];
  return s >= 0 && s <= TT_STATUS_diverged ? state_name[(int)s] : "state not known";
}

static int differs(const tt_run_page *p, const double *value)
{
  for (int64_t first = 0, end; first < p->k->members; first = end) {
    end = tt_results_ensemble_end(p->k, first);
    for (int64_t m = first + 1; m < end; m++)
      if (isfinite(value[m]) && value[m] != value[first]) return 1;
  }
  return 0;
}

/* The first hyper-parameters that differ within an ensemble; returns their number. */
static int differing(const tt_run_page *p, int hyper[MAX_HYPER])
{
  int n = 0;
  for (int h = 0; h < TT_HYPER_COUNT && n < MAX_HYPER; h++)
    if (differs(p, p->k->hyper[h])) hyper[n++] = h;
  return n;
}

/* INFINITY of a member that diverged or has no loss. */
static double loss_of(const tt_run_page *p, int64_t m)
{
  double loss = p->k->best_loss[m];
  return p->k->status[m] == TT_STATUS_diverged || !isfinite(loss) ? (double)INFINITY : loss;
}

/* The score of a member on the test rows: the first one that it has. */
static double test_score(const tt_run_page *p, int64_t member)
{
  static const tt_metric metric[] = {TT_METRIC_rmse, TT_METRIC_accuracy, TT_METRIC_nll};
  double score = NAN;
  int64_t c = 0;
  while (c + 1 < p->k->columns && strcmp(p->k->ensemble[c], p->k->owner[member]) != 0) c++;
  for (int i = 0; i < 3 && !isfinite(score); i++)
    score = tt_results_member_score(p->k, metric[i], member, c);
  return score;
}

static void put_member(const tt_run_page *p, int64_t m, int n, const int *hyper)
{
  const tt_results *k = p->k;
  tt_page_next_row(p->f);
  tt_page_text_cell(p->f, k->owner[m]);
  if (k->network) tt_page_text_cell(p->f, k->network[m]);
  tt_page_text_cell(p->f, state_of(p, m));
  tt_page_number_cell(p->f, k->index[m]);
  tt_page_number_cell(p->f, k->weight[m]);
  tt_page_number_cell(p->f, k->epochs_done[m]);
  tt_page_number_cell(p->f, k->best_epoch[m] >= 0 ? k->best_epoch[m] + 1 : (double)NAN);
  tt_page_number_cell(p->f, k->best_loss[m]);
  tt_page_number_cell(p->f, test_score(p, m));
  for (int i = 0; i < n; i++) tt_page_number_cell(p->f, k->hyper[hyper[i]][m]);
}

static void say_states(const tt_run_page *p, char *text, size_t size)
{
  int64_t members[TT_STATUS_diverged + 1] = {0}, n = p->k->members;
  char part[64];
  for (int64_t m = 0; m < n; m++)
    for (int s = 0; s <= TT_STATUS_diverged; s++) members[s] += p->k->status[m] == s;
  snprintf(text, size, "%" PRId64 " member%s", n, tt_plural(n));
  for (int s = 0, some = 0; s <= TT_STATUS_diverged; s++)
    if (members[s]) {
      snprintf(part, sizeof part, "%" PRId64 " %s", members[s], state_name[s]);
      tt_text_append(text, size, some++ ? ", " : ": ", part);
    }
  if (n > MAX_ROWS)
    tt_text_append(text, size, ". ", "The table has the 200 with the lowest validation loss");
}

/* With hyper-parameters that differ, or many members, the lowest validation loss is first. */
tt_err tt_run_page_put_members(const tt_run_page *p)
{
  char text[256];
  int hyper[MAX_HYPER], n = differing(p, hyper);
  int64_t members = p->k->members;
  int by_loss = n > 0 || members > MAX_ROWS;
  tt_ranked *order = NULL;
  TT_TRY(TT_ALLOC(order, members));
  for (int64_t m = 0; m < members; m++) order[m] = (tt_ranked){by_loss ? loss_of(p, m) : 0, m};
  qsort(order, (size_t)members, sizeof *order, tt_compare_ranked);
  say_states(p, text, sizeof text);
  tt_page_section(p->f, "Members", text);
  fputs(members <= 12 ? "<details open>" : "<details>", p->f);
  fputs("<summary>Table of members</summary>\n", p->f);
  tt_page_begin_table(p->f, p->k->network ? "ensemble|network|state" : "ensemble|state");
  static const char *const head[] = {"member",     "weight",          "epochs",
                                     "best epoch", "validation loss", "test score"};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) tt_page_head(p->f, head[i], 1);
  for (int i = 0; i < n; i++) tt_page_head(p->f, tt_hyper_name[hyper[i]], 1);
  for (int64_t i = 0; i < members && i < MAX_ROWS; i++) put_member(p, order[i].index, n, hyper);
  tt_page_end_table(p->f);
  fputs("</details>\n", p->f);
  tt_free(order);
  return TT_OK;
}

void tt_run_page_say_best(const tt_run_page *p, char *text, size_t size)
{
  int hyper[MAX_HYPER], n = differing(p, hyper);
  int64_t best = 0;
  char part[64];
  *text = '\0';
  for (int64_t m = 1; m < p->k->members; m++)
    if (loss_of(p, m) < loss_of(p, best)) best = m;
  if (!n || !isfinite(loss_of(p, best))) return;
  snprintf(text, size,
           "Train an ensemble with the settings of the member of lowest validation loss");
  for (int i = 0; i < n; i++) {
    snprintf(part, sizeof part, "%s %.3g", tt_hyper_name[hyper[i]], p->k->hyper[hyper[i]][best]);
    tt_text_append(text, size, i ? ", " : ": ", part);
  }
}
