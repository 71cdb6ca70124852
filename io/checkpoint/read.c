/* read.c — see checkpoint.h: finding and loading the newest usable generation. */
#include "io/checkpoint/checkpoint_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes for the reasons why generations were rejected. */
enum { REASONS_ROOM = 8192 };

/* What a checkpoint must match. */
typedef struct expected {
  const tt_run_id *id;
  int64_t generation;
  int any_device;
  int64_t shards;
  const tt_ckpt_shard *shard;     /* [shards] */
  uint64_t *hash;                 /* buffer for the members of all slices */
  char unread[TT_PATH_MAX + 256]; /* why the disk did not give a generation, or "" */
  char reasons[REASONS_ROOM];     /* why generations were rejected, one a line */
} expected;

static tt_err number(tt_h5_reader *r, const char *name, int64_t *value)
{
  return tt_h5_read_attr_local(r, "/", name, TT_H5_I64, 1, value);
}

/* A complete checkpoint of another run is an error at once: an older generation would hide it. */
static tt_err other_run_error(tt_h5_reader *r, const char *what, const char *why)
{
  return TT_FAIL(DATA,
                 "%s belongs to another run: %s; restart from the beginning with --resume never "
                 "(removes the checkpoints), or choose another run.directory%s",
                 tt_h5_file_name(r), what, why);
}

static tt_err check_schema(tt_h5_reader *r, const expected *w)
{
  char *schema = NULL;
  int64_t generation = 0;
  TT_TRY(tt_h5_read_attr_text_local(r, "/", "tutti_schema", &schema));
  int known = !strcmp(schema, TT_CKPT_SCHEMA);
  tt_err e = known ? number(r, "generation", &generation)
                   : TT_FAIL(DATA, "%s has schema '%s', not %s", tt_h5_file_name(r), schema,
                             TT_CKPT_SCHEMA);
  tt_free(schema);
  if (!e && generation != w->generation)
    e = TT_FAIL(DATA, "%s holds generation %" PRId64, tt_h5_file_name(r), generation);
  return e;
}

typedef struct run_identity {
  uint64_t result_hash, data;
  int64_t cohorts;
  char *arithmetic;
} run_identity;

/* A file whose number of cohorts is not that of its tables is damaged, not one of another run. */
static tt_err read_identity(tt_h5_reader *r, run_identity *i)
{
  TT_TRY(tt_h5_read_attr_local(r, "/", "result_hash", TT_H5_U64, 1, &i->result_hash));
  TT_TRY(tt_h5_read_attr_local(r, "/", "data_hash", TT_H5_U64, 1, &i->data));
  TT_TRY(number(r, "cohorts", &i->cohorts));
  TT_TRY(tt_schema_check_shape_local(r, tt_ckpt_size_path[0], 1, (int64_t[]){i->cohorts}));
  return tt_h5_read_attr_text_local(r, "/", "arithmetic", &i->arithmetic);
}

static tt_err compare_identity(tt_h5_reader *r, const run_identity *i, const expected *w)
{
  char what[512];
  if (i->result_hash != w->id->result_hash) {
    snprintf(what, sizeof what,
             "its configuration (hash %016" PRIx64 ") differs from this one (%016" PRIx64
             "): data, model, ensembles, train or run.seed differ",
             i->result_hash, w->id->result_hash);
    return other_run_error(r, what, "");
  }
  if (i->data != w->id->data) {
    snprintf(what, sizeof what,
             "it was trained on other data, or with another train.init_from (hash %016" PRIx64
             ", now %016" PRIx64 ")",
             i->data, w->id->data);
    return other_run_error(r, what, ", or restore the data file");
  }
  if (i->cohorts != w->shards) {
    snprintf(what, sizeof what, "it has %" PRId64 " cohorts; this run has %" PRId64, i->cohorts,
             w->shards);
    return other_run_error(r, what, "");
  }
  if (w->any_device || !strcmp(i->arithmetic, w->id->arithmetic)) return TT_OK;
  return TT_FAIL(
      DATA,
      "%s was computed with '%s', this engine computes with '%s': the results would not "
      "be bit-identical to those of an uninterrupted run; use the same kind of device (run.device, "
      "TUTTI_SIMD, run.precision), or accept the difference with --allow-different-device",
      tt_h5_file_name(r), i->arithmetic, w->id->arithmetic);
}

/* The values of one field: a dataset stays open while all its parts are read. */
static tt_err read_field(tt_h5_reader *r, const tt_ckpt_layout *l, int f, int64_t first,
                         int64_t shards, const tt_ckpt_shard *shard, uint64_t *hash)
{
  tt_ckpt_field field = tt_ckpt_field_of_local(f);
  for (int64_t i = 0; i < shards; i++) {
    const tt_state *s = shard[i].mine;
    int64_t length = tt_ckpt_length_local(l, f, first + i);
    void *dst = f < TT_STATE_FIELD_COUNT ? tt_state_get(s, f).data : hash;
    if (s->count * length > 0)
      TT_TRY(tt_h5_read_rows_local(r, field.name, field.type,
                                   tt_ckpt_first_local(l, f, first + i) + s->first * length,
                                   s->count * length, dst));
    hash += s->count;
  }
  return TT_OK;
}

tt_err tt_ckpt_read_shards_local(tt_h5_reader *r, const tt_ckpt_layout *l, int64_t first,
                                 int64_t shards, const tt_ckpt_shard *shard, uint64_t *hash)
{
  for (int f = 0; f < TT_CKPT_FIELDS; f++) TT_TRY(read_field(r, l, f, first, shards, shard, hash));
  for (int64_t k = 0; k < shards; k++)
    for (int64_t i = 0; i < shard[k].mine->count; i++)
      if (tt_state_hash(shard[k].mine, i) != *hash++)
        return TT_FAIL(DATA, "the checksum of member %" PRId64 " of cohort %" PRId64 " is wrong",
                       shard[k].mine->first + i, first + k);
  return TT_OK;
}

/* Report every error of the reader as IO: this generation is rejected and an older one is tried.
 * MEM stays MEM: an older generation would not fit into memory either. An error of the disk, which
 * says nothing of the file, is kept in w->unread. */
static tt_err rejection(tt_err e, const char *path, expected *w)
{
  if (!e || e == TT_E_MEM) return e;
  int named = !strncmp(tt_err_last(), path, strlen(path));
  int disk = e == TT_E_IO || e == TT_E_NOINPUT;
  TT_FAIL(IO, "%s%s%s", named ? "" : path, named ? "" : ": ", tt_err_last());
  if (disk && !w->unread[0]) snprintf(w->unread, sizeof w->unread, "%s", tt_err_last());
  return TT_E_IO;
}

/* Compare the sizes in the file. Errors: DATA. */
static tt_err compare_sizes(tt_h5_reader *r, const tt_ckpt_layout *l, const expected *w)
{
  char what[256];
  for (int64_t k = 0; k < w->shards; k++) {
    int64_t size[TT_CKPT_SIZES];
    tt_ckpt_sizes_local(&w->shard[k], size);
    for (int i = 0; i < TT_CKPT_SIZES; i++) {
      int64_t found = l->size[k * TT_CKPT_SIZES + i];
      if (found == size[i]) continue;
      snprintf(what, sizeof what, "cohort %" PRId64 " has %" PRId64 " %s; this run has %" PRId64, k,
               found, tt_ckpt_size_name[i], size[i]);
      return other_run_error(r, what, "");
    }
  }
  return TT_OK;
}

/* Errors: IO (rejected), DATA (of another run), MEM. */
static tt_err read_generation_local(const char *path, expected *w)
{
  tt_h5_reader *r = NULL;
  run_identity found = {0};
  tt_ckpt_layout layout = {0};
  tt_err e = tt_h5_open_local(path, &r);
  if (!e) e = check_schema(r, w);
  if (!e) e = read_identity(r, &found);
  e = rejection(e, path, w);
  if (!e) e = compare_identity(r, &found, w);
  if (!e) e = rejection(tt_ckpt_layout_read_local(r, &layout), path, w);
  if (!e) e = compare_sizes(r, &layout, w);
  if (!e)
    e = rejection(tt_ckpt_read_shards_local(r, &layout, 0, w->shards, w->shard, w->hash), path, w);
  tt_ckpt_layout_free_local(&layout);
  tt_free(found.arithmetic);
  tt_h5_close_local(&r);
  return e;
}

/* Rank 0 lists the generations and broadcasts the list. The caller frees *list. */
static tt_err broadcast_list(tt_comm *c, const char *directory, int64_t **list, int64_t *count)
{
  *list = NULL;
  *count = 0;
  tt_err e = tt_comm_is_root(c) ? tt_ckpt_list_local(directory, list, count) : TT_OK;
  e = tt_agree(c, e);
  if (e) return e;
  int64_t bytes = *count * (int64_t)sizeof **list;
  e = tt_bcast_block(c, list, &bytes);
  *count = bytes / (int64_t)sizeof **list;
  return e;
}

/* All files were rejected. The advice to remove checkpoints is only for files that were read: those
 * that the disk did not give may be whole. */
static tt_err no_usable_error(tt_comm *c, const char *directory, int64_t count, const expected *w)
{
  tt_err e = TT_OK;
  if (w->unread[0])
    e = TT_FAIL(IO,
                "%s has checkpoints that cannot be read: %s\nrun the same command again when the "
                "disk works and all nodes see the directory",
                directory, w->unread);
  e = tt_agree(c, e);
  if (e) return e;
  return TT_FAIL(DATA,
                 "%s has %" PRId64
                 " checkpoint%s, but none can be used:%s\nrestart from the beginning with --resume "
                 "never (removes them), or choose another run.directory",
                 directory, count, count == 1 ? "" : "s", w->reasons);
}

/* Try the newest first until one is usable on all ranks. Errors: IO (all are rejected). */
static tt_err read_newest_usable(tt_comm *c, const char *directory, const int64_t *list,
                                 int64_t count, expected *w, int64_t *generation)
{
  char path[TT_PATH_MAX];
  w->reasons[0] = w->unread[0] = '\0';
  for (int64_t i = count - 1; i >= 0; i--) {
    w->generation = list[i];
    tt_err e = tt_ckpt_file_path_local(directory, list[i], path);
    e = tt_agree(c, e ? e : read_generation_local(path, w));
    if (!e) *generation = list[i];
    if (e != TT_E_IO) return e;
    tt_log_root(TT_LOG_WARN, "checkpoint rejected: %s", tt_err_last());
    size_t used = strlen(w->reasons);
    snprintf(w->reasons + used, sizeof w->reasons - used, "\n  %s", tt_err_last());
  }
  return TT_E_IO;
}

/* List the files, and read if there are newer ones than *newest. If all are rejected, look again:
 * another start may have removed them after it had written newer ones. */
static tt_err read_newer(tt_comm *c, const char *directory, expected *w, int64_t *newest,
                         int64_t *generation)
{
  int rejected = 0;
  tt_err e = TT_OK;
  do {
    int64_t *list = NULL, count = 0;
    e = broadcast_list(c, directory, &list, &count);
    int64_t last = !e && count > 0 ? list[count - 1] : 0;
    int is_newer = last > *newest;
    if (!e && last < *newest)
      e = TT_FAIL(IO, "%s: checkpoints were removed while they were read; run again", directory);
    if (!e && is_newer)
      e = read_newest_usable(c, directory, list, count, w, generation);
    else if (!e && rejected)
      e = no_usable_error(c, directory, count, w);
    rejected = is_newer && e == TT_E_IO;
    *newest = last;
    tt_free(list);
  } while (rejected);
  return e;
}

tt_err tt_ckpt_read(tt_comm *c, const char *directory, const tt_run_id *id, int any_device,
                    int64_t shards, const tt_ckpt_shard *shard, int64_t *newest,
                    int64_t *generation)
{
  expected w = {.id = id, .any_device = any_device, .shards = shards, .shard = shard};
  tt_err e = tt_agree(c, tt_ckpt_hash_create_local(shards, shard, &w.hash));
  if (!e) e = read_newer(c, directory, &w, newest, generation);
  tt_free(w.hash);
  return e;
}
