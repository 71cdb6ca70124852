/* test_memory.c — the memory that is left: /proc/meminfo, control groups of both versions, limits of
 * the process. */
#include "core/base/directory.h"
#include "src/host/memory_limits.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char root[] = "root";
static const double mib = 1048576.0;

/* Write root/path with its directories. */
static void put(const char *path, const char *text)
{
  char file[512], directory[512];
  snprintf(file, sizeof file, "%s%s", root, path);
  snprintf(directory, sizeof directory, "%s", file);
  *strrchr(directory, '/') = '\0';
  TT_CHECK_OK(tt_directory_create(directory));
  put_text(file, text);
}

static tt_memory_limit limit_of(tt_memory_limit_kind kind)
{
  tt_memory_limit limit[TT_MEMORY_LIMITS];
  tt_memory_limits_local(root, limit);
  return limit[kind];
}

TT_TEST (the_machine_has_available_memory_and_swap) {
  assert_true(isinf(limit_of(TT_MEMORY_MACHINE).bytes));
  put("/proc/meminfo", "MemTotal:  4096 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\n"
                       "SwapTotal: 9 kB\nSwapFree:  1024 kB\n");
  TT_CHECK(limit_of(TT_MEMORY_MACHINE).bytes, ==, 3 * mib);
}

TT_TEST (a_group_of_version_1_is_limited_by_its_parent) {
  put("/proc/self/cgroup", "7:pids:/\n4:memory:/job/step\n0::/\n");
  assert_true(isinf(limit_of(TT_MEMORY_GROUP).bytes));
  put("/sys/fs/cgroup/memory/job/step/memory.limit_in_bytes", "9223372036854771712\n");
  assert_true(isinf(limit_of(TT_MEMORY_GROUP).bytes));
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8388608\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "5242880\n");
  TT_CHECK(limit_of(TT_MEMORY_GROUP).bytes, ==, 3 * mib);
  put("/sys/fs/cgroup/memory/job/memory.stat",
      "cache 1\ninactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  TT_CHECK(limit_of(TT_MEMORY_GROUP).bytes, ==, 5 * mib);
  TT_CHECK_HAS(limit_of(TT_MEMORY_GROUP).name, "control group /sys/fs/cgroup/memory/job)");
}

TT_TEST (a_group_of_version_2_is_limited_by_the_tightest) {
  put("/proc/self/cgroup", "0::/slurm/job/task\n");
  put("/sys/fs/cgroup/slurm/job/task/memory.max", "max\n");
  put("/sys/fs/cgroup/slurm/job/memory.max", "8388608\n");
  put("/sys/fs/cgroup/slurm/job/memory.current", "0\n");
  put("/sys/fs/cgroup/slurm/memory.max", "6291456\n");
  put("/sys/fs/cgroup/slurm/memory.current", "4194304\n");
  put("/sys/fs/cgroup/slurm/memory.stat", "inactive_file 1048576\nactive_file 0\n");
  TT_CHECK(limit_of(TT_MEMORY_GROUP).bytes, ==, 3 * mib);
  TT_CHECK_HAS(limit_of(TT_MEMORY_GROUP).name, "control group /sys/fs/cgroup/slurm)");
}

TT_TEST (in_a_container_the_mount_is_the_group) {
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "2097152\n");
  put("/sys/fs/cgroup/memory.current", "1048576\n");
  TT_CHECK(limit_of(TT_MEMORY_GROUP).bytes, ==, 1 * mib);
  put("/proc/self/cgroup", "0::/docker/0123/not/mounted/here\n");
  TT_CHECK(limit_of(TT_MEMORY_GROUP).bytes, ==, 1 * mib);
}

TT_TEST (the_address_space_counts_what_is_in_use) {
  struct rlimit before, most;
  put("/proc/self/status", "VmPeak:  9 kB\nVmSize:  1048576 kB\n");
  assert_true(isinf(limit_of(TT_MEMORY_PROCESS).bytes));
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  most = before;
  most.rlim_cur = (rlim_t)1 << 40;
  assert_int_equal(setrlimit(RLIMIT_AS, &most), 0);
  double left = limit_of(TT_MEMORY_PROCESS).bytes;
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  TT_CHECK(left, ==, 1099511627776.0 - 1073741824.0);
}

TT_TEST (the_least_limit_counts) {
  tt_memory_limit limit[TT_MEMORY_LIMITS] = {{.bytes = 3}, {.bytes = 1}, {.bytes = INFINITY}};
  assert_ptr_equal(tt_memory_least_local(limit), &limit[1]);
}

TT_SUITE(enter_folder, NULL)
