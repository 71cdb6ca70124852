/* importance_section.c — the inputs that matter, if tutti explain has written importance.h5; see
 * run_page_internal.h. */
#include "src/report/page/run_page_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/files/files.h"
#include "io/results/importance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INPUTS = 12 };

/* Whether a file of the run is there and was written after the model. */
static int is_newer_than_model(const tt_run_page *p, const char *path)
{
  char model[TT_PATH_MAX];
  struct stat a, b;
  snprintf(model, sizeof model, "%s/model.h5", p->directory);
  return !stat(path, &a) && !stat(model, &b) && a.st_mtime >= b.st_mtime;
}

static void put_target(const tt_run_page *p, const tt_importance *t, int64_t target,
                       tt_ranked *order)
{
  int64_t c = p->t[target].first, D = t->inputs;
  const double *importance = t->permutation + c * D;
  for (int64_t d = 0; d < D; d++)
    order[d] = (tt_ranked){isnan(importance[d]) ? INFINITY : -importance[d], d};
  qsort(order, (size_t)D, sizeof *order, tt_compare_ranked);
  tt_page_element(p->f, "<div class=\"wide\"><table class=\"tight\">\n<tr><th>", p->t[target].title,
                  "</th><th class=\"number\">increase of ");
  tt_page_put(p->f, t->metric_text[c]);
  fputs("</th><th class=\"number\">between members</th></tr>\n", p->f);
  for (int64_t i = 0; i < D && i < MAX_INPUTS; i++) {
    int64_t d = order[i].index;
    fputs("<tr><td>", p->f);
    tt_page_put_verbatim(p->f, t->input_name[d]);
    fputs("</td>", p->f);
    tt_page_number_cell(p->f, importance[d]);
    tt_page_number_cell(p->f, t->permutation_between[c * D + d]);
    fputs("</tr>\n", p->f);
  }
  fputs("</table></div>\n", p->f);
}

static tt_err put_table(const tt_run_page *p, const tt_importance *t)
{
  char about[256];
  tt_ranked *order = NULL;
  TT_TRY(TT_ALLOC(order, t->inputs));
  snprintf(about, sizeof about,
           "Increase of the error when the values of an input are permuted between %" PRId64
           " rows, %" PRId64 " time%s; its standard deviation between the members.",
           t->rows, t->repeats, t->repeats == 1 ? "" : "s");
  tt_page_begin_section(p->f, "Inputs that matter", about);
  for (int64_t i = 0; i < p->shown; i++) put_target(p, t, i, order);
  tt_page_end_section(p->f);
  tt_free(order);
  return TT_OK;
}

tt_err tt_run_page_put_importance(const tt_run_page *p)
{
  char path[TT_PATH_MAX];
  tt_importance t;
  if (snprintf(path, sizeof path, "%s/importance.h5", p->directory) >= (int)sizeof path ||
      access(path, F_OK))
    return TT_OK;
  if (!is_newer_than_model(p, path)) {
    tt_log_root(TT_LOG_WARN, "%s is older than model.h5 and is left out: run tutti explain again",
                path);
    return TT_OK;
  }
  if (tt_importance_read_local(path, &t)) {
    tt_log_root(TT_LOG_WARN, "left out: %s", tt_err_last());
    return TT_OK;
  }
  tt_err e = TT_OK;
  if (t.columns != p->k->columns)
    tt_log_root(TT_LOG_WARN, "%s is of another model and is left out", path);
  else
    e = put_table(p, &t);
  tt_importance_free(&t);
  return e;
}
