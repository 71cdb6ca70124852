/* groups.c — see oracle_internal.h: a group of candidates and its directory. */
#include "src/campaign/label/oracle_internal.h"
#include "src/campaign/state/file_names.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

tt_err tt_label_group_update(tt_label_group *g)
{
  int labeled = 0, failed = 0;
  TT_TRY(tt_label_group_ended_local(g->directory, &labeled, &failed));
  g->state = labeled  ? TT_LABEL_GROUP_labeled
             : failed ? TT_LABEL_GROUP_failed
                      : TT_LABEL_GROUP_pending;
  return TT_OK;
}

/* Read the candidates of a group: input.h5 or input.csv. */
static tt_err read_candidates(tt_label_group *g)
{
  char path[TT_PATH_MAX];
  tt_oracle_input *a = NULL;
  int h5 = 0, exists = 0;
  tt_path_join(g->directory, "input.h5", path);
  TT_TRY(tt_file_exists(path, &h5));
  g->csv = !h5;
  tt_path_join(g->directory, g->csv ? "input.csv" : "input.h5", path);
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_FAIL(NOINPUT, "%s: there is no input.h5 or input.csv", g->directory);
  tt_err e = tt_oracle_input_read_ids_local(path, &a);
  if (e == TT_E_NOINPUT) return TT_FAIL(IO, "%s", tt_err_last());
  if (e) return e;
  g->count = a->count;
  g->id = a->id;
  a->id = NULL;
  tt_oracle_input_destroy(&a);
  return TT_OK;
}

tt_err tt_label_group_open(const char *directory, tt_label_group *out)
{
  tt_label_group g = {0};
  TT_TRY(tt_text_set(&g.directory, directory));
  tt_err e = read_candidates(&g);
  if (!e) e = tt_label_group_update(&g);
  if (e)
    tt_label_group_free(&g);
  else
    *out = g;
  return e;
}

void tt_label_group_free(tt_label_group *g)
{
  tt_free_all(&g->directory, &g->id, &g->query);
  *g = (tt_label_group){0};
}

static tt_err align(const tt_label_group *g, const tt_oracle_output *l, double **y, int64_t *given)
{
  TT_TRY(TT_ALLOC(*y, g->count * l->targets));
  return tt_oracle_output_align(l, g->count, g->id, *y, given);
}

tt_err tt_label_group_read_output(const tt_label_group *g, const tt_columns *target,
                                  const char *path, double **y, int64_t *given)
{
  tt_oracle_output *l = NULL;
  TT_TRY(tt_oracle_output_read_local(path, target, g->count, &l));
  tt_err e = align(g, l, y, given);
  tt_oracle_output_destroy(&l);
  return e;
}

tt_err tt_label_group_read_labels(const tt_label_group *g, const tt_columns *target, double **y,
                                  char *why, int capacity)
{
  char path[TT_PATH_MAX];
  int64_t given;
  tt_oracle_output *l = NULL;
  tt_path_join(g->directory, TT_LABEL_ACCEPTED_FILE, path);
  TT_TRY(tt_accepted_labels_read_local(path, target, &l, why, capacity));
  tt_err e = align(g, l, y, &given);
  tt_oracle_output_destroy(&l);
  return e;
}

tt_err tt_label_group_read_results(const tt_label_group *g, const tt_columns *target, double **y,
                                   char *why, int capacity)
{
  char path[TT_PATH_MAX];
  int64_t cells = g->count * target->count;
  if (g->state == TT_LABEL_GROUP_labeled)
    return tt_label_group_read_labels(g, target, y, why, capacity);
  tt_path_join(g->directory, TT_LABEL_FAILED_FILE, path);
  TT_TRY(tt_file_read_text(path, why, (size_t)capacity));
  why[strcspn(why, "\n")] = '\0';
  TT_TRY(TT_ALLOC(*y, cells));
  for (int64_t i = 0; i < cells; i++) (*y)[i] = (double)NAN;
  return TT_OK;
}

tt_err tt_label_group_write_labels(tt_label_group *g, const tt_columns *target, const double *y,
                                   const char *why)
{
  char path[TT_PATH_MAX];
  tt_path_join(g->directory, TT_LABEL_ACCEPTED_FILE, path);
  TT_TRY(tt_accepted_labels_write_local(path, g->count, g->id, y, target, why));
  g->state = TT_LABEL_GROUP_labeled;
  g->failed = g->count - tt_labeled_rows(y, g->count, target->count);
  g->counted = 1;
  return TT_OK;
}

tt_err tt_label_group_write_failed(tt_label_group *g, const char *why)
{
  char path[TT_PATH_MAX], text[2048];
  tt_path_join(g->directory, TT_LABEL_FAILED_FILE, path);
  snprintf(text, sizeof text, "%.*s\n", (int)strcspn(why, "\n"), why);
  TT_TRY(tt_file_write_atomic_local(path, text));
  g->state = TT_LABEL_GROUP_failed;
  tt_log_root(TT_LOG_WARN, "%s: no labels for its %" PRId64 " candidate%s: %s", g->directory,
              g->count, g->count == 1 ? "" : "s", why);
  return TT_OK;
}
