/* checkpoint_internal.h — what the files io/ckpt*.c share. Floor 3. */
#ifndef TT_CHECKPOINT_INTERNAL_H
#define TT_CHECKPOINT_INTERNAL_H
#include "io/checkpoint/checkpoint.h"
#include "io/hdf5/files.h"
#include "io/hdf5/h5.h"

#define TT_CKPT_SCHEMA "tutti-checkpoint-1.0"

/* File of a generation: "<directory>/ckpt-gNNNNNN.h5". Local. Errors: CANTCREAT (too long). */
tt_err tt_ckpt_file_path_local(const char *directory, int64_t generation, char path[TT_PATH_MAX]);

/* Generations in the directory, ascending; none if the directory is not there.
 * *list is owned by the caller, tt_free. Local. Errors: IO, MEM. */
tt_err tt_ckpt_list_local(const char *directory, int64_t **list, int64_t *count);

/* Group of a cohort, "cohort3", and the path of something in it. Local. */
enum { TT_CKPT_OBJECT_PATH_MAX = 64 };
void tt_ckpt_object_path_local(int64_t cohort, const char *what,
                               char name[TT_CKPT_OBJECT_PATH_MAX]);

/* The sizes of a part that must be those of the run, as attributes of its group. */
enum { TT_CKPT_SIZES = 7 };
extern const char *const tt_ckpt_size_name[TT_CKPT_SIZES];
void tt_ckpt_sizes_local(const tt_ckpt_shard *shard, int64_t size[TT_CKPT_SIZES]);

/* How a field of the state stands in a file: type, axes and their sizes, for G members. Local. */
tt_h5_type tt_ckpt_field_shape_local(const tt_state_field *field, int64_t members, int64_t dims[2],
                                     int *ndims);

/* The members of part->mine out of cohort `number` of a file, checked against their hashes.
 *   hash  room for them
 * Local. Errors: DATA, IO, MEM. */
tt_err tt_ckpt_read_shard_local(tt_h5_reader *r, int64_t number, const tt_ckpt_shard *shard,
                                uint64_t *hash);
#endif
