/* record.c — see driver_internal.h: the history of a campaign and the record of its points. */
#include "core/base/mem.h"
#include "src/campaign/driver/driver_internal.h"

#include <math.h>
#include <string.h>

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

tt_err tt_campaign_open_record_local(tt_campaign *k)
{
  int64_t *row = NULL;
  if (!tt_comm_is_root(k->c)) return TT_OK;
  TT_TRY(tt_inbox_wait_local(k->directory));
  TT_TRY(tt_points_open_local(k->directory, TT_LINE_LOG_replace, &k->data->input, &k->label,
                              k->run_id.incarnation, &k->points));
  TT_TRY(tt_inbox_begin_local(k->points, k->directory, &k->inbox));
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

/* Labeled points of no pool that are not in the history, in the order of their numbers: what tutti
 * tell --new has brought before a line of events.jsonl. They become queries of the last round, with
 * rows that no pool has. */
static tt_err list_told_local(const tt_campaign *k, int64_t before, int64_t **point, int64_t *count)
{
  int64_t *number = NULL;
  int8_t *has = NULL;
  tt_points_lock(k->points);
  int64_t n = tt_points_count(k->points);
  tt_err e = find_points(k, k->h->queries, &number);
  if (!e) e = TT_ALLOC(has, n);
  if (!e) e = TT_ALLOC(*point, n);
  for (int64_t i = 0; !e && i < k->h->queries; i++)
    if (number[i] >= 0) has[number[i]] = 1;
  for (int64_t i = 0; !e && i < n; i++) {
    const tt_point *t = tt_points_at(k->points, i);
    if (t->row < 0 && t->state == TT_POINT_labeled && t->line <= before && !has[i])
      (*point)[(*count)++] = i;
  }
  tt_points_unlock(k->points);
  tt_free_all(&number, &has);
  return e;
}

/* They become the last `count` queries of the history. */
static void copy_told_local(const tt_campaign *k, int64_t count, const int64_t *point)
{
  int64_t D = k->h->inputs, T = k->h->targets;
  double fraction = tt_campaign_validation_fraction(k);
  tt_points_lock(k->points);
  for (int64_t i = 0; i < count; i++) {
    int64_t row = TT_FIRST_TOLD_ROW + point[i], n = k->h->queries - count + i;
    k->h->query[n] = (tt_query){.row = row,
                                .round = (int32_t)k->h->rounds,
                                .random = 1,
                                .label_status = TT_LABEL_STATUS_labeled,
                                .split = tt_campaign_choose_split(k, row, fraction),
                                .score = (double)NAN};
    memcpy(k->h->x + n * D, tt_points_x(k->points, point[i]), (size_t)D * sizeof(double));
    memcpy(k->h->y + n * T, tt_points_y(k->points, point[i]), (size_t)T * sizeof(double));
  }
  tt_points_unlock(k->points);
}

tt_err tt_campaign_take_labels(tt_campaign *k)
{
  tt_history *h = k->h;
  int64_t *point = NULL, count = 0, begin = 0; /* begin: a line of events.jsonl, on rank 0 */
  int root = tt_comm_is_root(k->c), again = k->o->from && !k->resets;
  k->resets = 1;
  if (!h->rounds) return TT_OK;
  tt_err e = root ? tt_points_begin_round_local(k->points, (int32_t)k->round_number, again, &begin)
                  : TT_OK;
  if (!e && root) e = take_labels_local(k, begin);
  if (!e && root) e = list_told_local(k, begin, &point, &count);
  e = tt_agree(k->c, e);
  tt_bcast(k->c, &count, sizeof count);
  if (!e) e = tt_agree(k->c, tt_history_add_queries(h, count, NULL, NULL, NULL));
  if (!e && root) copy_told_local(k, count, point);
  tt_free(point);
  if (e) return e;
  tt_bcast(k->c, h->x, h->queries * h->inputs * (int64_t)sizeof *h->x);
  tt_bcast(k->c, h->y, h->queries * h->targets * (int64_t)sizeof *h->y);
  tt_bcast(k->c, h->query, h->queries * (int64_t)sizeof *h->query);
  return TT_OK;
}
