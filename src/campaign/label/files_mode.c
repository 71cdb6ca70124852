/* files_mode.c — see oracle_internal.h: label.mode files. Inputs lie in the groups' directories; an
 * output that appears beside one is taken once it is whole. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "io/checkpoint/checkpoint.h"
#include "src/host/stop_request.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char *const name[] = {"output.h5", "output.csv"};
enum { NAMES = 2 };

/* By which a file that has changed is known. */
typedef struct mark {
  int64_t inode, bytes, seconds, nanoseconds;
} mark;

typedef struct waiting {
  double next, until;  /* tt_clock_local: of the next look; of the end of patience */
  mark (*seen)[NAMES]; /* [groups] what was looked at and was not whole */
} waiting;

static tt_err start(tt_asking *a)
{
  waiting *w = NULL;
  TT_TRY(TT_ALLOC(w, 1));
  a->mine = w;
  w->until = tt_clock_local() + a->q->cfg->label_patience;
  tt_log_once(TT_LOG_INFO,
              "waiting for labels: %" PRId64
              " file(s) output.h5 or output.csv in %s/NNNN/; or tutti "
              "campaign label",
              a->left, a->q->directory);
  return TT_ALLOC(w->seen, a->groups);
}

static void end(tt_asking *a)
{
  waiting *w = a->mine;
  if (w) tt_free(w->seen);
  tt_free(a->mine);
}

/* Whole: it has every row that was asked for. */
static tt_err read_whole(const tt_asking *a, const tt_group *g, const char *path, double *y)
{
  tt_labels *l = NULL;
  int64_t given = 0;
  TT_TRY(tt_labels_read_local(path, a->target, &l));
  tt_err e = tt_labels_match(l, g->count, g->id, y, &given);
  if (!e && given < g->count)
    e = TT_FAIL(DATA,
                "%s: %" PRId64 " of %" PRId64 " rows; write nan for those that cannot be labelled",
                path, given, g->count);
  tt_labels_destroy(&l);
  return e;
}

/* Rows without a label, as a reason for people. */
static const char *reason(const tt_asking *a, const tt_group *g, const double *y)
{
  int64_t T = a->target->count;
  for (int64_t i = 0; i < g->count; i++) {
    int any = 0;
    for (int64_t k = 0; k < T; k++)
      any |= !isnan(y[i * T + k]);
    if (!any) return "no value";
  }
  return "";
}

static tt_err take(tt_asking *a, tt_group *g, const char *path)
{
  double *y = NULL;
  TT_TRY(TT_ALLOC(y, g->count * a->target->count));
  tt_err e = read_whole(a, g, path, y);
  if (e == TT_E_DATA || e == TT_E_NOINPUT) {
    tt_log_once(TT_LOG_WARN, "not taken yet: %s; looked at again when it changes", tt_err_last());
    e = TT_OK;
  } else if (!e) {
    e = tt_ckpt_owner_local(a->q->campaign, a->q->incarnation);
    if (!e) e = tt_group_answer(g, a->target, y, reason(a, g, y));
  }
  tt_free(y);
  return e;
}

static tt_err look_at(tt_asking *a, tt_group *g, mark seen[NAMES])
{
  char path[TT_PATH_ROOM];
  struct stat is;
  tt_group_look(g);
  for (int i = 0; i < NAMES && g->state == TT_GROUP_waits; i++) {
    tt_group_path(g, name[i], path);
    if (stat(path, &is)) continue;
    mark now = {(int64_t)is.st_ino, is.st_size, is.st_mtim.tv_sec, is.st_mtim.tv_nsec};
    if (!memcmp(&now, &seen[i], sizeof now)) continue;
    seen[i] = now;
    TT_TRY(take(a, g, path));
  }
  return TT_OK;
}

static tt_err look_at_all(tt_asking *a, waiting *w)
{
  double until = tt_clock_local() + 1.0;
  int64_t left = 0, unseen = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    tt_group *g = &a->group[i];
    if (g->state != TT_GROUP_waits) continue;
    if (tt_clock_local() < until)
      TT_TRY(look_at(a, g, w->seen[i]));
    else
      unseen++;
    left += g->state == TT_GROUP_waits;
  }
  a->stirred = left < a->left || unseen;
  a->left = left;
  if (!unseen) w->next = tt_clock_local() + a->q->cfg->label_pause;
  return TT_OK;
}

static tt_err poll_files(tt_asking *a)
{
  waiting *w = a->mine;
  double now = tt_clock_local();
  if (now >= w->next || now >= w->until) TT_TRY(look_at_all(a, w));
  if (!a->left || now < w->until) return TT_OK;
  return TT_FAIL(STOPPED,
                 "%s: %" PRId64 " group(s) have no output after label.patience (%g s); put "
                 "output.h5 or output.csv beside each input and run again",
                 a->q->directory, a->left, a->q->cfg->label_patience);
}

const tt_label_way tt_label_by_files = {start, poll_files, end};
