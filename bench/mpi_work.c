/* mpi_work.c — how much processor time each rank spends outside of MPI: the ranks wait actively, so
 * that the whole processor time says nothing. Other processes on the machine do not disturb it.
 *
 *     mpicc -O2 -shared -fPIC bench/mpi_work.c -o mpi_work.so
 *     OMP_NUM_THREADS=1 mpirun --oversubscribe -n 4 -x LD_PRELOAD=./mpi_work.so tutti train job.yaml
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double inside; /* seconds in calls that wait for other ranks */

static double processor_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define WRAP(name_, parameters_, arguments_)                                                       \
  int MPI_##name_ parameters_                                                                      \
  {                                                                                                \
    double before = processor_seconds();                                                           \
    int e = PMPI_##name_ arguments_;                                                               \
    inside += processor_seconds() - before;                                                        \
    return e;                                                                                      \
  }
WRAP(Init_thread, (int *argc, char ***argv, int wanted, int *got), (argc, argv, wanted, got))
WRAP(Barrier, (MPI_Comm c), (c))
WRAP(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
WRAP(Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
     (s, r, n, t, op, c))
WRAP(Allgather, (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c),
     (s, n, t, r, m, u, c))
WRAP(Allgatherv,
     (const void *s, int n, MPI_Datatype t, void *r, const int *m, const int *d, MPI_Datatype u,
      MPI_Comm c),
     (s, n, t, r, m, d, u, c))
WRAP(Gatherv,
     (const void *s, int n, MPI_Datatype t, void *r, const int *m, const int *d, MPI_Datatype u,
      int root, MPI_Comm c),
     (s, n, t, r, m, d, u, root, c))
WRAP(Wait, (MPI_Request * q, MPI_Status *s), (q, s))
WRAP(Waitall, (int n, MPI_Request *q, MPI_Status *s), (n, q, s))

int MPI_Finalize(void)
{
  double all = processor_seconds();
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "rank %d: %.2f s of processor time, %.2f s of it in MPI, %.2f s of work\n", rank,
          all, inside, all - inside);
  return PMPI_Finalize();
}
