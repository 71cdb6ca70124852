/* nccl.cpp — the double of libnccl.so.2: moves values between the devices of the double, over MPI
 * between the processes of MPI_COMM_WORLD. Its communicators never block: every call that needs
 * other ranks is in progress until ncclCommGetAsyncError has seen their messages. The ranks of a
 * communicator are neighbors in MPI_COMM_WORLD, as those of a team are.
 *
 * TT_NCCL_VERSION=21000: the version. TT_NCCL_FAIL=NAME:N, also while the program runs: the N-th
 * call of a function from then on fails. */
#define OMPI_SKIP_MPICXX
#include "cuda/common/nccl.cuh"

#include <cstdlib>
#include <cstring>
#include <list>
#include <mpi.h>
#include <string>
#include <vector>

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };

namespace
{
struct message {
  int peer;
  void *to; /* on the device, of a receive */
  std::vector<char> bytes;
  MPI_Request request;
  cudaStream_t stream;
};
struct communicator {
  int root, tag, ranks, rank; /* root in MPI_COMM_WORLD */
  std::list<message> group, pending, arrived;
};
communicator *in_group;
std::list<message> lost; /* of aborted communicators: MPI may still read them */

bool fails(const char *name)
{
  static std::string seen;
  static int calls;
  const char *now = getenv("TT_NCCL_FAIL");
  if (seen != (now ? now : "")) {
    seen = now ? now : "";
    calls = 0;
  }
  size_t end = seen.find(':');
  if (end == std::string::npos || seen.substr(0, end) != name) return false;
  return ++calls == atoi(seen.c_str() + end + 1);
}

void start(communicator *c, message &&m)
{
  c->pending.push_back(std::move(m));
  message &p = c->pending.back();
  int count = (int)p.bytes.size(), to = c->root + p.peer;
  if (p.to)
    PMPI_Irecv(p.bytes.data(), count, MPI_BYTE, to, c->tag, MPI_COMM_WORLD, &p.request);
  else
    PMPI_Isend(p.bytes.data(), count, MPI_BYTE, to, c->tag, MPI_COMM_WORLD, &p.request);
}

/* Messages begin when the group ends. */
int add(communicator *c, int peer, void *to, const void *from, size_t count, int type,
        cudaStream_t stream)
{
  if (type != TT_NCCL_INT8 || peer < 0 || peer >= c->ranks || (in_group && in_group != c))
    return INVALID_ARGUMENT;
  message m = {peer, to, std::vector<char>(count), MPI_REQUEST_NULL, stream};
  if (from && cudaMemcpy(m.bytes.data(), from, count, cudaMemcpyDeviceToHost) != cudaSuccess)
    return SYSTEM_ERROR;
  c->group.push_back(std::move(m));
  in_group = c;
  return TT_NCCL_SUCCESS;
}

/* 1 if no message is under way any more; those that have arrived are copied to the device. */
int progress(communicator *c)
{
  for (auto m = c->pending.begin(); m != c->pending.end();) {
    int done = 0;
    PMPI_Test(&m->request, &done, MPI_STATUS_IGNORE);
    auto next = std::next(m);
    if (done && m->to && !m->bytes.empty())
      cudaMemcpyAsync(m->to, m->bytes.data(), m->bytes.size(), cudaMemcpyHostToDevice, m->stream);
    if (done) c->arrived.splice(c->arrived.end(), c->pending, m);
    m = next;
  }
  return c->pending.empty();
}
} // namespace

#define API extern "C" __attribute__((visibility("default")))

API int ncclGetVersion(int *version)
{
  const char *text = getenv("TT_NCCL_VERSION");
  *version = text ? atoi(text) : 22809;
  return TT_NCCL_SUCCESS;
}

API int ncclGetUniqueId(tt_device_link_id *id)
{
  static int made;
  int root;
  if (fails("ncclGetUniqueId")) return SYSTEM_ERROR;
  PMPI_Comm_rank(MPI_COMM_WORLD, &root);
  const int words[] = {root, 1000 + made++};
  memcpy(id->bytes, words, sizeof words);
  return TT_NCCL_SUCCESS;
}

API int ncclCommInitRankConfig(void **comm, int ranks, tt_device_link_id id, int rank,
                               tt_nccl_config *config)
{
  static char here;
  int words[2], world;
  memcpy(words, id.bytes, sizeof words);
  PMPI_Comm_rank(MPI_COMM_WORLD, &world);
  if (fails("ncclCommInitRankConfig")) return SYSTEM_ERROR;
  if (config->magic != TT_NCCL_MAGIC || config->size < sizeof *config || config->blocking != 0 ||
      world != words[0] + rank)
    return INVALID_ARGUMENT;
  communicator *c = new communicator{words[0], words[1], ranks, rank, {}, {}, {}};
  for (int peer = 0; peer < ranks; peer++) {
    if (peer == rank) continue;
    start(c, {peer, nullptr, {}, MPI_REQUEST_NULL, nullptr});
    start(c, {peer, &here, {}, MPI_REQUEST_NULL, nullptr});
  }
  *comm = c;
  return TT_NCCL_IN_PROGRESS;
}

API int ncclCommGetAsyncError(void *comm, int *error)
{
  if (fails("ncclCommGetAsyncError")) return *error = SYSTEM_ERROR, TT_NCCL_SUCCESS;
  *error = progress((communicator *)comm) ? TT_NCCL_SUCCESS : TT_NCCL_IN_PROGRESS;
  return TT_NCCL_SUCCESS;
}

API int ncclCommAbort(void *comm)
{
  communicator *c = (communicator *)comm;
  for (message &m : c->pending)
    if (m.to && m.request != MPI_REQUEST_NULL) {
      PMPI_Cancel(&m.request);
      PMPI_Wait(&m.request, MPI_STATUS_IGNORE);
    }
  lost.splice(lost.end(), c->pending);
  if (in_group == c) in_group = nullptr;
  delete c;
  return TT_NCCL_SUCCESS;
}

API const char *ncclGetErrorString(int error)
{
  return error == SYSTEM_ERROR ? "unhandled system error" : "invalid argument";
}

API const char *ncclGetLastError(void *) { return "made by the test double"; }

API int ncclGroupStart(void)
{
  in_group = nullptr;
  return TT_NCCL_SUCCESS;
}

API int ncclSend(const void *from, size_t count, int type, int peer, void *comm,
                 cudaStream_t stream)
{
  if (fails("ncclSend")) return SYSTEM_ERROR;
  return add((communicator *)comm, peer, nullptr, from, count, type, stream);
}

API int ncclRecv(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream)
{
  if (fails("ncclRecv")) return SYSTEM_ERROR;
  return add((communicator *)comm, peer, to, nullptr, count, type, stream);
}

API int ncclGroupEnd(void)
{
  communicator *c = in_group;
  in_group = nullptr;
  if (fails("ncclGroupEnd")) return SYSTEM_ERROR;
  if (!c) return TT_NCCL_SUCCESS;
  c->arrived.clear();
  while (!c->group.empty()) {
    message m = std::move(c->group.front());
    c->group.pop_front();
    start(c, std::move(m));
  }
  return TT_NCCL_IN_PROGRESS;
}
