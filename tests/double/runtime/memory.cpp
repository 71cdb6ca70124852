/* memory.cpp — device memory as one range of addresses that the host can touch only while a kernel
 * or a copy runs, an allocation table, guard bytes, and the shared memory of the running blocks. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#ifdef TT_DOUBLE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace tt_double
{
namespace
{
const size_t ARENA_BYTES = (size_t)64 << 30, PAGE = 4096, HUGE_PAGE = 2 << 20;
const size_t ALIGNMENT = 256, GUARD = 256;
const unsigned char POISON = 0xFF;                 /* NaN in float and double, -1 in integers */
const unsigned char GUARD_BYTES[2] = {0xEE, 0xFF}; /* NaN too, but another one */

struct allocation {
  size_t bytes, extent; /* requested; from the front guard to the end of the back guard */
  int64_t number;       /* 1 = the first of the program */
};

struct arena {
  char *base = nullptr;
  size_t used = 0; /* highest byte ever allocated */
  int open = 0;
  std::map<char *, allocation> live; /* by address of the user's bytes */
  std::map<char *, size_t> pinned;
  struct sigaction before;
} device;
int64_t peak; /* bytes of device memory */

void sanitize(void *at, size_t bytes, bool allowed)
{
#ifdef TT_DOUBLE_ASAN
  if (allowed)
    __asan_unpoison_memory_region(at, bytes);
  else
    __asan_poison_memory_region(at, bytes);
#else
  (void)at, (void)bytes, (void)allowed;
#endif
}

/* Guards are written and compared at every launch: in pieces, not byte by byte. */
struct guard_chunk {
  char bytes[1024];
  guard_chunk()
  {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)GUARD_BYTES[i & 1];
  }
  size_t begin(const char *at) const { return (uintptr_t)at & 1; }
  size_t length(const char *at, const char *to) const
  {
    return std::min(sizeof bytes - begin(at), (size_t)(to - at));
  }
} const guard;

void write_guard(char *from, char *to)
{
  for (; from < to; from += guard.length(from, to))
    memcpy(from, guard.bytes + guard.begin(from), guard.length(from, to));
}

bool guard_is_whole(const char *from, const char *to)
{
  for (; from < to; from += guard.length(from, to))
    if (memcmp(from, guard.bytes + guard.begin(from), guard.length(from, to))) return false;
  return true;
}

/* An access to device memory that is locked, or that was never allocated. */
void on_fault(int number, siginfo_t *info, void *)
{
  const char *at = static_cast<const char *>(info->si_addr);
  if (is_device(at) && !device.open)
    fail_hard("the host touched device memory at %p; copy it with cudaMemcpy", info->si_addr);
  if (is_device(at))
    fail_hard("device memory that was never allocated was touched at %p", info->si_addr);
  sigaction(number, &device.before,
            nullptr); /* not ours: it occurs again, for the previous handler */
}

/* Install the handler again, in case a test framework has replaced it. */
void watch_faults()
{
  struct sigaction action = {}, before = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
  if (before.sa_sigaction != on_fault) device.before = before;
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Large pages, because locking and opening it takes time for every page that is in use. */
void make_arena()
{
  void *base = mmap(nullptr, ARENA_BYTES + HUGE_PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail_hard("no room for 64 GiB of addresses");
  device.base = reinterpret_cast<char *>(round_up(reinterpret_cast<size_t>(base), HUGE_PAGE));
  madvise(device.base, ARENA_BYTES, MADV_HUGEPAGE);
}

void protect(int how)
{
  if (device.base && device.used) mprotect(device.base, round_up(device.used, HUGE_PAGE), how);
}

/* The lowest gap of `room` bytes between live allocations. */
char *find_gap(size_t extent)
{
  char *at = device.base;
  for (const auto &[begin, a] : device.live) {
    char *front = begin - GUARD;
    if ((size_t)(front - at) >= extent) return at;
    at = front + a.extent;
  }
  return (size_t)(device.base + ARENA_BYTES - at) >= extent ? at : nullptr;
}

size_t bytes_in_use()
{
  size_t sum = 0;
  for (const auto &entry : device.live) sum += entry.second.bytes;
  return sum;
}

char *allocate(size_t bytes)
{
  if (!device.base) make_arena();
  size_t extent = GUARD + round_up(bytes, ALIGNMENT) + GUARD;
  char *front = find_gap(extent);
  if (!front) return nullptr;
  char *begin = front + GUARD;
  device.used = std::max(device.used, (size_t)(front + extent - device.base));
  device_access open;
  protect(PROT_READ | PROT_WRITE); /* `used` has grown */
  sanitize(front, extent, true);
  write_guard(front, begin);
  memset(begin, POISON, bytes);
  write_guard(begin + bytes, front + extent);
  sanitize(front, GUARD, false);
  sanitize(begin + bytes, (size_t)(front + extent - (begin + bytes)), false);
  device.live[begin] = {bytes, extent, counts().allocations};
  return begin;
}

void deallocate(std::map<char *, allocation>::iterator which)
{
  char *front = which->first - GUARD;
  size_t extent = which->second.extent;
  device_access open;
  sanitize(front, extent, true);
  memset(front, POISON, extent); /* later reads give NaN */
  sanitize(front, extent, false);
  device.live.erase(which);
}

/* The allocation that `at` lies in. */
std::map<char *, allocation>::const_iterator allocation_of(const char *at)
{
  auto next = device.live.upper_bound(const_cast<char *>(at));
  if (next == device.live.begin()) return device.live.end();
  auto it = std::prev(next);
  return at < it->first + it->second.bytes ? it : device.live.end();
}

/* The pinned block that `at` lies in. */
std::map<char *, size_t>::const_iterator pinned_of(const char *at)
{
  auto next = device.pinned.upper_bound(const_cast<char *>(at));
  if (next == device.pinned.begin()) return device.pinned.end();
  auto it = std::prev(next);
  return at < it->first + it->second ? it : device.pinned.end();
}
} // namespace

device_access::device_access()
{
  if (device.open++ == 0) protect(PROT_READ | PROT_WRITE);
}
device_access::~device_access()
{
  if (--device.open > 0) return;
  protect(PROT_NONE);
  watch_faults();
}

bool is_device(const void *at)
{
  const char *byte = static_cast<const char *>(at);
  return device.base && byte >= device.base && byte < device.base + ARENA_BYTES;
}

bool device_offset(const void *at, size_t *out)
{
  if (is_device(at)) *out = (size_t)(static_cast<const char *>(at) - device.base);
  return is_device(at);
}

void check_guards()
{
#ifndef TT_DOUBLE_ASAN /* the sanitizer has caught it at the very access */
  for (const auto &[begin, a] : device.live) {
    bool front = guard_is_whole(begin - GUARD, begin);
    if (!front || !guard_is_whole(begin + a.bytes, begin - GUARD + a.extent))
      fail_hard("written %s allocation %lld of %zu bytes of device memory",
                front ? "behind" : "before", (long long)a.number, a.bytes);
  }
#endif
}

void check_device_range(const void *at, size_t bytes, bool pinned_too, const char *call)
{
  const char *begin = static_cast<const char *>(at);
  if (pinned_too && pinned_of(begin) != device.pinned.end())
    return check_host_range(at, bytes, call);
  auto it = allocation_of(begin);
  if (it == device.live.end())
    fail_hard("%s: %p %s", call, at,
              is_device(at) ? "is not (or no longer) allocated on the device"
                            : "is host memory where device memory must be");
  size_t offset = (size_t)(begin - it->first), size = it->second.bytes;
  if (bytes > size - offset)
    fail_hard("%s: bytes %zu to %zu of allocation %lld, which has %zu", call, offset,
              offset + bytes, (long long)it->second.number, size);
}

void check_host_range(const void *at, size_t bytes, const char *call)
{
  const char *begin = static_cast<const char *>(at);
  if (is_device(at)) fail_hard("%s: %p is device memory where host memory must be", call, at);
  auto it = pinned_of(begin);
  if (it == device.pinned.end()) return;
  size_t offset = (size_t)(begin - it->first);
  if (bytes > it->second - offset)
    fail_hard("%s: bytes %zu to %zu of a pinned block, which has %zu", call, offset, offset + bytes,
              it->second);
}

/* Addresses of programs, heaps and stacks lie above 2^45 on 64-bit Linux; numbers seldom do, and
 * hardly ever where memory is mapped. */
void check_arguments(const void *args, const unsigned char *fields, size_t bytes)
{
  const unsigned char *from = static_cast<const unsigned char *>(args);
  for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
    uintptr_t word, mask;
    unsigned char state;
    memcpy(&word, from + at, sizeof word);
    memcpy(&mask, fields + at, sizeof mask);
    word &= mask;
    if (word >> 45 == 0 || word >> 48 != 0) continue;
    void *address = reinterpret_cast<void *>(word);
    if (is_device(address)) continue;
    if (pinned_of(static_cast<char *>(address)) != device.pinned.end()) continue;
    if (mincore(reinterpret_cast<void *>(word / PAGE * PAGE), 1, &state) == 0)
      fail_hard("byte %zu of the kernel's arguments holds %p, which is host memory", at, address);
  }
}

/* dynamic shared memory */

namespace
{
/* TT_SHARED_MEMORY promises 16 bytes of alignment: the memory has 16 and not 32. */
enum { SHARED_GUARD = 4096 + 16 };
struct shared_memory {
  alignas(128) unsigned char bytes[SHARED_GUARD + SHARED_OPTIN + SHARED_GUARD];
  size_t size;
  bool ended; /* its block has ended */
  bool
      touched; /* others may be in it: they have had its address since the cluster's last barrier */
} ranks[MAX_RANKS];
} // namespace

void shared_begin(int rank, size_t bytes)
{
  shared_memory &shared = ranks[rank];
  char *all = reinterpret_cast<char *>(shared.bytes), *begin = all + SHARED_GUARD;
  sanitize(all, sizeof shared.bytes, true);
  write_guard(all, begin);
  memset(begin, POISON, bytes);
  write_guard(begin + bytes, begin + bytes + SHARED_GUARD);
  sanitize(all, SHARED_GUARD, false);
  sanitize(begin + bytes, sizeof shared.bytes - SHARED_GUARD - bytes, false);
  shared.size = bytes;
  shared.ended = shared.touched = false;
}

bool shared_offset(const void *at, size_t *out)
{
  const unsigned char *byte = static_cast<const unsigned char *>(at);
  for (int rank = 0; rank < tt_double_cluster_size(); rank++) {
    const unsigned char *begin = ranks[rank].bytes + SHARED_GUARD;
    if (byte < begin || byte >= begin + SHARED_OPTIN) continue;
    *out = (size_t)rank * SHARED_OPTIN + (size_t)(byte - begin);
    return true;
  }
  return false;
}

void shared_settled(int rank) { ranks[rank].touched = false; }

void shared_leave(int rank)
{
  memset(ranks[rank].bytes + SHARED_GUARD, POISON, ranks[rank].size);
  ranks[rank].ended = true;
}

void shared_end(int rank)
{
  shared_memory &shared = ranks[rank];
  char *all = reinterpret_cast<char *>(shared.bytes), *begin = all + SHARED_GUARD;
  sanitize(all, sizeof shared.bytes, true);
  if (!guard_is_whole(all, begin)) fail_hard("written before the block's shared memory");
  if (!guard_is_whole(begin + shared.size, begin + shared.size + SHARED_GUARD))
    fail_hard("written behind the block's %zu bytes of shared memory", shared.size);
  if (shared.touched)
    fail_hard(
        "rank %d has ended without a barrier of the cluster after others mapped its shared memory",
        rank);
  bool whole = !shared.size || ((unsigned char)*begin == POISON &&
                                !memcmp(begin, begin + 1, shared.size - 1)); /* all are equal */
  if (shared.ended && !whole)
    fail_hard("written to the shared memory of rank %d of a cluster after it had ended", rank);
}
} // namespace tt_double

using namespace tt_double;

void *tt_double_shared()
{
  if (!in_kernel()) fail_hard("shared memory outside a kernel");
  shared_memory &shared = ranks[current_rank()];
  if (!shared.size) fail_hard("shared memory of a kernel that was launched with 0 bytes of it");
  return shared.bytes + SHARED_GUARD;
}

void *tt_double_cluster_map(void *at, int rank)
{
  unsigned char *begin = static_cast<unsigned char *>(tt_double_shared());
  unsigned char *byte = static_cast<unsigned char *>(at);
  if (byte < begin || byte >= begin + ranks[current_rank()].size)
    fail_hard("%p is not in the block's own shared memory, of which there is one in every rank",
              at);
  if (rank < 0 || rank >= tt_double_cluster_size()) fail_hard("rank %d of a smaller cluster", rank);
  if (ranks[rank].ended) fail_hard("shared memory of rank %d, which has ended", rank);
  ranks[rank].touched |= rank != current_rank();
  return ranks[rank].bytes + SHARED_GUARD + (byte - begin);
}

void tt_double_misaligned(const void *at, size_t bytes)
{
  fail_hard("%zu bytes are accessed at once at %p, which is not a multiple of %zu", bytes, at,
            bytes);
}

/* allocation */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
  TT_DOUBLE_ENTER();
  *out = nullptr;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  if (!bytes) return cudaSuccess;
  counts().allocations++;
  bool full = bytes > now().memory || bytes_in_use() > now().memory - bytes;
  char *block = full || allocation_fails() ? nullptr : allocate(bytes);
  if (!block) return set_last_error(cudaErrorMemoryAllocation);
  counts().buffers++;
  counts().bytes += (int64_t)bytes;
  if (counts().bytes > peak) peak = counts().bytes;
  *out = block;
  return cudaSuccess;
}

cudaError_t cudaFree(void *block)
{
  cudaError_t e = begin_call();
  if (!block) return e;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  wait_for_all();
  auto it = device.live.find(static_cast<char *>(block));
  if (it == device.live.end())
    fail_hard("cudaFree(%p): not (or no longer) the start of an allocation", block);
  counts().buffers--;
  counts().bytes -= (int64_t)it->second.bytes;
  deallocate(it);
  return e;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
  TT_DOUBLE_ENTER();
  *out = nullptr;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  if (!bytes) return cudaSuccess;
  char *block = static_cast<char *>(malloc(bytes));
  if (!block) return set_last_error(cudaErrorMemoryAllocation);
  memset(block, POISON, bytes);
  device.pinned[block] = bytes;
  counts().pinned++;
  counts().pinned_bytes += (int64_t)bytes;
  *out = block;
  return cudaSuccess;
}

int64_t tt_double_peak(void) { return peak; }
void tt_double_begin_peak(void) { peak = counts().bytes; }

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) { return cudaMallocHost(out, bytes); }

cudaError_t cudaFreeHost(void *block)
{
  cudaError_t e = begin_call();
  if (!block) return e;
  TT_DOUBLE_FAIL_IF_CAPTURING();
  wait_for_all();
  auto it = device.pinned.find(static_cast<char *>(block));
  if (it == device.pinned.end())
    fail_hard("cudaFreeHost(%p): not (or no longer) a pinned block", block);
  counts().pinned--;
  counts().pinned_bytes -= (int64_t)it->second;
  device.pinned.erase(it);
  free(block);
  return e;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
  TT_DOUBLE_ENTER();
  *total = now().memory;
  *free_bytes = now().memory - bytes_in_use();
  return cudaSuccess;
}
