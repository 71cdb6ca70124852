/* clock.c — see clock.h. */
#include "core/base/clock.h"

#include <time.h>

double tt_monotonic_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *tt_utc_text(char text[32])
{
  time_t now = time(NULL);
  struct tm utc;
  text[0] = '\0';
  if (gmtime_r(&now, &utc)) strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}
