/* files_mode.c — see oracle_internal.h: label.mode files. Inputs are in the groups' directories; an
 * output that appears next to one is accepted once it is complete. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static const char *const output_name[] = {"output.h5", "output.csv"};
enum { OUTPUT_NAMES = 2 };

/* Detects that a file has changed. */
typedef struct file_version {
  int64_t inode, bytes, seconds, nanoseconds;
} file_version;

typedef struct files_state {
  double next_check; /* s, tt_monotonic_seconds: time of the next check of the files */
  double deadline;   /* s: end of label.max_wait */
  file_version (*rejected)[OUTPUT_NAMES]; /* [groups] versions that were invalid or incomplete */
} files_state;

static tt_err start_waiting(tt_labeling *a)
{
  files_state *w = NULL;
  TT_TRY(TT_ALLOC(w, 1));
  a->backend_data = w;
  w->deadline = tt_monotonic_seconds() + a->request->cfg->label_max_wait;
  tt_log_root(TT_LOG_INFO,
              "waiting for labels; groups without labels: %" PRId64
              "; write output.h5 or output.csv to their directories %s/NNNN/, or use tutti tell",
              a->pending, a->request->directory);
  return TT_ALLOC(w->rejected, a->groups);
}

static void stop_waiting(tt_labeling *a)
{
  files_state *w = a->backend_data;
  if (w) tt_free(w->rejected);
  tt_free(a->backend_data);
}

static tt_err accept_output(tt_labeling *a, tt_label_group *g, const char *path)
{
  double *y = NULL;
  int64_t given = 0;
  tt_err e = tt_label_group_read_output(g, a->target, path, &y, &given);
  if (!e && given < g->count)
    e = TT_FAIL(DATA,
                "%s: %" PRId64 " of %" PRId64 " rows; write nan for those that cannot be labeled",
                path, given, g->count);
  if (e == TT_E_DATA || e == TT_E_NOINPUT) {
    tt_log_root(TT_LOG_WARN, "not accepted yet: %s; the file is read again when it changes",
                tt_err_last());
    e = TT_OK;
  } else if (!e) {
    int all = tt_labeled_rows(y, g->count, a->target->count) == g->count;
    e = tt_label_group_write_labels(g, a->target, y, all ? "" : "no value");
  }
  tt_free(y);
  return e;
}

static tt_err check_group(tt_labeling *a, tt_label_group *g, file_version rejected[OUTPUT_NAMES])
{
  char path[TT_PATH_MAX];
  struct stat info;
  TT_TRY(tt_label_group_update(g));
  if (g->state == TT_LABEL_GROUP_pending) TT_TRY(tt_label_points_accept(a, g));
  for (int i = 0; i < OUTPUT_NAMES && g->state == TT_LABEL_GROUP_pending; i++) {
    tt_path_join(g->directory, output_name[i], path);
    if (stat(path, &info)) continue;
    file_version current = {(int64_t)info.st_ino, info.st_size, info.st_mtim.tv_sec,
                            info.st_mtim.tv_nsec};
    if (!memcmp(&current, &rejected[i], sizeof current)) continue;
    rejected[i] = current;
    TT_TRY(accept_output(a, g, path));
  }
  return TT_OK;
}

static tt_err check_groups(tt_labeling *a, files_state *w)
{
  double deadline = tt_monotonic_seconds() + 1.0;
  int64_t pending = 0, unchecked = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group *g = &a->group[i];
    if (g->state != TT_LABEL_GROUP_pending) continue;
    if (tt_monotonic_seconds() < deadline)
      TT_TRY(check_group(a, g, w->rejected[i]));
    else
      unchecked++;
    pending += g->state == TT_LABEL_GROUP_pending;
  }
  a->progressed = pending < a->pending || unchecked;
  a->pending = pending;
  TT_TRY(tt_label_points_queue(a)); /* those that were told as crashed, until label.retries */
  if (!unchecked) w->next_check = tt_monotonic_seconds() + a->request->cfg->label_poll_interval;
  return TT_OK;
}

static tt_err poll_files(tt_labeling *a)
{
  files_state *w = a->backend_data;
  double current = tt_monotonic_seconds();
  if (current >= w->next_check || current >= w->deadline) TT_TRY(check_groups(a, w));
  if (a->progressed) TT_TRY(tt_label_groups_check_failed(a));
  if (!a->pending || current < w->deadline) return TT_OK;
  return TT_FAIL(STOPPED,
                 "%s: %" PRId64 " group(s) have no output after label.max_wait (%g s); put "
                 "output.h5 or output.csv beside each input and run again",
                 a->request->directory, a->pending, a->request->cfg->label_max_wait);
}

const tt_label_backend tt_label_backend_files = {start_waiting, poll_files, stop_waiting};
