/* checkpoint_internal.h — what the files of io/checkpoint share. */
#ifndef TT_CHECKPOINT_INTERNAL_H
#define TT_CHECKPOINT_INTERNAL_H
#include "io/checkpoint/checkpoint.h"
#include "io/hdf5/files.h"
#include "io/hdf5/h5.h"

#define TT_CKPT_SCHEMA "tutti-checkpoint-1.0"

/* File of a generation: "<directory>/ckpt-gNNNNNN.h5". Local. Errors: CANTCREAT (too long). */
tt_err tt_ckpt_file_path_local(const char *directory, int64_t generation, char path[TT_PATH_MAX]);

/* Generations in the directory, ascending; empty if the directory does not exist.
 * *list is owned by the caller, tt_free. Local. Errors: IO, MEM. */
tt_err tt_ckpt_list_local(const char *directory, int64_t **list, int64_t *count);

/* Group of a cohort, "cohort3", and the path of the object `what` in it; NULL = the group itself.
 * Local. */
enum { TT_CKPT_OBJECT_PATH_MAX = 64 };
void tt_ckpt_object_path_local(int64_t cohort, const char *what,
                               char name[TT_CKPT_OBJECT_PATH_MAX]);

/* The sizes of a cohort, as attributes of its group; they must be those of the run. */
enum { TT_CKPT_SIZES = 7 };
extern const char *const tt_ckpt_size_name[TT_CKPT_SIZES];
void tt_ckpt_sizes_local(const tt_ckpt_shard *shard, int64_t size[TT_CKPT_SIZES]);

/* Type, axes and sizes of the dataset of a state field, for G members. Local. */
tt_h5_type tt_ckpt_field_shape_local(const tt_state_field *field, int64_t members, int64_t dims[2],
                                     int *ndims);

/* Room for the checksums of all members on this rank, shard after shard; owner: the caller. Local.
 * Errors: MEM. */
tt_err tt_ckpt_hash_create_local(int64_t shards, const tt_ckpt_shard *shard, uint64_t **hash);
void tt_ckpt_hash_fill_local(int64_t shards, const tt_ckpt_shard *shard, uint64_t *hash);

/* Collective. Create the file of a generation and write everything to it, without commit.
 *   deferred  1 = leave the data of states and `hash` to tt_h5_write_deferred_local
 *   before    error of this rank so far
 *   f         NULL on error. Errors: `before`, CANTCREAT, IO, MEM. */
tt_err tt_ckpt_fill_file(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                         int64_t shards, const tt_ckpt_shard *shard, const uint64_t *hash,
                         int deferred, tt_err before, tt_h5_file **f);

/* Keep only the newest `keep` generations up to this one. A file that cannot be removed is a
 * warning, not an error: it only costs space. Local. */
void tt_ckpt_remove_old_local(const char *directory, int64_t generation, int64_t keep);

/* Read the members of shard->mine from cohort `number` of a file and verify their hashes.
 *   hash  [shard->mine->count] buffer
 * Local. Errors: DATA, IO, MEM. */
tt_err tt_ckpt_read_shard_local(tt_h5_reader *r, int64_t number, const tt_ckpt_shard *shard,
                                uint64_t *hash);
#endif
