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

/* What a rank still needs, and what it may use if ranks that share a limit get equal parts. */
typedef struct tt_memory_need {
  double memory;
  double stored; /* in files that are mapped: they count against the address space only */
} tt_memory_need;
typedef struct tt_memory_share {
  double memory, address; /* memory and files together; INFINITY = no limit */
  int fits;               /* 1: the needs of all ranks fit, the same on all ranks */
} tt_memory_share;

/* Collective. The share of this rank, and whether these needs fit. Errors: MEM. */
tt_err tt_memory_share_of_rank(tt_comm *c, const tt_memory_need *need, tt_memory_share *out);

/* Collective. Check that all ranks that share a limit can allocate what each of them still needs.
 * Errors: MEM; the message has both numbers and what to do. */
tt_err tt_memory_check(tt_comm *c, const tt_memory_need *need);

/* "1.5 GiB", for messages. Returns text. Local. */
const char *tt_memory_text(double bytes, char text[32]);
#endif
