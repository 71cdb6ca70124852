/* race.cpp — accesses to shared and device memory that no barrier orders. Sources of kernels that
 * are compiled with -fsanitize=thread call the functions below at every access; the library of that
 * sanitizer is not used. Two accesses to a byte, one of them a write, need between them
 *   in a warp     __syncwarp: a shuffle or a vote orders no memory;
 *   in a block    __syncthreads;
 *   in a cluster  tt_cluster_sync;
 *   in a grid     the end of the kernel. */
#include "tests/double/runtime/core.h"

#include <sys/mman.h>

namespace tt_double
{
namespace
{
enum { WORD = 4, TRACKED = 16 << 20, SEVERAL = -1 };
const size_t SHARED_WORDS = (size_t)MAX_RANKS * SHARED_OPTIN / WORD;

/* Who accessed a word last, and when, in numbers of barriers. SEVERAL: lanes, warps or blocks. */
struct access {
  int64_t launch; /* 0: nobody */
  unsigned cluster_time, block_time, warp_time;
  int cluster, block, warp, lane;
  unsigned bytes; /* a bit for each byte of the word */
};
struct word {
  access write, read;
};
word *shared_words, *device_words; /* [SHARED_WORDS], [TRACKED / WORD] */

/* Zeros that take memory only where they are used. */
word *reserve(size_t words)
{
  void *at = mmap(nullptr, words * sizeof(word), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) fail_hard("no host memory for the check of races");
  return static_cast<word *>(at);
}

bool is_ordered(const access &before, const access &now)
{
  if (before.launch != now.launch) return true;
  if (before.cluster != now.cluster) return false;
  if (before.block != now.block) return before.cluster_time != now.cluster_time;
  if (before.warp != now.warp) return before.block_time != now.block_time;
  if (before.block_time != now.block_time) return true;
  return before.lane == now.lane || before.warp_time != now.warp_time;
}

/* The readers of a word, of which this is one more. */
access merge(const access &before, access now)
{
  if (is_ordered(before, now) && before.warp == now.warp && before.block == now.block) return now;
  if (before.launch != now.launch) return now;
  now.bytes |= before.bytes;
  if (before.cluster != now.cluster) {
    now.cluster = now.block = now.warp = now.lane = SEVERAL;
  } else if (before.block != now.block) {
    if (before.cluster_time != now.cluster_time) return now;
    now.block = now.warp = now.lane = SEVERAL;
  } else if (before.warp != now.warp) {
    if (before.block_time != now.block_time) return now;
    now.warp = now.lane = SEVERAL;
  } else if (before.lane != now.lane) {
    now.lane = SEVERAL;
  }
  return now;
}

[[noreturn]] void report(const char *first, const access &before, const char *second, bool shared,
                         size_t byte)
{
  fail_hard("race: %s memory, byte %zu: %s by block %d, warp %d, lane %d (-1: several), then %s "
            "without a barrier between them",
            shared ? "shared" : "device", byte, first, before.block, before.warp, before.lane,
            second);
}

/* The word that holds a byte, and its number there; NULL: not checked. */
word *find(const char *at, bool *shared, size_t *byte)
{
  *shared = shared_offset(at, byte);
  if (*shared) {
    if (!shared_words) shared_words = reserve(SHARED_WORDS);
    return shared_words + *byte / WORD;
  }
  if (!device_offset(at, byte) || *byte >= TRACKED) return nullptr;
  if (!device_words) device_words = reserve(TRACKED / WORD);
  return device_words + *byte / WORD;
}

void check_word(const char *at, unsigned bytes, bool writes, const moment &m)
{
  bool shared;
  size_t byte;
  word *w = find(at, &shared, &byte);
  if (!w) return;
  access now = {m.launch, m.cluster_time, m.block_time, m.warp_time,         m.cluster,
                m.block,  m.warp,         m.lane,       bytes << byte % WORD};
  if (shared && w->write.cluster != now.cluster) w->write = {}; /* memory of blocks before */
  if (shared && w->read.cluster != now.cluster) w->read = {};
  const char *verb = writes ? "written" : "read";
  if ((w->write.bytes & now.bytes) && !is_ordered(w->write, now))
    report("written", w->write, verb, shared, byte);
  if (writes && (w->read.bytes & now.bytes) && !is_ordered(w->read, now))
    report("read", w->read, verb, shared, byte);
  if (writes)
    w->write = now;
  else
    w->read = merge(w->read, now);
}

/* Accesses of more than a word are several. */
void check(const void *at, size_t bytes, bool writes)
{
  if (!in_kernel()) return;
  const char *from = static_cast<const char *>(at), *end = from + bytes;
  const moment m = moment_of_thread();
  while (from < end) {
    size_t step = WORD - reinterpret_cast<uintptr_t>(from) % WORD;
    if (step > (size_t)(end - from)) step = (size_t)(end - from);
    check_word(from, (1u << step) - 1, writes, m);
    from += step;
  }
}
} // namespace
} // namespace tt_double

/* The names that the compiler calls. */
extern "C" {
void __tsan_init();
void __tsan_func_entry(void *);
void __tsan_func_exit();
void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_vptr_update(void **, void *);
void __tsan_vptr_read(void **);

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_read_range(void *at, unsigned long bytes) { tt_double::check(at, bytes, false); }
void __tsan_write_range(void *at, unsigned long bytes) { tt_double::check(at, bytes, true); }

#define TT_DOUBLE_ACCESS(bytes_)                                                                   \
  void __tsan_read##bytes_(void *at);                                                              \
  void __tsan_write##bytes_(void *at);                                                             \
  void __tsan_unaligned_read##bytes_(void *at);                                                    \
  void __tsan_unaligned_write##bytes_(void *at);                                                   \
  void __tsan_read##bytes_(void *at) { tt_double::check(at, bytes_, false); }                      \
  void __tsan_write##bytes_(void *at) { tt_double::check(at, bytes_, true); }                      \
  void __tsan_unaligned_read##bytes_(void *at) { tt_double::check(at, bytes_, false); }            \
  void __tsan_unaligned_write##bytes_(void *at) { tt_double::check(at, bytes_, true); }
TT_DOUBLE_ACCESS(1)
TT_DOUBLE_ACCESS(2)
TT_DOUBLE_ACCESS(4)
TT_DOUBLE_ACCESS(8)
TT_DOUBLE_ACCESS(16)
}
