/* oracle.c — see oracle.h: rank 0 gets the labels, all ranks wait together. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "io/files/owner.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <poll.h>

/* The backend of each label.mode; hidden needs none. */
static const tt_label_backend *const backends[TT_LABEL_COUNT] = {
    [TT_LABEL_command] = &tt_label_backend_command,
    [TT_LABEL_slurm] = &tt_label_backend_slurm,
    [TT_LABEL_ask] = &tt_label_backend_ask,
};

enum { MIN_NAP_MS = 10, MAX_NAP_MS = 500 }; /* ms */

/* Labels by a backend */

/* Sent from rank 0 to all ranks after each poll. */
typedef struct poll_result {
  int64_t pending, nap_ms;
} poll_result;

/* A start that only waits notices here that another one has taken the campaign over. */
static tt_err poll_local(const tt_label_backend *backend, tt_labeling *a, poll_result *l)
{
  a->progressed = 0;
  tt_err e = l->nap_ms == MAX_NAP_MS ? tt_owner_check_local(a->request->campaign) : TT_OK;
  if (!e) e = backend->poll(a);
  tt_err recorded = tt_label_points_update(a);
  if (!e) e = recorded;
  l->pending = a->pending;
  l->nap_ms = a->progressed || !l->nap_ms  ? MIN_NAP_MS
              : l->nap_ms < MAX_NAP_MS / 2 ? 2 * l->nap_ms
                                           : MAX_NAP_MS;
  return e;
}

/* Collective. Poll once more before calls are killed: a call that has ended by now counts. */
static tt_err stop_labeling(tt_comm *c, const tt_label_backend *backend, tt_labeling *a,
                            tt_stop_reason reason)
{
  poll_result last = {0};
  if (a) a->stopping = 1;
  tt_err e = tt_agree(c, a ? poll_local(backend, a, &last) : TT_OK);
  tt_bcast(c, &last, sizeof last);
  if (e || !last.pending) return e;
  return TT_FAIL(STOPPED,
                 "stopped by %s while labeling: accepted labels are kept; run again to continue",
                 tt_stop_text(reason));
}

/* Collective; a is NULL on all ranks but 0. */
static tt_err poll_until_labeled(tt_comm *c, const tt_label_request *request,
                                 const tt_label_backend *backend, tt_labeling *a)
{
  poll_result l = {0};
  for (;;) {
    tt_err e = tt_agree(c, a ? poll_local(backend, a, &l) : TT_OK);
    tt_bcast(c, &l, sizeof l);
    if (e || !l.pending) return e;
    tt_stop_reason reason = tt_stop_agreed(c, request->deadline, request->campaign);
    if (reason) return stop_labeling(c, backend, a, reason);
    tt_watchdog_heartbeat_local("label");
    poll(NULL, 0, (int)l.nap_ms);
  }
}

static void log_labeled(const tt_query_labels *out, const char *reason, const char *directory)
{
  int64_t labeled = tt_labeled_rows(out->y, out->count, out->targets),
          failed = out->count - labeled;
  if (!failed)
    tt_log_root(TT_LOG_INFO, "labeled %" PRId64 " of %" PRId64, labeled, out->count);
  else
    tt_log_root(TT_LOG_WARN,
                "labeled %" PRId64 " of %" PRId64 ", %" PRId64 " failed (oracle: %s); more in %s",
                labeled, out->count, failed, *reason ? reason : "no value", directory);
}

/* Collective. */
static tt_err label_by_backend(tt_comm *c, const tt_label_request *request, tt_labeling *a,
                               tt_query_labels *out)
{
  char reason[1024];
  int root = tt_comm_is_root(c);
  int beside = request->cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
  const tt_label_backend *backend = backends[beside ? TT_LABEL_ask : request->cfg->label_mode];
  tt_err e = tt_agree(c, root ? tt_label_groups_create(a) : TT_OK);
  if (e) return e;
  e = tt_agree(c, root ? backend->start(a) : TT_OK);
  if (!e) e = poll_until_labeled(c, request, backend, root ? a : NULL);
  if (root) backend->end(a);
  if (e) return e;
  if (root) tt_label_points_collect(a, out, reason, sizeof reason);
  if (root && !beside) log_labeled(out, reason, request->directory);
  return TT_OK;
}

/* Labels that are hidden in the pool. */
static tt_err read_hidden_local(const tt_label_request *request, const tt_query_labels *out)
{
  const tt_queries *q = request->queries;
  const tt_new_points n = {.count = q->count,
                           .row = q->row,
                           .random = q->random,
                           .x = q->x,
                           .round = (int32_t)request->round};
  TT_TRY(tt_pool_read_rows_local(request->pool, q->row, out->count, NULL, out->y));
  return tt_points_adopt_local(request->points, &n, request->net, out->y);
}

/* Collective. */
static tt_err label_queries(tt_comm *c, const tt_label_request *request, tt_query_labels *out)
{
  tt_labeling a = {.request = request, .target = request->target};
  int root = tt_comm_is_root(c);
  tt_err e = TT_OK;
  if (request->cfg->label_mode == TT_LABEL_hidden)
    e = tt_agree(c, root ? read_hidden_local(request, out) : TT_OK);
  else
    e = label_by_backend(c, request, &a, out);
  tt_label_groups_free(&a);
  if (e) return e;
  if (request->cfg->label_mode == TT_LABEL_hidden)
    tt_labels_widen(out->y, out->count, out->targets - request->target->errors, out->targets);
  tt_bcast(c, out->y, out->count * out->targets * (int64_t)sizeof *out->y);
  return TT_OK;
}

tt_err tt_oracle_label(tt_comm *c, const tt_label_request *request, tt_query_labels **out)
{
  tt_query_labels *a = NULL;
  tt_err e =
      tt_agree(c, tt_query_labels_create(request->queries->count, request->target->count, &a));
  if (!e) e = label_queries(c, request, a);
  if (e) tt_query_labels_destroy(&a);
  *out = a;
  return e;
}
