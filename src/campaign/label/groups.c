/* groups.c — see oracle_internal.h: candidates asked for together, and their directory. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tt_group_path(const tt_group *g, const char *name, char path[TT_PATH_ROOM])
{
  if (snprintf(path, TT_PATH_ROOM, "%s/%s", g->directory, name) >= TT_PATH_ROOM) path[0] = '\0';
}

static int has(const tt_group *g, const char *name)
{
  char path[TT_PATH_ROOM];
  tt_group_path(g, name, path);
  return !access(path, F_OK);
}

void tt_group_look(tt_group *g)
{
  g->state = has(g, "answer.h5") ? TT_GROUP_answered
             : has(g, "failed")  ? TT_GROUP_failed
                                 : TT_GROUP_waits;
}

tt_err tt_group_open(const char *directory, tt_group *out)
{
  char path[TT_PATH_ROOM];
  tt_asked *a = NULL;
  tt_group g = {0};
  TT_TRY(tt_text_set(&g.directory, directory));
  g.csv = !has(&g, "input.h5");
  tt_group_path(&g, g.csv ? "input.csv" : "input.h5", path);
  tt_err e = tt_asked_read_local(path, &a);
  if (!e) {
    g.count = a->count;
    g.id = a->id;
    a->id = NULL;
    tt_group_look(&g);
  }
  tt_asked_destroy(&a);
  if (e)
    tt_group_free(&g);
  else
    *out = g;
  return e;
}

void tt_group_free(tt_group *g)
{
  tt_free(g->directory);
  tt_free(g->id);
  tt_free(g->pick);
  *g = (tt_group){0};
}

tt_err tt_group_answer(tt_group *g, const tt_columns *target, const double *y, const char *why)
{
  char path[TT_PATH_ROOM];
  tt_group_path(g, "answer.h5", path);
  TT_TRY(tt_labels_write_local(path, g->count, g->id, y, target, why));
  g->state = TT_GROUP_answered;
  return TT_OK;
}

tt_err tt_group_fail(tt_group *g, const char *why)
{
  char path[TT_PATH_ROOM], text[2048];
  tt_group_path(g, "failed", path);
  snprintf(text, sizeof text, "%.*s\n", (int)strcspn(why, "\n"), why);
  TT_TRY(tt_file_replace_local(path, text));
  g->state = TT_GROUP_failed;
  tt_log_once(TT_LOG_WARN, "%s: no labels for its %" PRId64 " candidate(s): %s", g->directory,
              g->count, why);
  return TT_OK;
}
