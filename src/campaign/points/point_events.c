/* point_events.c — see points.h: lines of events.jsonl, and what they do.
 *
 *   {"schema": "tutti-events-1.0", "inputs": [...], "input_units": [...], "targets": [...], ...}
 *   {"begin": 3, ...}: a round begins
 *   {"point": [17, 18], "state": "queued", "who": "...", "time": "..."}
 * state: one name, or one for each point. Other keys: row, round, random, score, x, text (of a new
 * point); lease, until (asked); y (labeled); why; again. The last key of each line is xxh3, a
 * checksum of the number of the line and of all before this key. */
#include "src/campaign/points/points_internal.h"

#include "core/base/clock.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const tt_point_state_name[] = {TT_POINT_STATES(TT_ROW_NAME) NULL};

int tt_point_may_become(int from, int to, int again)
{
  static const struct {
    int from, to, again;
  } change[] = {
#define X(from_, to_, again_) {TT_POINT_##from_, TT_POINT_##to_, again_},
      TT_POINT_CHANGES(X)
#undef X
  };
  for (size_t i = 0; i < sizeof change / sizeof *change; i++)
    if (change[i].from == from && change[i].to == to) return again || !change[i].again;
  return 0;
}

/* JSON */

json_t *tt_json_integers(int64_t n, const int64_t *value)
{
  json_t *a = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(a, json_integer(value[i]));
  return a;
}

json_t *tt_json_texts(int64_t n, const char *const *text)
{
  json_t *a = json_array();
  for (int64_t i = 0; i < n; i++)
    json_array_append_new(a, text[i] ? tt_json_text(text[i]) : json_null());
  return a;
}

json_t *tt_json_numbers(int64_t n, const double *value)
{
  json_t *a = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(a, tt_json_number(value[i]));
  return a;
}

json_t *tt_json_rows(int64_t n, int64_t width, const double *value)
{
  json_t *rows = json_array();
  for (int64_t i = 0; i < n; i++)
    json_array_append_new(rows, tt_json_numbers(width, value + i * width));
  return rows;
}

int tt_json_read_row(const json_t *row, int64_t width, double *value)
{
  if ((int64_t)json_array_size(row) != width) return 0;
  for (int64_t k = 0; k < width; k++) {
    const json_t *cell = json_array_get(row, (size_t)k);
    if (!json_is_number(cell) && !json_is_null(cell)) return 0;
    value[k] = json_is_null(cell) ? (double)NAN : json_number_value(cell);
  }
  return 1;
}

static json_t *at(const json_t *event, const char *key, int64_t i)
{
  return json_array_get(json_object_get(event, key), (size_t)i);
}

/* -1 = it is no state. */
static int state_of(const json_t *event, int64_t i)
{
  const json_t *state = json_object_get(event, "state");
  const char *name = json_string_value(json_is_array(state) ? at(event, "state", i) : state);
  for (int s = 0; name && tt_point_state_name[s]; s++)
    if (!strcmp(name, tt_point_state_name[s])) return s;
  return -1;
}

/* Seconds since 1970 of a text of tt_utc_text, 0 = it is none. */
static int64_t time_of(const json_t *event)
{
  const char *text = json_string_value(json_object_get(event, "time"));
  struct tm t = {0};
  if (!text || sscanf(text, "%d-%d-%dT%d:%d:%dZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
                      &t.tm_min, &t.tm_sec) != 6)
    return 0;
  t.tm_year -= 1900;
  t.tm_mon--;
  return (int64_t)timegm(&t);
}

/* What an event needs besides the states. */
static int is_complete(const tt_points *p, const json_t *event, int64_t i, int state, int is_new)
{
  double *row = NULL;
  int64_t width = is_new ? p->input.count : p->target.count;
  if (state != TT_POINT_labeled && !is_new) return 1;
  if (TT_ALLOC(row, width)) return 0;
  int good = tt_json_read_row(at(event, is_new ? "x" : "y", i), width, row);
  tt_free(row);
  return good;
}

/* Whether the event may happen now. `created`: points that it makes. */
static tt_err check(const tt_points *p, const json_t *event, int64_t *created)
{
  int64_t n = (int64_t)json_array_size(json_object_get(event, "point"));
  int again = json_is_true(json_object_get(event, "again"));
  *created = 0;
  if (!n) return TT_FAIL(DATA, "the event has no points");
  for (int64_t i = 0; i < n; i++) {
    const json_t *number = at(event, "point", i);
    int64_t k = json_is_integer(number) ? json_integer_value(number) : -1;
    int state = state_of(event, i);
    int is_new = state == TT_POINT_proposed && k == p->count + *created;
    if (state < 0 || !is_complete(p, event, i, state, is_new))
      return TT_FAIL(DATA, "the event of point %" PRId64 " has no valid state or values", k);
    if (!is_new && (k < 0 || k >= p->count))
      return TT_FAIL(DATA, "there is no point %" PRId64 " (%" PRId64 " are known)", k, p->count);
    if (!is_new && !tt_point_may_become(p->point[k].state, state, again))
      return TT_FAIL(DATA, "point %" PRId64 " is %s (%s:%" PRId64 ") and cannot become %s", k,
                     tt_point_state_name[p->point[k].state], p->events, p->point[k].line,
                     tt_point_state_name[state]);
    *created += is_new;
  }
  return TT_OK;
}

/* Doing what an event says */

static tt_err reserve(tt_points *p, int64_t more)
{
  int64_t n = p->count, x = p->capacity, y = x, text = x;
  size_t D = (size_t)p->input.count, T = (size_t)p->target.count;
  TT_TRY(tt_grow_bytes(&p->x, n, more, &x, D * sizeof *p->x, "inputs of points"));
  TT_TRY(tt_grow_bytes(&p->y, n, more, &y, T * sizeof *p->y, "labels of points"));
  if (p->text)
    TT_TRY(tt_grow_bytes(&p->text, n, more, &text, D * sizeof *p->text, "texts of points"));
  return TT_GROW(p->point, n, more, p->capacity);
}

static tt_err create_point(tt_points *p, const json_t *event, int64_t i)
{
  int64_t k = p->count++, D = p->input.count;
  const json_t *row = at(event, "row", i), *text = at(event, "text", i),
               *score = at(event, "score", i);
  p->point[k] = (tt_point){.row = row ? json_integer_value(row) : -1,
                           .round = (int32_t)json_integer_value(json_object_get(event, "round")),
                           .random = (int8_t)json_integer_value(at(event, "random", i)),
                           .score = json_is_number(score) ? json_number_value(score) : NAN};
  (void)tt_json_read_row(at(event, "x", i), D, p->x + k * D);
  if (text && !p->text) TT_TRY(TT_ALLOC(p->text, p->capacity * D));
  for (int64_t d = 0; text && d < D; d++) {
    const char *word = json_string_value(json_array_get(text, (size_t)d));
    if (word) TT_TRY(tt_text_set(&p->text[k * D + d], word));
  }
  return TT_OK;
}

/* The number of the lease + 1, which begins with this event. */
static tt_err add_lease(tt_points *p, const char *name, int32_t *number)
{
  *number = 0;
  if (!name) return TT_OK;
  TT_TRY(TT_GROW(p->lease, p->leases, 1, p->lease_capacity));
  TT_TRY(tt_text_set(&p->lease[p->leases], name));
  *number = ++p->leases;
  return TT_OK;
}

static tt_err change_point(tt_points *p, const json_t *event, int64_t i, int64_t k, int32_t lease)
{
  tt_point *t = &p->point[k];
  const char *why = json_string_value(json_object_get(event, "why"));
  int64_t T = p->target.count;
  t->state = (int8_t)state_of(event, i);
  t->crashes += t->state == TT_POINT_crashed;
  if (t->state == TT_POINT_asked) {
    t->lease = lease;
    t->until = json_integer_value(json_object_get(event, "until"));
  }
  if (t->state == TT_POINT_labeled || t->state == TT_POINT_proposed) {
    t->crashes = 0;
    for (int64_t j = 0; j < T; j++) p->y[k * T + j] = (double)NAN;
    (void)tt_json_read_row(at(event, "y", i), T, p->y + k * T);
  }
  return why && t->state != TT_POINT_labeled ? tt_text_set(&t->why, why) : TT_OK;
}

static tt_err apply(tt_points *p, const json_t *event, int64_t created, int64_t line)
{
  int64_t n = (int64_t)json_array_size(json_object_get(event, "point"));
  int32_t lease;
  TT_TRY(reserve(p, created));
  TT_TRY(add_lease(p, json_string_value(json_object_get(event, "lease")), &lease));
  int64_t when = time_of(event);
  p->revised |= json_is_true(json_object_get(event, "again"));
  for (int64_t i = 0; i < n; i++) {
    int64_t k = json_integer_value(at(event, "point", i));
    if (k == p->count) TT_TRY(create_point(p, event, i));
    TT_TRY(change_point(p, event, i, k, lease));
    p->point[k].line = line;
    p->point[k].time = when;
  }
  return TT_OK;
}

/* Lines */

static tt_err read_texts(const json_t *list, char **text, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    const char *one = json_string_value(json_array_get(list, (size_t)i));
    TT_TRY(tt_text_set(&text[i], one ? one : ""));
  }
  return TT_OK;
}

static tt_err read_columns(const json_t *header, const char *key, const char *units, tt_columns *c)
{
  const json_t *name = json_object_get(header, key);
  TT_TRY(tt_columns_create((int64_t)json_array_size(name), c));
  c->given = 1;
  TT_TRY(read_texts(name, c->name, c->count));
  return read_texts(json_object_get(header, units), c->units, c->count);
}

tt_err tt_point_header_read(const json_t *event, int *is_header, tt_columns *input,
                            tt_columns *target)
{
  const char *schema = json_string_value(json_object_get(event, "schema"));
  *is_header = schema && !strncmp(schema, "tutti-events-1.", 15);
  if (!*is_header) return TT_OK;
  TT_TRY(read_columns(event, "inputs", "input_units", input));
  TT_TRY(read_columns(event, "targets", "target_units", target));
  int64_t errors = json_integer_value(json_object_get(event, "error_bars"));
  if (errors && 2 * errors != target->count)
    return TT_FAIL(DATA, "error_bars is %" PRId64 ", not half of the targets", errors);
  target->errors = errors;
  return TT_OK;
}

tt_err tt_points_set_begin(tt_points *p, int64_t round, int64_t line)
{
  if (round < 1 || round > INT32_MAX / 2) return TT_FAIL(DATA, "there is no round %" PRId64, round);
  TT_TRY(TT_GROW(p->begin, p->rounds, round - p->rounds, p->begin_capacity));
  while (p->rounds < round) p->begin[p->rounds++] = 0;
  p->revised |= p->begin[round - 1] > 0;
  p->rounds = (int32_t)round;
  p->begin[round - 1] = line;
  return TT_OK;
}

static tt_err take(tt_points *p, const json_t *event, int64_t line)
{
  int64_t created;
  int is_header = 0;
  if (line == 1) TT_TRY(tt_point_header_read(event, &is_header, &p->input, &p->target));
  if (is_header) return TT_OK;
  if (line == 1 || !json_is_object(event)) return TT_FAIL(DATA, "this is no event of a campaign");
  if (json_is_integer(json_object_get(event, "begin")))
    return tt_points_set_begin(p, json_integer_value(json_object_get(event, "begin")), line);
  TT_TRY(check(p, event, &created));
  return apply(p, event, created, line);
}

#define CHECKSUM ", \"xxh3\": \"%016" PRIx64 "\"}\n"
enum { CHECKSUM_BYTES = 30 };

static uint64_t hash_line(const char *text, size_t bytes, int64_t line)
{
  return XXH3_64bits_withSeed(text, bytes, (uint64_t)line);
}

static tt_err check_line(const tt_points *p, const char *text, size_t bytes, int64_t line)
{
  char wanted[CHECKSUM_BYTES + 1];
  size_t n = bytes > CHECKSUM_BYTES ? bytes - CHECKSUM_BYTES : 0;
  snprintf(wanted, sizeof wanted, CHECKSUM, hash_line(text, n, line));
  if (n && !memcmp(text + n, wanted, CHECKSUM_BYTES)) return TT_OK;
  return TT_FAIL(DATA, "%s:%" PRId64 ": the line does not match its checksum xxh3" TT_RECORD_CURE,
                 p->events, line);
}

tt_err tt_point_event_take(void *points, const char *text, size_t bytes, int64_t line)
{
  tt_points *p = points;
  char why[1024];
  TT_TRY(check_line(p, text, bytes, line));
  json_t *event = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
  tt_err e = take(p, event, line);
  json_decref(event);
  if (e != TT_E_DATA) return e;
  snprintf(why, sizeof why, "%s", tt_err_last());
  return TT_FAIL(DATA, "%s:%" PRId64 ": %s", p->events, line, why);
}

tt_err tt_json_line(json_t *value, char **text)
{
  char *line = value ? json_dumps(value, JSON_REAL_PRECISION(17)) : NULL;
  if (!line) return TT_FAIL(MEM, "out of memory for an event or a request");
  tt_err e = tt_text_format(text, "%s\n", line);
  free(line);
  return e;
}

static tt_err append(tt_points *p, json_t *event)
{
  char *object = NULL, *text = NULL;
  TT_TRY(tt_json_line(event, &object));
  size_t n = strlen(object) - strlen("}\n");
  object[n] = '\0';
  tt_err e = tt_text_format(&text, "%s" CHECKSUM, object,
                            hash_line(object, n, tt_line_log_lines(p->log) + 1));
  if (!e) e = tt_line_log_append_local(p->log, text);
  tt_free_all(&object, &text);
  return e;
}

tt_err tt_point_event_add(tt_points *p, json_t *event)
{
  char when[32];
  int64_t created = 0;
  int header = !json_object_get(event, "point");
  if (!json_object_get(event, "who")) tt_json_set(&event, "who", tt_json_text(p->who));
  tt_json_set(&event, "time", json_string(tt_utc_text(when)));
  if (!event) return TT_FAIL(MEM, "out of memory for an event");
  tt_err e = header ? TT_OK : check(p, event, &created);
  if (!e) e = append(p, event);
  if (!e && !header) e = apply(p, event, created, tt_line_log_lines(p->log));
  json_decref(event);
  return e;
}
