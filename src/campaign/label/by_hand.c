/* by_hand.c — see oracle.h: tutti campaign label. Writes the rows of one file to the outputs of the
 * pending groups of the newest round. An output may be incomplete: a later call of the command adds
 * the missing rows. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/state/file_names.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* label/ of the newest round that has one. */
static tt_err newest_round(const char *campaign, char directory[TT_PATH_MAX])
{
  char path[TT_PATH_MAX];
  int64_t *round = NULL, count;
  int exists = 0;
  TT_TRY(tt_directory_list_numbers(campaign, "round-", 4, "", &round, &count));
  tt_err e = TT_OK;
  for (; !e && count > 0; count--) {
    tt_round_path(campaign, round[count - 1], "label/header.csv", path);
    e = tt_file_exists(path, &exists);
    if (exists) break;
  }
  if (count) tt_round_path(campaign, round[count - 1], "label", directory);
  tt_free(round);
  return e ? e : count ? TT_OK : TT_FAIL(NOINPUT, "%s: no round has label groups yet", campaign);
}

typedef struct label_import {
  tt_columns target;
  tt_oracle_output *imported;
  tt_place *sorted; /* [imported->count] ids and rows */
  int8_t *matched;  /* [imported->count] 1 = the row belongs to a group */
  tt_label_group *group;
  int64_t groups;
  int64_t rows;                            /* rows of pending groups */
  int64_t groups_written, groups_complete; /* outputs written; those with all rows */
  int64_t rows_already_labeled;            /* rows of groups that are not pending */
} label_import;

static tt_err read_labels(label_import *b, const char *directory, const char *file,
                          const tt_table_format *format)
{
  char header[TT_PATH_MAX];
  tt_path_join(directory, "header.csv", header);
  TT_TRY(tt_output_header_read_local(header, &b->target));
  TT_TRY(tt_oracle_output_read_local(file, format, &b->target, 0, &b->imported));
  const tt_oracle_output *l = b->imported;
  if (!l->id)
    return TT_FAIL(DATA, "%s: there is no 'id'; add the numbers of the candidates as 'id'", file);
  for (int64_t i = 0; i < l->count * l->targets; i++)
    if (isinf(l->y[i]))
      return TT_FAIL(DATA, "%s: id %" PRId64 ", target '%s' is %g; write nan for a missing label",
                     file, l->id[i / l->targets], b->target.name[i % l->targets], l->y[i]);
  TT_TRY(TT_ALLOC(b->matched, l->count));
  return tt_places_sort(l->id, l->count, &b->sorted);
}

static tt_err open_groups(label_import *b, const char *directory)
{
  int64_t *number = NULL, count = 0;
  char path[TT_PATH_MAX];
  TT_TRY(tt_label_groups_list_local(directory, &number, &count));
  tt_err e = TT_ALLOC(b->group, count);
  for (int64_t i = 0; !e && i < count; i++) {
    tt_label_group_directory(directory, number[i], path);
    e = tt_label_group_open(path, &b->group[b->groups]);
    if (e == TT_E_NOINPUT)
      e = TT_OK; /* still being created */
    else
      b->groups += !e;
  }
  tt_free(number);
  return e;
}

/* Check that every row belongs to a group, before any output is written. */
static tt_err match_rows(label_import *b)
{
  for (int64_t i = 0; i < b->groups; i++)
    for (int64_t k = 0; k < b->group[i].count; k++) {
      int64_t row = tt_places_find(b->sorted, b->imported->count, b->group[i].id[k]);
      if (row < 0) continue;
      b->matched[row] = 1;
      b->rows += b->group[i].state == TT_LABEL_GROUP_pending;
      b->rows_already_labeled += b->group[i].state != TT_LABEL_GROUP_pending;
    }
  for (int64_t row = 0; row < b->imported->count; row++)
    if (!b->matched[row])
      return TT_FAIL(DATA,
                     "%s: id %" PRId64 " was not queried in this round; no label was imported",
                     b->imported->file, b->imported->id[row]);
  return TT_OK;
}

/* Collect the rows of a group: those of the imported file and those of an existing output. */
static tt_err merge_rows(const label_import *b, const tt_label_group *g,
                         const tt_oracle_output *old, tt_oracle_output *all)
{
  int64_t T = b->target.count;
  tt_place *sorted = NULL;
  if (old) TT_TRY(tt_places_sort(old->id, old->count, &sorted));
  for (int64_t i = 0; i < g->count; i++) {
    const tt_oracle_output *src = b->imported;
    int64_t row = tt_places_find(b->sorted, b->imported->count, g->id[i]);
    if (row < 0 && old) {
      src = old;
      row = tt_places_find(sorted, old->count, g->id[i]);
    }
    if (row < 0) continue;
    all->id[all->count] = g->id[i];
    memcpy(all->y + all->count++ * T, src->y + row * T, (size_t)T * sizeof(double));
  }
  tt_free(sorted);
  return TT_OK;
}

static tt_err allocate_rows(const label_import *b, const tt_label_group *g, tt_oracle_output *all)
{
  TT_TRY(TT_ALLOC(all->id, g->count));
  return TT_ALLOC(all->y, g->count * b->target.count);
}

static tt_err write_group_output(label_import *b, const tt_label_group *g)
{
  char path[TT_PATH_MAX];
  tt_oracle_output *old = NULL, all = {0};
  tt_path_join(g->directory, "output.h5", path);
  tt_err e = tt_oracle_output_read_local(path, NULL, &b->target, g->count, &old);
  if (e && e != TT_E_NOINPUT && e != TT_E_DATA) return e; /* replace an invalid output */
  if (!e && !old->id) tt_oracle_output_destroy(&old);
  e = allocate_rows(b, g, &all);
  if (!e) e = merge_rows(b, g, old, &all);
  if (!e) e = tt_accepted_labels_write_local(path, all.count, all.id, all.y, &b->target, "");
  b->groups_written += !e;
  b->groups_complete += !e && all.count == g->count;
  tt_free_all(&all.id, &all.y);
  tt_oracle_output_destroy(&old);
  return e;
}

static int has_rows_for(const label_import *b, const tt_label_group *g)
{
  for (int64_t k = 0; k < g->count; k++)
    if (tt_places_find(b->sorted, b->imported->count, g->id[k]) >= 0) return 1;
  return 0;
}

static tt_err write_all_outputs(label_import *b)
{
  for (int64_t i = 0; i < b->groups; i++)
    if (b->group[i].state == TT_LABEL_GROUP_pending && has_rows_for(b, &b->group[i]))
      TT_TRY(write_group_output(b, &b->group[i]));
  tt_log_root(TT_LOG_INFO,
              "rows imported: %" PRId64 ", groups written: %" PRId64 ", of these complete: %" PRId64
              "; rows that were labeled before: %" PRId64,
              b->rows, b->groups_written, b->groups_complete, b->rows_already_labeled);
  return TT_OK;
}

tt_err tt_oracle_import_labels_local(const char *campaign, const char *file,
                                     const tt_table_format *format)
{
  char directory[TT_PATH_MAX];
  label_import b = {0};
  tt_err e = newest_round(campaign, directory);
  if (!e) e = read_labels(&b, directory, file, format);
  if (!e) e = open_groups(&b, directory);
  if (!e) e = match_rows(&b);
  if (!e) e = write_all_outputs(&b);
  for (int64_t i = 0; i < b.groups; i++) tt_label_group_free(&b.group[i]);
  tt_free_all(&b.group, &b.sorted, &b.matched);
  tt_oracle_output_destroy(&b.imported);
  tt_columns_free(&b.target);
  return e;
}
