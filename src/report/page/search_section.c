/* search_section.c — the trials of a search; see run_page_internal.h. */
#include "src/report/page/run_page_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_TRIALS = 10 }; /* of an ensemble */

static void put_head(const tt_run_page *p, const char *ensemble)
{
  fputs("<div class=\"wide\"><table class=\"tight\">\n<tr><th>", p->f);
  tt_page_put_verbatim(p->f, ensemble);
  fputs("</th>", p->f);
  for (int rung = 1; rung <= TT_RUNGS; rung++)
    fprintf(p->f, "<th class=\"number\">loss, rung %d</th>", rung);
  fputs("<th class=\"number\">weight</th><th>options</th></tr>\n", p->f);
}

static void put_trial(const tt_run_page *p, const tt_trial *t)
{
  fputs("<tr><td>", p->f);
  tt_page_put_verbatim(p->f, t->label);
  fputs("</td>", p->f);
  for (int rung = 0; rung < TT_RUNGS; rung++) tt_page_number_cell(p->f, t->score[rung]);
  tt_page_number_cell(p->f, t->weight);
  fputs("<td>", p->f);
  tt_page_put_verbatim(p->f, t->text);
  fputs("</td></tr>\n", p->f);
}

tt_err tt_run_page_put_search(const tt_run_page *p)
{
  const tt_trials *t = &p->k->trials;
  char about[256];
  int64_t *order = NULL, begun = 0, shown = 0;
  if (!t->count) return TT_OK;
  TT_TRY(TT_ALLOC(order, t->count));
  tt_trials_rank(t, order);
  for (int64_t i = 0; i < t->count; i++) begun += t->at[i].rung >= 0;
  snprintf(about, sizeof about,
           "%" PRId64 " trials, of which %" PRId64 " began. Validation loss of the best ones, on "
           "the folds that their members left out; the score on the test rows is above.",
           t->count, begun);
  tt_page_begin_section(p->f, "Search", about);
  for (int64_t i = 0; i < t->count; i++) {
    const tt_trial *x = &t->at[order[i]];
    int first = i == 0 || t->at[order[i - 1]].number != x->number;
    int last = i + 1 == t->count || t->at[order[i + 1]].number != x->number;
    if (first) shown = 0;
    if (first) put_head(p, x->ensemble);
    if (shown++ < MOST_TRIALS && x->rung >= 0) put_trial(p, x);
    if (last) fputs("</table></div>\n", p->f);
  }
  tt_page_end_section(p->f);
  tt_free(order);
  return TT_OK;
}
