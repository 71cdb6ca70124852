/* faultio.c: LD_PRELOAD library: one file call of one rank fails, or the process stops before it
 * (SIGSTOP). For the fault tests.
 *
 *   FAULTIO_PATH    pattern (fnmatch, extended) of full paths; without it the shim does nothing
 *   FAULTIO_OPS     which calls, with commas: write (also writev), pwrite, read (also pread), open
 *                   (also fopen), close (also fclose), seek, stat (also access), fsync, ftruncate,
 *                   fallocate, rename, unlink, mkdir, opendir, readdir (default write)
 *   FAULTIO_AT      the n-th matching call fails, counted from 1; 0 = none, all are logged
 *   FAULTIO_ERROR   ENOSPC (default), EIO, SHORT (half of a write is done and reported), STOP
 *                   (the process stops, and after SIGCONT the call is made), or SLOW (the call is
 *                   made half a second later)
 *   FAULTIO_STICKY  1: all later matching calls fail too
 *   FAULTIO_RANK    only this rank (OMPI_COMM_WORLD_RANK; 0 without a launcher)
 *   FAULTIO_LOG     file to append to: "fired|seen RANK OP NUMBER PATH"
 *   FAULTIO_CLOCK   seconds by which the wall clock of all ranks jumps (may be negative)
 *   FAULTIO_CLOCK_AT  the n-th reading of the clock is the first after the jump (default 1) */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };
typedef enum fate { GOES_ON, FAILS, IS_SHORT } fate;

static struct plan {
  const char *pattern, *ops, *log;
  int rank, error, is_short, stops, is_slow, sticky;
  long at, clock_jump, clock_at;
} plan;
static long calls, readings;

static const char *value_of(const char *name, const char *otherwise)
{
  const char *value = getenv(name);
  return value ? value : otherwise;
}

__attribute__((constructor)) static void read_plan(void)
{
  const char *error = value_of("FAULTIO_ERROR", "ENOSPC");
  plan.rank = atoi(value_of("OMPI_COMM_WORLD_RANK", "0"));
  plan.ops = value_of("FAULTIO_OPS", "write");
  plan.at = atol(value_of("FAULTIO_AT", "0"));
  plan.sticky = atoi(value_of("FAULTIO_STICKY", "0"));
  plan.log = value_of("FAULTIO_LOG", NULL);
  plan.clock_jump = atol(value_of("FAULTIO_CLOCK", "0"));
  plan.clock_at = atol(value_of("FAULTIO_CLOCK_AT", "1"));
  plan.is_short = !strcmp(error, "SHORT");
  plan.stops = !strcmp(error, "STOP");
  plan.is_slow = !strcmp(error, "SLOW");
  plan.error = !strcmp(error, "EIO") ? EIO : ENOSPC;
  if (atoi(value_of("FAULTIO_RANK", "-1")) == plan.rank || !getenv("FAULTIO_RANK"))
    plan.pattern = getenv("FAULTIO_PATH");
}

/* The function of the C library, found once. memcpy, because ISO C has no cast from data pointers
 * to function pointers. */
#define REAL(name_)                                                                                \
  static __typeof__(name_) *real;                                                                  \
  if (!real) {                                                                                     \
    void *found = dlsym(RTLD_NEXT, #name_);                                                        \
    memcpy(&real, &found, sizeof real);                                                            \
  }

static void note(const char *what, const char *op, long number, const char *path)
{
  char line[PATH_ROOM + 64];
  if (!plan.log) return;
  int length = snprintf(line, sizeof line, "%s %d %s %ld %s\n", what, plan.rank, op, number, path);
  int fd = open(plan.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, line, (size_t)length) < length) fputs("faultio: the log is incomplete\n", stderr);
  close(fd);
}

/* Whether `op` is one of the words of plan.ops. */
static int is_planned(const char *op)
{
  size_t length = strlen(op);
  for (const char *cursor = plan.ops; cursor; cursor = strchr(cursor, ',')) {
    cursor += *cursor == ',';
    if (!strncmp(cursor, op, length) && (cursor[length] == ',' || !cursor[length])) return 1;
  }
  return 0;
}

static fate judge(const char *op, const char *path)
{
  if (!plan.pattern || !is_planned(op) || fnmatch(plan.pattern, path, FNM_EXTMATCH)) return GOES_ON;
  long number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  int fires = plan.at > 0 && (number == plan.at || (plan.sticky && number > plan.at));
  int keep = errno;
  if (fires || plan.at == 0) note(fires ? "fired" : "seen", op, number, path);
  errno = keep;
  if (fires && plan.stops) raise(SIGSTOP);
  if (fires && plan.is_slow) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  if (!fires || plan.stops || plan.is_slow) return GOES_ON;
  return plan.is_short && strstr(op, "write") ? IS_SHORT : FAILS;
}

static fate judge_file(const char *op, int fd)
{
  char link[64], path[PATH_ROOM];
  if (!plan.pattern) return GOES_ON;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return GOES_ON;
  path[length] = '\0';
  return judge(op, path);
}

static fate judge_name(const char *op, const char *name)
{
  char folder[PATH_ROOM], path[2 * PATH_ROOM];
  if (!plan.pattern || name[0] == '/') return judge(op, name);
  if (!getcwd(folder, sizeof folder)) return GOES_ON;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return judge(op, path);
}

static int fail_with(int error)
{
  errno = error;
  return -1;
}

/* The size for a failing write: -1 = an error (errno is set), else the bytes to write. */
static ssize_t cut(fate f, size_t count)
{
  if (f == GOES_ON) return (ssize_t)count;
  if (f == IS_SHORT && count > 1) return (ssize_t)(count / 2);
  return fail_with(plan.error);
}

ssize_t write(int fd, const void *data, size_t count)
{
  REAL(write)
  ssize_t n = cut(judge_file("write", fd), count);
  return n < 0 ? n : real(fd, data, (size_t)n);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset)
{
  REAL(pwrite)
  ssize_t n = cut(judge_file("pwrite", fd), count);
  return n < 0 ? n : real(fd, data, (size_t)n, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset)
{
  REAL(pwrite64)
  ssize_t n = cut(judge_file("pwrite", fd), count);
  return n < 0 ? n : real(fd, data, (size_t)n, offset);
}

ssize_t writev(int fd, const struct iovec *part, int parts)
{
  REAL(writev)
  fate f = judge_file("write", fd);
  if (f == GOES_ON || parts < 1) return real(fd, part, parts);
  ssize_t n = cut(f, part->iov_len);
  struct iovec half = {part->iov_base, (size_t)n};
  return n < 0 ? n : real(fd, &half, 1);
}

/* Calls of one file: type, name, parameters, operation, the file, arguments. */
#define FAIL_BY_FILE(type_, name_, parameters_, op_, fd_, arguments_)                              \
  type_ name_ parameters_                                                                          \
  {                                                                                                \
    REAL(name_)                                                                                    \
    return judge_file(op_, fd_) ? (type_)fail_with(plan.error) : real arguments_;                  \
  }
FAIL_BY_FILE(ssize_t, read, (int fd, void *data, size_t count), "read", fd, (fd, data, count))
FAIL_BY_FILE(ssize_t, pread, (int fd, void *data, size_t count, off_t offset), "read", fd,
             (fd, data, count, offset))
FAIL_BY_FILE(ssize_t, pread64, (int fd, void *data, size_t count, off64_t offset), "read", fd,
             (fd, data, count, offset))
FAIL_BY_FILE(off_t, lseek, (int fd, off_t offset, int whence), "seek", fd, (fd, offset, whence))
FAIL_BY_FILE(off64_t, lseek64, (int fd, off64_t offset, int whence), "seek", fd,
             (fd, offset, whence))
FAIL_BY_FILE(int, fsync, (int fd), "fsync", fd, (fd))
FAIL_BY_FILE(int, fdatasync, (int fd), "fsync", fd, (fd))
FAIL_BY_FILE(int, ftruncate, (int fd, off_t length), "ftruncate", fd, (fd, length))
FAIL_BY_FILE(int, ftruncate64, (int fd, off64_t length), "ftruncate", fd, (fd, length))
FAIL_BY_FILE(int, fallocate, (int fd, int mode, off_t offset, off_t length), "fallocate", fd,
             (fd, mode, offset, length))
FAIL_BY_FILE(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length), "fallocate", fd,
             (fd, mode, offset, length))
FAIL_BY_FILE(int, fstat, (int fd, struct stat *s), "stat", fd, (fd, s))
FAIL_BY_FILE(int, fstat64, (int fd, struct stat64 *s), "stat", fd, (fd, s))

/* Calls of a name. */
#define FAIL_BY_NAME(name_, parameters_, op_, path_, arguments_)                                   \
  int name_ parameters_                                                                            \
  {                                                                                                \
    REAL(name_)                                                                                    \
    return judge_name(op_, path_) ? fail_with(plan.error) : real arguments_;                       \
  }
FAIL_BY_NAME(stat, (const char *name, struct stat *s), "stat", name, (name, s))
FAIL_BY_NAME(stat64, (const char *name, struct stat64 *s), "stat", name, (name, s))
FAIL_BY_NAME(lstat, (const char *name, struct stat *s), "stat", name, (name, s))
FAIL_BY_NAME(lstat64, (const char *name, struct stat64 *s), "stat", name, (name, s))
FAIL_BY_NAME(access, (const char *name, int mode), "stat", name, (name, mode))
FAIL_BY_NAME(rename, (const char *src, const char *dst), "rename", dst, (src, dst))
FAIL_BY_NAME(unlink, (const char *name), "unlink", name, (name))
FAIL_BY_NAME(mkdir, (const char *name, mode_t mode), "mkdir", name, (name, mode))

DIR *opendir(const char *name)
{
  REAL(opendir)
  if (!judge_name("opendir", name)) return real(name);
  errno = plan.error;
  return NULL;
}

struct dirent *readdir(DIR *directory)
{
  REAL(readdir)
  if (judge_file("readdir", dirfd(directory)) == GOES_ON) return real(directory);
  errno = plan.error;
  return NULL;
}

/* As in Linux, the descriptor is closed even if there is an error. */
int close(int fd)
{
  REAL(close)
  fate f = judge_file("close", fd);
  int result = real(fd);
  return f ? fail_with(plan.error) : result;
}

int fclose(FILE *file)
{
  REAL(fclose)
  fate f = judge_file("close", fileno(file));
  int result = real(file);
  return f ? fail_with(plan.error) : result;
}

FILE *fopen(const char *name, const char *mode)
{
  REAL(fopen)
  if (!judge_name("open", name)) return real(name, mode);
  errno = plan.error;
  return NULL;
}

/* The mode argument of a call with O_CREAT. */
#define MODE(flags_, last_)                                                                        \
  mode_t mode = 0;                                                                                 \
  if ((flags_) & (O_CREAT | O_TMPFILE)) {                                                          \
    va_list list;                                                                                  \
    va_start(list, last_);                                                                         \
    mode = va_arg(list, mode_t);                                                                   \
    va_end(list);                                                                                  \
  }

int open(const char *name, int flags, ...)
{
  REAL(open)
  MODE(flags, flags)
  return judge_name("open", name) ? fail_with(plan.error) : real(name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
  REAL(open64)
  MODE(flags, flags)
  return judge_name("open", name) ? fail_with(plan.error) : real(name, flags, mode);
}

/* Seconds to add to this reading of the wall clock. */
static time_t jump(void)
{
  if (!plan.clock_jump) return 0;
  return __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED) < plan.clock_at ? 0 : plan.clock_jump;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  REAL(clock_gettime)
  int failed = real(clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return failed;
}

time_t time(time_t *now)
{
  struct timespec t = {0, 0};
  clock_gettime(CLOCK_REALTIME, &t);
  if (now) *now = t.tv_sec;
  return t.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone)
{
  struct timespec t = {0, 0};
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &t);
  *now = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
  return 0;
}
