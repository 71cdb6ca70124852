/* points.c — see points.h. */
#include "src/campaign/points/points_internal.h"

#include "core/base/mem.h"
#include "io/campaign/campaign_files.h"
#include "io/files/files.h"
#include "src/campaign/state/known_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void tt_points_close_local(tt_points **points)
{
  tt_points *p = *points;
  if (!p) return;
  tt_line_log_close_local(&p->log);
  for (int64_t i = 0; i < p->count; i++) tt_free(p->point[i].why);
  for (int64_t i = 0; p->text && i < p->count * p->input.count; i++) tt_free(p->text[i]);
  for (int32_t i = 0; i < p->leases; i++) tt_free(p->lease[i]);
  tt_columns_free(&p->input);
  tt_columns_free(&p->target);
  pthread_mutex_destroy(&p->lock);
  tt_free_all(&p->events, &p->who, &p->point, &p->x, &p->y, &p->text, &p->lease, &p->begin, points);
}

/* Opening */

static tt_err write_header(tt_points *p, const tt_columns *input, const tt_columns *target)
{
  json_t *o = json_object();
  tt_json_set(&o, "schema", json_string("tutti-events-1.0"));
  tt_json_set(&o, "inputs", tt_json_texts(input->count, (const char *const *)input->name));
  tt_json_set(&o, "input_units", tt_json_texts(input->count, (const char *const *)input->units));
  tt_json_set(&o, "targets", tt_json_texts(target->count, (const char *const *)target->name));
  tt_json_set(&o, "target_units", tt_json_texts(target->count, (const char *const *)target->units));
  if (target->errors) tt_json_set(&o, "error_bars", json_integer(target->errors));
  TT_TRY(tt_columns_copy(input, &p->input));
  TT_TRY(tt_columns_copy(target, &p->target));
  return tt_point_event_add(p, o);
}

static tt_err check_count(const tt_points *p, const tt_columns *here, const tt_columns *now,
                          const char *what)
{
  if (!now || here->count == now->count) return TT_OK;
  return TT_FAIL(DATA, "%s has %" PRId64 " %s, but data.file has %" PRId64, p->events, here->count,
                 what, now->count);
}

static tt_err check_exists(const char *events)
{
  int exists = 0;
  TT_TRY(tt_file_exists(events, &exists));
  if (exists) return TT_OK;
  return TT_FAIL(NOINPUT,
                 "%s does not exist: no campaign was started in this directory; start it with "
                 "`tutti campaign run`",
                 events);
}

tt_err tt_points_columns_local(const char *directory, tt_columns *input, tt_columns *target)
{
  char path[TT_PATH_MAX], *line = NULL;
  size_t capacity = 0;
  int is_header = 0;
  FILE *f = NULL;
  tt_path_join(directory, "events.jsonl", path);
  TT_TRY(check_exists(path));
  TT_TRY(tt_file_open_stream(path, &f));
  ssize_t n = getline(&line, &capacity, f);
  json_t *event = n > 0 ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
  tt_err e = tt_point_header_read(event, &is_header, input, target);
  json_decref(event);
  free(line);
  fclose(f);
  return e || is_header ? e : TT_FAIL(DATA, "%s:1: this is no event of a campaign", path);
}

static tt_err open_files(tt_points *p, tt_line_log_use use, const tt_columns *input,
                         const tt_columns *target)
{
  if (use != TT_LINE_LOG_replace) TT_TRY(check_exists(p->events));
  TT_TRY(tt_line_log_open_local(p->events, use, tt_point_event_take, p, &p->log));
  if (tt_line_log_lines(p->log) == 0) {
    if (input && target) return write_header(p, input, target);
    return TT_FAIL(DATA, "%s is empty", p->events);
  }
  TT_TRY(check_count(p, &p->input, input, "inputs"));
  return check_count(p, &p->target, target, "targets");
}

static tt_err set_names(tt_points *p, const char *directory, const char *who)
{
  char path[TT_PATH_MAX];
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&p->lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
  tt_path_join(directory, "events.jsonl", path);
  TT_TRY(tt_text_set(&p->events, path));
  return tt_text_set(&p->who, who);
}

tt_err tt_points_open_local(const char *directory, tt_line_log_use use, const tt_columns *input,
                            const tt_columns *target, const char *who, tt_points **out)
{
  tt_points *p = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(p, 1));
  tt_err e = set_names(p, directory, who);
  if (!e) e = open_files(p, use, input, target);
  if (e) tt_points_close_local(&p);
  *out = p;
  return e;
}

/* Reading */

void tt_points_lock(tt_points *p) { pthread_mutex_lock(&p->lock); }
void tt_points_unlock(tt_points *p) { pthread_mutex_unlock(&p->lock); }
int64_t tt_points_count(const tt_points *p) { return p->count; }
int tt_points_were_revised(const tt_points *p) { return p->revised; }
const tt_columns *tt_points_input(const tt_points *p) { return &p->input; }
const tt_point *tt_points_at(const tt_points *p, int64_t i) { return &p->point[i]; }
const double *tt_points_x(const tt_points *p, int64_t i) { return p->x + i * p->input.count; }
const double *tt_points_y(const tt_points *p, int64_t i) { return p->y + i * p->target.count; }

const char *const *tt_points_text(const tt_points *p, int64_t i)
{
  return p->text ? (const char *const *)p->text + i * p->input.count : NULL;
}

int32_t tt_points_find_lease(const tt_points *p, const char *name)
{
  for (int32_t i = p->leases - 1; i >= 0; i--)
    if (!strcmp(p->lease[i], name)) return i;
  return -1;
}

tt_err tt_points_find_local(tt_points *p, int64_t count, const int64_t *row, const double *x,
                            const tt_net_inputs *net, int64_t *number)
{
  tt_known_inputs *known = NULL;
  int64_t D = p->input.count;
  tt_points_lock(p);
  tt_err e = tt_known_inputs_create(D, p->count, net, &known);
  for (int64_t i = 0; !e && i < p->count; i++)
    tt_known_inputs_add(known, i, p->point[i].row, p->x + i * D);
  for (int64_t i = 0; !e && i < count; i++)
    number[i] = tt_known_inputs_find(known, row ? row[i] : -1, x + i * D);
  tt_points_unlock(p);
  tt_known_inputs_destroy(&known);
  return e;
}

int tt_labels_are_same(int64_t targets, const double *a, const double *b)
{
  for (int64_t k = 0; k < targets; k++)
    if (a[k] != b[k] && !(isnan(a[k]) && isnan(b[k]))) return 0;
  return 1;
}

/* Changes */

static json_t *added_event(const tt_points *p, const tt_new_points *n)
{
  int64_t D = p->input.count;
  json_t *o = json_object(), *point = json_array(), *random = json_array(), *text = json_array();
  for (int64_t i = 0; i < n->count; i++) {
    json_array_append_new(point, json_integer(p->count + i));
    json_array_append_new(random, json_integer(n->random && n->random[i]));
    if (n->text)
      json_array_append_new(text, tt_json_texts(D, (const char *const *)n->text + i * D));
  }
  tt_json_set(&o, "point", point);
  tt_json_set(&o, "state", json_string(tt_point_state_name[TT_POINT_proposed]));
  tt_json_set(&o, "round", json_integer(n->round));
  tt_json_set(&o, "random", random);
  if (n->row) tt_json_set(&o, "row", tt_json_integers(n->count, n->row));
  if (n->score) tt_json_set(&o, "score", tt_json_numbers(n->count, n->score));
  tt_json_set(&o, "x", tt_json_rows(n->count, D, n->x));
  if (n->text)
    tt_json_set(&o, "text", text);
  else
    json_decref(text);
  return o;
}

int64_t tt_points_begin_line(tt_points *p, int32_t round)
{
  tt_points_lock(p);
  int64_t line = round <= p->rounds ? p->begin[round - 1] : 0;
  tt_points_unlock(p);
  return line;
}

tt_err tt_points_begin_round_local(tt_points *p, int32_t round, int again, int64_t *line)
{
  json_t *o = NULL;
  tt_err e = TT_OK;
  tt_points_lock(p);
  if (again || !tt_points_begin_line(p, round)) {
    o = json_object();
    tt_json_set(&o, "begin", json_integer(round));
    e = tt_point_event_add(p, o);
    if (!e) e = tt_points_set_begin(p, round, tt_line_log_lines(p->log));
  }
  *line = tt_points_begin_line(p, round);
  tt_points_unlock(p);
  return e;
}

static json_t *states(const tt_point_change *c)
{
  json_t *list = json_array();
  if (!c->to_each) {
    json_decref(list);
    return json_string(tt_point_state_name[c->to]);
  }
  for (int64_t i = 0; i < c->count; i++)
    json_array_append_new(list, json_string(tt_point_state_name[c->to_each[i]]));
  return list;
}

tt_err tt_points_change_local(tt_points *p, const tt_point_change *c)
{
  json_t *o = c->count ? json_object() : NULL;
  if (!c->count) return TT_OK;
  tt_json_set(&o, "point", tt_json_integers(c->count, c->point));
  tt_json_set(&o, "state", states(c));
  if (c->y) tt_json_set(&o, "y", tt_json_rows(c->count, p->target.count, c->y));
  if (c->lease) tt_json_set(&o, "lease", tt_json_text(c->lease));
  if (c->until) tt_json_set(&o, "until", json_integer(c->until));
  if (c->why && *c->why) tt_json_set(&o, "why", tt_json_text(c->why));
  if (c->again) tt_json_set(&o, "again", json_true());
  if (c->who) tt_json_set(&o, "who", tt_json_text(c->who));
  tt_points_lock(p);
  tt_err e = tt_point_event_add(p, o);
  tt_points_unlock(p);
  return e;
}

/* Points with labels */

int tt_point_is_done(const tt_point *t, int64_t retries)
{
  return t->state == TT_POINT_labeled || t->state == TT_POINT_impossible ||
         (t->state == TT_POINT_crashed && t->crashes > retries);
}

tt_err tt_points_add_unknown_local(tt_points *p, const tt_new_points *n, int64_t *number)
{
  int64_t D = p->input.count, *row = NULL, count = 0;
  int8_t *random = NULL;
  double *x = NULL, *score = NULL;
  char **text = NULL;
  tt_err e = TT_ALLOC(row, n->count);
  if (!e && n->score) e = TT_ALLOC(score, n->count);
  if (!e) e = TT_ALLOC(random, n->count);
  if (!e && n->text) e = TT_ALLOC(text, n->count * D);
  if (!e) e = TT_ALLOC(x, n->count * D);
  for (int64_t i = 0; !e && i < n->count; i++) {
    if (number[i] >= 0) continue;
    number[i] = p->count + count;
    row[count] = n->row ? n->row[i] : -1;
    random[count] = n->random && n->random[i];
    if (score) score[count] = n->score[i];
    if (text) memcpy(text + count * D, n->text + i * D, (size_t)D * sizeof *text);
    memcpy(x + count++ * D, n->x + i * D, (size_t)D * sizeof *x);
  }
  const tt_new_points own = {count, row, random, score, x, text, n->round};
  tt_points_lock(p);
  if (!e && count) e = tt_point_event_add(p, added_event(p, &own));
  tt_points_unlock(p);
  tt_free_all(&row, &random, &x, &score, &text);
  return e;
}

tt_err tt_points_answer_local(tt_points *p, int64_t count, int64_t *number, const double *y,
                              const char *why)
{
  int64_t T = p->target.count, n = 0;
  int8_t *becomes = NULL;
  double *label = NULL;
  tt_err e = TT_ALLOC(becomes, count);
  if (!e) e = TT_ALLOC(label, count * T);
  tt_points_lock(p);
  for (int64_t i = 0; !e && i < count; i++) {
    int state = p->point[number[i]].state;
    if (state == TT_POINT_labeled || state == TT_POINT_impossible ||
        (!y && state == TT_POINT_crashed))
      continue;
    becomes[n] = !y                                     ? TT_POINT_crashed
                 : tt_labeled_rows(y + i * T, 1, T) > 0 ? TT_POINT_labeled
                                                        : TT_POINT_impossible;
    if (y) memcpy(label + n * T, y + i * T, (size_t)T * sizeof *y);
    number[n++] = number[i];
  }
  const tt_point_change c = {
      .count = n, .point = number, .to_each = becomes, .y = y ? label : NULL, .why = why};
  if (!e) e = tt_points_change_local(p, &c);
  tt_points_unlock(p);
  tt_free_all(&becomes, &label);
  return e;
}

tt_err tt_points_adopt_local(tt_points *p, const tt_new_points *n, const tt_net_inputs *net,
                             const double *y)
{
  int64_t *number = NULL;
  TT_TRY(TT_ALLOC(number, n->count));
  tt_points_lock(p);
  tt_err e = tt_points_find_local(p, n->count, n->row, n->x, net, number);
  if (!e) e = tt_points_add_unknown_local(p, n, number);
  if (!e) e = tt_points_answer_local(p, n->count, number, y, NULL);
  tt_points_unlock(p);
  tt_free(number);
  return e;
}
