/* fiber.cpp — the threads of a block as fibers, the barriers between them, and who runs next.
 *
 * A fiber starts with makecontext and lives for all blocks of all kernels; hands change with
 * _setjmp and _longjmp, which cost a tenth of swapcontext (no system call). */
#undef _FORTIFY_SOURCE /* its longjmp takes a jump between stacks for a corrupted one */
#include "core.h"

#include <csetjmp>
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
enum { WARP = 32, MAX_THREADS = 1024 };
const size_t STACK_BYTES = 256 * 1024, GUARD_PAGE = 64 * 1024;

enum waiting { RUNNING, AT_BLOCK_BARRIER, AT_WARP_FUNCTION, DONE };

struct fiber {
  jmp_buf at;
  ucontext_t start;
  char *stack;
  bool started;
  void *fake_stack; /* of the address sanitizer */
  waiting wait;
  site where; /* of the wait */
  int vote;
  unsigned exchanges;
};

struct scheduler {
  fiber *fibers[MAX_THREADS];
  int made, threads, current;
  jmp_buf at;
  void *fake_stack;
  const void *stack;
  size_t stack_bytes;
  const kernel_call *call;
  votes result;
  std::mt19937_64 random;
  std::vector<unsigned> warps, lanes; /* in the order of their turns */
  unsigned char slots[2][MAX_THREADS][SLOT_BYTES];
} now_running;

/* ---- changing hands ---- */

void leaving(void **fake_stack, const void *to, size_t bytes)
{
#ifdef TT_DOUBLE_ASAN
  __sanitizer_start_switch_fiber(fake_stack, to, bytes);
#else
  (void)fake_stack, (void)to, (void)bytes;
#endif
}

void arrived(void *fake_stack, const void **from, size_t *bytes)
{
#ifdef TT_DOUBLE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#else
  (void)fake_stack, (void)from, (void)bytes;
#endif
}

void to_scheduler()
{
  scheduler &s = now_running;
  fiber &me = *s.fibers[s.current];
  leaving(&me.fake_stack, s.stack, s.stack_bytes);
  if (!_setjmp(me.at)) _longjmp(s.at, 1);
  arrived(now_running.fibers[now_running.current]->fake_stack, nullptr, nullptr);
}

/* Life of a fiber: the kernel, once per block. */
void live()
{
  arrived(nullptr, &now_running.stack, &now_running.stack_bytes);
  for (;;) {
    const kernel_call &call = *now_running.call;
    call.thunk(call.kernel, call.args.data());
    now_running.fibers[now_running.current]->wait = DONE;
    to_scheduler();
  }
}

void resume(int thread)
{
  scheduler &s = now_running;
  fiber &f = *s.fibers[thread];
  unsigned t = (unsigned)thread;
  s.current = thread;
  threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
  leaving(&s.fake_stack, f.stack, STACK_BYTES);
  if (!_setjmp(s.at)) {
    if (f.started) _longjmp(f.at, 1);
    f.started = true;
    setcontext(&f.start);
  }
  arrived(now_running.fake_stack, nullptr, nullptr);
}

fiber *make_fiber()
{
  void *block = mmap(nullptr, STACK_BYTES + GUARD_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) die("no host memory for the stack of a thread");
  mprotect(block, GUARD_PAGE, PROT_NONE); /* an overflow ends in a segmentation fault */
  fiber *f = new fiber();
  f->stack = static_cast<char *>(block) + GUARD_PAGE;
  getcontext(&f->start);
  f->start.uc_stack.ss_sp = f->stack;
  f->start.uc_stack.ss_size = STACK_BYTES;
  f->start.uc_link = nullptr;
  makecontext(&f->start, live, 0);
  return f;
}

void make_fibers(int threads)
{
  scheduler &s = now_running;
  s.threads = threads;
  while (s.made < threads)
    s.fibers[s.made++] = make_fiber();
}

/* ---- barriers ---- */

bool same_place(const site &a, const site &b)
{
  return a.line == b.line && !strcmp(a.what, b.what) && !strcmp(a.file, b.file);
}

/* Let the warp go on if all its lanes have come to the same function. */
void release_warp(int first)
{
  fiber *const *warp = now_running.fibers + first;
  for (int lane = 0; lane < WARP; lane++)
    if (warp[lane]->wait != AT_WARP_FUNCTION) return;
  for (int lane = 1; lane < WARP; lane++) {
    const site &a = warp[0]->where, &b = warp[lane]->where;
    if (!same_place(a, b))
      die("lanes of one warp at different functions: lane 0 at %s (%s:%d), lane %d at %s (%s:%d)",
          a.what, a.file, a.line, lane, b.what, b.file, b.line);
  }
  for (int lane = 0; lane < WARP; lane++)
    warp[lane]->wait = RUNNING;
}

/* Nobody can go on: who waits where. */
[[noreturn]] void deadlock()
{
  const scheduler &s = now_running;
  char text[1024] = "";
  size_t used = 0;
  int told = 0, done = 0;
  for (int t = 0; t < s.threads; t++) {
    const fiber &f = *s.fibers[t];
    done += f.wait == DONE;
    bool news = f.wait != DONE && (t == 0 || s.fibers[t - 1]->wait != f.wait ||
                                   !same_place(s.fibers[t - 1]->where, f.where));
    if (!news || told++ >= 8) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "; from thread %d at %s (%.60s:%d)",
                             t, f.where.what, f.where.file, f.where.line);
  }
  die("deadlock: not all threads come to the same barrier; %d of %d have ended%s", done, s.threads,
      text);
}

/* All threads that live stand at a block barrier: the same one, or it is an error. */
void release_block()
{
  scheduler &s = now_running;
  const fiber *first = nullptr;
  s.result = {0, 1, 0};
  for (int t = 0; t < s.threads; t++) {
    fiber &f = *s.fibers[t];
    if (f.wait == DONE) continue;
    if (!first) first = &f;
    if (!same_place(first->where, f.where))
      die("threads of one block at different barriers: %s (%s:%d), thread %d at %s (%s:%d)",
          first->where.what, first->where.file, first->where.line, t, f.where.what, f.where.file,
          f.where.line);
    s.result.any |= f.vote != 0;
    s.result.all &= f.vote != 0;
    s.result.count += f.vote != 0;
    f.wait = RUNNING;
  }
  counts().barriers++;
}

/* ---- one block ---- */

/* Give every lane of a warp that can run its turn. Returns whether any could. */
bool turn_of_warp(int first)
{
  scheduler &s = now_running;
  bool progress = false;
  for (unsigned turn : s.lanes) {
    int thread = first + (int)turn;
    while (thread < s.threads && s.fibers[thread]->wait == RUNNING) {
      resume(thread);
      progress = true;
      if (s.fibers[thread]->wait == AT_WARP_FUNCTION) release_warp(first);
    }
  }
  return progress;
}

/* Give every warp its turn. A greedy one runs on until it stands at a barrier of the block or at
 * its end, far ahead of the others: what they have not read by then is lost. Forward and reverse
 * are greedy; random draws, so that warps also go side by side. Returns whether any could run. */
bool one_round()
{
  scheduler &s = now_running;
  const order &o = now().threads;
  bool progress = false;
  arrange(o, s.random, s.warps, (size_t)(s.threads + WARP - 1) / WARP);
  arrange(o, s.random, s.lanes, WARP);
  for (unsigned warp : s.warps) {
    bool greedy = o.kind != TT_DOUBLE_RANDOM || s.random() % 2;
    bool moved = turn_of_warp((int)warp * WARP);
    progress |= moved;
    while (moved && greedy)
      moved = turn_of_warp((int)warp * WARP);
  }
  return progress;
}

void run_block()
{
  scheduler &s = now_running;
  for (int t = 0; t < s.threads; t++) {
    s.fibers[t]->wait = RUNNING;
    s.fibers[t]->exchanges = 0;
  }
  counts().blocks++;
  for (;;) {
    bool progress = one_round();
    int ended = 0, at_barrier = 0;
    for (int t = 0; t < s.threads; t++) {
      ended += s.fibers[t]->wait == DONE;
      at_barrier += s.fibers[t]->wait == AT_BLOCK_BARRIER;
    }
    if (ended == s.threads) return;
    if (ended + at_barrier == s.threads)
      release_block();
    else if (!progress)
      deadlock();
  }
}

void wait_at(waiting kind, int vote, const site &at)
{
  if (!now_running.call) die("%s (%s:%d) outside a kernel", at.what, at.file, at.line);
  fiber &me = *now_running.fibers[now_running.current];
  me.wait = kind;
  me.where = at;
  me.vote = vote;
  to_scheduler();
}
} // namespace

/* ---- for kernels ---- */

int lane() { return now_running.current % WARP; }

votes block_barrier(int vote, site at)
{
  wait_at(AT_BLOCK_BARRIER, vote, at);
  return now_running.result;
}

const unsigned char *exchange(unsigned mask, const void *value, size_t bytes, site at)
{
  scheduler &s = now_running;
  if (mask != 0xFFFFFFFFu)
    die("%s (%s:%d) with mask %08x: only the full warp is offered", at.what, at.file, at.line,
        mask);
  if (s.threads % WARP)
    die("%s (%s:%d) in a block of %d threads, which is no multiple of 32", at.what, at.file,
        at.line, s.threads);
  int me = s.current;
  unsigned char(*slots)[SLOT_BYTES] = s.slots[s.fibers[me]->exchanges++ % 2];
  memcpy(slots[me], value, bytes);
  wait_at(AT_WARP_FUNCTION, 0, at);
  return slots[me / WARP * WARP];
}

/* ---- for the runtime ---- */

bool in_kernel() { return now_running.call != nullptr; }

const char *position()
{
  static char text[768];
  const scheduler &s = now_running;
  text[0] = '\0';
  if (s.call)
    snprintf(text, sizeof text, "\n  in %.300s at %.200s:%d, block (%u, %u, %u), thread %d",
             s.call->where.text, s.call->where.file, s.call->where.line, blockIdx.x, blockIdx.y,
             blockIdx.z, s.current);
  return text;
}

void run_kernel(const kernel_call &call)
{
  open_memory open;
  scheduler &s = now_running;
  std::vector<unsigned> blocks;
  std::mt19937_64 random(now().blocks.seed);
  size_t plane = (size_t)call.grid.x * call.grid.y;
  blockDim = call.block;
  gridDim = call.grid;
  make_fibers((int)(call.block.x * call.block.y * call.block.z));
  arrange(now().blocks, random, blocks, plane * call.grid.z);
  s.random.seed(now().threads.seed);
  s.call = &call;
  for (unsigned b : blocks) {
    blockIdx = {b % call.grid.x, (unsigned)(b % plane / call.grid.x), (unsigned)(b / plane)};
    shared_begin(call.shared_bytes);
    run_block();
    shared_end();
  }
  check_guards();
  s.call = nullptr;
  counts().kernels++;
}
} // namespace tt_double
