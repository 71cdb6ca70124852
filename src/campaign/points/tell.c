/* tell.c — see requests.h: tutti tell. */
#include "src/campaign/points/requests.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/campaign_files.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/points/points_internal.h"
#include "src/campaign/state/known_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The rows of the file, as parts of a request. */
typedef struct label_rows {
  const tt_tell_options *o;
  tt_columns input, target;
  tt_table *table; /* NULL: HDF5 */
  int64_t count, *id;
  double *x, *y;    /* [count][D] with inputs; [count][T] */
  double *status;   /* [count] numbers of levels, or NULL: all are ok */
  tt_levels levels; /* texts of the column status */
} label_rows;

static const char *status_of(const label_rows *r, int64_t i)
{
  if (!r->status || isnan(r->status[i])) return "ok";
  return r->levels.text[(int64_t)r->status[i]];
}

/* Tables */

static tt_err find(const label_rows *r, const char *name, int64_t *column)
{
  TT_TRY(tt_table_find(r->table, name, column));
  if (*column >= 0) return TT_OK;
  return TT_FAIL(DATA, "%s:1: there is no column '%s'%s", r->o->file, name,
                 !strcmp(name, "id") ? "; labels that nobody asked for are told with --new" : "");
}

static tt_err read_inputs(label_rows *r)
{
  int64_t *column = NULL, D = r->input.count;
  tt_err e = TT_ALLOC(column, D);
  if (!e) e = TT_ALLOC(r->x, r->count * D);
  for (int64_t d = 0; !e && d < D; d++) {
    e = find(r, r->input.name[d], &column[d]);
    if (!e) e = tt_table_use_local(r->table, column[d], TT_CELL_RESULT);
  }
  if (!e) e = tt_table_read_local(r->table, 0, r->count, D, column, r->x);
  tt_free(column);
  return e;
}

static tt_err read_status(label_rows *r)
{
  int64_t column;
  TT_TRY(tt_table_find(r->table, "status", &column));
  if (column < 0) return TT_OK;
  r->levels.learns = 1;
  TT_TRY(tt_table_use_levels_local(r->table, column, &r->levels));
  TT_TRY(TT_ALLOC(r->status, r->count));
  return tt_table_read_local(r->table, 0, r->count, 1, &column, r->status);
}

static tt_err read_ids(label_rows *r)
{
  int64_t column;
  TT_TRY(find(r, "id", &column));
  TT_TRY(TT_ALLOC(r->id, r->count));
  return tt_oracle_ids_read_local(r->table, column, r->count, r->id);
}

static tt_err read_table(label_rows *r)
{
  TT_TRY(tt_table_open_local(r->o->file, r->o->format, &r->table));
  r->count = r->table->columns ? r->table->rows[0] : 0;
  TT_TRY(read_status(r));
  TT_TRY(r->o->with_inputs ? read_inputs(r) : read_ids(r));
  TT_TRY(TT_ALLOC(r->y, r->count * r->target.count));
  return tt_oracle_labels_read_local(r->table, &r->target, r->count, r->y);
}

static tt_err read_hdf5(label_rows *r)
{
  tt_oracle_output *l = NULL;
  if (r->o->with_inputs)
    return TT_FAIL(USAGE, "%s: --new takes a table (.csv, .tsv, .npz), not HDF5", r->o->file);
  TT_TRY(tt_oracle_output_read_local(r->o->file, &r->target, 0, &l));
  tt_err e = l->id ? TT_OK : TT_FAIL(DATA, "%s: there is no 'id' of the points", r->o->file);
  r->count = l->count;
  r->id = l->id;
  r->y = l->y;
  l->id = NULL;
  l->y = NULL;
  tt_oracle_output_destroy(&l);
  return e;
}

/* Checks that need no record */

/* "labels.csv:17"; HDF5: "labels.h5: row 15 (from 0)". */
static const char *place_of(const label_rows *r, int64_t i, char text[1024])
{
  if (r->table) return tt_table_place_local(r->table, i, text, 1024);
  snprintf(text, 1024, "%.900s: row %" PRId64 " (from 0)", r->o->file, i);
  return text;
}

static tt_err check_values(const label_rows *r)
{
  char place[1024];
  for (int64_t i = 0; i < r->count * r->target.count; i++)
    if (isinf(r->y[i]))
      return TT_FAIL(DATA, "%s: target '%s' is %g; leave it empty where there is no label",
                     place_of(r, i / r->target.count, place), r->target.name[i % r->target.count],
                     r->y[i]);
  for (int64_t i = 0; r->x && i < r->count * r->input.count; i++)
    if (!isfinite(r->x[i]))
      return TT_FAIL(DATA, "%s: input '%s' is %g", place_of(r, i / r->input.count, place),
                     r->input.name[i % r->input.count], r->x[i]);
  for (int64_t i = 0; r->target.errors && i < r->count * r->target.count; i++)
    if (i % r->target.count >= r->target.errors && r->y[i] < 0.0)
      return TT_FAIL(DATA, "%s: '%s' is %g; an error bar is a number of at least 0",
                     place_of(r, i / r->target.count, place), r->target.name[i % r->target.count],
                     r->y[i]);
  return r->count ? TT_OK : TT_FAIL(DATA, "%s has no rows", r->o->file);
}

/* A point has one row. */
static tt_err check_distinct(const label_rows *r)
{
  tt_known_inputs *known = NULL;
  char place[1024], before[1024];
  int64_t D = r->x ? r->input.count : 1;
  tt_err e = tt_known_inputs_create(D, r->count, NULL, &known);
  for (int64_t i = 0; !e && i < r->count; i++) {
    double id = r->id ? (double)r->id[i] : 0.0;
    const double *key = r->x ? r->x + i * D : &id;
    int64_t other = tt_known_inputs_find(known, -1, key);
    tt_known_inputs_add(known, i, -1, key);
    if (other >= 0)
      e = TT_FAIL(DATA, "%s: the %s of this row occur%s twice, also in %s", place_of(r, i, place),
                  r->x ? "inputs" : "id", r->x ? "" : "s", place_of(r, other, before));
  }
  tt_known_inputs_destroy(&known);
  return e;
}

/* The request */

static json_t *make_request(const label_rows *r, const char *who)
{
  char place[1024];
  json_t *o = json_object(), *status = json_array(), *places = json_array();
  for (int64_t i = 0; i < r->count; i++) {
    json_array_append_new(status, tt_json_text(status_of(r, i)));
    json_array_append_new(places, tt_json_text(place_of(r, i, place)));
  }
  tt_json_set(&o, "act", json_string("tell"));
  tt_json_set(&o, "who", tt_json_text(who));
  tt_json_set(&o, "replace", json_boolean(r->o->replace));
  tt_json_set(&o, "place", places);
  if (r->id) tt_json_set(&o, "point", tt_json_integers(r->count, r->id));
  if (r->x) tt_json_set(&o, "x", tt_json_rows(r->count, r->input.count, r->x));
  tt_json_set(&o, "status", status);
  tt_json_set(&o, "y", tt_json_rows(r->count, r->target.count, r->y));
  return o;
}

static tt_err send(const label_rows *r)
{
  char who[128];
  json_t *answer = NULL;
  tt_request_who(r->o->who, who);
  tt_err e = tt_inbox_send_local(r->o->directory, who, make_request(r, who), &answer);
  json_int_t news = json_integer_value(json_object_get(answer, "new"));
  json_int_t known = json_integer_value(json_object_get(answer, "known"));
  if (!e && news)
    tt_log_root(TT_LOG_INFO, "told %lld new, %lld already known", news, known);
  else if (!e)
    tt_log_root(TT_LOG_INFO, "already known: %lld", known);
  json_decref(answer);
  return e;
}

tt_err tt_tell_local(const tt_tell_options *o)
{
  label_rows r = {.o = o};
  tt_err e = tt_points_columns_local(o->directory, &r.input, &r.target);
  if (!e) e = tt_table_is_table(o->file) ? read_table(&r) : read_hdf5(&r);
  if (!e) e = check_values(&r);
  if (!e) e = check_distinct(&r);
  if (!e) e = send(&r);
  tt_table_close_local(&r.table);
  tt_levels_free(&r.levels);
  tt_columns_free(&r.input);
  tt_columns_free(&r.target);
  tt_free_all(&r.id, &r.x, &r.y, &r.status);
  return e;
}

/* Labels without a file */

static tt_err tell_once(const char *directory, const char *who, int64_t count, const int64_t *point,
                        int64_t targets, const double *y, const char *why)
{
  json_t *o = json_object(), *status = json_array(), *places = json_array(), *answer = NULL;
  for (int64_t i = 0; i < count; i++) {
    int labeled = tt_labeled_rows(y + i * targets, 1, targets) > 0;
    json_array_append_new(status, json_string(labeled ? "ok" : "impossible"));
    json_array_append_new(places, tt_json_text(who));
  }
  tt_json_set(&o, "act", json_string("tell"));
  tt_json_set(&o, "who", tt_json_text(who));
  tt_json_set(&o, "place", places);
  tt_json_set(&o, "point", tt_json_integers(count, point));
  tt_json_set(&o, "status", status);
  tt_json_set(&o, "y", tt_json_rows(count, targets, y));
  if (*why) tt_json_set(&o, "why", tt_json_text(why));
  tt_err e = tt_inbox_send_local(directory, who, o, &answer);
  json_decref(answer);
  return e;
}

tt_err tt_tell_points_local(const char *directory, const char *who, int64_t count,
                            const int64_t *point, int64_t targets, const double *y, const char *why)
{
  tt_err e = tell_once(directory, who, count, point, targets, y, why);
  if (e != TT_E_DATA) return e;
  e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) {
    e = tell_once(directory, who, 1, point + i, targets, y + i * targets, why);
    if (e == TT_E_DATA) tt_log_root(TT_LOG_WARN, "not taken: %s", tt_err_last());
    if (e == TT_E_DATA) e = TT_OK;
  }
  return e;
}
