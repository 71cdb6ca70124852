/* write.c — see checkpoint.h: writing a generation. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"

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

const char *const tt_ckpt_size_name[TT_CKPT_SIZES] = {
    "members", "params", "slots", "epochs", "averages", "snapshots", "judged"};

void tt_ckpt_sizes_local(const tt_ckpt_part *part, int64_t size[TT_CKPT_SIZES])
{
  const tt_state *s = part->mine;
  const int64_t all[TT_CKPT_SIZES] = {part->members, s->params,    s->slots, s->epochs,
                                      s->averages,   s->snapshots, s->judged};
  memcpy(size, all, sizeof all);
}

void tt_ckpt_name_local(int64_t part, const char *what, char name[TT_CKPT_NAME])
{
  snprintf(name, TT_CKPT_NAME, "cohort%" PRId64 "%s%s", part, what ? "/" : "", what ? what : "");
}

static int64_t expected_bytes(int64_t parts, const tt_ckpt_part *part)
{
  int64_t all = METADATA_BYTES;
  for (int64_t k = 0; k < parts; k++) {
    int64_t each = (int64_t)sizeof(uint64_t);
    for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
      tt_state_field field = tt_state_get(part[k].mine, i);
      each += field.bytes * field.length;
    }
    all += part[k].members * each;
  }
  return all;
}

/* hash  room for the members of the part's slice */
static void hash_members_local(const tt_state *s, uint64_t *hash)
{
  for (int64_t i = 0; i < s->count; i++) hash[i] = tt_state_hash(s, i);
}

/* Checksums of all own members, part after part. */
static tt_err hash_all_local(int64_t parts, const tt_ckpt_part *part, uint64_t **hash)
{
  int64_t count = 0;
  for (int64_t k = 0; k < parts; k++) count += part[k].mine->count;
  TT_TRY(TT_ALLOC(*hash, count));
  count = 0;
  for (int64_t k = 0; k < parts; k++) {
    hash_members_local(part[k].mine, *hash + count);
    count += part[k].mine->count;
  }
  return TT_OK;
}

static void write_identity(tt_h5_file *f, const tt_run_id *id, int64_t generation, int64_t parts,
                           const tt_ckpt_part *part)
{
  int64_t members = 0;
  for (int64_t k = 0; k < parts; k++) members += part[k].members;
  tt_h5_attr_text(f, "/", "schema", TT_CKPT_SCHEMA);
  tt_h5_attr(f, "/", "generation", TT_H5_I64, 1, &generation);
  tt_h5_attr(f, "/", "cohorts", TT_H5_I64, 1, &parts);
  tt_h5_attr(f, "/", "members", TT_H5_I64, 1, &members);
  tt_h5_attr(f, "/", "science", TT_H5_U64, 1, &id->science);
  tt_h5_attr(f, "/", "data", TT_H5_U64, 1, &id->data);
  tt_h5_attr_text(f, "/", "arithmetic", id->arithmetic);
  tt_h5_attr_text(f, "/", "incarnation", id->incarnation);
}

/* A group with one dataset for each field; those without values are left out. */
static void write_part(tt_h5_file *f, int64_t number, const tt_ckpt_part *part,
                       const uint64_t *hash)
{
  const tt_state *s = part->mine;
  int64_t dims[2], size[TT_CKPT_SIZES];
  int ndims = 0;
  char name[TT_CKPT_NAME];
  tt_ckpt_sizes_local(part, size);
  tt_ckpt_name_local(number, NULL, name);
  tt_h5_group(f, name);
  for (int i = 0; i < TT_CKPT_SIZES; i++)
    tt_h5_attr(f, name, tt_ckpt_size_name[i], TT_H5_I64, 1, &size[i]);
  for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
    tt_state_field field = tt_state_get(s, i);
    if (field.length == 0) continue;
    tt_h5_type type = tt_ckpt_shape_local(&field, part->members, dims, &ndims);
    tt_ckpt_name_local(number, field.name, name);
    tt_h5_write_slice(f, name, type, ndims, dims, s->first, s->count, field.data);
  }
  tt_ckpt_name_local(number, "member_hash", name);
  tt_h5_write_slice(f, name, TT_H5_U64, 1, &part->members, s->first, s->count, hash);
}

static void write_parts(tt_h5_file *f, int64_t parts, const tt_ckpt_part *part,
                        const uint64_t *hash)
{
  for (int64_t k = 0; k < parts; k++) {
    write_part(f, k, &part[k], hash);
    hash += part[k].mine->count;
  }
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
                     int64_t keep, int64_t parts, const tt_ckpt_part *part)
{
  char path[TT_PATH_ROOM];
  uint64_t *hash = NULL;
  tt_h5_file *f = NULL;
  ownership o = {directory, id->incarnation};
  tt_h5_fence fence = {still_owner_local, &o};
  tt_err e = generation < 1 ? TT_FAIL(INTERNAL, "generation %" PRId64, generation)
                            : tt_ckpt_path_local(directory, generation, path);
  if (!e) e = hash_all_local(parts, part, &hash);
  e = tt_agree(c, e);
  if (!e) e = tt_h5_create(c, path, expected_bytes(parts, part), &f);
  if (!e) {
    write_identity(f, id, generation, parts, part);
    write_parts(f, parts, part, hash);
    e = tt_h5_commit(&f, &fence);
  }
  if (e) e = explain(c, e, &o);
  if (!e && tt_comm_is_root(c)) drop_old_local(directory, generation, keep);
  tt_free(hash);
  return e;
}
