/* other_run.c — see checkpoint.h: the last generation of another run. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

struct tt_ckpt_last {
  tt_h5_reader *r;
  tt_ckpt_layout layout;
  char path[TT_PATH_MAX];
};

/* Report every error of the reader as DATA, with the name of the file. */
static tt_err damage_error(tt_err e, const tt_ckpt_last *l)
{
  if (!e || e == TT_E_MEM) return e;
  int named = !strncmp(tt_err_last(), l->path, strlen(l->path));
  return TT_FAIL(DATA, "%s%s%s", named ? "" : l->path, named ? "" : ": ", tt_err_last());
}

static tt_err check_schema(tt_ckpt_last *l)
{
  char *schema = NULL;
  tt_err e = tt_h5_read_attr_text_local(l->r, "/", "tutti_schema", &schema);
  if (!e && strcmp(schema, TT_CKPT_SCHEMA) != 0)
    e = TT_FAIL(DATA, "%s has schema '%s', not %s", l->path, schema, TT_CKPT_SCHEMA);
  tt_free(schema);
  return damage_error(e, l);
}

static tt_err open_newest(const char *directory, tt_ckpt_last *l)
{
  int64_t *list = NULL, count = 0;
  tt_err e = tt_ckpt_list_local(directory, &list, &count);
  if (!e && count == 0)
    e = TT_FAIL(NOINPUT, "%s: no checkpoint to continue from; it was removed or never written",
                directory);
  if (!e) e = tt_ckpt_file_path_local(directory, list[count - 1], l->path);
  tt_free(list);
  if (!e) e = damage_error(tt_h5_open_local(l->path, &l->r), l);
  if (!e) e = check_schema(l);
  return e ? e : damage_error(tt_ckpt_layout_read_local(l->r, &l->layout), l);
}

tt_err tt_ckpt_last_open_local(const char *directory, tt_ckpt_last **out)
{
  tt_ckpt_last *l = NULL;
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = open_newest(directory, l);
  if (e)
    tt_ckpt_last_close_local(&l);
  else
    *out = l;
  return e;
}

void tt_ckpt_last_close_local(tt_ckpt_last **l)
{
  if (!*l) return;
  tt_h5_close_local(&(*l)->r);
  tt_ckpt_layout_free_local(&(*l)->layout);
  tt_free(*l);
}

/* The values of one dataset, of all members of a cohort. */
static tt_err read_column(tt_ckpt_last *l, int64_t cohort, int f, int64_t members, void *out)
{
  tt_ckpt_field field = tt_ckpt_field_of_local(f);
  return tt_h5_read_rows_local(l->r, field.name, field.type,
                               tt_ckpt_first_local(&l->layout, f, cohort), members, out);
}

/* Members of a cohort; -1: it does not exist. */
static int64_t members_of(const tt_ckpt_last *l, int64_t cohort)
{
  int exists = cohort >= 0 && cohort < l->layout.cohorts;
  return exists ? l->layout.size[cohort * TT_CKPT_SIZES] : -1;
}

tt_err tt_ckpt_last_progress_local(tt_ckpt_last *l, int64_t cohort, int64_t members, int32_t *epoch,
                                   int8_t *status, uint64_t *hash)
{
  int64_t found = members_of(l, cohort);
  tt_err e = TT_OK;
  if (found != members)
    e = TT_FAIL(DATA,
                "%s has %" PRId64 " members in cohort %" PRId64 ", but the model of the run has "
                "%" PRId64,
                l->path, found < 0 ? 0 : found, cohort, members);
  if (!e) e = read_column(l, cohort, TT_STATE_FIELD_epoch, members, epoch);
  if (!e) e = read_column(l, cohort, TT_STATE_FIELD_status, members, status);
  if (!e) e = read_column(l, cohort, TT_STATE_FIELD_COUNT, members, hash);
  return damage_error(e, l);
}

static tt_err read_members(tt_ckpt_last *l, int64_t cohort, tt_state *s, int64_t members)
{
  uint64_t *hash = NULL;
  tt_ckpt_shard mine = {members, s};
  TT_TRY(TT_ALLOC(hash, s->count));
  tt_err e = tt_ckpt_read_shards_local(l->r, &l->layout, cohort, 1, &mine, hash);
  tt_free(hash);
  return e;
}

tt_err tt_ckpt_last_read_local(tt_ckpt_last *l, int64_t cohort, tt_slice which, tt_state **out)
{
  tt_state *s = NULL;
  int64_t members = members_of(l, cohort);
  if (which.first < 0 || which.count < 0 || which.first > members - which.count)
    return damage_error(TT_FAIL(DATA, "cohort %" PRId64 " has %" PRId64 " members", cohort,
                                members < 0 ? 0 : members),
                        l);
  const int64_t *size = l->layout.size + cohort * TT_CKPT_SIZES;
  tt_state_shape shape = {size[1], size[2], size[3], size[4], size[5]};
  TT_TRY(tt_state_create(which, shape, &s));
  tt_err e = damage_error(read_members(l, cohort, s, members), l);
  if (e)
    tt_state_destroy(&s);
  else
    *out = s;
  return e;
}
