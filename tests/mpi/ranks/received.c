/* received.c — see received.h. Preloaded into another program (a shared library of this file), it
 * appends "RANK CALLS BYTES" to the file RECEIVED_LOG at the end. */
#include "tests/mpi/ranks/received.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTED __attribute__((visibility("default")))

received test_received;

#ifndef MPI_SERIAL
static void add(int64_t elements, MPI_Datatype type)
{
  int size = 0;
  PMPI_Type_size(type, &size);
  test_received.calls++;
  test_received.bytes += elements * size;
}

static int rank_of(MPI_Comm c)
{
  int rank;
  PMPI_Comm_rank(c, &rank);
  return rank;
}

static int ranks_of(MPI_Comm c)
{
  int ranks;
  PMPI_Comm_size(c, &ranks);
  return ranks;
}

/* The elements from other ranks, if this rank gets counts [ranks], or each `n` with NULL. */
static int64_t gathered(MPI_Comm c, const int *counts, int n, int gets)
{
  int64_t sum = 0;
  for (int r = 0; gets && r < ranks_of(c); r++)
    if (r != rank_of(c)) sum += counts ? counts[r] : n;
  return sum;
}

COUNTED int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
  add(ranks_of(c) > 1 ? n : 0, t);
  return PMPI_Allreduce(in, out, n, t, op, c);
}

COUNTED int MPI_Bcast(void *data, int n, MPI_Datatype t, int root, MPI_Comm c)
{
  add(rank_of(c) != root ? n : 0, t);
  return PMPI_Bcast(data, n, t, root, c);
}

COUNTED int MPI_Allgather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u,
                          MPI_Comm c)
{
  add(gathered(c, NULL, m, 1), u);
  return PMPI_Allgather(in, n, t, out, m, u, c);
}

COUNTED int MPI_Allgatherv(const void *in, int n, MPI_Datatype t, void *out, const int m[],
                           const int index[], MPI_Datatype u, MPI_Comm c)
{
  add(gathered(c, m, 0, 1), u);
  return PMPI_Allgatherv(in, n, t, out, m, index, u, c);
}

COUNTED int MPI_Gather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u,
                       int root, MPI_Comm c)
{
  add(gathered(c, NULL, m, rank_of(c) == root), t);
  return PMPI_Gather(in, n, t, out, m, u, root, c);
}

COUNTED int MPI_Gatherv(const void *in, int n, MPI_Datatype t, void *out, const int m[],
                        const int index[], MPI_Datatype u, int root, MPI_Comm c)
{
  add(gathered(c, m, 0, rank_of(c) == root), t);
  return PMPI_Gatherv(in, n, t, out, m, index, u, root, c);
}

COUNTED int MPI_Recv(void *data, int n, MPI_Datatype t, int sender, int tag, MPI_Comm c,
                     MPI_Status *s)
{
  add(n, t);
  return PMPI_Recv(data, n, t, sender, tag, c, s);
}

COUNTED int MPI_Irecv(void *data, int n, MPI_Datatype t, int sender, int tag, MPI_Comm c,
                      MPI_Request *r)
{
  add(n, t);
  return PMPI_Irecv(data, n, t, sender, tag, c, r);
}

COUNTED int MPI_Finalize(void)
{
  const char *path = getenv("RECEIVED_LOG");
  FILE *f = path ? fopen(path, "a") : NULL;
  if (f)
    fprintf(f, "%d %lld %lld\n", rank_of(MPI_COMM_WORLD), (long long)test_received.calls,
            (long long)test_received.bytes);
  if (f) fclose(f);
  return PMPI_Finalize();
}
#endif
