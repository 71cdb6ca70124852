/* test_process.c — child processes: they start without inherited state and end in time. */
#include "core/base/mem.h"
#include "core/base/process.h"
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Copies the memory, as emulators do (qemu-user): the parent sees nothing that the child stores. The
 * tests of campaigns use the vfork of the C library. */
pid_t vfork(void) { return fork(); }

static pid_t start(const char *script, const char *argument, const char *output)
{
  char *const argv[] = {"sh", "-c", (char *)(uintptr_t)script, "sh", (char *)(uintptr_t)argument,
                        NULL};
  tt_process_options o = {argv, test_folder, output, NULL};
  pid_t pid = 0;
  TT_CHECK(tt_process_start(&o, &pid), ==, 0);
  return pid;
}

static int end_of(pid_t pid)
{
  int status = -1;
  while (!tt_process_has_exited(pid, &status)) poll(NULL, 0, 2);
  return status;
}

/* "" while the file does not exist. */
static void said(const char *output, char text[4096])
{
  FILE *f = fopen(output, "r");
  text[0] = '\0';
  if (!f) return;
  text[fread(text, 1, 4095, f)] = '\0';
  fclose(f);
}

TT_TEST (a_child_inherits_nothing) {
  char text[4096];
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  sigprocmask(SIG_BLOCK, &usr2, NULL);
  signal(SIGTERM, SIG_IGN);
  setenv("PMIX_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  setenv("OMPI_MCA_btl", "self", 1);
  int ours = open("/dev/null", O_RDONLY); /* not close-on-exec */
  TT_CHECK(end_of(start("pwd; cat; env; echo err >&2; exit 7", "", "said")), ==, 7 << 8);
  said("said", text);
  TT_CHECK_HAS(text, test_folder);
  TT_CHECK_HAS(text, "OMPI_MCA_btl=self");
  TT_CHECK(strstr(text, "PMIX_RANK") == NULL, ==, 1);
  TT_CHECK(strstr(text, "OMPI_COMM") == NULL, ==, 1);
  TT_CHECK_HAS(text, "err\n");
  TT_CHECK(end_of(start("exec ls /proc/self/fd", "", "said")), ==, 0);
  said("said", text);
  assert_string_equal(text, "0\n1\n2\n3\n"); /* 3 is the directory that ls reads */
  TT_CHECK(end_of(start("exec cat /proc/self/status", "", "said")), ==, 0);
  said("said", text);
  TT_CHECK_HAS(text, "SigBlk:\t0000000000000000");
  TT_CHECK_HAS(text, "SigIgn:\t0000000000000200"); /* SIGUSR1 */
  close(ours);
  signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &usr2, NULL);
}

TT_TEST (a_failed_start_gives_the_reason) {
  char *const nothing[] = {"./nothing here", NULL};
  tt_process_options o = {nothing, test_folder, "said", NULL};
  pid_t pid = -1;
  TT_CHECK(tt_process_start(&o, &pid), ==, ENOENT);
  TT_CHECK(pid, ==, 0);
  o.argv = (char *const[]){"true", NULL};
  o.directory = "/nowhere";
  TT_CHECK(tt_process_start(&o, &pid), ==, ENOENT);
  o.directory = NULL;
  o.output = "/nowhere/said";
  TT_CHECK(tt_process_start(&o, &pid), ==, ENOENT);
  TT_CHECK(waitpid(-1, NULL, WNOHANG), ==, -1); /* no zombie */
}

/* 0 for a process that has ended, even if nobody has waited for it (a zombie). */
static int runs(pid_t pid)
{
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  const char *state = strrchr(text, ')');
  return state && state[1] && state[2] != 'Z' && state[2] != 'X';
}

/* The process number that a script wrote into a file before it left this process behind. */
static pid_t left_behind(const char *output)
{
  char text[4096] = "";
  while (!strchr(text, '\n')) {
    poll(NULL, 0, 2);
    said(output, text);
  }
  return (pid_t)atol(text);
}

static void gone(pid_t pid)
{
  while (runs(pid)) poll(NULL, 0, 2);
}

TT_TEST (the_process_group_ends_with_the_child) {
  pid_t pid = start("sleep 1000 & echo $!", "", "left");
  pid_t behind = left_behind("left");
  TT_CHECK(end_of(pid), ==, 0);
  gone(behind);
  pid = start("sleep 1000 & echo $!; wait", "", "killed");
  behind = left_behind("killed");
  int status;
  TT_CHECK(tt_process_has_exited(pid, &status), ==, 0);
  tt_process_kill(pid);
  TT_CHECK(runs(pid), ==, 0);
  gone(behind);
}

TT_TEST (a_child_ends_with_its_parent) {
  pid_t parent = fork();
  if (!parent) {
    (void)start("echo $$; exec sleep 1000", "", "orphan");
    pause();
    _exit(0);
  }
  pid_t child = left_behind("orphan");
  TT_CHECK(runs(child), ==, 1);
  kill(parent, SIGKILL);
  waitpid(parent, NULL, 0);
  gone(child);
}

TT_TEST (arguments_are_filled_in_without_a_shell) {
  char *command[] = {"prog", "--in={input}", "{output}{output}", "{other} {", "{input"};
  const tt_placeholder word[] = {{"input", "/a b/it's \"one\" $HOME"}, {"output", "o"}};
  char **argv = NULL, text[4096];
  TT_CHECK_OK(tt_argv_expand(command, 5, word, 2, &argv));
  assert_string_equal(argv[0], "prog");
  assert_string_equal(argv[1], "--in=/a b/it's \"one\" $HOME");
  assert_string_equal(argv[2], "oo");
  assert_string_equal(argv[3], "{other} {");
  assert_string_equal(argv[4], "{input");
  TT_CHECK(argv[5] == NULL, ==, 1);
  TT_CHECK(end_of(start("printf '%s' \"$1\"", argv[1], "said")), ==, 0);
  said("said", text);
  assert_string_equal(text, argv[1]);
  tt_free(argv);
}

TT_SUITE(enter_folder, NULL)
