/* label_round.c — see oracle_internal.h: all groups of a round, from the queries to the labels. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/campaign/oracle_files.h"
#include "io/files/owner.h"
#include "src/campaign/state/file_names.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Existing groups */

/* State while the groups are created. */
typedef struct group_builder {
  tt_labeling *a;
  const tt_queries *queries;
  tt_place *sorted; /* [queries] rows and queries */
  int8_t *grouped;  /* [queries] 1 = in a group */
  int64_t next;     /* number of the next new group */
  int64_t capacity; /* of a->group */
} group_builder;

/* *matches = 1 if all candidates of an existing group, by number and inputs, are queries that are
 * in no other group. *query: their query indices; owned by the caller. */
static tt_err match_queries(const group_builder *m, const tt_oracle_input *existing,
                            int64_t **query, int *matches)
{
  size_t bytes = (size_t)m->queries->inputs * sizeof(double);
  *matches = existing->inputs == m->queries->inputs;
  TT_TRY(TT_ALLOC(*query, existing->count));
  for (int64_t i = 0; *matches && i < existing->count; i++) {
    int64_t p = (*query)[i] = tt_places_find(m->sorted, m->queries->count, existing->id[i]);
    *matches =
        p >= 0 && !m->grouped[p] &&
        !memcmp(existing->x + i * existing->inputs, m->queries->x + p * m->queries->inputs, bytes);
    if (*matches) m->grouped[p] = 1;
    for (int64_t k = 0; !*matches && k < i; k++) m->grouped[(*query)[k]] = 0;
  }
  return TT_OK;
}

static tt_err add_group(group_builder *m, const tt_label_group *g)
{
  tt_labeling *a = m->a;
  TT_TRY(TT_GROW(a->group, a->groups, 1, m->capacity));
  a->group[a->groups++] = *g;
  return TT_OK;
}

/* A directory without an input is incomplete: its creation was interrupted. Remove it. */
static tt_err reuse_group(group_builder *m, int64_t number)
{
  char input[TT_PATH_MAX], path[TT_PATH_MAX], name[32];
  tt_label_group g = {0};
  tt_oracle_input *existing = NULL;
  int matches = 0;
  tt_label_group_directory(m->a->request->directory, number, path);
  tt_err e = tt_label_group_open(path, &g);
  if (e == TT_E_NOINPUT) {
    TT_TRY(tt_owner_check_local(path));
    return tt_directory_remove(path);
  }
  if (e) return e;
  tt_path_join(g.directory, g.csv ? "input.csv" : "input.h5", input);
  e = tt_oracle_input_read_local(input, m->a->request->net, &existing);
  if (!e) e = match_queries(m, existing, &g.query, &matches);
  tt_oracle_input_destroy(&existing);
  if (!e && matches) e = add_group(m, &g);
  if (!e && matches) return TT_OK;
  tt_label_group_free(&g);
  if (e) return e;
  snprintf(name, sizeof name, "%04" PRId64, number);
  TT_TRY(tt_owner_check_local(path));
  tt_log_root(TT_LOG_WARN, "%s is of other candidates", path);
  return tt_backup(m->a->request->directory, name);
}

static tt_err reuse_groups(group_builder *m)
{
  int64_t *number = NULL, count = 0;
  TT_TRY(tt_label_groups_list_local(m->a->request->directory, &number, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) {
    e = reuse_group(m, number[i]);
    m->next = number[i] + 1;
    tt_watchdog_heartbeat_local("label");
  }
  tt_free(number);
  return e;
}

/* Queries in no group that have a label in the record: of a round that is repeated. */
static void reuse_labels(group_builder *m)
{
  tt_labeling *a = m->a;
  for (int64_t p = 0; p < m->queries->count; p++) {
    const tt_point *t = tt_points_at(a->request->points, a->point[p]);
    if (m->grouped[p] || t->state != TT_POINT_labeled) continue;
    m->grouped[p] = 1;
    a->reused_labels++;
  }
  if (a->reused_labels)
    tt_log_root(TT_LOG_INFO,
                "round %" PRId64 ": %" PRId64 " of %" PRId64 " queries have a label of an earlier "
                "query: not requested again",
                a->request->round, a->reused_labels, m->queries->count);
}

/* New groups */

static tt_err set_group_rows(const group_builder *m, tt_label_group *g, const int64_t *query,
                             int64_t count)
{
  g->count = count;
  g->csv = m->a->request->cfg->label_format == TT_FORMAT_csv;
  TT_TRY(TT_ALLOC(g->id, count));
  TT_TRY(TT_ALLOC(g->query, count));
  for (int64_t i = 0; i < count; i++) {
    g->query[i] = query[i];
    g->id[i] = m->queries->row[query[i]];
  }
  return TT_OK;
}

/* text [count][D], borrowed; *any: whether inputs have texts. */
static void borrow_texts(const group_builder *m, const tt_label_group *g, const char **text,
                         int *any)
{
  int64_t D = m->queries->inputs;
  *any = 0;
  for (int64_t i = 0; i < g->count; i++) {
    const char *const *own = tt_points_text(m->a->request->points, m->a->point[g->query[i]]);
    for (int64_t d = 0; own && d < D; d++) {
      text[i * D + d] = own[d];
      *any |= own[d] != NULL;
    }
  }
}

static tt_err write_input(const group_builder *m, const tt_label_group *g)
{
  char input[TT_PATH_MAX];
  const char **text = NULL;
  double *x = NULL;
  int64_t D = m->queries->inputs;
  int any = 0;
  tt_row_ids ids = {0};
  tt_err e = TT_ALLOC(x, g->count * D);
  if (!e) e = TT_ALLOC(text, g->count * D);
  for (int64_t i = 0; !e && i < g->count; i++)
    memcpy(x + i * D, m->queries->x + g->query[i] * D, (size_t)D * sizeof *x);
  if (!e) borrow_texts(m, g, text, &any);
  if (!e && m->a->request->pool)
    e = tt_pool_read_ids_local(m->a->request->pool, g->id, g->count, &ids);
  tt_path_join(g->directory, g->csv ? "input.csv" : "input.h5", input);
  if (!e)
    e = tt_oracle_input_write_local(input, g->count, g->id, x, any ? text : NULL,
                                    m->a->request->input, &ids);
  tt_row_ids_free(&ids);
  tt_free_all(&x, &text);
  return e;
}

static tt_err create_group(group_builder *m, const int64_t *query, int64_t count)
{
  char path[TT_PATH_MAX];
  tt_label_group g = {0};
  tt_label_group_directory(m->a->request->directory, m->next++, path);
  tt_err e = tt_text_set(&g.directory, path);
  if (!e) e = tt_directory_create(path);
  if (!e) e = set_group_rows(m, &g, query, count);
  if (!e) e = write_input(m, &g);
  if (!e) e = add_group(m, &g);
  if (e) tt_label_group_free(&g);
  tt_watchdog_heartbeat_local("label");
  return e;
}

/* In the order of the queries. */
static tt_err create_groups(group_builder *m)
{
  int64_t *ungrouped = NULL, count = 0, most = m->a->request->cfg->label_rows_per_call;
  TT_TRY(TT_ALLOC(ungrouped, m->queries->count));
  for (int64_t p = 0; p < m->queries->count; p++)
    if (!m->grouped[p]) ungrouped[count++] = p;
  tt_err e = TT_OK;
  for (int64_t first = 0; !e && first < count; first += most)
    e = create_group(m, ungrouped + first, count - first < most ? count - first : most);
  tt_free(ungrouped);
  return e;
}

static tt_err build_groups(group_builder *m)
{
  char header[TT_PATH_MAX];
  TT_TRY(tt_label_points_create(m->a));
  if (tt_label_is_asked(m->a->request->cfg)) return TT_OK;
  TT_TRY(tt_places_sort(m->queries->row, m->queries->count, &m->sorted));
  TT_TRY(TT_ALLOC(m->grouped, m->queries->count));
  TT_TRY(tt_directory_create(m->a->request->directory));
  tt_path_join(m->a->request->directory, "header.csv", header);
  TT_TRY(tt_output_header_write_local(header, m->a->target));
  TT_TRY(reuse_groups(m));
  reuse_labels(m);
  return create_groups(m);
}

tt_err tt_label_groups_create(tt_labeling *a)
{
  group_builder m = {.a = a, .queries = a->request->queries, .next = 1};
  tt_err e = build_groups(&m);
  tt_free_all(&m.sorted, &m.grouped);
  if (!e) e = tt_label_points_queue(a);
  for (int64_t i = 0; !e && i < a->groups; i++)
    a->pending += a->group[i].state == TT_LABEL_GROUP_pending;
  return e;
}

void tt_label_groups_free(tt_labeling *a)
{
  for (int64_t i = 0; i < a->groups; i++) tt_label_group_free(&a->group[i]);
  tt_free_all(&a->group, &a->point);
  a->groups = 0;
}

/* Labels */

/* Read the number of rows without labels of a labeled group. */
static tt_err count_failed(const tt_labeling *a, tt_label_group *g)
{
  double *y = NULL;
  tt_err e = tt_label_group_read_labels(g, a->target, &y, NULL, 0);
  if (!e) g->failed = g->count - tt_labeled_rows(y, g->count, a->target->count);
  g->counted = !e;
  tt_free(y);
  return e;
}

/* Rows of the groups in a state; `uncounted` 1: only groups whose failed rows are not known. */
static int64_t count_rows(const tt_labeling *a, tt_label_group_state state, int uncounted)
{
  int64_t n = 0;
  for (int64_t i = 0; i < a->groups; i++)
    if (a->group[i].state == state && !(uncounted && a->group[i].counted)) n += a->group[i].count;
  return n;
}

/* Read the failed rows of labeled groups only if they could be too many. */
tt_err tt_label_groups_check_failed(tt_labeling *a)
{
  const tt_config *cfg = a->request->cfg;
  int64_t unasked = count_rows(a, TT_LABEL_GROUP_pending, 0), failed = 0;
  int64_t queried = unasked + a->reused_labels;
  int64_t unknown = count_rows(a, TT_LABEL_GROUP_labeled, 1);
  queried += count_rows(a, TT_LABEL_GROUP_labeled, 0) + count_rows(a, TT_LABEL_GROUP_failed, 0);
  double most = cfg->label_max_failed * (double)queried;
  for (int64_t i = 0; i < a->groups; i++)
    failed += a->group[i].state == TT_LABEL_GROUP_failed ? a->group[i].count : a->group[i].failed;
  if (!unasked || (double)(failed + unknown) <= most) return TT_OK;
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group *g = &a->group[i];
    if (g->state != TT_LABEL_GROUP_labeled || g->counted) continue;
    TT_TRY(count_failed(a, g));
    failed += g->failed;
  }
  if ((double)failed <= most) return TT_OK;
  a->hopeless = 1;
  return tt_label_failed_error(cfg, a->request->round, queried, failed, unasked);
}

tt_err tt_label_failed_error(const tt_config *cfg, int64_t round, int64_t queried, int64_t failed,
                             int64_t unasked)
{
  char rest[96] = "";
  int told = tt_label_is_asked(cfg);
  if (unasked)
    snprintf(rest, sizeof rest, "; the other %" PRId64 " %s not labeled any more", unasked,
             unasked == 1 ? "is" : "are");
  return TT_FAIL(
      DIVERGED,
      "round %" PRId64 ": %" PRId64 " of %" PRId64 " queried rows have no label, more "
      "than label.max_failed = %g allows%s; the labels so far are kept in "
      "%s. To continue without the failed rows, run again with a larger label.max_failed; "
      "to label these rows again, %s; to label all rows again, use --from %" PRId64 ":label",
      round, failed, queried, cfg->label_max_failed, rest, cfg->campaign_directory,
      told ? "use tutti tell --replace" : "remove the files 'failed' of their groups first", round);
}
