/* by_hand.c — see oracle.h: tutti campaign label. The rows of one file become outputs in the
 * groups of the newest round that wait for them; a group that has not got all of its rows keeps
 * those it has until the rest comes. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "io/campaign/oracle_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* label/ of the newest round that has one. */
static tt_err newest_round(const char *campaign, char directory[TT_PATH_ROOM])
{
  char path[TT_PATH_ROOM];
  int64_t newest = 0;
  DIR *d = opendir(campaign);
  if (!d) return TT_FAIL(NOINPUT, "%s: %s", campaign, strerror(errno));
  for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
    int64_t round = 0;
    if (sscanf(entry->d_name, "round-%" SCNd64, &round) != 1 || round <= newest) continue;
    tt_round_path(campaign, round, "label/header.csv", path);
    if (!access(path, R_OK)) newest = round;
  }
  closedir(d);
  if (!newest) return TT_FAIL(NOINPUT, "%s: no round asks for labels", campaign);
  tt_round_path(campaign, newest, "label", directory);
  return TT_OK;
}

typedef struct place {
  int64_t id, row;
} place;

typedef struct by_hand {
  tt_columns target;
  tt_labels *given;
  place *sorted; /* [given->count] by id */
  int8_t *used;  /* [given->count] 1 = a group has asked for it */
  tt_group *group;
  int64_t groups;
  int64_t rows, into, whole, before; /* given; groups they go into; of these whole now; rows whose
                                        group was answered already */
} by_hand;

static int by_id(const void *a, const void *b)
{
  const place *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

/* Row of a list sorted by id, -1 if it is not there. */
static int64_t row_of(const place *sorted, int64_t count, int64_t id)
{
  const place wanted = {id, 0};
  const place *p = count ? bsearch(&wanted, sorted, (size_t)count, sizeof *sorted, by_id) : NULL;
  return p ? p->row : -1;
}

static tt_err sort_rows(const tt_labels *l, place **out)
{
  TT_TRY(TT_ALLOC(*out, l->count));
  for (int64_t i = 0; i < l->count; i++)
    (*out)[i] = (place){l->id[i], i};
  if (l->count) qsort(*out, (size_t)l->count, sizeof **out, by_id);
  return TT_OK;
}

static tt_err read_given(by_hand *b, const char *directory, const char *file)
{
  char header[TT_PATH_ROOM];
  tt_campaign_path(directory, "header.csv", header);
  TT_TRY(tt_header_read_local(header, &b->target));
  TT_TRY(tt_labels_read_local(file, &b->target, &b->given));
  const tt_labels *l = b->given;
  if (!l->id) return TT_FAIL(DATA, "%s: there is no 'id'; say which candidates these are", file);
  for (int64_t i = 0; i < l->count * l->targets; i++)
    if (isinf(l->y[i]))
      return TT_FAIL(DATA, "%s: id %" PRId64 ", target '%s' is %g; write nan for what has no label",
                     file, l->id[i / l->targets], b->target.name[i % l->targets], l->y[i]);
  TT_TRY(TT_ALLOC(b->used, l->count));
  return sort_rows(l, &b->sorted);
}

static tt_err open_groups(by_hand *b, const char *directory)
{
  int64_t *number = NULL, count = 0;
  char path[TT_PATH_ROOM];
  TT_TRY(tt_groups_list(directory, &number, &count));
  tt_err e = TT_ALLOC(b->group, count);
  for (int64_t i = 0; !e && i < count; i++) {
    tt_groups_path(directory, number[i], path);
    e = tt_group_open(path, &b->group[b->groups]);
    if (e == TT_E_NOINPUT)
      e = TT_OK; /* being made */
    else
      b->groups += !e;
  }
  tt_free(number);
  return e;
}

/* Nothing is written unless every row has a group. */
static tt_err find_groups(by_hand *b)
{
  for (int64_t i = 0; i < b->groups; i++)
    for (int64_t k = 0; k < b->group[i].count; k++) {
      int64_t row = row_of(b->sorted, b->given->count, b->group[i].id[k]);
      if (row < 0) continue;
      b->used[row] = 1;
      b->rows += b->group[i].state == TT_GROUP_waits;
      b->before += b->group[i].state != TT_GROUP_waits;
    }
  for (int64_t row = 0; row < b->given->count; row++)
    if (!b->used[row])
      return TT_FAIL(DATA, "%s: id %" PRId64 " was not asked for in this round; nothing was taken",
                     b->given->file, b->given->id[row]);
  return TT_OK;
}

/* Rows of a group so far: those given now, and those of an output that is there already. */
static tt_err merge(const by_hand *b, const tt_group *g, const tt_labels *old, tt_labels *all)
{
  int64_t T = b->target.count;
  place *sorted = NULL;
  if (old) TT_TRY(sort_rows(old, &sorted));
  for (int64_t i = 0; i < g->count; i++) {
    const tt_labels *from = b->given;
    int64_t row = row_of(b->sorted, b->given->count, g->id[i]);
    if (row < 0 && old) {
      from = old;
      row = row_of(sorted, old->count, g->id[i]);
    }
    if (row < 0) continue;
    all->id[all->count] = g->id[i];
    memcpy(all->y + all->count++ * T, from->y + row * T, (size_t)T * sizeof(double));
  }
  tt_free(sorted);
  return TT_OK;
}

static tt_err make_room(const by_hand *b, const tt_group *g, tt_labels *all)
{
  TT_TRY(TT_ALLOC(all->id, g->count));
  return TT_ALLOC(all->y, g->count * b->target.count);
}

static tt_err give(by_hand *b, const tt_group *g)
{
  char path[TT_PATH_ROOM];
  tt_labels *old = NULL, all = {0};
  tt_group_path(g, "output.h5", path);
  tt_err e = tt_labels_read_local(path, &b->target, &old);
  if (e && e != TT_E_NOINPUT && e != TT_E_DATA) return e; /* what is no output is replaced */
  if (!e && !old->id) tt_labels_destroy(&old);
  e = make_room(b, g, &all);
  if (!e) e = merge(b, g, old, &all);
  if (!e) e = tt_labels_write_local(path, all.count, all.id, all.y, &b->target, "");
  b->into += !e;
  b->whole += !e && all.count == g->count;
  tt_free(all.id);
  tt_free(all.y);
  tt_labels_destroy(&old);
  return e;
}

static int is_given(const by_hand *b, const tt_group *g)
{
  for (int64_t k = 0; k < g->count; k++)
    if (row_of(b->sorted, b->given->count, g->id[k]) >= 0) return 1;
  return 0;
}

static tt_err give_all(by_hand *b)
{
  for (int64_t i = 0; i < b->groups; i++)
    if (b->group[i].state == TT_GROUP_waits && is_given(b, &b->group[i]))
      TT_TRY(give(b, &b->group[i]));
  tt_log_once(TT_LOG_INFO,
              "%" PRId64 " row(s) into %" PRId64 " group(s), %" PRId64
              " of which are whole; %" PRId64 " row(s) had an answer before",
              b->rows, b->into, b->whole, b->before);
  return TT_OK;
}

tt_err tt_answer_by_hand_local(const char *campaign, const char *file)
{
  char directory[TT_PATH_ROOM];
  by_hand b = {0};
  tt_err e = newest_round(campaign, directory);
  if (!e) e = read_given(&b, directory, file);
  if (!e) e = open_groups(&b, directory);
  if (!e) e = find_groups(&b);
  if (!e) e = give_all(&b);
  for (int64_t i = 0; i < b.groups; i++)
    tt_group_free(&b.group[i]);
  tt_free(b.group);
  tt_free(b.sorted);
  tt_free(b.used);
  tt_labels_destroy(&b.given);
  tt_columns_free(&b.target);
  return e;
}
