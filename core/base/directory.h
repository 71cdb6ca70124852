/* directory.h — directories and small files: create, list, remove, back up, open, read. All
 * local. */
#ifndef TT_DIRECTORY_H
#define TT_DIRECTORY_H
#include "core/base/err.h"

#include <stdint.h>
#include <stdio.h>
TT_BEGIN_C

enum { TT_PATH_MAX = 4096 };

/* Begin of the paths of files that are in memory (io/files/memory.h). */
#define TT_MEMORY_ROOT "memory:/"

/* path = directory/name; a path that is too long becomes "", which no file can have. */
void tt_path_join(const char *directory, const char *name, char path[TT_PATH_MAX]);

/* Create a directory and its missing parents; it may exist already. Errors: CANTCREAT. */
tt_err tt_directory_create(const char *path);

/* Remove a directory with its contents; symbolic links are removed, not followed. The directory may
 * be missing. Errors: IO. */
tt_err tt_directory_remove(const char *path);

/* Remove the files of a directory whose names begin with `prefix`, and for which `matches` returns
 * 1. A missing directory counts as empty. Errors: IO. */
tt_err tt_directory_remove_files(const char *directory, const char *prefix,
                                 int (*matches)(const char *directory, const char *name));

/* The number in a name of the form <prefix><number><suffix>, where the number has at least `digits`
 * digits: ("ckpt-g000012.h5", "ckpt-g", 6, ".h5") is 12. -1 for any other name. */
int64_t tt_numbered_name_parse(const char *name, const char *prefix, int digits,
                               const char *suffix);

/* The numbers of all such names in a directory, ascending; a missing directory counts as empty, as
 * does a file in its place.
 *   number  [count] owner: the caller, tt_free
 * Errors: IO, MEM. */
tt_err tt_directory_list_numbers(const char *directory, const char *prefix, int digits,
                                 const char *suffix, int64_t **number, int64_t *count);

/* The first unused name of path.before-1, path.before-2, ...; with an entry (not "") of
 * path.before-1/entry, path.before-2/entry, ... Errors: IO (all used, or path too long). */
tt_err tt_backup_name(const char *path, const char *entry, char backup[TT_PATH_MAX]);

/* Rename `path`, or path/entry, to the name that tt_backup_name gives, and log it. It may be
 * missing. Errors: CANTCREAT, IO. */
tt_err tt_backup(const char *path, const char *entry);

/* *exists: whether there is a file or directory of this name. If the disk or a permission does not
 * let this be told, it is an error: it must not count as a missing file. Errors: IO. */
tt_err tt_file_exists(const char *path, int *exists);

/* Open a file to read it, as a descriptor or as a stream. A directory, FIFO, socket or device is
 * refused, and a FIFO without a writer is not waited for. Owner: the caller, close or fclose.
 * Errors: NOINPUT. */
tt_err tt_file_open_read(const char *path, int *fd);
tt_err tt_file_open_stream(const char *path, FILE **out);

/* Whether a new file may take the place of `path`: it is missing, a regular file, or a symbolic
 * link to one of the two, which is replaced. A directory, FIFO, socket or device, a link to one,
 * and links to open files such as /dev/stdout are refused. Errors: CANTCREAT. */
tt_err tt_file_check_replaceable(const char *path);

/* Whether a command may write `output`: it must not be one of the command's inputs (NULL: no such
 * input), must be replaceable, and must not exist, unless `force`. Errors: USAGE, CANTCREAT. */
tt_err tt_file_check_output(const char *output, int force, const char *const input[2]);

/* Read at most capacity - 1 bytes of a file and add a NUL. Errors: NOINPUT, IO. */
tt_err tt_file_read_text(const char *path, char *text, int64_t capacity);
TT_END_C
#endif
