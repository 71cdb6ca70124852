/* files.h — files that are complete or do not exist: temporary names, space, sync, rename.
 * All functions are local. */
#ifndef TT_FILES_H
#define TT_FILES_H
#include "core/base/directory.h"

/* The name of this machine, cut where it is longer. */
enum { TT_HOST_ROOM = 41 };
void tt_file_host_name_local(char host[TT_HOST_ROOM]);

/* A name in the directory of `path` that no other process uses:
 * ".tmp-<name>-<host>-<process>-<16 hex digits>"; it begins with TT_OWNER_TEMPORARY if this start
 * owns the directory (owner.h). Errors: CANTCREAT (too long; `path` is not replaceable). */
tt_err tt_file_temporary_name_local(const char *path, char temporary[TT_PATH_MAX]);

/* Create `temporary` (of tt_file_temporary_name_local) empty and check that `bytes` fit on the file
 * system: query the free space, then allocate the bytes for a moment. bytes 0 = no check. Before,
 * remove the temporary files of the same output whose processes, on this host, have ended; never
 * those of other hosts. Errors: CANTCREAT (no such directory, no permission), IO (disk full or
 * quota); then the file is removed. */
tt_err tt_file_reserve_local(const char *temporary, int64_t bytes);

/* fsync of a file or a directory. After an error the content may be lost: do not retry, write a new
 * file. Errors: IO. */
tt_err tt_file_sync_local(const char *path);

/* Check the owner of the directory (owner.h), rename `temporary` to `path`, sync the directory. On
 * error `temporary` still exists, except when the last sync failed: then the complete file is
 * `path`. Errors: STOPPED (another start owns the directory), CANTCREAT (`path` is not
 * replaceable, tt_file_check_replaceable), IO. */
tt_err tt_file_publish_local(const char *temporary, const char *path);

/* Write a small text file under a new temporary name and sync it; tt_file_publish_local makes it
 * `path`. Errors: CANTCREAT, IO; then no file is left. */
tt_err tt_file_write_temporary_local(const char *path, const char *text,
                                     char temporary[TT_PATH_MAX]);

/* Write a small text file, complete or not at all: temporary name, sync, check of the owner,
 * rename. Errors: CANTCREAT, IO, STOPPED. */
tt_err tt_file_write_atomic_local(const char *path, const char *text);

/* The same for what `put` prints, in memory first. Errors: of put; MEM. */
tt_err tt_file_print_local(const char *path, tt_err (*put)(FILE *out, void *context),
                           void *context);

/* The same without sync: after a power failure the file may be empty. */
tt_err tt_file_replace_local(const char *path, const char *text);

/* Create `spare`, unless it exists: a file of TT_FILE_SPARE_BYTES, in the blocks of which a short
 * text fits when the disk is full. On error there is no such file. Errors: CANTCREAT, IO. */
enum { TT_FILE_SPARE_BYTES = 20480 };
tt_err tt_file_create_spare_local(const char *spare);

/* tt_file_replace_local in the blocks of `spare`, which exists no more afterwards. On error `path`
 * is unchanged. Errors: IO (also: longer than the spare file), STOPPED. */
tt_err tt_file_replace_by_spare_local(const char *path, const char *text, const char *spare);

/* Is `name` (no directory) a temporary file that no process uses: created by a process of this host
 * that has ended, or older than an hour? Files of other hosts count as used for one hour. */
int tt_file_is_stale_local(const char *directory, const char *name);

/* tt_file_check_output for an HDF5 file, which must not have the name of another kind, such as
 * pred.csv: other programs would open it as that kind. Errors: USAGE, CANTCREAT. */
tt_err tt_h5_check_output_local(const char *output, int force, const char *const input[2]);

/* Directory part of `path` ("." if it has none). */
void tt_file_dirname_local(const char *path, char directory[TT_PATH_MAX]);
#endif
