/* process_start.c — see process.h: programs in the background.
 *
 * vfork, not fork: a process that uses GPUs or has memory registered with the network must not be
 * copied. Until exec the child uses the parent's memory, so it only makes system calls. An emulator
 * may copy the memory nevertheless, so the child reports a failed start through a pipe. */
#include "core/base/process.h"

#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prefixes of the variables that MPI launchers set. */
static const char *const launcher_prefix[] = {
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_NUM_APP_CTX",
    "OMPI_FIRST_RANKS",
    "OMPI_APP_CTX",
    "OMPI_COMMAND",
    "OMPI_ARGV",
    "OMPI_FILE_LOCATION",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_shmem_RUN",
    "PMIX_",
    "PMI_",
    "PMI2_",
    "PRTE_",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_",
    "MV2_COMM_WORLD_",
    "PALS_RANK",
    "FLUX_TASK_",
    "JSM_NAMESPACE_",
};

static int is_launcher_variable(const char *variable)
{
  for (size_t i = 0; i < sizeof launcher_prefix / sizeof *launcher_prefix; i++)
    if (!strncmp(variable, launcher_prefix[i], strlen(launcher_prefix[i]))) return 1;
  return 0;
}

int tt_process_is_launched_local(void)
{
  const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
  if (tasks && atoi(tasks) > 1) return 1;
  for (int64_t i = 0; environ[i]; i++)
    if (is_launcher_variable(environ[i])) return 1;
  return 0;
}

/* The environment without the variables of launchers and those that `drops` names; the strings are
 * borrowed from environ. Errors: MEM. */
static tt_err reduced_environment(int (*drops)(const char *variable), char ***out)
{
  int64_t n = 0, kept = 0;
  while (environ[n]) n++;
  TT_TRY(TT_ALLOC(*out, n + 1));
  for (int64_t i = 0; i < n; i++)
    if (!is_launcher_variable(environ[i]) && !(drops && drops(environ[i])))
      (*out)[kept++] = environ[i];
  return TT_OK;
}

/* Descriptor of the pipe in the child, after the standard ones. */
enum { REPORT_FILENO = STDERR_FILENO + 1 };

/* What the child needs between its start and exec. */
typedef struct launch {
  const tt_process_options *options;
  char **environment;
  int input, output, report; /* report: where the child writes the errno of a failed start */
  int max_files;
  pid_t parent;
} launch;

static void close_from(int first, int end)
{
#ifdef SYS_close_range
  if (!syscall(SYS_close_range, (unsigned)first, ~0U, 0U)) return;
#endif
  for (int fd = first; fd < end; fd++) close(fd);
}

/* In the child: the signals, files and process group of a fresh program. */
static void reset_process_state(const launch *b)
{
  struct sigaction act;
  sigset_t none;
  memset(&act, 0, sizeof act);
  for (int s = 1; s <= SIGRTMAX; s++) {
    act.sa_handler = s == SIGUSR1 ? SIG_IGN : SIG_DFL;
    sigaction(s, &act, NULL);
  }
  setpgid(0, 0);
  dup2(b->input, STDIN_FILENO);
  dup2(b->output, STDOUT_FILENO);
  dup2(b->output, STDERR_FILENO);
  if (b->report != REPORT_FILENO) dup3(b->report, REPORT_FILENO, O_CLOEXEC);
  close_from(REPORT_FILENO + 1, b->max_files);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child(const launch *b)
{
  reset_process_state(b);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != b->parent) _exit(127); /* the parent had already died before prctl */
  if (!b->options->directory || !chdir(b->options->directory))
    execvpe(b->options->argv[0], b->options->argv, b->environment);
  int reason = errno;
  (void)!write(REPORT_FILENO, &reason, sizeof reason);
  _exit(127);
}

/* The parent is suspended until the child has called exec or _exit. */
static __attribute__((noinline)) pid_t vfork_and_exec(const launch *b)
{
  pid_t pid = vfork();
  if (!pid) child(b);
  return pid;
}

/* The errno that the child has written, 0 if exec has closed its end of the pipe. */
static int read_report(int pipe)
{
  int reason = 0;
  ssize_t n;
  do n = read(pipe, &reason, sizeof reason);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof reason ? reason : 0;
}

/* No signal handler runs in the child. */
static pid_t start_child(const launch *b)
{
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  pid_t pid = vfork_and_exec(b);
  int reason = errno;
  sigprocmask(SIG_SETMASK, &before, NULL);
  errno = reason;
  return pid;
}

static int start(launch *b, pid_t *pid)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return errno;
  /* Never 0, 1 or 2: dup2 in the child would overwrite it. */
  b->report = fcntl(ends[1], F_DUPFD_CLOEXEC, REPORT_FILENO);
  int e = b->report < 0 ? errno : 0;
  close(ends[1]);
  if (!e && (*pid = start_child(b)) < 0) e = errno;
  if (b->report >= 0) close(b->report);
  if (!e) e = read_report(ends[0]);
  close(ends[0]);
  if (e && *pid > 0)
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
      ;
  if (e) *pid = 0;
  return e;
}

/* Never a descriptor 0, 1 or 2: dup2 in the child would overwrite it or do nothing. */
static int open_above_stderr(const char *path, int flags)
{
  int fd = open(path, flags | O_CLOEXEC, 0666);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return high;
}

int tt_process_start(const tt_process_options *o, pid_t *pid)
{
  launch b = {.options = o, .parent = getpid(), .max_files = (int)sysconf(_SC_OPEN_MAX)};
  *pid = 0;
  if (reduced_environment(o->drops, &b.environment)) return ENOMEM;
  b.input = open_above_stderr("/dev/null", O_RDONLY);
  b.output =
      b.input < 0 ? -1 : open_above_stderr(o->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  int e = b.output < 0 ? errno : start(&b, pid);
  if (b.input >= 0) close(b.input);
  if (b.output >= 0) close(b.output);
  tt_free(b.environment);
  return e;
}

int tt_process_has_exited(pid_t pid, int *status)
{
  siginfo_t info = {0};
  int got;
  do got = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
  while (got < 0 && errno == EINTR);
  if (!got && !info.si_pid) return 0;
  if (!got) kill(-pid, SIGKILL); /* before waitpid the pid cannot be reused */
  *status = 2 << 8;              /* unknown: another waitpid has taken the status */
  while (waitpid(pid, status, 0) < 0 && errno == EINTR)
    ;
  return 1;
}

void tt_process_kill(pid_t pid)
{
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    ;
}

/* The placeholder that begins at `text`, or NULL. */
static const tt_placeholder *placeholder_at(const char *text, const tt_placeholder *placeholder,
                                            int placeholders)
{
  if (*text != '{') return NULL;
  for (int i = 0; i < placeholders; i++) {
    size_t n = strlen(placeholder[i].name);
    if (!strncmp(text + 1, placeholder[i].name, n) && text[n + 1] == '}') return &placeholder[i];
  }
  return NULL;
}

/* Length of `text` with its placeholders replaced; written to `dst` unless `dst` is NULL. */
static size_t expand(const char *text, const tt_placeholder *placeholder, int placeholders,
                     char *dst)
{
  size_t length = 0;
  while (*text) {
    const tt_placeholder *w = placeholder_at(text, placeholder, placeholders);
    size_t n = w ? strlen(w->value) : 1;
    if (dst) memcpy(dst + length, w ? w->value : text, n);
    length += n;
    text += w ? strlen(w->name) + 2 : 1;
  }
  if (dst) dst[length] = '\0';
  return length;
}

tt_err tt_argv_expand(char *const *command, int64_t count, const tt_placeholder *placeholder,
                      int placeholders, char ***argv)
{
  char *block = NULL;
  size_t head = (size_t)(count + 1) * sizeof **argv, bytes = head;
  for (int64_t i = 0; i < count; i++)
    bytes += expand(command[i], placeholder, placeholders, NULL) + 1;
  TT_TRY(tt_alloc_bytes(&block, (int64_t)bytes, 1, "the arguments of a command"));
  *argv = (char **)(void *)block;
  char *dst = block + head;
  for (int64_t i = 0; i < count; i++) {
    (*argv)[i] = dst;
    dst += expand(command[i], placeholder, placeholders, dst) + 1;
  }
  return TT_OK;
}

/* Whether dir/name is a file that may be executed: 0, or an errno. */
static int check_executable(int length, const char *dir, const char *name)
{
  char path[4096];
  struct stat is;
  if (snprintf(path, sizeof path, "%.*s%s%s", length, dir, length ? "/" : "", name) >=
      (int)sizeof path)
    return ENAMETOOLONG;
  if (stat(path, &is)) return errno;
  if (S_ISDIR(is.st_mode)) return EACCES;
  return access(path, X_OK) ? errno : 0;
}

int tt_process_find(const char *program, const char *directory)
{
  const char *path = getenv("PATH");
  int best = ENOENT;
  if (*program == '/') return check_executable(0, "", program);
  if (strchr(program, '/')) return check_executable((int)strlen(directory), directory, program);
  for (const char *cursor = path ? path : "/usr/bin:/bin"; best && cursor;) {
    int n = (int)strcspn(cursor, ":"), e = check_executable(n, cursor, program);
    if (!e || e == EACCES) best = e;
    cursor = cursor[n] ? cursor + n + 1 : NULL;
  }
  return best;
}
