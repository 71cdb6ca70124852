/* files.h — files that are whole or not there: temporary names, space, sync, rename. Floor 3.
 * All functions are local. */
#ifndef TT_FILES_H
#define TT_FILES_H
#include "core/base/directory.h"

/* A name in the directory of `path` that no other process uses:
 * ".tmp-<name>-<host>-<process>-<16 hex digits>". Errors: CANTCREAT (too long). */
tt_err tt_file_temporary_name_local(const char *path, char temporary[TT_PATH_MAX]);

/* Create `temporary` empty (it must not exist) and make sure that `bytes` fit beside it: asks for
 * the free space, then really allocates them for a moment. 0 bytes = do not ask.
 * Errors: CANTCREAT (no such directory, no permission), IO (disk full or quota); then nothing is
 * left. */
tt_err tt_file_reserve_local(const char *temporary, int64_t bytes);

/* fsync of a file or a directory. After an error the content is lost: never try again, write a new
 * file. Errors: IO. */
tt_err tt_file_sync_local(const char *path);

/* Rename `temporary` to `path` and sync the directory. On error `temporary` is still there, except
 * when the last sync failed: then the complete file stands under its name. Errors: IO. */
tt_err tt_file_publish_local(const char *temporary, const char *path);

/* Write a small text file as a whole: temporary name, sync, rename. Errors: CANTCREAT, IO. */
tt_err tt_file_write_atomic_local(const char *path, const char *text);

/* Is `name` (no directory) a temporary name that nobody can be using: made by a process of this
 * host that has ended, or older than an hour? Files of other hosts count as used for that hour. */
int tt_file_is_stale_local(const char *directory, const char *name);

/* Directory part of `path` ("." if it has none). */
void tt_file_dirname_local(const char *path, char directory[TT_PATH_MAX]);
#endif
