/* launch.c — see launch.h. */
#include "mpi/launch.h"

#include "core/base/log.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the parent process has this variable in its environment. Nobody may read the environment
 * of a launcher of another user, such as slurmstepd. */
static int parent_has_variable(const char *name)
{
  char path[64], *entry = NULL;
  size_t capacity = 0, length = strlen(name);
  int found = 0;
  snprintf(path, sizeof path, "/proc/%ld/environ", (long)getppid());
  FILE *f = fopen(path, "r");
  while (f && !found && getdelim(&entry, &capacity, '\0', f) > 0)
    found = !strncmp(entry, name, length) && entry[length] == '=';
  if (f) fclose(f);
  free(entry);
  return found;
}

/* Number of processes that the environment names, 1 without a launcher.
 *   *rank  the variable with the number of this process */
static int read_ranks(const char **rank)
{
  static const struct {
    const char *rank, *ranks;
  } launcher[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                  {"PMI_RANK", "PMI_SIZE"},
                  {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++) {
    const char *ranks = getenv(launcher[i].ranks);
    *rank = launcher[i].rank;
    if (getenv(*rank) && ranks && atoi(ranks) > 1) return atoi(ranks);
  }
  return 1;
}

int tt_launch_ranks_local(void)
{
  const char *rank;
  int ranks = read_ranks(&rank);
  return ranks > 1 && parent_has_variable(rank) ? 1 : ranks;
}

#if defined(OPEN_MPI) || defined(MPI_SERIAL)
/* Only rank 0 prints the error, and `srun --kill-on-bad-exit` sends SIGTERM to all once one exits:
 * so rank 0 exits first, and the others still with the exit code of the error. */
static void wait_for_root(int rank)
{
  if (rank == 0) return;
  signal(SIGTERM, SIG_IGN);
  sleep(3);
}
#endif

#ifdef OPEN_MPI
/* Detect srun without PMIx: otherwise Open MPI ends the program inside MPI_Init, with a long text
 * on every rank. */
static tt_err check_pmix(void)
{
  const char *rank = getenv("SLURM_PROCID");
  int pmi2 = getenv("PMI_RANK") != NULL;
  if (!getenv("SLURM_STEP_ID") || !rank || getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_SIZE"))
    return TT_OK;
  tt_log_set_rank(atoi(rank), 1);
  if (!pmi2 || OMPI_MAJOR_VERSION > 4) {
    wait_for_root(atoi(rank));
    return TT_FAIL(
        UNAVAILABLE,
        "srun started this program without PMIx (--mpi=%s), which Open MPI needs: start with "
        "`srun --mpi=pmix tutti ...` (`srun --mpi=list` shows the choices), or with "
        "mpirun inside the job",
        pmi2 ? "pmi2" : "none");
  }
  tt_log_root(TT_LOG_INFO, "started by srun --mpi=pmi2: if MPI now ends the program, start with "
                           "`srun --mpi=pmix tutti ...`");
  return TT_OK;
}
#endif

tt_err tt_launch_check_local(void)
{
#ifdef MPI_SERIAL
  const char *rank;
  int ranks = read_ranks(&rank);
  if (ranks > 1) {
    tt_log_set_rank(atoi(getenv(rank)), ranks);
    wait_for_root(atoi(getenv(rank)));
    return TT_FAIL(UNAVAILABLE,
                   "this tutti was built without MPI, for one process, but a launcher has started "
                   "%d: each would do all of the work; start one process, or build tutti with MPI",
                   ranks);
  }
#elif defined(OPEN_MPI)
  TT_TRY(check_pmix());
#endif
  return TT_OK;
}
