/* answers.c — see requests.h: what the writer of the record does with a request.
 *
 *   {"act": "ask", "k": 8, "until": seconds, "who": "alice", "lease": its name; else that of the
 *    request}
 *   {"act": "tell", "who": ..., "replace": false, "place": ["labels.csv:2", "labels.csv:3"],
 *    "point": [17, 18] or "x": [[...], [...]], "status": ["ok", "later"], "y": [[...], [...]],
 *    "why": "..."} */
#include "src/campaign/points/points_internal.h"
#include "src/campaign/points/requests.h"

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ask */

/* Points in state `from`, of asked ones only those whose lease has ended: they become `next`. */
static tt_err change_all(tt_points *p, int from, tt_point_state next)
{
  int64_t *point = NULL, n = 0, now = (int64_t)time(NULL);
  TT_TRY(TT_ALLOC(point, p->count));
  for (int64_t i = 0; i < p->count; i++) {
    const tt_point *t = &p->point[i];
    int ended = from != TT_POINT_asked || (t->until > 0 && t->until <= now);
    if (t->state == from && ended) point[n++] = i;
  }
  const tt_point_change c = {.count = n, .point = point, .to = next};
  tt_err e = tt_points_change_local(p, &c);
  tt_free(point);
  return e;
}

/* The points of a lease, in point [p->count]. */
static int64_t list_lease(const tt_points *p, int32_t lease, int64_t *point)
{
  int64_t n = 0;
  for (int64_t i = 0; i < p->count; i++)
    if (p->point[i].state == TT_POINT_asked && p->point[i].lease == lease + 1) point[n++] = i;
  return n;
}

static void refuse(json_t **out, tt_err e)
{
  tt_json_set(out, "code", json_integer(tt_err_exit_code(e)));
  tt_json_set(out, "error", tt_json_text(tt_err_last()));
}

static tt_err no_point(const tt_points *p)
{
  int64_t asked = 0, next = INT64_MAX;
  char wait[32];
  for (int64_t i = 0; i < p->count; i++) {
    if (p->point[i].state != TT_POINT_asked) continue;
    asked++;
    if (p->point[i].until > 0 && p->point[i].until < next) next = p->point[i].until;
  }
  if (next == INT64_MAX)
    return TT_FAIL(STOPPED, "no point is queued now; being labeled: %" PRId64, asked);
  return TT_FAIL(STOPPED, "no point is queued now; asked: %" PRId64 "; a lease ends in %s", asked,
                 tt_duration_text((double)(next - (int64_t)time(NULL)), wait));
}

static void put_points(const tt_points *p, int64_t n, const int64_t *point, json_t **out)
{
  int64_t D = p->input.count;
  json_t *x = json_array(), *text = json_array();
  for (int64_t i = 0; i < n; i++) {
    json_t *row = tt_json_rows(1, D, p->x + point[i] * D);
    json_array_append(x, json_array_get(row, 0));
    json_decref(row);
    if (p->text) json_array_append_new(text, tt_json_texts(D, tt_points_text(p, point[i])));
  }
  tt_json_set(out, "point", tt_json_integers(n, point));
  tt_json_set(out, "x", x);
  if (p->text)
    tt_json_set(out, "text", text);
  else
    json_decref(text);
}

static tt_err lease_points(tt_points *p, const char *name, const json_t *request, int64_t *point,
                           int64_t *n)
{
  int64_t most = json_integer_value(json_object_get(request, "k"));
  TT_TRY(change_all(p, TT_POINT_asked, TT_POINT_expired));
  TT_TRY(change_all(p, TT_POINT_expired, TT_POINT_queued));
  for (int64_t i = 0; i < p->count && *n < most; i++)
    if (p->point[i].state == TT_POINT_queued) point[(*n)++] = i;
  const tt_point_change c = {.count = *n,
                             .point = point,
                             .to = TT_POINT_asked,
                             .lease = name,
                             .until = json_integer_value(json_object_get(request, "until")),
                             .who = json_string_value(json_object_get(request, "who"))};
  return tt_points_change_local(p, &c);
}

static tt_err answer_ask(tt_points *p, const char *name, const json_t *request, json_t **out)
{
  int64_t *point = NULL, n = 0;
  const char *given = json_string_value(json_object_get(request, "lease"));
  int32_t lease = tt_points_find_lease(p, given ? given : name);
  TT_TRY(TT_ALLOC(point, p->count));
  tt_err e = TT_OK;
  if (lease >= 0) n = list_lease(p, lease, point);
  /* a lease of the asker's own name may have been answered by others */
  if (lease < 0 || (given && !n)) e = lease_points(p, given ? given : name, request, point, &n);
  if (!e && n) put_points(p, n, point, out);
  if (!e && !n) refuse(out, no_point(p));
  tt_free(point);
  return e;
}

/* tell */

#define TELL_STATUSES(X)                                                                           \
  X(ok, TT_POINT_labeled)                                                                          \
  X(impossible, TT_POINT_impossible)                                                               \
  X(crashed, TT_POINT_crashed)                                                                     \
  X(later, TT_POINT_expired)

static int state_of_status(const char *status)
{
#define X(name, state)                                                                             \
  if (status && !strcmp(status, #name)) return state;
  TELL_STATUSES(X)
#undef X
  return -1;
}

typedef struct told {
  tt_points *p;
  const json_t *request;
  int replace;
  int64_t rows;
  int64_t *point; /* [rows] -1 = a new one */
  int8_t *next;   /* [rows] states; after judge_rows KNOWN: the row changes nothing */
  double *y;      /* [rows][T] */
} told;
enum { KNOWN = -1 };

static tt_err refuse_row(const told *t, int64_t i, const char *why)
{
  const json_t *places = json_object_get(t->request, "place");
  const char *place = json_string_value(json_array_get(places, (size_t)i));
  return TT_FAIL(DATA, "%s: %s; no row is taken", place ? place : "labels", why);
}

static tt_err refuse_change(const told *t, int64_t i)
{
  char why[256];
  const tt_point *now = t->point[i] < 0 ? NULL : &t->p->point[t->point[i]];
  if (!now || now->row < 0)
    return refuse_row(t, i, "the status of a row of tell --new is ok or impossible");
  snprintf(why, sizeof why, "point %" PRId64 " is %s and cannot become %s", t->point[i],
           tt_point_state_name[now->state], tt_point_state_name[t->next[i]]);
  return refuse_row(t, i, why);
}

/* Row i, of a point that is known. */
static tt_err judge_row(told *t, int64_t i)
{
  const tt_points *p = t->p;
  const tt_point *now = &p->point[t->point[i]];
  char why[256];
  int64_t T = p->target.count;
  const double *old = p->y + t->point[i] * T, *y = t->y + i * T;
  int next = t->next[i];
  int ended = now->state == TT_POINT_labeled || now->state == TT_POINT_impossible;
  int unwanted = next == TT_POINT_crashed && (ended || now->state == TT_POINT_proposed);
  if (now->state == TT_POINT_asked && !now->lease) {
    snprintf(why, sizeof why, "point %" PRId64 " is labeled by the campaign itself (label.mode)",
             t->point[i]);
    return refuse_row(t, i, why);
  }
  if (unwanted || (next == TT_POINT_expired && now->state != TT_POINT_asked) ||
      (now->state == next && (next != TT_POINT_labeled || tt_labels_are_same(T, old, y)))) {
    t->next[i] = KNOWN;
    return TT_OK;
  }
  if (!ended && !tt_point_may_become(now->state, next, t->replace)) return refuse_change(t, i);
  if (!ended || (t->replace && next == TT_POINT_labeled)) return TT_OK;
  snprintf(why, sizeof why,
           "point %" PRId64 " is %s already, with other values (%.100s:%" PRId64
           "); --replace replaces a label",
           t->point[i], tt_point_state_name[now->state], p->events, now->line);
  return refuse_row(t, i, why);
}

static tt_err read_row(told *t, int64_t i)
{
  const json_t *number = json_array_get(json_object_get(t->request, "point"), (size_t)i);
  const json_t *status = json_array_get(json_object_get(t->request, "status"), (size_t)i);
  const json_t *y = json_array_get(json_object_get(t->request, "y"), (size_t)i);
  int64_t T = t->p->target.count, labels = T - t->p->target.errors, given = 0;
  double *own = t->y + i * T;
  char why[128];
  int next = state_of_status(json_string_value(status));
  t->next[i] = (int8_t)next;
  if (next < 0) return refuse_row(t, i, "the status is not ok, impossible, crashed or later");
  if (!tt_json_read_row(y, T, own)) return refuse_row(t, i, "the targets are missing");
  for (int64_t k = 0; k < labels; k++) given += !isnan(own[k]);
  for (int64_t k = labels; k < T; k++) /* no label, no error bar */
    if (isnan(own[k - labels])) own[k] = (double)NAN;
  if (next == TT_POINT_labeled && !given)
    return refuse_row(t, i,
                      "no target has a value; a point without a label has the status "
                      "impossible");
  if (!number) return TT_OK;
  t->point[i] = json_integer_value(number);
  if (t->point[i] >= 0 && t->point[i] < t->p->count) return TT_OK;
  snprintf(why, sizeof why, "id %" PRId64 " is no point of this campaign", t->point[i]);
  return refuse_row(t, i, why);
}

/* Rows with inputs: find their points, -1 = a new one. */
static tt_err find_rows(told *t, double **x)
{
  int64_t D = t->p->input.count;
  const json_t *rows = json_object_get(t->request, "x");
  if (!rows) return TT_OK;
  if (t->p->text)
    return refuse_row(t, 0, "--new is for inputs that are numbers; the pool has texts");
  TT_TRY(TT_ALLOC(*x, t->rows * D));
  for (int64_t i = 0; i < t->rows; i++)
    if (!tt_json_read_row(json_array_get(rows, (size_t)i), D, *x + i * D))
      return refuse_row(t, i, "the inputs are missing");
  return tt_points_find_local(t->p, t->rows, NULL, *x, NULL, t->point);
}

/* Refuse before anything is added. */
static tt_err judge_rows(told *t)
{
  for (int64_t i = 0; i < t->rows; i++) {
    if (t->point[i] >= 0)
      TT_TRY(judge_row(t, i));
    else if (!tt_point_may_become(TT_POINT_proposed, t->next[i], 0))
      return refuse_change(t, i);
  }
  return TT_OK;
}

/* *news: rows that change something. */
static tt_err record(told *t, const double *x, int64_t *news)
{
  int64_t T = t->p->target.count, n = 0;
  const tt_new_points added = {.count = t->rows, .x = x};
  if (x) TT_TRY(tt_points_add_unknown_local(t->p, &added, t->point));
  for (int64_t i = 0; i < t->rows; i++) {
    if (t->next[i] == KNOWN) continue;
    t->point[n] = t->point[i];
    t->next[n] = t->next[i];
    memmove(t->y + n++ * T, t->y + i * T, (size_t)T * sizeof *t->y);
  }
  const tt_point_change c = {.count = n,
                             .point = t->point,
                             .to_each = t->next,
                             .y = t->y,
                             .who = json_string_value(json_object_get(t->request, "who")),
                             .why = json_string_value(json_object_get(t->request, "why")),
                             .again = t->replace};
  *news = n;
  return tt_points_change_local(t->p, &c);
}

static tt_err answer_tell(tt_points *p, const json_t *request, json_t **out)
{
  told t = {
      .p = p, .request = request, .replace = json_is_true(json_object_get(request, "replace"))};
  double *x = NULL;
  int64_t news = 0;
  t.rows = (int64_t)json_array_size(json_object_get(request, "place"));
  tt_err e = TT_ALLOC(t.point, t.rows);
  if (!e) e = TT_ALLOC(t.next, t.rows);
  if (!e) e = TT_ALLOC(t.y, t.rows * p->target.count);
  for (int64_t i = 0; !e && i < t.rows; i++) e = read_row(&t, i);
  if (!e) e = find_rows(&t, &x);
  if (!e) e = judge_rows(&t);
  if (!e) e = record(&t, x, &news);
  tt_json_set(out, "new", json_integer(news));
  tt_json_set(out, "known", json_integer(t.rows - news));
  tt_free_all(&t.point, &t.next, &t.y, &x);
  return e;
}

tt_err tt_request_answer_local(tt_points *p, const char *name, const json_t *request, json_t **out)
{
  const char *act = json_string_value(json_object_get(request, "act"));
  *out = json_object();
  tt_points_lock(p);
  tt_err e = act && !strcmp(act, "ask")    ? answer_ask(p, name, request, out)
             : act && !strcmp(act, "tell") ? answer_tell(p, request, out)
                                           : TT_FAIL(DATA, "%s is no request", name);
  tt_points_unlock(p);
  if (e == TT_E_DATA) refuse(out, e);
  if (!e || e == TT_E_DATA) return TT_OK;
  json_decref(*out);
  *out = NULL;
  return e;
}
