/* fiber.cpp — the threads of a block, or of all blocks of a cluster, as fibers, the barriers
 * between them, and the scheduler.
 *
 * A fiber starts with makecontext and is reused for all blocks of all kernels. Fibers switch with
 * the setjmp and longjmp of the compiler, which save three words: swapcontext is a system call, and
 * longjmp of the C library searches for clean-up handlers of the thread. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#ifdef TT_DOUBLE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace tt_double
{
namespace
{
enum { WARP = 32, MAX_THREADS = MAX_RANKS * 1024 };
const size_t STACK_BYTES = 256 * 1024, GUARD_PAGE = 64 * 1024;
/* The stacks lie a multiple of 4096 bytes apart, so equal frames of all threads would share one set
 * of the processor's cache: stack i begins i % SHIFTS times SHIFT bytes lower. */
const size_t SHIFTS = 61, SHIFT = 576;

enum wait_kind : unsigned char {
  RUNNING,
  AT_BLOCK_BARRIER,
  AT_CLUSTER_BARRIER,
  AT_WARP_FUNCTION,
  DONE
};

typedef void *jump_buffer[5]; /* of __builtin_setjmp */

struct fiber {
  jump_buffer at;
  site where; /* of the wait */
  int vote;
  unsigned exchanges;
  uint3 index; /* in its block */
  bool started;
  char *stack;
  void *fake_stack; /* of the address sanitizer */
  ucontext_t start;
};

struct scheduler {
  fiber *fibers[MAX_THREADS]; /* [ranks][threads] */
  wait_kind wait[MAX_THREADS];
  int made, ranks, threads; /* blocks of a cluster, threads of a block */
  int current, rank;        /* who runs, in which block */
  int warp_first, warp_end; /* threads of the warp that runs */
  size_t turn;              /* place of the current thread in `lanes` */
  jump_buffer at;
  void *fake_stack;
  const void *stack;
  size_t stack_bytes;
  const kernel_call *call;
  votes result[MAX_RANKS];         /* of the last barrier of a block */
  int waiting[MAX_THREADS / WARP]; /* lanes of a warp at a warp function */
  unsigned first_block;            /* of the cluster */
  unsigned cluster_time, block_time[MAX_RANKS], warp_time[MAX_THREADS / WARP]; /* barriers so far */
  bool ended[MAX_RANKS];
  std::mt19937_64 random;
  std::vector<unsigned> blocks, warps, lanes; /* in the order of their turns */
  unsigned char slots[2][MAX_THREADS][SLOT_BYTES];
} scheduler_state;

/* switching fibers */

void begin_switch(void **fake_stack, const void *to, size_t bytes)
{
#ifdef TT_DOUBLE_ASAN
  __sanitizer_start_switch_fiber(fake_stack, to, bytes);
#else
  (void)fake_stack, (void)to, (void)bytes;
#endif
}

void end_switch(void *fake_stack, const void **from, size_t *bytes)
{
#ifdef TT_DOUBLE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#else
  (void)fake_stack, (void)from, (void)bytes;
#endif
}

/* Never inlined: a function that can be jumped into must not jump. noipa, because callers must not
 * conclude which registers another fiber leaves alone. no_sanitize_address: before each jump, the
 * address sanitizer would declare the whole stack accessible, as if its frames had ended. They go on
 * later; and its work takes more than half of the time of a law. */
#define SWITCHES gnu::noipa, gnu::no_sanitize_address
[[noreturn, SWITCHES]] void jump(jump_buffer to) { __builtin_longjmp(to, 1); }

[[SWITCHES]] void to_scheduler()
{
  scheduler &s = scheduler_state;
  fiber &me = *s.fibers[s.current];
  begin_switch(&me.fake_stack, s.stack, s.stack_bytes);
  if (!__builtin_setjmp(me.at)) jump(s.at);
  end_switch(scheduler_state.fibers[scheduler_state.current]->fake_stack, nullptr, nullptr);
}

/* The lane that run_warp would resume next, if it is in the middle of the kernel; NULL: none. */
fiber *next_lane()
{
  scheduler &s = scheduler_state;
  for (size_t turn = s.turn + 1; turn < s.lanes.size(); turn++) {
    int thread = s.warp_first + (int)s.lanes[turn];
    if (thread >= s.warp_end || s.wait[thread] != RUNNING) continue;
    if (!s.fibers[thread]->started) return nullptr;
    s.turn = turn;
    s.current = thread;
    return s.fibers[thread];
  }
  return nullptr;
}

/* The same without a return to the scheduler, which is half of the work of a switch. A macro: each
 * return to another stack surprises the processor, so a function for it would cost as much again. */
#define TO_NEXT_LANE()                                                                             \
  do {                                                                                             \
    fiber &from = *scheduler_state.fibers[scheduler_state.current];                                \
    fiber *next = next_lane();                                                                     \
    if (!next) {                                                                                   \
      to_scheduler();                                                                              \
    } else {                                                                                       \
      threadIdx = next->index;                                                                     \
      begin_switch(&from.fake_stack, next->stack, STACK_BYTES);                                    \
      if (!__builtin_setjmp(from.at)) jump(next->at);                                              \
      end_switch(scheduler_state.fibers[scheduler_state.current]->fake_stack, nullptr, nullptr);   \
    }                                                                                              \
  } while (0)

[[SWITCHES]] void to_next_lane() { TO_NEXT_LANE(); }

/* Main loop of a fiber: the kernel, once per block. */
void fiber_main()
{
  end_switch(nullptr, &scheduler_state.stack, &scheduler_state.stack_bytes);
  for (;;) {
    const kernel_call &call = *scheduler_state.call;
    call.thunk(call.kernel, call.args.data());
    scheduler_state.wait[scheduler_state.current] = DONE;
    to_next_lane();
  }
}

void place_block(unsigned b)
{
  unsigned plane = gridDim.x * gridDim.y;
  blockIdx = {b % gridDim.x, b % plane / gridDim.x, b / plane};
}

[[SWITCHES]] void resume(int thread)
{
  scheduler &s = scheduler_state;
  fiber &f = *s.fibers[thread];
  s.current = thread;
  threadIdx = f.index;
  begin_switch(&s.fake_stack, f.stack, STACK_BYTES);
  if (!__builtin_setjmp(s.at)) {
    if (f.started) jump(f.at);
    f.started = true;
    setcontext(&f.start);
  }
  end_switch(scheduler_state.fake_stack, nullptr, nullptr);
}

fiber *make_fiber(int number)
{
  void *block = mmap(nullptr, STACK_BYTES + GUARD_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) fail_hard("no host memory for the stack of a thread");
  mprotect(block, GUARD_PAGE, PROT_NONE); /* an overflow ends in a segmentation fault */
  fiber *f = new fiber();
  f->stack = static_cast<char *>(block) + GUARD_PAGE;
  getcontext(&f->start);
  f->start.uc_stack.ss_sp = f->stack;
  f->start.uc_stack.ss_size = STACK_BYTES - (size_t)number % SHIFTS * SHIFT;
  f->start.uc_link = nullptr;
  makecontext(&f->start, fiber_main, 0);
  return f;
}

void make_fibers(int ranks, int threads)
{
  scheduler &s = scheduler_state;
  s.ranks = ranks;
  s.threads = threads;
  for (; s.made < ranks * threads; s.made++) s.fibers[s.made] = make_fiber(s.made);
  for (int i = 0; i < ranks * threads; i++) {
    unsigned t = (unsigned)(i % threads), row = t / blockDim.x;
    s.fibers[i]->index = {t % blockDim.x, row % blockDim.y, row / blockDim.y};
  }
}

/* barriers */

bool same_text(const char *a, const char *b) { return a == b || !strcmp(a, b); }

bool same_place(const site &a, const site &b)
{
  return a.line == b.line && same_text(a.what, b.what) && same_text(a.file, b.file);
}

/* Resume the warp, all lanes of which must have reached the same function. */
void release_warp(int first)
{
  fiber *const *warp = scheduler_state.fibers + first;
  scheduler_state.waiting[first / WARP] = 0;
  for (int lane = 1; lane < WARP; lane++) {
    const site &a = warp[0]->where, &b = warp[lane]->where;
    if (!same_place(a, b))
      fail_hard(
          "lanes of one warp at different functions: lane 0 at %s (%s:%d), lane %d at %s (%s:%d)",
          a.what, a.file, a.line, lane, b.what, b.file, b.line);
  }
  if (!strcmp(warp[0]->where.what, "__syncwarp")) scheduler_state.warp_time[first / WARP]++;
  std::fill_n(scheduler_state.wait + first, (int)WARP, RUNNING);
}

/* No thread can continue: report which thread waits where. */
[[noreturn]] void deadlock()
{
  const scheduler &s = scheduler_state;
  char text[1024] = "";
  size_t used = 0;
  int told = 0, done = 0;
  for (int t = 0; t < s.ranks * s.threads; t++) {
    const fiber &f = *s.fibers[t];
    done += s.wait[t] == DONE;
    bool news = s.wait[t] != DONE && (t == 0 || s.wait[t - 1] != s.wait[t] ||
                                      !same_place(s.fibers[t - 1]->where, f.where));
    if (!news || told++ >= 8) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "; from thread %d at %s (%.60s:%d)",
                             t, f.where.what, f.where.file, f.where.line);
  }
  fail_hard("deadlock: not all threads come to the same barrier; %d of %d have ended%s", done,
            s.ranks * s.threads, text);
}

/* The running threads of [from, to) are at a barrier: it must be the same one. */
votes release(const char *of, int from, int to)
{
  scheduler &s = scheduler_state;
  const fiber *first = nullptr;
  votes result = {0, 1, 0};
  for (int t = from; t < to; t++) {
    fiber &f = *s.fibers[t];
    if (s.wait[t] == DONE) continue;
    if (!first) first = &f;
    if (!same_place(first->where, f.where))
      fail_hard("threads of one %s at different barriers: %s (%s:%d), thread %d at %s (%s:%d)", of,
                first->where.what, first->where.file, first->where.line, t, f.where.what,
                f.where.file, f.where.line);
    result.any |= f.vote != 0;
    result.all &= f.vote != 0;
    result.count += f.vote != 0;
    s.wait[t] = RUNNING;
  }
  counts().barriers++;
  return result;
}

int count(wait_kind kind, int from, int to)
{
  return (int)std::count(scheduler_state.wait + from, scheduler_state.wait + to, kind);
}

/* one block, one cluster */

/* Run every lane of a warp that can run. Returns 1 if any ran. */
bool run_warp(int first, int end)
{
  scheduler &s = scheduler_state;
  bool progress = false;
  s.warp_first = first;
  s.warp_end = end;
  for (s.turn = 0; s.turn < s.lanes.size(); s.turn++) {
    int thread = first + (int)s.lanes[s.turn];
    if (thread >= end || s.wait[thread] != RUNNING) continue;
    resume(thread); /* lanes switch to one another: s.turn is that of the last one */
    progress = true;
  }
  return progress;
}

/* Run every warp. A greedy warp runs until it reaches a barrier of the block or its end, far ahead
 * of the others, so that missing barriers show. Forward and reverse are greedy; random draws, so
 * that warps also run side by side. Returns 1 if any ran. */
bool run_warps(int rank)
{
  scheduler &s = scheduler_state;
  const order &o = now().threads;
  int first = rank * s.threads, end = first + s.threads;
  bool progress = false;
  make_sequence(o, s.random, s.warps, (size_t)(s.threads + WARP - 1) / WARP);
  make_sequence(o, s.random, s.lanes, WARP);
  for (unsigned warp : s.warps) {
    bool greedy = o.kind != TT_DOUBLE_RANDOM || s.random() % 2;
    bool moved = run_warp(first + (int)warp * WARP, end);
    progress |= moved;
    while (moved && greedy) moved = run_warp(first + (int)warp * WARP, end);
  }
  return progress;
}

/* The same for a block, which may pass its own barrier. Returns 1 if it advanced. */
bool run_block(int rank)
{
  scheduler &s = scheduler_state;
  if (s.ended[rank]) return false;
  s.rank = rank;
  place_block(s.first_block + (unsigned)rank);
  int first = rank * s.threads, end = first + s.threads;
  bool progress = run_warps(rank);
  int ended = count(DONE, first, end);
  s.ended[rank] = ended == s.threads;
  if (s.ended[rank] && s.ranks > 1) shared_leave(rank);
  if (s.ended[rank] || ended + count(AT_BLOCK_BARRIER, first, end) < s.threads) return progress;
  s.result[rank] = release("block", first, end);
  s.block_time[rank]++;
  return true;
}

/* Run every block of the cluster, greedy or not as with warps, up to a barrier of the cluster or
 * its end. */
bool run_blocks()
{
  scheduler &s = scheduler_state;
  const order &o = now().threads;
  if (s.ranks == 1) return run_block(0);
  bool progress = false;
  make_sequence(o, s.random, s.blocks, (size_t)s.ranks);
  for (unsigned rank : s.blocks) {
    bool greedy = o.kind != TT_DOUBLE_RANDOM || s.random() % 2;
    bool moved = run_block((int)rank);
    progress |= moved;
    while (moved && greedy) moved = run_block((int)rank);
  }
  return progress;
}

void run_cluster()
{
  scheduler &s = scheduler_state;
  int all = s.ranks * s.threads;
  std::fill_n(s.wait, all, RUNNING);
  std::fill_n(s.waiting, all / WARP, 0);
  for (int t = 0; t < all; t++) s.fibers[t]->exchanges = 0;
  std::fill_n(s.ended, s.ranks, false);
  counts().blocks += s.ranks;
  for (;;) {
    bool progress = run_blocks();
    int ended = count(DONE, 0, all);
    if (ended == all) return;
    if (ended + count(AT_CLUSTER_BARRIER, 0, all) == all) {
      release("cluster", 0, all);
      s.cluster_time++;
      for (int rank = 0; rank < s.ranks; rank++) {
        s.block_time[rank]++;
        shared_settled(rank);
      }
    } else if (!progress) {
      deadlock();
    }
  }
}

/* The running thread waits. Returns 1 if others must run first. */
inline bool begin_wait(wait_kind kind, int vote, const site &at)
{
  if (!scheduler_state.call) fail_hard("%s (%s:%d) outside a kernel", at.what, at.file, at.line);
  scheduler &s = scheduler_state;
  fiber &me = *s.fibers[s.current];
  s.wait[s.current] = kind;
  me.where = at;
  me.vote = vote;
  bool last = kind == AT_WARP_FUNCTION && ++s.waiting[s.current / WARP] == WARP;
  if (last) release_warp(s.current / WARP * WARP);
  return !last;
}
} // namespace

/* for kernels */

int lane() { return scheduler_state.current % WARP; }

[[SWITCHES]] votes block_barrier(int vote, site at)
{
  if (begin_wait(AT_BLOCK_BARRIER, vote, at)) TO_NEXT_LANE();
  return scheduler_state.result[current_rank()];
}

void cluster_barrier(site at)
{
  if (scheduler_state.threads % WARP)
    fail_hard("%s (%s:%d) in a block of %d threads, which is no multiple of 32", at.what, at.file,
              at.line, scheduler_state.threads);
  if (begin_wait(AT_CLUSTER_BARRIER, 0, at)) to_next_lane();
}

[[SWITCHES]] const unsigned char *exchange(unsigned mask, const void *value, size_t bytes, site at)
{
  scheduler &s = scheduler_state;
  if (mask != 0xFFFFFFFFu)
    fail_hard("%s (%s:%d) with mask %08x: only the full warp is offered", at.what, at.file, at.line,
              mask);
  if (s.threads % WARP)
    fail_hard("%s (%s:%d) in a block of %d threads, which is no multiple of 32", at.what, at.file,
              at.line, s.threads);
  int me = s.current;
  unsigned char(*slots)[SLOT_BYTES] = s.slots[s.fibers[me]->exchanges++ % 2];
  if (bytes == sizeof(int))
    memcpy(slots[me], value, sizeof(int));
  else
    memcpy(slots[me], value, bytes);
  if (begin_wait(AT_WARP_FUNCTION, 0, at)) TO_NEXT_LANE();
  return slots[me / WARP * WARP];
}

/* for the runtime */

bool in_kernel() { return scheduler_state.call != nullptr; }

int current_rank() { return scheduler_state.rank; }

moment moment_of_thread()
{
  const scheduler &s = scheduler_state;
  int rank = s.rank, thread = s.current - rank * s.threads;
  return {counts().kernels + 1, s.cluster_time,
          s.block_time[rank],   s.warp_time[s.current / WARP],
          (int)s.first_block,   (int)s.first_block + rank,
          thread / WARP,        thread % WARP};
}

const char *position()
{
  static char text[768];
  const scheduler &s = scheduler_state;
  text[0] = '\0';
  if (s.call)
    snprintf(text, sizeof text, "\n  in %.300s at %.200s:%d, block (%u, %u, %u), thread %d",
             s.call->where.text, s.call->where.file, s.call->where.line, blockIdx.x, blockIdx.y,
             blockIdx.z, s.current % s.threads);
  return text;
}

void run_kernel(const kernel_call &call)
{
  device_access open;
  scheduler &s = scheduler_state;
  std::vector<unsigned> clusters;
  std::mt19937_64 random(now().blocks.seed);
  size_t blocks = (size_t)call.grid.x * call.grid.y * call.grid.z;
  blockDim = call.block;
  gridDim = call.grid;
  make_fibers(call.cluster, (int)(call.block.x * call.block.y * call.block.z));
  make_sequence(now().blocks, random, clusters, blocks / (size_t)call.cluster);
  s.random.seed(now().threads.seed);
  s.call = &call;
  for (unsigned c : clusters) {
    s.first_block = c * (unsigned)call.cluster;
    for (int rank = 0; rank < s.ranks; rank++) shared_begin(rank, call.shared_bytes);
    run_cluster();
    for (int rank = 0; rank < s.ranks; rank++) shared_end(rank);
  }
  check_guards();
  s.call = nullptr;
  counts().kernels++;
}
} // namespace tt_double

int tt_double_cluster_size() { return tt_double::scheduler_state.ranks; }
int tt_double_cluster_rank() { return tt_double::current_rank(); }
