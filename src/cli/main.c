/* main.c — tutti VERB ...: find the verb, run it, print its error, exit with its exit code. */
#include "core/base/log.h"
#include "core/base/text.h"
#include "io/hdf5/guarded_check.h"
#include "io/hdf5/h5.h"
#include "mpi/comm.h"
#include "mpi/launch.h"
#include "src/cli/cli_args.h"
#include "src/train/self_check/jobs.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

tt_comm *tt_world;

/* The rows of verbs.h. */
#define VERB(name, files, min_files, max_files, function, summary, help, ...)                      \
  {name, files, min_files, max_files, tt_verb_##function, summary, help, {__VA_ARGS__}, NULL},
#define FAMILY(name, rows, summary)                                                                \
  {name, "VERB ...", 0, 0, NULL, summary, NULL, {TT_CLI_END}, rows##_verbs},
static const tt_verb campaign_verbs[] = {TT_CAMPAIGN_VERBS(VERB){0}};
static const tt_verb slurm_verbs[] = {TT_SLURM_VERBS(VERB){0}};
static const tt_verb top_verbs[] = {TT_VERBS(VERB, FAMILY){0}};

static int print_version(void)
{
  char mpi[256], h5[64];
  tt_comm_versions_local(mpi, sizeof mpi);
  tt_h5_version_local(h5, sizeof h5);
  printf("tutti %s\n%s\n%s\n", TUTTI_VERSION, mpi, h5);
  return 0;
}

static const tt_verb *find(const char *name, const tt_verb *verbs, tt_suggestion *near)
{
  for (const tt_verb *v = verbs; v->name; v++) {
    if (!strcmp(v->name, name)) return v;
    tt_suggestion_consider(near, v->name);
  }
  return NULL;
}

static void print_unknown(const char *family, const tt_suggestion *near)
{
  tt_suggestion none = {.word = near->word};
  const char *best = near->best, *of = "";
  if (find(near->word, top_verbs, &none)) best = near->word, of = "tutti ";
  fprintf(stderr, "%s: error: unknown verb '%s'%s%s%s%s\n\n", family, near->word,
          *best ? "; did you mean '" : "", of, best, *best ? "'?" : "");
}

static int is_help(const char *word)
{
  return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "-?") ||
         !strcmp(word, "help");
}

/* Buffered output may fail as late as now. At exit, so that it covers --help too. */
static void check_stdout(void)
{
  if (!fflush(stdout) && !ferror(stdout)) return;
  putchar('\n'); /* fails again: its errno is the reason of an earlier failure, too */
  fflush(stdout);
  tt_log_this_rank(TT_LOG_ERROR, "standard output cannot be written: %s", strerror(errno));
  _exit(tt_err_exit_code(TT_E_IO));
}

static _Noreturn void leave_without_cleanup(tt_err e)
{
  if (!e) {
    e = TT_E_IO;
    tt_log_this_rank(TT_LOG_ERROR, "HDF5 could not close a file");
  }
  check_stdout();
  _exit(tt_err_exit_code(e));
}

static int run(const tt_verb *verb, int argc, char **argv)
{
  static tt_cli_args args;
  tt_cli_parse(verb, argc, argv, &args);
  tt_err e = verb->run(&args);
  fflush(stdout); /* before the error message */
  /* A verb without MPI has ended. If another rank runs one with MPI, it waits for this rank. */
  if (!e && !tt_world && tt_comm_has_mpi_local() && tt_launch_ranks_local() > 1)
    e = tt_cli_begin(&args, 1);
  tt_log_level level = e == TT_E_STOPPED ? TT_LOG_WARN : TT_LOG_ERROR;
  if (e) tt_log_root(level, "%s", tt_err_last());
  if (e == TT_E_INTERNAL) tt_log_root(TT_LOG_ERROR, "raised at %s", tt_err_where());
  if (tt_h5_exit_is_unsafe_local()) leave_without_cleanup(e);
  tt_comm_end(&tt_world);
  return tt_err_exit_code(e);
}

/* `tutti help campaign run` is `tutti campaign run --help`, `tutti help train.loss` is `tutti
 * options train.loss`. */
static void move_help(int argc, char **argv, int position)
{
  static char option[] = "--help", options[] = "options";
  if (position + 1 >= argc || strcmp(argv[position], "help") != 0) return;
  tt_suggestion near = {.word = argv[position + 1]};
  if (position == 1 && !find(near.word, top_verbs, &near) && !*near.best) {
    argv[1] = options;
    return;
  }
  memmove(argv + position, argv + position + 1, (size_t)(argc - position - 1) * sizeof *argv);
  argv[argc - 1] = option;
}

int main(int argc, char **argv)
{
  static char output[1 << 16];
  char name[64] = "tutti";
  const tt_verb *verbs = top_verbs, *verb = NULL;
  int index = 1;
  /* A table is one write: mpirun and srun print no line of another rank between its rows. */
  setvbuf(stdout, output, _IOFBF, sizeof output);
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, 1 << 20); /* return large blocks to the system when they are freed */
#endif
  signal(SIGXFSZ, SIG_IGN); /* a file above the size limit (ulimit -f) is an error of the write */
  if (argc > 1 && !strcmp(argv[1], "check-data")) _exit(tt_guarded_check_child_local(argc, argv));
  if (argc > 1 && !strcmp(argv[1], "check-device")) _exit(tt_self_check_child_local(argc, argv));
  atexit(check_stdout);
  if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) return print_version();
  for (; verbs; verbs = verb->verbs, index++) {
    move_help(argc, argv, index);
    tt_suggestion near = {.word = index < argc ? argv[index] : ""};
    int help = is_help(near.word);
    verb = help ? NULL : find(near.word, verbs, &near);
    if (!verb) {
      if (*near.word && !help) print_unknown(name, &near);
      tt_cli_print_verbs(help ? stdout : stderr, name, verbs);
      return help ? 0 : tt_err_exit_code(TT_E_USAGE);
    }
    snprintf(name + strlen(name), sizeof name - strlen(name), " %s", verb->name);
  }
  argv[index - 1] = name;
  return run(verb, argc - index + 1, argv + index - 1);
}
