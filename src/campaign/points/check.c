/* check.c — see requests.h: tutti campaign check. */
#include "src/campaign/points/requests.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/campaign_files.h"
#include "io/files/files.h"

#include <inttypes.h>
#include <stdio.h>

/*   begin   line of events.jsonl with which the last round of the history begins
 *   *waits  the number of labels that were told later, the next round takes them */
static tt_err compare_query(const tt_points *p, const tt_history *h, int64_t i, int64_t number,
                            int64_t begin, int64_t *waits)
{
  const tt_query *q = &h->query[i];
  const tt_point *t = number < 0 ? NULL : tt_points_at(p, number);
  int labeled = t && t->state == TT_POINT_labeled;
  int same = labeled ? tt_labels_are_same(h->targets, tt_points_y(p, number), h->y + i * h->targets)
                     : t != NULL;
  if (same && labeled == (q->label_status == TT_LABEL_STATUS_labeled)) return TT_OK;
  *waits += labeled && t->line > begin;
  if (labeled && t->line > begin) return TT_OK;
  return TT_FAIL(
      DATA, "campaign.h5: query %" PRId64 " (candidate %" PRId64 ", round %d) is %s, but %s", i,
      q->row, (int)q->round, q->label_status == TT_LABEL_STATUS_labeled ? "labeled" : "not labeled",
      !t        ? "events.jsonl has no such point"
      : labeled ? "events.jsonl has another label"
                : "its point is not labeled");
}

static tt_err compare(tt_points *p, const tt_history *h, int64_t *waits)
{
  int64_t *row = NULL, *number = NULL;
  int64_t begin = h->rounds ? tt_points_begin_line(p, (int32_t)h->rounds) : 0;
  if (h->queries && h->inputs != tt_points_input(p)->count)
    return TT_FAIL(DATA, "campaign.h5 has %" PRId64 " inputs, but events.jsonl has %" PRId64,
                   h->inputs, tt_points_input(p)->count);
  tt_err e = TT_ALLOC(row, h->queries);
  if (!e) e = TT_ALLOC(number, h->queries);
  for (int64_t i = 0; !e && i < h->queries; i++) row[i] = h->query[i].row;
  if (!e) e = tt_points_find_local(p, h->queries, row, h->x, NULL, number);
  for (int64_t i = 0; !e && i < h->queries; i++)
    e = compare_query(p, h, i, number[i], begin, waits);
  tt_free_all(&row, &number);
  return e;
}

static void print_counts(const tt_points *p)
{
  int64_t count[TT_POINT_STATE_COUNT] = {0};
  for (int64_t i = 0; i < tt_points_count(p); i++) count[tt_points_at(p, i)->state]++;
  printf("points: %" PRId64 "\n", tt_points_count(p));
  for (int s = 0; s < TT_POINT_STATE_COUNT; s++)
    if (count[s]) printf("%s: %" PRId64 "\n", tt_point_state_name[s], count[s]);
}

tt_err tt_points_check_local(const char *directory)
{
  char path[TT_PATH_MAX];
  int64_t waits = 0;
  int exists = 0;
  tt_points *p = NULL;
  tt_history *h = NULL;
  tt_path_join(directory, "campaign.h5", path);
  tt_err e = tt_points_open_local(directory, TT_LINE_LOG_read, NULL, NULL, "check", &p);
  if (!e) e = tt_file_exists(path, &exists);
  if (!e && exists) e = tt_history_read_local(path, &h);
  if (!e) print_counts(p);
  if (!e && h) e = compare(p, h, &waits);
  if (!e && h) printf("queries in campaign.h5 that agree: %" PRId64 "\n", h->queries - waits);
  if (waits) printf("labels told since, for the next round: %" PRId64 "\n", waits);
  tt_history_destroy(&h);
  tt_points_close_local(&p);
  return e;
}
