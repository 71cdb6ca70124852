/* links.c — see links.h. */
#define TT_COMM_MPI
#include "mpi/links.h"

#include "core/base/mem.h"

enum {
  TAG = 12,
  SMALL = 8,
  LARGE = 4 << 20,
  SMALL_TRIPS = 1000,
  LARGE_TRIPS = 20,
  LEAST_TRIPS = 4
};
static const double most_seconds = 0.1; /* of the trips of a message, after the least */

/* Seconds of a message, one way. The first byte of a message says whether another trip follows. */
static double time_trips(MPI_Comm world, int other, char *buffer, int bytes, int trips)
{
  double begin = MPI_Wtime(), least = 0.0;
  for (int i = 0, more = 1; more; i++) {
    double start = MPI_Wtime();
    more = i + 1 < trips && (i + 1 < LEAST_TRIPS || start - begin < most_seconds);
    buffer[0] = (char)more;
    MPI_Send(buffer, bytes, MPI_BYTE, other, TAG, world);
    MPI_Recv(buffer, bytes, MPI_BYTE, other, TAG, world, MPI_STATUS_IGNORE);
    double took = MPI_Wtime() - start;
    if (i == 0 || took < least) least = took;
  }
  return least / 2.0;
}

static void answer_trips(MPI_Comm world, int other, char *buffer, int bytes)
{
  do {
    MPI_Recv(buffer, bytes, MPI_BYTE, other, TAG, world, MPI_STATUS_IGNORE);
    MPI_Send(buffer, bytes, MPI_BYTE, other, TAG, world);
  } while (buffer[0]);
}

tt_err tt_link_measure(tt_comm *c, int first, int second, tt_link *out)
{
  MPI_Comm world = tt_comm_mpi(c);
  int rank = tt_comm_rank(c), here = rank == first || rank == second;
  char *buffer = NULL;
  double seconds[2] = {0.0, 0.0};
  tt_err e = tt_agree(c, here ? TT_ALLOC(buffer, LARGE) : TT_OK);
  if (!e && rank == first) {
    seconds[0] = time_trips(world, second, buffer, SMALL, SMALL_TRIPS);
    seconds[1] = time_trips(world, second, buffer, LARGE, LARGE_TRIPS);
  } else if (!e && rank == second) {
    answer_trips(world, first, buffer, SMALL);
    answer_trips(world, first, buffer, LARGE);
  }
  if (!e) {
    MPI_Bcast(seconds, 2, MPI_DOUBLE, first, world);
    *out = (tt_link){{first, second}, seconds[0], LARGE / seconds[1]};
  }
  tt_free(buffer);
  return e;
}
