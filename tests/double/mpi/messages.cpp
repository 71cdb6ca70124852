/* messages.cpp — the double of an MPI library that takes device memory: MPI_Isend and MPI_Irecv also
 * with addresses of the double's device, by way of a copy on the host. As with a real one, a message
 * does not wait for streams. The functions of the library itself are those with PMPI. */
#define OMPI_SKIP_MPICXX
#include "tests/double/runtime/core.h"

#include <cstring>
#include <map>
#include <mpi.h>
#include <vector>

using namespace tt_double;

namespace
{
struct message {
  void *to; /* on the device, of a receive */
  std::vector<char> bytes;
};
std::map<MPI_Request, message> pending;
} // namespace

extern "C" int MPI_Isend(const void *from, int count, MPI_Datatype type, int rank, int tag,
                         MPI_Comm comm, MPI_Request *request)
{
  if (!is_device(from)) return PMPI_Isend(from, count, type, rank, tag, comm, request);
  message m = {nullptr, std::vector<char>((size_t)count)};
  if (type != MPI_BYTE) fail_hard("MPI_Isend of device memory that is not bytes");
  {
    device_access open;
    check_device_range(from, (size_t)count, false, "MPI_Isend");
    memcpy(m.bytes.data(), from, (size_t)count);
  }
  int e = PMPI_Isend(m.bytes.data(), count, type, rank, tag, comm, request);
  pending[*request] = std::move(m);
  return e;
}

extern "C" int MPI_Irecv(void *to, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                         MPI_Request *request)
{
  if (!is_device(to)) return PMPI_Irecv(to, count, type, rank, tag, comm, request);
  message m = {to, std::vector<char>((size_t)count)};
  if (type != MPI_BYTE) fail_hard("MPI_Irecv to device memory that is not bytes");
  check_device_range(to, (size_t)count, false, "MPI_Irecv");
  int e = PMPI_Irecv(m.bytes.data(), count, type, rank, tag, comm, request);
  pending[*request] = std::move(m);
  return e;
}

extern "C" int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
  auto it = pending.find(*request);
  int e = PMPI_Wait(request, status);
  if (it == pending.end()) return e;
  if (it->second.to) {
    device_access open;
    check_device_range(it->second.to, it->second.bytes.size(), false, "MPI_Wait");
    memcpy(it->second.to, it->second.bytes.data(), it->second.bytes.size());
  }
  pending.erase(it);
  return e;
}
