/* clock.h — time: a clock that never jumps, and the date for files. Floor 0. */
#ifndef TT_CLOCK_H
#define TT_CLOCK_H
#ifdef __cplusplus
extern "C" {
#endif

/* Seconds on a clock that never jumps; where it starts is not defined. */
double tt_monotonic_seconds(void);

/* The time now as 2026-01-31T12:00:00Z (ISO 8601, UTC). Returns text. */
const char *tt_utc_text(char text[32]);
#ifdef __cplusplus
}
#endif
#endif
