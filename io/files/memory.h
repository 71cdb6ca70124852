/* memory.h — files that are in memory and not on a disk: those of a training without a run
 * directory. Their paths begin with TT_MEMORY_ROOT (core/base/directory.h), and only their names
 * count, not the folders before. Each thread has its own. All functions are local. */
#ifndef TT_MEMORY_H
#define TT_MEMORY_H
#include "core/base/directory.h"

typedef struct tt_memory_file {
  char name[32];     /* without directory */
  const void *bytes; /* [size] */
  int64_t size;
  void *owned; /* of malloc: the bytes, or NULL if they are borrowed */
} tt_memory_file;

enum { TT_MEMORY_FILES = 8 };
typedef struct tt_memory_files {
  int count;
  tt_memory_file file[TT_MEMORY_FILES];
} tt_memory_files;

/* From now on these are the files in memory of this thread; NULL: it has none. Borrowed. */
void tt_memory_use(tt_memory_files *files);
void tt_memory_free(tt_memory_files *files);

/* Whether a path is that of a file in memory, which need not exist, or of their directory. */
int tt_memory_is_path(const char *path);

/* The file of this path; NULL: there is none. */
const tt_memory_file *tt_memory_find(const char *path);

/* Name of a file by its number from 0 on; NULL: there is none. */
const char *tt_memory_name(int number);

/* Make or replace a file.
 *   owned  NULL: the bytes are borrowed, until the file is freed; otherwise they are of malloc, and
 *          the file's from now on, also after an error
 * Errors: MEM (too many files). */
tt_err tt_memory_put(const char *path, const void *bytes, int64_t size, void *owned);
/* The same with a copy of a text. */
tt_err tt_memory_put_text(const char *path, const char *text);
#endif
