/* memory.c — see memory.h. */
#include "io/files/memory.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local tt_memory_files *used;

void tt_memory_use(tt_memory_files *files) { used = files; }

void tt_memory_free(tt_memory_files *files)
{
  for (int i = 0; i < files->count; i++) free(files->file[i].owned);
  files->count = 0;
}

int tt_memory_is_path(const char *path)
{
  return used && !strncmp(path, TT_MEMORY_ROOT, strlen(TT_MEMORY_ROOT));
}

static tt_memory_file *find(const char *path)
{
  const char *name = strrchr(path, '/') + 1;
  for (int i = 0; i < used->count; i++)
    if (!strcmp(used->file[i].name, name)) return &used->file[i];
  return NULL;
}

const tt_memory_file *tt_memory_find(const char *path)
{
  return tt_memory_is_path(path) ? find(path) : NULL;
}

const char *tt_memory_name(int number)
{
  return used && number < used->count ? used->file[number].name : NULL;
}

tt_err tt_memory_put(const char *path, const void *bytes, int64_t size, void *owned)
{
  tt_memory_file *f = find(path);
  size_t length = strlen(strrchr(path, '/') + 1);
  if (!f && (used->count == TT_MEMORY_FILES || length >= sizeof f->name)) {
    free(owned);
    return TT_FAIL(MEM, "%s: at most %d files are in memory, with names of at most %zu characters",
                   path, TT_MEMORY_FILES, sizeof f->name - 1);
  }
  if (!f) f = &used->file[used->count++];
  free(f->owned);
  *f = (tt_memory_file){.bytes = bytes, .size = size, .owned = owned};
  memcpy(f->name, strrchr(path, '/') + 1, length + 1);
  return TT_OK;
}

tt_err tt_memory_put_text(const char *path, const char *text)
{
  char *copy = strdup(text);
  if (!copy) return TT_FAIL(MEM, "%s: out of host memory", path);
  return tt_memory_put(path, copy, (int64_t)strlen(copy), copy);
}
