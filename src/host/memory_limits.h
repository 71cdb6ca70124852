/* memory_limits.h — memory that the ranks may still use, and whether a plan fits into it. */
#ifndef TT_MEMORY_LIMITS_H
#define TT_MEMORY_LIMITS_H
#include "mpi/comm.h"

/* What limits the memory of a process:
 *   machine  MemAvailable and SwapFree of /proc/meminfo
 *   group    the control group (v1 or v2) with the least memory left, among those of the process
 *            and their parents; file pages that the kernel can drop do not count as used
 *   process  RLIMIT_AS minus the present address space */
typedef enum tt_memory_limit_kind {
  TT_MEMORY_MACHINE,
  TT_MEMORY_GROUP,
  TT_MEMORY_PROCESS,
  TT_MEMORY_LIMITS
} tt_memory_limit_kind;

typedef struct tt_memory_limit {
  double bytes;   /* left; INFINITY = not limited or not known */
  uint64_t scope; /* processes with the same scope share the bytes */
  char name[256]; /* "the memory of this machine" */
} tt_memory_limit;

/* root  "" ; tests give a directory with copies of /proc and /sys. Local. */
void tt_memory_limits_local(const char *root, tt_memory_limit limit[TT_MEMORY_LIMITS]);

/* The limit with the fewest bytes. Local. */
const tt_memory_limit *tt_memory_least_local(const tt_memory_limit limit[TT_MEMORY_LIMITS]);

/* Collective. Check that all ranks that share a limit can allocate the bytes that each of them
 * still needs. Errors: MEM; the message has both numbers and what to do. */
tt_err tt_memory_check(tt_comm *c, double bytes);

/* "1.5 GiB", for messages. Returns text. Local. */
const char *tt_memory_text(double bytes, char text[32]);
#endif
