/* scratch.h — a directory for one test program that all ranks know, removed at the end. */
#ifndef TT_SCRATCH_H
#define TT_SCRATCH_H
#include "core/base/directory.h"
#include "mpi/comm.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRATCH_ROOM = 1024 };

/* Collective. Rank 0 makes the name; "" if there is no directory. */
static inline void scratch_begin(tt_comm *c, char directory[SCRATCH_ROOM])
{
  const char *where = getenv("TMPDIR");
  snprintf(directory, SCRATCH_ROOM, "%s/tutti-test-XXXXXX", where && where[0] ? where : "/tmp");
  if (tt_comm_is_root(c) && !mkdtemp(directory)) directory[0] = 0;
  tt_bcast(c, directory, SCRATCH_ROOM);
}

/* Number of files in a directory whose name begins with `prefix`. Local. */
static inline int scratch_count(const char *directory, const char *prefix)
{
  int n = 0;
  DIR *d = opendir(directory);
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
    n += !strncmp(e->d_name, prefix, strlen(prefix)) && strcmp(e->d_name, ".") != 0 &&
         strcmp(e->d_name, "..") != 0;
  if (d) closedir(d);
  return n;
}

/* Collective. */
static inline void scratch_end(tt_comm *c, const char *directory)
{
  tt_barrier(c);
  if (tt_comm_is_root(c)) tt_directory_remove(directory);
}

/* Create an empty file. Local. Returns 0 on success. */
static inline int touch(const char *directory, const char *name)
{
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  return fd < 0 ? -1 : close(fd);
}

/* Captures stderr of this rank between begin and end. Local. */
typedef struct hearing {
  char path[2 * SCRATCH_ROOM];
  int kept;
} hearing;

static inline void hear_begin(const tt_comm *c, const char *directory, hearing *h)
{
  snprintf(h->path, sizeof h->path, "%s/stderr-%d", directory, tt_comm_rank(c));
  fflush(stderr);
  h->kept = dup(STDERR_FILENO);
  int fd = open(h->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

static inline void hear_end(hearing *h, char text[TT_ERR_MESSAGE_SIZE])
{
  fflush(stderr);
  dup2(h->kept, STDERR_FILENO);
  close(h->kept);
  FILE *f = fopen(h->path, "r");
  size_t n = f ? fread(text, 1, TT_ERR_MESSAGE_SIZE - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
}
#endif
