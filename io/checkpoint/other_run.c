/* other_run.c — see checkpoint.h: the last generation of another run. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <string.h>

struct tt_ckpt_last {
  tt_h5_reader *r;
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
  return e ? e : check_schema(l);
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
  tt_free(*l);
}

static tt_err read_sizes(tt_ckpt_last *l, int64_t cohort, int64_t size[TT_CKPT_SIZES])
{
  char group[TT_CKPT_OBJECT_PATH_MAX];
  tt_ckpt_object_path_local(cohort, NULL, group);
  for (int i = 0; i < TT_CKPT_SIZES; i++)
    TT_TRY(tt_h5_read_attr_local(l->r, group, tt_ckpt_size_name[i], TT_H5_I64, 1, &size[i]));
  return TT_OK;
}

static tt_err read_column(tt_ckpt_last *l, int64_t cohort, const char *name, tt_h5_type type,
                          int64_t members, void *out)
{
  char path[TT_CKPT_OBJECT_PATH_MAX];
  tt_ckpt_object_path_local(cohort, name, path);
  TT_TRY(tt_schema_check_shape_local(l->r, path, 1, (int64_t[]){members}));
  return tt_h5_read_rows_local(l->r, path, type, 0, members, out);
}

tt_err tt_ckpt_last_progress_local(tt_ckpt_last *l, int64_t cohort, int64_t members, int32_t *epoch,
                                   int8_t *status, uint64_t *hash)
{
  int64_t size[TT_CKPT_SIZES];
  tt_err e = read_sizes(l, cohort, size);
  if (!e && size[0] != members)
    e = TT_FAIL(DATA,
                "%s has %" PRId64 " members in cohort %" PRId64 ", but the model of the run has "
                "%" PRId64,
                l->path, size[0], cohort, members);
  if (!e) e = read_column(l, cohort, "epoch", TT_H5_I32, members, epoch);
  if (!e) e = read_column(l, cohort, "status", TT_H5_I8, members, status);
  if (!e) e = read_column(l, cohort, "member_hash", TT_H5_U64, members, hash);
  return damage_error(e, l);
}

/* The dataset of a field has `factor` * `length` values for each member, or is not there if that is
 * 0. */
static tt_err check_field(tt_ckpt_last *l, int64_t cohort, const char *name, int64_t members,
                          int64_t factor, int64_t length)
{
  char path[TT_CKPT_OBJECT_PATH_MAX];
  int64_t dims[2] = {members, 0};
  if (factor < 0 || length < 0 || __builtin_mul_overflow(factor, length, &dims[1]))
    return TT_FAIL(DATA, "cohort %" PRId64 " has impossible sizes of '%s'", cohort, name);
  tt_ckpt_object_path_local(cohort, name, path);
  return dims[1] ? tt_schema_check_shape_local(l->r, path, dims[1] == 1 ? 1 : 2, dims) : TT_OK;
}

/* The sizes are those of the datasets, so that no more memory is allocated than these need. */
static tt_err check_sizes(tt_ckpt_last *l, int64_t cohort, tt_slice which,
                          const int64_t size[TT_CKPT_SIZES])
{
  int64_t members = size[0], params = size[1];
  if (which.first < 0 || which.count < 0 || which.first > members - which.count || params < 1)
    return TT_FAIL(DATA, "cohort %" PRId64 " has %" PRId64 " members of %" PRId64 " parameters",
                   cohort, members, params);
  TT_TRY(check_field(l, cohort, "weights", members, 1, params));
  TT_TRY(check_field(l, cohort, "slots", members, size[2], params));
  TT_TRY(check_field(l, cohort, "loss_train", members, 1, size[3]));
  TT_TRY(check_field(l, cohort, "average", members, size[4], params));
  TT_TRY(check_field(l, cohort, "snapshots", members, size[5], params));
  return check_field(l, cohort, "loss_ensemble", members, 1, size[6]);
}

static tt_err read_members(tt_ckpt_last *l, int64_t cohort, tt_state *s, int64_t members)
{
  uint64_t *hash = NULL;
  tt_ckpt_shard mine = {members, s};
  TT_TRY(TT_ALLOC(hash, s->count));
  tt_err e = tt_ckpt_read_shard_local(l->r, cohort, &mine, hash);
  tt_free(hash);
  return e;
}

tt_err tt_ckpt_last_read_local(tt_ckpt_last *l, int64_t cohort, tt_slice which, tt_state **out)
{
  int64_t size[TT_CKPT_SIZES];
  tt_state *s = NULL;
  TT_TRY(damage_error(read_sizes(l, cohort, size), l));
  TT_TRY(damage_error(check_sizes(l, cohort, which, size), l));
  tt_state_shape shape = {size[1], size[2], size[3], size[4], size[5], size[6]};
  TT_TRY(tt_state_create(which, shape, &s));
  tt_err e = damage_error(read_members(l, cohort, s, size[0]), l);
  if (e)
    tt_state_destroy(&s);
  else
    *out = s;
  return e;
}
