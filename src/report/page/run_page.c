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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TARGETS = 64, MAX_CHARTED = 12, TEXT = 512 };

static tt_err read_results(tt_run_page *p)
{
  char path[TT_PATH_MAX];
  if (snprintf(path, sizeof path, "%s/results.h5", p->directory) >= TT_PATH_MAX)
    return TT_FAIL(NOINPUT, "%s: the path is too long", p->directory);
  if (access(path, F_OK) && p->status) return TT_OK;
  if (access(path, F_OK))
    return TT_FAIL(NOINPUT,
                   "%s: there is no run in this directory (no results.h5 and no status.json); give "
                   "run.directory of the job, or campaign.directory",
                   p->directory);
  if (!tt_group_scores_exist(path)) return tt_results_read_local(path, &p->k);
  if (p->status) return tt_group_scores_text(path, &p->groups);
  return TT_FAIL(
      NOINPUT,
      "%s/status.json is missing: the report of a run with by needs it; `tutti train` in "
      "this directory writes it again",
      p->directory);
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

static int is_over(const tt_run_status *s) { return !strcmp(s->state, "done"); }

/* Why the run is not complete, and what to do. */
static void put_unfinished(const tt_run_page *p)
{
  const tt_run_status *s = p->status;
  char left[32];
  if (!s || is_over(s)) return;
  int running = !strcmp(s->state, "training");
  fputs("<p class=\"notice\">", p->f);
  tt_page_print(p->f, "This run is not complete: %s, epoch %" PRId64 " of at most %" PRId64,
                s->state, s->epoch, s->epochs);
  if (running && s->eta >= 0) tt_page_print(p->f, ", %s left", tt_duration_text(s->eta, left));
  tt_page_print(p->f, ".%s%s", *s->reason ? " Its last message: " : "", s->reason);
  if (!running && !*s->reason) tt_page_print(p->f, " Start the same command again to continue.");
  if (p->k) tt_page_print(p->f, " The figures below are of an earlier run in this directory.");
  fputs("</p>\n", p->f);
}

static void put_times(const tt_run_page *p)
{
  const tt_results *k = p->k;
  char text[32];
  double epochs = 0, steps = k->epochs_trained;
  for (int64_t m = 0; m < k->members; m++)
    epochs += isfinite(k->epochs_done[m]) ? k->epochs_done[m] : 0;
  tt_page_begin_section(p->f, "Time", NULL);
  tt_page_begin_pairs(p->f);
  if (isfinite(k->wall_seconds)) {
    tt_page_pair(p->f, "wall time", "%s (the start that finished the run)",
                 tt_duration_text(k->wall_seconds, text));
    if (k->wall_seconds > 0 && k->members > 0)
      tt_page_pair(p->f, "per member", "%.3g s", k->wall_seconds / (double)k->members);
  }
  tt_page_pair(p->f, "epochs of all members", "%.0f", epochs);
  if (isfinite(steps) && k->epochs_planned > 0)
    tt_page_pair(p->f, "early stopping saved", "%.0f %% of the epochs",
                 100 * (1 - steps / k->epochs_planned));
  if (isfinite(k->ranks))
    tt_page_pair(p->f, "ranks, threads of a rank", "%.0f, %.0f", k->ranks, k->threads);
  tt_page_end_pairs(p->f);
  tt_page_end_section(p->f);
}

static void put_provenance(const tt_run_page *p)
{
  char text[TT_REPEATED_TEXT];
  tt_page_begin_section(p->f, "Origin", NULL);
  tt_page_begin_pairs(p->f);
  tt_page_put_origin(p->f, p->k->origin);
  if (isfinite(p->k->seed)) tt_page_pair(p->f, "seed", "%.0f", p->k->seed);
  tt_page_end_pairs(p->f);
  if (p->k->repeated_rows > 0)
    tt_page_pair(
        p->f, "equal rows", "%s",
        tt_repeated_rows_text((int64_t)p->k->repeated_rows, (int64_t)p->k->seen_rows, "; ", text));
  if (p->k->resolved)
    tt_page_put_folded(p->f, "Configuration with the values of all options", p->k->resolved);
  tt_page_end_section(p->f);
}

/* Times, files, configuration, origin, citation. */
static void put_origin(const tt_run_page *p)
{
  if (p->k) put_times(p);
  tt_page_put_files(p->f, p->directory);
  if (p->k) put_provenance(p);
  tt_page_put_citation(p->f);
}

static tt_err put_page(FILE *f, void *page)
{
  tt_run_page *p = page;
  p->f = f;
  put_unfinished(p);
  if (p->groups) {
    tt_page_begin_section(f, "Groups",
                          "How the scores of the ensembles of all groups are distributed.");
    fputs("<pre>", f);
    tt_page_put_verbatim(f, p->groups);
    fputs("</pre>\n", f);
    tt_page_end_section(f);
  }
  if (!p->k) {
    TT_TRY(tt_run_page_put_state(p));
    put_origin(p);
    return TT_OK;
  }
  tt_run_page_put_verdict(p);
  TT_TRY(tt_run_page_put_targets(p));
  TT_TRY(tt_run_page_put_importance(p));
  TT_TRY(tt_run_page_put_search(p));
  TT_TRY(tt_run_page_put_sweep(p));
  TT_TRY(tt_run_page_put_members(p));
  tt_run_page_put_out_of_bag(p);
  put_origin(p);
  return TT_OK;
}

static tt_err write_page(tt_run_page *p, const char *file, int force)
{
  char about[TEXT];
  const char *title = p->k && p->k->title ? p->k->title : p->directory;
  const char *date = p->k && p->k->origin[TT_ORIGIN_date_created]
                         ? p->k->origin[TT_ORIGIN_date_created]
                     : p->status ? p->status->time
                                 : "";
  int64_t members = p->k ? p->k->members : p->status->members;
  snprintf(about, sizeof about, "%" PRId64 " network%s", members, tt_plural(members));
  if (p->k)
    snprintf(about + strlen(about), sizeof about - strlen(about), " for %" PRId64 " target%s",
             p->targets, tt_plural(p->targets));
  snprintf(about + strlen(about), sizeof about - strlen(about), ", %.10s%s%s", date,
           p->k && p->k->origin[TT_ORIGIN_device] ? ", " : "",
           p->k && p->k->origin[TT_ORIGIN_device] ? p->k->origin[TT_ORIGIN_device] : "");
  return tt_page_write(title, about, file, force, put_page, p);
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
  tt_json_set(&all, "members", json_integer(p->k ? p->k->members : p->status->members));
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
  if (!e && p.k) e = make_targets(&p);
  if (!e) e = write_page(&p, file, force);
  if (!e && json) e = print_json(&p, file);
  if (!e && !json) printf("report:  %s\n", file);
  tt_free(p.t);
  free(p.groups);
  tt_results_destroy(&p.k);
  return e;
}
