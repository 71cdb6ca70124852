/* faultio.c: LD_PRELOAD shim: one chosen file call of one chosen rank fails. For the fault tests.
 *
 *   FAULTIO_PATH    pattern (fnmatch) of full paths; without it the shim does nothing
 *   FAULTIO_OPS     which calls: write,open,fsync,ftruncate,rename (default write)
 *   FAULTIO_AT      the n-th matching call fails, counted from 1; 0 = none, all are logged
 *   FAULTIO_ERROR   ENOSPC (default), EIO, or SHORT: half of a write is done and reported
 *   FAULTIO_STICKY  1: all later matching calls fail too
 *   FAULTIO_RANK    only this rank (OMPI_COMM_WORLD_RANK; 0 without a launcher)
 *   FAULTIO_LOG     file to append to: "fired|seen RANK OP NUMBER PATH" */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };
typedef enum fate { GOES_ON, FAILS, IS_SHORT } fate;

static struct plan {
  const char *pattern, *ops, *log;
  int rank, error, is_short, sticky;
  long at;
} plan;
static long calls;

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
  plan.is_short = !strcmp(error, "SHORT");
  plan.error = !strcmp(error, "EIO") ? EIO : ENOSPC;
  if (atoi(value_of("FAULTIO_RANK", "-1")) == plan.rank || !getenv("FAULTIO_RANK"))
    plan.pattern = getenv("FAULTIO_PATH");
}

/* The C library's own function, found once. memcpy because ISO C keeps data and code apart. */
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

static fate judge(const char *op, const char *path)
{
  if (!plan.pattern || !strstr(plan.ops, op) || fnmatch(plan.pattern, path, 0) != 0) return GOES_ON;
  long number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  int fires = plan.at > 0 && (number == plan.at || (plan.sticky && number > plan.at));
  int keep = errno;
  if (fires || plan.at == 0) note(fires ? "fired" : "seen", op, number, path);
  errno = keep;
  if (!fires) return GOES_ON;
  return plan.is_short && !strcmp(op, "write") ? IS_SHORT : FAILS;
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

/* The count a failing write gets: -1 = an error (errno is set), else the bytes to write. */
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
  ssize_t n = cut(judge_file("write", fd), count);
  return n < 0 ? n : real(fd, data, (size_t)n, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset)
{
  REAL(pwrite64)
  ssize_t n = cut(judge_file("write", fd), count);
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

int fsync(int fd)
{
  REAL(fsync)
  return judge_file("fsync", fd) ? fail_with(plan.error) : real(fd);
}

int fdatasync(int fd)
{
  REAL(fdatasync)
  return judge_file("fsync", fd) ? fail_with(plan.error) : real(fd);
}

int ftruncate(int fd, off_t length)
{
  REAL(ftruncate)
  return judge_file("ftruncate", fd) ? fail_with(plan.error) : real(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
  REAL(ftruncate64)
  return judge_file("ftruncate", fd) ? fail_with(plan.error) : real(fd, length);
}

int rename(const char *from, const char *to)
{
  REAL(rename)
  return judge_name("rename", to) ? fail_with(plan.error) : real(from, to);
}

/* The mode that comes with O_CREAT. */
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
