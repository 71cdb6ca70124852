/* ask_mode.c — see oracle_internal.h: label.mode ask and campaign.mode asynchronous. Others ask for
 * points and tell their labels (src/campaign/points/requests.h): anybody, or workers. A round waits
 * until its queries need no label any more; an asynchronous one until train.when holds. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>

typedef struct ask_state {
  double begun, progressed; /* s, tt_monotonic_seconds: of the stage, of the last answer */
  int64_t done, failed;     /* points that need no label any more, those of them without one */
  int64_t pending;          /* others that are queued or asked */
  int64_t again;            /* to be asked for again: point [again] */
  int64_t *point;
} ask_state;

/* Points that crashed are asked for again, label.retries times. */
static void look_at_point(ask_state *s, const tt_points *p, int64_t i, int64_t retries)
{
  const tt_point *t = tt_points_at(p, i);
  int is_done = tt_point_is_done(t, retries);
  s->done += is_done;
  s->failed += is_done && t->state != TT_POINT_labeled;
  s->pending += !is_done && t->state != TT_POINT_proposed;
  if (t->state == TT_POINT_crashed && !is_done) s->point[s->again++] = i;
}

/* The queries; of an asynchronous round all points of the record. */
static tt_err look_at_points(tt_labeling *a, ask_state *s)
{
  tt_points *p = a->request->points;
  int beside = a->request->cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
  s->done = s->failed = s->pending = s->again = 0;
  tt_points_lock(p);
  int64_t count = beside ? tt_points_count(p) : a->request->queries->count;
  tt_err e = TT_ALLOC(s->point, count);
  for (int64_t i = 0; !e && i < count; i++)
    look_at_point(s, p, beside ? i : a->point[i], a->request->cfg->label_retries);
  const tt_point_change c = {.count = s->again, .point = s->point, .to = TT_POINT_queued};
  if (!e) e = tt_points_change_local(p, &c);
  tt_points_unlock(p);
  tt_free(s->point);
  return e;
}

static tt_err start_ask(tt_labeling *a)
{
  const tt_label_request *q = a->request;
  ask_state *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  a->backend_data = s;
  s->begun = s->progressed = tt_monotonic_seconds();
  TT_TRY(look_at_points(a, s));
  a->pending = s->pending;
  if (s->pending && !q->workers)
    tt_log_root(TT_LOG_INFO,
                "waiting for the labels of %" PRId64 " points: tutti ask %s -k 8 > points.csv; "
                "tutti tell %s labels.csv",
                s->pending, q->campaign, q->campaign);
  return TT_OK;
}

/* train.when. The first answers may all be failures: label.max_failed is judged when there are
 * enough. */
static int may_train(const tt_label_request *q, const ask_state *s)
{
  const tt_config *c = q->cfg;
  int64_t fresh = s->done - q->answered, failed = s->failed - q->answered_failed;
  if (c->campaign_mode != TT_CAMPAIGN_MODE_asynchronous || fresh < 1) return 0;
  if (fresh >= tt_labels_until_training(c)) return 1;
  if ((double)failed > c->label_max_failed * (double)fresh) return 0;
  return (c->train_when_share > 0.0 && (double)fresh >= c->train_when_share * (double)q->trained) ||
         (c->train_when_wait > 0.0 && tt_monotonic_seconds() - s->begun >= c->train_when_wait);
}

static tt_err poll_ask(tt_labeling *a)
{
  const tt_label_request *q = a->request;
  ask_state *s = a->backend_data;
  int64_t done = s->done, queried = q->queries->count;
  TT_TRY(look_at_points(a, s));
  a->progressed = s->done != done;
  if (a->progressed) s->progressed = tt_monotonic_seconds();
  a->pending = may_train(q, s) ? 0 : s->pending;
  if (!a->pending) return TT_OK;
  if (q->cfg->campaign_mode == TT_CAMPAIGN_MODE_rounds &&
      (double)s->failed > q->cfg->label_max_failed * (double)queried)
    return tt_label_failed_error(q->cfg, q->round, queried, s->failed, s->pending);
  if (q->workers) return tt_workers_poll_local(q->workers, a->progressed);
  if (tt_monotonic_seconds() < s->progressed + q->cfg->label_max_wait) return TT_OK;
  return TT_FAIL(STOPPED,
                 "%s: %" PRId64 " points have no label after label.max_wait (%g s); tutti ask and "
                 "tutti tell go on without the campaign; then run again",
                 q->campaign, s->pending, q->cfg->label_max_wait);
}

static void end_ask(tt_labeling *a) { tt_free(a->backend_data); }

const tt_label_backend tt_label_backend_ask = {start_ask, poll_ask, end_ask};
