/* inbox.c — see requests.h: requests and answers as files. */
#include "src/campaign/points/points_internal.h"
#include "src/campaign/points/requests.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/checkpoint/checkpoint.h"
#include "io/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_DIGITS = 16, MIN_NAP_MS = 2, CLIENT_NAP_MS = 40, STALE_SECONDS = 600 };
static const double answer_seconds = 60.0; /* a process waits so long for another one */

static void inbox_path(const char *directory, const char *name, const char *end,
                       char path[TT_PATH_MAX])
{
  char file[64];
  snprintf(file, sizeof file, "inbox/%.40s%s", name, end);
  tt_path_join(directory, file, path);
}

/* Answering */

static tt_err answer_one(tt_points *p, const char *directory, const char *name)
{
  char path[TT_PATH_MAX], answered[TT_PATH_MAX], *text = NULL;
  json_t *request = NULL, *answer = NULL;
  inbox_path(directory, name, ".json", path);
  inbox_path(directory, name, ".answer", answered);
  tt_err e = tt_json_read_file(path, &request);
  if (e == TT_E_NOINPUT) return TT_OK; /* given up meanwhile */
  if (!e) e = tt_request_answer_local(p, name, request, &answer);
  json_decref(request);
  if (e == TT_E_DATA)
    answer = json_pack("{s:i, s:s}", "code", tt_err_exit_code(e), "error", tt_err_last());
  else if (e)
    return e;
  e = tt_json_line(answer, &text);
  json_decref(answer);
  if (!e) e = tt_file_replace_local(answered, text);
  tt_free(text);
  return e || !unlink(path) || errno == ENOENT ? e : TT_FAIL_ERRNO(IO, "%s", path);
}

/* Remove a file of the inbox that a killed process has left: nobody waits for an answer so long. */
static int remove_stale(const char *path)
{
  struct stat is;
  return stat(path, &is) || (time(NULL) - is.st_mtime > STALE_SECONDS && !unlink(path));
}

static int is_file(const struct dirent *entry)
{
  return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, "lock");
}

/* Answer all requests in the inbox; *answered: their number. */
static tt_err answer_all(tt_points *p, const char *directory, int64_t *answered)
{
  struct dirent **entry = NULL;
  char inbox[TT_PATH_MAX], path[TT_PATH_MAX];
  tt_err e = TT_OK;
  *answered = 0;
  tt_path_join(directory, "inbox", inbox);
  int n = scandir(inbox, &entry, is_file, alphasort);
  for (int i = 0; i < n; i++) {
    char *name = entry[i]->d_name;
    tt_path_join(inbox, name, path);
    int stale = remove_stale(path);
    if (!stale && !e && strlen(name) == NAME_DIGITS + 5 && !strcmp(name + NAME_DIGITS, ".json")) {
      name[NAME_DIGITS] = '\0';
      e = answer_one(p, directory, name);
      *answered += !e;
    }
    free(entry[i]);
  }
  free(entry);
  return e;
}

/* The thread of a campaign */

struct tt_inbox {
  tt_points *points;
  char *directory;
  int most_ms;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  int end; /* under lock */
};

/* 1 = the end. */
static int nap(tt_inbox *b, int milliseconds)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 1000000L * milliseconds;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  pthread_mutex_lock(&b->lock);
  if (!b->end) (void)pthread_cond_timedwait(&b->ended, &b->lock, &until);
  int end = b->end;
  pthread_mutex_unlock(&b->lock);
  return end;
}

/* An error is logged once; the requests stay. Once another start owns the directory, it answers. */
static void *answer_until_end(void *inbox)
{
  tt_inbox *b = inbox;
  int milliseconds = MIN_NAP_MS, logged = 0;
  while (!nap(b, milliseconds)) {
    int64_t answered = 0;
    tt_err e = answer_all(b->points, b->directory, &answered);
    if (e == TT_E_STOPPED) break;
    if (e && !logged) tt_log_root(TT_LOG_WARN, "requests are not answered: %s", tt_err_last());
    logged = e != TT_OK;
    milliseconds = answered                        ? MIN_NAP_MS
                   : milliseconds < b->most_ms / 2 ? 2 * milliseconds
                                                   : b->most_ms;
  }
  return NULL;
}

tt_err tt_inbox_begin_local(tt_points *p, const char *directory, int most_ms, tt_inbox **out)
{
  tt_inbox *b = NULL;
  *out = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->points = p;
  b->most_ms = most_ms;
  tt_err e = tt_text_set(&b->directory, directory);
  pthread_mutex_init(&b->lock, NULL);
  pthread_cond_init(&b->ended, NULL);
  if (!e && pthread_create(&b->thread, NULL, answer_until_end, b))
    e = TT_FAIL(MEM, "no thread for the requests of tutti ask and tutti tell");
  if (e) tt_free_all(&b->directory, &b);
  *out = b;
  return e;
}

void tt_inbox_end_local(tt_inbox **inbox)
{
  tt_inbox *b = *inbox;
  if (!b) return;
  pthread_mutex_lock(&b->lock);
  b->end = 1;
  pthread_cond_signal(&b->ended);
  pthread_mutex_unlock(&b->lock);
  pthread_join(b->thread, NULL);
  pthread_cond_destroy(&b->ended);
  pthread_mutex_destroy(&b->lock);
  tt_free_all(&b->directory, inbox);
}

/* A process without a campaign */

/* *fd: of the lock file, -1 = another process has it. */
static tt_err take_lock(const char *directory, int *fd)
{
  char path[TT_PATH_MAX];
  tt_path_join(directory, "inbox/lock", path);
  *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (*fd < 0) return TT_FAIL_ERRNO(CANTCREAT, "%s", path);
  if (!flock(*fd, LOCK_EX | LOCK_NB)) return TT_OK;
  tt_err e = errno == EWOULDBLOCK ? TT_OK : TT_FAIL_ERRNO(IO, "%s: flock", path);
  close(*fd);
  *fd = -1;
  return e;
}

tt_err tt_inbox_wait_local(const char *directory)
{
  double until = tt_monotonic_seconds() + answer_seconds;
  char path[TT_PATH_MAX];
  int fd = -1;
  tt_path_join(directory, "inbox/lock", path);
  if (access(path, F_OK)) return TT_OK;
  for (; fd < 0 && tt_monotonic_seconds() < until; poll(NULL, 0, MIN_NAP_MS))
    TT_TRY(take_lock(directory, &fd));
  if (fd < 0)
    return TT_FAIL(STOPPED,
                   "%s: tutti ask or tutti tell has the lock for %g s; end that process, and run "
                   "again",
                   path, answer_seconds);
  close(fd);
  return TT_OK;
}

/* If no campaign runs, answer all requests. Another process may do it at the same time. */
static tt_err answer_alone(const char *directory, const char *who)
{
  tt_points *p = NULL;
  int64_t answered;
  int fd = -1;
  tt_err e = tt_ckpt_may_be_running_local(directory) ? TT_OK : take_lock(directory, &fd);
  if (fd < 0) return e;
  if (!tt_ckpt_may_be_running_local(directory)) {
    e = tt_points_open_local(directory, TT_LINE_LOG_append, NULL, NULL, who, &p);
    if (!e) e = answer_all(p, directory, &answered);
    tt_points_close_local(&p);
  }
  close(fd);
  return e == TT_E_STOPPED ? TT_OK : e; /* a campaign has begun: it answers */
}

/* *out NULL: there is no answer yet. */
static tt_err take_answer(const char *directory, const char *name, json_t **out)
{
  char path[TT_PATH_MAX];
  int exists = 0;
  *out = NULL;
  inbox_path(directory, name, ".answer", path);
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_OK;
  TT_TRY(tt_json_read_file(path, out));
  unlink(path);
  return TT_OK;
}

static tt_err wait_for_answer(const char *directory, const char *name, const char *who,
                              json_t **out)
{
  double until = tt_monotonic_seconds() + answer_seconds;
  int milliseconds = MIN_NAP_MS;
  for (;;) {
    TT_TRY(answer_alone(directory, who));
    TT_TRY(take_answer(directory, name, out));
    if (*out) return TT_OK;
    if (tt_monotonic_seconds() > until) break;
    poll(NULL, 0, milliseconds);
    if (milliseconds < CLIENT_NAP_MS) milliseconds *= 2;
  }
  return TT_FAIL(STOPPED,
                 "%s: the campaign that runs there (%s/owner) has not answered for %g s; try "
                 "again, or, if it was killed on another machine, remove %s/owner",
                 directory, directory, answer_seconds, directory);
}

/* The error that an answer has. */
static tt_err error_of(const json_t *answer)
{
  int code = (int)json_integer_value(json_object_get(answer, "code"));
  const char *text = json_string_value(json_object_get(answer, "error"));
  if (!code) return TT_OK;
  return code == tt_err_exit_code(TT_E_STOPPED) ? TT_FAIL(STOPPED, "%s", text ? text : "")
                                                : TT_FAIL(DATA, "%s", text ? text : "");
}

tt_err tt_inbox_send_local(const char *directory, const char *who, json_t *request, json_t **out)
{
  char path[TT_PATH_MAX], name[NAME_DIGITS + 1], *text = NULL;
  uint64_t random = 0;
  *out = NULL;
  tt_path_join(directory, "inbox", path);
  tt_err e = tt_json_line(request, &text);
  json_decref(request);
  if (!e) e = tt_directory_create(path);
  if (!e && getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    e = TT_FAIL_ERRNO(CANTCREAT, "no random number for a request");
  snprintf(name, sizeof name, "%016" PRIx64, random);
  inbox_path(directory, name, ".json", path);
  if (!e) e = tt_file_replace_local(path, text);
  tt_free(text);
  if (!e) e = wait_for_answer(directory, name, who, out);
  if (e) unlink(path); /* what has failed is not done later */
  if (!e) e = error_of(*out);
  return e;
}
