/* campaign_status.c — `tutti status` of a campaign; see campaign_report.h. */
#include "src/campaign/points/points.h"
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/report/report_internal.h"
#include "src/campaign/state/file_names.h"
#include "src/campaign/state/journal.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/report/run_status.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAILURES = 5, HOUR = 3600 };

typedef struct failure {
  int64_t point;
  int state;
  char why[200];
} failure;

/* The points in events.jsonl. */
typedef struct points_view {
  int64_t count[TT_POINT_STATE_COUNT], last_hour; /* in each state; new labels */
  int failures;
  failure failure[FAILURES]; /* the last ones, the newest first */
} points_view;

typedef struct status_view {
  const char *directory;
  tt_campaign_record record;              /* record.h NULL: no round is committed yet */
  tt_status_file campaign_file, training; /* status.json of the campaign, of its training */
  int has_status, has_training;           /* 1 = that file exists; of a running training */
  int64_t round;                          /* the current round, or the last one */
  tt_stage stage;                         /* the current stage, or the last one */
  double seconds;                         /* in finished stages */
  int running, process_ended;             /* the file has state running; its process has ended */
  tt_label_progress labels;
  points_view points;
} status_view;

/* 1 = the process of the campaign has ended. Known only on its own host, which is the third part of
 * the incarnation job.restart.host.random; the host name may contain dots. */
static int process_has_ended(const tt_status_file *f)
{
  char host[256] = "";
  const char *name = strchr(f->status.incarnation, '.');
  if (name) name = strchr(name + 1, '.');
  gethostname(host, sizeof host - 1);
  size_t n = strlen(host) < 40 ? strlen(host) : 40; /* longer ones are cut */
  if (!name || strncmp(name + 1, host, n) != 0 || name[1 + n] != '.') return 0;
  return f->pid > 1 && kill((pid_t)f->pid, 0) != 0 && errno == ESRCH;
}

static tt_err read_history(status_view *v)
{
  char path[TT_PATH_MAX];
  tt_path_join(v->directory, "campaign.h5", path);
  if (access(path, F_OK)) return TT_OK;
  TT_TRY(tt_campaign_record_read_local(v->directory, &v->record));
  v->round = v->record.h->rounds;
  return TT_OK;
}

static tt_err read_journal(status_view *v)
{
  char path[TT_PATH_MAX];
  tt_journal *j = NULL;
  tt_path_join(v->directory, "journal.jsonl", path);
  TT_TRY(tt_journal_open_local(path, NULL, &j));
  v->seconds = tt_journal_seconds(j);
  tt_journal_close_local(&j);
  return TT_OK;
}

static void add_failure(points_view *v, const tt_points *p, int64_t i)
{
  const tt_point *t = tt_points_at(p, i);
  int place = v->failures;
  while (place > 0 && tt_points_at(p, v->failure[place - 1].point)->line < t->line) place--;
  if (place == FAILURES) return;
  failure *own = &v->failure[place];
  if (v->failures < FAILURES) v->failures++;
  memmove(own + 1, own, (size_t)(v->failures - place - 1) * sizeof *own);
  *own = (failure){.point = i, .state = t->state};
  snprintf(own->why, sizeof own->why, "%s", t->why ? t->why : "");
}

static tt_err read_points(status_view *v)
{
  char path[TT_PATH_MAX];
  tt_points *p = NULL;
  tt_path_join(v->directory, "events.jsonl", path);
  if (access(path, F_OK)) return TT_OK;
  TT_TRY(tt_points_open_local(v->directory, TT_LINE_LOG_read, NULL, NULL, "status", &p));
  int64_t since = (int64_t)time(NULL) - HOUR;
  for (int64_t i = 0; i < tt_points_count(p); i++) {
    const tt_point *t = tt_points_at(p, i);
    v->points.count[t->state]++;
    v->points.last_hour += t->state == TT_POINT_labeled && t->time >= since;
    if (t->state == TT_POINT_impossible || t->state == TT_POINT_crashed)
      add_failure(&v->points, p, i);
  }
  tt_points_close_local(&p);
  return TT_OK;
}

static tt_err read_view(const char *directory, status_view *v)
{
  char path[TT_PATH_MAX];
  v->directory = directory;
  TT_TRY(read_history(v));
  tt_err e = tt_status_file_read_local(directory, &v->campaign_file);
  if (e && (e != TT_E_NOINPUT || !tt_campaign_is_local(directory))) return e;
  v->has_status = !e;
  TT_TRY(read_journal(v));
  TT_TRY(read_points(v));
  const tt_run_status *s = &v->campaign_file.status;
  if (!v->has_status) return TT_OK;
  int ended = v->record.h && v->record.h->ended >= 0;
  if (!ended) v->round = s->generation / TT_STAGE_COUNT + 1;
  v->stage = ended ? TT_STAGE_merge : (tt_stage)(s->generation % TT_STAGE_COUNT);
  v->running = !strcmp(s->state, "running");
  v->process_ended = v->running && process_has_ended(&v->campaign_file);
  if (v->running && v->stage == TT_STAGE_train) {
    tt_round_path(directory, v->round, "", path);
    v->has_training = !tt_status_file_read_local(path, &v->training);
  }
  if (v->stage == TT_STAGE_label && !ended)
    return tt_label_progress_read_local(directory, v->round, &v->labels);
  return TT_OK;
}

/* Text output */

static void print_state(const status_view *v)
{
  const tt_run_status *s = &v->campaign_file.status;
  const tt_history *h = v->record.h;
  char text[32];
  if (h && h->ended >= 0)
    printf("state       ended by rule %s (%s)\n", tt_stop_rule_name[h->ended],
           tt_history_end_cause(h));
  else if (!v->has_status)
    printf("state       unknown: there is no status.json\n");
  else
    printf("state       %s%s: round %" PRId64 ", %s\n", s->state,
           v->process_ended ? ", but its process has ended; run it again to continue" : "",
           v->round, tt_stage_name[v->stage]);
  if (!v->has_status) return;
  if (v->campaign_file.job)
    printf("job         Slurm %" PRId64 ", restart %" PRId64 "\n", v->campaign_file.job,
           v->campaign_file.restart);
  if (!v->running && *s->reason) tt_status_line_print("reason", "%s", s->reason);
  printf("%s %s, %s ago\n", v->running ? "since      " : "updated    ", s->time,
         tt_duration_text((double)v->campaign_file.age, text));
}

static void print_training(const status_view *v)
{
  char text[32];
  tt_status_progress_print(&v->training.status);
  if (v->training.age > TT_STATUS_STALE)
    tt_status_line_print("", "no status update for %s",
                         tt_duration_text((double)v->training.age, text));
}

/* "qe 0.123, qi 0.0456" */
static void print_columns(const char *what, const status_view *v, const double *value)
{
  int64_t known = 0;
  for (int64_t c = 0; c < v->record.h->columns; c++) known += isfinite(value[c]);
  if (!known) return;
  printf("%-11s", what);
  for (int64_t c = 0; c < v->record.h->columns; c++)
    printf("%s %s %.4g", c ? "," : "", v->record.texts.column[c], value[c]);
  printf("\n");
}

static void print_rounds(const status_view *v)
{
  const tt_history *h = v->record.h;
  const tt_round *r = &h->round[h->rounds - 1];
  const tt_history_totals sum = tt_history_sum(h);
  printf("rounds      %" PRId64 " finished\n", h->rounds);
  printf("labels      %" PRId64 "; %" PRId64 " queried, %" PRId64 " failed\n",
         tt_round_labels_after(r), sum.queries, sum.failed);
  if (r->pool)
    tt_status_line_print("pool",
                         "%" PRId64 " candidates: accurate %.2f %%, candidate %.2f %%, failed %.2f "
                         "%% in round %" PRId64,
                         r->pool, tt_percent(r->accurate, r->pool),
                         tt_percent(r->candidate, r->pool), tt_percent(r->failed, r->pool),
                         h->rounds);
  if (r->error_rows)
    printf("error       rmse %.4g +- %.2g on %" PRId64 " rows drawn at random (stop.error)\n",
           r->error, r->error_se, r->error_rows);
  print_columns("test rmse", v, r->rmse);
  print_columns("test nll", v, r->nll);
  print_columns("spread", v, r->spread);
}

static void print_points(const points_view *p)
{
  int64_t all = 0;
  for (int s = 0; s < TT_POINT_STATE_COUNT; s++) all += p->count[s];
  if (!all) return;
  printf("points     ");
  for (int s = 0, some = 0; s < TT_POINT_STATE_COUNT; s++)
    if (p->count[s])
      printf("%s %" PRId64 " %s", some++ ? "," : "", p->count[s], tt_point_state_name[s]);
  printf("; labels in the last hour: %" PRId64 "\n", p->last_hour);
  for (int i = 0; i < p->failures; i++)
    tt_status_line_print(i ? "" : "no label", "point %" PRId64 " %s%s%s", p->failure[i].point,
                         tt_point_state_name[p->failure[i].state], *p->failure[i].why ? ": " : "",
                         p->failure[i].why);
}

static void print_text(const status_view *v)
{
  char text[32];
  print_state(v);
  if (v->record.h && v->record.h->rounds) print_rounds(v);
  print_points(&v->points);
  if (v->has_training) print_training(v);
  if (v->labels.groups)
    printf("labeling    %" PRId64 " of %" PRId64 " groups are labeled or failed\n",
           v->labels.labeled + v->labels.failed, v->labels.groups);
  printf("time        %s in finished stages\n", tt_duration_text(v->seconds, text));
}

/* JSON output */

static void set_columns(json_t **object, const char *key, const status_view *v, const double *value)
{
  json_t *columns = json_object();
  for (int64_t c = 0; c < v->record.h->columns; c++) {
    json_t *name = tt_json_text(v->record.texts.column[c]);
    tt_json_set(&columns, json_string_value(name), tt_json_number(value[c]));
    json_decref(name);
  }
  tt_json_set(object, key, columns);
}

static void set_last_round(json_t **object, const status_view *v)
{
  const tt_history *h = v->record.h;
  const tt_round *r = &h->round[h->rounds - 1];
#define X(name, meaning) tt_json_set(object, #name, json_integer(r->name));
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) tt_json_set(object, #name, tt_json_number(r->name));
  TT_ROUND_NUMBERS(X)
#undef X
  tt_json_set(object, "labels_now", json_integer(tt_round_labels_after(r)));
  set_columns(object, "rmse", v, r->rmse);
  set_columns(object, "nll", v, r->nll);
  set_columns(object, "spread", v, r->spread);
}

static void set_training(json_t **object, const status_view *v)
{
  json_t *training = json_object();
  tt_run_status_to_json(&training, &v->training.status);
  tt_json_set(&training, "age_seconds", json_integer(v->training.age));
  tt_json_set(object, "training", training);
}

static void set_points(json_t **object, const points_view *p)
{
  json_t *points = json_object(), *failures = json_array();
  for (int s = 0; s < TT_POINT_STATE_COUNT; s++)
    tt_json_set(&points, tt_point_state_name[s], json_integer(p->count[s]));
  for (int i = 0; i < p->failures; i++) {
    json_t *one = json_object();
    tt_json_set(&one, "point", json_integer(p->failure[i].point));
    tt_json_set(&one, "state", json_string(tt_point_state_name[p->failure[i].state]));
    tt_json_set(&one, "why", tt_json_text(p->failure[i].why));
    json_array_append_new(failures, one);
  }
  tt_json_set(object, "points", points);
  tt_json_set(object, "labels_last_hour", json_integer(p->last_hour));
  tt_json_set(object, "failures", failures);
}

static tt_err print_json(const status_view *v)
{
  static const tt_run_status nothing = {.exit_code = -1};
  const tt_run_status *s = v->has_status ? &v->campaign_file.status : &nothing;
  const tt_history *h = v->record.h;
  int rule = h ? h->ended : -1;
  json_t *object = json_object();
#define X(name) tt_json_set(&object, #name, tt_json_text(s->name));
  TT_RUN_STATUS_TEXTS(X)
#undef X
  tt_json_set(&object, "ended", tt_json_text(rule < 0 ? "" : tt_stop_rule_name[rule]));
  tt_json_set(&object, "ended_option", tt_json_text(rule < 0 ? "" : tt_history_end_cause(h)));
  tt_json_set(&object, "stage", tt_json_text(v->has_status ? tt_stage_name[v->stage] : ""));
  if (h && h->rounds) set_last_round(&object, v);
  if (v->has_training) set_training(&object, v);
  set_points(&object, &v->points);
  tt_json_set(&object, "round", json_integer(v->round));
  tt_json_set(&object, "rounds", json_integer(h ? h->rounds : 0));
  tt_json_set(&object, "exit_code", json_integer(s->exit_code));
  tt_json_set(&object, "gone", json_boolean(v->process_ended));
  tt_json_set(&object, "groups", json_integer(v->labels.groups));
  tt_json_set(&object, "groups_done", json_integer(v->labels.labeled + v->labels.failed));
  tt_json_set(&object, "age_seconds", json_integer(v->has_status ? v->campaign_file.age : -1));
  tt_json_set(&object, "seconds", tt_json_number(v->seconds));
  return tt_json_print(object, 2);
}

tt_err tt_campaign_status_local(const char *directory, int json)
{
  status_view *v = NULL;
  TT_TRY(TT_ALLOC(v, 1));
  tt_err e = read_view(directory, v);
  if (!e && json) e = print_json(v);
  if (!e && !json) print_text(v);
  tt_campaign_record_free(&v->record);
  tt_free(v);
  return e;
}
