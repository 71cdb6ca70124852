/* team.c — see team.h. */
#define TT_COMM_MPI
#include "mpi/team.h"

#include "core/base/mem.h"
#include "mpi/fatal.h"

/* As in comm.c: MPI counts are int. */
enum { MAX_PIECE_BYTES = 1 << 30 };
enum { EXCHANGE_TAG = 11, BROKEN_TAG = 12 };

struct tt_team {
  MPI_Comm mpi;
  int rank, ranks;
  tt_team_traffic traffic;
  tt_team_mover mover;
  int broken, told; /* a rank takes part in no further moves; this one has told the others so */
};

int tt_team_rank(const tt_team *t) { return t->rank; }
int tt_team_ranks(const tt_team *t) { return t->ranks; }
tt_team_traffic tt_team_traffic_local(const tt_team *t) { return t->traffic; }

tt_err tt_team_create(tt_comm *c, int team, tt_team **out)
{
  tt_team *t = NULL;
  tt_err e = tt_agree(c, TT_ALLOC(t, 1));
  if (e) {
    tt_free(t);
    return e;
  }
  MPI_Comm_split(tt_comm_mpi(c), team, tt_comm_rank(c), &t->mpi);
  MPI_Comm_rank(t->mpi, &t->rank);
  MPI_Comm_size(t->mpi, &t->ranks);
  *out = t;
  return TT_OK;
}

void tt_team_use_mover_local(tt_team *t, const tt_team_mover *mover) { t->mover = *mover; }

/* Send an empty message to each rank, which finds it by MPI_Iprobe and receives it in end_moves. */
void tt_team_break_local(tt_team *t)
{
  for (int r = 0; r < t->ranks && !t->told; r++) {
    MPI_Request request;
    if (r == t->rank) continue;
    MPI_Isend(NULL, 0, MPI_BYTE, r, BROKEN_TAG, t->mpi, &request);
    MPI_Request_free(&request);
  }
  t->broken = t->told = 1;
}

int tt_team_is_broken_local(tt_team *t)
{
  if (!t->broken) MPI_Iprobe(MPI_ANY_SOURCE, BROKEN_TAG, t->mpi, &t->broken, MPI_STATUS_IGNORE);
  return t->broken;
}

/* The ranks wait for each other, and receive what tt_team_break_local has sent. */
static void end_moves(tt_team *t)
{
  if (!t->mover.move) return;
  for (int r = 0; r < t->ranks; r++) {
    int told = t->told;
    MPI_Bcast(&told, 1, MPI_INT, r, t->mpi);
    if (told && r != t->rank) MPI_Recv(NULL, 0, MPI_BYTE, r, BROKEN_TAG, t->mpi, MPI_STATUS_IGNORE);
  }
  t->mover.close(t->mover.with);
}

void tt_team_destroy(tt_team **t)
{
  if (!*t) return;
  end_moves(*t);
  MPI_Comm_free(&(*t)->mpi);
  tt_free(*t);
}

void tt_team_allgather(tt_team *t, const void *mine, int64_t bytes, void *all)
{
  t->traffic.messages += t->ranks - 1;
  t->traffic.bytes += (t->ranks - 1) * bytes;
  MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, t->mpi);
}

void tt_team_max(tt_team *t, int64_t *v, int count)
{
  MPI_Allreduce(MPI_IN_PLACE, v, count, MPI_INT64_T, MPI_MAX, t->mpi);
}

static int chunk(int64_t left) { return (int)(left < MAX_PIECE_BYTES ? left : MAX_PIECE_BYTES); }

void tt_team_bcast(tt_team *t, void *bytes, int64_t count)
{
  for (int64_t i = 0; i < count; i += MAX_PIECE_BYTES)
    MPI_Bcast((char *)bytes + i, chunk(count - i), MPI_BYTE, 0, t->mpi);
}

static int64_t count_chunks(int64_t count, const tt_team_message *list)
{
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; i++)
    chunks += (list[i].bytes + MAX_PIECE_BYTES - 1) / MAX_PIECE_BYTES;
  return chunks;
}

/* Begin to receive or send a message; appends the requests of its pieces. */
static void receive_chunks(tt_team *t, const tt_team_message *m, MPI_Request *request, int64_t *n)
{
  for (int64_t i = 0; i < m->bytes; i += MAX_PIECE_BYTES)
    MPI_Irecv((char *)m->data + i, chunk(m->bytes - i), MPI_BYTE, m->rank, EXCHANGE_TAG, t->mpi,
              &request[(*n)++]);
}

static void send_chunks(tt_team *t, const tt_team_message *m, MPI_Request *request, int64_t *n)
{
  t->traffic.messages += m->bytes > 0;
  t->traffic.bytes += m->bytes;
  for (int64_t i = 0; i < m->bytes; i += MAX_PIECE_BYTES)
    MPI_Isend((const char *)m->data + i, chunk(m->bytes - i), MPI_BYTE, m->rank, EXCHANGE_TAG,
              t->mpi, &request[(*n)++]);
}

/* One by one: gcc takes MPI_STATUSES_IGNORE of MPICH 4.0 for an array of size 0. */
static void wait_for_chunks(MPI_Request *request, int64_t n)
{
  for (int64_t i = 0; i < n; i++) MPI_Wait(&request[i], MPI_STATUS_IGNORE);
}

static MPI_Request *reserve_requests(int64_t count)
{
  MPI_Request *request = NULL;
  if (TT_ALLOC(request, count)) tt_panic("%s", tt_err_last());
  return request;
}

void tt_team_exchange(tt_team *t, int64_t sends, const tt_team_message *send, int64_t receives,
                      const tt_team_message *receive)
{
  MPI_Request *request =
      reserve_requests(count_chunks(sends, send) + count_chunks(receives, receive));
  int64_t n = 0;
  for (int64_t k = 0; k < receives; k++) receive_chunks(t, &receive[k], request, &n);
  for (int64_t k = 0; k < sends; k++) send_chunks(t, &send[k], request, &n);
  wait_for_chunks(request, n);
  tt_free(request);
}

tt_err tt_team_move(tt_team *t, int64_t sends, const tt_team_message *send, int64_t receives,
                    const tt_team_message *receive)
{
  if (!t->mover.move) {
    tt_team_exchange(t, sends, send, receives, receive);
    return TT_OK;
  }
  for (int64_t k = 0; k < sends; k++) {
    t->traffic.messages += send[k].bytes > 0;
    t->traffic.bytes += send[k].bytes;
  }
  if (tt_team_is_broken_local(t)) return TT_OK;
  tt_err e = t->mover.move(t->mover.with, t, sends, send, receives, receive);
  if (e) tt_team_break_local(t);
  return e;
}

void tt_team_send_local(tt_team *t, const tt_team_message *m, tt_team_pending *out)
{
  MPI_Request *request = reserve_requests(count_chunks(1, m));
  *out = (tt_team_pending){request, 0};
  send_chunks(t, m, request, &out->count);
}

void tt_team_receive_local(tt_team *t, const tt_team_message *m, tt_team_pending *out)
{
  MPI_Request *request = reserve_requests(count_chunks(1, m));
  *out = (tt_team_pending){request, 0};
  receive_chunks(t, m, request, &out->count);
}

void tt_team_wait_local(tt_team_pending *p)
{
  wait_for_chunks(p->request, p->count);
  tt_free(p->request);
  p->count = 0;
}
