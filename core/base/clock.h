/* clock.h — a monotonic clock, and the time of day as text. */
#ifndef TT_CLOCK_H
#define TT_CLOCK_H
#include <time.h>

/* Seconds of CLOCK_MONOTONIC; only differences have a meaning. */
static inline double tt_monotonic_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The current time as 2026-01-31T12:00:00Z (ISO 8601, UTC). Returns text. */
static inline const char *tt_utc_text(char text[32])
{
  time_t now = time(NULL);
  struct tm utc;
  text[0] = '\0';
  if (gmtime_r(&now, &utc)) strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}
#endif
