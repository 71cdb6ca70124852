/* memory_limits.c — see memory_limits.h. */
#include "src/host/memory_limits.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

enum { TEXT_ROOM = 16384 };
/* cgroup v1 writes "no limit" as the largest multiple of the page size. */
static const double unlimited_v1 = 1e18;

const char *tt_memory_text(double bytes, char text[32])
{
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024.0 && u < 4; u++) bytes /= 1024.0;
  snprintf(text, 32, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
  return text;
}

/* The file root/a/b as text, "" if it cannot be read. Returns text. */
static const char *read_file(const char *root, const char *a, const char *b, char text[TEXT_ROOM])
{
  char path[TT_PATH_MAX];
  int n = snprintf(path, sizeof path, "%s%s%s", root, a, b);
  if (n >= (int)sizeof path || tt_file_read_text(path, text, TEXT_ROOM)) text[0] = '\0';
  return text;
}

/* The number after `key` at the beginning of a line; `otherwise` if there is none. */
static double number_after(const char *text, const char *key, double otherwise)
{
  size_t length = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    char *end;
    if (strncmp(line, key, length) != 0) continue;
    double value = strtod(line + length, &end);
    return end > line + length ? value : otherwise;
  }
  return otherwise;
}

static void limit_of_machine(const char *root, tt_memory_limit *out)
{
  char text[TEXT_ROOM], host[256] = "";
  read_file(root, "/proc/meminfo", "", text);
  gethostname(host, sizeof host - 1);
  out->bytes =
      1024.0 * (number_after(text, "MemAvailable:", INFINITY) + number_after(text, "SwapFree:", 0));
  out->scope = XXH3_64bits(host, strlen(host));
  snprintf(out->name, sizeof out->name, "the memory of this machine");
}

/* The files of one version of control groups. */
typedef struct group_files {
  const char *controller; /* in /proc/self/cgroup, ":memory:" or "::" */
  const char *mounts[2];
  const char *limit, *used, *inactive, *active; /* files of a group; keys of memory.stat */
} group_files;

static const group_files versions[] = {{":memory:",
                                        {"/sys/fs/cgroup/memory", NULL},
                                        "/memory.limit_in_bytes",
                                        "/memory.usage_in_bytes",
                                        "total_inactive_file",
                                        "total_active_file"},
                                       {"0::",
                                        {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
                                        "/memory.max",
                                        "/memory.current",
                                        "inactive_file",
                                        "active_file"}};

/* Bytes left in one group; INFINITY if it has no limit or does not exist ("max" is no number). */
static double left_in_group(const char *root, const group_files *v, const char *group)
{
  char text[TEXT_ROOM];
  double limit = number_after(read_file(root, group, v->limit, text), "", INFINITY);
  if (limit >= unlimited_v1) return INFINITY;
  double used = number_after(read_file(root, group, v->used, text), "", 0);
  read_file(root, group, "/memory.stat", text);
  used -= number_after(text, v->inactive, 0) + number_after(text, v->active, 0);
  return limit - fmax(used, 0);
}

/* Look at a group and its parents up to the mount. In a container the group may not exist there:
 * then the mount itself is the group. */
static void look_at_groups(const char *root, const group_files *v, const char *mount,
                           const char *group, tt_memory_limit *out)
{
  char path[TT_PATH_MAX], host[256] = "";
  size_t shortest = strlen(mount);
  gethostname(host, sizeof host - 1);
  if (snprintf(path, sizeof path, "%s%s", mount, group) >= (int)sizeof path) return;
  for (;;) {
    size_t length = strlen(path);
    while (length > shortest && path[length - 1] == '/') path[--length] = '\0';
    double left = left_in_group(root, v, path);
    if (left < out->bytes) {
      out->bytes = left;
      out->scope = XXH3_64bits_withSeed(path, length, XXH3_64bits(host, strlen(host)));
      snprintf(out->name, sizeof out->name, "the memory limit of the job (control group %.200s)",
               path);
    }
    if (length <= shortest) return;
    *strrchr(path, '/') = '\0';
  }
}

static void limit_of_group(const char *root, tt_memory_limit *out)
{
  char text[TEXT_ROOM], group[TT_PATH_MAX];
  read_file(root, "/proc/self/cgroup", "", text);
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    const char *cursor = strstr(text, versions[i].controller);
    if (!cursor) continue;
    cursor += strlen(versions[i].controller);
    snprintf(group, sizeof group, "%.*s", (int)strcspn(cursor, "\n"), cursor);
    for (int m = 0; m < 2; m++)
      if (versions[i].mounts[m])
        look_at_groups(root, &versions[i], versions[i].mounts[m], group, out);
  }
}

static void limit_of_process(const char *root, tt_memory_limit *out)
{
  char text[TEXT_ROOM];
  struct rlimit most;
  if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY) return;
  read_file(root, "/proc/self/status", "", text);
  out->bytes = (double)most.rlim_cur - 1024.0 * number_after(text, "VmSize:", 0);
  snprintf(out->name, sizeof out->name, "the limit of the address space (ulimit -v)");
}

void tt_memory_limits_local(const char *root, tt_memory_limit limit[TT_MEMORY_LIMITS])
{
  for (int k = 0; k < TT_MEMORY_LIMITS; k++) limit[k] = (tt_memory_limit){.bytes = INFINITY};
  limit_of_machine(root, &limit[TT_MEMORY_MACHINE]);
  limit_of_group(root, &limit[TT_MEMORY_GROUP]);
  limit_of_process(root, &limit[TT_MEMORY_PROCESS]);
}

const tt_memory_limit *tt_memory_least_local(const tt_memory_limit limit[TT_MEMORY_LIMITS])
{
  const tt_memory_limit *least = &limit[0];
  for (int k = 1; k < TT_MEMORY_LIMITS; k++)
    if (limit[k].bytes < least->bytes) least = &limit[k];
  return least;
}

/* What one rank needs, and what it shares with others. */
typedef struct rank_memory {
  double bytes;
  uint64_t scope[TT_MEMORY_LIMITS];
} rank_memory;

/* The limits of this rank, and the ranks of its node: no others share one. */
typedef struct node_memory {
  tt_memory_limit limit[TT_MEMORY_LIMITS];
  int ranks, rank;  /* of the node */
  rank_memory *all; /* [ranks] */
} node_memory;

/* What the ranks that share a limit with this one need of it, and their number. */
static double needed_of(const node_memory *node, int kind, int64_t *sharing)
{
  double sum = 0.0;
  *sharing = 0;
  for (int r = 0; r < node->ranks; r++) {
    int same = node->all[r].scope[kind] == node->limit[kind].scope;
    if (r != node->rank && (kind == TT_MEMORY_PROCESS || !same)) continue;
    sum += node->all[r].bytes;
    ++*sharing;
  }
  return sum;
}

/* The first limit of this rank that the ranks sharing it exceed together. */
static tt_err check_rank_local(const node_memory *node)
{
  char need[32], left[32], host[256] = "?";
  gethostname(host, sizeof host - 1);
  for (int k = 0; k < TT_MEMORY_LIMITS; k++) {
    const tt_memory_limit *mine = &node->limit[k];
    int64_t sharing;
    double sum = needed_of(node, k, &sharing);
    if (sum <= mine->bytes) continue;
    return TT_FAIL(MEM,
                   "%" PRId64 " rank%s on %s need%s %s more memory, but only %s are left of %s: "
                   "use more nodes, or fewer members (`tutti plan` shows the memory of a rank)",
                   sharing, tt_plural(sharing), host, sharing == 1 ? "s" : "",
                   tt_memory_text(sum, need), tt_memory_text(fmax(mine->bytes, 0), left),
                   mine->name);
  }
  return TT_OK;
}

static tt_err gather(tt_comm *c, double bytes, node_memory *node)
{
  rank_memory mine = {.bytes = bytes};
  *node = (node_memory){.ranks = tt_comm_node_ranks(c), .rank = tt_comm_node_rank(c)};
  tt_memory_limits_local("", node->limit);
  for (int k = 0; k < TT_MEMORY_LIMITS; k++) mine.scope[k] = node->limit[k].scope;
  tt_err e = tt_agree(c, TT_ALLOC(node->all, node->ranks));
  if (!e) tt_node_allgather(c, &mine, sizeof mine, node->all);
  return e;
}

tt_err tt_memory_check(tt_comm *c, double bytes)
{
  node_memory node;
  tt_err e = gather(c, bytes, &node);
  if (!e) e = tt_agree(c, check_rank_local(&node));
  tt_free(node.all);
  return e;
}
