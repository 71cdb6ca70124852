/* write.c — see checkpoint.h: writing a generation. */
#include "io/checkpoint/checkpoint_internal.h"
#include "io/files/memory.h"
#include "io/files/owner.h"
#include "io/hdf5/schema.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Upper bound of the metadata of a checkpoint. */
enum { METADATA_BYTES = 256 << 10 };

static int64_t expected_bytes(const tt_ckpt_layout *l)
{
  int64_t all = METADATA_BYTES + l->cohorts * TT_CKPT_SIZES * (int64_t)sizeof(int64_t);
  for (int f = 0; f < TT_CKPT_FIELDS; f++)
    all += tt_ckpt_first_local(l, f, l->cohorts) * tt_h5_type_bytes(tt_ckpt_field_of_local(f).type);
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
  tt_h5_write_attr(f, "/", "generation", TT_H5_I64, 1, &generation);
  tt_h5_write_attr(f, "/", "cohorts", TT_H5_I64, 1, &shards);
  tt_h5_write_attr(f, "/", "members", TT_H5_I64, 1, &members);
  tt_h5_write_attr(f, "/", "result_hash", TT_H5_U64, 1, &id->result_hash);
  tt_h5_write_attr(f, "/", "data_hash", TT_H5_U64, 1, &id->data);
  tt_h5_write_attr_text(f, "/", "arithmetic", id->arithmetic);
  tt_h5_write_attr_text(f, "/", "incarnation", id->incarnation);
}

/* One dataset for each size, with an element for each cohort. */
static void write_sizes(tt_h5_file *f, const tt_ckpt_layout *l, int64_t *column)
{
  static const char *const axis = "cohort";
  tt_h5_create_dimension(f, axis, l->cohorts);
  for (int i = 0; i < TT_CKPT_SIZES; i++) {
    for (int64_t k = 0; k < l->cohorts; k++)
      column[i * l->cohorts + k] = l->size[k * TT_CKPT_SIZES + i];
    tt_h5_write_from_root(f, tt_ckpt_size_path[i], TT_H5_I64, 1, &l->cohorts,
                          column + i * l->cohorts);
    tt_h5_attach_scales(f, tt_ckpt_size_path[i], &axis, 1);
  }
}

/* What writing a generation needs besides the states. */
typedef struct generation_arrays {
  tt_ckpt_layout layout;
  int64_t *column;   /* [TT_CKPT_SIZES][cohorts] */
  tt_h5_part *block; /* [cohorts] values of this rank */
} generation_arrays;

static tt_err make_generation_arrays(int64_t shards, const tt_ckpt_shard *shard,
                                     generation_arrays *t)
{
  TT_TRY(tt_ckpt_layout_of_local(shards, shard, &t->layout));
  TT_TRY(TT_ALLOC(t->column, TT_CKPT_SIZES * shards));
  return TT_ALLOC(t->block, shards);
}

/* One dataset for each field, of the members of all cohorts; fields without values are not written.
 */
static void write_fields(tt_h5_file *file, int64_t shards, const tt_ckpt_shard *shard,
                         const uint64_t *hash, generation_arrays *t)
{
  const tt_ckpt_layout *l = &t->layout;
  for (int f = 0; f < TT_CKPT_FIELDS; f++) {
    tt_ckpt_field field = tt_ckpt_field_of_local(f);
    const uint64_t *own = hash;
    for (int64_t k = 0; k < shards; k++) {
      const tt_state *s = shard[k].mine;
      int64_t length = tt_ckpt_length_local(l, f, k);
      const void *values = f < TT_STATE_FIELD_COUNT ? tt_state_get(s, f).data : own;
      t->block[k] =
          (tt_h5_part){tt_ckpt_first_local(l, f, k) + s->first * length, s->count * length, values};
      own += s->count;
    }
    int64_t size = tt_ckpt_first_local(l, f, l->cohorts);
    if (size == 0) continue;
    if (tt_h5_dimension_size(file, field.axis) < 0) tt_h5_create_open_dimension(file, field.axis);
    tt_h5_create_dataset(file, field.name, field.type, 1, &size);
    tt_h5_attach_scales(file, field.name, &field.axis, 1);
    tt_h5_write_parts(file, field.name, field.type, shards, t->block);
  }
}

int64_t tt_ckpt_buffer_bytes_local(int64_t shards)
{
  return shards > 1 ? TT_H5_JOINED_BYTES : TT_H5_VERIFIED_BYTES;
}

void tt_ckpt_remove_old_local(const char *directory, int64_t generation, int64_t keep)
{
  char path[TT_PATH_MAX];
  int64_t *list = NULL, count = 0, kept = 0;
  if (tt_memory_is_path(directory) || tt_owner_check_local(directory)) return;
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
  generation_arrays t = {0};
  tt_schema s;
  const tt_provenance provenance = {.arithmetic = id->arithmetic,
                                    .data_hash = id->data,
                                    .result_hash = id->result_hash,
                                    .ranks = tt_comm_ranks(c)};
  tt_err e = before ? before : make_generation_arrays(shards, shard, &t);
  *f = NULL;
  if (!e && generation < 1) e = TT_FAIL(INTERNAL, "generation %" PRId64, generation);
  if (!e && directory) e = tt_ckpt_file_path_local(directory, generation, path);
  e = tt_agree(c, e);
  if (!e) e = tt_h5_create(c, directory ? path : NULL, expected_bytes(&t.layout), f);
  if (!e) { /* an error of the file from here on is that of the commit */
    tt_schema_write_header(&s, c, *f, TT_CKPT_SCHEMA, &provenance);
    write_identity(*f, id, generation, shards, shard);
    write_sizes(*f, &t.layout, t.column);
    if (deferred) tt_h5_defer(*f);
    write_fields(*f, shards, shard, hash, &t);
  }
  tt_ckpt_layout_free_local(&t.layout);
  tt_free_all(&t.column, &t.block);
  return e;
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
  if (directory) e = tt_ckpt_explain(c, directory, e);
  if (!e && directory && tt_comm_is_root(c)) tt_ckpt_remove_old_local(directory, generation, keep);
  tt_free(hash);
  return e;
}
