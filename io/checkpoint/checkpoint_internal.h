/* checkpoint_internal.h — what the files of io/checkpoint share. */
#ifndef TT_CHECKPOINT_INTERNAL_H
#define TT_CHECKPOINT_INTERNAL_H
#include "io/checkpoint/checkpoint.h"
#include "io/files/files.h"
#include "io/hdf5/h5.h"

#define TT_CKPT_SCHEMA "tutti-checkpoint-2.0"

/* File of a generation: "<directory>/ckpt-gNNNNNN.h5". Local. Errors: CANTCREAT (too long). */
tt_err tt_ckpt_file_path_local(const char *directory, int64_t generation, char path[TT_PATH_MAX]);

/* Generations in the directory, ascending; empty if the directory does not exist.
 * *list is owned by the caller, tt_free. Local. Errors: IO, MEM. */
tt_err tt_ckpt_list_local(const char *directory, int64_t **list, int64_t *count);

/* The sizes of a cohort, in datasets with an element for each cohort; they must be those of the
 * run. */
enum { TT_CKPT_SIZES = 5 };
extern const char *const tt_ckpt_size_name[TT_CKPT_SIZES]; /* "params" */
extern const char *const tt_ckpt_size_path[TT_CKPT_SIZES]; /* "cohort_params" */
void tt_ckpt_sizes_local(const tt_ckpt_shard *shard, int64_t size[TT_CKPT_SIZES]);

/* The datasets of the members: those of the fields of their state, then their checksums. Each has
 * one axis: the values of cohort 0, member after member, then those of cohort 1, and so on. */
enum { TT_CKPT_FIELDS = TT_STATE_FIELD_COUNT + 1 };
typedef struct tt_ckpt_field {
  const char *name;
  tt_h5_type type;
  const char *axis;
} tt_ckpt_field;
tt_ckpt_field tt_ckpt_field_of_local(int f);

/* Where the values of each cohort are. */
typedef struct tt_ckpt_layout {
  int64_t cohorts;
  int64_t *size;  /* [cohorts][TT_CKPT_SIZES] */
  int64_t *first; /* [TT_CKPT_FIELDS][cohorts + 1] */
} tt_ckpt_layout;

/* The layout of a run, or of a file; the datasets of the file have its sizes. *l is zeroed before;
 * the caller frees it, also after an error. Local. Errors: DATA, IO, MEM. */
tt_err tt_ckpt_layout_of_local(int64_t shards, const tt_ckpt_shard *shard, tt_ckpt_layout *l);
tt_err tt_ckpt_layout_read_local(tt_h5_reader *r, tt_ckpt_layout *l);
void tt_ckpt_layout_free_local(tt_ckpt_layout *l);

/* Index of the first value of a cohort in dataset f; of cohort number `cohorts`: its size. Values
 * of a member. Local. */
int64_t tt_ckpt_first_local(const tt_ckpt_layout *l, int f, int64_t cohort);
int64_t tt_ckpt_length_local(const tt_ckpt_layout *l, int f, int64_t cohort);

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

/* Read the members of shard[i].mine from cohort `first` + i of a file and verify their hashes.
 *   hash  [members of all shards] buffer
 * Local. Errors: DATA, IO, MEM. */
tt_err tt_ckpt_read_shards_local(tt_h5_reader *r, const tt_ckpt_layout *l, int64_t first,
                                 int64_t shards, const tt_ckpt_shard *shard, uint64_t *hash);
#endif
