/* label_points.c — see oracle_internal.h: the queries of a round in the record of the campaign. */
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/label/oracle_internal.h"
#include "src/campaign/state/file_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Points of the queries */

/* Texts of the inputs, [queries][D], NULL where an input is a number. A text that is no level is
 * only in the pool. */
static tt_err find_texts(const tt_label_request *q, char **text, int *any)
{
  int64_t D = q->queries->inputs;
  for (int64_t i = 0; i < q->queries->count * D; i++) {
    if (!tt_net_inputs_levels_are_texts(q->net, i % D)) continue;
    const char *known = tt_net_inputs_text(q->net, i % D, q->queries->x[i]);
    if (!known) TT_TRY(tt_pool_read_text_local(q->pool, q->queries->row[i / D], i % D, &known));
    TT_TRY(tt_text_set(&text[i], known));
    *any = 1;
  }
  return TT_OK;
}

/* Points that wait for a label and shall not have it now: they are no queries any more, because a
 * round is repeated, or a newer model has chosen others; beside training those that were asked for
 * are labeled all the same. And those that an earlier start has asked for itself, if others label
 * now. */
static tt_err withdraw(const tt_labeling *a)
{
  tt_points *p = a->request->points;
  const tt_config *cfg = a->request->cfg;
  int beside = cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
  int8_t *is_own = NULL;
  int64_t *other = NULL, n = 0;
  tt_points_lock(p);
  tt_err e = TT_ALLOC(is_own, tt_points_count(p));
  if (!e) e = TT_ALLOC(other, tt_points_count(p));
  for (int64_t i = 0; !e && i < a->request->queries->count; i++) is_own[a->point[i]] = 1;
  for (int64_t i = 0; !e && i < tt_points_count(p); i++) {
    const tt_point *t = tt_points_at(p, i);
    int asked = t->state == TT_POINT_asked, lost = asked && !t->lease && tt_label_is_asked(cfg);
    int waits = t->state == TT_POINT_queued || (!beside && (asked || t->state == TT_POINT_expired));
    if (lost || (waits && !is_own[i])) other[n++] = i;
  }
  const tt_point_change c = {.count = n, .point = other, .to = TT_POINT_proposed};
  if (!e) e = tt_points_change_local(p, &c);
  tt_points_unlock(p);
  tt_free_all(&is_own, &other);
  return e;
}

tt_err tt_oracle_withdraw_local(const tt_label_request *request)
{
  const tt_labeling none = {.request = request};
  return withdraw(&none);
}

tt_err tt_label_points_create(tt_labeling *a)
{
  const tt_label_request *q = a->request;
  const tt_queries *own = q->queries;
  char **text = NULL;
  int any = 0;
  TT_TRY(TT_ALLOC(a->point, own->count));
  TT_TRY(tt_points_find_local(q->points, own->count, own->row, own->x, q->net, a->point));
  tt_err e = TT_ALLOC(text, own->count * own->inputs);
  if (!e && q->net) e = find_texts(q, text, &any);
  const tt_new_points n = {.count = own->count,
                           .row = own->row,
                           .random = own->random,
                           .score = own->score,
                           .x = own->x,
                           .text = any ? text : NULL,
                           .round = (int32_t)q->round};
  if (!e) e = tt_points_add_unknown_local(q->points, &n, a->point);
  if (!e) e = withdraw(a);
  for (int64_t i = 0; text && i < own->count * own->inputs; i++) tt_free(text[i]);
  tt_free(text);
  return e;
}

/* States */

static int may_be_queued(const tt_label_request *q, const tt_point *t, int is_pending)
{
  if (t->state == TT_POINT_proposed) return 1;
  if (tt_label_is_asked(q->cfg))
    return t->state == TT_POINT_crashed && !tt_point_is_done(t, q->cfg->label_retries);
  return is_pending && (t->state == TT_POINT_crashed || t->state == TT_POINT_impossible ||
                        t->state == TT_POINT_expired);
}

/* The points that may change to a state. */
static tt_err change(tt_labeling *a, const int8_t *is_pending, tt_point_state next)
{
  const tt_label_request *q = a->request;
  int64_t *point = NULL, n = 0;
  TT_TRY(TT_ALLOC(point, q->queries->count));
  tt_points_lock(q->points);
  for (int64_t i = 0; i < q->queries->count; i++) {
    const tt_point *t = tt_points_at(q->points, a->point[i]);
    int fits = next == TT_POINT_queued ? may_be_queued(q, t, is_pending[i])
                                       : is_pending[i] && t->state == TT_POINT_queued;
    if (fits) point[n++] = a->point[i];
  }
  const tt_point_change c = {.count = n, .point = point, .to = next};
  tt_err e = tt_points_change_local(q->points, &c);
  tt_points_unlock(q->points);
  tt_free(point);
  return e;
}

tt_err tt_label_points_queue(tt_labeling *a)
{
  int8_t *is_pending = NULL;
  TT_TRY(TT_ALLOC(is_pending, a->request->queries->count));
  for (int64_t i = 0; i < a->groups; i++)
    for (int64_t k = 0; k < a->group[i].count; k++)
      is_pending[a->group[i].query[k]] = a->group[i].state == TT_LABEL_GROUP_pending;
  tt_points_lock(a->request->points); /* no request gets a point between the two changes */
  tt_err e = change(a, is_pending, TT_POINT_queued);
  if (!e && !tt_label_is_asked(a->request->cfg)) e = change(a, is_pending, TT_POINT_asked);
  tt_points_unlock(a->request->points);
  tt_free(is_pending);
  return e ? e : tt_label_points_update(a);
}

/* Results of groups */

static tt_err record_group(tt_labeling *a, tt_label_group *g)
{
  char why[1024] = "";
  double *y = NULL;
  int64_t *point = NULL;
  int failed = g->state == TT_LABEL_GROUP_failed;
  tt_err e = TT_ALLOC(point, g->count);
  for (int64_t i = 0; !e && i < g->count; i++) point[i] = a->point[g->query[i]];
  if (!e) e = tt_label_group_read_results(g, a->target, &y, why, sizeof why);
  if (!e) e = tt_points_answer_local(a->request->points, g->count, point, failed ? NULL : y, why);
  g->recorded = !e;
  tt_free_all(&point, &y);
  return e;
}

tt_err tt_label_points_update(tt_labeling *a)
{
  for (int64_t i = 0; i < a->groups; i++)
    if (a->group[i].state != TT_LABEL_GROUP_pending && !a->group[i].recorded)
      TT_TRY(record_group(a, &a->group[i]));
  return TT_OK;
}

/* Labels of the record */

static void copy_label(const tt_labeling *a, int64_t query, double *y, char *why, int capacity)
{
  tt_points *p = a->request->points;
  const tt_point *t = tt_points_at(p, a->point[query]);
  for (int64_t k = 0; k < a->target->count; k++)
    y[k] = t->state == TT_POINT_labeled ? tt_points_y(p, a->point[query])[k] : (double)NAN;
  if (t->state != TT_POINT_labeled && t->why && !*why)
    snprintf(why, (size_t)capacity, "%s", t->why);
}

void tt_label_points_collect(const tt_labeling *a, tt_query_labels *out, char *why, int capacity)
{
  *why = '\0';
  tt_points_lock(a->request->points);
  for (int64_t i = 0; i < out->count; i++)
    copy_label(a, i, out->y + i * out->targets, why, capacity);
  tt_points_unlock(a->request->points);
}

/* Groups of an earlier start */

static tt_err adopt_group(const tt_label_request *q, const tt_label_group *g)
{
  char input[TT_PATH_MAX];
  tt_oracle_input *in = NULL;
  double *y = NULL;
  tt_path_join(g->directory, g->csv ? "input.csv" : "input.h5", input);
  tt_err e = tt_oracle_input_read_local(input, q->net, &in);
  if (!e) e = tt_label_group_read_labels(g, q->target, &y, NULL, 0);
  if (!e && in->inputs == q->input->count) {
    const tt_new_points n = {.count = in->count, .row = in->id, .x = in->x};
    e = tt_points_adopt_local(q->points, &n, q->net, y);
  }
  tt_free(y);
  tt_oracle_input_destroy(&in);
  return e;
}

tt_err tt_oracle_record_labels_local(const tt_label_request *q, const char *directory)
{
  char path[TT_PATH_MAX];
  int64_t *number = NULL, count = 0;
  TT_TRY(tt_label_groups_list_local(directory, &number, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) {
    tt_label_group g = {0};
    tt_label_group_directory(directory, number[i], path);
    e = tt_label_group_open(path, &g);
    if (!e && g.state == TT_LABEL_GROUP_labeled) e = adopt_group(q, &g);
    if (e == TT_E_NOINPUT) e = TT_OK; /* its creation was interrupted */
    tt_label_group_free(&g);
  }
  tt_free(number);
  return e;
}
