/* clock.h — a monotonic clock, and the time of day as text. */
#ifndef TT_CLOCK_H
#define TT_CLOCK_H
#include "core/base/host_device.h"

TT_BEGIN_C

/* Seconds of CLOCK_MONOTONIC; only differences have a meaning. */
double tt_monotonic_seconds(void);

/* The current time as 2026-01-31T12:00:00Z (ISO 8601, UTC). Returns text. */
const char *tt_utc_text(char text[32]);
TT_END_C
#endif
