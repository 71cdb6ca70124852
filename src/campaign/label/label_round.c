/* label_round.c — see oracle_internal.h: all groups of a round, from the picks to the answers. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "io/campaign/oracle_files.h"
#include "src/host/watchdog.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- directories -------------------------------------------------------------------------------
 */

static int ascending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void tt_groups_path(const char *directory, int64_t number, char path[TT_PATH_ROOM])
{
  if (snprintf(path, TT_PATH_ROOM, "%s/%04" PRId64, directory, number) >= TT_PATH_ROOM)
    path[0] = '\0';
}

/* The number of a group's directory, -1 for any other name. */
static int64_t number_of(const char *name)
{
  char again[32];
  int64_t number = -1;
  if (sscanf(name, "%15" SCNd64, &number) != 1 || number < 0) return -1;
  snprintf(again, sizeof again, "%04" PRId64, number);
  return strcmp(again, name) ? -1 : number;
}

static tt_err append(int64_t **list, int64_t *count, int64_t *room, int64_t value)
{
  if (*count == *room) {
    int64_t *more = NULL;
    TT_TRY(TT_ALLOC(more, 2 * *room + 64));
    if (*count) memcpy(more, *list, (size_t)*count * sizeof *more);
    tt_free(*list);
    *list = more;
    *room = 2 * *room + 64;
  }
  (*list)[(*count)++] = value;
  return TT_OK;
}

tt_err tt_groups_list(const char *directory, int64_t **number, int64_t *count)
{
  int64_t room = 0;
  *number = NULL;
  *count = 0;
  DIR *d = opendir(directory);
  if (!d && errno == ENOENT) return TT_OK;
  if (!d) return TT_FAIL(IO, "%s: cannot be listed: %s", directory, strerror(errno));
  tt_err e = TT_OK;
  for (struct dirent *entry = readdir(d); !e && entry; entry = readdir(d)) {
    int64_t n = number_of(entry->d_name);
    if (n >= 0) e = append(number, count, &room, n);
  }
  closedir(d);
  if (*count) qsort(*number, (size_t)*count, sizeof **number, ascending);
  if (e) tt_free(*number);
  return e;
}

/* ---- groups that are there ---------------------------------------------------------------------
 */

typedef struct place {
  int64_t row, pick;
} place;

/* What is known while groups are made. */
typedef struct maker {
  tt_asking *a;
  const tt_picks *picks;
  place *sorted;  /* [picks] by row */
  int8_t *placed; /* [picks] 1 = in a group */
  int64_t next;   /* number of the next new group */
  int64_t room;   /* of a->group */
} maker;

static int by_row(const void *a, const void *b) { return ascending(a, b); }

static int64_t pick_of(const maker *m, int64_t row)
{
  int64_t low = 0, high = m->picks->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (m->sorted[middle].row < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low < m->picks->count && m->sorted[low].row == row ? m->sorted[low].pick : -1;
}

/* Are its candidates, by number and inputs, among the picks, and in no other group? Then in *pick,
 * owned by the caller. */
static tt_err match(const maker *m, const tt_asked *asked, int64_t **pick, int *fits)
{
  size_t bytes = (size_t)m->picks->inputs * sizeof(double);
  *fits = asked->inputs == m->picks->inputs;
  TT_TRY(TT_ALLOC(*pick, asked->count));
  for (int64_t i = 0; *fits && i < asked->count; i++) {
    int64_t p = (*pick)[i] = pick_of(m, asked->id[i]);
    *fits = p >= 0 && !m->placed[p] &&
            !memcmp(asked->x + i * asked->inputs, m->picks->x + p * m->picks->inputs, bytes);
    if (*fits) m->placed[p] = 1;
    for (int64_t k = 0; !*fits && k < i; k++)
      m->placed[(*pick)[k]] = 0;
  }
  return TT_OK;
}

static tt_err add_group(maker *m, const tt_group *g)
{
  tt_asking *a = m->a;
  if (a->groups == m->room) {
    tt_group *more = NULL;
    TT_TRY(TT_ALLOC(more, 2 * m->room + 16));
    if (a->groups) memcpy(more, a->group, (size_t)a->groups * sizeof *more);
    tt_free(a->group);
    a->group = more;
    m->room = 2 * m->room + 16;
  }
  a->group[a->groups++] = *g;
  return TT_OK;
}

/* A directory without an input is one whose making was cut short. */
static tt_err take_group(maker *m, int64_t number)
{
  char input[TT_PATH_ROOM], path[TT_PATH_ROOM], name[32];
  tt_group g = {0};
  tt_asked *asked = NULL;
  int fits = 0;
  tt_groups_path(m->a->q->directory, number, path);
  tt_err e = tt_group_open(path, &g);
  if (e == TT_E_NOINPUT) return tt_remove_directory_local(path);
  if (e) return e;
  tt_group_path(&g, g.csv ? "input.csv" : "input.h5", input);
  e = tt_asked_read_local(input, &asked);
  if (!e) e = match(m, asked, &g.pick, &fits);
  tt_asked_destroy(&asked);
  if (!e && fits) e = add_group(m, &g);
  if (!e && fits) return TT_OK;
  tt_group_free(&g);
  if (e) return e;
  snprintf(name, sizeof name, "%04" PRId64, number);
  tt_log_once(TT_LOG_WARN, "%s: made for other candidates; put aside in %s.before-N", path,
              m->a->q->directory);
  return tt_put_beside_local(m->a->q->directory, name);
}

static tt_err take_groups(maker *m)
{
  int64_t *number = NULL, count = 0;
  TT_TRY(tt_groups_list(m->a->q->directory, &number, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) {
    e = take_group(m, number[i]);
    m->next = number[i] + 1;
    tt_watchdog_alive_local("label");
  }
  tt_free(number);
  return e;
}

/* ---- new groups --------------------------------------------------------------------------------
 */

static tt_err fill_group(const maker *m, tt_group *g, const int64_t *pick, int64_t count)
{
  g->count = count;
  g->csv = m->a->q->cfg->label_format == TT_FORMAT_csv;
  TT_TRY(TT_ALLOC(g->id, count));
  TT_TRY(TT_ALLOC(g->pick, count));
  for (int64_t i = 0; i < count; i++) {
    g->pick[i] = pick[i];
    g->id[i] = m->picks->row[pick[i]];
  }
  return TT_OK;
}

static tt_err write_input(const maker *m, const tt_group *g)
{
  char input[TT_PATH_ROOM];
  double *x = NULL;
  int64_t D = m->picks->inputs;
  TT_TRY(TT_ALLOC(x, g->count * D));
  for (int64_t i = 0; i < g->count; i++)
    memcpy(x + i * D, m->picks->x + g->pick[i] * D, (size_t)D * sizeof *x);
  tt_group_path(g, g->csv ? "input.csv" : "input.h5", input);
  tt_err e = tt_asked_write_local(input, g->count, g->id, x, m->a->q->input);
  tt_free(x);
  return e;
}

static tt_err new_group(maker *m, const int64_t *pick, int64_t count)
{
  char path[TT_PATH_ROOM];
  tt_group g = {0};
  tt_groups_path(m->a->q->directory, m->next++, path);
  tt_err e = tt_text_set(&g.directory, path);
  if (!e) e = tt_make_directory_local(path);
  if (!e) e = fill_group(m, &g, pick, count);
  if (!e) e = write_input(m, &g);
  if (!e) e = add_group(m, &g);
  if (e) tt_group_free(&g);
  tt_watchdog_alive_local("label");
  return e;
}

/* In the order of the picks. */
static tt_err new_groups(maker *m)
{
  int64_t *rest = NULL, count = 0, most = m->a->q->cfg->label_group;
  TT_TRY(TT_ALLOC(rest, m->picks->count));
  for (int64_t p = 0; p < m->picks->count; p++)
    if (!m->placed[p]) rest[count++] = p;
  tt_err e = TT_OK;
  for (int64_t first = 0; !e && first < count; first += most)
    e = new_group(m, rest + first, count - first < most ? count - first : most);
  tt_free(rest);
  return e;
}

static tt_err make_all(maker *m)
{
  char header[TT_PATH_ROOM];
  TT_TRY(TT_ALLOC(m->sorted, m->picks->count));
  TT_TRY(TT_ALLOC(m->placed, m->picks->count));
  for (int64_t p = 0; p < m->picks->count; p++)
    m->sorted[p] = (place){m->picks->row[p], p};
  if (m->picks->count) qsort(m->sorted, (size_t)m->picks->count, sizeof *m->sorted, by_row);
  TT_TRY(tt_make_directory_local(m->a->q->directory));
  tt_campaign_path(m->a->q->directory, "header.csv", header);
  TT_TRY(tt_header_write_local(header, m->a->target));
  TT_TRY(take_groups(m));
  return new_groups(m);
}

tt_err tt_groups_make(tt_asking *a)
{
  maker m = {.a = a, .picks = a->q->picks, .next = 1};
  tt_err e = make_all(&m);
  tt_free(m.sorted);
  tt_free(m.placed);
  for (int64_t i = 0; !e && i < a->groups; i++)
    a->left += a->group[i].state == TT_GROUP_waits;
  return e;
}

void tt_groups_free(tt_asking *a)
{
  for (int64_t i = 0; i < a->groups; i++)
    tt_group_free(&a->group[i]);
  tt_free(a->group);
  a->groups = 0;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

static void take_answers(const tt_group *g, const double *y, tt_answers *out)
{
  int64_t T = out->targets;
  for (int64_t i = 0; i < g->count; i++) {
    int64_t p = g->pick[i];
    memcpy(out->y + p * T, y + i * T, (size_t)T * sizeof *y);
    for (int64_t k = 0; k < T; k++)
      if (!isnan(y[i * T + k])) out->answer[p] = TT_ANSWER_labelled;
  }
}

static tt_err collect_answered(const tt_asking *a, const tt_group *g, tt_answers *out, char *why,
                               int room)
{
  char path[TT_PATH_ROOM];
  tt_labels *l = NULL;
  double *y = NULL;
  int64_t given;
  tt_group_path(g, "answer.h5", path);
  TT_TRY(tt_labels_reread_local(path, a->target, &l, why, room));
  tt_err e = TT_ALLOC(y, g->count * out->targets);
  if (!e) e = tt_labels_match(l, g->count, g->id, y, &given);
  if (!e) take_answers(g, y, out);
  tt_free(y);
  tt_labels_destroy(&l);
  return e;
}

static tt_err collect_group(const tt_asking *a, const tt_group *g, tt_answers *out, char *why,
                            int room)
{
  char path[TT_PATH_ROOM];
  if (g->state == TT_GROUP_answered) return collect_answered(a, g, out, why, room);
  tt_group_path(g, "failed", path);
  TT_TRY(tt_file_text_local(path, why, room));
  why[strcspn(why, "\n")] = '\0';
  return TT_OK;
}

tt_err tt_groups_collect(const tt_asking *a, tt_answers *out, char *why, int room)
{
  char one[1024];
  tt_err e = TT_OK;
  why[0] = '\0';
  for (int64_t i = 0; !e && i < a->groups; i++) {
    e = collect_group(a, &a->group[i], out, one, sizeof one);
    if (!e && !*why) snprintf(why, (size_t)room, "%s", one);
    tt_watchdog_alive_local("label");
  }
  return e;
}
