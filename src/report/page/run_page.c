/* run_page.c — see run_page.h. */
#include "src/report/page/run_page.h"

#include "core/base/directory.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/row_split.h"
#include "io/results/group_scores.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TARGETS = 64, MAX_CHARTED = 12, TEXT = 512 };

static tt_err read_results(tt_run_page *p)
{
  char path[TT_PATH_MAX];
  const tt_run_status *s = p->status;
  if (snprintf(path, sizeof path, "%s/results.h5", p->directory) >= TT_PATH_MAX)
    return TT_FAIL(NOINPUT, "%s: the path is too long", p->directory);
  if (access(path, F_OK) && !s)
    return TT_FAIL(NOINPUT,
                   "%s: there is no run in this directory (no results.h5 and no status.json); give "
                   "run.directory of the job, or campaign.directory",
                   p->directory);
  if (access(path, F_OK))
    return TT_FAIL(NOINPUT,
                   "%s: the run has no results yet: %s, epoch %" PRId64 " of at most %" PRId64
                   "; tutti status and tutti watch show how it goes",
                   p->directory, s->state, s->epoch, s->epochs);
  if (tt_group_scores_exist(path))
    return TT_FAIL(NOINPUT,
                   "%s: a run with by has no report; tutti status shows the scores of its groups",
                   p->directory);
  return tt_results_read_local(path, &p->k);
}

static tt_err make_targets(tt_run_page *p)
{
  TT_TRY(TT_ALLOC(p->t, MAX_TARGETS));
  for (int64_t c = 0; c < p->k->columns && p->targets < MAX_TARGETS; p->targets++) {
    p->t[p->targets] = tt_target_of(p->k, c);
    c += p->t[p->targets].count;
  }
  p->shown = p->targets < MAX_CHARTED ? p->targets : MAX_CHARTED;
  return TT_OK;
}

/* A new start in the directory of a run that has results. */
static void put_unfinished(const tt_run_page *p)
{
  const tt_run_status *s = p->status;
  if (!s || !strcmp(s->state, "done")) return;
  fputs("<p class=\"notice\">", p->f);
  tt_page_print(p->f,
                "This run is not complete: %s, epoch %" PRId64 " of at most %" PRId64
                ". The figures below are of an earlier run in this directory.%s%s",
                s->state, s->epoch, s->epochs, *s->reason ? " Its last message: " : "", s->reason);
  fputs("</p>\n", p->f);
}

static tt_err put_targets(const tt_run_page *p)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < p->shown; i++) {
    tt_target_verdict v = tt_target_judge(p, i);
    tt_page_section(p->f, p->t[i].title, NULL);
    tt_page_begin_charts(p->f);
    e = tt_target_put_charts(p, &p->t[i], *v.how_sure != '\0');
    tt_page_end_charts(p->f);
    tt_run_page_put_confusion(p, &p->t[i]);
  }
  if (p->shown < p->targets)
    tt_page_print(p->f, "Charts of the first %" PRId64 " of %" PRId64 " targets.", p->shown,
                  p->targets);
  return e;
}

static void put_origin(const tt_run_page *p)
{
  const tt_results *k = p->k;
  char text[TT_REPEATED_TEXT];
  tt_page_section(p->f, "Origin", NULL);
  tt_page_begin_pairs(p->f);
  tt_page_pair(p->f, "directory", "%s", p->directory);
  if (isfinite(k->wall_seconds))
    tt_page_pair(p->f, "wall time", "%s (the start that finished the run)",
                 tt_duration_text(k->wall_seconds, text));
  if (isfinite(k->ranks))
    tt_page_pair(p->f, "ranks, threads of a rank", "%.0f, %.0f", k->ranks, k->threads);
  tt_page_put_origin(p->f, k->origin);
  if (isfinite(k->seed)) tt_page_pair(p->f, "seed", "%.0f", k->seed);
  if (k->repeated_rows > 0)
    tt_page_pair(
        p->f, "equal rows", "%s",
        tt_repeated_rows_text((int64_t)k->repeated_rows, (int64_t)k->seen_rows, "; ", text));
  tt_page_end_pairs(p->f);
  if (k->resolved) tt_page_put_config(p->f, k->resolved);
}

static tt_err put_page(FILE *f, void *page)
{
  tt_run_page *p = page;
  p->f = f;
  put_unfinished(p);
  tt_run_page_put_verdict(p);
  tt_run_page_put_scores(p);
  TT_TRY(put_targets(p));
  TT_TRY(tt_run_page_put_importance(p));
  TT_TRY(tt_run_page_put_search(p));
  TT_TRY(tt_run_page_put_members(p));
  put_origin(p);
  return TT_OK;
}

static tt_err write_page(tt_run_page *p, const char *file, int force)
{
  char about[TEXT];
  const tt_results *k = p->k;
  const char *date = k->origin[TT_ORIGIN_date_created], *device = k->origin[TT_ORIGIN_device];
  snprintf(about, sizeof about, "%" PRId64 " network%s for %" PRId64 " target%s, %.10s%s%s",
           k->members, tt_plural(k->members), p->targets, tt_plural(p->targets), date ? date : "",
           device ? ", " : "", device ? device : "");
  return tt_page_write(k->title ? k->title : p->directory, about, file, force, put_page, p);
}

static json_t *target_to_json(const tt_run_page *p, int64_t i)
{
  const tt_target *t = &p->t[i];
  tt_target_verdict v = tt_target_judge(p, i);
  int is_class = tt_target_is_class(p->k, t->first);
  json_t *row = json_object();
  tt_json_set(&row, "ensemble", tt_json_text(p->k->ensemble[t->first]));
  tt_json_set(&row, "target", tt_json_text(p->k->target[t->first]));
  tt_json_set(&row, "units", tt_json_text(p->k->units[t->first]));
  tt_json_set(&row, "test_rows", json_integer(t->rows));
  tt_json_set(&row, is_class ? "accuracy" : "rmse", tt_json_number(v.error));
  tt_json_set(&row, "relative_error", tt_json_number(v.relative));
  tt_json_set(&row, "error_in_words", tt_json_text(v.how_good));
  tt_json_set(&row, is_class ? "confidence" : "nominal_coverage", tt_json_number(v.nominal));
  if (!is_class) tt_json_set(&row, "coverage", tt_json_number(v.inside));
  tt_json_set(&row, "intervals_in_words", tt_json_text(v.how_sure));
  return row;
}

static tt_err print_json(const tt_run_page *p, const char *file)
{
  json_t *all = json_object(), *targets = json_array();
  for (int64_t i = 0; i < p->targets; i++) json_array_append_new(targets, target_to_json(p, i));
  tt_json_set(&all, "report", tt_json_text(file));
  tt_json_set(&all, "directory", tt_json_text(p->directory));
  tt_json_set(&all, "state", tt_json_text(p->status ? p->status->state : ""));
  tt_json_set(&all, "members", json_integer(p->k->members));
  tt_json_set(&all, "targets", targets);
  return tt_json_print(all, 2);
}

tt_err tt_run_page_write_local(const char *directory, const char *file, int force, int json)
{
  static tt_status_file status;
  tt_run_page p = {.directory = directory};
  TT_TRY(tt_page_check_place(file, force));
  tt_err e = tt_status_file_read_local(directory, &status);
  if (!e) p.status = &status.status;
  if (e == TT_E_NOINPUT) e = TT_OK;
  if (!e) e = read_results(&p);
  if (!e) e = make_targets(&p);
  if (!e) e = write_page(&p, file, force);
  if (!e && json) e = print_json(&p, file);
  if (!e && !json) printf("report:  %s\n", file);
  tt_free(p.t);
  tt_results_destroy(&p.k);
  return e;
}
