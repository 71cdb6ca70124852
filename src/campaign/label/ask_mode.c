/* ask_mode.c — see oracle_internal.h: label.mode ask. Anybody may ask for the points of the round
 * and tell their labels (src/campaign/points/requests.h); the campaign only waits. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>

typedef struct ask_state {
  double deadline; /* s, tt_monotonic_seconds: end of label.max_wait */
} ask_state;

static void count_points(const tt_labeling *a, int64_t *pending, int64_t *failed)
{
  tt_points *p = a->request->points;
  *pending = *failed = 0;
  tt_points_lock(p);
  for (int64_t i = 0; i < a->request->queries->count; i++) {
    const tt_point *t = tt_points_at(p, a->point[i]);
    int done = tt_point_is_done(t, a->request->cfg->label_retries);
    *pending += !done;
    *failed += done && t->state != TT_POINT_labeled;
  }
  tt_points_unlock(p);
}

static tt_err start_ask(tt_labeling *a)
{
  ask_state *w = NULL;
  int64_t failed;
  TT_TRY(TT_ALLOC(w, 1));
  a->backend_data = w;
  w->deadline = tt_monotonic_seconds() + a->request->cfg->label_max_wait;
  count_points(a, &a->pending, &failed);
  if (a->pending)
    tt_log_root(TT_LOG_INFO,
                "waiting for the labels of %" PRId64 " points: tutti ask %s -k 8 > points.csv; "
                "tutti tell %s labels.csv",
                a->pending, a->request->campaign, a->request->campaign);
  return TT_OK;
}

static tt_err poll_ask(tt_labeling *a)
{
  const tt_label_request *q = a->request;
  ask_state *w = a->backend_data;
  int64_t pending, failed;
  count_points(a, &pending, &failed);
  a->progressed = pending < a->pending;
  a->pending = pending;
  if (!pending) return TT_OK;
  if ((double)failed > q->cfg->label_max_failed * (double)q->queries->count)
    return tt_label_failed_error(q->cfg, q->round, q->queries->count, failed, pending);
  TT_TRY(tt_label_points_queue(a)); /* of attempts that have failed, until label.retries */
  if (tt_monotonic_seconds() < w->deadline) return TT_OK;
  return TT_FAIL(STOPPED,
                 "%s: %" PRId64 " points have no label after label.max_wait (%g s); tutti ask and "
                 "tutti tell go on without the campaign; then run again",
                 q->campaign, pending, q->cfg->label_max_wait);
}

static void end_ask(tt_labeling *a) { tt_free(a->backend_data); }

const tt_label_backend tt_label_backend_ask = {start_ask, poll_ask, end_ask};
