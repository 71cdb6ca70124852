/* ckpt.c — see ckpt.h: writing a generation. */
#include "io/ckpt_priv.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Room for what HDF5 adds to the data of a checkpoint, generously. */
enum { METADATA_BYTES = 256 << 10 };

/* What the fence needs on rank 0. */
typedef struct ownership {
  const char *directory, *incarnation;
} ownership;

static tt_err still_owner_local(void *arg)
{
  const ownership *o = arg;
  return tt_ckpt_owner_local(o->directory, o->incarnation);
}

tt_h5_type tt_ckpt_shape_local(const tt_state_field *field, int64_t members, int64_t dims[2],
                               int *ndims)
{
  static const tt_h5_type types[] = {[TT_TYPE_float] = TT_H5_F32,
                                     [TT_TYPE_double] = TT_H5_F64,
                                     [TT_TYPE_int8_t] = TT_H5_I8,
                                     [TT_TYPE_int32_t] = TT_H5_I32,
                                     [TT_TYPE_int64_t] = TT_H5_I64};
  dims[0] = members;
  dims[1] = field->length;
  *ndims = field->length == 1 ? 1 : 2;
  return types[field->type];
}

static int64_t expected_bytes(const tt_state *s, int64_t members)
{
  int64_t each = (int64_t)sizeof(uint64_t);
  for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
    tt_state_field field = tt_state_get(s, i);
    each += field.bytes * field.length;
  }
  return members * each + METADATA_BYTES;
}

static tt_err hash_members_local(const tt_state *s, uint64_t **hash)
{
  TT_TRY(TT_ALLOC(*hash, s->count));
  for (int64_t i = 0; i < s->count; i++)
    (*hash)[i] = tt_state_hash(s, i);
  return TT_OK;
}

static void write_identity(tt_h5_file *f, const tt_run_id *id, int64_t generation, int64_t members,
                           const tt_state *s)
{
  tt_h5_attr_text(f, "/", "schema", TT_CKPT_SCHEMA);
  tt_h5_attr(f, "/", "generation", TT_H5_I64, 1, &generation);
  tt_h5_attr(f, "/", "members", TT_H5_I64, 1, &members);
  tt_h5_attr(f, "/", "params", TT_H5_I64, 1, &s->params);
  tt_h5_attr(f, "/", "slots", TT_H5_I64, 1, &s->slots);
  tt_h5_attr(f, "/", "epochs", TT_H5_I64, 1, &s->epochs);
  tt_h5_attr(f, "/", "science", TT_H5_U64, 1, &id->science);
  tt_h5_attr(f, "/", "data", TT_H5_U64, 1, &id->data);
  tt_h5_attr_text(f, "/", "arithmetic", id->arithmetic);
  tt_h5_attr_text(f, "/", "incarnation", id->incarnation);
}

static void write_members(tt_h5_file *f, int64_t members, const tt_state *s, const uint64_t *hash)
{
  int64_t dims[2];
  int ndims = 0;
  for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
    tt_state_field field = tt_state_get(s, i);
    tt_h5_type type = tt_ckpt_shape_local(&field, members, dims, &ndims);
    tt_h5_write_slice(f, field.name, type, ndims, dims, s->first, s->count, field.data);
  }
  tt_h5_write_slice(f, "member_hash", TT_H5_U64, 1, &members, s->first, s->count, hash);
}

/* Only the newest `keep` generations up to this one stay. What cannot be removed costs space, not
 * the run. */
static void drop_old_local(const char *directory, int64_t generation, int64_t keep)
{
  char path[TT_PATH_ROOM];
  int64_t *list = NULL, count = 0, kept = 0;
  if (tt_ckpt_list_local(directory, &list, &count)) {
    tt_log_once(TT_LOG_WARN, "old checkpoints stay: %s", tt_err_last());
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    if (list[i] > generation || kept++ < keep) continue;
    if (tt_ckpt_path_local(directory, list[i], path) || unlink(path) != 0)
      tt_log_once(TT_LOG_WARN, "%s: cannot be removed: %s", path, strerror(errno));
  }
  tt_free(list);
}

/* A lost fence explains failures of writing: the new owner clears the directory. */
static tt_err explain(tt_comm *c, tt_err e, ownership *o)
{
  char text[TT_ERR_TEXT];
  if (e != TT_E_IO && e != TT_E_CANTCREAT) return e;
  snprintf(text, sizeof text, "%s", tt_err_last());
  if (tt_agree(c, tt_comm_is_root(c) ? still_owner_local(o) : TT_OK) == TT_E_STOPPED)
    return TT_E_STOPPED;
  return TT_FAIL(IO, "%s", text);
}

tt_err tt_ckpt_write(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t members, int64_t keep, const tt_state *mine)
{
  char path[TT_PATH_ROOM];
  uint64_t *hash = NULL;
  tt_h5_file *f = NULL;
  ownership o = {directory, id->incarnation};
  tt_h5_fence fence = {still_owner_local, &o};
  tt_err e = generation < 1 ? TT_FAIL(INTERNAL, "generation %" PRId64, generation)
                            : tt_ckpt_path_local(directory, generation, path);
  if (!e) e = hash_members_local(mine, &hash);
  e = tt_agree(c, e);
  if (!e) e = tt_h5_create(c, path, expected_bytes(mine, members), &f);
  if (!e) {
    write_identity(f, id, generation, members, mine);
    write_members(f, members, mine, hash);
    e = tt_h5_commit(&f, &fence);
  }
  if (e) e = explain(c, e, &o);
  if (!e && tt_comm_is_root(c)) drop_old_local(directory, generation, keep);
  tt_free(hash);
  return e;
}
