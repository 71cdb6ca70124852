/* commit.c — see h5.h: commit or discard of a new file. */
#include "io/hdf5/h5_internal.h"
#include "io/hdf5/schema.h"

#include "core/base/mem.h"
#include "mpi/fatal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static int64_t row_bytes(const tt_h5_written_block *b)
{
  return tt_h5_product(1, b->ndims, b->count) * tt_h5_type_bytes(b->type);
}

/* Rows that are read back at a time. */
static int64_t rows_of_piece(const tt_h5_written_block *b)
{
  int64_t row = row_bytes(b), per = row < TT_H5_VERIFIED_BYTES ? TT_H5_VERIFIED_BYTES / row : 1;
  return per < b->count[0] ? per : b->count[0];
}

/* Bytes of the largest piece that is read back, 0 if there is none. */
static int64_t largest_piece(const tt_h5_file *f)
{
  int64_t most = 0;
  for (int64_t i = 0; i < f->blocks; i++) {
    const tt_h5_written_block *b = &f->block[i];
    int64_t bytes = b->offset < 0 ? rows_of_piece(b) * row_bytes(b) : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Read one block back in pieces and hash it. */
static tt_err rehash_block_local(tt_h5_reader *r, const tt_h5_written_block *b, char *buffer,
                                 int64_t per, XXH3_state_t *state, uint64_t *hash)
{
  int64_t first[TT_H5_MAX_DIMS], count[TT_H5_MAX_DIMS];
  int64_t row = row_bytes(b);
  memcpy(first, b->first, sizeof first);
  memcpy(count, b->count, sizeof count);
  XXH3_64bits_reset(state);
  for (int64_t done = 0; done < b->count[0]; done += per) {
    int64_t rows = b->count[0] - done < per ? b->count[0] - done : per;
    first[0] = b->first[0] + done;
    count[0] = rows;
    TT_TRY(tt_h5_read_block_local(r, b->path, b->type, first, count, buffer));
    XXH3_64bits_update(state, buffer, (size_t)(rows * row));
  }
  *hash = XXH3_64bits_digest(state);
  return TT_OK;
}

/*   buffer  [largest_piece of the file] */
static tt_err verify_block_local(tt_h5_reader *r, const tt_h5_written_block *b, char *buffer,
                                 XXH3_state_t *state)
{
  uint64_t hash = 0;
  TT_TRY(rehash_block_local(r, b, buffer, rows_of_piece(b), state, &hash));
  if (hash == b->hash) return TT_OK;
  return TT_FAIL(IO,
                 "%s: '%s': the data read back differ from the data written (rows %" PRId64
                 " to %" PRId64 "): the disk is full or failing",
                 tt_h5_file_name(r), b->path, b->first[0], b->first[0] + b->count[0] - 1);
}

/* The data of a deferred block are compared by the thread that writes them: a reader must find them
 * at the same place.
 *   begin  where the dataset of the block before, of the same path, begins; -1: look */
static tt_err verify_place_local(tt_h5_reader *r, const tt_h5_written_block *b, int64_t *begin)
{
  hid_t dataset = -1;
  int64_t row = row_bytes(b);
  if (*begin < 0) {
    TT_TRY(tt_h5_open_dataset_local(r, b->path, &dataset));
    *begin = (int64_t)H5Dget_offset(dataset); /* HADDR_UNDEF is -1 */
    TT_H5_CLOSE(dataset);
  }
  if (*begin < 0 || *begin + b->first[0] * row != b->offset)
    return TT_FAIL(IO, "%s: '%s' is not where it was created", tt_h5_file_name(r), b->path);
  return TT_OK;
}

static tt_err verify_blocks_local(tt_h5_reader *r, const tt_h5_file *f, XXH3_state_t *state)
{
  char *buffer = NULL;
  int64_t offset = -1;
  TT_TRY(tt_alloc_bytes(&buffer, largest_piece(f), 1, "the comparison of a written file"));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < f->blocks; i++) {
    const tt_h5_written_block *b = &f->block[i];
    if (i > 0 && strcmp(b->path, f->block[i - 1].path) != 0) offset = -1;
    e = b->offset < 0 ? verify_block_local(r, b, buffer, state) : verify_place_local(r, b, &offset);
  }
  tt_free(buffer);
  return e;
}

/* Report errors of the reader as IO, because they mean that writing failed. */
static tt_err verify_local(const tt_h5_file *f)
{
  tt_h5_reader *r = NULL;
  XXH3_state_t *state = XXH3_createState();
  tt_err e = state ? tt_h5_open_local(f->temporary, &r)
                   : TT_FAIL(MEM, "%s: no memory to verify it", f->path);
  if (!e) e = verify_blocks_local(r, f, state);
  tt_h5_close_local(&r);
  XXH3_freeState(state);
  if (e && e != TT_E_MEM)
    e = TT_FAIL(IO, "%s was not written correctly: %s", f->path, tt_err_last());
  return e;
}

static tt_err close_file(tt_h5_file *f)
{
  hid_t id = f->id;
  tt_h5_close_kept(f);
  f->id = -1;
  return tt_h5_close_file(id) < 0 ? TT_H5_FAIL(IO, f->path, "", "cannot be closed") : TT_OK;
}

/* One rank per node syncs: each node has its own page cache. */
static tt_err sync_local(const tt_h5_file *f)
{
  int mine = !f->comm || tt_comm_node_rank(f->comm) == 0;
  return mine ? tt_file_sync_local(f->temporary) : TT_OK;
}

/* Rename a file whose data are verified and on the disk; frees *file in any case. */
static tt_err publish(tt_h5_file **file)
{
  tt_h5_file *f = *file;
  tt_err e = f->error;
  if (!e)
    e = tt_h5_vote(f, tt_h5_is_root(f) ? tt_file_publish_local(f->temporary, f->path) : TT_OK);
  if (!e) f->temporary[0] = 0;
  tt_h5_discard(file);
  return e;
}

tt_err tt_h5_close_layout(tt_h5_file *f)
{
  return f->error ? f->error : tt_h5_vote(f, close_file(f));
}

/* The closed file becomes the file in memory. */
static tt_err store_image(tt_h5_file *f, hsize_t size)
{
  tt_err e = tt_memory_put(f->path, f->image, (int64_t)size, f->image);
  f->image = NULL;
  return e;
}

static tt_err commit_memory(tt_h5_file **file)
{
  tt_h5_file *f = *file;
  hsize_t size = 0;
  tt_h5_close_kept(f);
  tt_err e = f->error;
  if (!e && f->hashed) e = tt_schema_seal_open_local(f);
  if (!e && (H5Fflush(f->id, H5F_SCOPE_LOCAL) < 0 || H5Fget_filesize(f->id, &size) < 0))
    e = TT_H5_FAIL(IO, f->path, "", "cannot be written");
  if (!e) e = close_file(f);
  if (!e) e = store_image(f, size);
  tt_h5_discard(file);
  return e;
}

tt_err tt_h5_commit(tt_h5_file **file)
{
  tt_h5_file *f = *file;
  if (f->in_memory) return commit_memory(file);
  tt_err e = tt_h5_close_layout(f);
  if (f->dry) {
    tt_h5_discard(file);
    return e;
  }
  if (!e) e = tt_h5_vote(f, verify_local(f));
  if (!e && f->hashed)
    e = tt_h5_vote(f, tt_h5_is_root(f) ? tt_schema_seal_local(f->temporary, f->hashed) : TT_OK);
  if (!e) tt_h5_vote(f, sync_local(f));
  return publish(file);
}

tt_err tt_h5_commit_deferred(tt_h5_file **file, tt_err t)
{
  tt_h5_file *f = *file;
  if (!f->error) tt_h5_vote(f, t ? t : verify_local(f));
  return publish(file);
}

void tt_h5_discard(tt_h5_file **file)
{
  tt_h5_file *f = *file;
  if (!f) return;
  tt_h5_close_kept(f);
  if (f->id >= 0) tt_h5_close_file(f->id);
  if (tt_h5_is_parallel(f)) tt_fatal_set_file_local(NULL, NULL);
  if (tt_h5_is_root(f) && f->temporary[0]) unlink(f->temporary);
  if (f->comm) tt_barrier(f->comm); /* when this returns, the temporary file is removed */
  for (int64_t i = 0; i < f->blocks; i++) tt_free(f->block[i].path);
  free(f->image);
  tt_free(f->block);
  tt_free(*file);
}
