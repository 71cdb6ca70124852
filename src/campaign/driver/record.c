/* record.c — see driver_internal.h: the history of a campaign and the record of its points. */
#include "core/base/mem.h"
#include "src/campaign/driver/driver_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The rows of the queries before number `count` in the history. */
static tt_err copy_rows(const tt_campaign *k, int64_t count, int64_t **row)
{
  TT_TRY(TT_ALLOC(*row, count));
  for (int64_t i = 0; i < count; i++) (*row)[i] = k->h->query[i].row;
  return TT_OK;
}

/* Points of the queries before number `count`, -1 = they have none. */
static tt_err find_points(const tt_campaign *k, int64_t count, int64_t **number)
{
  int64_t *row = NULL;
  tt_err e = copy_rows(k, count, &row);
  if (!e) e = TT_ALLOC(*number, count);
  if (!e) e = tt_points_find_local(k->points, count, row, k->h->x, &k->data->scaler.net, *number);
  tt_free(row);
  return e;
}

tt_err tt_campaign_check_replay_local(const tt_campaign *k)
{
  struct stat from, to;
  if (!k->o->replay) return TT_OK;
  if (!tt_campaign_is_asynchronous(k))
    return TT_FAIL(CONFIG,
                   "%s is in rounds, which repeat themselves: run it again in another "
                   "campaign.directory",
                   k->o->job.file);
  if (stat(k->o->replay, &from)) return TT_FAIL_ERRNO(NOINPUT, "%s", k->o->replay);
  if (stat(k->directory, &to) || from.st_ino != to.st_ino || from.st_dev != to.st_dev) return TT_OK;
  return TT_FAIL(USAGE, "%s cannot be repeated in itself: give another campaign.directory",
                 k->o->replay);
}

/* The record of the campaign that is repeated. A link does: the file is copied when it is opened
 * (TT_LINE_LOG_replace). */
static tt_err link_record(const tt_campaign *k)
{
  char from[TT_PATH_MAX], to[TT_PATH_MAX];
  tt_path_join(k->o->replay, "events.jsonl", from);
  tt_path_join(k->directory, "events.jsonl", to);
  if (!link(from, to) || errno == EEXIST) return TT_OK;
  return TT_FAIL(NOINPUT, "%s: no link from %s: %s; both must be on one file system", to, from,
                 strerror(errno));
}

static tt_err check_record(const tt_campaign *k)
{
  if (!k->o->replay || !tt_points_were_revised(k->points)) return TT_OK;
  return TT_FAIL(DATA,
                 "%s/events.jsonl: labels were replaced or rounds repeated there; what earlier "
                 "rounds were trained on is not known any more",
                 k->o->replay);
}

tt_err tt_campaign_open_record_local(tt_campaign *k)
{
  int64_t *row = NULL;
  /* a place waits for an answer after each label */
  int most_ms = tt_campaign_is_asynchronous(k) ? 20 : 500;
  if (!tt_comm_is_root(k->c)) return TT_OK;
  TT_TRY(tt_inbox_wait_local(k->directory));
  if (k->o->replay) TT_TRY(link_record(k));
  TT_TRY(tt_points_open_local(k->directory, TT_LINE_LOG_replace, &k->data->input, &k->label,
                              k->run_id.incarnation, &k->points));
  TT_TRY(check_record(k));
  TT_TRY(tt_inbox_begin_local(k->points, k->directory, most_ms, &k->inbox));
  if (!k->h->queries) return TT_OK;
  tt_err e = copy_rows(k, k->h->queries, &row);
  const tt_new_points n = {.count = k->h->queries, .row = row, .x = k->h->x};
  if (!e) e = tt_points_adopt_local(k->points, &n, &k->data->scaler.net, k->h->y);
  tt_free(row);
  return e;
}

tt_err tt_campaign_drop_labels_local(const tt_campaign *k, int64_t kept)
{
  int64_t *number = NULL, *drop = NULL, n = 0;
  int8_t *keep = NULL;
  tt_points_lock(k->points);
  int64_t count = tt_points_count(k->points);
  tt_err e = find_points(k, kept, &number);
  if (!e) e = TT_ALLOC(keep, count);
  if (!e) e = TT_ALLOC(drop, count);
  for (int64_t i = 0; !e && i < kept; i++)
    if (number[i] >= 0) keep[number[i]] = 1;
  for (int64_t i = 0; !e && i < count; i++) {
    const tt_point *t = tt_points_at(k->points, i);
    int answered = t->state == TT_POINT_labeled || t->state == TT_POINT_impossible ||
                   t->state == TT_POINT_crashed;
    /* nobody would ask again for a point of no pool (tutti tell --new) */
    if (!keep[i] && t->row >= 0 && answered) drop[n++] = i;
  }
  const tt_point_change c = {.count = n, .point = drop, .to = TT_POINT_proposed, .again = 1};
  if (!e) e = tt_points_change_local(k->points, &c);
  tt_points_unlock(k->points);
  tt_free_all(&number, &keep, &drop);
  return e;
}

/* Labels of committed rounds that tutti tell has replaced, up to a line of events.jsonl. */
static tt_err take_labels_local(const tt_campaign *k, int64_t before)
{
  int64_t *number = NULL, T = k->h->targets;
  tt_points_lock(k->points);
  tt_err e = find_points(k, k->h->queries, &number);
  for (int64_t i = 0; !e && i < k->h->queries; i++) {
    const tt_point *t = number[i] < 0 ? NULL : tt_points_at(k->points, number[i]);
    if (!t || t->state != TT_POINT_labeled || t->line > before) continue;
    memcpy(k->h->y + i * T, tt_points_y(k->points, number[i]), (size_t)T * sizeof *k->h->y);
    k->h->query[i].label_status = TT_LABEL_STATUS_labeled;
  }
  tt_points_unlock(k->points);
  tt_free(number);
  return e;
}

static int is_of_kind(const tt_campaign *k, const tt_point *t, tt_point_kind kind, int64_t before)
{
  if (kind == TT_POINTS_told)
    return t->row < 0 && t->state == TT_POINT_labeled && t->line <= before;
  if (kind == TT_POINTS_answered)
    return t->row >= 0 && tt_point_is_done(t, k->cfg->label_retries) && t->line <= before;
  return t->row >= 0 && t->state != TT_POINT_proposed && t->state != TT_POINT_queued;
}

/* A query of the last round: of no pool, it has a row that no pool has. */
static tt_query query_of(const tt_campaign *k, int64_t point, double fraction)
{
  const tt_point *t = tt_points_at(k->points, point);
  int told = t->row < 0;
  int64_t row = told ? TT_FIRST_TOLD_ROW + point : t->row;
  return (tt_query){.row = row,
                    .round = (int32_t)k->h->rounds,
                    .random = told || t->random,
                    .label_status = t->state == TT_POINT_labeled,
                    .split = tt_campaign_choose_split(k, row, fraction),
                    .score = told ? (double)NAN : t->score};
}

static tt_err allocate_points(const tt_campaign *k, int64_t count, tt_point_list *out)
{
  TT_TRY(TT_ALLOC(out->query, count));
  TT_TRY(TT_ALLOC(out->x, count * k->h->inputs));
  return TT_ALLOC(out->y, count * k->h->targets);
}

/* The record is locked. */
static tt_err list_locked(const tt_campaign *k, tt_point_kind kind, int64_t before,
                          tt_point_list *out)
{
  int64_t *number = NULL, n = tt_points_count(k->points), D = k->h->inputs, T = k->h->targets;
  double fraction = tt_campaign_validation_fraction(k);
  int8_t *has = NULL;
  tt_err e = find_points(k, k->h->queries, &number);
  if (!e) e = TT_ALLOC(has, n);
  if (!e) e = allocate_points(k, n, out);
  for (int64_t i = 0; !e && i < k->h->queries; i++)
    if (number[i] >= 0) has[number[i]] = 1;
  for (int64_t i = 0; !e && i < n; i++) {
    const tt_point *t = tt_points_at(k->points, i);
    if (has[i] || !is_of_kind(k, t, kind, before)) continue;
    out->query[out->count] = query_of(k, i, fraction);
    memcpy(out->x + out->count * D, tt_points_x(k->points, i), (size_t)D * sizeof(double));
    for (int64_t j = 0; j < T; j++)
      out->y[out->count * T + j] =
          t->state == TT_POINT_labeled ? tt_points_y(k->points, i)[j] : (double)NAN;
    out->count++;
  }
  tt_free_all(&number, &has);
  return e;
}

static tt_err list_local(const tt_campaign *k, tt_point_kind kind, int64_t before,
                         tt_point_list *out)
{
  tt_points_lock(k->points);
  tt_err e = list_locked(k, kind, before, out);
  tt_points_unlock(k->points);
  return e;
}

void tt_point_list_free(tt_point_list *l)
{
  tt_free_all(&l->query, &l->x, &l->y);
  l->count = 0;
}

tt_err tt_campaign_list_points(tt_campaign *k, tt_point_kind kind, int64_t before,
                               tt_point_list *out)
{
  int root = tt_comm_is_root(k->c);
  *out = (tt_point_list){0};
  tt_err e = tt_agree(k->c, root ? list_local(k, kind, before, out) : TT_OK);
  tt_bcast(k->c, &out->count, sizeof out->count);
  if (!e) e = tt_agree(k->c, root ? TT_OK : allocate_points(k, out->count, out));
  if (e || !out->count) return e;
  tt_bcast(k->c, out->query, out->count * (int64_t)sizeof *out->query);
  tt_bcast(k->c, out->x, out->count * k->h->inputs * (int64_t)sizeof *out->x);
  tt_bcast(k->c, out->y, out->count * k->h->targets * (int64_t)sizeof *out->y);
  return TT_OK;
}

tt_err tt_campaign_add_points(tt_campaign *k, const tt_point_list *l)
{
  return tt_agree(k->c, tt_history_add_queries(k->h, l->count, l->query, l->x, l->y));
}

/* Collective. What tutti tell --new has brought before a line of events.jsonl become queries of the
 * last round. */
static tt_err take_told(tt_campaign *k, int64_t before)
{
  tt_point_list told;
  tt_err e = tt_campaign_list_points(k, TT_POINTS_told, before, &told);
  if (!e && told.count) e = tt_campaign_add_points(k, &told);
  tt_point_list_free(&told);
  return e;
}

tt_err tt_campaign_take_labels(tt_campaign *k)
{
  tt_history *h = k->h;
  int64_t begin = 0; /* line of events.jsonl; rank 0 needs it */
  int root = tt_comm_is_root(k->c), again = k->o->from && !k->resets;
  k->resets = 1;
  if (!h->rounds) return TT_OK;
  tt_err e = root ? tt_points_begin_round_local(k->points, (int32_t)k->round_number, again, &begin)
                  : TT_OK;
  if (!e && root) e = take_labels_local(k, begin);
  e = tt_agree(k->c, e);
  if (e) return e;
  tt_bcast(k->c, h->y, h->queries * h->targets * (int64_t)sizeof *h->y);
  tt_bcast(k->c, h->query, h->queries * (int64_t)sizeof *h->query);
  return take_told(k, begin);
}
