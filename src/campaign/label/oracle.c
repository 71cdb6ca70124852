/* oracle.c — see oracle.h: rank 0 asks, all wait together. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

/* label.mode: its row; hidden needs none. */
static const tt_label_way *const ways[TT_LABEL_COUNT] = {
    [TT_LABEL_command] = &tt_label_by_command,
    [TT_LABEL_files] = &tt_label_by_files,
    [TT_LABEL_slurm] = &tt_label_by_slurm,
};

enum { FIRST_NAP = 10, MOST_NAP = 500 }; /* ms */

/* ---- hidden labels -----------------------------------------------------------------------------
 */

typedef struct place {
  int64_t row, pick;
} place;

static int by_row(const void *a, const void *b)
{
  const place *x = a, *y = b;
  return (x->row > y->row) - (x->row < y->row);
}

/* The pool reads ascending rows. */
static tt_err read_ascending(const tt_question *q, place *sorted, int64_t *row, double *y,
                             tt_answers *out)
{
  int64_t n = q->picks->count, T = q->target->count;
  for (int64_t i = 0; i < n; i++)
    sorted[i] = (place){q->picks->row[i], i};
  if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_row);
  for (int64_t i = 0; i < n; i++)
    row[i] = sorted[i].row;
  TT_TRY(tt_pool_pick_local(q->pool, row, n, NULL, y));
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < T; k++) {
      double v = out->y[sorted[i].pick * T + k] = y[i * T + k];
      if (v == v) out->answer[sorted[i].pick] = TT_ANSWER_labelled;
    }
  return TT_OK;
}

static tt_err read_hidden(const tt_question *q, tt_answers *out)
{
  int64_t n = q->picks->count, *row = NULL;
  place *sorted = NULL;
  double *y = NULL;
  tt_err e = TT_ALLOC(sorted, n);
  if (!e) e = TT_ALLOC(row, n);
  if (!e) e = TT_ALLOC(y, n * q->target->count);
  if (!e) e = read_ascending(q, sorted, row, y, out);
  tt_free(sorted);
  tt_free(row);
  tt_free(y);
  return e;
}

/* ---- the others --------------------------------------------------------------------------------
 */

/* What rank 0 tells the others after each look. */
typedef struct look {
  int64_t left, nap;
} look;

static tt_err poll_local(const tt_label_way *way, tt_asking *a, look *l)
{
  a->stirred = 0;
  tt_err e = way->poll(a);
  l->left = a->left;
  l->nap = a->stirred || !l->nap ? FIRST_NAP : l->nap < MOST_NAP / 2 ? 2 * l->nap : MOST_NAP;
  return e;
}

/* Collective. A call that has ended by now counts: one more look before calls are killed. */
static tt_err stop(tt_comm *c, const tt_label_way *way, tt_asking *a, tt_stop why)
{
  look last = {0};
  if (a) a->stopping = 1;
  tt_err e = tt_agree(c, a ? poll_local(way, a, &last) : TT_OK);
  tt_bcast(c, &last, sizeof last);
  if (e || !last.left) return e;
  return TT_FAIL(STOPPED,
                 "stopped by %s while labelling: what is labelled is kept; run again to go on",
                 tt_stop_text(why));
}

/* Collective; a is NULL on all ranks but 0. */
static tt_err wait_for_all(tt_comm *c, const tt_question *q, const tt_label_way *way, tt_asking *a)
{
  look l = {0};
  for (;;) {
    tt_err e = tt_agree(c, a ? poll_local(way, a, &l) : TT_OK);
    tt_bcast(c, &l, sizeof l);
    if (e || !l.left) return e;
    tt_stop why = tt_stop_agreed(c, q->deadline, q->campaign);
    if (why) return stop(c, way, a, why);
    tt_watchdog_alive_local("label");
    poll(NULL, 0, (int)l.nap);
  }
}

static void say(const tt_answers *out, const char *why)
{
  int64_t labelled = 0;
  for (int64_t i = 0; i < out->count; i++)
    labelled += out->answer[i] == TT_ANSWER_labelled;
  if (labelled == out->count)
    tt_log_once(TT_LOG_INFO, "labelled %" PRId64 " of %" PRId64, labelled, out->count);
  else
    tt_log_once(TT_LOG_WARN, "labelled %" PRId64 " of %" PRId64 ", %" PRId64 " failed (oracle: %s)",
                labelled, out->count, out->count - labelled, *why ? why : "no value");
}

/* Collective. */
static tt_err ask_all(tt_comm *c, const tt_question *q, tt_asking *a, tt_answers *out)
{
  char why[1024];
  int root = tt_comm_is_root(c);
  const tt_label_way *way = ways[q->cfg->label_mode];
  tt_err e = tt_agree(c, root ? tt_groups_make(a) : TT_OK);
  if (e) return e;
  e = tt_agree(c, root ? way->start(a) : TT_OK);
  if (!e) e = wait_for_all(c, q, way, root ? a : NULL);
  if (root) way->end(a);
  if (e) return e;
  e = root ? tt_groups_collect(a, out, why, sizeof why) : TT_OK;
  if (root && !e) say(out, why);
  return tt_agree(c, e);
}

/* Collective. */
static tt_err ask(tt_comm *c, const tt_question *q, tt_answers *out)
{
  tt_asking a = {.q = q, .target = q->target};
  int root = tt_comm_is_root(c);
  tt_err e = TT_OK;
  if (q->cfg->label_mode == TT_LABEL_hidden)
    e = tt_agree(c, root ? read_hidden(q, out) : TT_OK);
  else
    e = ask_all(c, q, &a, out);
  tt_groups_free(&a);
  if (e) return e;
  tt_bcast(c, out->answer, out->count * (int64_t)sizeof *out->answer);
  tt_bcast(c, out->y, out->count * out->targets * (int64_t)sizeof *out->y);
  return TT_OK;
}

tt_err tt_ask(tt_comm *c, const tt_question *q, tt_answers **out)
{
  tt_answers *a = NULL;
  tt_err e = tt_agree(c, tt_answers_create(q->picks->count, q->target->count, &a));
  if (!e) e = ask(c, q, a);
  if (e) tt_answers_destroy(&a);
  *out = a;
  return e;
}
