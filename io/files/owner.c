/* owner.c — see owner.h. */
#include "io/files/owner.h"

#include "core/base/directory.h"
#include "core/base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct owned_directory {
  char directory[TT_PATH_MAX], incarnation[128];
  struct owned_directory *next;
} owned_directory;

static owned_directory *first; /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The place of a record in the list; the end of the list if there is none. Under lock. */
static owned_directory **find(const char *directory)
{
  owned_directory **at = &first;
  while (*at && strcmp((*at)->directory, directory) != 0) at = &(*at)->next;
  return at;
}

tt_err tt_owner_begin_local(const char *directory, const char *incarnation)
{
  tt_err e = TT_OK;
  pthread_mutex_lock(&lock);
  owned_directory **at = find(directory);
  if (!*at) e = TT_ALLOC(*at, 1);
  if (!e) {
    snprintf((*at)->directory, sizeof(*at)->directory, "%s", directory);
    snprintf((*at)->incarnation, sizeof(*at)->incarnation, "%s", incarnation);
  }
  pthread_mutex_unlock(&lock);
  return e;
}

void tt_owner_end_local(const char *directory)
{
  pthread_mutex_lock(&lock);
  owned_directory **at = find(directory), *end = *at;
  if (end) *at = end->next;
  pthread_mutex_unlock(&lock);
  tt_free(end);
}

static int contains(const char *directory, const char *path)
{
  size_t n = strlen(directory);
  return !strncmp(path, directory, n) &&
         (!path[n] || path[n] == '/' || (n > 0 && directory[n - 1] == '/'));
}

int tt_owner_covers_local(const char *path)
{
  int covers = 0;
  pthread_mutex_lock(&lock);
  for (const owned_directory *o = first; o; o = o->next) covers |= contains(o->directory, path);
  pthread_mutex_unlock(&lock);
  return covers;
}

static tt_err vanished(const owned_directory *o)
{
  int gone = access(o->directory, F_OK) != 0;
  return TT_FAIL(IO,
                 "%s%s has vanished during the run: it was removed or renamed; run again, and keep "
                 "other programs out of the directory",
                 o->directory, gone ? "" : "/owner");
}

static tt_err check_one(const owned_directory *o)
{
  char path[TT_PATH_MAX], owner[256];
  if (snprintf(path, sizeof path, "%s/owner", o->directory) >= TT_PATH_MAX)
    return TT_FAIL(IO, "%s: the path is too long", o->directory);
  tt_err e = tt_file_read_text(path, owner, sizeof owner);
  if (e == TT_E_NOINPUT && access(path, F_OK)) return vanished(o);
  if (e) return TT_FAIL(IO, "%s", tt_err_last());
  owner[strcspn(owner, "\n")] = '\0';
  if (!strcmp(owner, o->incarnation)) return TT_OK;
  return TT_FAIL(STOPPED,
                 "%s: another start of this run (%s) has taken the directory over from this start "
                 "(%s); this start stops and changes nothing any more",
                 o->directory, owner, o->incarnation);
}

/* Copy record number n; 0 if there is none. The lock is not held while a file is read: reading may
 * hang, and the watchdog then needs the lock. */
static int copy_record(int n, owned_directory *out)
{
  pthread_mutex_lock(&lock);
  const owned_directory *o = first;
  while (o && n-- > 0) o = o->next;
  if (o) *out = *o;
  pthread_mutex_unlock(&lock);
  return o != NULL;
}

tt_err tt_owner_check_local(const char *path)
{
  owned_directory o;
  for (int n = 0; copy_record(n, &o); n++)
    if (contains(o.directory, path)) TT_TRY(check_one(&o));
  return TT_OK;
}
