/* directory.h — directories and small files: create, list, remove, back up, read. Floor 0. */
#ifndef TT_DIRECTORY_H
#define TT_DIRECTORY_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { TT_PATH_MAX = 4096 };

/* A directory and its missing parents; one that is there is fine. Errors: CANTCREAT. */
tt_err tt_directory_create(const char *path);

/* Remove a directory and all in it; links are removed, not followed. One that is missing is fine.
 * Errors: IO. */
tt_err tt_directory_remove(const char *path);

/* Remove the files of a directory for which `matches` returns 1. A directory that is missing has
 * none. Errors: IO. */
tt_err tt_directory_remove_files(const char *directory,
                                 int (*matches)(const char *directory, const char *name));

/* The number in a name of the form <prefix><number><suffix>, where the number has at least `digits`
 * digits: ("ckpt-g000012.h5", "ckpt-g", 6, ".h5") is 12. -1 for any other name. */
int64_t tt_numbered_name_parse(const char *name, const char *prefix, int digits,
                               const char *suffix);

/* The numbers of all such names in a directory, ascending; a directory that is missing has none.
 *   number  [count] owner: the caller, tt_free
 * Errors: IO, MEM. */
tt_err tt_directory_list_numbers(const char *directory, const char *prefix, int digits,
                                 const char *suffix, int64_t **number, int64_t *count);

/* The first name that is free of path.before-1, path.before-2, ...; with an entry (not "") the
 * first of path.before-1/entry, path.before-2/entry, ... Errors: IO (none is free, or too long). */
tt_err tt_backup_name(const char *path, const char *entry, char backup[TT_PATH_MAX]);

/* Move `path`, or path/entry, to that name and log it; one that is missing is fine.
 * Errors: CANTCREAT, IO. */
tt_err tt_backup(const char *path, const char *entry);

/* Read at most room - 1 bytes of a small file. Errors: NOINPUT, IO. */
tt_err tt_file_read_text(const char *path, char *text, int64_t room);
#ifdef __cplusplus
}
#endif
#endif
