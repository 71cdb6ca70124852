/* importance_section.c — the inputs that matter, if tutti explain has written importance.h5; see
 * run_page_internal.h. */
#include "src/report/page/run_page_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/results/importance.h"

#include <inttypes.h>
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
  int64_t offset = p->t[target].first * t->inputs;
  tt_importance_rank(t, p->t[target].first, order);
  for (int64_t i = 0; i < t->inputs && i < MAX_INPUTS; i++) {
    tt_page_next_row(p->f);
    tt_page_text_cell(p->f, p->t[target].title);
    tt_page_text_cell(p->f, t->input_name[order[i].index]);
    tt_page_text_cell(p->f, t->metric_text[p->t[target].first]);
    tt_page_number_cell(p->f, t->permutation[offset + order[i].index]);
    tt_page_number_cell(p->f, t->permutation_between[offset + order[i].index]);
  }
}

static tt_err put_table(const tt_run_page *p, const tt_importance *t)
{
  char about[256];
  tt_ranked *order = NULL;
  TT_TRY(TT_ALLOC(order, t->inputs));
  snprintf(about, sizeof about,
           "Increase of the error when the values of an input are permuted between %" PRId64
           " rows, %" PRId64 " time%s; its standard deviation between the members.",
           t->rows, t->repeats, tt_plural(t->repeats));
  tt_page_section(p->f, "Inputs that matter", about);
  tt_page_begin_table(p->f, "target|input|error|#increase|#between members");
  for (int64_t i = 0; i < p->shown; i++) put_target(p, t, i, order);
  tt_page_end_table(p->f);
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
