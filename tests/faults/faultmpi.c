/* faultmpi.c: LD_PRELOAD library: one communication call of one rank fails, as after a broken
 * network: MPI calls the error handler of the communicator. For the fault tests.
 *
 *   FAULTMPI_AT    the n-th call of the kind fails, counted from 1; 0 (default) = none
 *   FAULTMPI_RANK  of this rank (default 0)
 *   FAULTMPI_KIND  0 (default): calls on a communicator of tutti; 1: on one whose errors return to
 *                  the caller, as HDF5 sets it
 *   FAULTMPI_LOG   file to append to at the end: "RANK CALLS CALLS", of both kinds */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long calls[2];

static long number_of(const char *name)
{
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

static int my_rank(void)
{
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/* Whether this call fails. */
static int fails(MPI_Comm comm)
{
  MPI_Errhandler handler;
  PMPI_Comm_get_errhandler(comm, &handler);
  int kind = handler == MPI_ERRORS_RETURN;
  PMPI_Errhandler_free(&handler);
  return ++calls[kind] == number_of("FAULTMPI_AT") && kind == number_of("FAULTMPI_KIND") &&
         my_rank() == number_of("FAULTMPI_RANK");
}

/* The calls that tutti and HDF5 make; the last argument is the communicator. */
#define CALL(name, parameters, arguments, comm)                                                    \
  int MPI_##name parameters                                                                        \
  {                                                                                                \
    if (!fails(comm)) return PMPI_##name arguments;                                                \
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);                                                \
    return MPI_ERR_OTHER;                                                                          \
  }

CALL(Allreduce, (const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
     (in, out, n, t, op, c), c)
CALL(Bcast, (void *data, int n, MPI_Datatype t, int root, MPI_Comm c), (data, n, t, root, c), c)
CALL(Barrier, (MPI_Comm c), (c), c)
CALL(Allgather,
     (const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c),
     (in, n, t, out, m, u, c), c)
CALL(Allgatherv,
     (const void *in, int n, MPI_Datatype t, void *out, const int m[], const int index[],
      MPI_Datatype u, MPI_Comm c),
     (in, n, t, out, m, index, u, c), c)
CALL(Gatherv,
     (const void *in, int n, MPI_Datatype t, void *out, const int m[], const int index[],
      MPI_Datatype u, int root, MPI_Comm c),
     (in, n, t, out, m, index, u, root, c), c)
CALL(Send, (const void *data, int n, MPI_Datatype t, int receiver, int tag, MPI_Comm c),
     (data, n, t, receiver, tag, c), c)
CALL(Recv, (void *data, int n, MPI_Datatype t, int sender, int tag, MPI_Comm c, MPI_Status *s),
     (data, n, t, sender, tag, c, s), c)

int MPI_Finalize(void)
{
  const char *path = getenv("FAULTMPI_LOG");
  FILE *f = path ? fopen(path, "a") : NULL;
  if (f) fprintf(f, "%d %ld %ld\n", my_rank(), calls[0], calls[1]);
  if (f) fclose(f);
  return PMPI_Finalize();
}
