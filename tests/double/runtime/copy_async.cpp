/* copy_async.cpp — cp.async: a copy takes place when its thread waits for it, the latest moment that
 * a GPU allows; until then the place in shared memory holds NaN bytes. */
#include "tests/double/runtime/core.h"

#include <cstring>
#include <deque>

namespace
{
struct copy {
  void *to;
  const void *from;
  size_t bytes;
  bool valid;
};
typedef std::vector<copy> group;
enum { BLOCK_THREADS = 1024 };

/* Of the threads of the running block: closed groups, oldest first, and the open one. */
std::deque<group> closed[BLOCK_THREADS];
group open_group[BLOCK_THREADS];
int64_t launch;
int block = -1, used; /* threads of that block so far that have copied, at most */

/* Number of the running thread. */
int enter()
{
  tt_double::moment now = tt_double::moment_of_thread();
  if (now.launch != launch || now.block != block) {
    for (int t = 0; t < used; t++) {
      bool left = !open_group[t].empty();
      for (const group &g : closed[t]) left |= !g.empty();
      if (left) tt_double::fail_hard("an earlier block has ended without waiting for its copies");
      closed[t].clear();
    }
    launch = now.launch;
    block = now.block;
    used = 0;
  }
  int thread = now.warp * 32 + now.lane;
  if (used <= thread) used = thread + 1;
  return thread;
}
} // namespace

void tt_double_copy_async(void *to, const void *from, size_t bytes, bool valid)
{
  size_t offset;
  int t = enter();
  tt_double_check_alignment(to, bytes);
  tt_double_check_alignment(from, bytes);
  if (!tt_double::shared_offset(to, &offset))
    tt_double::fail_hard("cp.async to an address that is not in shared memory");
  if (valid) tt_double::check_device_range(from, bytes, false, "cp.async");
  memset(to, 0xFF, bytes);
  open_group[t].push_back({to, from, bytes, valid});
}

void tt_double_copy_commit()
{
  int t = enter();
  closed[t].push_back(std::move(open_group[t]));
  open_group[t].clear();
}

void tt_double_copy_wait(int newest)
{
  int t = enter();
  for (; (int)closed[t].size() > newest; closed[t].pop_front())
    for (const copy &c : closed[t].front()) {
      if (c.valid)
        memcpy(c.to, c.from, c.bytes);
      else
        memset(c.to, 0, c.bytes);
    }
}
