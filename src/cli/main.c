/* main.c — tutti VERB ...: find the verb, run it, turn its error into message and exit code. */
#include "core/base/log.h"
#include "io/data/guarded_check.h"
#include "io/hdf5/h5.h"
#include "mpi/comm.h"
#include "src/cli/verbs.h"

#include <stdio.h>
#include <string.h>

const char *tt_command_line = "";
tt_comm *tt_world;

static void print_help(FILE *to)
{
  fprintf(to, "Usage: tutti VERB [OPTION...]\n"
              "Train ensembles of small neural networks all together.\n\n");
  for (const tt_verb *v = tt_verbs; v->name; v++) fprintf(to, "  %-10s %s\n", v->name, v->summary);
  fprintf(to, "\n`tutti VERB --help` explains a verb, `tutti --version` names the libraries.\n"
              "On several ranks: srun tutti train job.yaml, or mpirun -n 4 tutti train job.yaml\n");
}

static int print_version(void)
{
  char mpi[256], h5[64];
  tt_comm_versions_local(mpi, sizeof mpi);
  tt_h5_version_local(h5, sizeof h5);
  printf("tutti %s\n%s\n%s\n", TUTTI_VERSION, mpi, h5);
  return 0;
}

static const tt_verb *find(const char *name)
{
  for (const tt_verb *v = tt_verbs; v->name; v++)
    if (!strcmp(v->name, name)) return v;
  return NULL;
}

static void join_args(int argc, char **argv, char *text, size_t size)
{
  size_t used = 0;
  for (int i = 0; i < argc && used + 1 < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", argv[i]);
}

static int run(const tt_verb *verb, int argc, char **argv)
{
  char name[64];
  snprintf(name, sizeof name, "tutti %s", verb->name);
  argv[0] = name;
  tt_err e = verb->run(argc, argv);
  tt_log_level level = e == TT_E_STOPPED ? TT_LOG_WARN : TT_LOG_ERROR;
  if (e) tt_log_root(level, "%s", tt_err_last());
  if (e == TT_E_INTERNAL) tt_log_root(TT_LOG_ERROR, "raised at %s", tt_err_where());
  tt_comm_end(&tt_world);
  return tt_err_exit_code(e);
}

int main(int argc, char **argv)
{
  static char command[4096];
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a pipe to slurmstepd would hold lines back */
  if (argc > 1 && !strcmp(argv[1], "check-data")) return tt_guarded_check_child_local(argc, argv);
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
      !strcmp(argv[1], "help")) {
    print_help(argc < 2 ? stderr : stdout);
    return argc < 2 ? tt_err_exit_code(TT_E_USAGE) : 0;
  }
  if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) return print_version();
  const tt_verb *verb = find(argv[1]);
  if (!verb) {
    fprintf(stderr, "tutti: error: there is no verb '%s'\n\n", argv[1]);
    print_help(stderr);
    return tt_err_exit_code(TT_E_USAGE);
  }
  join_args(argc, argv, command, sizeof command);
  tt_command_line = command;
  return run(verb, argc - 1, argv + 1);
}
