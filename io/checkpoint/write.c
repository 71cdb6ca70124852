/* write.c — see checkpoint.h: writing a generation. */
#include "io/checkpoint/checkpoint_internal.h"
#include "io/hdf5/owner.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Upper bound of the metadata of a checkpoint. */
enum { METADATA_BYTES = 256 << 10 };

tt_h5_type tt_ckpt_field_shape_local(const tt_state_field *field, int64_t members, int64_t dims[2],
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
    "members", "params", "slots", "epochs", "averages", "snapshots", "ensemble_epochs"};

void tt_ckpt_sizes_local(const tt_ckpt_shard *shard, int64_t size[TT_CKPT_SIZES])
{
  const tt_state *s = shard->mine;
  const int64_t all[TT_CKPT_SIZES] = {shard->members, s->params,    s->slots,          s->epochs,
                                      s->averages,    s->snapshots, s->ensemble_epochs};
  memcpy(size, all, sizeof all);
}

void tt_ckpt_object_path_local(int64_t cohort, const char *what, char name[TT_CKPT_OBJECT_PATH_MAX])
{
  snprintf(name, TT_CKPT_OBJECT_PATH_MAX, "cohort%" PRId64 "%s%s", cohort, what ? "/" : "",
           what ? what : "");
}

static int64_t expected_bytes(int64_t shards, const tt_ckpt_shard *shard)
{
  int64_t all = METADATA_BYTES;
  for (int64_t k = 0; k < shards; k++) {
    int64_t each = (int64_t)sizeof(uint64_t);
    for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
      tt_state_field field = tt_state_get(shard[k].mine, i);
      each += field.bytes * field.length;
    }
    all += shard[k].members * each;
  }
  return all;
}

tt_err tt_ckpt_hash_create_local(int64_t shards, const tt_ckpt_shard *shard, uint64_t **hash)
{
  int64_t count = 0;
  for (int64_t k = 0; k < shards; k++) count += shard[k].mine->count;
  return TT_ALLOC(*hash, count);
}

void tt_ckpt_hash_fill_local(int64_t shards, const tt_ckpt_shard *shard, uint64_t *hash)
{
  for (int64_t k = 0; k < shards; k++)
    for (int64_t i = 0; i < shard[k].mine->count; i++) *hash++ = tt_state_hash(shard[k].mine, i);
}

static void write_identity(tt_h5_file *f, const tt_run_id *id, int64_t generation, int64_t shards,
                           const tt_ckpt_shard *shard)
{
  int64_t members = 0;
  for (int64_t k = 0; k < shards; k++) members += shard[k].members;
  tt_h5_write_attr_text(f, "/", "tutti_schema", TT_CKPT_SCHEMA);
  tt_h5_write_attr(f, "/", "generation", TT_H5_I64, 1, &generation);
  tt_h5_write_attr(f, "/", "cohorts", TT_H5_I64, 1, &shards);
  tt_h5_write_attr(f, "/", "members", TT_H5_I64, 1, &members);
  tt_h5_write_attr(f, "/", "result_hash", TT_H5_U64, 1, &id->result_hash);
  tt_h5_write_attr(f, "/", "data_hash", TT_H5_U64, 1, &id->data);
  tt_h5_write_attr_text(f, "/", "arithmetic", id->arithmetic);
  tt_h5_write_attr_text(f, "/", "incarnation", id->incarnation);
}

/* A group with one dataset for each field; fields without values are not written. */
static void write_shard(tt_h5_file *f, int64_t number, const tt_ckpt_shard *shard,
                        const uint64_t *hash)
{
  const tt_state *s = shard->mine;
  int64_t dims[2], size[TT_CKPT_SIZES];
  int ndims = 0;
  char name[TT_CKPT_OBJECT_PATH_MAX];
  tt_ckpt_sizes_local(shard, size);
  tt_ckpt_object_path_local(number, NULL, name);
  tt_h5_create_group(f, name);
  for (int i = 0; i < TT_CKPT_SIZES; i++)
    tt_h5_write_attr(f, name, tt_ckpt_size_name[i], TT_H5_I64, 1, &size[i]);
  for (int i = 0; i < TT_STATE_FIELD_COUNT; i++) {
    tt_state_field field = tt_state_get(s, i);
    if (field.length == 0) continue;
    tt_h5_type type = tt_ckpt_field_shape_local(&field, shard->members, dims, &ndims);
    tt_ckpt_object_path_local(number, field.name, name);
    tt_h5_write_rows(f, name, type, ndims, dims, s->first, s->count, field.data);
  }
  tt_ckpt_object_path_local(number, "member_hash", name);
  tt_h5_write_rows(f, name, TT_H5_U64, 1, &shard->members, s->first, s->count, hash);
}

static void write_shards(tt_h5_file *f, int64_t shards, const tt_ckpt_shard *shard,
                         const uint64_t *hash)
{
  for (int64_t k = 0; k < shards; k++) {
    write_shard(f, k, &shard[k], hash);
    hash += shard[k].mine->count;
  }
}

void tt_ckpt_remove_old_local(const char *directory, int64_t generation, int64_t keep)
{
  char path[TT_PATH_MAX];
  int64_t *list = NULL, count = 0, kept = 0;
  if (tt_owner_check_local(directory)) return;
  if (tt_ckpt_list_local(directory, &list, &count)) {
    tt_log_root(TT_LOG_WARN, "old checkpoints cannot be removed: %s", tt_err_last());
    return;
  }
  for (int64_t i = count - 1; i >= 0; i--) {
    if (list[i] > generation || kept++ < keep) continue;
    if (tt_ckpt_file_path_local(directory, list[i], path) || unlink(path) != 0)
      tt_log_root(TT_LOG_WARN, "%s: cannot be removed: %s", path, strerror(errno));
  }
  tt_free(list);
}

tt_err tt_ckpt_fill_file(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                         int64_t shards, const tt_ckpt_shard *shard, const uint64_t *hash,
                         int deferred, tt_err before, tt_h5_file **f)
{
  char path[TT_PATH_MAX];
  tt_err e = before;
  *f = NULL;
  if (!e && generation < 1) e = TT_FAIL(INTERNAL, "generation %" PRId64, generation);
  if (!e) e = tt_ckpt_file_path_local(directory, generation, path);
  e = tt_agree(c, e);
  if (!e) e = tt_h5_create(c, path, expected_bytes(shards, shard), f);
  if (e) return e;
  if (deferred) tt_h5_defer(*f);
  write_identity(*f, id, generation, shards, shard);
  write_shards(*f, shards, shard, hash);
  return TT_OK; /* an error of the file is that of the commit */
}

tt_err tt_ckpt_write(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t keep, int64_t shards, const tt_ckpt_shard *shard)
{
  uint64_t *hash = NULL;
  tt_h5_file *f = NULL;
  tt_err e = tt_ckpt_hash_create_local(shards, shard, &hash);
  if (!e) tt_ckpt_hash_fill_local(shards, shard, hash);
  e = tt_ckpt_fill_file(c, directory, id, generation, shards, shard, hash, 0, e, &f);
  if (!e) e = tt_h5_commit(&f);
  e = tt_ckpt_explain(c, directory, e);
  if (!e && tt_comm_is_root(c)) tt_ckpt_remove_old_local(directory, generation, keep);
  tt_free(hash);
  return e;
}
