/* processor.c — name and memory of the processor, mode for denormal numbers. */
#include "src/cpu/cpu_internal.h"

#include "core/base/floating.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Model name from /proc/cpuinfo, "Intel(R) Xeon(R) ..."; "processor" if there is none. */
static void processor_name(char *name, size_t capacity)
{
  char line[512];
  snprintf(name, capacity, "processor");
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (!f) return;
  while (fgets(line, (int)sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(name, capacity, "%.*s", (int)capacity - 1, colon + 1 + strspn(colon + 1, " \t"));
    break;
  }
  fclose(f);
}

tt_err tt_cpu_describe(int device, tt_device_info *out)
{
  memset(out, 0, sizeof *out);
  if (device != 0) return TT_FAIL(UNAVAILABLE, "the cpu engine has device 0, not %d", device);
  processor_name(out->name, sizeof out->name);
  out->total_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
  return TT_OK;
}

unsigned tt_cpu_flush_denormals(void)
{
#if defined(__x86_64__)
  unsigned old = _mm_getcsr();
  _mm_setcsr(TT_FLOATING_DEFAULT | 0x8040); /* flush to zero, denormals are zero */
  return old;
#else
  return 0;
#endif
}

void tt_cpu_restore_denormals(unsigned old)
{
#if defined(__x86_64__)
  _mm_setcsr(old);
#else
  (void)old;
#endif
}
